/**
 * A transport carries frames to one backend and back, over a child's pipes or HTTP. It knows only the parts of MCP that it
 * needs: method and name for headers, and the id to report a failed request.
 */
import type { Clock } from "../lib/clock.ts"
import { BackendError, messageOf } from "../lib/errors.ts"
import type { Era } from "../wire/era.ts"
import type { OfferFrame } from "../wire/frame.ts"
import type { ProcessExit } from "./supervision.ts"

/**
 * The reason why a transport ended although svc did not close it. `exit`: the process ended. `exitReason`: the line of its
 * stderr that explains the exit. Both are for the operator, not for clients.
 */
export type Loss = { readonly reason: string; readonly exit?: ProcessExit; readonly exitReason?: string }

export type TransportEvents = {
  /**
   * One JSON-RPC message, without the line break. The bytes stay valid and unchanged afterwards. `related` is the number
   * of svc's request on whose stream the message came, if the transport has a stream for each request.
   */
  onframe(frame: Uint8Array, related?: number): void
  /**
   * Offers a long unfinished message to the owner of the request that it answers, which takes `head`, all that has arrived, and
   * returns a sink for the rest; or returns undefined to have the message buffered whole.
   */
  readonly onlarge?: OfferFrame
  /** A message past the size limit was dropped. `edges` are its first and last bytes. */
  ondropped(edges: Uint8Array, related?: number): void
  /** A process printed text on stdout that cannot be a message. */
  onnoise?(): void
  /** The transport is lost. Called at most once, and not after `close()`. */
  onclose(loss: Loss): void
  /** Whether the request still waits for its response: otherwise a stream that ended is not resumed. */
  isPending?(number: number): boolean
  /** The request will get no response: it could not be sent, or its stream ended early. */
  onfail?(number: number, error: Error): void
}

/** The message for a server of another replica that cannot be used at the moment, with advice. */
export const TAKEN_OVER =
  "is not run by any replica of svc at the moment, because the one that ran it has stopped it or cannot be reached; another takes it over as soon as the replicas can agree: try again in a moment"

/** A request that the replica with the server did not accept. No server has seen it, so the next owner may get it. */
export class UndeliveredError extends BackendError {
  constructor(server: string, options?: ErrorOptions) {
    super(server, TAKEN_OVER, options)
  }
}

/** A server did not answer a request in time. */
export class TimedOutError extends BackendError {}

/** Receives reports of a reader about messages past the size limit. */
export type OversizeWatch = {
  /** A message passed the limit and has not ended. */
  onlong(): void
  /** The message ended. `edges` are its first and last bytes. */
  ondropped(edges: Uint8Array): void
}

/**
 * Calls `ondropped` for a message past the limit when it ends: only its own request fails. Calls `onendless` if it does not end
 * within a second: svc cannot read any later message on the line.
 */
export function watchOversize(
  clock: Clock,
  ondropped: (edges: Uint8Array) => void,
  onendless: () => void,
): OversizeWatch {
  let cancel: () => void = () => undefined
  return {
    onlong() {
      cancel = clock.after(ENDLESS_MS, onendless)
    },
    ondropped(edges) {
      cancel()
      ondropped(edges)
    },
  }
}

const ENDLESS_MS = 1000

/** The facts about a frame that a transport with headers needs. */
export type Outgoing = {
  /** The number of svc's request; undefined for notifications and responses. */
  readonly number: number | undefined
  readonly method: string | undefined
  /** Headers mirrored from the body (`Mcp-Name`, `Mcp-Param-*`), for modern servers. */
  readonly headers?: Readonly<Record<string, string>>
}

export type ClientTransport = {
  readonly pid: number | undefined
  /** Sends one frame, without a line break. Never throws: a failure becomes `onfail` or `onclose`. */
  send(frame: Uint8Array | string, about: Outgoing): void
  /** Bytes accepted and not yet read by the backend. */
  readonly buffered: number
  /** Whether a remote server holds a session for the transport. */
  readonly hasSession?: boolean
  /** Abandons a request, tells the server the reason, and closes its stream. Present only if the transport has a stream for each request. */
  abandon?(number: number, reason?: string): void
  /** Tells the transport the negotiated revision: remote transports put it into headers and open their streams. */
  settle?(era: Era, protocolVersion: string): void
  /**
   * Resolves to whether the process has lived for a moment: only then may an exit be the answer to a request. Present only
   * for a process.
   */
  lived?(): Promise<boolean>
  /** Ends the transport. Resolves when the process is observed dead or the connections are closed. */
  close(): Promise<void>
}

/** The requirement of a server that answers 401, as users see it. */
export type UnauthorizedReason = "sign-in needed" | "token needed" | "credentials refused"

/** The server requires authorization (401). The error is no evidence of the server's era or health. */
export class UnauthorizedError extends Error {
  override readonly name = "UnauthorizedError"
  readonly refusal: UnauthorizedReason = "sign-in needed"
  constructor(
    message: string,
    /** The address at which a user authorizes svc, if it is known. */
    readonly authorizationUrl?: string,
    options?: ErrorOptions,
  ) {
    super(message, options)
  }
}

/** Returns the message for a server that requires authorization, if no browser can return to this process. */
export const loginHint = (name: string): string => `sign-in needed; run \`svc auth login ${name}\``

/** Returns the command that puts a token into a header. svc reads the variable, for example from `.env`. */
export const headerCommand = (name: string): string => `svc mcp edit ${name} -H 'Authorization: Bearer \${TOKEN}'`

/** The server requires a token, and names no authorization server: only a header helps, not a sign-in. */
export class TokenRequiredError extends UnauthorizedError {
  override readonly refusal = "token needed"
  constructor(name: string, options?: ErrorOptions) {
    const text = `requires a token in a header (401), and offers no sign-in; \`${headerCommand(name)}\` sets it`
    super(text, undefined, options)
  }
}

/** The server refused the credentials in the configured headers: only other headers help, not a sign-in. */
export class HeadersRefusedError extends UnauthorizedError {
  override readonly refusal = "credentials refused"
  constructor(options?: ErrorOptions) {
    super("refused the credentials in headers (401)", undefined, options)
  }
}

/**
 * The server did not answer, or cannot answer now: the next attempt may succeed. A TypeError, because the SDK expects a
 * TypeError for a network failure.
 */
export class TransientError extends TypeError {
  override readonly name = "TransientError"
  /** The status of the answer; undefined if there was none. */
  readonly status: number | undefined

  constructor(message: string, options: ErrorOptions & { readonly status?: number } = {}) {
    super(message, options)
    this.status = options.status
  }
}

/** The token is valid but lacks a scope for one request (403, insufficient_scope). Other requests still work. */
export class InsufficientScopeError extends UnauthorizedError {}

/** The transport was lost before the connection was ready. */
export class LostError extends BackendError {
  constructor(
    server: string,
    readonly loss: Loss,
    options?: ErrorOptions,
  ) {
    super(server, loss.reason, options)
  }
}

/** Returns the message of an error without the server's name in front, for texts that name the server already. */
export function reasonWithoutName(server: string, error: unknown): string {
  const message = messageOf(error)
  const isNamed = [`${server}: `, `${server} is `, `${server} needs `].some((start) => message.startsWith(start))
  return isNamed ? message.slice(server.length).replace(/^:? /, "") : message
}

/**
 * Whether the text of an error says that the server has forgotten the session between svc and the server. This is no proof:
 * a tool may have sessions of its own.
 */
export const saysSessionIsGone = (text: string): boolean =>
  /\bsession|\b(?:not|un|never)[ -]?(?:been )?initiali[sz]ed|\b(?:re-?)?initiali[sz](?:e|ation) (?:first|again|required)|before initiali[sz]/i.test(
    text,
  )
