/**
 * A link carries frames to one backend and back: a child's pipes, or a remote URL. It knows nothing of MCP but what its
 * transport needs (method and name for headers, the id to say which request failed).
 */
import type { Clock } from "../lib/clock.ts"
import { BackendError } from "../lib/errors.ts"
import type { Era } from "../wire/era.ts"
import type { ProcessExit } from "./supervision.ts"

/**
 * Why a link ended without being asked to. `exit` is present where a process ended, `words` where it said why: those are
 * for who runs svc, not for its clients.
 */
export type Loss = { readonly reason: string; readonly exit?: ProcessExit; readonly exitReason?: string }

export type LinkEvents = {
  /**
   * One JSON-RPC message, without the line break. The bytes stay valid and unchanged afterwards. `related` is the number
   * of our request on whose stream it came, where the transport can tell.
   */
  onframe(frame: Uint8Array, related?: number): void
  /** A message past the limit, of which only the edges are left: its first and its last bytes. */
  ondropped(edges: Uint8Array, related?: number): void
  /** Exactly once, when the link is lost; not after `close()` was called. */
  onclose(loss: Loss): void
  /** Whether the request still waits for its answer: only then is a stream that ended taken up again. */
  isPending?(number: number): boolean
  /** A request that will not be answered: it could not be sent, or its stream ended early. */
  onfail?(number: number, error: Error): void
}

/**
 * What a reader tells of a message past the limit. One that ends costs its request alone; one that does not end soon has
 * spoilt its line for all that would follow, and `onendless` is told.
 */
export function oversize(clock: Clock, ondropped: (edges: Uint8Array) => void, onendless: () => void) {
  let cancel: () => void = () => undefined
  return {
    onlong() {
      cancel = clock.after(ENDLESS_MS, onendless)
    },
    ondropped(edges: Uint8Array) {
      cancel()
      ondropped(edges)
    },
  }
}

const ENDLESS_MS = 1000

/** What a transport with headers must know of a frame it sends. */
export type Outgoing = {
  /** The number of our request; undefined for notifications and responses. */
  readonly number: number | undefined
  readonly method: string | undefined
  /** Headers mirrored from the body (`Mcp-Name`, `Mcp-Param-*`), for modern peers. */
  readonly headers?: Readonly<Record<string, string>>
}

export type Link = {
  readonly pid: number | undefined
  /** Sends one frame, without a line break. Never throws; a failure becomes `onfail` or `onclose`. */
  send(frame: Uint8Array | string, about: Outgoing): void
  /** Bytes accepted and not yet taken by the other side. */
  readonly buffered: number
  /** Gives up on a request: where the transport has a stream for each, it is closed. */
  abandon?(number: number): void
  /** Tells the transport the negotiated revision; remote links put it into headers and open their streams. */
  settle?(era: Era, protocolVersion: string): void
  /** Ends it; resolves when the process is observed dead or the connections are closed. */
  close(): Promise<void>
}

/** The peer wants authorization (401). It says nothing about the peer's era or health. */
export class UnauthorizedError extends Error {
  override readonly name = "UnauthorizedError"
  constructor(
    message: string,
    /** Where a person must go, when known. */
    readonly authorizationUrl?: string,
    options?: ErrorOptions,
  ) {
    super(message, options)
  }
}

/** What it says where no browser can come back to this process. */
export const loginHint = (name: string): string => `wants authorization; run \`svc auth login ${name}\``

/**
 * Nobody answered, or only that it cannot answer now: the next attempt may succeed. It is a TypeError, as the SDK expects
 * a network failure to be.
 */
export class TransientError extends TypeError {
  override readonly name = "TransientError"
}

/** The token is good, but does not reach for one request (403, insufficient_scope). Others go on. */
export class InsufficientScopeError extends UnauthorizedError {}

/** The link was lost before the connection was ready. */
export class LostError extends BackendError {
  constructor(
    server: string,
    readonly loss: Loss,
    options?: ErrorOptions,
  ) {
    super(server, loss.reason, options)
  }
}
