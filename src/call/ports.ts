/** The ports through which the call path uses the rest of svc; `createGateway` connects them to the agent. */
import type { TaskOwners } from "../agent/task-owners.ts"
import type { Caller } from "../backend/attribution.ts"
import type { Connection } from "../backend/connection.ts"
import type { Pair } from "../backend/established-connection.ts"
import type { Peer } from "../backend/negotiate.ts"
import type { AnswerTaker } from "../backend/pending-requests.ts"
import type { Catalog, Route, View } from "../catalog/catalog.ts"
import type { UnavailableServer } from "../catalog/instructions.ts"
import type { ListMethod } from "../catalog/listing.ts"
import type { Scope } from "../catalog/scope.ts"
import type { ServerSpec } from "../config/server-spec.ts"
import type { Marker } from "../lib/seal.ts"
import type { CallOutcome } from "../report/metrics.ts"
import type { Era } from "../wire/era.ts"
import type { Id, Params, Request } from "../wire/message.ts"
import type { Answer, Answering } from "./answer.ts"
import type { CallRateLimit } from "./call-rate-limit.ts"
import type { Client, Exchange } from "./client.ts"

/** One request of a client, created once by the transport. */
export type ClientCall = {
  readonly request: Request
  readonly client: Client
  readonly exchange: Exchange
  readonly gateway: Gateway
  /** Compares the headers that repeat the request with the catalog; returns a refusal if they differ. */
  readonly verify?: ((view: View) => Answer | undefined) | undefined
  /** The address of the client, if the audit log wants it. */
  readonly address?: string | undefined
  /** The HTTP request that carried it, for traces; undefined on stdio. */
  readonly http?: Pick<globalThis.Request, "headers"> | undefined
  /**
   * Set if the client made this call through a tool that runs other tools; "read-only" if that tool runs only tools that are
   * marked read-only.
   */
  readonly wrapper?: "any" | "read-only"
  /** Where the request goes, once that is decided. */
  destination?: Decided | undefined
  /** Set if svc records traces or metrics. */
  span?: RequestSpan | undefined
  /** The milliseconds that the call has waited for a server or a person, and that a server had it, while calls are measured. */
  waited?: number
  atServer?: number
}

/** Where a request goes: to svc itself, to a server, to nobody, or where it will go when a server (its id) is there. */
export type Destination = Decided | { readonly kind: "waiting"; readonly for: string }

/** `waitedFor`: the server that the request has waited for, which may offer less than before. */
export type Decided =
  /** Without `run`, the request is for svc itself and not for a feature. */
  | { readonly kind: "own"; run?(call: ClientCall, view: View): Answering }
  /** `params` have the server's own names. */
  | { readonly kind: "server"; readonly route: Route; readonly params: Params; readonly waitedFor?: string }
  /** `unlisted`: the server that has not answered the list with the name. */
  | {
      readonly kind: "refused"
      readonly what: "tool" | "prompt" | "resource" | "task"
      readonly name: unknown
      readonly unlisted?: UnlistedServer
      readonly waitedFor?: string
    }

export type Gateway = {
  readonly version: string
  readonly directory: Directory
  readonly notifications: Notifications
  readonly tasks: TaskPort
  readonly limits: Limits
  readonly observers: Observers
  /** svc's own tools, in the order in which a name is looked up. */
  readonly ownTools: readonly OwnTools[]
  /**
   * Sends a request to its server, through the stages; names in `params` are already the server's own. Throws or rejects with a
   * RequestError if the client may not do this.
   */
  toServer(call: ClientCall, params: Params, route: Route): Answering
  /** Masks the configured secrets in a text that svc writes for a client. */
  hide(text: string): string
  /** The tails of answers with whole lists, by the entries of the list. */
  readonly lists: WeakMap<readonly string[], Uint8Array>
  /** Undefined for a single svc. */
  readonly replicas?: RemoteReplicas | undefined
  /** Undefined for a single svc. */
  readonly changes?: ChangeExchange | undefined
}

/** The part of a legacy session on one replica. */
export type SessionPart = {
  readonly id: string
  /** The replica with the client's stream, or with its last one; undefined if there was none. */
  streamAt: string | undefined
}

/** The parts of legacy sessions on other replicas: each replica that serves a session has a part of it. */
export type RemoteReplicas = {
  /** The id of this replica. */
  readonly replica: string
  /** Whether another replica is alive. */
  lives(replica: string): boolean
  /** Whether another live replica has the session's stream, or had its last one. */
  isStreamElsewhere(part: SessionPart): boolean
  /** Handles messages about a part until it ends. */
  begin(part: SessionPart): void
  end(part: SessionPart): void
  /**
   * Sends a text to the replica with the session's stream. Returns false if that is this replica, there is none, or too many
   * replicas have passed the text on (`hops`).
   */
  pass(part: SessionPart, text: string, hops?: number): boolean
  /**
   * Cancels a request of the session that runs on another replica. Rejects with an UnavailableError if no replica can be
   * notified, with a RequestError if the session cancels too many requests.
   */
  cancel(part: SessionPart, params: Params): Promise<void>
  /** Announces that the client's answer to a server request on another replica arrived here, and cannot be delivered there. */
  reportUndelivered(part: SessionPart, question: Id, replica: string): void
  /** Announces that the client opened its stream here. */
  opened(part: SessionPart): void
  /** Announces that this replica stops and has ended the client's stream, which the client reopens at another one. */
  streamDrained(part: SessionPart): void
  /** Announces that the client ended the session. Resolves when the other replicas have been told, or cannot be. */
  ended(part: SessionPart, reason: string): Promise<void>
}

/** Exchanges changes of servers with other replicas. */
export type ChangeExchange = {
  /** Registers the handlers of changes on other replicas. */
  follow(handlers: {
    listsChanged(server: string, methods: readonly ListMethod[]): void
    /** Called when a resource, by the server's own URI, was updated. */
    updated(server: string, params: Params): void
  }): void
  /** Notifies the other replicas of lists that have changed here. */
  catalogChanged(): void
  /** Whether clients of this replica may subscribe to one more resource: replicas exchange a limited number. */
  hasRoom(server: string, uri: string): boolean
  /** Notifies the other replicas that a resource was updated, if clients there are subscribed to it. */
  updated(server: string, params: Params): void
}

/** A connected backend as a request needs it. */
export type Target = {
  readonly spec: ServerSpec
  readonly connection: Connection
  readonly peer: Peer
  /** Undefined if the connection serves clients of both eras. */
  readonly pair?: Pair
}

/** Where a request goes, and what goes there. */
export type Routed = {
  /** The connection that it uses, or the reason why there is none. */
  readonly target: Target | string
  readonly route: Route
  /** Names in them are already the server's own. */
  readonly params: Params
  /**
   * Begins to store a large answer while it arrives; returns undefined if it passes whole. Absent if it may be sent while it
   * arrives.
   */
  readonly store?: (() => AnswerStorage | undefined) | undefined
}

/** Answers a request. Throws or rejects with a RequestError for one that svc refuses. */
export type Handler = (call: ClientCall, to: Routed) => Answering

/** A stage does its part before and after `next`, or answers without it. It knows nothing of transports or of other stages. */
export type Stage = (next: Handler) => Handler

/** A connected server that has not answered a list. */
type UnlistedServer = { readonly id: string; readonly slug: string; readonly reason: string }

/** The servers, their offers, and the ways to reach them. */
export type Directory = {
  /** Returns the catalog of a session. */
  catalogOf(session: object): Catalog
  /** Pending while the first round of loading runs; undefined afterwards. */
  readonly initialLoad: Promise<void> | undefined
  /** Whether svc is stopping, so that its servers are being stopped. */
  readonly stopping: boolean
  /**
   * Returns the connected backend, or the reason why there is none; with `era`, the connection of that era if it is open.
   */
  target(id: string, era?: Era): Target | string
  /** Returns a promise to wait for lists of a view that are too old for a client which asks now; undefined if none is. */
  freshen(view: View, session: object, method: ListMethod): Promise<unknown> | undefined
  /**
   * Requests a list of a server with the `_meta` of a client's request. Returns the catalog of that server for this client;
   * undefined if svc answers from its own copy. Rejects with the server's refusal.
   */
  listWith(id: string, session: object, method: ListMethod, meta: Params): Promise<Catalog> | undefined
  /** Starts to open the connection of an era, and returns the wait for it; undefined if there is nothing to wait for. */
  prepare(id: string, era: Era): Promise<void> | undefined
  /** Returns the id of a server of this scope that is not connected or does not run, by its slug. */
  disconnectedId(scope: Scope, slug: string | undefined): string | undefined
  /** Returns the servers of this scope that are not connected or do not run. */
  unavailable(scope: Scope): readonly UnavailableServer[]
  /** Returns the connected server of this scope and slug that has never answered a list, and the reason. */
  unlisted(scope: Scope, slug: string | undefined, method: ListMethod): UnlistedServer | undefined
  /**
   * Whether a server is connected, has listed, and takes a call: one that begins waits for the next owner if the replica that runs
   * the server stops.
   */
  takesCalls(id: string, begins: boolean): boolean
  /** Whether a server is asleep or waking: it is listed, and a request for it waits for its process. */
  isAsleep(id: string): boolean
  /** Whether this replica may run a server with `"replicas": "one"`. */
  mayRun(id: string): boolean
  /** Returns the other replica that runs a server with `"replicas": "one"`; undefined if there is none. */
  runnerOf(id: string): string | undefined
  /**
   * Returns a promise to wait for a server that may be connected in a moment, or for the first lists of a connected server;
   * undefined if there is nothing to wait for.
   */
  whenBack(id: string): Promise<void> | undefined
  /**
   * Returns a promise to wait, not for long, for the lists of a server that takes calls since it has woken; undefined if there is
   * nothing to wait for.
   */
  whenRelisted(id: string): Promise<void> | undefined
  /** Resolves when a server has another connection than this one, or when the wait has lasted too long. */
  whenReplaced(id: string, connection: Connection): Promise<void>
  /**
   * Returns the client's own process of a server with `isolation: "session"`, or the reason why there is none. `owner` reaches
   * the client outside of any call. `caller` is notified if the state of an earlier process is lost. svc announces the client's
   * `capabilities` to the process.
   */
  dedicated(id: string, owner: Caller, caller: Caller, capabilities: Params): Promise<Target | string>
}

/** What a server makes of a request: the reason if it refuses; undefined if there is nothing to wait for. */
export type ServerDecision = Promise<Error | undefined> | undefined

/** Notifications from servers to sessions, and from clients to servers. */
export type Notifications = {
  /**
   * Subscribes a client's session to a resource (the backend's own URI). Returns the server's decision: the reason if it refuses;
   * undefined if the server is not connected. Never rejects.
   */
  subscribe(id: string, uri: string, session: object, era: Era): ServerDecision
  /** Ends a subscription. Resolves when the server has answered, if it was asked; undefined if it is not connected. Never rejects. */
  unsubscribe(id: string, uri: string, session: object): ServerDecision
  /** Requests log messages of this level and above; undefined leaves the choice to the servers. Returns the level before. */
  setLogLevel(session: object, level: string | undefined): string | undefined
  /** Returns the decision of a server on the last level that was requested from it. Never rejects. */
  levelDecided(id: string, session: object): ServerDecision
  /** Drops the session's log level. */
  dropLogLevel(session: object): void
  /** Passes a client's notification to the backends that serve only this client. */
  toBackend(client: Pick<Client, "scope" | "session" | "era">, method: string, params: Params): void
  /** Registers the stream of a modern client; the returned function removes it. */
  listen(listener: Listener): () => void
}

/** A modern client's stream that receives notifications of changes. */
export type Listener = {
  readonly client: Client
  /** Called when the catalog has changed. */
  catalogChanged(): void
  /** Called when lists of a server in its scope have changed on another replica. */
  listsChanged(methods: readonly ListMethod[]): void
  /** Called when a resource was updated; `uri` is the URI that this client uses. */
  updated(uri: string, params: Params): void
}

/** The parts of a client that decide which tools it has. */
export type Viewer = Pick<Client, "scope" | "era">

/** The parts of a call that decide whether the client has a tool. */
export type Asked = { readonly client: Viewer } & Pick<ClientCall, "wrapper">

/** The parts of a call that decide which call is inside it. */
export type Wrapping = Pick<ClientCall, "request" | "client" | "gateway">

/** The call inside a call of a tool that runs other tools. */
export type InnerCall = Pick<ClientCall, "request" | "wrapper">

/** svc's own tools of one feature. */
export type OwnTools = {
  /** Returns whether a client has a tool of this name; "denied" if only its token prevents that. */
  has(name: unknown, asked: Asked, view: View): "offered" | "denied" | undefined
  /** Returns the entries of those of the client's tools that a search finds, as JSON texts. */
  entries(client: Viewer, view: View): readonly string[]
  /** Returns the entries that the client lists, from those that it would list without these tools; the same array if it can. */
  list(listed: readonly string[], client: Viewer, view: View): readonly string[]
  /** Runs a tool that the client has. Throws or rejects with a RequestError for a request that it cannot read. */
  run(call: ClientCall, view: View): Answering
  /** Returns the function that reads a resource of the feature; undefined for any other URI. */
  read?(uri: unknown): ((call: ClientCall) => Answering) | undefined
  /** Returns capabilities that a client needs for these tools, beside those of the servers. */
  capabilities?(client: Viewer, view: View): Params
  /** Returns the replica that has what a request needs, as far as its params show it. */
  replicaOf?(method: unknown, params: Params): string | undefined
  /** Returns the request of the call inside a call of a tool that runs other tools, and its `wrapper`; undefined for any other call. */
  unwrap?(call: Wrapping): InnerCall | undefined
  /** Returns the params of the call inside the params of a call, as far as they can be read without a view. */
  innerParams?(params: Params): Params | undefined
  /** Runs an unwrapped call by `next`, with its own checks before it and hints after it. */
  around?(call: ClientCall, view: View, next: () => Answering): Answering
  /** Answers a call of a name that no tool has; returns undefined to leave that to svc. */
  unknown?(call: ClientCall, view: View): Answering | undefined
}

/** Stores the large values of an answer while it arrives. */
export type AnswerStorage = AnswerTaker & {
  /** Resolves with whether values were taken out of the answer. Rejects with a BackendError if they cannot be stored. */
  hasTaken(): Promise<boolean>
}

/** Ownership of tasks and other ids of servers. */
export type TaskPort = {
  /** Authenticates the owners of task ids. */
  readonly mark: Marker
  readonly owners: TaskOwners
}

export type Limits = {
  /** Maximum concurrent requests for one server, and for one session. */
  readonly maxInFlight: number
  /** Maximum entries of a list in one answer. */
  readonly pageSize: number
  /** Maximum characters of the aggregate's instructions. */
  readonly instructions: number
  readonly callRate: CallRateLimit
  /** Maximum calls per minute of one session; undefined for no limit. */
  readonly sessionRate: number | undefined
}

export type Observers = {
  /** Undefined if nothing is counted. */
  readonly meter: Meter | undefined
  /** Undefined if calls are not logged. */
  readonly audit: Audit | undefined
  /** Undefined if svc records no traces and no metrics. */
  readonly tracer: Tracer | undefined
  /** Reports errors that are bugs of svc, with the trace of the request if there is one. */
  onbug(error: unknown, trace?: string): void
}

/** A finished tool call. */
export type FinishedCall = {
  readonly server: string
  readonly tool: string
  readonly outcome: CallOutcome
  readonly seconds: number
  /** The milliseconds since the call arrived, by who had it: it waited for a server or a person, the server had it, or svc. */
  readonly parts: { readonly waiting: number; readonly server: number; readonly svc: number }
  readonly call: ClientCall
  readonly answer: Answer
}

/** Counts relayed calls and bytes. */
type Meter = {
  /** Returns the milliseconds of a monotonic clock. */
  now(): number
  /** Records one finished tool call; `seconds` is how long it took. */
  record(finished: FinishedCall): void
  /** Counts a request that begins to wait for a server (1), or no longer waits (-1). */
  waits(change: 1 | -1): void
  /** Counts the bytes of a request to a server ("in") or of an answer to a client ("out"). */
  passed(direction: "in" | "out", bytes: number): void
}

/** Begins the spans of requests: traces record them, metrics measure them. */
export type Tracer = {
  /** Begins the span of a client's request; one that opens a session has no client yet. */
  begin(
    call: Pick<ClientCall, "request" | "http" | "address" | "destination"> & { readonly client?: Client | undefined },
  ): RequestSpan
}

/** The span of a client's request. */
export type RequestSpan = {
  /** Undefined if svc only measures requests. */
  readonly traceId: string | undefined
  /**
   * Begins the span of a request to a server, with the params that svc would send without it. `unlisted`: no list has the name in
   * them.
   */
  toServer(target: Pick<Target, "spec" | "peer">, method: string, params: Params, unlisted?: true): ServerSpan
  /** Records something that happened during the request, and the server that it concerns. */
  event(name: SpanEvent, server?: string): void
  end(answer: Answer | SpanFailure): void
}

/** The span of a request to a server. */
export type ServerSpan = {
  /** The params with the context of the span. */
  readonly params: Params
  /** Records the id with which the request was sent. Absent if nothing needs it. */
  readonly sent?: ((id: string) => void) | undefined
  /** Ends the span. Later ends change nothing. */
  end(end: Pick<Answer, "outcome" | "code"> | SpanFailure): void
}

/** What happens during a request. */
export type SpanEvent = "svc.wait" | "svc.wake" | "svc.bridge" | "svc.input" | "svc.search" | "svc.retry"

/** How a request ended that has no answer, or none of its server. */
export type SpanFailure = "cancelled" | "timeout" | "unavailable" | "_OTHER"

/** The entry of a call. */
export type AuditedCall = {
  /** Completes the entry with the call's answer. */
  end(answer: Answer): void
}

/** Writes the audit log. */
export type Audit = {
  /** Begins the entry of a call. */
  call(call: ClientCall): AuditedCall
  /** Begins the entry of an operator's action; the returned function completes it. `principal` is "local" for a command. */
  action(action: string, about: Params, principal?: string): (outcome: "ok" | "error") => void
  /** Writes an entry about access: a refused login, or a created or revoked token. */
  access(event: string, outcome: "ok" | "error", about: Params): void
}
