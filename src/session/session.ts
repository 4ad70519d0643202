/**
 * One legacy client: its statements at `initialize`, the streams to it, and server requests to it. It is independent of HTTP: the
 * transport passes frames to it and from it.
 */
import { WithdrawnError } from "../backend/attribution.ts"
import { peerError } from "../backend/peer-error.ts"
import { Cancellation } from "../call/cancellation.ts"
import {
  type Client,
  type Exchange,
  lackingCapability,
  missingCapability,
  type SessionMemory,
  type Told,
} from "../call/client.ts"
import { ownEntries } from "../call/own-tools.ts"
import type { Gateway, RemoteReplicas, SessionPart } from "../call/ports.ts"
import { hasChanged, isWithdrawn, type View, viewOf } from "../catalog/catalog.ts"
import type { ListMethod } from "../catalog/listing.ts"
import type { Scope } from "../catalog/scope.ts"
import { BoundedMap } from "../lib/bounded-map.ts"
import { RequestError } from "../lib/errors.ts"
import { negotiateLegacy } from "../wire/era.ts"
import { type Id, isObject, metaOf, notificationText, type Params, type Response } from "../wire/message.ts"
import { EventLog } from "./event-log.ts"
import { RunningRequests } from "./running-requests.ts"

/** Sends a frame that belongs to no request. Returns false if no stream is open. */
export type Outlet = (text: string) => boolean

type ClientQuestion = {
  resolve(result: unknown): void
  reject(error: Error): void
  readonly onprogress: ((params: Params) => void) | undefined
}

export class Session implements Client, SessionMemory, SessionPart {
  readonly era = "legacy"
  readonly protocolVersion: string
  readonly info: Params
  readonly capabilities: Params
  readonly session = this
  readonly memory = this
  logLevel: string | undefined
  /** When the client sent its last request, and since when svc has the session, milliseconds since the epoch. */
  lastSeen = 0
  since = 0
  /** Backend id and URI of each resource to which it is subscribed, by both. */
  readonly subscriptions = new Map<string, readonly [id: string, uri: string]>()
  /** Backend id and id of each of its tasks that may outlive svc, by both, with the replica on which it was created. */
  readonly tasks = new BoundedMap<string, readonly [id: string, task: string, replica?: string]>(MAX_TASKS)
  /** The events of its streams; created with the first stream. */
  private log: EventLog | undefined
  /** The stream that the client opened for messages that belong to no request. */
  outlet: Outlet | undefined
  /** The number of that stream in the log. */
  standalone: number | undefined
  /** Whether that stream was ended because svc stops; the client cannot open another one here. */
  isStreamDrained = false
  streamAt: string | undefined
  /** Whether the session has ended: no server request can be for its client any more. */
  hasEnded = false
  /** The replica that runs its own processes; undefined for a single svc. */
  home: string | undefined
  /** The running requests of the client. */
  readonly running = new RunningRequests()
  private readonly clientRequests = new Map<Id, ClientQuestion>()
  private readonly queued: string[] = []
  private lastQuestion = 0
  private lastView: View | undefined
  /** How many of svc's own tools were beside the tools of the last view. */
  private ownTools = 0
  private onchange: () => Told = () => undefined
  private replicas: RemoteReplicas | undefined

  constructor(
    readonly id: string,
    readonly principal: string,
    readonly scope: Scope,
    /** The params of `initialize`. */
    readonly params: Params,
  ) {
    this.protocolVersion = negotiateLegacy(params.protocolVersion)
    this.info = isObject(params.clientInfo) ? params.clientInfo : {}
    this.capabilities = isObject(params.capabilities) ? params.capabilities : {}
  }

  /** Reaches the client outside of any request, on the stream that it opened for that. */
  readonly owner: Exchange = {
    cancellation: new Cancellation(),
    notify: (text) => this.notify(text),
    isConnected: () => this.outlet !== undefined,
    ask: (method, params, signal, onprogress) =>
      this.ask(method, params, signal, (text) => this.notify(text), onprogress),
  }

  /** The events of the session's streams, so that the client can resume them. */
  get events(): EventLog {
    this.log ??= new EventLog(`${this.replicas?.replica ?? ""}${this.lastSeen.toString(36)}`)
    return this.log
  }

  /** Called once a minute; drops old events. */
  onMinute(): void {
    this.log?.onMinute()
  }

  /** Whether the client can resume a stream that has sent nothing yet. From: SEP-1699. */
  get sendsPrimingEvent(): boolean {
    return this.protocolVersion >= "2025-11-25"
  }

  get inFlight(): number {
    return this.running.size
  }

  /**
   * Handles a notification of the client. Passes an unknown notification to the only backend of its scope. Returns a promise if
   * other replicas must be notified, which rejects with an UnavailableError.
   */
  notified(method: string, params: Params, gateway: Gateway): Promise<void> | undefined {
    switch (method) {
      case "notifications/initialized":
        return undefined
      case "notifications/cancelled":
        return this.running.cancel(params) ? undefined : this.replicas?.cancel(this, params)
      case "notifications/progress": {
        const token = params.progressToken
        if (typeof token === "string") this.clientRequests.get(token)?.onprogress?.(params)
        return undefined
      }
      default:
        gateway.notifications.toBackend(this, method, params)
        return undefined
    }
  }

  /** Whether a server request waits for the client's response. */
  isAsking(question: Id): boolean {
    return this.clientRequests.has(question)
  }

  /** Handles the client's response to a server request. */
  answered(response: Response): void {
    if (response.id === null) return
    const question = this.clientRequests.get(response.id)
    if (question === undefined) return
    this.clientRequests.delete(response.id)
    if (response.error !== undefined) question.reject(peerError(response.error))
    else question.resolve(response.result)
  }

  /**
   * Sends a server request to the client by `send`, on the stream of the client's request to which it belongs. Rejects with a
   * PeerError if the client did not advertise the capability.
   */
  ask(
    method: string,
    params: Params | undefined,
    signal: AbortSignal,
    send: (text: string) => void,
    onprogress?: (params: Params) => void,
  ): Promise<unknown> {
    const missing = missingCapability(this.capabilities, method, params)
    if (missing !== undefined) return Promise.reject(lackingCapability(missing, this.capabilities, method))
    if (signal.aborted) return Promise.reject(withdrawn())
    if (this.clientRequests.size >= MAX_QUESTIONS)
      return Promise.reject(new RequestError("too_many", "Too many requests to this client are open"))
    const id = `${this.replicas === undefined ? "svc" : this.replicas.replica}-${++this.lastQuestion}`
    return new Promise((resolve, reject) => {
      const done = () => signal.removeEventListener("abort", abort)
      const abort = () => {
        if (!this.clientRequests.delete(id)) return
        const said = signal.reason instanceof WithdrawnError ? signal.reason.said : {}
        send(notificationText("notifications/cancelled", { reason: "the server withdrew it", ...said, requestId: id }))
        reject(withdrawn())
      }
      signal.addEventListener("abort", abort)
      this.clientRequests.set(id, {
        resolve(result) {
          done()
          resolve(result)
        },
        reject(error) {
          done()
          reject(error)
        },
        onprogress,
      })
      // Several servers may use the same token for one client.
      const sent = onprogress === undefined ? params : { ...params, _meta: { ...metaOf(params), progressToken: id } }
      send(JSON.stringify({ jsonrpc: "2.0", id, method, ...(sent === undefined ? {} : { params: sent }) }))
    })
  }

  /**
   * Sends a notification that belongs to no request. While no stream is open, holds a limited number of the newest ones.
   * `hops`: how many replicas have passed it on.
   */
  notify(text: string, hops = 0): void {
    if (this.outlet?.(text) === true || this.replicas?.pass(this, text, hops) === true) return
    if (text.length > MAX_HELD_CHARS || this.queued.includes(text)) return
    this.queued.push(text)
    let size = this.queued.reduce((sum, { length }) => sum + length, 0)
    while (this.queued.length > MAX_HELD || size > MAX_HELD_CHARS) size -= this.queued.shift()?.length ?? 0
  }

  /** Connects the stream for messages that belong to no request, ends the previous one, and sends held messages. */
  open(outlet: Outlet, stream?: number): void {
    if (this.standalone !== undefined && this.standalone !== stream) this.log?.drop(this.standalone)
    this.standalone = stream
    this.outlet = outlet
    for (const text of this.queued.splice(0)) outlet(text)
    this.replicas?.opened(this)
  }

  /** Ends the stream because svc stops. A client that has not read all its events can still resume it. */
  drainStream(): void {
    this.isStreamDrained = true
    if (this.standalone !== undefined) this.log?.end(this.standalone)
    this.standalone = undefined
    this.replicas?.streamDrained(this)
  }

  /** Records the replica with the stream, and sends held messages there. */
  streamIsAt(replica: string | undefined): void {
    this.streamAt = replica
    for (const text of this.queued.splice(0)) this.notify(text)
  }

  /** Ends the stream here, because the client opened its stream on another replica. */
  openedElsewhere(replica: string): void {
    this.outlet = undefined
    if (this.standalone !== undefined) this.log?.drop(this.standalone)
    this.standalone = undefined
    this.streamIsAt(replica)
  }

  addSubscription(backend: string, uri: string): Told {
    const key = `${backend} ${uri}`
    if (this.subscriptions.has(key)) return undefined
    if (this.subscriptions.size >= MAX_SUBSCRIPTIONS || uri.length > MAX_URI)
      throw new RequestError(
        "too_many",
        `A session may subscribe to at most ${MAX_SUBSCRIPTIONS} resources, fewer if their URIs are long`,
      )
    this.subscriptions.set(key, [backend, uri])
    return this.onchange()
  }

  removeSubscription(backend: string, uri: string): Told {
    return this.subscriptions.delete(`${backend} ${uri}`) ? this.onchange() : undefined
  }

  addTask(backend: string, task: string, replica: string | undefined): void {
    this.tasks.set(`${backend} ${task}`, replica === undefined ? [backend, task] : [backend, task, replica])
    this.onchange()
  }

  removeTask(backend: string, task: string): void {
    if (this.tasks.delete(`${backend} ${task}`)) this.onchange()
  }

  setLogLevel(level: string): Told {
    if (this.logLevel === level) return undefined
    this.logLevel = level
    return this.onchange()
  }

  /** Notifies the client of lists that have changed with the catalog. */
  catalogChanged(gateway: Gateway): void {
    const before = this.lastView
    const catalog = gateway.directory.catalogOf(this)
    const view = viewOf(catalog, this.scope)
    this.lastView = view
    const ownTools = ownEntries(this, view, gateway).length
    const isOwn = ownTools !== this.ownTools ? "tools/list" : undefined
    this.ownTools = ownTools
    if (before === undefined || isWithdrawn(catalog, this.scope) || this.replicas?.isStreamElsewhere(this) === true)
      return
    for (const [notification, lists] of LIST_CHANGES)
      if (lists.some((method) => method === isOwn || hasChanged(before, view, method))) this.notify(notification)
  }

  /** Notifies the client of lists that have changed on another replica. */
  listsChanged(methods: readonly ListMethod[]): void {
    for (const [notification, lists] of LIST_CHANGES)
      if (lists.some((method) => methods.includes(method))) this.notify(notification)
  }

  /** Starts to follow the catalog. Calls `onchange` when the stored state of the session changes. */
  begin(gateway: Gateway, onchange: () => Told): void {
    this.onchange = onchange
    this.replicas = gateway.replicas
    this.replicas?.begin(this)
    this.lastView = viewOf(gateway.directory.catalogOf(this), this.scope)
    this.ownTools = ownEntries(this, this.lastView, gateway).length
    gateway.notifications.setLogLevel(this, this.logLevel)
  }

  /** Ends the session: cancels running requests, rejects open server requests. */
  end(reason: string): void {
    this.hasEnded = true
    this.replicas?.end(this)
    this.outlet = undefined
    if (this.standalone !== undefined) this.log?.drop(this.standalone)
    this.queued.length = 0
    this.running.close(reason)
    for (const question of this.clientRequests.values()) question.reject(new RequestError("invalid_request", reason))
    this.clientRequests.clear()
  }
}

// ---

const withdrawn = (): RequestError => new RequestError("invalid_request", "The server withdrew its request")

const MAX_QUESTIONS = 100
/** Tasks that a session remembers; the oldest are dropped first. */
const MAX_TASKS = 100
/** Limits subscriptions: each is sent to the backend, and all are stored with the session. */
const MAX_SUBSCRIPTIONS = 1000
const MAX_URI = 4096
const MAX_HELD = 100
const MAX_HELD_CHARS = 1024 * 1024

const LIST_CHANGES: readonly (readonly [string, readonly ListMethod[]])[] = [
  [notificationText("notifications/tools/list_changed"), ["tools/list"]],
  [notificationText("notifications/prompts/list_changed"), ["prompts/list"]],
  [notificationText("notifications/resources/list_changed"), ["resources/list", "resources/templates/list"]],
]
