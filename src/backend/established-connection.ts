/** An open connection to a backend, for its driver and the agent. */
import type { Listing, ListMethod } from "../catalog/listing.ts"
import type { Era } from "../wire/era.ts"
import type { Params } from "../wire/message.ts"
import type { ClientTransport, Loss } from "./client-transport.ts"
import type { Connection } from "./connection.ts"
import type { Lister } from "./lister.ts"
import type { Peer } from "./negotiate.ts"

export type EstablishedConnection = {
  readonly connection: Connection
  readonly peer: Peer
  /** The lists that the backend has answered so far. */
  readonly listing: Listing
  readonly pid: number | undefined
  /** Whether a remote server holds a session for the connection. */
  readonly hasSession: boolean
  /** The connections of both eras; undefined if this one serves the clients of both. */
  readonly pair?: Pair
  /** Resolves when the backend has answered the first subscriptions and the log level; never rejects. */
  readonly begun: Promise<void>
  /** Resolves when the connection is lost; never after `close()`. */
  readonly closed: Promise<Loss>
  /** Fails the requests that wait, with the reason why the connection is about to be closed. */
  abandon(reason: string): void
  /** Resolves when the process is dead or the streams are closed. */
  close(): Promise<void>
  /** Requests that wait for their answers, except svc's own lists and streams. */
  readonly inFlight: number
  /** Resolves with any answer. Rejects with a PeerError for an error answer, or after `timeout` milliseconds. */
  ping(timeout: number): Promise<void>
  /** When the backend last sent anything, in milliseconds since the epoch. */
  readonly lastReceived: number
  /** How many milliseconds requests have waited while nothing was received; undefined if none waits. */
  readonly silentFor: number | undefined
  /** Resolves when no client's request is in flight. */
  drained(): Promise<void>
  /** Subscribes to the current result of `subscriptions()`. */
  resubscribe(): void
  /** Resolves when the backend has decided on a subscription: with the reason if it has refused it. Never rejects. */
  decided(uri: string): Promise<Error | undefined>
  /** Sends the current result of `logLevel()`. Resolves with the reason if the backend has refused it; never rejects. */
  updateLogLevel(): Promise<Error | undefined>
  /** Requests a list again, because it may have changed. */
  relist(method: ListMethod): void
  /** Returns a promise to wait for a list that is too old for a client which asks now; undefined if it is not. Never rejects. */
  freshen(method: ListMethod): Promise<unknown> | undefined
  /** Returns the listing with the answer to a list with the `_meta` of a client's request. Rejects with the server's refusal. */
  listWith(method: ListMethod, meta: Params): Promise<Listing>
}

/** The connections of both eras to one backend, of which the second may not be open. */
export type Pair = {
  /** Whether both connections are open: each then serves only the clients of its era. */
  readonly isOpen: boolean
  /** Requests in flight on both connections, except svc's own lists and streams. */
  readonly inFlight: number
  /** Returns the connection of an era if it is open, else the other one. */
  of(era: Era): EstablishedConnection
  /** Whether this era's connection is the second, and the backend lists a name only over the first. */
  lacks(era: Era, method: ListMethod, name: unknown): boolean
  /**
   * Starts to open the connection of an era if it is not open and the backend may speak the era. Resolves when the attempt has
   * succeeded or failed. Returns undefined if there is nothing to wait for.
   */
  prepare(era: Era): Promise<void> | undefined
  /** Loses the second connection if its requests have waited for `limit` milliseconds while nothing was received over it. */
  loseSecondIfSilent(limit: number): void
}

/** The connection of one transport whose lists have been requested. */
export class ListedConnection implements EstablishedConnection {
  constructor(
    readonly connection: Connection,
    private readonly transport: ClientTransport,
    readonly peer: Peer,
    private readonly lister: Lister,
    readonly ping: (timeout: number) => Promise<void>,
    readonly begun: Promise<void>,
    readonly closed: Promise<Loss>,
    private readonly closing: AbortController,
  ) {}

  get listing(): Listing {
    return this.lister.listing
  }

  get pid(): number | undefined {
    return this.transport.pid
  }

  get hasSession(): boolean {
    return this.transport.hasSession === true
  }

  get inFlight(): number {
    return this.connection.inFlight - this.lister.running
  }

  abandon(reason: string): void {
    this.closing.abort()
    this.lister.end()
    this.connection.end({ reason })
  }

  async close(): Promise<void> {
    this.abandon("was stopped during this call; try again in a moment")
    await this.transport.close()
  }

  get lastReceived(): number {
    return this.connection.lastReceived
  }

  get silentFor(): number | undefined {
    return this.connection.silentFor
  }

  drained(): Promise<void> {
    return this.connection.drained()
  }

  resubscribe(): void {
    void this.lister.resubscribe()
  }

  decided(uri: string): Promise<Error | undefined> {
    return this.lister.decided(uri)
  }

  updateLogLevel(): Promise<Error | undefined> {
    return this.lister.updateLogLevel()
  }

  relist(method: ListMethod): void {
    this.lister.relist(method)
  }

  freshen(method: ListMethod): Promise<unknown> | undefined {
    return this.lister.freshen(method)
  }

  listWith(method: ListMethod, meta: Params): Promise<Listing> {
    return this.lister.listWith(method, meta)
  }
}
