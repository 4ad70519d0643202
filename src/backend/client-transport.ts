/**
 * A transport carries frames to one backend and back, over a child's pipes or HTTP. It knows of MCP only what it
 * needs: method and name for headers, and the id to say which request failed.
 */
import type { Clock } from "../lib/clock.ts"
import { BackendError, messageOf } from "../lib/errors.ts"
import type { Era } from "../wire/era.ts"
import type { FrameSink } from "../wire/frame.ts"
import type { ProcessExit } from "./supervision.ts"

/**
 * Why a transport ended without being closed by svc. `exit`: the process ended. `exitReason`: the line of its stderr that
 * explains the exit. Both are for the operator, not for clients.
 */
export type Loss = { readonly reason: string; readonly exit?: ProcessExit; readonly exitReason?: string }

export type TransportEvents = {
  /**
   * One JSON-RPC message, without the line break. The bytes stay valid and unchanged afterwards. `related` is the number
   * of svc's request on whose stream the message came, if the transport has a stream for each request.
   */
  onframe(frame: Uint8Array, related?: number): void
  /**
   * Offers a message that is long and has not ended to the owner of its request, which takes `head`, all that has come of
   * it, and the rest while it comes. Undefined: it is read whole.
   */
  onlarge?(head: Uint8Array, related?: number): FrameSink | undefined
  /** A message past the size limit was dropped. `edges` are its first and last bytes. */
  ondropped(edges: Uint8Array, related?: number): void
  /** A process printed text on stdout that cannot be a message. */
  onnoise?(): void
  /** The transport is lost. Called once at most, and not after `close()`. */
  onclose(loss: Loss): void
  /** Whether the request still waits for its response: only then is a stream that ended resumed. */
  isPending?(number: number): boolean
  /** The request will get no response: it could not be sent, or its stream ended early. */
  onfail?(number: number, error: Error): void
}

/** Why a server that another replica ran cannot be used at the moment, and what to do. */
export const TAKEN_OVER =
  "is being taken over by another replica of svc, because the one that ran it cannot be reached; try again in a moment"

/** A request that the replica with the server did not accept. Nobody has seen it, so the next owner may get it. */
export class UndeliveredError extends BackendError {
  constructor(server: string, options?: ErrorOptions) {
    super(server, TAKEN_OVER, options)
  }
}

/** How a reader reports messages past the size limit. */
export type OversizeWatch = {
  /** A message passed the limit and has not ended. */
  onlong(): void
  /** The message ended. `edges` are its first and last bytes. */
  ondropped(edges: Uint8Array): void
}

/**
 * Reports a message past the limit that ends: it costs only its own request. Calls `onendless` for one that does not end
 * within a second: no later message of its line can be read.
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

/** What a transport with headers must know of a frame it sends. */
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
  /** Abandons a request and closes its stream. Present only if the transport has a stream for each request. */
  abandon?(number: number): void
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

/** What a server that answers 401 wants, in the words for people. */
export type UnauthorizedReason = "sign-in needed" | "token needed" | "credentials refused"

/** The server requires authorization (401). It says nothing about the server's era or health. */
export class UnauthorizedError extends Error {
  override readonly name = "UnauthorizedError"
  readonly refusal: UnauthorizedReason = "sign-in needed"
  constructor(
    message: string,
    /** The address at which a person authorizes svc, if it is known. */
    readonly authorizationUrl?: string,
    options?: ErrorOptions,
  ) {
    super(message, options)
  }
}

/** Returns the message for a server that requires authorization, if no browser can return to this process. */
export const loginHint = (name: string): string => `sign-in needed; run \`svc auth login ${name}\``

/** Returns the command that puts a token into a header. The variable is svc's: its value is in `.env`. */
export const headerCommand = (name: string): string => `svc mcp edit ${name} -H 'Authorization: Bearer \${TOKEN}'`

/** The server requires a token, and names no authorization server: no sign-in helps, only a header does. */
export class TokenRequiredError extends UnauthorizedError {
  override readonly refusal = "token needed"
  constructor(name: string, options?: ErrorOptions) {
    const text = `requires a token in a header (401), and offers no sign-in; \`${headerCommand(name)}\` sets it`
    super(text, undefined, options)
  }
}

/** The server refused the credentials in the configured headers: no sign-in helps, only other headers do. */
export class HeadersRefusedError extends UnauthorizedError {
  override readonly refusal = "credentials refused"
  constructor(options?: ErrorOptions) {
    super("refused the credentials in headers (401)", undefined, options)
  }
}

/**
 * The server did not answer, or cannot answer now: the next attempt may succeed. A TypeError, because the SDK expects one
 * for a network failure.
 */
export class TransientError extends TypeError {
  override readonly name = "TransientError"
}

/** The token is valid but lacks a scope for one request (403, insufficient_scope). Other requests go on. */
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
