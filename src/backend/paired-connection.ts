/**
 * The two connections of a remote server that speaks both eras: each request goes over a connection of its client's era.
 *
 *  1. The first connection is the main one: svc offers its lists, and its loss is the backend's loss.
 *  2. The first request of a client of the other era opens the second connection, also after a loss. Without a second
 *     connection, the first serves the clients of both eras.
 *  3. If a server refuses the other era, svc tries again in a new session, over a new connection, or after an hour: the
 *     server may be another version then.
 *  4. A failure of the second connection is reported. It does not change the backend's state.
 *  5. A legacy connection without a session is of no use as the second: its server cannot receive answers to its requests.
 */
import type { Listing, ListMethod } from "../catalog/listing.ts"
import { Backoff } from "../lib/backoff.ts"
import { type Clock, withTimeout } from "../lib/clock.ts"
import type { Era } from "../wire/era.ts"
import type { Params } from "../wire/message.ts"
import type { Loss } from "./client-transport.ts"
import type { EstablishedConnection, Pair } from "./established-connection.ts"
import { silentCallReason, silentReason } from "./unresponsive.ts"

export type PairedConnectionDeps = {
  readonly clock: Clock
  /** The time limit for opening the second connection, in milliseconds. */
  readonly limit: number
  /** Whether the server is known to refuse the other era. */
  readonly refused: boolean
  /** Opens a connection of the other era. */
  open(signal: AbortSignal): Promise<EstablishedConnection>
  /** Whether the failure of an attempt shows that the server does not speak the other era. */
  isRefusal(error: unknown): boolean
  /** Called with the reason if the second connection was lost or could not be opened. */
  onproblem(error: unknown): void
}

export class PairedConnection implements EstablishedConnection, Pair {
  private second: SecondState
  private readonly backoff = new Backoff({ first: RETRY_MS, max: RETRY_MAX_MS })

  constructor(
    private readonly first: EstablishedConnection,
    private readonly deps: PairedConnectionDeps,
  ) {
    this.second = { kind: "absent", retryAt: deps.refused ? deps.clock.now() + REFUSED_MS : 0 }
  }

  readonly pair = this

  get connection() {
    return this.first.connection
  }

  get peer() {
    return this.first.peer
  }

  get listing() {
    return this.first.listing
  }

  get pid() {
    return this.first.pid
  }

  get hasSession() {
    return this.first.hasSession
  }

  get begun() {
    return this.first.begun
  }

  get closed(): Promise<Loss> {
    return this.first.closed
  }

  get inFlight(): number {
    return this.first.inFlight + (this.other?.inFlight ?? 0)
  }

  get isOpen(): boolean {
    return this.other !== undefined
  }

  of(era: Era): EstablishedConnection {
    return this.first.peer.era === era ? this.first : (this.other ?? this.first)
  }

  lacks(era: Era, method: ListMethod, name: unknown): boolean {
    const { other } = this
    return (
      other !== undefined && other.peer.era === era && !lists(other, method, name) && lists(this.first, method, name)
    )
  }

  prepare(era: Era): Promise<void> | undefined {
    const { second } = this
    if (era === this.first.peer.era) return undefined
    if (second.kind === "opening") return second.done
    return second.kind === "absent" && this.deps.clock.now() >= second.retryAt ? this.openSecond() : undefined
  }

  loseSecondIfSilent(limit: number): void {
    const { other } = this
    const silence = other?.silentFor
    if (other === undefined || silence === undefined || silence < limit) return
    other.abandon(silentCallReason(silence))
    this.loseSecond(other, silentReason(silence))
  }

  /** Forgets that the server refuses the other era: it was restarted, perhaps as another version. */
  forgetRefusal(): void {
    if (this.second.kind === "absent") this.second = { kind: "absent", retryAt: 0 }
  }

  abandon(reason: string): void {
    this.other?.abandon(reason)
    this.first.abandon(reason)
  }

  async close(): Promise<void> {
    const { second } = this
    this.second = { kind: "closed" }
    if (second.kind === "opening") second.controller.abort()
    await Promise.all([
      second.kind === "opening" && second.done,
      second.kind === "open" && second.open.close(),
      this.first.close(),
    ])
  }

  ping(timeout: number): Promise<void> {
    return this.first.ping(timeout)
  }

  get lastReceived(): number {
    return this.first.lastReceived
  }

  get silentFor(): number | undefined {
    return this.first.silentFor
  }

  async drained(): Promise<void> {
    await Promise.all([this.first.drained(), this.other?.drained()])
  }

  resubscribe(): void {
    this.first.resubscribe()
    this.other?.resubscribe()
  }

  async decided(uri: string): Promise<Error | undefined> {
    const [first, other] = await Promise.all([this.first.decided(uri), this.other?.decided(uri)])
    return first ?? other
  }

  async updateLogLevel(): Promise<Error | undefined> {
    const [first, other] = await Promise.all([this.first.updateLogLevel(), this.other?.updateLogLevel()])
    return first ?? other
  }

  relist(method: ListMethod): void {
    this.first.relist(method)
    this.relistOther(method)
  }

  freshen(method: ListMethod): Promise<unknown> | undefined {
    return this.first.freshen(method)
  }

  listWith(method: ListMethod, meta: Params): Promise<Listing> {
    return this.first.listWith(method, meta)
  }

  /** Requests a list again over the second connection. */
  relistOther(method: ListMethod): void {
    this.other?.relist(method)
  }

  // ---

  private get other(): EstablishedConnection | undefined {
    return this.second.kind === "open" ? this.second.open : undefined
  }

  private openSecond(): Promise<void> {
    const controller = new AbortController()
    const cancel = this.deps.clock.after(this.deps.limit, () => controller.abort())
    const done = this.attempt(controller.signal).finally(cancel)
    this.second = { kind: "opening", controller, done }
    return done
  }

  /** Runs one attempt to open the second connection. Never rejects. */
  private async attempt(signal: AbortSignal): Promise<void> {
    const { clock } = this.deps
    let open: EstablishedConnection
    try {
      open = await this.deps.open(signal)
    } catch (error) {
      if (this.second.kind === "closed") return
      if (this.deps.isRefusal(error)) this.refuse()
      else this.retryLater(signal.aborted ? new Error("did not connect in time") : error)
      return
    }
    if (open.peer.era === "legacy" && !open.hasSession) {
      await open.close()
      if (this.second.kind !== "closed") this.refuse()
      return
    }
    // The first connection serves the subscriptions of both eras until the second has its own.
    await withTimeout(clock, SETTLE_MS, open.begun)
    if (this.second.kind === "closed") return open.close()
    this.second = { kind: "open", open }
    this.backoff.reset()
    this.first.resubscribe()
    void open.closed.then((loss) => {
      if (this.second.kind === "open" && this.second.open === open) this.loseSecond(open, loss.reason)
    })
  }

  private loseSecond(open: EstablishedConnection, reason: string): void {
    this.retryLater(new Error(reason))
    void open.close()
    this.first.resubscribe()
  }

  private refuse(): void {
    this.second = { kind: "absent", retryAt: this.deps.clock.now() + REFUSED_MS }
  }

  private retryLater(error: unknown): void {
    this.second = { kind: "absent", retryAt: this.deps.clock.now() + this.backoff.next() }
    this.deps.onproblem(error)
  }
}

// ---

type SecondState =
  /** Not open. The next attempt may begin at `retryAt`, milliseconds since the epoch. */
  | { readonly kind: "absent"; readonly retryAt: number }
  | { readonly kind: "opening"; readonly controller: AbortController; readonly done: Promise<void> }
  | { readonly kind: "open"; readonly open: EstablishedConnection }
  | { readonly kind: "closed" }

const REFUSED_MS = 3_600_000
const RETRY_MS = 1000
const RETRY_MAX_MS = 5 * 60_000
/** The time for which the first requests wait for the answers to subscriptions and the log level. */
const SETTLE_MS = 2000

function lists({ listing }: EstablishedConnection, method: ListMethod, name: unknown): boolean {
  switch (method) {
    case "tools/list":
      return listing.tools.some((entry) => entry.name === name)
    case "prompts/list":
      return listing.prompts.some((entry) => entry.name === name)
    case "resources/list":
    case "resources/templates/list":
      return true
  }
}
