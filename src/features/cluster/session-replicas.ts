/**
 * Connects the parts that several replicas have of one legacy session.
 *
 *  1. A call runs on the replica that receives it. The messages of the call go out on its own stream, there.
 *  2. A message that belongs to no call goes to the replica with the client's stream. If that replica is gone, this one holds the
 *     message until the client opens a stream anywhere. Of several streams, the one stays whose opening all replicas hear last. A
 *     replica that stops ends the stream, and returns messages that it receives for it later. If replicas are wrong about each
 *     other's streams, a message is passed on at most MAX_HOPS times, and then held.
 *  3. Messages between replicas can be lost while the shared state is away. When it is back, each part is compared with its
 *     record. A cancellation is in no record: it is sent again to a replica that has connected since.
 *  4. The client's answer to a server request is forwarded over HTTP to the replica with the call. If that replica cannot be
 *     reached, the client is told to try again, and the server request fails AGAIN_MS later: its call would wait forever.
 */

import type { Gateway, RemoteReplicas, SessionPart } from "../../call/ports.ts"
import { BoundedMap } from "../../lib/bounded-map.ts"
import type { Clock } from "../../lib/clock.ts"
import { RequestError, RPC_CODE } from "../../lib/errors.ts"
import type { Session } from "../../session/session.ts"
import type { Sessions } from "../../session/sessions.ts"
import { hashOfSession } from "../../store/session-store.ts"
import { type Id, isId, type Params } from "../../wire/message.ts"
import type { ReplicaMessage, Replicas } from "./replicas.ts"

export type SessionReplicasDeps = {
  readonly replicas: Replicas
  readonly clock: Clock
  sessions(): Pick<Sessions, "part" | "remove" | "refresh" | "save">
  gateway(): Gateway
}

/** Follows the messages of other replicas about sessions, for as long as svc runs. */
export class SessionReplicas implements RemoteReplicas {
  /** The ids of the sessions of which this replica has a part, by their hashes. */
  private readonly ids = new Map<string, string>()
  /** Sessions whose stream was opened here, until this replica hears its own message: messages that it hears before are older. */
  private readonly opening = new Map<string, symbol>()
  /** The last cancellations, each with the time at which it was sent. */
  private readonly cancellations = new BoundedMap<ReplicaMessage, number>(MAX_CANCELLATIONS)
  /** The number of cancellations of each session in the current window. */
  private readonly counts = new WeakMap<SessionPart, { count: number; readonly since: number }>()

  constructor(private readonly deps: SessionReplicasDeps) {
    const { replicas, sessions, gateway, clock } = deps
    replicas.on("session.ended", ({ session, reason }) => {
      const part = this.partOf(session)
      part?.running.drop(reason)
      if (part !== undefined) sessions().remove(part.id, reason)
    })
    replicas.on("session.changed", ({ session, fields }) => {
      const part = this.partOf(session)
      // If the state is away, the part is compared when it is back.
      if (part !== undefined)
        sessions()
          .refresh(part, gateway(), fields)
          .catch(() => undefined)
    })
    replicas.on("session.stream", ({ session, ended }, from) => {
      const part = this.partOf(session)
      if (part === undefined || this.opening.has(session)) return
      if (ended !== true) part.openedElsewhere(from)
      else if (part.streamAt === from) part.streamAt = undefined
    })
    replicas.on("session.text", ({ session, to, text, back, hops = 0 }, from) => {
      const part = to === replicas.id ? this.partOf(session) : undefined
      if (part === undefined) return
      if (back !== true && part.isStreamDrained) {
        replicas.send({ kind: "session.text", session, to: from, text, back: true, hops })
        return
      }
      // A replica that returns a text has no stream, even if it announced one.
      if (back === true && part.streamAt === from) part.streamAt = undefined
      part.notify(text, hops + 1)
    })
    replicas.on("session.undelivered", ({ session, to, question }) => {
      const part = to === replicas.id ? this.partOf(session) : undefined
      if (part?.isAsking(question) !== true) return
      const error = { code: RPC_CODE.internalError, message: UNDELIVERED }
      clock.after(AGAIN_MS, () => part.answered({ jsonrpc: "2.0", id: question, error }))
    })
    replicas.on("session.cancel", ({ session, params }) => void this.partOf(session)?.running.cancel(params))
    replicas.on("hello", ({ asks }) => {
      if (asks !== true) return
      for (const [message, at] of this.cancellations) if (clock.now() - at < MISSED_MS) replicas.send(message)
    })
  }

  get replica(): string {
    return this.deps.replicas.id
  }

  lives(id: string): boolean {
    return this.deps.replicas.find(id) !== undefined
  }

  isStreamElsewhere(part: SessionPart): boolean {
    return this.streamOf(part) !== undefined
  }

  begin({ id }: SessionPart): void {
    this.ids.set(hashOfSession(id), id)
  }

  end({ id }: SessionPart): void {
    this.ids.delete(hashOfSession(id))
  }

  pass(part: SessionPart, text: string, hops = 0): boolean {
    const to = this.streamOf(part)
    if (to === undefined || text.length > MAX_PASSED_CHARS || hops > MAX_HOPS) return false
    this.deps.replicas.send({ kind: "session.text", session: hashOfSession(part.id), to, text, hops })
    return true
  }

  async cancel(part: SessionPart, { requestId, reason }: Params): Promise<void> {
    if (!isId(requestId)) return
    if (String(requestId).length > MAX_ID_CHARS)
      throw new RequestError("invalid_params", `The requestId must have at most ${MAX_ID_CHARS} characters`)
    if (this.countOf(part) > MAX_CANCELLATIONS)
      throw new RequestError("too_many", `More than ${MAX_CANCELLATIONS} cancellations; try again in a moment`, {
        retryAfter: WINDOW_MS / 1000,
      })
    const told = typeof reason === "string" ? { reason: reason.slice(0, MAX_REASON_CHARS) } : {}
    const message = {
      kind: "session.cancel",
      session: hashOfSession(part.id),
      params: { requestId, ...told },
    } as const
    await this.deps.replicas.deliver(message)
    this.cancellations.set(message, this.deps.clock.now())
  }

  reportUndelivered({ id }: SessionPart, question: Id, to: string): void {
    this.deps.replicas.send({ kind: "session.undelivered", session: hashOfSession(id), to, question })
  }

  opened(part: SessionPart): void {
    this.moveStream(part, this.replica)
    const session = hashOfSession(part.id)
    const last = Symbol()
    this.opening.set(session, last)
    this.deps.replicas.sendWithEcho({ kind: "session.stream", session }, () => {
      if (this.opening.get(session) === last) this.opening.delete(session)
    })
  }

  streamDrained(part: SessionPart): void {
    this.moveStream(part, undefined)
    this.deps.replicas.send({ kind: "session.stream", session: hashOfSession(part.id), ended: true })
  }

  ended({ id }: SessionPart, reason: string): Promise<void> {
    return this.deps.replicas.sendUntilHeard({ kind: "session.ended", session: hashOfSession(id), reason })
  }

  // ---

  private partOf(hash: string): Session | undefined {
    const id = this.ids.get(hash)
    return id === undefined ? undefined : this.deps.sessions().part(id)
  }

  /** Returns the other live replica with the session's stream. */
  private streamOf({ streamAt }: SessionPart): string | undefined {
    return streamAt === undefined ? undefined : this.deps.replicas.find(streamAt)?.id
  }

  /** Records which replica has the session's stream. */
  private moveStream(part: SessionPart, replica: string | undefined): void {
    part.streamAt = replica
    const sessions = this.deps.sessions()
    const own = sessions.part(part.id)
    if (own !== undefined) sessions.save(own)
  }

  /** Counts a cancellation, and returns the number of those in the current window. */
  private countOf(part: SessionPart): number {
    const now = this.deps.clock.now()
    const known = this.counts.get(part)
    const current = known !== undefined && now - known.since < WINDOW_MS ? known : { count: 0, since: now }
    this.counts.set(part, current)
    return ++current.count
  }
}

// ---

/** A replica that has lost Redis is usually connected again by then. */
const MISSED_MS = 10_000
/** Cancellations of requests on other replicas that a session may send in a window: more than it has requests in flight. */
const MAX_CANCELLATIONS = 1000
const WINDOW_MS = 10_000
const MAX_ID_CHARS = 1024
const MAX_REASON_CHARS = 256
/** How often a text is passed on at most: to a stream that has moved, back from a replica that stops, then to the new stream. */
const MAX_HOPS = 3
/** How long a client has to repeat an answer that could not be delivered. */
const AGAIN_MS = 5000
const UNDELIVERED =
  "The client has answered, but its answer arrived at a replica of svc that cannot reach the one with this call; correct its --cluster-address"
/** Redis disconnects a subscriber that reads more slowly than messages arrive. */
const MAX_PASSED_CHARS = 1024 * 1024
