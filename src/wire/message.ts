/**
 * JSON-RPC messages as objects: the members of the envelope that svc reads. Messages that svc only relays stay frames
 * (frame.ts).
 */
import { RequestError } from "../lib/errors.ts"
import { JsonNumber, parseExact } from "../lib/json.ts"
import { complexityOf } from "../lib/json-limits.ts"

export type Id = string | number | JsonNumber
export type Params = { readonly [key: string]: unknown }
export type Request = {
  readonly jsonrpc: "2.0"
  readonly id: Id
  readonly method: string
  readonly params?: Params
  readonly [key: string]: unknown
}
export type Notification = {
  readonly jsonrpc: "2.0"
  readonly method: string
  readonly params?: Params
  readonly [key: string]: unknown
}
export type ErrorObject = { readonly code: number | JsonNumber; readonly message: string; readonly data?: unknown }
export type Response = {
  readonly jsonrpc: "2.0"
  readonly id: Id | null
  readonly result?: unknown
  readonly error?: ErrorObject
  readonly [key: string]: unknown
}
export type Message = Request | Notification | Response

export const isObject = (value: unknown): value is Params =>
  typeof value === "object" && value !== null && !Array.isArray(value) && !(value instanceof JsonNumber)

/** Whether a value can be a request's id or a progress token. */
export const isId = (value: unknown): value is Id =>
  typeof value === "string" || typeof value === "number" || value instanceof JsonNumber

/** Returns the key of an id in a table: its JSON text, so that ids are equal if they are written the same. */
export const keyOfId = (id: Id): string => JSON.stringify(id)

export const isRequest = (message: Message): message is Request => "method" in message && "id" in message
export const isResponse = (message: Message): message is Response => !("method" in message)

/**
 * Returns a parsed JSON value as a message. Throws a RequestError (-32600) unless it is exactly one request, notification,
 * result or error. Rejects a request with a `null` id, as MCP does. Params that are null or an empty array count as absent:
 * clients in several languages write them. basic: Messages.
 */
export function asMessage(value: unknown): Message {
  if (!isObject(value)) throw new RequestError("invalid_request", "A JSON-RPC message must be an object")
  if (value.jsonrpc !== "2.0")
    throw new RequestError("invalid_request", 'A JSON-RPC message must have "jsonrpc": "2.0"')
  const { id, method, params } = value
  if ("result" in value ? "error" in value || method !== undefined : "error" in value && method !== undefined)
    throw new RequestError("invalid_request", 'A JSON-RPC message has only one of "method", "result" and "error"')
  if (method !== undefined) {
    if (typeof method !== "string") throw new RequestError("invalid_request", '"method" must be a string')
    if (params === null || (Array.isArray(params) && params.length === 0)) {
      const { params: _absent, ...rest } = value
      return asMessage(rest)
    }
    if (params !== undefined && !isObject(params))
      throw new RequestError("invalid_request", '"params" must be an object')
    if ("id" in value && !isId(id)) throw new RequestError("invalid_request", '"id" must be a string or a number')
    return value as Request | Notification
  }
  if ("result" in value || isObject(value.error)) return value as Response
  throw new RequestError("invalid_request", "A JSON-RPC message must have a method, a result or an error")
}

/**
 * Parses JSON text; numbers stay as written. Throws a RequestError that does not show the text: -32700 if it is not JSON,
 * -32600 if it is too complex.
 */
export function parseJson(text: string): unknown {
  const complexity = complexityOf(text)
  if (complexity !== undefined) throw new RequestError("invalid_request", `The message is ${complexity}`)
  try {
    return parseExact(text)
  } catch (cause) {
    throw new RequestError("parse", "The body is not valid JSON", undefined, { cause })
  }
}

/** Returns any value as text. `String` would throw for a peer's object with a member called `toString`. */
export const asText = (value: unknown): string =>
  typeof value === "string" ? value : (JSON.stringify(value) ?? "undefined")

/** Returns the `_meta` of a message's params, or undefined. */
export function metaOf(params: Params | undefined): Params | undefined {
  const meta = params?._meta
  return isObject(meta) ? meta : undefined
}

/**
 * Returns the id of a request by its first and last bytes, if the id is there in the top-level object: the first or second
 * member, or the last or last but one.
 */
export function idAtEdges(edges: string): Id | undefined {
  const found = HEAD_ID.exec(edges) ?? TAIL_ID.exec(edges)
  return found === null ? undefined : (parseExact(found[1] as string) as Id)
}

/** Returns the id of a request that was not parsed, as `idAtEdges` does. */
export const idOfText = (text: string): Id | undefined =>
  idAtEdges(text.length <= 2 * EDGE ? text : text.slice(0, EDGE) + text.slice(-EDGE))

/** Returns an id as JSON text. Most ids are numbers, for which `String` is faster. */
export const idText = (id: Id): string => (typeof id === "number" ? String(id) : JSON.stringify(id))

/** Returns a success response as text; `result` is JSON text. */
export const resultText = (id: Id, result: string): string => `{"jsonrpc":"2.0","id":${idText(id)},"result":${result}}`

/** Returns an error response as text; without an id if it is undefined, as for a message with an unreadable id. */
export function errorText(
  id: Id | null | undefined,
  code: ErrorObject["code"],
  message: string,
  data?: unknown,
): string {
  const error = data === undefined ? { code, message } : { code, message, data }
  return JSON.stringify(id === undefined ? { jsonrpc: "2.0", error } : { jsonrpc: "2.0", id, error })
}

/** Returns the id of a request; undefined if the value is not a request. */
export const requestIdOf = (value: unknown): Id | undefined =>
  isObject(value) && "method" in value && isId(value.id) ? value.id : undefined

/** Returns a notification as text. */
export const notificationText = (method: string, params?: Params): string =>
  JSON.stringify(params === undefined ? { jsonrpc: "2.0", method } : { jsonrpc: "2.0", method, params })

/** Whether a task with this status has ended. 2025-11-25: Tasks, Task Status Lifecycle. */
export const isTerminal = (status: unknown): boolean => TERMINAL.includes(status)

// ---

/** Characters of a message at each end in which its id is looked for. */
const EDGE = 512

const TERMINAL: readonly unknown[] = ["completed", "failed", "cancelled"]

const ID = '("(?:[^"\\\\\\p{Cc}]){0,200}"|-?(?:0|[1-9][0-9]{0,199})(?:\\.[0-9]{1,199})?(?:[eE][-+]?[0-9]{1,9})?)'
const VERSION = '"jsonrpc"\\s*:\\s*"2\\.0"'
const HEAD_ID = new RegExp(`^\\s*\\{\\s*(?:${VERSION}\\s*,\\s*)?"id"\\s*:\\s*${ID}\\s*,`, "u")
const TAIL_ID = new RegExp(`,\\s*"id"\\s*:\\s*${ID}\\s*(?:,\\s*${VERSION}\\s*)?\\}\\s*$`, "u")
