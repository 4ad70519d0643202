/** What the path of a call needs of the rest of svc, as small ports; `createGateway` connects them to the agent. */
import type { TaskOwners } from "../agent/task-owners.ts"
import type { Caller } from "../backend/attribution.ts"
import type { AnswerTaker, Connection } from "../backend/connection.ts"
import type { Pair } from "../backend/established-connection.ts"
import type { Peer } from "../backend/negotiate.ts"
import type { Catalog, View } from "../catalog/catalog.ts"
import type { UnavailableServer } from "../catalog/instructions.ts"
import type { LazyWrapper } from "../catalog/lazy-tools.ts"
import type { ListMethod } from "../catalog/listing.ts"
import type { Scope } from "../catalog/scope.ts"
import type { ToolFinder } from "../catalog/tool-finder.ts"
import type { ResultBudget } from "../config/result-budget.ts"
import type { ServerSpec } from "../config/server-spec.ts"
import type { Marker } from "../lib/seal.ts"
import type { CallOutcome } from "../report/metrics.ts"
import type { ResultSizes } from "../report/result-sizes.ts"
import type { ResultStore } from "../store/result-store.ts"
import type { Toolbox } from "../tools/toolbox.ts"
import type { Era } from "../wire/era.ts"
import type { Params, Request } from "../wire/message.ts"
import type { Answer } from "./answer.ts"
import type { CallRateLimit } from "./call-rate-limit.ts"
import type { Client, Exchange } from "./client.ts"
import type { TakenValues } from "./result-intake.ts"

/** One request of a client, made once where the transport receives it. */
export type ClientCall = {
  readonly request: Request
  readonly client: Client
  readonly exchange: Exchange
  readonly gateway: Gateway
  /** Compares what the transport repeats of the request with the catalog; returns a refusal. */
  readonly verify?: ((view: View) => Answer | undefined) | undefined
  /** The tool of a lazy view through which the client made this call. */
  readonly wrapper?: LazyWrapper
}

export type Gateway = {
  readonly version: string
  readonly directory: Directory
  readonly notifications: Notifications
  readonly tasks: TaskPort
  readonly limits: Limits
  readonly observers: Observers
  readonly results: ResultPort
  /** Masks the configured secrets in a text that svc writes for a client. */
  hide(text: string): string
  /** Returns svc's own tools; undefined if they are off, or not configured yet. */
  toolbox(): Toolbox | undefined
  /** The tails of answers with whole lists: for each view, by era and method. */
  readonly lists: WeakMap<View, Map<string, Uint8Array>>
  /** Returns the search over tools, which is loaded when it is first used. */
  toolFinder(): Promise<ToolFinder>
  /** Undefined for a single svc. */
  readonly peers?: SessionPeers | undefined
  /** Undefined for a single svc. */
  readonly changes?: ChangePeers | undefined
}

/** The part of a legacy session that one replica has. */
export type SessionPart = {
  readonly id: string
  /** The replica that has, or had last, the client's stream; undefined if there was none. */
  streamAt: string | undefined
}

/** The parts of legacy sessions on other replicas: each replica that serves a session has a part of it. */
export type SessionPeers = {
  /** The id of this replica. */
  readonly replica: string
  /** Whether another replica lives. */
  lives(replica: string): boolean
  /** Whether another replica that lives has, or had last, the session's stream. */
  isStreamElsewhere(part: SessionPart): boolean
  /** Follows the messages about a part until it ends. */
  begin(part: SessionPart): void
  end(part: SessionPart): void
  /** Sends a text to the replica that has the session's stream. Returns false if that is this one, or there is none. */
  pass(part: SessionPart, text: string): boolean
  /** Cancels a request of the session that runs on another replica. Rejects with an UnavailableError if none can be told. */
  cancel(part: SessionPart, params: Params): Promise<void>
  /** The client opened its stream here. */
  opened(part: SessionPart): void
  /** This replica stops, and has ended the client's stream: the client opens it elsewhere. */
  movedOn(part: SessionPart): void
  /** The client ended the session. */
  ended(part: SessionPart, reason: string): void
}

/** News of the servers on other replicas. */
export type ChangePeers = {
  /** Takes what clients of this replica must hear from the others. */
  follow(news: {
    listsChanged(server: string, method: ListMethod): void
    /** A resource, by the server's own URI, was updated. */
    updated(server: string, params: Params): void
  }): void
  /** Tells the others which lists have changed here. */
  catalogChanged(): void
  /** Tells the others to which resources clients of this replica are subscribed now. */
  subscribed(): void
  /** Tells those whose clients are subscribed to a resource that it was updated. */
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

/** The lists whose entries are known by a name. */
type NameList = "tools/list" | "prompts/list"

/** A server that is connected, but has not answered a list. */
type UnlistedServer = { readonly id: string; readonly slug: string; readonly reason: string }

/** Which servers there are, what they offer, and how to reach them. */
export type Directory = {
  /** Returns what a session is offered. */
  catalogOf(session: object): Catalog
  /** Pending while the first round of loading runs; undefined afterwards. */
  readonly initialLoad: Promise<void> | undefined
  /** Whether svc stops: its servers are being ended. */
  readonly stopping: boolean
  /**
   * Returns the connected backend, or the reason why there is none; with an era, over the connection of that era if it is
   * open.
   */
  target(id: string, era?: Era): Target | string
  /** Starts to open the connection of an era, and returns the wait for it; undefined if there is nothing to wait for. */
  prepare(id: string, era: Era): Promise<void> | undefined
  /** Returns the id of a server of this scope that is not connected or does not run, by its slug. */
  disconnectedId(scope: Scope, slug: string | undefined): string | undefined
  /** Returns the servers of this scope that are not connected or do not run. */
  unavailable(scope: Scope): readonly UnavailableServer[]
  /** Returns the connected server of this scope and slug that has never answered a list, and the reason. */
  unlisted(scope: Scope, slug: string | undefined, method: NameList): UnlistedServer | undefined
  isConnected(id: string): boolean
  /** Whether this replica may run a server with `"replicas": "one"`. */
  mayRun(id: string): boolean
  /**
   * Returns the wait for a server that may be connected in a moment, or for the first lists of a connected one; undefined if
   * there is nothing to wait for.
   */
  whenBack(id: string): Promise<void> | undefined
  /** Resolves when a server is connected otherwise than by this connection, or when requests wait for it no longer. */
  whenReplaced(id: string, connection: Connection): Promise<void>
  /**
   * Returns the client's own process of a server with `isolation: "session"`, or the reason why there is none. `owner` leads
   * to the client outside of any call. `caller` is notified if the state of an earlier process is lost. svc announces
   * the client's `capabilities` to the process.
   */
  dedicated(id: string, owner: Caller, caller: Caller, capabilities: Params): Promise<Target | string>
}

/** Notifications from servers to sessions, and from clients to servers. */
export type Notifications = {
  /** Subscribes a client's session to a resource (the backend's own URI). */
  subscribe(id: string, uri: string, session: object, era: Era): void
  unsubscribe(id: string, uri: string, session: object): void
  /** Asks for log messages of this level and above; undefined leaves the choice to the servers. */
  setLogLevel(session: object, level: string | undefined): void
  /** Drops the session's wish for log messages. */
  dropLogLevel(session: object): void
  /** Passes a client's notification to the backends that are this client's alone. */
  toBackend(client: Pick<Client, "scope" | "session" | "era">, method: string, params: Params): void
  /** Registers the stream of a modern client; the returned function removes it. */
  listen(listener: Listener): () => void
}

/** A modern client's stream that receives notifications of changes. */
export type Listener = {
  readonly client: Client
  /** The catalog changed. */
  catalogChanged(): void
  /** A list of a server in its scope changed on another replica. */
  listChanged(method: ListMethod): void
  /** A resource (its URI as this client knows it) was updated. */
  updated(uri: string, params: Params): void
}

/** What svc knows and keeps of the results of tools. */
export type ResultPort = {
  /** The budget where no preset, token or server states one; 0 for none. */
  readonly budget: ResultBudget
  readonly sizes: ResultSizes
  /** Opens the store of results that were too large. Rejects with an UnavailableError if there can be none. */
  store(): Promise<ResultStore>
  /** Makes what stores an answer while it comes; undefined until `loadStoring` has loaded it, so that no call waits twice. */
  readonly storing: StoreAnswer | undefined
  loadStoring(): Promise<StoreAnswer>
  /** Logs a text the first time. */
  warnOnce(text: string): void
}

/** Returns what stores the large values of a call's answer; undefined if the answer must be whole. `server` names the backend in errors. */
type StoreAnswer = (call: ClientCall, server: string, budget: number) => AnswerStorage | undefined

/** Stores the large values of an answer while it comes. */
export type AnswerStorage = AnswerTaker & {
  /** Resolves with the stored values; undefined if the answer is whole. Rejects with a BackendError. */
  taken(): Promise<TakenValues | undefined>
  /** Drops what was stored and not completed. */
  abort(): Promise<void>
}

/** Ownership of tasks and other ids of servers. */
export type TaskPort = {
  /** Marks the ids of tasks for their owners. */
  readonly mark: Marker
  readonly owners: TaskOwners
}

export type Limits = {
  /** Requests at once for one server, and for one session. */
  readonly maxInFlight: number
  /** Entries of a list in one answer at most. */
  readonly pageSize: number
  /** Characters of the aggregate's instructions at most. */
  readonly instructions: number
  readonly callRate: CallRateLimit
  /** Calls per minute of one session; undefined for any number. */
  readonly sessionRate: number | undefined
}

export type Observers = {
  /** Undefined if nothing is counted. */
  readonly meter: Meter | undefined
  /** Undefined if calls are not logged. */
  readonly audit: Audit | undefined
  /** Takes errors that are bugs of svc. */
  onbug(error: unknown): void
}

/** A finished call of a tool. */
export type FinishedCall = {
  readonly server: string
  readonly tool: string
  readonly outcome: CallOutcome
  readonly seconds: number
}

/** Counts what sessions relay. */
type Meter = {
  /** Milliseconds that only grow. */
  now(): number
  /** Records one finished tool call; `seconds` is how long it took. */
  record(server: string, tool: string, outcome: CallOutcome, seconds: number): void
  /** Counts the bytes of a request to a server ("in") or of an answer to a client ("out"). */
  passed(direction: "in" | "out", bytes: number): void
}

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
  /** Writes an entry about access: a refused login, a token that was created or revoked. */
  access(event: string, outcome: "ok" | "error", about: Params): void
}
