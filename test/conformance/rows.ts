/** The rows of the conformance matrix. */
import { REVISIONS, type Revision } from "./suite.ts"

export type ServerName = "own-1x" | "own-2x" | "sdk-1x" | "sdk-2x"
export type Mode = "auto" | "legacy" | "2026-07-28"

/** One server behind svc, and the revision that the suite's client speaks to svc. */
export type ServerRow = {
  readonly server: ServerName
  readonly family: "own" | "sdk"
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
  readonly revision: Revision | "extensions"
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

const PLAIN_ROWS: readonly ServerRow[] = (
  [
    ["own-1x", "stdio"],
    ["own-1x", "http"],
    ["own-2x", "stdio"],
    ["own-2x", "http"],
    ["sdk-1x", "http"],
    ["sdk-2x", "http"],
  ] as const
).flatMap(([server, transport]) =>
  MODES.flatMap((mode) =>
    REVISIONS.map((revision) => ({
      server,
      family: server.startsWith("own") ? ("own" as const) : ("sdk" as const),
      transport,
      mode,
      tools: "all" as const,
      era: eraOf(server, mode),
      revision,
    })),
  ),
)

export const SERVER_ROWS: readonly ServerRow[] = [
  ...PLAIN_ROWS,
  ...PLAIN_ROWS.filter((row) => isQuick(row) && row.transport === "stdio").map((row) => ({
    ...row,
    tools: "search" as const,
  })),
]

/** The suite's servers speak one era: the mode of the other one has nothing to speak to. */
export const CLIENT_ROWS: readonly ClientRow[] = ([...REVISIONS, "extensions"] as const).flatMap((revision) =>
  MODES.filter((mode) => mode !== (revision === "2026-07-28" ? "legacy" : "2026-07-28")).flatMap((mode) =>
    (["legacy", "modern"] as const).flatMap((client) =>
      ([1, 3] as const).map((backends) => ({ revision, mode, client, backends })),
    ),
  ),
)

export const REPLICA_ROWS: readonly ReplicaRow[] = (["own-1x", "own-2x"] as const).flatMap((server) =>
  (["one each", "one"] as const).flatMap((processes) => REVISIONS.map((revision) => ({ server, processes, revision }))),
)

/** The rows that CI runs: our own servers of both generations over both transports, in the default mode. */
export function isQuick({ family, mode, tools }: ServerRow): boolean {
  return family === "own" && mode === "auto" && tools === "all"
}

// ---

function eraOf(server: ServerName, mode: Mode): ServerRow["era"] {
  if (server.endsWith("1x")) return mode === "2026-07-28" ? "refused" : "legacy"
  if (mode === "auto") return "both"
  return mode === "legacy" ? "legacy" : "modern"
}
