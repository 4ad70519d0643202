/**
 * One attempt to open a connection to a backend over one kind of transport: transport, then era, then lists. The connection
 * that it returns serves calls and follows `list_changed`.
 */
import {
  type ProtocolMode,
  type RemoteLaunch,
  runsElsewhere,
  type ServerSpec,
  type StdioLaunch,
} from "../config/server-spec.ts"
import { type Clock, withTimeout } from "../lib/clock.ts"
import { BackendError, messageOf } from "../lib/errors.ts"
import type { Log } from "../lib/log.ts"
import { createRedactor } from "../lib/redact.ts"
import type { Era } from "../wire/era.ts"
import { encode, type RequestIds } from "../wire/frame.ts"
import { isObject, type Params } from "../wire/message.ts"
import type { Caller } from "./attribution.ts"
import {
  type ClientTransport,
  type Loss,
  LostError,
  type TransportEvents,
  UnauthorizedError,
  UndeliveredError,
} from "./client-transport.ts"
import { Connection, withoutSubscription } from "./connection.ts"
import type { EraCache } from "./era-cache.ts"
import { type EstablishedConnection, ListedConnection } from "./established-connection.ts"
import {
  BrokenResponseError,
  type Credentials,
  NotAcceptedError,
  PINGS,
  type RemoteDeps,
  type RemoteEvents,
} from "./http.ts"
import { Lister, type ListerHooks } from "./lister.ts"
import { classify, HttpStatusError, negotiate, type Peer, refusesEra } from "./negotiate.ts"
import { SseTransport } from "./sse.ts"
import { LineCapture } from "./stderr.ts"
import { StreamableHttpTransport } from "./streamable-http.ts"
import type { WireLog } from "./wire-log.ts"

/** The hooks that a connection calls while it is open. */
export type OpenHooks = Omit<ListerHooks, "subscriptions" | "onlistchanged"> & {
  /** Takes the connection to a process before it has answered its lists; undefined if requests wait for these. */
  onnegotiated?: ((open: EstablishedConnection) => void) | undefined
  /**
   * Returns the resource URIs (the backend's own) that clients are subscribed to now; with an era, only those of the
   * clients of that era.
   */
  subscriptions(era: Era | undefined): readonly string[]
  /** A notification for clients, with the caller that it belongs to, if any, and the era of the connection. */
  onnotification(method: string, params: Params, caller: Caller | undefined, era: Era): void
  /** The only client of a dedicated connection. */
  readonly owner: Caller | undefined
  /** Returns the client that created a task of the backend over the connection of an era. */
  readonly callerOfTask?: (taskId: string, era: Era) => Caller | undefined
  /** The era that this attempt tries first in `auto`, because the server exited on a request of the other era. */
  readonly nextEra?: Era | undefined
  /** Whether an operator or a start of svc has started the server: it may be another version, whatever svc remembers. */
  readonly isFresh?: boolean | undefined
  /** The transport failed a request: with an UnauthorizedError for a 401. */
  onfailure(error: Error): void
  /** The server has forgotten its session, and a new one is open. */
  onrenewed(): void
  /** The server has answered a request after the transport had failed one. */
  onrecovered?(): void
  /** Takes a problem that does not affect the state of the backend. */
  onproblem?(reason: string): void
  /** The process printed text on stdout that is not MCP. */
  onnoise?(): void
  /** Returns the text to log for a line that earlier connections may have logged: the line, with its count, or "". */
  repeated?(line: string): string
}

export type OpenDeps = {
  openChild(launch: StdioLaunch, events: TransportEvents, spec: ServerSpec): ClientTransport | Promise<ClientTransport>
  /** Opens a client for the requests to one remote server. */
  openClient(url: string): Required<Pick<RemoteDeps, "fetch" | "close">>
  /** Returns what signs requests to a remote server; without it, svc sends only the configured headers. */
  credentials?(spec: ServerSpec, launch: RemoteLaunch): Credentials | undefined
  readonly ids: RequestIds
  readonly clock: Clock
  readonly log: Log
  readonly eras: EraCache
  /** Where the messages of servers that somebody watches are recorded. */
  readonly wire?: WireLog
  /** The size limit of one message, in bytes. */
  readonly limit: number
  readonly version: string
}

/** The hooks of one attempt. */
export type AttemptHooks = Omit<OpenHooks, "subscriptions"> & Pick<ListerHooks, "subscriptions" | "onlistchanged">

export type TransportKind = "stdio" | "sse" | "streamable"

export type AttemptOptions = {
  readonly transport: TransportKind
  readonly mode: ProtocolMode
  /** The era that svc remembers of this launch. */
  readonly remembered: Era | undefined
  /** When the attempt continues without the lists that have no answer yet, milliseconds since the epoch. */
  readonly deadline: number
}

/** The process ended, or closed its stdout, after the probe of its era. */
export class ProbeExit extends LostError {}

/** The mode that allows only one era. */
export const MODE_OF = { legacy: "legacy", modern: "2026-07-28" } as const satisfies Readonly<Record<Era, ProtocolMode>>

export class ConnectionAttempt {
  private readonly connection: Connection
  private readonly closed = Promise.withResolvers<Loss>()
  /** Logs invalid messages, bounded like stderr, because a server may write nothing else. */
  private protocolErrors: LineCapture | undefined
  private lister: Lister | undefined
  private credentials: Credentials | undefined
  private lost: Loss | undefined
  /** The negotiated era. */
  private era: Era = "legacy"
  /** Whether the attempt has succeeded. */
  private opened = false
  /** Whether the era was found in a way that may not last: it is not remembered. */
  isInDoubt = false
  /** Whether the era of a process is being negotiated with a probe. */
  private probing = false
  /** Pings in flight. A request that gets no response, or is rejected, causes a ping only if there is none. */
  private pings = 0
  /** When a rejected request may cause the next ping, milliseconds since the epoch. */
  private eraCheckAt = 0
  /** When a refused ping may cause the next attempt to connect in the same era, milliseconds since the epoch. */
  private eraKeptUntil = 0
  /** Ends an attempt to connect in the same era. */
  private readonly closing = new AbortController()
  private transport: ClientTransport | undefined

  constructor(
    private readonly spec: ServerSpec,
    private readonly hooks: AttemptHooks,
    private readonly deps: OpenDeps,
    private readonly options: AttemptOptions,
  ) {
    this.connection = new Connection(spec.name, deps.ids, deps.clock, {
      owner: hooks.owner,
      callerOfTask: (task) => hooks.callerOfTask?.(task, this.era),
      ping: (timeout) => this.ping(timeout),
      onrecovered: () => hooks.onrecovered?.(),
      recorder: () => deps.wire?.recorderOf(spec.name),
      onprotocolerror: (text) => this.logProtocolError(text),
      onnotification: (method, params, caller) => {
        if (this.lister?.handles(method, params) !== true)
          hooks.onnotification(method, withoutSubscription(params), caller, this.era)
      },
    })
  }

  async run(signal: AbortSignal): Promise<EstablishedConnection> {
    const { connection } = this
    const transport = await this.openTransport()
    this.transport = transport
    connection.attach(transport)
    let open: ListedConnection | undefined
    const abort = () => {
      // First: calls may run on it.
      void open?.close()
      this.lister?.end()
      connection.end({ reason: STOPPED })
      void transport.close()
    }
    signal.addEventListener("abort", abort)
    try {
      if (signal.aborted) throw new BackendError(this.spec.name, STOPPED)
      const peer = await this.negotiate(transport)
      this.throwIfOver(signal)
      const { closed, closing, deps, hooks, options } = this
      const lister = new Lister(this.spec, connection, peer, hooks, { ...deps, mask: (text) => this.mask(text) })
      this.lister = lister
      const ping = (timeout: number) => this.ping(timeout)
      const connect = () =>
        new ListedConnection(connection, transport, peer, lister, ping, lister.begin(), closed.promise, closing)
      if (hooks.onnegotiated !== undefined) {
        open = connect()
        hooks.onnegotiated(open)
      }
      await lister.list(options.deadline)
      this.throwIfOver(signal)
      this.opened = true
      return open ?? connect()
    } catch (error) {
      this.lister?.end()
      connection.end({ reason: "could not be opened" })
      await transport.close()
      throw this.withExit(error)
    } finally {
      signal.removeEventListener("abort", abort)
    }
  }

  // ---

  private logProtocolError(text: string): void {
    const { clock, log } = this.deps
    const emit = (line: string) => {
      const text = this.hooks.repeated?.(line) ?? line
      if (text !== "") log.warn(text, { server: this.spec.name })
    }
    const redact = (line: string) => this.mask(line)
    this.protocolErrors ??= new LineCapture({ clock, redact, emit, limit: MAX_PROTOCOL_ERROR_BYTES })
    this.protocolErrors.pushLine(encode(text))
  }

  /** Masks credentials in a text of the server. Callers mask before they cut, because half a secret would not be recognized. */
  private mask(text: string): string {
    const { last } = this.credentials ?? {}
    const tokens = last === undefined ? [] : [last, last.slice(last.indexOf(" ") + 1)]
    return createRedactor([...this.spec.secrets, ...tokens]).maskCredentials(text)
  }

  private throwIfOver(signal: AbortSignal): void {
    if (this.lost !== undefined || signal.aborted) throw new BackendError(this.spec.name, this.lost?.reason ?? STOPPED)
  }

  /** Returns the error with the process's end, if it has ended. */
  private withExit(error: unknown): unknown {
    const { lost, probing } = this
    if (lost === undefined || (lost.exit === undefined && !probing)) return error
    return new (probing ? ProbeExit : LostError)(this.spec.name, lost, { cause: error })
  }

  private async openTransport(): Promise<ClientTransport> {
    const { spec, deps, options } = this
    const { launch } = spec
    const events = this.transportEvents()
    if (launch.transport === "stdio") return deps.openChild(launch, events, spec)
    const { clock, ids, limit } = deps
    const credentials = deps.credentials?.(spec, launch)
    this.credentials = credentials
    const client = deps.openClient(launch.url)
    const remote: RemoteDeps = {
      fetch: (url, init) => client.fetch(url, init),
      close: () => client.close(),
      clock,
      ids,
      limit,
      credentials,
      mask: (text) => this.mask(text),
    }
    return options.transport === "sse"
      ? SseTransport.open(launch, events, remote)
      : new StreamableHttpTransport(launch, events, remote)
  }

  private transportEvents(): RemoteEvents {
    const { connection, hooks } = this
    return {
      onframe: (frame, related) => connection.receive(frame, related),
      onlarge: (head) => connection.offer(head),
      oncomment: () => connection.noteReceived(),
      ondropped: (edges, related) => connection.receiveOversized(edges, related),
      isPending: (number) => connection.isPending(number),
      isSafeCall: (number) => this.isSafeCall(number),
      onfail: (number, error) => this.failRequest(number, error),
      onnoise: () => hooks.onnoise?.(),
      onclose: (loss) => this.onlost(loss),
      onrenewed: () => {
        this.lister?.resetSession()
        hooks.onrenewed()
      },
      onsuspect: () => this.pingSuspect(),
      onrejected: () => this.checkEra(),
      onrefused: hooks.onfailure,
    }
  }

  /** Whether the server marks the tool that a request calls as read-only or idempotent. */
  private isSafeCall(number: number): boolean {
    const name = this.connection.nameOf(number)
    const tool = this.lister?.listing.tools.find((other) => other.name === name)
    const hints = isObject(tool?.annotations) ? tool.annotations : {}
    return hints.readOnlyHint === true || hints.idempotentHint === true
  }

  private failRequest(number: number, error: Error): void {
    if (error instanceof BrokenResponseError && error.detail !== undefined)
      this.logProtocolError(`${error.message}: ${error.detail}`)
    // A server that refuses one request lives. If it refuses every request, it refuses the pings too.
    if (!isRefusedRequest(error) || PINGS.has(this.connection.methodOf(number))) this.hooks.onfailure(error)
    this.connection.fail(number, this.opened ? this.clientError(error) : openingError(error, this.spec.name))
  }

  /** Returns the error of a failed request for its client: it names the server, and does not repeat text of a replica. */
  private clientError(error: Error): BackendError {
    const { name } = this.spec
    if (error instanceof BackendError) return error
    const options = { cause: error }
    if (!runsElsewhere(this.spec)) return new BackendError(name, messageOf(error), options)
    if (error instanceof NotAcceptedError) return new UndeliveredError(name, options)
    const isAnswered = error instanceof HttpStatusError && error.status < 500
    return new BackendError(name, isAnswered ? messageOf(error) : OWNER_LOST, options)
  }

  /** Pings the server. The connection is lost if a refusal shows that the server does not speak its era any more. */
  private async ping(timeout: number): Promise<void> {
    this.pings++
    try {
      await this.lister?.ping(timeout)
    } catch (error) {
      if (await this.hasLeftEra(error)) this.lose(`does not speak MCP ${this.lister?.listing.protocolVersion} any more`)
      throw error
    } finally {
      this.pings--
    }
  }

  /** Whether a refused ping means that the server does not speak the connection's era any more, in mode `auto`. */
  private async hasLeftEra(error: unknown): Promise<boolean> {
    if (!this.opened || this.spec.launch.mode !== "auto") return false
    const refusal = error instanceof BackendError ? error.cause : error
    // An internal error is a fault of the server, not a sign of its era.
    if (!refusesEra(refusal)) return false
    if (classify(refusal) !== this.era) return true
    return this.options.transport === "streamable" && (await this.refusesAnother())
  }

  /**
   * Whether the server refuses another connection of the same era. A server may refuse a ping because it does not implement
   * ping, or because it reads the ping as a malformed request of the other era: only a new connection tells which.
   */
  private async refusesAnother(): Promise<boolean> {
    const { clock } = this.deps
    const { signal } = this.closing
    if (clock.now() < this.eraKeptUntil) return false
    const hooks: AttemptHooks = { ...this.hooks, onfailure: () => undefined, onrenewed: () => undefined }
    const another = new ConnectionAttempt(this.spec, hooks, this.deps, { ...this.options, mode: MODE_OF[this.era] })
    try {
      await another.tryEra(signal)
      this.eraKeptUntil = clock.now() + ERA_KEPT_MS
      return false
    } catch (error) {
      return refusesEra(error) && !signal.aborted
    }
  }

  /** Negotiates over a connection that is closed again. Rejects with the refusal or the failure. */
  private async tryEra(signal: AbortSignal): Promise<void> {
    const transport = await this.openTransport()
    this.connection.attach(transport)
    const end = () => this.connection.end({ reason: STOPPED })
    signal.addEventListener("abort", end)
    try {
      await this.negotiate(transport)
    } finally {
      signal.removeEventListener("abort", end)
      end()
      await transport.close()
    }
  }

  /** Ends an open connection to a server that is another version now; the next connection negotiates again. */
  private lose(reason: string): void {
    const { deps, spec, options } = this
    if (options.mode === "auto") deps.eras.forget(spec.launch)
    this.onlost({ reason })
    void this.transport?.close()
  }

  private onlost(loss: Loss): void {
    this.lost = loss
    this.closing.abort()
    // Hides the connection between replicas from clients: only the operator needs to know of it.
    this.connection.end(runsElsewhere(this.spec) ? { ...loss, reason: OWNER_LOST } : loss)
    this.lister?.end()
    this.closed.resolve(loss)
  }

  /** Pings, at most every ERA_CHECK_MS, a server that rejected a request with a status typical of the other era. */
  private checkEra(): void {
    const now = this.deps.clock.now()
    if (now < this.eraCheckAt || !this.opened) return
    this.eraCheckAt = now + ERA_CHECK_MS
    this.pingSuspect()
  }

  /** Pings a server that did not respond to a request. A ping without a response loses the transport by itself. */
  private pingSuspect(): void {
    if (this.lister === undefined || this.pings > 0) return
    this.ping(Math.min(this.spec.tuning.requestTimeout, SUSPECT_PING_MS)).catch(() => undefined)
  }

  /** Agrees on an era and a revision. */
  private async negotiate(transport: ClientTransport): Promise<Peer> {
    const { connection, hooks, deps, options, spec } = this
    const { mode, remembered } = options
    const timeout = spec.tuning.connectionTimeout
    const probes = options.transport === "stdio" && mode === "auto" && remembered !== "legacy"
    if (probes && spec.tuning.restart.kind === "never") {
      // An exit before the request is not the answer to it.
      if ((await transport.lived?.()) === false) {
        await withTimeout(deps.clock, EXIT_MS, this.closed.promise)
        throw new BackendError(spec.name, this.lost?.reason ?? STOPPED)
      }
    }
    this.probing = probes
    const peer = await negotiate(connection, {
      mode: options.transport === "sse" ? "legacy" : mode,
      remembered,
      probeTimeout: Math.min(PROBE_MS, timeout / 2),
      ondoubt: () => {
        this.isInDoubt = true
      },
      timeout,
      version: deps.version,
      capabilities: hooks.capabilities,
      mask: (text) => this.mask(text),
    })
    this.probing = false
    this.era = peer.era
    transport.settle?.(peer.era, peer.protocolVersion)
    if (peer.era === "legacy") connection.notify("notifications/initialized")
    return peer
  }
}

/** Why a call of a server failed that another replica ran. */
export const OWNER_LOST =
  "has lost the replica of svc that ran it, during this call; another replica takes it over: try again in a moment"

// ---

/** Returns the error of a request that failed while the connection was being opened, with the class that opening decides by. */
const openingError = (error: Error, server: string): Error =>
  error instanceof BackendError || error instanceof UnauthorizedError || error instanceof HttpStatusError
    ? error
    : new BackendError(server, messageOf(error), { cause: error })

/** Whether a server has answered a request with a status of a fault of the client. From proxies: 407; about time: 408. */
const isRefusedRequest = (error: Error): boolean =>
  error instanceof HttpStatusError &&
  error.status >= 400 &&
  error.status < 500 &&
  error.status !== 407 &&
  error.status !== 408

const PROBE_MS = 5000
/** Longer than it takes to report an exit. */
const EXIT_MS = 1000
const SUSPECT_PING_MS = 10_000
const ERA_CHECK_MS = 5000
/** The time before svc opens another test connection to a server that refuses pings. */
const ERA_KEPT_MS = 5 * 60_000
const STOPPED = "was stopped while it started"
/** The most bytes of an invalid message that are logged. */
const MAX_PROTOCOL_ERROR_BYTES = 600
