/**
 * An HTTP/1.1 client for the requests to one remote server.
 *
 * Bun's fetch has one limit of simultaneous requests for the whole process, so that calls that hang at one server would silence
 * all others; it takes any idle connection of a server, however old; and it reports a connection that the server had closed in
 * the same way as one on which the server may have executed the request.
 *
 *  1. Each client has a limit of connections of its own. Further requests wait in turn. Urgent requests, without which the
 *     others could not end, may use URGENT_CONNECTIONS more.
 *  2. An idle connection is used again only for a time: shorter than the server announces (`Keep-Alive: timeout=N`), and shorter
 *     than the server has been seen to close it.
 *  3. If a connection ends without a byte of the response, the request is sent again on a new connection, once, if it was not
 *     sent or its sender says that it may be repeated. RFC 9110, 9.2.2. A new connection may end so too: some servers count
 *     their idle time from its start.
 */
import type { Socket, SocketHandler } from "bun"
import { type Clock, withTimeout } from "../lib/clock.ts"
import { isConnectionRefused, ProxyUnreachableError } from "../lib/network-error.ts"
import { unfilledFrame } from "../wire/frame.ts"
import { CookieJar } from "./cookie-jar.ts"
import { createKnownHeads, type KnownHeads, type ResponseHead, ResponseParser } from "./http-response.ts"
import { type BodySource, RemoteResponse, type TakePart } from "./remote-response.ts"

/** A request to a remote server. */
export type RemoteRequest = RequestInit & {
  headers: Readonly<Record<string, string>>
  /** Whether the request may be executed twice; asked only if it may have been executed. */
  mayRepeat?(): boolean
  /** Whether requests in flight could wait for this one: it does not wait for them. */
  isUrgent?: boolean
}

/** Sends a request, and never follows a redirect. Rejects with the reason of the signal, or with a failure that has a code. */
export type RemoteFetch = (url: string, init: RemoteRequest) => Promise<Response | RemoteResponse>

export type HttpClientOptions = {
  readonly clock: Clock
  /** The variables of svc's own environment, which name proxies. */
  readonly env: Readonly<Record<string, string | undefined>>
  /** The most connections for requests that are not urgent. */
  readonly limit?: number
  /** Whether all requests are those of one user, so that cookies are kept. */
  readonly keepsCookies?: boolean
}

/** What sends requests to one origin. */
export type RemoteClient = {
  readonly fetch: RemoteFetch
  /** Closes its connections. */
  close(): void
}

/** Returns the client for the origin of an address. */
export function openRemoteClient(url: string, options: HttpClientOptions): RemoteClient {
  const proxy = proxyFor(new URL(url), options.env)
  if (proxy?.protocol !== "https:") return new HttpClient(url, options)
  // Only fetch can put a TLS connection into one to the proxy.
  return {
    fetch: (target, init) =>
      fetch(target, { ...init, timeout: false } as RequestInit).catch((error: unknown) => {
        throw isConnectionRefused(error) ? new ProxyUnreachableError(proxy.origin, error) : error
      }),
    close() {},
  }
}

/** The most connections to one server. */
const MAX_CONNECTIONS = 256
/** The most further connections for urgent requests. */
const URGENT_CONNECTIONS = 32
/** The most requests that wait for a connection. */
export const MAX_WAITING = 10_000
/** How long an idle connection is used again if the server announces nothing: servers in Python close theirs after 5 s. */
const DEFAULT_IDLE_MS = 5000

/** A connection ended without a byte of the response. */
export class ClosedUnansweredError extends Error {
  readonly code = "ECONNRESET"
  constructor(
    /** Whether the whole request was sent: otherwise the server cannot have executed it. */
    readonly wasSent: boolean,
  ) {
    super("the connection was closed without an answer")
  }
}

export class HttpClient {
  private readonly origin: string
  private readonly target: ConnectTarget
  private readonly cookies: CookieJar
  private readonly formatter: RequestFormatter
  private readonly limit: number
  /** All connections that are open. */
  private readonly connections = new Set<HttpConnection>()
  /** Those that wait for their next request, the one that was used last at the end. */
  private readonly idle: HttpConnection[] = []
  private readonly known = createKnownHeads()
  /** Connections in use or being opened. */
  private busy = 0
  private readonly urgent = new Set<() => void>()
  private readonly waiting = new Set<() => void>()
  /** The shortest idle time after which the server has closed a connection lately, and when that is forgotten. */
  private seen = { idleMs: Number.POSITIVE_INFINITY, until: 0 }
  private announcedIdleMs: number | undefined
  private cancelSweep: (() => void) | undefined
  private readonly stopped = new AbortController()
  /** The last address, parsed: most requests have the same. */
  private last: URL

  constructor(
    url: string,
    private readonly options: HttpClientOptions,
  ) {
    this.last = new URL(url)
    this.origin = this.last.origin
    this.target = targetOf(this.last, options.env)
    this.cookies = new CookieJar(options.clock)
    this.formatter = new RequestFormatter(this.target, this.cookies)
    this.limit = options.limit ?? MAX_CONNECTIONS
  }

  readonly fetch = async (text: string, init: RemoteRequest): Promise<RemoteResponse> => {
    const url = text === this.last.href ? this.last : new URL(text)
    this.last = url
    if (url.origin !== this.origin) throw new TypeError("the address has another origin")
    const { isUrgent = false, method = "GET" } = init
    const signal = init.signal ?? undefined
    signal?.throwIfAborted()
    const request = this.formatter.format(url, init)
    const connection = this.takeNow(isUrgent) ?? (await this.acquire(isUrgent, signal, false))
    const { idleMs } = connection
    try {
      return this.keepCookies(await connection.send(request, method, signal), url)
    } catch (error) {
      if (!(error instanceof ClosedUnansweredError)) throw error
      if (idleMs !== undefined) this.noteIdleTime(idleMs)
      if (error.wasSent && init.mayRepeat?.() !== true) throw error
      signal?.throwIfAborted()
    }
    const another = await this.acquire(isUrgent, signal, true)
    return this.keepCookies(await another.send(request, method, signal), url)
  }

  /** Closes all connections. Requests in flight and later ones fail. */
  close(): void {
    this.stopped.abort(new Error("the connection was closed"))
    this.cancelSweep?.()
    for (const connection of this.connections) connection.destroy()
  }

  // ---

  private keepCookies(response: RemoteResponse, url: URL): RemoteResponse {
    const lines = response.cookies
    if (lines.length > 0 && this.options.keepsCookies !== false) this.cookies.take(lines, url)
    return response
  }

  /** Resolves with a connection for one request: an idle one, unless a new one is wanted. Waits while all are in use. */
  private async acquire(isUrgent: boolean, signal: AbortSignal | undefined, isNew: boolean): Promise<HttpConnection> {
    if (this.hasRoom(isUrgent)) this.busy++
    else await this.turn(isUrgent, signal)
    const idle = isNew ? undefined : this.takeIdle()
    if (idle !== undefined) return idle
    // The others were probably closed at the same time.
    if (isNew) for (const connection of this.idle.splice(0)) connection.end()
    return this.open(signal)
  }

  /** Returns an idle connection at once; undefined if there is none, or the request must wait. */
  private takeNow(isUrgent: boolean): HttpConnection | undefined {
    if (!this.hasRoom(isUrgent)) return undefined
    const connection = this.takeIdle()
    if (connection !== undefined) this.busy++
    return connection
  }

  private hasRoom(isUrgent: boolean): boolean {
    return this.busy < this.limit + (isUrgent ? URGENT_CONNECTIONS : 0)
  }

  /** Resolves when a connection is free for the request, and counted as busy. */
  private turn(isUrgent: boolean, signal: AbortSignal | undefined): Promise<void> {
    const queue = isUrgent ? this.urgent : this.waiting
    if (queue.size >= MAX_WAITING) throw new BusyError(this.limit)
    const signals = [this.stopped.signal, ...(signal === undefined ? [] : [signal])]
    return new Promise((resolve, reject) => {
      const leave = () => {
        queue.delete(start)
        for (const one of signals) one.removeEventListener("abort", abort)
      }
      const start = () => {
        leave()
        this.busy++
        resolve()
      }
      const abort = ({ target }: Event) => {
        leave()
        reject((target as AbortSignal).reason)
      }
      queue.add(start)
      for (const one of signals) one.addEventListener("abort", abort)
    })
  }

  /** A connection is not busy any more: the next request begins. */
  private leave(): void {
    this.busy--
    if (this.waiting.size === 0 && this.urgent.size === 0) return
    for (const [queue, isUrgent] of [[this.urgent, true] as const, [this.waiting, false] as const])
      for (const start of queue) {
        if (!this.hasRoom(isUrgent)) break
        start()
      }
  }

  private takeIdle(): HttpConnection | undefined {
    const now = this.options.clock.now()
    for (;;) {
      const connection = this.idle.pop()
      if (connection === undefined) return undefined
      if (now < connection.idleUntil) {
        connection.idleMs = now - connection.idleSince
        return connection
      }
      connection.end()
    }
  }

  /** Opens a connection. An aborted request does not stop that: the connection serves the next one. */
  private async open(signal: AbortSignal | undefined): Promise<HttpConnection> {
    const connection = new HttpConnection(this.target, this.known, {
      onfree: (idleMs) => this.free(connection, idleMs),
      onclose: () => this.forget(connection),
    })
    this.connections.add(connection)
    const opened = this.opened(connection)
    if (signal === undefined) return opened
    const aborted = Promise.withResolvers<never>()
    const abort = () => aborted.reject(signal.reason)
    signal.addEventListener("abort", abort)
    try {
      return await Promise.race([opened, aborted.promise])
    } catch (error) {
      if (signal.aborted) opened.then(() => this.free(connection, undefined)).catch(() => undefined)
      throw error
    } finally {
      signal.removeEventListener("abort", abort)
    }
  }

  /** Resolves when a connection is open. Rejects if it cannot be opened in time. */
  private async opened(connection: HttpConnection): Promise<HttpConnection> {
    try {
      this.stopped.signal.throwIfAborted()
      const opening = connection.open()
      await withTimeout(this.options.clock, CONNECT_MS, opening)
      if (!connection.isOpen) throw codedError("ETIMEDOUT", "no connection in time")
      return connection
    } catch (error) {
      connection.destroy()
      this.connections.delete(connection)
      this.leave()
      throw error
    }
  }

  /** Takes a connection back after a response; `idleMs` is what the server announced. Closes it unless it can be used again. */
  private free(connection: HttpConnection, idleMs: number | undefined): void {
    const now = this.options.clock.now()
    if (idleMs !== undefined) this.announcedIdleMs = idleMs
    if (now >= this.seen.until) this.seen = { idleMs: Number.POSITIVE_INFINITY, until: 0 }
    const ms = withMargin(Math.min(this.announcedIdleMs ?? DEFAULT_IDLE_MS, this.seen.idleMs))
    if (!connection.isReusable || ms === 0 || this.stopped.signal.aborted) connection.end()
    else {
      connection.idleSince = now
      connection.idleUntil = now + ms
      this.idle.push(connection)
      this.armSweep(ms)
    }
    this.leave()
  }

  /** Forgets a closed connection. If it was idle, the server has closed it. */
  private forget(connection: HttpConnection): void {
    this.connections.delete(connection)
    const at = this.idle.indexOf(connection)
    if (at < 0) return
    this.idle.splice(at, 1)
    this.noteIdleTime(this.options.clock.now() - connection.idleSince)
  }

  /** Notes the idle time after which the server has closed a connection. */
  private noteIdleTime(idleMs: number): void {
    if (idleMs < MIN_SEEN_IDLE_MS || idleMs > this.seen.idleMs) return
    this.seen = { idleMs, until: this.options.clock.now() + SEEN_MS }
  }

  /** Closes idle connections when their time is over. */
  private armSweep(ms: number): void {
    this.cancelSweep ??= this.options.clock.after(ms, () => {
      this.cancelSweep = undefined
      const now = this.options.clock.now()
      const left = this.idle.filter(({ idleUntil }) => idleUntil > now)
      const over = this.idle.filter(({ idleUntil }) => idleUntil <= now)
      this.idle.splice(0, this.idle.length, ...left)
      for (const connection of over) connection.end()
      const next = Math.min(...left.map(({ idleUntil }) => idleUntil))
      if (left.length > 0) this.armSweep(next - now)
    })
  }
}

/** Too many requests wait for a connection to the server. */
class BusyError extends Error {
  readonly code = "EBUSY"
  constructor(limit: number) {
    super(`${limit} requests are in flight, and ${MAX_WAITING} wait`)
  }
}

/** Returns the proxy for an address, from the variables that other programs read as well; undefined if there is none. */
export function proxyFor(url: URL, env: HttpClientOptions["env"]): URL | undefined {
  const names = url.protocol === "https:" ? ["https_proxy", "HTTPS_PROXY"] : ["http_proxy", "HTTP_PROXY"]
  const text = names.map((name) => env[name]).find((value) => value !== undefined && value !== "")
  if (text === undefined || isExcluded(url, env.no_proxy ?? env.NO_PROXY ?? "")) return undefined
  return URL.parse(text.includes("://") ? text : `http://${text}`) ?? undefined
}

// ---

/** How long opening a connection may take, with the TLS handshake. */
const CONNECT_MS = 30_000
/** Idle connections that end sooner indicate a restart rather than the server's settings. */
const MIN_SEEN_IDLE_MS = 500
/** How long the server has to close its side of a connection that svc has closed. */
const END_SECONDS = 5
/** How long a seen idle time counts: it may have been a restart. */
const SEEN_MS = 10 * 60_000
/** Bytes of a body that wait for their reader; then svc stops reading from the connection. */
const MAX_UNREAD = 256 * 1024

/** How a server is reached. */
type ConnectTarget = {
  readonly hostname: string
  readonly port: number
  /** The name that the certificate must be for; undefined without TLS. */
  readonly secure: string | undefined
  readonly rejectUnauthorized: boolean
  readonly proxy:
    | { readonly origin: string; readonly authorization: string | undefined; readonly tunnelTo: string | undefined }
    | undefined
}

function targetOf(url: URL, env: HttpClientOptions["env"]): ConnectTarget {
  const isSecure = url.protocol === "https:"
  const port = portOf(url)
  const rejectUnauthorized = env.NODE_TLS_REJECT_UNAUTHORIZED !== "0"
  const secure = isSecure ? bareHost(url) : undefined
  const proxy = proxyFor(url, env)
  if (proxy === undefined) return { hostname: bareHost(url), port, secure, rejectUnauthorized, proxy }
  const authorization = basicOf(proxy)
  const tunnelTo = isSecure ? `${url.hostname}:${port}` : undefined
  return {
    hostname: bareHost(proxy),
    port: portOf(proxy),
    secure,
    rejectUnauthorized,
    proxy: { origin: proxy.origin, authorization, tunnelTo },
  }
}

const portOf = (url: URL): number => Number(url.port) || (url.protocol === "https:" ? 443 : 80)
const bareHost = ({ hostname }: URL): string => hostname.replace(/^\[|\]$/g, "")

/** Returns the Authorization header for the user and password in an address; undefined if there are none. */
function basicOf({ username, password }: URL): string | undefined {
  if (username === "" && password === "") return undefined
  const text = `${decodeURIComponent(username)}:${decodeURIComponent(password)}`
  return `Basic ${Buffer.from(text).toString("base64")}`
}

/** Whether `NO_PROXY` excludes an address: it lists hosts and domains, each with or without a port, or `*` for all. */
function isExcluded(url: URL, list: string): boolean {
  return list.split(",").some((entry) => {
    const name = entry
      .trim()
      .toLowerCase()
      .replace(/^\*?\./, "")
    if (name === "*") return true
    const host = /:\d+$/.test(name) ? url.host : url.hostname
    return name !== "" && (host === name || host.endsWith(`.${name}`))
  })
}

/** Returns the time for which an idle connection is used again, if the server closes it after `ms`. */
const withMargin = (ms: number): number => Math.max(ms / 2, ms - MARGIN_MS)
/** Longer than a request takes to reach the server. */
const MARGIN_MS = 1000

const codedError = (code: string, message: string): Error => Object.assign(new Error(message), { code })

/** Headers that belong to the connection, and are the client's own. */
const OWN_HEADERS: ReadonlySet<string> = new Set([
  "connection",
  "content-length",
  "expect",
  "keep-alive",
  "proxy-connection",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade",
])

/** A header as it is written. */
type WrittenHeader = { readonly value: string; readonly name: string; readonly line: string; readonly isAscii: boolean }

/** Writes requests as bytes. */
class RequestFormatter {
  /** The headers of earlier requests by name, because most are the same each time. */
  private readonly written = new Map<string, WrittenHeader>()
  /** The last head up to the length of the body, if it is all ASCII: most requests have the same headers. */
  private last:
    | { readonly headers: object; readonly url: URL; readonly method: string; readonly start: string }
    | undefined

  constructor(
    private readonly target: ConnectTarget,
    private readonly cookies: CookieJar,
  ) {}

  /** Returns a request: as text if it is all ASCII, which is written as it is. Throws a TypeError for an invalid header. */
  format(url: URL, { method = "GET", headers, body: given }: RemoteRequest): Buffer | string {
    const { proxy, secure } = this.target
    const body = typeof given === "string" || given instanceof Uint8Array ? given : undefined
    const { last } = this
    if (typeof body === "string" && last?.headers === headers && last.url === url && last.method === method) {
      const size = Buffer.byteLength(body)
      if (size === body.length && this.cookies.isEmpty) return `${last.start}${size}${HEAD_END}${body}`
    }
    let has = " "
    let lines = ""
    let cookie: string | undefined
    let isAscii = true
    for (const key in headers) {
      const header = this.headerOf(key, headers[key] ?? "")
      if (OWN_HEADERS.has(header.name)) continue
      isAscii &&= header.isAscii
      has += `${header.name} `
      if (header.name === "cookie") cookie = header.value
      else lines += header.line
    }
    const isForward = proxy !== undefined && secure === undefined
    const path = `${url.pathname}${url.search}`
    if (!this.cookies.isEmpty) cookie = this.cookies.headerFor(url, cookie)
    if (cookie !== undefined) lines += `Cookie: ${cookie}\r\n`
    if (isForward && proxy.authorization !== undefined) lines += `Proxy-Authorization: ${proxy.authorization}\r\n`
    const authorization = url.username === "" && url.password === "" ? undefined : basicOf(url)
    if (authorization !== undefined && !has.includes(" authorization ")) lines += `Authorization: ${authorization}\r\n`
    if (!has.includes(" user-agent ")) lines += USER_AGENT
    if (!has.includes(" accept ")) lines += "Accept: */*\r\n"
    // Not `deflate`: some servers send it without its header, so that two formats have the name.
    if (!has.includes(" accept-encoding ")) lines += "Accept-Encoding: gzip, br, zstd\r\n"
    if (!has.includes(" host ")) lines += `Host: ${url.host}\r\n`
    const size = body === undefined ? 0 : Buffer.byteLength(body)
    const first = `${method} ${isForward ? url.origin + path : path} HTTP/1.1\r\n`
    const start = `${first}${lines}Connection: keep-alive\r\nContent-Length: `
    const isText = isAscii && cookie === undefined && typeof body === "string"
    if (isText) this.last = { headers, url, method, start }
    if (isText && size === body.length) return `${start}${size}${HEAD_END}${body}`
    const hasBody = body !== undefined || method === "POST"
    const head = hasBody ? `${start}${size}${HEAD_END}` : `${first}${lines}Connection: keep-alive${HEAD_END}`
    const bytes = typeof body === "string" ? Buffer.from(body) : (body ?? NOTHING)
    return Buffer.concat([Buffer.from(head, "latin1"), bytes])
  }

  private headerOf(key: string, value: string): WrittenHeader {
    const known = this.written.get(key)
    if (known?.value === value) return known
    if (!/^[!#$%&'*+\-.^_`|~\w]+$/.test(key) || !/^[\t\x20-\x7e\x80-\xff]*$/.test(value))
      throw new TypeError(`the header ${JSON.stringify(key)} is not valid`)
    const isAscii = /^[\t\x20-\x7e]*$/.test(value)
    const header = { value, name: key.toLowerCase(), line: `${key}: ${value}\r\n`, isAscii }
    if (this.written.size >= MAX_WRITTEN) this.written.clear()
    this.written.set(key, header)
    return header
  }
}

const HEAD_END = "\r\n\r\n"
const MAX_WRITTEN = 200
const NOTHING = new Uint8Array()
const USER_AGENT = `User-Agent: ${navigator.userAgent}\r\n`

type ConnectionHooks = {
  /** A response is complete. `idleMs` is the idle time that it announces. */
  onfree(idleMs: number | undefined): void
  onclose(): void
}

/** One connection, for one request at a time. */
class HttpConnection {
  isOpen = false
  isReusable = true
  idleSince = 0
  idleUntil = 0
  /** How long it was idle before its last request, in milliseconds; undefined before it was idle. */
  idleMs: number | undefined
  private socket: Socket<undefined> | undefined
  private exchange: RemoteExchange | undefined
  /** What the socket has not taken yet. */
  private unsent: Buffer | undefined
  private isClosed = false
  private readonly opening = Promise.withResolvers<void>()

  constructor(
    private readonly target: ConnectTarget,
    readonly known: KnownHeads,
    private readonly hooks: ConnectionHooks,
  ) {}

  /** Opens the connection. Rejects with an error that has a code. */
  async open(): Promise<void> {
    const { hostname, port, secure, proxy } = this.target
    const tunnel = proxy?.tunnelTo === undefined ? undefined : new ResponseParser("CONNECT", () => undefined)
    let isUpgraded = false
    const ready = (socket: Socket<undefined>) => {
      if (secure === undefined) return this.ready(socket)
      isUpgraded = true
      this.upgrade(socket, secure)
    }
    const unreachable = (error: unknown) =>
      this.closed(proxy === undefined ? error : new ProxyUnreachableError(proxy.origin, error))
    this.opening.promise.catch(() => undefined)
    const handler: SocketHandler<undefined> = {
      open: (socket) => {
        this.socket = socket
        if (this.isClosed) socket.terminate()
        else if (tunnel === undefined) ready(socket)
        else this.write(formatTunnel(proxy))
      },
      data: (socket, chunk) => {
        if (isUpgraded) return
        if (tunnel === undefined || this.isOpen) return this.receive(chunk)
        try {
          const excess = tunnel.push(chunk)
          if (!tunnel.isDone) return
          if ((tunnel.head?.status ?? 0) >= 300 || excess > 0)
            throw codedError("ERR_PROXY_REFUSED", `the proxy answered ${tunnel.head?.status}`)
          ready(socket)
        } catch (error) {
          this.closed(error)
          socket.terminate()
        }
      },
      drain: () => {
        if (!isUpgraded) this.drain()
      },
      error: (_socket, error) => this.closed(error),
      close: (_socket, error) => this.closed(error),
      timeout: (socket) => socket.terminate(),
      connectError: (_socket, error) => unreachable(error),
    }
    // connectError has the reason.
    await Bun.connect<undefined>({ hostname, port, socket: handler }).catch(unreachable)
    return this.opening.promise
  }

  /** Sends a request. Resolves with the response as soon as its head is there. */
  send(request: Buffer | string, method: string, signal: AbortSignal | undefined): Promise<RemoteResponse> {
    return new Promise((resolve, reject) => {
      const abort = () => {
        exchange.abort(signal?.reason)
        this.destroy()
      }
      const onend = () => signal?.removeEventListener("abort", abort)
      const exchange = new RemoteExchange(method, resolve, reject, onend, this)
      signal?.addEventListener("abort", abort)
      this.exchange = exchange
      // It may have been aborted while the connection was opened.
      if (signal?.aborted === true) abort()
      else if (this.isClosed) this.failExchange(undefined, false)
      else this.write(request)
    })
  }

  pause(): void {
    this.socket?.pause()
  }

  resume(): void {
    this.socket?.resume()
  }

  /** Closes the connection in order, when it is idle. */
  end(): void {
    this.closed(undefined)
    this.socket?.end()
    this.socket?.timeout(END_SECONDS)
  }

  /** Closes the connection at once. */
  destroy(): void {
    this.closed(codedError("ECONNRESET", "the connection was closed"))
    this.socket?.terminate()
  }

  // ---

  private ready(socket: Socket<undefined>): void {
    this.socket = socket
    this.isOpen = true
    this.opening.resolve()
  }

  private upgrade(socket: Socket<undefined>, name: string): void {
    const { rejectUnauthorized } = this.target
    const tls = { serverName: name, ALPNProtocols: ALPN, rejectUnauthorized }
    socket.upgradeTLS<undefined>({
      data: undefined,
      tls: tls as Bun.TLSOptions,
      socket: {
        handshake: (secure, isDone, error) => {
          if (isDone || (error !== null && !rejectUnauthorized)) return this.ready(secure)
          this.closed(error ?? codedError("EPROTO", "the TLS handshake failed"))
          secure.terminate()
        },
        data: (_socket, chunk) => this.receive(chunk),
        drain: () => this.drain(),
        error: (_socket, error) => this.closed(error),
        close: (_socket, error) => this.closed(error),
        timeout: (secure) => secure.terminate(),
      },
    })
  }

  /** Writes bytes, or text of ASCII characters. */
  private write(bytes: Buffer | string): void {
    const count = Math.max(0, this.socket?.write(bytes) ?? 0)
    this.unsent = count < bytes.length ? Buffer.from(bytes as string).subarray(count) : undefined
  }

  private drain(): void {
    if (this.unsent !== undefined) this.write(this.unsent)
  }

  private receive(chunk: Buffer): void {
    const { exchange } = this
    // Nothing was asked: the bytes would be read as the response to the next request.
    if (exchange === undefined) {
      this.destroy()
      return
    }
    let excess = 0
    try {
      excess = exchange.push(chunk)
    } catch (error) {
      exchange.fail(error)
      this.destroy()
      return
    }
    const { head, isDone } = exchange
    // Its reader may have closed the connection.
    if (!isDone || head === undefined || this.exchange !== exchange) return
    this.exchange = undefined
    this.isReusable = head.keepsAlive && excess === 0 && this.unsent === undefined && !this.isClosed
    this.hooks.onfree(head.idleMs)
  }

  /** The connection has ended, with an error or in order. */
  private closed(error: unknown): void {
    if (this.isClosed) return
    this.isClosed = true
    this.isReusable = false
    this.opening.reject(error ?? codedError("ECONNRESET", "the connection was closed while it was opened"))
    this.failExchange(error, this.unsent === undefined)
    this.hooks.onclose()
  }

  private failExchange(error: unknown, wasSent: boolean): void {
    const { exchange } = this
    if (exchange === undefined) return
    this.exchange = undefined
    exchange.end(error, wasSent)
    this.hooks.onfree(undefined)
  }
}

/** What an exchange needs of its connection. */
type ExchangeSocket = {
  readonly known: KnownHeads
  /** Stops reading from the connection: the reader of the body is slow. */
  pause(): void
  resume(): void
  /** Closes the connection: nobody wants the rest of the body. */
  destroy(): void
}

/** One request and its response, whose body its reader takes as it arrives. */
class RemoteExchange implements BodySource {
  private readonly parser: ResponseParser
  /** What nobody has read yet: `parts` from `next` on, of `unread` bytes. */
  private parts: Uint8Array[] = []
  private next = 0
  private unread = 0
  /** A body that is awaited whole, and how much of it is there. */
  private awaited: Uint8Array | undefined
  private filled = 0
  private reader: BodyReader | undefined
  /** Whether the reader asked to wait. */
  private isWaiting = false
  private hasBytes = false
  private hasResponded = false
  private isPaused = false
  private isOver = false
  private failure: { readonly error: unknown } | undefined

  constructor(
    method: string,
    private readonly resolve: (response: RemoteResponse) => void,
    private readonly reject: (error: unknown) => void,
    private readonly onend: () => void,
    private readonly socket: ExchangeSocket,
  ) {
    this.parser = new ResponseParser(method, (bytes) => this.take(bytes), socket.known)
  }

  get head(): ResponseHead | undefined {
    return this.parser.head
  }

  get isDone(): boolean {
    return this.parser.isDone
  }

  get whole(): Uint8Array | undefined {
    if (!this.isDone || this.failure !== undefined || this.next > 0) return undefined
    if (this.parts.length !== 1) this.parts = [Buffer.concat(this.parts)]
    return this.parts[0]
  }

  read(take: TakePart): Promise<void> {
    return new Promise((resolve, reject) => {
      this.reader = { take, resolve, reject }
      this.flush()
    })
  }

  cancel(): void {
    this.parts = []
    if (this.isOver) return
    this.over()
    this.socket.destroy()
  }

  /** Takes the next bytes of the connection. Returns how many follow the response. Throws an InvalidResponseError. */
  push(chunk: Buffer): number {
    this.hasBytes = true
    const excess = this.parser.push(chunk)
    this.pass()
    return excess
  }

  /** The connection has ended: in order, or with an error. */
  end(error: unknown, wasSent: boolean): void {
    if (this.isOver) return
    if (error === undefined && this.parser.end()) this.pass()
    else
      this.fail(
        this.hasBytes
          ? codedError("ECONNRESET", "the connection was closed within its response")
          : new ClosedUnansweredError(wasSent),
      )
  }

  /** Fails the request, or the body of its response once what has arrived of it is read. */
  fail(error: unknown): void {
    const { head } = this
    if (!this.isOver && !this.hasResponded && head !== undefined) this.respond(head)
    if (this.isOver) return
    if (this.awaited !== undefined) this.parts = [this.awaited.subarray(0, this.filled)]
    this.failure = { error }
    this.over()
    if (this.hasResponded) this.flush()
    else this.reject(error)
  }

  /** Fails the request, or the body of its response at once. */
  abort(reason: unknown): void {
    this.parts = []
    this.awaited = undefined
    this.fail(reason)
  }

  // ---

  private take(bytes: Uint8Array): void {
    if (this.isOver) return
    const length = this.hasResponded ? undefined : this.head?.length
    if (length !== undefined && length <= MAX_AWAITED && bytes.length < length) {
      this.awaited ??= unfilledFrame(length)
      this.awaited.set(bytes, this.filled)
      this.filled += bytes.length
    } else if (this.reader !== undefined && !this.isWaiting) this.give(bytes, this.reader)
    else {
      this.parts.push(bytes)
      this.unread += bytes.length + PART_BYTES
      if (this.isPaused || this.unread <= MAX_UNREAD) return
      this.isPaused = true
      this.socket.pause()
    }
  }

  /** Responds as soon as there is a head, and ends with the body. */
  private pass(): void {
    const { head, isDone } = this
    if (head === undefined || this.isOver) return
    if (isDone && this.awaited !== undefined) {
      this.parts = [this.awaited]
      this.awaited = undefined
    }
    if (!this.hasResponded && (isDone || (head.length ?? Number.POSITIVE_INFINITY) > MAX_AWAITED)) this.respond(head)
    if (!isDone) return
    this.over()
    this.flush()
  }

  private respond(head: ResponseHead): void {
    this.hasResponded = true
    try {
      this.resolve(new RemoteResponse(head, this))
    } catch (error) {
      this.reject(error)
      this.cancel()
    }
  }

  /** Gives the reader what there is, and ends with the body. */
  private flush(): void {
    const { reader } = this
    while (reader !== undefined && !this.isWaiting) {
      const part = this.parts[this.next++]
      if (part !== undefined) {
        this.give(part, reader)
        continue
      }
      this.parts = []
      this.next = 0
      this.unread = 0
      if (this.isPaused) this.socket.resume()
      this.isPaused = false
      if (!this.isOver || this.reader === undefined) return
      this.reader = undefined
      if (this.failure === undefined) reader.resolve()
      else reader.reject(this.failure.error)
      return
    }
  }

  private give(part: Uint8Array, { take }: BodyReader): void {
    try {
      const waiting = take(part)
      if (waiting === undefined) return
      this.isWaiting = true
      waiting.then(
        () => {
          this.isWaiting = false
          this.flush()
        },
        (error: unknown) => this.stop(error),
      )
    } catch (error) {
      this.stop(error)
    }
  }

  /** The reader has failed. */
  private stop(error: unknown): void {
    this.reader?.reject(error)
    this.reader = undefined
    this.cancel()
  }

  private over(): void {
    this.isOver = true
    if (this.isPaused) this.socket.resume()
    this.isPaused = false
    this.onend()
  }
}

type BodyReader = { readonly take: TakePart; resolve(): void; reject(error: unknown): void }

/** A body of known length up to this is passed on whole: for it, reading in parts costs more than it saves. */
const MAX_AWAITED = 2 * 1024 * 1024
/** What a part of a body costs besides its bytes. */
const PART_BYTES = 256

/** In the form of the TLS extension: its length, then the name. */
const ALPN = Buffer.from("\x08http/1.1", "latin1")

function formatTunnel(proxy: ConnectTarget["proxy"]): Buffer {
  const { tunnelTo = "", authorization } = proxy ?? {}
  const own = authorization === undefined ? "" : `Proxy-Authorization: ${authorization}\r\n`
  return Buffer.from(`CONNECT ${tunnelTo} HTTP/1.1\r\nHost: ${tunnelTo}\r\n${own}\r\n`, "latin1")
}
