/**
 * An answer to a request: the frame, and how the request ended. The code that creates an answer states its outcome, so that
 * readers need not derive it from the bytes.
 */
import type { CreatedTask } from "../catalog/rewrite.ts"
import { codesOf, isBug, publicMessage, RequestError, type RequestFault } from "../lib/errors.ts"
import type { CallOutcome } from "../report/metrics.ts"
import { asBuffer, encode, indexOf } from "../wire/frame.ts"
import { type ErrorObject, errorText, type Id, idText, isObject, resultText } from "../wire/message.ts"
import type { Exchange } from "./client.ts"

export type Answer = {
  /** Empty if the answer has already been sent. */
  readonly frame: Uint8Array | string
  /** Bytes of an answer that has already been sent. */
  readonly sent?: number
  /** Bytes of the server's answer, if parts of it are stored and not in the frame. */
  readonly arrived?: number
  /** The task that a tool call has created, by the server's own id. */
  readonly task?: CreatedTask | undefined
  /**
   * "tool_error" is a result whose `isError` is true. "rate_limited" is a refusal by the `rateLimit` of a server, in such a
   * result if it answers a tool call.
   */
  readonly outcome: CallOutcome
  /**
   * The code of the JSON-RPC error. Also set if svc replaced the error by an `isError` result: then the backend failed, not
   * the tool.
   */
  readonly code?: number
  /** Seconds to wait before repeating a call that a rate limit refused. */
  readonly retryAfter?: number | undefined
}

/** An answer; a promise is made only if something is waited for. */
export type Answering = Answer | Promise<Answer>

/** Returns the number of bytes of an answer. */
export const bytesOf = ({ frame, sent }: Answer): number =>
  sent ?? (typeof frame === "string" ? Buffer.byteLength(frame) : frame.length)

/** Returns a success answer of svc's own; `result` is JSON text. */
export const resultAnswer = (id: Id, result: string): Answer => ({ frame: resultText(id, result), outcome: "ok" })

/** Returns the bytes of a success answer that follow its id; `result` is JSON text. */
export const tailOf = (result: string): Uint8Array => encode(`,"result":${result}}`)

/**
 * Answers with a tail that other answers share. Sends a large tail without copying it: the copy would take longer than
 * everything else.
 */
export function sharedAnswer(id: Id, tail: Uint8Array, exchange: Pick<Exchange, "openBody">): Answer {
  const head = encode(`{"jsonrpc":"2.0","id":${idText(id)}`)
  const body = tail.length < LARGE ? undefined : exchange.openBody?.()
  if (body === undefined) return { frame: Buffer.concat([head, tail]), outcome: "ok" }
  body.write(head)
  body.write(tail)
  body.end()
  return { frame: "", sent: head.length + tail.length, outcome: "ok" }
}

/** Returns a JSON-RPC error, with `code` as the backend wrote it. */
export const errorAnswer = (
  id: Id,
  code: ErrorObject["code"],
  message: string,
  data?: unknown,
  retryAfter?: number,
): Answer => ({ frame: errorText(id, code, message, data), outcome: "error", code: Number(code), retryAfter })

/** Returns the error of a server or client as the answer to a request, with all its members and those of its message. */
export const relayedError = (id: Id, error: ErrorObject, message: object = {}): Answer => ({
  frame: JSON.stringify({ jsonrpc: "2.0", ...message, id, error }),
  outcome: "error",
  code: Number(error.code),
})

/** Returns the error for a mistake of a client. */
export const refusalAnswer = (id: Id, fault: RequestFault, message: string): Answer =>
  errorAnswer(id, codesOf(new RequestError(fault, message)).rpc, message)

/** Returns the answer to a request that failed with one of svc's errors. `hide` masks secrets, `onbug` reports bugs of svc. */
export function failureAnswer(
  id: Id,
  error: unknown,
  { hide, onbug }: { hide(text: string): string; onbug(error: unknown): void },
): Answer {
  if (isBug(error)) onbug(error)
  const data = error instanceof RequestError ? error.data : undefined
  const retryAfter = isObject(data) && typeof data.retryAfter === "number" ? data.retryAfter : undefined
  return errorAnswer(id, codesOf(error).rpc, hide(publicMessage(error)), data, retryAfter)
}

/**
 * The result of a tool call that svc relays unparsed. Searches its bytes for `isError` once, and only if audit or metrics
 * read the outcome.
 */
export class RelayedResult implements Answer {
  private known: CallOutcome | undefined
  constructor(readonly frame: Uint8Array) {}

  get outcome(): CallOutcome {
    this.known ??= statesError(this.frame) ? "tool_error" : "ok"
    return this.known
  }
}

// ---

const NAME = encode('"isError"')
/** The size in bytes above which a copy costs more than a stream. */
const LARGE = 64 * 1024

/** Whether a result has `isError: true`, with or without spaces. A member deeper in the result also counts. */
function statesError(frame: Uint8Array): boolean {
  for (let at = indexOf(frame, NAME); at >= 0; at = indexOf(frame, NAME, at)) {
    at += NAME.length
    if (/^\s{0,4}:\s{0,4}true/.test(asBuffer(frame).toString("latin1", at, at + 16))) return true
  }
  return false
}
