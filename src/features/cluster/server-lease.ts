/**
 * The state machine of the lease of one server with `"replicas": "one"`, as one replica knows it: `step(state, event) -> [state,
 * effects]`. server-leases.ts runs the effects.
 *
 *   unowned ─acquired─▶ here ─expired, or not renewed─▶ lost ─acquired─▶ here
 *      │ ▲               │
 *    taken └──stopped────┘ (it hands the server over, or the configuration no longer has it)
 *      ▼
 *   elsewhere ─acquired─▶ here. From lost too: taken ─▶ elsewhere. An owner that is gone stays the owner until the next is known.
 *
 *  1. All changes are in this file. It has no clock, no timer and no I/O: the time is a parameter. The first line of `step` ends
 *     a lease whose time is over, whatever the event is.
 *  2. `newest`, the largest token seen, never becomes smaller, and what is known of an older one changes nothing (fencing).
 *  3. The machine is total: every state handles every event, if only with no change and no effects.
 *  4. A replica that stops, and a server that the configuration no longer has, take no lease: `takes` is false.
 */
import type { Lease } from "./shared-state.ts"

/** How another replica offers a server. */
type ServerOwner = { readonly replica: string; readonly url: string; readonly credential: string }

/** Which replica owns a server. Times are milliseconds of the driver's clock. */
type LeaseOwner =
  /** Known to be no replica, or not known yet. */
  | { readonly kind: "unowned" }
  /** This replica runs the server, until `until` unless it renews its lease. `leaving`: it hands the server over. */
  | { readonly kind: "here"; readonly lease: Lease; readonly until: number; readonly leaving: Leave | undefined }
  /** Another replica. `endBy` as in `lost`. */
  | { readonly kind: "elsewhere"; readonly owner: ServerOwner; readonly endBy: number | undefined }
  /** This replica has lost the lease. Another one may start the server from `endBy`; by then no process of it runs here. */
  | { readonly kind: "lost"; readonly endBy: number }

/**
 * How far an owner that stops has come: it has announced this, its calls end and new ones wait for the next owner, or its process
 * ends. Running calls have until `by`.
 */
type Leave = { readonly by: number; readonly phase: "announced" | "draining" | "ending" }

export type LeaseState = {
  readonly owned: LeaseOwner
  /** Whether the replica takes the lease when it is free, keeps what it has, or releases it as soon as its process has ended. */
  readonly takes: "any" | "none" | "release"
  /** The largest token that was seen. */
  readonly newest: number
  /** The token of the last owner that announced that it stops. */
  readonly leavingToken: number
  /** Set while an owner stops: until then new calls wait for the next one. */
  readonly nextBy: number | undefined
  /** Whether the previous owner handed the server over: it may still finish the calls that it accepted. */
  readonly wasHandedOver: boolean
  /** Whether a check or a renewal is under way. */
  readonly isAsking: boolean
}

/** What happens to a lease. `from` is the time at which the question was asked that the event answers. */
export type LeaseEvent =
  /** `beat`: it is time to check or to renew. `look`: somebody relies on the lease. `news`: it may have changed hands. */
  | { readonly kind: "beat" | "look" | "news" | "unanswered" }
  | { readonly kind: "acquired"; readonly from: number; readonly lease: Lease }
  /** The lease is taken for `remaining` milliseconds; `owner` is undefined if no known replica has it. */
  | {
      readonly kind: "taken"
      readonly token: number
      readonly remaining: number
      readonly owner: ServerOwner | undefined
    }
  | { readonly kind: "renewed"; readonly from: number; readonly lease: Lease; readonly isHeld: boolean }
  /** The owner `replica` has announced that it stops, and that its calls may take `ms`. */
  | { readonly kind: "ownerLeaves"; readonly replica: string; readonly token: number; readonly ms: number }
  /** This replica takes no more leases. The configuration no longer has the server, or svc ends. */
  | { readonly kind: "drain" | "drop" }
  /** This replica announces that it stops; then, that it hands the server over when its calls have ended. */
  | { readonly kind: "leave" | "handOver"; readonly by: number }
  /** No call runs on the server any more, or their time is over. No process of it runs any more. */
  | { readonly kind: "drained" | "stopped" }

/** The effects that the driver must run, in order. */
export type LeaseEffect =
  | { readonly kind: "beat"; readonly ms: number }
  | { readonly kind: "acquire" | "cancelBeat" | "changed" | "endWait" | "awaitStopped" }
  | { readonly kind: "renew"; readonly lease: Lease }
  /** `tells`: the others hear that the lease is free. */
  | { readonly kind: "release"; readonly lease: Lease; readonly tells: boolean }
  | { readonly kind: "awaitDrained"; readonly by: number }
  /** Tells the others that this replica is the new owner, or with `leaving`, its token, that it stops. */
  | { readonly kind: "tell"; readonly about: { readonly leaving?: number; readonly ms?: number } }
  | { readonly kind: "log"; readonly level: "info" | "warn"; readonly text: string }

type EventOf<K extends LeaseEvent["kind"]> = Extract<LeaseEvent, { readonly kind: K }>
type Result = readonly [LeaseState, readonly LeaseEffect[]]

export const INITIAL_LEASE: LeaseState = {
  owned: { kind: "unowned" },
  takes: "any",
  newest: 0,
  leavingToken: 0,
  nextBy: undefined,
  wasHandedOver: false,
  isAsking: false,
}

/** Returns the next state and the effects of an event. Total and pure. */
export function step(before: LeaseState, event: LeaseEvent, now: number): Result {
  const [state, ended] = expire(before, now)
  const [next, effects] = handle(state, event, now)
  return [next, [...ended, ...effects]]
}

/** Whether this replica may run the server. */
export const isHeld = ({ owned }: LeaseState, now: number): boolean => owned.kind === "here" && now < owned.until

/** Whether the server runs here, unless it is about to be handed over and its calls have ended. */
export const runsHere = (state: LeaseState, now: number): boolean =>
  isHeld(state, now) && !(state.owned.kind === "here" && state.owned.leaving?.phase === "ending")

/** Returns the time from which another replica may start the server that this one has lost. */
export const endOf = ({ owned }: LeaseState): number | undefined =>
  owned.kind === "lost" || owned.kind === "elsewhere" ? owned.endBy : undefined

export const isUnowned = ({ owned }: LeaseState): boolean => owned.kind === "unowned" || owned.kind === "lost"

// ---

/** Ends a lease whose time is over. */
function expire(state: LeaseState, now: number): Result {
  const { owned } = state
  return owned.kind === "here" && now >= owned.until ? lose(state, owned.until + (TTL_MS - SAFE_MS)) : [state, []]
}

function lose(state: LeaseState, endBy: number): Result {
  const log = { kind: "log", level: "warn", text: "stops on this replica: its lease could not be renewed" } as const
  return [{ ...state, owned: { kind: "lost", endBy }, wasHandedOver: false }, [log, { kind: "changed" }]]
}

function handle(state: LeaseState, event: LeaseEvent, now: number): Result {
  const { owned } = state
  switch (event.kind) {
    case "look":
      return [state, []]
    case "beat":
      return beat(state, now)
    case "news":
      // A check that is under way may have read the old state.
      return owned.kind === "here" ? [state, []] : beat({ ...state, isAsking: false }, now)
    case "unanswered":
      return [{ ...state, isAsking: false }, []]
    case "acquired":
      return acquired({ ...state, isAsking: false }, event, now)
    case "taken":
      return taken({ ...state, isAsking: false }, event, now)
    case "renewed": {
      const next = { ...state, isAsking: false }
      if (owned.kind !== "here" || owned.lease !== event.lease) return [next, []]
      // Another replica may have it already.
      if (!event.isHeld) return lose(next, now)
      return expire({ ...next, owned: { ...owned, until: event.from + SAFE_MS } }, now)
    }
    case "ownerLeaves": {
      const next = { ...state, leavingToken: Math.max(state.leavingToken, event.token) }
      const isIt = owned.kind === "elsewhere" && owned.owner.replica === event.replica
      return [isIt ? { ...next, nextBy: now + event.ms + HANDOVER_MS } : next, []]
    }
    case "drain":
      return [state.takes === "any" ? { ...state, takes: "none" } : state, []]
    case "drop":
      return [{ ...state, takes: "release" }, []]
    case "leave": {
      if (owned.kind !== "here" || owned.leaving !== undefined) return [state, []]
      const next: LeaseState = { ...state, owned: { ...owned, leaving: { by: event.by, phase: "announced" } } }
      return [next, announcement(next, now)]
    }
    case "handOver": {
      const waiting = { ...state, nextBy: event.by + HANDOVER_MS }
      if (owned.kind !== "here") return [waiting, []]
      const text = "moves to another replica when its running calls have ended"
      return [
        { ...waiting, owned: { ...owned, leaving: { by: event.by, phase: "draining" } } },
        [
          { kind: "log", level: "info", text },
          { kind: "awaitDrained", by: event.by },
        ],
      ]
    }
    case "drained":
      if (owned.kind !== "here" || owned.leaving?.phase !== "draining") return [state, []]
      return [
        { ...state, owned: { ...owned, leaving: { ...owned.leaving, phase: "ending" } } },
        [{ kind: "changed" }, { kind: "awaitStopped" }],
      ]
    case "stopped":
      return stopped(state)
  }
}

function beat(state: LeaseState, now: number): Result {
  const { owned, takes, isAsking } = state
  // Nothing of it is left here.
  if (takes === "release" && owned.kind !== "here") return [state, []]
  // `acquire` takes a free lease, which a replica that stops must not do. It hears which replica has taken it.
  const ms = isUnowned(state) && takes === "any" ? FIRST_BEAT_MS : BEAT_MS
  const told: readonly LeaseEffect[] = [{ kind: "beat", ms }, ...announcement(state, now)]
  // If the state does not answer, the next beat notices that the lease was not renewed.
  if (isAsking) return [state, told]
  const ask: LeaseEffect = owned.kind === "here" ? { kind: "renew", lease: owned.lease } : { kind: "acquire" }
  return [{ ...state, isAsking: true }, [...told, ask]]
}

/** Tells the others that this owner stops. Repeated at each beat: some may have missed it, or have just started. */
function announcement({ owned }: LeaseState, now: number): readonly LeaseEffect[] {
  if (owned.kind !== "here" || owned.leaving === undefined) return []
  return [{ kind: "tell", about: { leaving: owned.lease.token, ms: Math.max(0, owned.leaving.by - now) } }]
}

function acquired(state: LeaseState, { from, lease }: EventOf<"acquired">, now: number): Result {
  const until = from + SAFE_MS
  // Released too if the answer came too late to be used.
  if (state.takes !== "any" || state.owned.kind === "here" || now >= until)
    return [state, [{ kind: "release", lease, tells: false }]]
  const next: LeaseState = {
    ...state,
    owned: { kind: "here", lease, until, leaving: undefined },
    newest: Math.max(state.newest, lease.token),
  }
  return changeOwner(next, now, [
    { kind: "beat", ms: BEAT_MS },
    { kind: "log", level: "info", text: "runs on this replica, for all replicas" },
    { kind: "tell", about: {} },
  ])
}

function taken(state: LeaseState, { token, remaining, owner }: EventOf<"taken">, now: number): Result {
  const { owned, takes } = state
  if (owned.kind === "here" || token < state.newest || takes === "release") return [state, []]
  const next = { ...state, newest: token }
  const soon: readonly LeaseEffect[] = remaining < BEAT_MS ? [{ kind: "beat", ms: remaining + 1 }] : []
  const isKnown =
    owned.kind === "elsewhere" && owned.owner.url === owner?.url && owned.owner.credential === owner.credential
  if (owner === undefined || token <= state.leavingToken || isKnown) return [next, soon]
  const log = { kind: "log", level: "info", text: `runs on replica ${owner.replica}` } as const
  return changeOwner({ ...next, owned: { kind: "elsewhere", owner, endBy: endOf(state) } }, now, [...soon, log])
}

/** Ends the wait for the next owner. */
function changeOwner(state: LeaseState, now: number, effects: readonly LeaseEffect[]): Result {
  const wasHandedOver = state.nextBy !== undefined && now < state.nextBy
  return [{ ...state, nextBy: undefined, wasHandedOver }, [...effects, { kind: "changed" }, { kind: "endWait" }]]
}

function stopped(state: LeaseState): Result {
  const { owned, takes } = state
  const isOver = takes === "release"
  const end: readonly LeaseEffect[] = isOver ? [{ kind: "cancelBeat" }] : []
  if (owned.kind !== "here" || !(isOver || owned.leaving?.phase === "ending")) return [state, end]
  // An earlier beat would take the lease again before another replica can.
  const later: readonly LeaseEffect[] = isOver ? end : [{ kind: "beat", ms: BEAT_MS }]
  const release = { kind: "release", lease: owned.lease, tells: true } as const
  return [{ ...state, owned: { kind: "unowned" } }, [...later, release]]
}

const BEAT_MS = 500
/** The interval until this replica has found the owner of a server. */
const FIRST_BEAT_MS = 100
/** How long an owner runs a server after it has asked for a renewal. */
const SAFE_MS = 2000
/** How long a lease lasts after the state has renewed it. */
export const TTL_MS = 3500
/** Longer than it takes to end the process of a server, and to take the lease on the next owner. */
const HANDOVER_MS = 6000
