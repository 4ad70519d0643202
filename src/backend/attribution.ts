/**
 * Decides which client a backend's message is for. A process that several clients share does not say so over stdio, and a
 * wrong guess shows one client's affairs to another.
 *
 *  1. The stream of a call, the only client of a process, or the task that a message names decides, in this order.
 *  2. Any other message is for the only client with calls in flight. Calls of several clients: "unknown". No call: "none".
 *  3. A cancelled call counts as in flight while the backend may go on with it:
 *       until the backend has read the cancellation, which its answer to a ping sent behind it shows, LONG_MS at most;
 *       then a grace, if calls of this name were seen to stop;
 *       then as long as the call had run, 5 to 30 s, if it is not known what calls of this name do;
 *       LONG_MS in all, if calls of this name were seen to go on.
 *     Its answer ends this at once. Timeouts, and clients that leave or end their session, cancel calls too.
 *  4. Calls of a name are seen to stop when a cancelled one stayed silent through the third of these times, and every
 *     question that came meanwhile was another call's by rule 6. What one tool does says nothing of another.
 *  5. Calls of a name are seen to go on when a cancelled one answers or reports progress after the backend read the
 *     cancellation, or a question comes that no other call can have raised: none is in flight, or the one that was taken
 *     for it is answered while its question is open. This stays.
 *  6. A question was of a call in flight if it was the only one in this call's life, the call was answered right after the
 *     question was refused, and so it was with four calls of its name before, in a row and each alone in flight. One call
 *     that goes on after such a refusal, or gets no question, begins the row anew.
 *
 * What remains: a cancelled call of a name not yet seen to go on is silent for longer than rule 3 waits, and then asks while
 * one other client has calls in flight. Nothing on the wire tells its question from that client's own; `isolation: "session"`
 * does.
 *
 * No clock and no I/O: time comes in.
 */
import { BoundedMap } from "../lib/bounded-map.ts"
import type { Params } from "../wire/message.ts"

/** Who a call is for. */
export type Caller = {
  /** The same object for all calls of one client. */
  readonly session: object
  /** A notification that belongs to the call; URIs and names are the backend's own. */
  notify(method: string, params: Params): void
  /** A question of the backend in mid-call. Rejects with a PeerError or RequestError, which the backend is told. */
  ask(
    method: string,
    params: Params | undefined,
    signal: AbortSignal,
    /** Given where the backend wants to know how far the client is. */
    onprogress?: (params: Params) => void,
  ): Promise<unknown>
  /** Whether anybody is there at the moment; where it is missing, somebody is. */
  isConnected?(): boolean
  /**
   * Told from time to time while a question to the client is open, so that it may give up where nobody is there to answer;
   * `others`: others use the connection too and cannot be told apart from this caller.
   */
  giveUpIfStale?(now: number, others: boolean): void
}

/** A request to the backend that is not answered yet; one of svc's own has no caller. */
export type Flight = {
  readonly method: string
  /** The name of the tool or prompt, where it has one. */
  readonly name: unknown
  readonly caller: Caller | undefined
  /** Milliseconds since the epoch. */
  readonly since: number
}

/** A message of the backend, and what says whose it is. */
export type Incoming = {
  /** The number of the request on whose stream it came. */
  readonly related: number | undefined
  /** The only client of the process. */
  readonly owner: Caller | undefined
  /** The client of the task that it names. */
  readonly task: Caller | "unknown" | undefined
  /** The method of a request; undefined for a notification. */
  readonly question: string | undefined
}

type Abandoned = {
  readonly session: object
  readonly kind: string
  readonly since: number
  /** Milliseconds that it had run. */
  readonly ran: number
  /** Whether the answer to a ping will say that the cancellation was read. */
  readonly marked: boolean
  read: number | undefined
  /** Questions that it may have raised and that nothing else explains. */
  suspicions: number
}

/** The questions that a call in flight may have raised. */
type Asked = {
  readonly count: number
  /** When the last came, milliseconds since the epoch. */
  readonly at: number
  /** Whether no other call was in flight. */
  readonly alone: boolean
  readonly refused: boolean
  /** The cancelled calls that may have raised the last; emptied when it is explained. */
  readonly doubts: Abandoned[]
}

export class Attribution {
  /** Cancelled calls by number: in doubt, and then kept a while to see what they do. */
  private readonly abandoned = new BoundedMap<number, Abandoned>(MAX_ABANDONED)
  /** What cancelled calls were seen to do, by kind. */
  private readonly afterCancel = new BoundedMap<string, "stops" | "goes on">(MAX_KINDS)
  /** How many calls in a row were seen to ask, by kind. */
  private readonly askers = new BoundedMap<string, number>(MAX_KINDS)
  private readonly asked = new WeakMap<Flight, Asked>()

  /** Gives the client of a message, "unknown" if it is one of several, "none" if no client is meant. */
  attribute(message: Incoming, inFlight: ReadonlyMap<number, Flight>, now: number): Caller | "unknown" | "none" {
    const { related, owner, task, question } = message
    if (related !== undefined) {
      const flight = inFlight.get(related)
      // What comes on a stream whose call has ended is for nobody else.
      if (flight === undefined) return "unknown"
      if (flight.caller !== undefined) return flight.caller
    }
    if (owner !== undefined) return callerForSession(owner.session, inFlight) ?? owner
    if (task !== undefined) return task
    const live = [...inFlight.values()].filter(isCall)
    const doubts = this.doubts(now)
    const sessions = new Set([...live, ...doubts].map(sessionOf))
    const refused = sessions.size > 1
    if (question !== undefined) this.noteQuestion(question, inFlight, { live, doubts, refused, now })
    if (refused) return "unknown"
    const [session] = sessions
    return session === undefined ? "none" : (callerForSession(session, inFlight) ?? "unknown")
  }

  /** Whether messages that name nothing may be of several clients. */
  isCrowded(inFlight: ReadonlyMap<number, Flight>, now: number): boolean {
    return new Set([...[...inFlight.values()].filter(isCall), ...this.doubts(now)].map(sessionOf)).size > 1
  }

  /** A client gave up on its call. `marked`: a ping follows the cancellation. */
  abandon(number: number, flight: Flight, marked: boolean, now: number): void {
    if (!isCall(flight)) return
    const { caller, since } = flight
    this.noteStopped(now)
    for (const [old, { since: from }] of this.abandoned) if (from + LONG_MS <= now) this.abandoned.delete(old)
    this.abandoned.set(number, {
      session: caller.session,
      kind: kindOf(flight),
      since: now,
      ran: now - since,
      marked,
      read: undefined,
      suspicions: 0,
    })
  }

  /** The backend has read the cancellation of a call. */
  read(number: number, now: number): void {
    const call = this.abandoned.get(number)
    if (call !== undefined) call.read = now
  }

  /** A cancelled call was answered after all. */
  answered(number: number, now: number): void {
    const call = this.abandoned.get(number)
    if (call === undefined) return
    this.abandoned.delete(number)
    this.noteGoesOn(call, now)
  }

  /** A cancelled call reported progress. */
  progressed(number: number, now: number): void {
    const call = this.abandoned.get(number)
    if (call !== undefined) this.noteGoesOn(call, now)
  }

  /** A call that was not cancelled was answered. `asked`: a question to its client is not answered yet. */
  settled(flight: Flight, inFlight: ReadonlyMap<number, Flight>, asked: boolean, now: number): void {
    if (this.abandoned.size === 0) return
    if (asked) this.suspect(flight, inFlight, now)
    this.weigh(flight, now)
  }

  // ---

  /** What the questions in a call's life say of its kind, and of the cancelled calls that may have raised them. */
  private weigh(flight: Flight, now: number): void {
    const kind = kindOf(flight)
    const asked = this.asked.get(flight)
    const one = asked?.count === 1 && now - asked.at <= REACTION_MS
    // A call that got no question, or went on as if it had got none, does not ask.
    if (asked === undefined || (asked.alone && asked.refused && !one)) this.askers.delete(kind)
    if (asked === undefined || !one) return
    const before = this.askers.get(kind) ?? 0
    if (before >= ASKERS) for (const call of asked.doubts.splice(0)) call.suspicions--
    if (!asked.alone) return
    this.askers.set(kind, before + 1)
  }

  /** The cancelled calls that the backend may go on with. */
  private doubts(now: number): Abandoned[] {
    if (this.abandoned.size === 0) return []
    this.noteStopped(now)
    return [...this.abandoned.values()].filter((call) => now < this.until(call))
  }

  private until(call: Abandoned): number {
    const { read, since, ran, marked, kind } = call
    if (read === undefined) return since + (marked ? LONG_MS : MAX_DOUBT_MS)
    switch (this.afterCancel.get(kind)) {
      case "stops":
        return read + graceOf(call)
      case "goes on":
        return since + LONG_MS
      case undefined:
        return read + clamp(ran, MIN_DOUBT_MS, MAX_DOUBT_MS)
    }
  }

  /** Cancelled calls that were silent for long enough show that calls of their kind stop. */
  private noteStopped(now: number): void {
    for (const call of this.abandoned.values())
      if (
        call.read !== undefined &&
        call.suspicions === 0 &&
        !this.afterCancel.has(call.kind) &&
        now >= this.until(call)
      )
        this.note(call.kind, "stops")
  }

  private noteGoesOn(call: Abandoned, now: number): void {
    if (call.read !== undefined && now > call.read + graceOf(call)) this.note(call.kind, "goes on")
  }

  /** A call was answered while a question to its client was open: the question is another call's, if not an earlier one's. */
  private suspect({ caller }: Flight, inFlight: ReadonlyMap<number, Flight>, now: number): void {
    const session = caller?.session
    const others = [...inFlight.values(), ...this.abandoned.values()]
    if (session !== undefined && others.every((other) => sessionOf(other) !== session)) this.betray(now)
  }

  /** A question came that only a cancelled call can have raised. */
  private betray(now: number): void {
    const calls = [...this.abandoned.values()]
    if (calls.every(({ read }) => read !== undefined)) for (const call of calls) this.noteGoesOn(call, now)
  }

  private note(kind: string, manner: "stops" | "goes on"): void {
    this.afterCancel.delete(kind)
    this.afterCancel.set(kind, manner)
  }

  /** What a question says of the calls that may have raised it. */
  private noteQuestion(
    question: string,
    inFlight: ReadonlyMap<number, Flight>,
    about: { live: readonly Flight[]; doubts: Abandoned[]; refused: boolean; now: number },
  ): void {
    const { live, doubts, refused, now } = about
    if (this.abandoned.size === 0) return
    const idle = [...inFlight.values()].every(({ caller }) => caller === undefined)
    // Servers ask for roots of their own accord.
    if (idle && question !== "roots/list") this.betray(now)
    for (const call of doubts) call.suspicions++
    const alone = live.length === 1
    for (const flight of live)
      this.asked.set(flight, { count: (this.asked.get(flight)?.count ?? 0) + 1, at: now, alone, refused, doubts })
  }
}

// ---

/** What is kept of a cancelled call, and what it may take where nothing says that it has ended. */
const LONG_MS = 5 * 60_000
const MIN_DOUBT_MS = 5000
const MAX_DOUBT_MS = 30_000
/** For what was on its way when the backend read the cancellation; a slow backend gets as long again as it took to read. */
const GRACE_MS = 20
const REACTION_MS = 100
const ASKERS = 4
const MAX_ABANDONED = 1000
const MAX_KINDS = 1000

const clamp = (value: number, least: number, most: number): number => Math.min(Math.max(value, least), most)

const graceOf = ({ since, read }: Abandoned): number => clamp((read ?? since) - since, GRACE_MS, MIN_DOUBT_MS)

const kindOf = ({ method, name }: Flight): string => (typeof name === "string" ? `${method} ${name}` : method)

const sessionOf = ({ session, caller }: { readonly session?: object; readonly caller?: Caller | undefined }) =>
  session ?? caller?.session

/** Whether a message that names nothing may belong to a request. What a task says names the task. */
const isCall = (flight: Flight): flight is Flight & { readonly caller: Caller } =>
  flight.caller !== undefined && flight.method !== "tasks/result"

/** The way back of one of a client's calls: any is as good as another, but for those that the client has left. */
function callerForSession(session: object, inFlight: ReadonlyMap<number, Flight>): Caller | undefined {
  let found: Caller | undefined
  for (const { caller } of inFlight.values())
    if (caller?.session === session && (found === undefined || found.isConnected?.() === false)) found = caller
  return found
}
