/** The rows of the conformance matrix. */
import { REVISIONS, type Revision } from "./suite.ts"

export type ServerName = "own-1x" | "own-2x" | "sdk-1x" | "sdk-2x" | "skills-1x" | "skills-2x" | "tasks-2x"
/** Servers of one family pass the same scenarios: those of a revision, or those of an extension. */
export type Family = "own" | "sdk" | "skills" | "tasks"
export type Mode = "auto" | "legacy" | "2026-07-28"

/** One server behind svc, and the revision that the suite's client speaks to svc. */
export type ServerRow = {
  readonly server: ServerName
  readonly family: Family
  readonly transport: "stdio" | "http"
  readonly mode: Mode
  /** Whether the address lists all tools, or the search tools: the suite then calls tools that are not listed. */
  readonly tools: "all" | "search"
  /** The eras in which svc speaks to the server. */
  readonly era: "legacy" | "modern" | "both" | "refused"
  readonly revision: Revision
}

/** svc as the client of the suite's mock servers. `client` is the era of the client that svc serves meanwhile. */
export type ClientRow = {
  readonly revision: Revision | "2025-03-26" | "extensions"
  readonly mode: Mode
  readonly client: "legacy" | "modern"
  readonly backends: 1 | 3
}

/** A server over stdio behind three replicas of svc: each runs its own process, or one runs the only one. */
export type ReplicaRow = {
  readonly server: "own-1x" | "own-2x"
  readonly processes: "one each" | "one"
  readonly revision: Revision
}

const MODES = ["auto", "legacy", "2026-07-28"] as const

const PLAIN_ROWS = (
  [
    ["own-1x", "stdio"],
    ["own-1x", "http"],
    ["own-2x", "stdio"],
    ["own-2x", "http"],
    ["sdk-1x", "http"],
    ["sdk-2x", "http"],
  ] as const
).flatMap(([server, transport]) => MODES.flatMap((mode) => rowsOf(server, transport, mode, REVISIONS)))

/** Only a client of 2026-07-28 has the tasks extension. */
const EXTENSION_ROWS = (["stdio", "http"] as const).flatMap((transport) => [
  ...(["skills-1x", "skills-2x"] as const).flatMap((server) => rowsOf(server, transport, "auto", REVISIONS)),
  ...rowsOf("tasks-2x", transport, "auto", ["2026-07-28"]),
])

export const SERVER_ROWS: readonly ServerRow[] = [
  ...PLAIN_ROWS,
  ...PLAIN_ROWS.filter((row) => isQuick(row) && row.transport === "stdio").map((row) => ({
    ...row,
    tools: "search" as const,
  })),
  ...EXTENSION_ROWS,
]

/** The server with which servers of a family are compared, because it speaks the revision. */
export function yardstickOf(family: Family, revision: Revision): ServerName {
  if (family === "skills") return revision === "2025-11-25" ? "skills-1x" : "skills-2x"
  return `${family}-2x`
}

/** The suite's servers speak one era: the mode of the other one has nothing to speak to. */
export const CLIENT_ROWS: readonly ClientRow[] = (["2025-03-26", ...REVISIONS, "extensions"] as const).flatMap(
  (revision) =>
    MODES.filter((mode) => mode !== (revision === "2026-07-28" ? "legacy" : "2026-07-28")).flatMap((mode) =>
      (["legacy", "modern"] as const).flatMap((client) =>
        ([1, 3] as const).map((backends) => ({ revision, mode, client, backends })),
      ),
    ),
)

export const REPLICA_ROWS: readonly ReplicaRow[] = (["own-1x", "own-2x"] as const).flatMap((server) =>
  (["one each", "one"] as const).flatMap((processes) => REVISIONS.map((revision) => ({ server, processes, revision }))),
)

/**
 * The rows that CI runs, in the default mode: our own servers of both generations over both transports, and those of the
 * extensions over stdio.
 */
export function isQuick({ family, transport, mode, tools }: ServerRow): boolean {
  return (family === "own" || (family !== "sdk" && transport === "stdio")) && mode === "auto" && tools === "all"
}

// ---

function rowsOf(
  server: ServerName,
  transport: ServerRow["transport"],
  mode: Mode,
  revisions: readonly Revision[],
): readonly ServerRow[] {
  const family = server.split("-")[0] as Family
  const era = eraOf(server, mode)
  return revisions.map((revision) => ({ server, family, transport, mode, tools: "all", era, revision }))
}

function eraOf(server: ServerName, mode: Mode): ServerRow["era"] {
  if (server.endsWith("1x")) return mode === "2026-07-28" ? "refused" : "legacy"
  if (mode === "auto") return "both"
  return mode === "legacy" ? "legacy" : "modern"
}
