/**
 * The client's side of `svc proxy`: relays the MCP lines of a stdio client to the running instance, and keeps the client's
 * session alive across restarts of the instance.
 *
 *  1. Requests that were in flight when the connection was lost fail once, with a clear error; they are not sent again.
 *  2. Requests that arrive while no instance runs are held for a bounded time.
 *  3. A new instance receives the session's state: `initialize`, the log level, subscriptions. The client is notified that its
 *     lists may have changed.
 */
import { Backoff } from "../lib/backoff.ts"
import type { Clock } from "../lib/clock.ts"
import { RPC_CODE } from "../lib/errors.ts"
import { parseExact } from "../lib/json.ts"
import { META_SUBSCRIPTION } from "../wire/era.ts"
import { decode } from "../wire/frame.ts"
import {
  asMessage,
  errorText,
  type Id,
  isId,
  isObject,
  isRequest,
  isResponse,
  keyOfId,
  type Message,
  notificationText,
  type Params,
} from "../wire/message.ts"
import { formatProxyMessage, isProxyMessage, type ProxyMessage, parseProxyMessage } from "./proxy-server.ts"
import {
  INITIAL_PROXY,
  type InstanceConnection,
  linkOf,
  type ProxyEffect,
  type ProxyEvent,
  type ProxyState,
  refusalOf,
  step,
} from "./proxy-state.ts"
import type { ProjectContext } from "./trusted-client.ts"

export type ProxyDeps = {
  readonly clock: Clock
  /** Sends a line to the client. */
  send(line: Uint8Array | string): void
  /**
   * Connects to the instance; resolves with undefined if none runs, and with "starting" if this call has started one and has
   * told the user so. `lost` is called once, when the connection is lost.
   */
  connect(events: { line(bytes: Uint8Array): void; lost(): void }): Promise<InstanceConnection | "starting" | undefined>
  /** Shows a message to the user of the client. */
  note(text: string): void
}

export class ProxySession {
  private state: ProxyState = INITIAL_PROXY
  /** The project that was last sent to the instance. */
  private sentContext: ProjectContext | undefined
  private initialize: { readonly key: string; readonly line: string; answered: boolean } | undefined
  private initialized: string | undefined
  /** Requests of the client without a response, by the keys of their ids. */
  private readonly open = new Map<string, ProxiedRequest>()
  /** Resolves when no request waits for its response. */
  private drain: PromiseWithResolvers<void> | undefined
  /** Requests of the instance without a response, by the keys of their ids. */
  private readonly serverRequests = new Map<string, Id>()
  /** Requests to replay to a new instance, by the setting that they change. */
  private readonly replays = new Map<string, string>()
  /** Handlers for responses to the proxy's own requests, by the keys of their ids. */
  private readonly ownRequests = new Map<string, () => void>()
  private heldLines: string[] = []
  /** The error for requests while no instance answers. */
  private absence =
    "svc is not running for this configuration; start it with `svc serve`, or connect with `svc proxy --start`"
  private cancelHold: (() => void) | undefined
  private cancelRetry: (() => void) | undefined
  private readonly backoff = new Backoff({ first: FIRST_PAUSE_MS, max: MAX_PAUSE_MS })
  private count = 0

  constructor(
    private context: ProjectContext,
    private readonly deps: ProxyDeps,
  ) {}

  /** Connects, and reconnects whenever the connection is lost, until `close`. */
  start(): void {
    this.dispatch({ kind: "start" })
  }

  /** Sends the client's new project to the instance. */
  moved(project: ProjectContext): void {
    this.context = project
    this.dispatch({ kind: "moved" })
  }

  /** Resolves when no request waits for its response and no start is under way; streams do not count. */
  drained(): Promise<void> {
    if (!this.isWaiting()) return Promise.resolve()
    this.drain ??= Promise.withResolvers<void>()
    return this.drain.promise
  }

  /** Ends the session: the client has disconnected. */
  close(): void {
    this.cancelHold?.()
    this.dispatch({ kind: "close" })
  }

  /** Handles one line of the client. */
  receive(line: string): void {
    let value: unknown
    try {
      value = parseExact(line)
    } catch {
      this.deps.send(errorText(undefined, RPC_CODE.parseError, "Parse error: not JSON"))
      return
    }
    let relayed = false
    for (const one of Array.isArray(value) ? value : [value]) {
      try {
        relayed = this.remember(asMessage(one), line) || relayed
      } catch {
        // The instance reports what is wrong with the message.
        relayed = true
      }
    }
    if (!relayed) return
    const { state } = this
    if (state.kind === "open" && state.refusal === undefined && this.ownRequests.size === 0) state.link.send(line)
    else this.hold(line)
  }

  /**
   * Fails the held requests, because the instance did not start for this reason. A later instance serves further requests. Does
   * nothing if the session has been connected since the start: then the instance ended later.
   */
  startFailed(reason: string): void {
    this.dispatch({ kind: "startFailed", reason })
  }

  // ---

  private dispatch(event: ProxyEvent): void {
    const [state, effects] = step(this.state, event)
    this.state = state
    for (const effect of effects) this.run(effect)
    this.resolveDrained()
  }

  private run(effect: ProxyEffect): void {
    switch (effect.kind) {
      case "connect":
        void this.connect()
        return
      case "hello":
        this.sendContext({ svc: "hello", token: effect.connection.token, surroundings: this.context })
        return
      case "move":
        this.sendContext({ svc: "moved", surroundings: this.context })
        return
      case "note":
        this.deps.note(effect.text)
        return
      case "fail":
        if (effect.isLasting) this.absence = effect.reason
        this.fail(effect.reason)
        return
      case "endRequests":
        this.endRequests()
        return
      case "resume":
        this.resume(effect.isReconnect)
        return
      case "announce":
        this.announce()
        return
      case "retry":
        this.cancelRetry?.()
        this.cancelRetry = this.deps.clock.after(this.pauseAfter(effect.after), () => this.dispatch({ kind: "due" }))
        return
      case "cancelRetry":
        this.cancelRetry?.()
        return
      case "resetBackoff":
        this.backoff.reset()
        return
      case "closeLink":
        effect.link.close()
    }
  }

  private pauseAfter(reason: "now" | "backoff" | "refusal"): number {
    if (reason === "backoff") return this.backoff.next()
    return reason === "now" ? 0 : REFUSED_PAUSE_MS
  }

  private isWaiting(): boolean {
    return (
      this.state.kind === "starting" || [...this.open.values()].some(({ method }) => method !== "subscriptions/listen")
    )
  }

  /** Removes a request that has its response or needs none. */
  private settle(key: string): void {
    this.open.delete(key)
    this.resolveDrained()
  }

  private resolveDrained(): void {
    if (this.drain === undefined || this.isWaiting()) return
    this.drain.resolve()
    this.drain = undefined
  }

  /** Records a message; false if it must not be relayed. */
  private remember(message: ReturnType<typeof asMessage>, line: string): boolean {
    if (isResponse(message)) return message.id !== null && this.serverRequests.delete(keyOfId(message.id))
    const params = message.params ?? {}
    if (!isRequest(message)) {
      if (message.method === "notifications/initialized") this.initialized = line
      const { requestId } = params
      if (message.method === "notifications/cancelled" && isId(requestId)) this.settle(keyOfId(requestId))
      return true
    }
    const { id, method } = message
    const key = keyOfId(id)
    this.open.set(key, { id, method, line, kinds: isObject(params.notifications) ? params.notifications : {} })
    if (method === "initialize") this.initialize = { key, line, answered: false }
    else if (method === "logging/setLevel") this.replays.set(method, line)
    else if (method === "resources/subscribe") this.replays.set(`resource ${params.uri}`, line)
    else if (method === "resources/unsubscribe") this.replays.delete(`resource ${params.uri}`)
    return true
  }

  private hold(line: string): void {
    if (this.heldLines.length >= MAX_HELD)
      this.fail("svc is not running, and too many requests wait for it; try again when it runs")
    this.heldLines.push(line)
    const refusal = refusalOf(this.state)
    if (refusal !== undefined) {
      this.fail(refusal)
      return
    }
    this.cancelHold ??= this.deps.clock.after(HOLD_MS, () => {
      this.cancelHold = undefined
      if (this.state.kind !== "open") this.fail(this.absence)
    })
  }

  /** Fails every held request. Requests that were relayed still get their responses. */
  private fail(reason: string): void {
    const held = new Set(this.heldLines.splice(0))
    for (const [key, { id, line }] of [...this.open]) {
      if (!held.has(line)) continue
      this.deps.send(errorText(id, RPC_CODE.internalError, reason))
      this.settle(key)
    }
  }

  private async connect(): Promise<void> {
    const found = await this.deps
      .connect({ line: (bytes) => this.line(bytes), lost: () => this.dispatch({ kind: "lost" }) })
      .catch(() => undefined)
    if (found === undefined || found === "starting")
      this.dispatch({ kind: "unfound", isStarting: found === "starting" })
    else this.dispatch({ kind: "connected", connection: found })
  }

  private sendContext(message: ProxyMessage): void {
    this.sentContext = this.context
    this.send(formatProxyMessage(message))
  }

  /** Sends a line to the instance, if there is a connection. */
  private send(line: string): void {
    linkOf(this.state)?.send(line)
  }

  /** Handles one line of the instance. */
  private line(bytes: Uint8Array): void {
    const head = decode(bytes.subarray(0, HEAD_BYTES))
    if (isProxyMessage(head)) {
      this.handleMessage(parseProxyMessage(decode(bytes)) as ProxyMessage)
      return
    }
    const key = responseKey(head, bytes)
    if (key === undefined) {
      const id = serverRequestId(head, bytes)
      if (id !== undefined) this.serverRequests.set(keyOfId(id), id)
    } else {
      const onresponse = this.ownRequests.get(key)
      if (onresponse !== undefined) {
        this.ownRequests.delete(key)
        onresponse()
        return
      }
      this.settle(key)
      if (this.initialize?.key === key) this.initialize.answered = true
    }
    this.deps.send(bytes)
  }

  private handleMessage(message: ProxyMessage): void {
    if (message.svc === "refused") this.dispatch({ kind: "refused", reason: message.message })
    if (message.svc === "note") this.deps.note(message.message)
    if (message.svc === "welcome") this.dispatch({ kind: "welcome" })
  }

  /** Sends the session to the instance. */
  private resume(isReconnect: boolean): void {
    if (this.sentContext !== this.context) this.dispatch({ kind: "moved" })
    const { initialize } = this
    if (initialize?.answered !== true) {
      if (isReconnect) this.reopenStreams()
      this.flush()
      return
    }
    // The new instance needs `initialize` before any other request.
    this.ownRequests.set(initialize.key, () => {
      if (this.initialized !== undefined) this.send(this.initialized)
      for (const line of this.replays.values()) this.replay(line)
      this.reopenStreams()
      this.flush()
    })
    this.send(initialize.line)
  }

  /** Sends a recorded request under an id of the proxy's own. */
  private replay(line: string): void {
    const id = `svc-proxy-${++this.count}`
    this.ownRequests.set(keyOfId(id), () => {
      if (this.ownRequests.size === 0) this.flush()
    })
    this.send(JSON.stringify({ ...(parseExact(line) as Params), id }))
  }

  /** Opens the client's subscription streams at the new instance. */
  private reopenStreams(): void {
    for (const { method, line } of this.open.values())
      if (method === "subscriptions/listen" && !this.heldLines.includes(line)) this.send(line)
    this.announce()
  }

  /** Tells the client that its lists may have changed. */
  private announce(): void {
    for (const { id, method, kinds } of this.open.values())
      if (method === "subscriptions/listen")
        for (const [kind, notification] of Object.entries(LIST_CHANGES))
          if (kinds[kind] === true)
            this.deps.send(notificationText(notification, { _meta: { [META_SUBSCRIPTION]: id } }))
    if (this.initialize?.answered === true)
      for (const notification of Object.values(LIST_CHANGES)) this.deps.send(notificationText(notification))
  }

  private flush(): void {
    if (this.ownRequests.size > 0) return
    this.cancelHold?.()
    this.cancelHold = undefined
    for (const line of this.heldLines.splice(0)) this.send(line)
  }

  /** Fails the requests that were in flight when the connection was lost, and cancels those of the instance. */
  private endRequests(): void {
    this.ownRequests.clear()
    for (const id of this.serverRequests.values())
      this.deps.send(notificationText("notifications/cancelled", { requestId: id, reason: "connection to svc lost" }))
    this.serverRequests.clear()
    const held = new Set(this.heldLines)
    for (const [key, { id, method, line }] of [...this.open]) {
      if (method === "subscriptions/listen" || held.has(line)) continue
      if (method === "initialize") {
        this.hold(line)
        continue
      }
      this.deps.send(
        errorText(
          id,
          RPC_CODE.internalError,
          "the connection to svc was lost while this request ran; svc proxy did not send it again",
        ),
      )
      this.settle(key)
    }
  }
}

// ---

type ProxiedRequest = {
  readonly id: Id
  readonly method: string
  readonly line: string
  readonly kinds: Readonly<Record<string, unknown>>
}

const FIRST_PAUSE_MS = 100
const MAX_PAUSE_MS = 2000
const REFUSED_PAUSE_MS = 5000
const HOLD_MS = 10_000
const MAX_HELD = 1000
const HEAD_BYTES = 512
const QUICK_ID = /^\{"jsonrpc":"2\.0","id":("(?:[^"\\]|\\.){0,300}"|-?[0-9][-+.0-9eE]{0,300}),"(result|error|method)"/

const LIST_CHANGES = {
  toolsListChanged: "notifications/tools/list_changed",
  promptsListChanged: "notifications/prompts/list_changed",
  resourcesListChanged: "notifications/resources/list_changed",
} as const

/** Returns the key of the id to which a line responds. Reads most ids from the head, and parses only other lines. */
function responseKey(head: string, bytes: Uint8Array): string | undefined {
  const quick = QUICK_ID.exec(head)
  if (quick !== null) return quick[2] === "method" ? undefined : keyOfId(parseExact(quick[1] as string) as Id)
  const message = /^\{"jsonrpc":"2\.0","method":/.test(head) ? undefined : messageIn(bytes)
  return message !== undefined && isResponse(message) && message.id !== null ? keyOfId(message.id) : undefined
}

/** Returns the id of a server request. svc writes requests with the id first. */
function serverRequestId(head: string, bytes: Uint8Array): Id | undefined {
  const message = /^\{"jsonrpc":"2\.0","method":/.test(head) ? undefined : messageIn(bytes)
  return message !== undefined && isRequest(message) ? message.id : undefined
}

/** Parses a line as a message; undefined if it is not one, for example from an instance of another version. */
function messageIn(bytes: Uint8Array): Message | undefined {
  try {
    return asMessage(parseExact(decode(bytes)))
  } catch {
    return undefined
  }
}
