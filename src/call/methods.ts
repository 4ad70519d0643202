/** What svc knows of each method of a client: one table, which all code on the way of a request reads. */
import type { ListMethod } from "../catalog/listing.ts"
import type { Era } from "../wire/era.ts"
import type { Request } from "../wire/message.ts"

export type Method = {
  /** The list with the name that its params name. */
  readonly list?: ListMethod
  /** The member of its params that the header `Mcp-Name` repeats. basic: Streamable HTTP, Standard Request Headers. */
  readonly names?: "name" | "uri" | "taskId"
  /** Whether it calls a server: for a tool, a prompt or a resource. Rate limits and the audit log count calls. */
  readonly isCall?: true
  /** Whether its answers have large values that svc never changes. */
  readonly isStreamed?: true
  /** Whether its modern results have cache hints, besides the lists that svc answers. server: Caching; extension: Skills. */
  readonly isCacheable?: true
  /** The only era that has it; each era has its own form of tasks. */
  readonly era?: Era
  /** Whether svc itself answers or handles it, without a server. */
  readonly isOwn?: true
}

/** Returns what svc knows of a method; nothing of a method that it relays unchanged. */
export const methodOf = (method: string): Method => METHODS.get(method) ?? UNKNOWN

/** Whether a method is one of MCP: clients may send any text. */
export const isKnownMethod = (method: string): boolean => METHODS.has(method) || RELAYED.has(method)

/** Whether a request continues a call or a task that a server already has, rather than begin one. */
export const continuesCall = ({ method, params }: Pick<Request, "method" | "params">): boolean =>
  typeof params?.requestState === "string" || method.startsWith("tasks/")

// ---

const UNKNOWN: Method = {}
/** Methods that need nothing. */
const RELAYED: ReadonlySet<string> = new Set(["completion/complete", "server/discover"])

const METHODS: ReadonlyMap<string, Method> = new Map<string, Method>([
  ["tools/call", { list: "tools/list", names: "name", isCall: true, isStreamed: true }],
  ["prompts/get", { list: "prompts/list", names: "name", isCall: true }],
  ["resources/read", { names: "uri", isCall: true, isStreamed: true, isCacheable: true }],
  ["skills/list", { isCacheable: true }],
  ["skills/get", { isCacheable: true }],
  ["tasks/get", { names: "taskId" }],
  ["tasks/update", { names: "taskId" }],
  ["tasks/cancel", { names: "taskId" }],
  ["tasks/result", { era: "legacy" }],
  ["tasks/list", { era: "legacy", isOwn: true }],
  ["initialize", { era: "legacy", isOwn: true }],
  ["ping", { era: "legacy", isOwn: true }],
  ["logging/setLevel", { era: "legacy", isOwn: true }],
  ["resources/subscribe", { era: "legacy", isOwn: true }],
  ["resources/unsubscribe", { era: "legacy", isOwn: true }],
  ["subscriptions/listen", { isOwn: true }],
  ["tools/list", { isOwn: true }],
  ["prompts/list", { isOwn: true }],
  ["resources/list", { isOwn: true }],
  ["resources/templates/list", { isOwn: true }],
  ["notifications/initialized", { isOwn: true }],
  ["notifications/cancelled", { isOwn: true }],
  ["notifications/progress", { isOwn: true }],
  ["notifications/roots/list_changed", { isOwn: true }],
])
