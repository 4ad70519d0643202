/**
 * Renders the responses of inbound HTTP that are not results. Every status, JSON-RPC code and `Retry-After` header of an
 * error comes from here, by the one table in lib/errors.ts.
 *
 * 1. The path decides the shape of the body, whichever middleware refuses (`shapeOf`): a JSON-RPC error on MCP paths, problem
 *    details (RFC 9457) on `/api/v1`, `{"error": "…"}` on all other paths.
 * 2. A request body with `{tool, arguments}` is not JSON-RPC: its errors are `{"error": {"code", "message"}}`.
 * 3. The error decides the status and the JSON-RPC code. Only a code of wire/era.ts may replace the table's.
 * 4. Errors that are not svc's own are reported as bugs and rendered as "internal error".
 */
import {
  codesOf,
  errorWord,
  HTTP_STATUS,
  isBug,
  publicMessage,
  RequestError,
  STATUS_PHRASES,
  UnavailableError,
} from "../lib/errors.ts"
import { SESSION_NOT_FOUND } from "../wire/era.ts"
import { errorText, type Id, isObject } from "../wire/message.ts"

export const JSON_HEADERS = { "content-type": "application/json" }

/** The shape of an error's body: a JSON-RPC error, `{error: message}`, `{error: {code, message}}`, or problem details. */
export type ErrorShape = "jsonrpc" | "json" | "tool-invocation" | "problem"

/** How to render an error. */
export type ErrorRendering = {
  readonly shape: ErrorShape
  /** The id of the JSON-RPC request that failed; left out if it is unknown. */
  readonly id?: Id | undefined
  /** A JSON-RPC code of wire/era.ts, instead of the table's. */
  readonly code?: number | undefined
  /** Seconds after which the client may try again. Defaults to what the error states. */
  readonly retryAfter?: number | undefined
  readonly headers?: Readonly<Record<string, string>> | undefined
  /** The status of an answer that reports a failure of a server, in place of the table's. */
  readonly status?: number | undefined
  /** Masks configured secrets in the message. */
  readonly hide?: ((text: string) => string) | undefined
  /** Reports errors that are not svc's own. */
  readonly onbug?: ((error: unknown) => void) | undefined
}

/**
 * A request names a session that svc does not have. Clients open a new one if the answer has this code, and a member `id`: some
 * know neither the status nor other codes.
 */
export class UnknownSessionError extends RequestError {
  constructor(message: string) {
    super("not_found", message)
  }
}

/** Returns the shape of error bodies on a path. */
export const shapeOf = (path: string): ErrorShape => {
  if (MCP_PATH.test(path)) return "jsonrpc"
  return API_PATH.test(path) ? "problem" : "json"
}

/** Renders an error as a response, with `Retry-After` if the client should wait. */
export function errorResponse(error: unknown, rendering: ErrorRendering): Response {
  const { shape, hide, headers, onbug } = rendering
  if (isBug(error)) onbug?.(error)
  const { http, rpc } = codesOf(error)
  const isLost = error instanceof UnknownSessionError
  const { code = isLost ? SESSION_NOT_FOUND : rpc, status = http } = rendering
  const id = rendering.id ?? (isLost ? null : undefined)
  const message = hide === undefined ? publicMessage(error) : hide(publicMessage(error))
  const data = error instanceof RequestError ? error.data : undefined
  const stated = error instanceof UnavailableError ? error.retryAfter : undefined
  const retryAfter = rendering.retryAfter ?? stated ?? (isObject(data) ? secondsOf(data.retryAfter) : undefined)
  const body = bodyOf(shape, { id, code, message, data, retryAfter, status, word: errorWord(error) })
  const type = shape === "problem" ? PROBLEM_HEADERS : JSON_HEADERS
  return new Response(body, { status, headers: { ...type, ...retryHeaders(retryAfter), ...headers } })
}

/** Lets the connection end with a response: its client sends the next request over another one. RFC 9112, 9.6. */
export function endsConnection(response: Response): Response {
  response.headers.set("connection", "close")
  return response
}

/** Escapes text for HTML, between tags and in attributes. */
export const escapeHtml = (text: string): string => text.replace(/[&<>"']/g, (char) => `&#${char.charCodeAt(0)};`)

/** Renders a JSON value as a response. `status` is a success, or comes from the error table. */
export const jsonResponse = (
  body: unknown,
  status: number = HTTP_STATUS.ok,
  headers?: Readonly<Record<string, string>>,
): Response => new Response(JSON.stringify(body), { status, headers: { ...JSON_HEADERS, ...headers } })

/** Accepts a message that has no answer. basic: Streamable HTTP, Sending Messages to the Server. */
export const accepted = (): Response => new Response(null, { status: HTTP_STATUS.accepted })

/** Answers that there is nothing to send. */
export const noContent = (headers?: Readonly<Record<string, string>>): Response =>
  new Response(null, { status: HTTP_STATUS.noContent, headers: headers ?? NO_HEADERS })

/** Returns the Retry-After header; no header if the client need not wait. RFC 9110, 10.2.3. */
export const retryHeaders = (seconds: number | undefined): Readonly<Record<string, string>> =>
  seconds === undefined ? NO_HEADERS : { "retry-after": String(seconds) }

// ---

const PROBLEM_HEADERS = { "content-type": "application/problem+json", "cache-control": "no-store" }
const API_PATH = /^\/api\/v1(?:\/|$)/
const MCP_PATH = /^\/(?:mcp|sse|messages|servers\/[^/]+\/mcp)$/
const NO_HEADERS: Readonly<Record<string, string>> = {}

type ErrorFacts = {
  readonly id: Id | null | undefined
  readonly code: number
  readonly message: string
  readonly data: unknown
  readonly retryAfter: number | undefined
  readonly status: number
  /** The kind of the error. */
  readonly word: string
}

function bodyOf(shape: ErrorShape, { id, code, message, data, retryAfter, status, word }: ErrorFacts): string {
  switch (shape) {
    case "jsonrpc":
      return errorText(id, code, message, data)
    case "json":
      return JSON.stringify(retryAfter === undefined ? { error: message } : { error: message, retryAfter })
    case "tool-invocation":
      return JSON.stringify({ error: { code, message } })
    case "problem":
      // A problem of the type about:blank has the phrase of its status as its title.
      return JSON.stringify({
        type: "about:blank",
        title: STATUS_PHRASES[status] ?? "Error",
        status,
        detail: message,
        code: word,
        ...(isObject(data) ? { data } : {}),
      })
  }
}

const secondsOf = (value: unknown): number | undefined => (typeof value === "number" ? value : undefined)
