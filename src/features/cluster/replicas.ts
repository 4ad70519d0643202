/**
 * The replicas of a cluster as one of them knows them, and the messages between them.
 *
 *  1. Each replica says hello once a second. A replica that was not heard for DEAD_MS is gone: its signal `gone` aborts what waits
 *     for it. Only this replica's own clock counts: clocks of machines differ.
 *  2. While the shared state is away, or if this replica was itself suspended, it can hear no other replica, so none counts as
 *     gone.
 *  3. A message is sent at most once and not stored. Kinds that a replica does not know, from another version of svc, are ignored.
 *  4. A client's next request may reach another replica before a message does. What must hold for that request is sent with
 *     `sendUntilHeard`, and the client gets its answer after that.
 */
import type { Clock } from "../../lib/clock.ts"
import { parseIfJson } from "../../lib/json.ts"
import { type Id, isObject, type Params } from "../../wire/message.ts"
import type { SharedState } from "./shared-state.ts"

/** What a replica announces about itself. */
export type ReplicaFacts = {
  /** The URL at which the other replicas reach it, without a trailing slash. */
  readonly address: string
  readonly version: string
  /** A digest of its mcp.json. */
  readonly config: string
  /** Digests of the other settings that decide what clients see and who gets in, by name. */
  readonly settings?: Readonly<Record<string, string>>
  /** Milliseconds since the epoch. */
  readonly startedAt: number
  readonly load: ReplicaLoad
  /** The ids of the replicas that it cannot reach at their addresses. */
  readonly unreached?: readonly string[]
  /** The ids of the servers that it runs for all, and that are asleep. */
  readonly asleep?: readonly string[]
  /** Absent in replicas of older versions. */
  readonly acknowledges?: true
}

/** The work of a replica at the moment. */
export type ReplicaLoad = {
  /** Requests to servers that are not answered yet. */
  readonly calls: number
  /** Legacy sessions of which it serves a part. */
  readonly sessions: number
  /** Open streams to clients. */
  readonly streams: number
  /** Whether it is stopping, and should receive no new requests. */
  readonly draining: boolean
}

export type Replica = ReplicaFacts & {
  readonly id: string
  /** Whether it is this process. */
  readonly self: boolean
}

/** Another replica. `gone` is aborted when it is gone. */
export type OtherReplica = Replica & { readonly gone: AbortSignal }

/** The messages between replicas. `session` is the hash of a session's id, so that a reader of Redis cannot use the session. */
export type ReplicaMessage =
  | { readonly kind: "hello"; readonly facts: ReplicaFacts; readonly asks?: true }
  /** The replica stops. */
  | { readonly kind: "bye" }
  /** The client ended the session, and wants no more answers. */
  | { readonly kind: "session.ended"; readonly session: string; readonly reason: string }
  /** The record of the session has changed; `fields` are the changed ones, if known. */
  | { readonly kind: "session.changed"; readonly session: string; readonly fields?: readonly string[] }
  /** The client opened its stream at the sender, or the sender has ended it because it stops. */
  | { readonly kind: "session.stream"; readonly session: string; readonly ended?: true }
  /** A text for the client's stream at the replica `to`; `back`: the replica `to` sent it, and must hold it. */
  | {
      readonly kind: "session.text"
      readonly session: string
      readonly to: string
      readonly text: string
      readonly back?: true
      /** The number of replicas that have passed it on. */
      readonly hops?: number
    }
  /** The client has answered a question of a call at `to`, but the sender cannot forward the answer there. */
  | {
      readonly kind: "session.undelivered"
      readonly session: string
      readonly to: string
      readonly question: Id
    }
  /** The client cancels a request that runs on another replica. */
  | { readonly kind: "session.cancel"; readonly session: string; readonly params: Params }
  /** Lists of servers have changed at the sender, each with its digest. */
  | { readonly kind: "lists"; readonly lists: readonly (readonly [server: string, method: string, digest: string])[] }
  /**
   * Clients of the sender have subscribed to resources of stdio servers, or unsubscribed. From a message with `first` to one
   * with `last`, `added` lists all their subscriptions.
   */
  | {
      readonly kind: "subscriptions"
      readonly number: number
      readonly added: readonly SubscribedResource[]
      readonly removed: readonly SubscribedResource[]
      readonly first?: true
      readonly last?: true
    }
  /** Asks the replica `of` to send all digests of its lists and all subscriptions of its clients. */
  | { readonly kind: "ask"; readonly of: string }
  /** A resource was updated at the sender. */
  | { readonly kind: "updated"; readonly server: string; readonly params: Params }
  /** New tools were pinned, or changed ones approved. */
  | { readonly kind: "pins" }
  /**
   * The lease of a server has changed hands, or is free. With `leaving`, its token, the sender will soon release it: running calls
   * have `ms` milliseconds to end, and new ones must wait for the next owner.
   */
  | { readonly kind: "lease"; readonly server: string; readonly leaving?: number; readonly ms?: number }
  /** Client tokens have changed. */
  | { readonly kind: "tokens" }
  /** svc was authorized at a server, or logged out of it. */
  | { readonly kind: "authorization"; readonly server: string }
  /** The sender has heard the messages of `of` up to this number. */
  | { readonly kind: "heard"; readonly of: string; readonly number: number }

/** A resource by the server's own URI. */
export type SubscribedResource = readonly [server: string, uri: string]

type Kind = ReplicaMessage["kind"]
type MessageOf<K extends Kind> = Extract<ReplicaMessage, { kind: K }>
type MessageListener = (message: ReplicaMessage, from: string) => void

export class Replicas {
  private readonly others = new Map<string, Other>()
  private readonly listeners = new Map<Kind, Set<MessageListener>>()
  private facts: ReplicaFacts | undefined
  private readonly ends: (() => void)[]
  private beat: ((asks: boolean) => void) | undefined
  /** The time of its last regular hello, which it sends every HELLO_MS unless it is suspended. */
  private lastBeat = Number.POSITIVE_INFINITY
  private cancelHello: () => void = () => undefined
  private lastNumber = 0
  /** The messages that this replica or others have not heard yet, by number. */
  private readonly unheard = new Map<number, Unheard>()
  /** The number of the last message of each replica that this one must acknowledge. */
  private readonly toAcknowledge = new Map<string, number>()

  constructor(
    /** The id of this replica. */
    readonly id: string,
    private readonly state: SharedState,
    private readonly clock: Clock,
  ) {
    this.ends = [
      state.onmessage((text) => this.take(text)),
      state.onstate((connected) => {
        if (!connected) {
          for (const { end } of this.unheard.values()) end()
          return
        }
        this.resetHeard()
        this.sendHello(true)
      }),
    ]
  }

  /** Starts to say hello. `facts` is called for each hello. */
  join(facts: () => ReplicaFacts): void {
    const beat = (asks: boolean) => {
      this.cancelHello()
      // First, so that a beat that fails is repeated.
      this.cancelHello = this.clock.after(HELLO_MS, () => beat(false))
      this.removeGone()
      this.facts = facts()
      this.sendHello(asks)
    }
    this.beat = beat
    beat(true)
  }

  /** Says hello now, because the facts about this replica have changed. */
  sendHelloNow(): void {
    this.beat?.(false)
  }

  /** Returns all live replicas, this one first if it has joined. */
  all(): readonly Replica[] {
    const own = this.facts === undefined ? [] : [{ ...this.facts, id: this.id, self: true }]
    return [...own, ...this.living()]
  }

  /** Returns the other live replicas. */
  living(): readonly OtherReplica[] {
    const others = [...this.others.keys()].flatMap((id) => this.find(id) ?? [])
    return others.sort((a, b) => (a.id < b.id ? -1 : 1))
  }

  /** Returns another live replica; undefined if there is none with this id. */
  find(id: string): OtherReplica | undefined {
    const found = this.others.get(id)
    return found === undefined || found.hasLeft || this.isGone(found) ? undefined : found.replica
  }

  /** Returns the other live replica whose address a URL begins with; undefined if there is none. */
  at(url: string): OtherReplica | undefined {
    for (const [id, { replica }] of this.others) {
      const found = url.startsWith(`${replica.address}/`) ? this.find(id) : undefined
      if (found !== undefined) return found
    }
    return undefined
  }

  /** Aborts what waits for another replica, which says hello but does not answer. */
  abortRequests(id: string): void {
    const other = this.others.get(id)
    if (other === undefined) return
    this.others.set(id, { ...other, ...withSignal(other.replica) })
    other.end()
  }

  /** Sends a message to all replicas. The message is lost while the shared state is away. */
  send(message: ReplicaMessage): void {
    void this.deliver(message).catch(() => undefined)
  }

  /** Sends a message to all replicas. Rejects with an UnavailableError while the shared state is away. */
  deliver(message: ReplicaMessage): Promise<void> {
    return this.publish(message)
  }

  /**
   * Sends a message to all replicas. Calls `onecho` when this replica hears the message itself, or it is lost. What this replica
   * hears before was sent before, and every other replica hears both in that order.
   */
  sendWithEcho(message: ReplicaMessage, onecho: () => void): void {
    this.sendTo([], message, onecho)
  }

  /**
   * Sends a message to all replicas. Resolves when this one and all others that are live have heard it, after HEARD_MS, or if
   * it is lost.
   */
  sendUntilHeard(message: ReplicaMessage): Promise<void> {
    const others = this.living().filter(({ acknowledges }) => acknowledges === true)
    const { promise, resolve } = Promise.withResolvers<void>()
    const cancel = this.clock.after(HEARD_MS, () => end())
    const end = this.sendTo(
      others.map(({ id }) => id),
      message,
      () => {
        cancel()
        resolve()
      },
    )
    return promise
  }

  /** Calls `listener` with each message of a kind from another replica; the returned function ends that. */
  on<K extends Kind>(kind: K, listener: (message: MessageOf<K>, from: string) => void): () => void {
    const all = this.listeners.get(kind) ?? new Set<MessageListener>()
    this.listeners.set(kind, all)
    const typed = listener as MessageListener
    all.add(typed)
    return () => void all.delete(typed)
  }

  /** Says goodbye. Resolves when the message is sent, or lost. */
  async close(): Promise<void> {
    this.cancelHello()
    this.beat = undefined
    const hasJoined = this.facts !== undefined
    this.facts = undefined
    for (const end of this.ends.splice(0)) end()
    if (hasJoined) await this.deliver({ kind: "bye" }).catch(() => undefined)
  }

  // ---

  private publish(message: ReplicaMessage, echo?: number, acknowledge?: true): Promise<void> {
    return this.state.publish(JSON.stringify({ ...message, from: this.id, echo, acknowledge }))
  }

  /**
   * Sends a message to all replicas. Calls `onheard` once: when this one has heard it and `others` have acknowledged it, if it is
   * lost, or when the returned function ends the wait.
   */
  private sendTo(others: readonly string[], message: ReplicaMessage, onheard: () => void): () => void {
    const number = ++this.lastNumber
    const end = () => {
      if (this.unheard.delete(number)) onheard()
    }
    this.unheard.set(number, { by: new Set([this.id, ...others]), end })
    this.publish(message, number, others.length > 0 || undefined).catch(end)
    return end
  }

  private isGone({ heard }: Other): boolean {
    return this.state.connected && !this.wasSuspended() && this.clock.now() - heard > DEAD_MS
  }

  private wasSuspended(): boolean {
    return this.clock.now() - this.lastBeat > SUSPENDED_MS
  }

  /** Marks replicas at the address of a new one as gone: they have ended, and the new one would receive their requests. */
  private replaceAt({ address }: Replica): void {
    for (const other of this.others.values())
      if (other.replica.address === address) Object.assign(other, { hasLeft: true, heard: this.clock.now() })
  }

  /** Rule 2: the time without a sign of life begins anew for each replica. */
  private resetHeard(): void {
    for (const other of this.others.values()) other.heard = this.clock.now()
  }

  /** Removes the replicas that are gone, and aborts what waits for them. */
  private removeGone(): void {
    if (this.wasSuspended()) this.resetHeard()
    this.lastBeat = this.clock.now()
    for (const [id, other] of this.others) {
      if (!this.isGone(other)) continue
      this.others.delete(id)
      other.end()
      this.heardBy(id, Number.POSITIVE_INFINITY)
    }
  }

  /** Notes that a replica has heard all messages up to a number. */
  private heardBy(id: string, number: number): void {
    for (const [each, { by, end }] of this.unheard) {
      // In the order of their numbers.
      if (each > number) return
      by.delete(id)
      if (by.size === 0) end()
    }
  }

  /** Acknowledges a message of another replica, at once with those that arrive in the same turn. */
  private acknowledge(from: string, number: number): void {
    this.toAcknowledge.set(from, number)
    if (this.toAcknowledge.size > 1) return
    this.clock.after(0, () => {
      for (const [of, last] of this.toAcknowledge) this.send({ kind: "heard", of, number: last })
      this.toAcknowledge.clear()
    })
  }

  private sendHello(asks: boolean): void {
    if (this.facts === undefined) return
    this.send({ kind: "hello", facts: this.facts, ...(asks ? { asks: true as const } : {}) })
  }

  private take(text: string): void {
    const message = parseIfJson(text)
    if (!isObject(message) || typeof message.from !== "string") return
    const { from, echo } = message
    if (from === this.id) {
      if (typeof echo === "number") this.heardBy(from, echo)
      return
    }
    const known = message as ReplicaMessage
    if (known.kind === "heard") {
      if (known.of === this.id) this.heardBy(from, known.number)
    } else if (known.kind === "hello") {
      const replica = { ...known.facts, id: from, self: false }
      const before = this.others.get(from)
      if (before === undefined) this.replaceAt(replica)
      const lives =
        before === undefined
          ? withSignal(replica)
          : { replica: { ...replica, gone: before.replica.gone }, end: before.end }
      this.others.set(from, { ...lives, heard: this.clock.now(), hasLeft: false })
      if (known.asks === true) this.sendHello(false)
    } else if (known.kind === "bye") {
      // Responses that it has sent may still be on the way.
      const other = this.others.get(from)
      if (other !== undefined) Object.assign(other, { hasLeft: true, heard: this.clock.now() })
      this.heardBy(from, Number.POSITIVE_INFINITY)
    }
    for (const listener of this.listeners.get(known.kind) ?? []) listener(known, from)
    if (message.acknowledge === true && typeof echo === "number") this.acknowledge(from, echo)
  }
}

// ---

type Other = {
  readonly replica: OtherReplica
  /** Aborts what waits for it. */
  end(): void
  heard: number
  /** Whether it said goodbye, or another replica has its address. */
  hasLeft: boolean
}

/** A message that was sent; `by`: the replicas that have not heard it. */
type Unheard = { readonly by: Set<string>; end(): void }

/** Returns a replica with a new signal, and the function that aborts it. */
function withSignal(replica: Replica): Pick<Other, "replica" | "end"> {
  const controller = new AbortController()
  return { replica: { ...replica, gone: controller.signal }, end: () => controller.abort() }
}

const HELLO_MS = 1000
const DEAD_MS = 4000
/** How long a message waits for the replicas that have not heard it: a client waits for the answer meanwhile. */
const HEARD_MS = 2 * HELLO_MS
/** If its own hello is this late, a replica was suspended, and may have missed those of others. */
const SUSPENDED_MS = 2 * HELLO_MS
