/**
 * Drives the state machine of one backend (supervision.ts): runs its effects in order, holds the timer and the connection,
 * and reports changes to the agent.
 *
 *  1. A replacement is opened only after the old process is observed dead: opening and closing go through one queue.
 *  2. A signal aborts an attempt to open. If the attempt still opens a connection, the driver closes it.
 *  3. An observer that throws is logged, and stops nothing else.
 */
import { isDeepStrictEqual } from "node:util"
import { failuresOf, type Listing } from "../catalog/listing.ts"
import type { ServerSpec } from "../config/server-spec.ts"
import { BoundedMap } from "../lib/bounded-map.ts"
import { type Clock, formatDuration, withTimeout } from "../lib/clock.ts"
import { messageOf } from "../lib/errors.ts"
import type { Era } from "../wire/era.ts"
import {
  InsufficientScopeError,
  LostError,
  reasonWithoutName,
  saysSessionIsGone,
  UnauthorizedError,
  type UnauthorizedReason,
} from "./client-transport.ts"
import { type OpenHooks, ProbeExit } from "./connection-attempt.ts"
import type { EstablishedConnection } from "./established-connection.ts"
import { silenceAdvice } from "./http.ts"
import { isRefusal } from "./negotiate.ts"
import { PeerError } from "./peer-error.ts"
import {
  type BackendEffect,
  type BackendEvent,
  type BackendState,
  INITIAL_STATE,
  isDozing,
  type ProcessExit,
  step,
} from "./supervision.ts"
import { NOISE, silentCallReason, silentReason, UNRESPONSIVE, unansweredReason } from "./unresponsive.ts"

export type BackendDeps = {
  readonly clock: Clock
  open(
    spec: ServerSpec,
    hooks: Pick<
      OpenHooks,
      | "onlisting"
      | "onnegotiated"
      | "onfailure"
      | "onrenewed"
      | "onrecovered"
      | "onproblem"
      | "onnoise"
      | "repeated"
      | "before"
      | "nextEra"
      | "isFresh"
    >,
    signal: AbortSignal,
  ): Promise<EstablishedConnection>
  /** The state, the facts or the listing changed. */
  onchange(backend: Backend): void
  /** Takes a line for the log. */
  onnote(level: "info" | "warn", message: string): void
}

/** A request that the transport failed. `at` is milliseconds since the epoch. */
export type TransportFailure = { readonly at: number; readonly reason: string }

/** The facts about a backend beside its state. Times are milliseconds since the epoch. */
export type BackendFacts = {
  lastConnected: number | undefined
  lastError: string | undefined
  lastExit: ProcessExit | undefined
  /** When the first attempt to open began, and when it ended. */
  loadingStartedAt: number | undefined
  loadingEndedAt: number | undefined
  restartCount: number
  /** The last request that the transport failed on the current connection. */
  lastTransportFailure: TransportFailure | undefined
  /** When the last ping was answered or given up. */
  lastPing: number | undefined
  /** Whether the server has answered one of the last two pings, or sent anything else since. */
  responsive: boolean
  /** The address at which a user authorizes svc, if that is necessary. */
  authorizationUrl: string | undefined
  /** The reason of the state unauthorized. */
  refusal: UnauthorizedReason
  /** Whether the current process has printed text on stdout that is not MCP. */
  noisy: boolean
  /** The first message of the current process or connection that was not valid MCP. Redacted. */
  invalid: string | undefined
}

export class Backend {
  state: BackendState = INITIAL_STATE
  readonly facts: BackendFacts = {
    lastConnected: undefined,
    lastError: undefined,
    lastExit: undefined,
    loadingStartedAt: undefined,
    loadingEndedAt: undefined,
    restartCount: 0,
    lastTransportFailure: undefined,
    lastPing: undefined,
    responsive: true,
    authorizationUrl: undefined,
    refusal: "sign-in needed",
    noisy: false,
    invalid: undefined,
  }
  /** The connection and its listing, exactly while it has a connection. */
  published: { readonly open: EstablishedConnection; readonly listing: Listing } | undefined
  /** The last published listing, for the next connection. */
  private lastListing: Listing | undefined
  /** Whether an operator or a start of svc has started the server, which has not connected since. */
  private isFresh = true
  /** The era that the next attempt tries first, if the last attempt ended on a request of the other era. */
  private nextEra: Era | undefined
  private current: EstablishedConnection | undefined
  private opening: { readonly controller: AbortController; readonly done: Promise<void> } | undefined
  private queue: Promise<void>
  private cancelTimer: (() => void) | undefined
  private cancelWatch: (() => void) | undefined
  /**
   * The pings on the current connection: when the last was sent, whether one was answered, how many in a row were not, and when
   * the server had last sent anything as one was given up.
   */
  private pings = { at: 0, answered: false, missed: 0, heardAt: 0 }
  /** Milliseconds of the last wait, for the log. */
  private waitMs = 0
  /** The reason of the last loss that was logged. */
  private lastNotedLoss: string | undefined
  /** The counts of the last different invalid messages, and the number of different messages so far. */
  private readonly invalid = { counts: new BoundedMap<string, number>(MAX_INVALID), different: 0 }

  constructor(
    public spec: ServerSpec,
    private readonly deps: BackendDeps,
    /** Must resolve before the first attempt; the connection timeout starts then. */
    after: Promise<void> = Promise.resolve(),
  ) {
    this.queue = after
  }

  /** Opens the backend for the first time. */
  start(): void {
    this.send({ kind: "start", now: this.deps.clock.now() })
  }

  /** Begins asleep, with the listing of an earlier process. */
  rest(listing: Listing): void {
    const now = this.deps.clock.now()
    this.lastListing = listing
    this.facts.loadingStartedAt ??= now
    this.facts.loadingEndedAt ??= now
    this.send({ kind: "rest", now })
  }

  /** Ends the process of a connected server until it is needed. */
  sleep(): void {
    this.send({ kind: "sleep", now: this.deps.clock.now() })
  }

  /** Starts a server that is asleep. */
  wake(): void {
    this.send({ kind: "wake", now: this.deps.clock.now() })
  }

  /** What the server offers: also while it is asleep, waking or awake. */
  get listing(): Listing | undefined {
    return this.published?.listing ?? (isDozing(this.state) ? this.lastListing : undefined)
  }

  /** Stops the backend. Resolves when its process is observed dead. */
  stop(): Promise<void> {
    this.send({ kind: "stop", now: this.deps.clock.now() })
    return this.queue
  }

  /** Restarts at once, with fresh attempts: an operator's order. */
  restart(): void {
    this.facts.restartCount++
    this.isFresh = true
    this.send({ kind: "restart", now: this.deps.clock.now() })
  }

  /** Connects after its authorization changed. A connected backend stays connected, and then uses the new authorization. */
  authorized(): void {
    this.facts.authorizationUrl = undefined
    if (this.state.kind === "connected") this.changed()
    else this.send({ kind: "restart", now: this.deps.clock.now() })
  }

  /**
   * Applies new tuning for the same launch. A running backend does not restart. A backend that svc has given up is tried again
   * if its connection timeout or restart policy changed.
   */
  retune(spec: ServerSpec): void {
    const { connectionTimeout, restart } = this.spec.tuning
    this.spec = spec
    const mayHelp = !isDeepStrictEqual(
      [connectionTimeout, restart],
      [spec.tuning.connectionTimeout, spec.tuning.restart],
    )
    if (mayHelp && (this.state.kind === "failed" || this.state.kind === "crashed")) this.restart()
    else this.changed()
  }

  // ---

  private send(event: BackendEvent): void {
    const before = this.state
    const [state, effects] = step(before, event, this.spec.tuning.restart)
    this.state = state
    if (state.kind === "recovering" && before.kind === "waiting") this.facts.restartCount++
    for (const effect of effects) this.run(effect)
    if (state !== before) this.changed()
  }

  private changed(): void {
    try {
      this.deps.onchange(this)
    } catch (error) {
      this.deps.onnote("warn", `an observer failed: ${messageOf(error)}`)
    }
  }

  private run(effect: BackendEffect): void {
    const { clock } = this.deps
    switch (effect.kind) {
      case "open":
        this.enqueue(() => this.open(effect.epoch))
        return
      case "close": {
        const { current, opening } = this
        this.current = undefined
        opening?.controller.abort()
        this.enqueue(async () => {
          // An aborted attempt closes its own connection; waits for that, but not for ever.
          if (opening !== undefined) await withTimeout(clock, ABORT_MS, opening.done)
          await current?.close()
        })
        return
      }
      case "publish":
        this.facts.lastConnected = clock.now()
        this.facts.responsive = true
        // Earlier failures say nothing about this connection.
        this.facts.lastTransportFailure = undefined
        this.facts.authorizationUrl = undefined
        if (this.current !== undefined) this.publish(this.current, this.offerOf(this.current))
        this.pings = { at: clock.now(), answered: false, missed: 0, heardAt: 0 }
        this.watch()
        return
      case "unpublish":
        this.cancelWatch?.()
        this.published = undefined
        return
      case "wait":
        this.waitMs = effect.ms
        this.cancelTimer = clock.after(effect.ms, () => {
          this.cancelTimer = undefined
          this.send({ kind: effect.event, epoch: effect.epoch, now: clock.now() })
        })
        return
      case "cancelTimer":
        this.cancelTimer?.()
        this.cancelTimer = undefined
        return
    }
  }

  private enqueue(task: () => void | Promise<void>): void {
    this.queue = this.queue.then(task).catch((error: unknown) => this.deps.onnote("warn", messageOf(error)))
  }

  /** Starts an attempt to open. The queue does not wait for it, so that a stop can abort it. */
  private open(epoch: number): void {
    if (this.state.epoch !== epoch) return
    const { clock } = this.deps
    const controller = new AbortController()
    this.facts.loadingStartedAt ??= clock.now()
    this.facts.noisy = false
    this.facts.invalid = undefined
    const limit = this.spec.tuning.connectionTimeout
    const cancelNote = clock.after(SLOW_MS, () =>
      this.deps.onnote("info", unansweredReason(SLOW_MS, limit, this.facts.noisy)),
    )
    const cancel = clock.after(limit, () => {
      controller.abort()
      const noise = this.facts.noisy ? NOISE : ""
      const reason = `no answer within ${formatDuration(limit)} (connectionTimeout)${noise}`
      this.failed(epoch, new Error(`${reason}${silenceAdvice(this.spec.launch)}`))
    })
    const done = this.attempt(epoch, controller.signal).finally(() => {
      cancel()
      cancelNote()
      if (this.opening?.controller === controller) this.opening = undefined
    })
    this.opening = { controller, done }
  }

  /** Runs one attempt to open, and reports how it ended unless it was aborted. */
  private async attempt(epoch: number, signal: AbortSignal): Promise<void> {
    const { tuning } = this.spec
    const hooks = {
      onlisting: (listing: Listing) => this.relisted(epoch, listing),
      // A call waits for the lists where svc must compare the tools with their pins first.
      onnegotiated:
        this.state.kind === "waking" && tuning.toolPinning !== "strict"
          ? (open: EstablishedConnection) => this.negotiated(epoch, open)
          : undefined,
      onfailure: (error: Error) => this.requestFailed(epoch, error),
      onrenewed: () => this.forgetFailure(epoch),
      onrecovered: () => this.forgetFailure(epoch),
      onproblem: (reason: string) => this.noteProblem(epoch, reason),
      onnoise: () => {
        if (this.state.epoch === epoch && !this.facts.noisy) {
          this.facts.noisy = true
          this.changed()
        }
      },
      repeated: (line: string) => {
        if (this.state.epoch === epoch && this.facts.invalid === undefined) {
          this.facts.invalid = line
          this.changed()
        }
        return this.repeated(line)
      },
      before: this.lastListing,
      nextEra: this.nextEra,
      isFresh: this.isFresh,
    }
    this.nextEra = undefined
    let open: EstablishedConnection
    try {
      open = await this.deps.open(this.spec, hooks, signal)
    } catch (error) {
      if (error instanceof ProbeExit) this.nextEra = "legacy"
      if (!signal.aborted) this.failed(epoch, error)
      return
    }
    if (signal.aborted) await open.close()
    else this.opened(epoch, open)
  }

  /** Lets calls use the connection of a server that wakes. What then ends the attempt to open ends the connection. */
  private negotiated(epoch: number, open: EstablishedConnection): void {
    if (this.state.epoch !== epoch || this.state.kind !== "waking") return
    this.current = open
    this.send({ kind: "negotiated", epoch, now: this.deps.clock.now(), pid: open.pid })
  }

  private opened(epoch: number, open: EstablishedConnection): void {
    const { clock } = this.deps
    this.current = open
    this.isFresh = false
    this.facts.loadingEndedAt ??= clock.now()
    void open.closed.then((loss) => {
      if (this.state.epoch !== epoch || this.state.kind !== "connected") return
      if (loss.exit !== undefined) this.facts.lastExit = loss.exit
      this.lost(epoch, loss.reason, loss.exitReason)
    })
    this.send({ kind: "opened", epoch, now: clock.now(), pid: open.pid })
  }

  private lost(epoch: number, reason: string, exitReason?: string): void {
    this.facts.lastError = withExitReason(reason, exitReason)
    this.send({ kind: "lost", epoch, now: this.deps.clock.now() })
    this.noteLoss(reason, this.facts.lastError)
  }

  /** Logs a loss as `text` and the next step. Repeats of one reason are logged less and less often. */
  private noteLoss(reason: string, text: string): void {
    const { state, lastNotedLoss } = this
    this.lastNotedLoss = reason
    const attempt = state.kind === "waiting" ? state.attempt : 0
    if (reason === lastNotedLoss && attempt > MAX_NOTED && !isPowerOfTwo(attempt)) return
    const hint = attempt === MAX_NOTED ? " (further repeats are logged less often)" : ""
    this.deps.onnote("warn", `${text}${this.nextStep()}${hint}`)
  }

  /** Returns the next step after a loss, as the end of its log line. */
  private nextStep(): string {
    const { state, spec } = this
    if (state.kind === "crashed")
      return `; gave up after attempt ${state.attempt}; run \`svc mcp restart ${spec.name}\` to try again`
    if (state.kind !== "waiting") return ""
    const { kind, limit } = spec.tuning.restart
    const attempt = kind === "supervised" && limit > 0 ? ` (attempt ${state.attempt} of ${limit})` : ""
    return `; next try in ${formatDuration(this.waitMs)}${attempt}`
  }

  /** Handles an attempt that failed, or a 401 to a connected backend. */
  private failed(epoch: number, error: unknown): void {
    const { clock } = this.deps
    const refused = error instanceof UnauthorizedError
    this.facts.loadingEndedAt ??= clock.now()
    const reason = reasonWithoutName(this.spec.name, error)
    const loss = error instanceof LostError ? error.loss : undefined
    const text = withExitReason(reason, loss?.exit?.code === 0 ? ENDED : loss?.exitReason)
    this.facts.lastError = text
    if (refused) {
      this.facts.refusal = error.refusal
      this.facts.authorizationUrl = error.authorizationUrl
    }
    if (loss?.exit !== undefined) this.facts.lastExit = loss.exit
    const lost = isRefusal(error) ? "refused" : "lost"
    this.send({ kind: refused ? "unauthorized" : lost, epoch, now: clock.now() })
    if (refused) this.noteLoss(reason, `${reason}${authorizationHint(error)}`)
    else this.noteLoss(reason, this.spec.launch.transport === "stdio" ? `could not be started: ${text}` : text)
  }

  /** Handles a transport failure of a connected backend: it counts against the health, and a 401 requires a user. */
  private requestFailed(epoch: number, error: Error): void {
    if (this.state.epoch !== epoch || this.published === undefined) return
    if (error instanceof InsufficientScopeError) {
      if (error.authorizationUrl === this.facts.authorizationUrl) return
      this.facts.authorizationUrl = error.authorizationUrl
      this.deps.onnote("warn", `${messageOf(error)}${authorizationHint(error)}`)
      this.changed()
      return
    }
    if (error instanceof UnauthorizedError) {
      this.failed(epoch, error)
      return
    }
    const reason = reasonWithoutName(this.spec.name, error)
    this.facts.lastError = reason
    this.facts.lastTransportFailure = { at: this.deps.clock.now(), reason }
    this.changed()
  }

  /**
   * Returns the text to log for an invalid message; "" for none. Repeats, and ever new messages, are logged less and less often,
   * also across restarts.
   */
  private repeated(line: string): string {
    const { counts } = this.invalid
    const times = (counts.get(line) ?? 0) + 1
    counts.set(line, times)
    if (times > 1) return isPowerOfTwo(times) ? `${line} (${times} times)` : ""
    const different = ++this.invalid.different
    if (different <= MAX_INVALID) return line
    return isPowerOfTwo(different)
      ? `${line} (${different} different messages so far; svc does not log most of them)`
      : ""
  }

  /** Reports a problem that does not change the state. */
  private noteProblem(epoch: number, reason: string): void {
    if (this.state.epoch !== epoch || this.facts.lastError === reason) return
    this.facts.lastError = reason
    this.deps.onnote("warn", reason)
    this.changed()
  }

  /** Handles a success, or a new session, which is a new connection: earlier failures do not count. */
  private forgetFailure(epoch: number): void {
    if (this.state.epoch !== epoch || this.facts.lastTransportFailure === undefined) return
    this.facts.lastTransportFailure = undefined
    this.changed()
  }

  private relisted(epoch: number, listing: Listing): void {
    if (this.state.epoch !== epoch || this.state.kind !== "connected" || this.published === undefined) return
    this.publish(this.published.open, listing)
    this.changed()
  }

  /** Returns what is on offer over a connection: the last listing until the server has answered its lists. */
  private offerOf({ listing }: EstablishedConnection): Listing {
    return this.state.kind === "awake" ? (this.lastListing ?? listing) : listing
  }

  private publish(open: EstablishedConnection, listing: Listing): void {
    const failing = failuresOf(listing)
    if (failing.length > 0) this.facts.lastError = failing.join("; ")
    this.published = { open, listing }
    this.lastListing = listing
  }

  /** Watches whether the server lives: whatever it sends shows it. choice: Health. */
  private watch(): void {
    const { clock } = this.deps
    const { epoch } = this.state
    const open = this.published?.open
    if (open === undefined) return
    this.cancelWatch = clock.after(this.nextLook(open), () => {
      if (this.published?.open !== open || this.state.epoch !== epoch) return
      if (open.lastReceived > this.pings.heardAt) this.noteLife("answers again")
      if (this.loseIfDead(epoch, open)) return
      if (clock.now() - open.lastReceived >= PING_MS && clock.now() - this.pings.at >= PING_MS) this.ping(epoch, open)
      this.watch()
    })
  }

  /** Returns the milliseconds until the next ping may be due, or until the silence is too long. */
  private nextLook(open: EstablishedConnection): number {
    const now = this.deps.clock.now()
    const { unresponsiveTimeout = Number.POSITIVE_INFINITY } = this.spec.tuning
    const ping = Math.max(open.lastReceived, this.pings.at) + PING_MS - now
    const { silentFor } = open
    const silence = silentFor === undefined ? unresponsiveTimeout / LOOKS : this.longestSilence - silentFor
    return Math.max(Math.min(ping, silence), 1)
  }

  /** How long requests may wait with nothing received before the connection counts as lost, in milliseconds. */
  private get longestSilence(): number {
    const { launch, tuning } = this.spec
    return (
      tuning.unresponsiveTimeout ?? (launch.transport === "stdio" ? Number.POSITIVE_INFINITY : MAX_MISSED * PING_MS)
    )
  }

  /** Pings the server. An answer that says that the session is gone is none. */
  private ping(epoch: number, open: EstablishedConnection): void {
    const { clock } = this.deps
    this.pings.at = clock.now()
    open.ping(Math.min(this.spec.tuning.requestTimeout, PING_TIMEOUT_MS)).then(
      () => this.pinged(epoch, open, true),
      // An error answer also shows that the server responds.
      (error: unknown) => this.pinged(epoch, open, error instanceof PeerError && !saysSessionIsGone(error.message)),
    )
  }

  private pinged(epoch: number, open: EstablishedConnection, answered: boolean): void {
    if (this.state.epoch !== epoch || this.published === undefined) return
    const { facts, deps, pings } = this
    facts.lastPing = deps.clock.now()
    if (answered) {
      pings.answered = true
      this.noteLife("answers pings again")
    } else {
      pings.missed++
      pings.heardAt = open.lastReceived
    }
    // A server without pings is not judged by them.
    if (pings.answered && pings.missed >= MAX_MISSED) {
      if (facts.responsive) deps.onnote("warn", UNRESPONSIVE)
      facts.responsive = false
      facts.lastError = UNRESPONSIVE
    }
    this.changed()
    this.loseIfDead(epoch, open)
  }

  private noteLife(note: string): void {
    this.pings.missed = 0
    if (this.facts.responsive) return
    this.facts.responsive = true
    this.deps.onnote("info", note)
    this.changed()
  }

  /** Loses a dead connection. A running process is not dead, unless its operator has set how long it may be silent. */
  private loseIfDead(epoch: number, open: EstablishedConnection): boolean {
    open.pair?.loseSecondIfSilent(this.longestSilence)
    const { silentFor } = open
    if (silentFor !== undefined) {
      if (silentFor < this.longestSilence) return false
      open.abandon(silentCallReason(silentFor))
      this.lost(epoch, silentReason(silentFor))
      return true
    }
    if (this.spec.launch.transport === "stdio" || this.facts.responsive) return false
    this.lost(epoch, UNRESPONSIVE)
    return true
  }
}

// ---

const ENDED = "an MCP server on stdio keeps running; is it another program, or does it need an argument?"

const withExitReason = (reason: string, exitReason: string | undefined): string =>
  exitReason === undefined ? reason : `${reason}: ${exitReason}`

/** Returns the address to open, as the end of a log line. */
const authorizationHint = (error: unknown): string =>
  error instanceof UnauthorizedError && error.authorizationUrl !== undefined
    ? `, or open ${error.authorizationUrl}`
    : ""

const isPowerOfTwo = (count: number): boolean => (count & (count - 1)) === 0

/** The number of different invalid messages that are all logged and remembered. */
const MAX_INVALID = 32
/** The time after which an attempt is logged as slow. */
const SLOW_MS = 30_000
/** The number of losses for one reason that are all logged. */
const MAX_NOTED = 8
const PING_MS = 30_000
const PING_TIMEOUT_MS = 10_000
/** Pings in a row without an answer that show that a server does not respond. */
const MAX_MISSED = 2
/** How often svc looks at a server within its `unresponsiveTimeout`. */
const LOOKS = 4
/** Longer than a child takes to die, even if it ignores SIGTERM. */
const ABORT_MS = 15_000
