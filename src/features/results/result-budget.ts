/** Decides the budget of a result, and who may read stored results. choice: Large results. */

import type { Client } from "../../call/client.ts"
import type { View } from "../../catalog/catalog.ts"
import type { Scope } from "../../catalog/scope.ts"
import type { ResultBudget } from "../../config/result-budget.ts"
import type { ServerSpec } from "../../config/server-spec.ts"
import { sha256 } from "../../lib/digest.ts"
import { parseExact } from "../../lib/json.ts"
import { replicaIn } from "../../store/replica-id.ts"
import { asText, isObject, metaOf, type Params } from "../../wire/message.ts"
import type { ResultSizes } from "./result-sizes.ts"
import type { ResultStore } from "./result-store.ts"

/** What the parts of this feature share. */
export type ResultsPort = {
  /** The budget if no preset, token or server has one; 0 for none. */
  readonly budget: ResultBudget
  readonly sizes: ResultSizes
  /** Opens the store of large results. Rejects with an UnavailableError if that is not possible. */
  store(): Promise<ResultStore>
  /** Logs a text only the first time. */
  warnOnce(text: string): void
  /** The id of this replica; undefined for a single svc. */
  readonly replica: string | undefined
}

/**
 * Returns how many characters a result of a server may have for a client; undefined for no limit. The first of these that is set
 * applies: preset, token, server, `--result-budget`.
 */
export const budgetFor = (
  scope: Scope,
  { tuning }: Pick<ServerSpec, "tuning">,
  { budget }: Pick<ResultsPort, "budget">,
): number | undefined => (scope.resultBudget ?? tuning.resultBudget ?? budget) || undefined

/** Whether svc offers `read_result` to a client: if any of its servers has a budget. */
export const offersReading = (scope: Scope, view: View, { budget }: Pick<ResultsPort, "budget">): boolean =>
  !view.tools.has(READ_RESULT) &&
  (scope.resultBudget !== undefined
    ? scope.resultBudget > 0
    : Boolean(budget) || view.parts.some(({ spec }) => Boolean(spec.tuning.resultBudget)))

/**
 * Returns the entries of the tools in a view. The entry of a tool with large results and no budget states their size: otherwise
 * clients would truncate them silently.
 */
export function withSizes(
  entries: readonly string[],
  scope: Scope,
  view: View,
  { sizes, budget }: Pick<ResultsPort, "sizes" | "budget">,
): readonly string[] {
  if (sizes.large === 0) return entries
  const specs = new Map(view.parts.map(({ spec }) => [spec.id, spec]))
  const large = [...view.tools].flatMap(([name, route]) => {
    const spec = specs.get(route.id)
    const largest = sizes.largeOf(route.id, route.name)
    const isStated = largest !== undefined && spec !== undefined && budgetFor(scope, spec, { budget }) === undefined
    return isStated ? [{ name, largest, member: `"name":${JSON.stringify(name)}` }] : []
  })
  return entries.map((entry) => {
    // Only these tools are parsed: the list may have thousands of others.
    if (!large.some(({ member }) => entry.includes(member))) return entry
    const tool: unknown = parseExact(entry)
    const found = large.find(({ name }) => isObject(tool) && tool.name === name)
    if (!isObject(tool) || found === undefined) return entry
    const stated = { [META_MAX_RESULT]: Math.min(found.largest, MOST_STATED), ...metaOf(tool) }
    return JSON.stringify({ ...tool, _meta: stated })
  })
}

/** Returns the owner of a client's stored results: its session, or its principal if it has none. */
export const resultOwner = ({ era, principal, id }: Client): string =>
  sha256(JSON.stringify(era === "legacy" ? [principal, id ?? ""] : [principal]), "base64url")

/** Whether a URI names a stored result. */
export const isResultUri = (uri: unknown): uri is string => typeof uri === "string" && RESULT_URI.test(uri)

/** Returns the id of the replica that stored the result in a request; undefined for a single svc and for other requests. */
export function replicaOfResult(method: unknown, { name, uri, arguments: args }: Params): string | undefined {
  if (method === "resources/read") return isResultUri(uri) ? replicaIn(uri.slice(RESULTS.length)) : undefined
  if (method !== "tools/call" || name !== READ_RESULT || !isObject(args)) return undefined
  const id = asText(args.id ?? args.uri ?? "").trim()
  return replicaIn(id.startsWith(RESULTS) ? id.slice(RESULTS.length) : id)
}

export const resultUri = (id: string): string => `${RESULTS}${id}`

export const READ_RESULT = "read_result"

/** The entry of `read_result` in `tools/list`, as JSON text. Its texts are part of every conversation, so each word counts. */
export const READ_RESULT_ENTRY = JSON.stringify({
  name: READ_RESULT,
  description:
    "Read part of a large result that svc stored (svc://results/<id>). Give one of grep, lines, path or range; grep finds where to look.",
  inputSchema: {
    type: "object",
    properties: {
      id: { type: "string", description: "ID or svc://results/ URI" },
      grep: { type: "string", description: "Regular expression (RE2)" },
      context: { type: "integer", description: "Lines around a match, default 2" },
      lines: { type: "string", description: '"100-150", "-20" for the last 20' },
      path: { type: "string", description: "JSONPath, such as $.items[5].name or $.items[?@.id==7]" },
      range: { type: "string", description: 'Bytes: "0-3999", "-500" for the last 500' },
      limit: { type: "integer", description: "Most matches, lines or bytes" },
    },
    required: ["id"],
  },
  annotations: { readOnlyHint: true },
})

// ---

/**
 * The member that states how many characters of a result the client should accept. From: Claude Code, which accepts at most
 * 500,000.
 */
const META_MAX_RESULT = "anthropic/maxResultSizeChars"
const MOST_STATED = 500_000
const RESULTS = "svc://results/"
/** Matches the URIs of stored results. A server may be named `results`, but its resources have other URIs after the name. */
const RESULT_URI = /^svc:\/\/results\/(?:r[0-9a-f]{8})?[0-9a-f]{32}(?:\?|$)/
