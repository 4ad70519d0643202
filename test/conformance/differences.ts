/**
 * The scenarios that pass directly and not through svc, each with its reason. An entry that does not occur, or a
 * difference without an entry, fails the run.
 */
import type { ClientRow, ServerRow } from "./rows.ts"

/** `inherent`: no aggregator could pass, for the reason given. `open`: svc could, and does not yet. */
export type Difference = {
  readonly kind: "inherent" | "open"
  readonly reason: string
  readonly scenarios: readonly string[]
  /** The rows in words, for the page. */
  readonly where: string
} & (
  | { readonly side: "server"; matches(row: ServerRow): boolean }
  | { readonly side: "client"; matches(row: ClientRow): boolean }
)

export const DIFFERENCES: readonly Difference[] = [
  {
    kind: "inherent",
    reason: "a legacy server's requests have no keys that svc could preserve, so svc assigns its own",
    scenarios: ["input-required-result-basic-elicitation"],
    where: "a server in the legacy era, a client of 2026-07-28",
    side: "server",
    matches: (row) => isLegacyToModern(row) && row.server !== "sdk-1x",
  },
  {
    kind: "inherent",
    reason: "a legacy server learns the capabilities of its client only once, at `initialize`, and its client is svc",
    scenarios: ["input-required-result-capability-check"],
    where: "a server in the legacy era, a client of 2026-07-28",
    side: "server",
    matches: (row) => isLegacyToModern(row) && row.server !== "sdk-1x",
  },
  {
    kind: "inherent",
    reason: "the server does not have the tools and prompts that these scenarios of a later revision call",
    scenarios: [
      "server-stateless",
      "input-required-result-basic-elicitation",
      "input-required-result-basic-sampling",
      "input-required-result-basic-list-roots",
      "input-required-result-request-state",
      "input-required-result-multiple-input-requests",
      "input-required-result-multi-round",
      "input-required-result-non-tool-request",
      "input-required-result-result-type",
      "input-required-result-tampered-state",
      "input-required-result-capability-check",
    ],
    where: "`sdk-1x`, a client of 2026-07-28",
    side: "server",
    matches: (row) => isLegacyToModern(row) && row.server === "sdk-1x",
  },
  {
    kind: "inherent",
    reason: "the server's own SDK removes these keywords from the schema, so the scenario fails without svc, too",
    scenarios: ["json-schema-2020-12"],
    where: "`sdk-1x`",
    side: "server",
    matches: ({ server, era }) => server === "sdk-1x" && era !== "refused",
  },
  {
    kind: "inherent",
    reason: "the server has no tool with a parameter that a header repeats",
    scenarios: ["http-custom-header-server-validation"],
    where: "`sdk-1x`, a client of 2026-07-28",
    side: "server",
    matches: (row) => isLegacyToModern(row) && row.server === "sdk-1x",
  },
  {
    kind: "inherent",
    reason:
      "both scenarios pick a tool from the list, which has only the search tools at this address; for `http-header-validation`, the suite also drops `?tools=search` from the URL",
    scenarios: ["json-schema-2020-12", "http-header-validation"],
    where: "`?tools=search`",
    side: "server",
    matches: ({ tools }) => tools === "search",
  },
  {
    kind: "inherent",
    reason:
      "this server's tools send requests to their client only in the legacy era, which `protocolVersion` excludes",
    scenarios: [
      "tools-call-sampling",
      "tools-call-elicitation",
      "elicitation-sep1034-defaults",
      "elicitation-sep1330-enums",
    ],
    where: "`sdk-2x` pinned to `2026-07-28`, a client of 2025-11-25",
    side: "server",
    matches: ({ server, mode, revision }) => server === "sdk-2x" && mode === "2026-07-28" && revision === "2025-11-25",
  },
  {
    kind: "inherent",
    reason:
      "svc serves each client over a connection of the client's era, so it sends `initialize` to find out whether the server also speaks the legacy era; the scenario counts this request as one without the headers and `_meta` of the modern era",
    scenarios: ["request-metadata", "http-standard-headers"],
    where: "scenarios of 2026-07-28 in mode `auto`, a legacy client of svc",
    side: "client",
    matches: ({ revision, mode, client }) => revision === "2026-07-28" && mode === "auto" && client === "legacy",
  },
]

// ---

function isLegacyToModern({ era, revision }: ServerRow): boolean {
  return era === "legacy" && revision === "2026-07-28"
}
