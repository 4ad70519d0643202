/**
 * JSON-RPC messages as objects: the few words of the envelope that svc must read. What it only passes on stays a frame
 * (frame.ts).
 */
import { RequestError } from "../lib/errors.ts"
import { JsonNumber, parseExact } from "../lib/json.ts"

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

/** Whether a value is a request's id or a progress token. */
export const isId = (value: unknown): value is Id =>
  typeof value === "string" || typeof value === "number" || value instanceof JsonNumber

/** The key of an id in a table: its JSON text, so that ids are the same where they are written the same. */
export const keyOfId = (id: Id): string => JSON.stringify(id)

export const isRequest = (message: Message): message is Request => "method" in message && "id" in message
export const isResponse = (message: Message): message is Response => !("method" in message)

/**
 * A parsed JSON value as one message. Throws a RequestError (-32600) unless it is exactly one: a request, a notification, a
 * result or an error. A `null` id on a request is refused, as MCP does. basic: Messages.
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
    if (params !== undefined && !isObject(params))
      throw new RequestError("invalid_request", '"params" must be an object')
    if ("id" in value && !isId(id)) throw new RequestError("invalid_request", '"id" must be a string or a number')
    return value as Request | Notification
  }
  if ("result" in value || isObject(value.error)) return value as Response
  throw new RequestError("invalid_request", "A JSON-RPC message must have a method, a result or an error")
}

/** JSON text as a value, with its numbers as written. Throws a RequestError (-32700) that says nothing of the text. */
export function parseJson(text: string): unknown {
  try {
    return parseExact(text)
  } catch (cause) {
    throw new RequestError("parse", "The body is not valid JSON", undefined, { cause })
  }
}

/** A value of any type as text. `String` throws where an object of a peer has a member called `toString`. */
export const asText = (value: unknown): string =>
  typeof value === "string" ? value : (JSON.stringify(value) ?? "undefined")

/** The `_meta` of a message's params, or undefined. */
export function metaOf(params: Params | undefined): Params | undefined {
  const meta = params?._meta
  return isObject(meta) ? meta : undefined
}

/**
 * The id of a request of which the first and the last bytes are left, where it stands there in the top-level object: behind
 * its opening brace, or before the closing one.
 */
export function idAtEdges(edges: string): Id | undefined {
  const found = HEAD_ID.exec(edges) ?? TAIL_ID.exec(edges)
  return found === null ? undefined : (parseExact(found[1] as string) as Id)
}

/** A success response as text; `result` is JSON text. */
export const resultText = (id: Id, result: string): string =>
  `{"jsonrpc":"2.0","id":${JSON.stringify(id)},"result":${result}}`

/** An error response as text. An id of `undefined` is left out, as for a message whose id could not be read. */
export function errorText(id: Id | undefined, code: ErrorObject["code"], message: string, data?: unknown): string {
  const error = data === undefined ? { code, message } : { code, message, data }
  return JSON.stringify(id === undefined ? { jsonrpc: "2.0", error } : { jsonrpc: "2.0", id, error })
}

/** A notification as text. */
export const notificationText = (method: string, params?: Params): string =>
  JSON.stringify(params === undefined ? { jsonrpc: "2.0", method } : { jsonrpc: "2.0", method, params })

/** Whether a task with this status is over. 2025-11-25: Tasks, Task Status Lifecycle. */
export const isTerminal = (status: unknown): boolean => TERMINAL.includes(status)

// ---

const TERMINAL: readonly unknown[] = ["completed", "failed", "cancelled"]

const ID = '("(?:[^"\\\\\\p{Cc}]){0,200}"|-?(?:0|[1-9][0-9]{0,199})(?:\\.[0-9]{1,199})?(?:[eE][-+]?[0-9]{1,9})?)'
const VERSION = '"jsonrpc"\\s*:\\s*"2\\.0"'
const HEAD_ID = new RegExp(`^\\s*\\{\\s*(?:${VERSION}\\s*,\\s*)?"id"\\s*:\\s*${ID}\\s*,`, "u")
const TAIL_ID = new RegExp(`,\\s*"id"\\s*:\\s*${ID}\\s*(?:,\\s*${VERSION}\\s*)?\\}\\s*$`, "u")
