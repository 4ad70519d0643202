/**
 * The client's side of `svc proxy`: MCP lines of a client that started a command, passed on to the running instance, and
 * what keeps them together when the instance is restarted.
 *
 *  1. What was asked when the instance went away fails once, with a clear error; it is not asked again.
 *  2. What is asked while there is none is held for a while.
 *  3. A new instance is told what the old one was: `initialize`, the log level, subscriptions; and the client that its
 *     lists may be others.
 */
import { Backoff } from "../lib/backoff.ts"
import type { Clock } from "../lib/clock.ts"
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
import type { ProjectContext } from "./trusted-client.ts"

/** An open connection to the instance. */
export type ProxyLink = { send(line: Uint8Array | string): void; close(): void }

export type ProxyDeps = {
  readonly clock: Clock
  /** A line for the client. */
  send(line: Uint8Array | string): void
  /** Connects to the instance; undefined where none runs. `lost` is called once, after the connection was there. */
  connect(events: {
    line(bytes: Uint8Array): void
    lost(): void
  }): Promise<{ link: ProxyLink; token: string } | undefined>
  /** Something the person behind the client may want to know. */
  note(text: string): void
}

export class ProxySession {
  private link: ProxyLink | undefined
  /** The instance has taken this client; before that nothing but the greeting is sent. */
  private isWelcome = false
  /** Why it has not, or why it does not follow the client to where it is now. */
  private refusal: string | undefined
  /** Where the instance was told that the client is. */
  private sentContext: ProjectContext | undefined
  private initialize: { readonly key: string; readonly line: string; answered: boolean } | undefined
  private initialized: string | undefined
  /** Requests without an answer, by the keys of their ids. */
  private readonly open = new Map<string, ProxiedRequest>()
  /** Questions of the instance without an answer, by the keys of their ids. */
  private readonly questions = new Map<string, Id>()
  /** What a new instance must be told, by what it is about. */
  private readonly replays = new Map<string, string>()
  /** Answers that are not the client's, by the keys of their ids. */
  private readonly ownRequests = new Map<string, () => void>()
  private heldLines: string[] = []
  private cancelHold: (() => void) | undefined
  private cancelRetry: (() => void) | undefined
  private readonly backoff = new Backoff({ first: FIRST_PAUSE_MS, max: MAX_PAUSE_MS })
  private connecting = false
  private noted = false
  private count = 0
  private closed = false
  /** There was an instance before this one. */
  private isReconnect = false

  constructor(
    private context: ProjectContext,
    private readonly deps: ProxyDeps,
  ) {}

  /** Connects, and again whenever the connection is lost, until it is closed. */
  start(): void {
    void this.connect()
  }

  /** The client is somewhere else now, or wants something else. */
  moved(surroundings: ProjectContext): void {
    this.context = surroundings
    if (this.isWelcome) this.move()
    else if (this.link === undefined) this.retry(0)
  }

  /** Whether a request waits for its answer. */
  get busy(): boolean {
    return [...this.open.values()].some(({ method }) => method !== "subscriptions/listen")
  }

  /** The client is gone. */
  close(): void {
    this.closed = true
    this.cancelRetry?.()
    this.cancelHold?.()
    this.link?.close()
  }

  /** One line of the client. */
  receive(line: string): void {
    let value: unknown
    try {
      value = parseExact(line)
    } catch {
      this.deps.send(errorText(undefined, -32700, "Parse error: not JSON"))
      return
    }
    let wanted = false
    for (const one of Array.isArray(value) ? value : [value]) {
      try {
        wanted = this.remember(asMessage(one), line) || wanted
      } catch {
        // The instance says what is wrong with it.
        wanted = true
      }
    }
    if (!wanted) return
    if (this.refusal === undefined && this.isWelcome && this.ownRequests.size === 0) this.link?.send(line)
    else this.hold(line)
  }

  // ---

  /** Takes note of a message; false where it must not go on. */
  private remember(message: ReturnType<typeof asMessage>, line: string): boolean {
    if (isResponse(message)) return message.id !== null && this.questions.delete(keyOfId(message.id))
    const params = message.params ?? {}
    if (!isRequest(message)) {
      if (message.method === "notifications/initialized") this.initialized = line
      const { requestId } = params
      if (message.method === "notifications/cancelled" && isId(requestId)) this.open.delete(keyOfId(requestId))
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
    if (this.heldLines.length >= MAX_HELD) this.fail("svc is not running, and too much waits for it")
    this.heldLines.push(line)
    if (this.refusal !== undefined) {
      this.fail(this.refusal)
      return
    }
    this.cancelHold ??= this.deps.clock.after(HOLD_MS, () => {
      this.cancelHold = undefined
      if (!this.isWelcome) this.fail("svc is not running for this configuration; start it with `svc serve`")
    })
  }

  /** Every request that waits fails; those that were passed on have their answer still to come. */
  private fail(reason: string): void {
    const held = new Set(this.heldLines.splice(0))
    for (const [key, { id, line }] of [...this.open]) {
      if (!held.has(line)) continue
      this.open.delete(key)
      this.deps.send(errorText(id, -32603, reason))
    }
  }

  private async connect(): Promise<void> {
    this.connecting = true
    const found = await this.deps
      .connect({ line: (bytes) => this.line(bytes), lost: () => this.lost() })
      .catch(() => undefined)
    this.connecting = false
    if (this.closed) return found?.link.close()
    if (found === undefined) {
      if (!this.noted) this.deps.note("no svc is running for this configuration; waiting for it")
      this.noted = true
      return this.retry(this.backoff.next())
    }
    this.link = found.link
    this.sentContext = this.context
    this.tell({ svc: "hello", token: found.token, surroundings: this.context })
  }

  private move(): void {
    this.sentContext = this.context
    this.tell({ svc: "moved", surroundings: this.context })
  }

  private retry(ms: number): void {
    this.after(ms, () => {
      if (!this.closed && !this.connecting && this.link === undefined) void this.connect()
    })
  }

  /** The one thing to be tried again. */
  private after(ms: number, again: () => void): void {
    this.cancelRetry?.()
    this.cancelRetry = this.deps.clock.after(ms, () => {
      this.cancelRetry = undefined
      again()
    })
  }

  private tell(note: ProxyMessage): void {
    this.link?.send(formatProxyMessage(note))
  }

  /** One line of the instance. */
  private line(bytes: Uint8Array): void {
    const head = decode(bytes.subarray(0, HEAD_BYTES))
    if (isProxyMessage(head)) {
      this.noteOf(parseProxyMessage(decode(bytes)) as ProxyMessage)
      return
    }
    const key = answered(head, bytes)
    if (key === undefined) {
      const asked = question(head, bytes)
      if (asked !== undefined) this.questions.set(keyOfId(asked), asked)
    } else {
      const own = this.ownRequests.get(key)
      if (own !== undefined) {
        this.ownRequests.delete(key)
        own()
        return
      }
      this.open.delete(key)
      if (this.initialize?.key === key) this.initialize.answered = true
    }
    this.deps.send(bytes)
  }

  private noteOf(note: ProxyMessage): void {
    if (note.svc === "refused") {
      if (note.message !== this.refusal) this.deps.note(note.message)
      this.refusal = note.message
      this.fail(note.message)
      // A preset may be made by somebody else.
      if (this.isWelcome) this.after(REFUSED_PAUSE_MS, () => this.move())
    }
    if (note.svc === "note") this.deps.note(note.message)
    if (note.svc !== "welcome") return
    const refused = this.refusal !== undefined
    this.refusal = undefined
    if (this.isWelcome) {
      this.cancelRetry?.()
      if (refused) this.announce()
      return
    }
    if (this.noted) this.deps.note("connected to svc")
    this.noted = false
    this.backoff.reset()
    this.isWelcome = true
    if (this.sentContext !== this.context) this.move()
    const { initialize } = this
    if (initialize?.answered !== true) {
      if (this.isReconnect) this.resume()
      this.flush()
      return
    }
    // The new instance must know the client before it is asked anything.
    this.ownRequests.set(initialize.key, () => {
      if (this.initialized !== undefined) this.link?.send(this.initialized)
      for (const line of this.replays.values()) this.replay(line)
      this.resume()
      this.flush()
    })
    this.link?.send(initialize.line)
  }

  /** Asks on svc's own account. */
  private replay(line: string): void {
    const id = `svc-proxy-${++this.count}`
    this.ownRequests.set(keyOfId(id), () => {
      if (this.ownRequests.size === 0) this.flush()
    })
    this.link?.send(JSON.stringify({ ...(parseExact(line) as Params), id }))
  }

  /** Streams go on with the new instance. */
  private resume(): void {
    for (const { method, line } of this.open.values())
      if (method === "subscriptions/listen" && !this.heldLines.includes(line)) this.link?.send(line)
    this.announce()
  }

  /** The client's lists may be others. */
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
    for (const line of this.heldLines.splice(0)) this.link?.send(line)
  }

  private lost(): void {
    const known = this.isWelcome
    this.link = undefined
    this.isWelcome = false
    this.ownRequests.clear()
    if (this.closed) return
    if (known) {
      this.isReconnect = true
      this.noted = true
      this.deps.note("svc is gone; waiting for it")
    }
    for (const id of this.questions.values())
      this.deps.send(notificationText("notifications/cancelled", { requestId: id, reason: "svc is gone" }))
    this.questions.clear()
    const held = new Set(this.heldLines)
    for (const [key, { id, method, line }] of [...this.open]) {
      if (method === "subscriptions/listen" || held.has(line)) continue
      if (method === "initialize") {
        this.hold(line)
        continue
      }
      this.open.delete(key)
      this.deps.send(errorText(id, -32603, "svc went away while this request ran; it was not asked again"))
    }
    this.retry(this.refusal === undefined ? this.backoff.next() : REFUSED_PAUSE_MS)
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

/** The key of the id that a line answers. Most are read off the head; the others are parsed. */
function answered(head: string, bytes: Uint8Array): string | undefined {
  const quick = QUICK_ID.exec(head)
  if (quick !== null) return quick[2] === "method" ? undefined : keyOfId(parseExact(quick[1] as string) as Id)
  const message = /^\{"jsonrpc":"2\.0","method":/.test(head) ? undefined : messageIn(bytes)
  return message !== undefined && isResponse(message) && message.id !== null ? keyOfId(message.id) : undefined
}

/** The id of a question. svc writes those with the id first. */
function question(head: string, bytes: Uint8Array): Id | undefined {
  const message = /^\{"jsonrpc":"2\.0","method":/.test(head) ? undefined : messageIn(bytes)
  return message !== undefined && isRequest(message) ? message.id : undefined
}

/** A line as a message; undefined where it is none, which an instance of another version may send. */
function messageIn(bytes: Uint8Array): Message | undefined {
  try {
    return asMessage(parseExact(decode(bytes)))
  } catch {
    return undefined
  }
}
