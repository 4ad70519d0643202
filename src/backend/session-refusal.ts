/**
 * Whether a refusal of a request means that a remote server has forgotten the session. Servers say it in many ways: with any
 * status, with an error in an answer, in any words. Hence a ping decides: a server that refuses it too no longer knows the session.
 */
import { RPC_CODE } from "../lib/errors.ts"
import { decode } from "../wire/frame.ts"
import { isObject } from "../wire/message.ts"
import { InsufficientScopeError, saysSessionIsGone, UnauthorizedError } from "./client-transport.ts"
import { HttpStatusError } from "./negotiate.ts"

/** A refusal of a request that was sent in a session. */
export type ServerRefusal = {
  /** The HTTP status; 200 for an error in an answer. */
  readonly status: number
  /** The JSON-RPC error, if there is one. */
  readonly error: RefusalError | undefined
  /** All that the server says. */
  readonly text: string
  /** Passes the refusal on as the outcome of its request. May throw it. */
  passOn(): void
}

export type RefusalError = { readonly id: unknown; readonly code: unknown; readonly message: unknown }

/** Returns the refusal with an error status. */
export const statusRefusal = (
  status: number,
  body: Uint8Array,
  passOn: () => void = () => undefined,
): ServerRefusal => ({
  status,
  error: errorIn(body),
  text: decode(body),
  passOn,
})

/** Returns a refusal that is no message: `error` is the outcome of its request. */
export const otherRefusal = (error: unknown, text: string, status = 200): ServerRefusal => ({
  status,
  error: undefined,
  text,
  passOn() {
    throw error
  },
})

/** Returns the refusal in an answer if it may concern the session, or undefined. */
export function refusalIn(frame: Uint8Array, passOn: () => void): ServerRefusal | undefined {
  // An error has a short answer, and a success needs no parsing.
  if (frame.length > MAX_REFUSAL_BYTES || !Buffer.from(frame.buffer, frame.byteOffset, frame.length).includes(ERROR))
    return undefined
  const value = parsed(frame)
  if (!isObject(value) || value.error === undefined || value.result !== undefined) return undefined
  const error = errorIn(frame)
  const text = decode(frame)
  return concernsRequest(error?.code) && !saysSessionIsGone(text) ? undefined : { status: 200, error, text, passOn }
}

/** Whether a frame answers a request. */
export function isAnswer(frame: Uint8Array): boolean {
  const value = parsed(frame)
  return isObject(value) && (value.result !== undefined || value.error !== undefined)
}

/** Judges the answer to a request that a server in the session can answer. */
export const verdictOf = (frame: Uint8Array): ServerRefusal | "answered" =>
  refusalIn(frame, () => undefined) ?? (isAnswer(frame) ? "answered" : otherRefusal(undefined, decode(frame)))

/** Whether a request and the ping after it were refused because the server has forgotten the session. Pure. */
export function meansLost(
  refusal: ServerRefusal,
  ping: ServerRefusal,
  { answersPings, method }: { readonly answersPings: boolean; readonly method: string },
): boolean {
  if (answersPings || saysSessionIsGone(ping.text)) return true
  // The server may lack pings.
  if (method === "ping" || ping.status !== refusal.status) return false
  if (ping.status !== 200) return true
  // A server without pings says so in an answer: one that answers both with no message at all has left the session.
  const code = ping.error?.code
  return code === refusal.error?.code && (code === undefined || isAboutSession(code))
}

/**
 * Whether a server that has forgotten the session did not execute the request that it refused: it says so, to the ping too, or
 * refuses with a status of a fault of the client, before any message. Pure.
 */
export function wasNotExecuted({ status, error, text }: ServerRefusal, ping: ServerRefusal | undefined): boolean {
  if (saysSessionIsGone(text) && ping?.status === status && ping.error?.code === error?.code) return true
  return status >= 400 && status < 500 && (error?.id == null || isAboutSession(error.code))
}

/** Whether a status is temporary and says nothing about the request: Request Timeout, Too Early, Too Many Requests. */
export const isTemporary = (status: number): boolean => status === 408 || status === 425 || status === 429

/**
 * Returns the refusal in the failure of a request if it may concern the session: a 401 for any reason but a scope that one request
 * needs, or a redirect that svc does not follow, such as to a login.
 */
export function refusalInFailure(error: unknown): ServerRefusal | undefined {
  if (error instanceof UnauthorizedError)
    return error instanceof InsufficientScopeError ? undefined : otherRefusal(error, "", 401)
  const isRedirect = error instanceof HttpStatusError && error.status >= 300 && error.status < 400
  return isRedirect ? otherRefusal(error, "", error.status) : undefined
}

/** Returns the JSON-RPC error in a body, or undefined. */
export function errorIn(body: Uint8Array): RefusalError | undefined {
  const value = parsed(body)
  if (!isObject(value) || value.jsonrpc !== "2.0" || !isObject(value.error)) return undefined
  return { id: value.id, code: value.error.code, message: value.error.message }
}

// ---

const ERROR = '"error"'
const MAX_REFUSAL_BYTES = 16 * 1024

/** Whether an error concerns the request rather than the session: its method, its parameters, a resource, an address to open. */
const concernsRequest = (code: unknown): boolean =>
  code === RPC_CODE.methodNotFound || code === RPC_CODE.invalidParams || code === -32002 || code === -32042

/** Whether servers use a code for an unknown session: Invalid Request, and the codes of the SDKs. */
const isAboutSession = (code: unknown): boolean => code === -32600 || code === -32001 || code === -30001

function parsed(body: Uint8Array): unknown {
  try {
    return JSON.parse(decode(body))
  } catch {
    return undefined
  }
}
