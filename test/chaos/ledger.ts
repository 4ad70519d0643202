/**
 * The ledger: clients of every kind call servers that write a journal, while servers fall asleep and are killed, connections cut,
 * files edited, and svc itself stopped and killed. Afterwards the clients' book and the servers' journals must agree.
 *
 *   bun test/chaos/ledger.ts --minutes 3 --seed 7
 *
 * The seed determines the actions; their results also depend on the timing of the machine.
 */
import { readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { parseArgs } from "node:util"
import { SSEClientTransport } from "@modelcontextprotocol/sdk/client/sse.js"
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js"
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js"
import type { Transport } from "@modelcontextprotocol/sdk/shared/transport.js"
import type { JSONRPCMessage } from "@modelcontextprotocol/sdk/types.js"
import { SseDecoder } from "../../src/wire/sse.ts"
import { eventually, fixture, freePort, freshEnv, freshFolder, processes, SVC, startSvc } from "../e2e/harness.ts"
import type { Entry } from "../fixtures/journal.ts"
import { randomFrom } from "../random.ts"

export type Size = Readonly<Record<"ms" | "seed" | "sessions" | "stdio" | "http", number>>
export type Report = {
  readonly counts: Readonly<Record<string, number>>
  /** The violated invariants; at most MAX_FAULTS. */
  readonly faults: readonly { readonly what: Invariant; readonly entry: unknown }[]
}

/** Runs the ledger. Ends its processes and connections and removes its folders at the end. */
export async function runLedger(size: Size): Promise<Report> {
  const run = new Run(size)
  try {
    await run.start()
    const live = Array.from({ length: size.sessions }, (_, index) =>
      liveAs(KINDS[index % KINDS.length] as Kind, index, run),
    )
    const all = Promise.all([...live, attackServers(run), attackSvc(run), run.watch()])
    await Promise.race([Bun.sleep(size.ms), all])
    run.on = false
    await all
    await run.settle()
  } finally {
    await run.close()
  }
  return run
}

/** Formats the counts, and the first faults, a line for each. */
export function tableOf({ counts, faults }: Report): string {
  const names = [...INVARIANTS, ...Object.keys(counts).sort()]
  const rows = [...new Set(names)].map((name) => `${String(counts[name]).padStart(8)}  ${name}\n`)
  const shown = faults.slice(0, MAX_SHOWN).map(({ what, entry }) => `${what}: ${JSON.stringify(entry)}\n`)
  return [...rows, ...shown].join("")
}

// ---

/** How long a client waits for an answer. All time limits of svc are shorter. */
const LIMIT_MS = 20_000
/** More than LIMIT_MS, so that svc's own timeout causes neither answers nor cancellations. */
const REQUEST_TIMEOUT_MS = 60_000
/** How long errors may report a lost server as lost. */
const RECOVERY_MS = 15_000
/** How long a cancellation may take to reach a server. */
const CANCEL_MS = 3000
const RESPAWN_MS = 100
const MAX_CALLS = 1_000_000
const MAX_FAULTS = 1000
const MAX_SHOWN = 40
const WORKERS = 2
/** Shorter than the time between two calls of a server often is. */
const IDLE_MS = 40
const FLAGS = ["--health-info-level", "basic", "--health-rate-limit", "off", "--shutdown-grace", "2s"]

const INVARIANTS = [
  "executed twice",
  "executed and not asked for",
  "answer of another",
  "two answers",
  "progress of another",
  "hung",
  "ok but not executed",
  "unanswered outside an outage",
  "untrue answer",
  "cancellation forgotten",
  "edit not followed",
  "unhealthy for a wake",
  "svc failed",
  "orphan",
] as const
type Invariant = (typeof INVARIANTS)[number]

/** `named` is at `/servers/<name>/mcp`, `http` the official SDK's Streamable HTTP, the others as they are called. */
const KINDS = ["2025", "2026", "http", "sse", "2025", "2026", "proxy", "named", "2026", "http", "named 2026"] as const
type Kind = (typeof KINDS)[number]

type Server = {
  /** The name that its process knows, and its name in mcp.json. */
  readonly own: string
  name: string
  /** Undefined for a server over stdio. */
  readonly port: number | undefined
  readonly modern: boolean
  /** It is disturbed only together with svc. */
  readonly calm: boolean
  /** It has no process while nobody calls it. */
  readonly sleeps: boolean
  child: Bun.Subprocess | undefined
  tags: readonly string[]
  hidden: boolean
  env: number
}

type Health = {
  readonly name: string
  readonly status: string
  readonly tags: readonly string[]
  readonly asleep?: true
}

type Call = {
  readonly kind: Kind
  readonly by: string
  readonly nonce: string
  readonly server: Server | undefined
  /** The arguments of the call. */
  readonly name: string
  readonly tool: string
  readonly id: number | string
  readonly started: number
  /** Whether the client cancels the call as soon as it is known to run. */
  readonly cancels: boolean
  readonly abandon: AbortController
  readonly done: PromiseWithResolvers<void>
  outcome: "open" | "ok" | "failed" | "cancelled" | "lost" | "hung"
  ended: number
  said: string
}

const shown = (call: Call | undefined) =>
  call && { ...call, server: call.server?.own, done: undefined, abandon: undefined }

/** The periods during which a condition held, by key. */
class Spans {
  private readonly spans = new Map<string, { readonly from: number; to: number }[]>()

  /** Begins a period. The returned function ends it. */
  begin(key: string): () => void {
    const span = { from: Date.now(), to: Number.POSITIVE_INFINITY }
    this.spans.set(key, [...(this.spans.get(key) ?? []), span])
    return () => {
      span.to = Date.now()
    }
  }
  /** Ends all open periods. */
  end(key: string): void {
    for (const span of this.spans.get(key) ?? []) span.to = Math.min(span.to, Date.now())
  }
  touch(keys: readonly (string | undefined)[], from: number, to: number): boolean {
    return keys.some((key) => this.spans.get(key ?? "")?.some((span) => span.from <= to && span.to >= from))
  }
}

/** svc, its servers and files, and the records about them. */
class Run {
  on = true
  readonly faults: { what: Invariant; entry: unknown }[] = []
  readonly counts: Record<string, number> = Object.fromEntries(INVARIANTS.map((name) => [name, 0]))
  readonly calls: Call[] = []
  /** The periods in which `svc`, or a server by its own name, was disturbed. */
  readonly away = new Spans()
  /** The periods in which a name in mcp.json, or a server's own name with that of a tool, may have been unknown. */
  readonly unknown = new Spans()
  readonly servers: Server[] = []
  readonly folder = freshFolder()
  readonly journals = freshFolder()
  readonly mark = `svc-mark-${crypto.randomUUID()}/`
  url = ""
  private edits = 0
  private svc: Awaited<ReturnType<typeof startSvc>> | undefined
  private stopping = false

  constructor(readonly size: Size) {}

  count(what: string): void {
    this.counts[what] = (this.counts[what] ?? 0) + 1
  }

  fault(what: Invariant, entry: unknown): void {
    this.count(what)
    if (this.faults.length < MAX_FAULTS) this.faults.push({ what, entry })
  }

  async start(): Promise<void> {
    const { stdio, http } = this.size
    for (let index = 0; index < stdio + http; index++) {
      const own = index < stdio ? `s${index}` : `h${index - stdio}`
      const port = index < stdio ? undefined : await freePort()
      const [calm, modern] = [index === 0 || index === stdio, index % 2 === 1]
      const sleeps = port === undefined && index % 4 < 2
      this.servers.push({
        own,
        name: own,
        port,
        modern,
        calm,
        sleeps,
        child: undefined,
        tags: [],
        hidden: false,
        env: 0,
      })
    }
    for (const server of this.servers) if (server.port !== undefined) this.spawn(server)
    this.writeEnv()
    this.write(this.document())
    await this.startSvc(0)
    await eventually(() => this.isWhole(), 60_000)
  }

  /** Looks at health until the run ends. */
  async watch(): Promise<void> {
    const sleeper = this.servers.find(({ calm, sleeps }) => calm && sleeps)
    while (this.on) {
      const from = Date.now()
      const found = (await this.health().catch(() => [])).find(({ name }) => name === sleeper?.name)
      if (found?.asleep) this.count("seen asleep")
      if (found !== undefined && found.status !== "connected" && !this.away.touch(["svc"], from, Date.now()))
        this.fault("unhealthy for a wake", found)
      await Bun.sleep(20)
    }
  }

  async startSvc(port = Number(new URL(this.url).port)): Promise<void> {
    this.stopping = false
    const svc = await startSvc({ folder: this.folder, port, flags: FLAGS })
    this.svc = svc
    this.url = svc.url
    void svc.exited.then((code) => {
      if (this.stopping && !svc.stderr().includes("internal error")) return
      this.fault("svc failed", { code, stderr: svc.stderr().slice(-2000) })
    })
  }

  /** Ends svc by a signal, and waits until it is gone. */
  async stopSvc(signal: "SIGTERM" | "SIGKILL"): Promise<void> {
    this.stopping = true
    this.svc?.signal(signal)
    const code = await Promise.race([this.svc?.exited, Bun.sleep(LIMIT_MS).then(() => "it does not end")])
    if (signal === "SIGTERM" && code !== 0) this.fault("svc failed", { code, stderr: this.svc?.stderr().slice(-2000) })
    this.svc?.signal("SIGKILL")
    await this.svc?.exited
  }

  document(): string {
    const entryOf = (server: Server) => ({
      ...(server.port === undefined
        ? { command: "bun", args: this.argsOf(server), env: { LEDGER: `\${LEDGER_${server.own}}` } }
        : { url: `http://127.0.0.1:${server.port}/mcp` }),
      ...(server.port === undefined ? { restartOnExit: true, restartDelay: 20, maxRestarts: 0 } : {}),
      ...(server.sleeps ? { idleTimeout: IDLE_MS, start: server.modern ? "eager" : "lazy" } : {}),
      requestTimeout: REQUEST_TIMEOUT_MS,
      // The first server shows which edit svc has applied.
      tags: server === this.servers[0] ? [`edit-${this.edits}`] : server.tags,
      disabledTools: server.hidden ? ["idle"] : [],
    })
    return JSON.stringify({ mcpServers: Object.fromEntries(this.servers.map((one) => [one.name, entryOf(one)])) })
  }

  /** Writes mcp.json, in place or atomically. */
  write(text: string, atomic = false): void {
    const file = join(this.folder, "mcp.json")
    writeFileSync(atomic ? `${file}.new` : file, text)
    if (atomic) renameSync(`${file}.new`, file)
  }

  writeEnv(): void {
    writeFileSync(join(this.folder, ".env"), this.servers.map(({ own, env }) => `LEDGER_${own}=${env}\n`).join(""))
  }

  /** Writes the configuration, and waits until svc has applied it. */
  async edit({ head = "", atomic = false } = {}): Promise<void> {
    const wanted = `edit-${++this.edits}`
    this.write(head + this.document(), atomic)
    await this.followed(async () => (await this.health()).some(({ tags }) => tags.includes(wanted)))
  }

  async followed(look: () => boolean | Promise<boolean>): Promise<void> {
    await eventually(look, LIMIT_MS).catch((error) => this.fault("edit not followed", String(error)))
  }

  /** Waits until svc is in its former state, and compares the clients' book with the journals. */
  async settle(): Promise<void> {
    const all = () => processes(this.mark).length
    await eventually(() => this.isWhole(), 60_000).catch((error) => this.fault("svc failed", String(error)))
    const awake = this.servers.filter(({ port, sleeps }) => port === undefined && !sleeps).length
    await eventually(() => all() === awake).catch(() => this.fault("orphan", `${all()} processes of servers`))
    await eventually(() => this.uncancelled().length === 0).catch(() => undefined)
    for (const call of this.uncancelled()) this.fault("cancellation forgotten", shown(call))
    const book = new Map(this.calls.map((call) => [call.nonce, call]))
    const executed = new Map<string, Entry>()
    for (const entry of this.journal()) {
      this.count(`journal: ${entry.what}`)
      if (entry.what !== "run") continue
      const call = book.get(entry.nonce)
      const before = executed.get(entry.nonce)
      if (before !== undefined) this.fault("executed twice", [before, entry, shown(call)])
      if (call?.by !== entry.by || call.server?.own !== entry.server || call.tool !== entry.tool)
        this.fault("executed and not asked for", [entry, shown(call)])
      executed.set(entry.nonce, entry)
    }
    for (const call of this.calls) {
      for (const what of ["calls", `calls of ${call.kind}`, `calls ${call.outcome}`]) this.count(what)
      if (call.outcome === "ok" && call.tool !== "initialize" && !executed.has(call.nonce))
        this.fault("ok but not executed", shown(call))
    }
  }

  async close(): Promise<void> {
    this.on = false
    await this.stopSvc("SIGTERM")
    await eventually(() => processes(this.mark).length === 0).catch(() => this.fault("orphan", "outlives svc"))
    killAll(processes(this.mark))
    for (const server of this.servers) {
      const { child } = server
      server.child = undefined
      child?.kill("SIGKILL")
      await child?.exited
    }
    for (const folder of [this.folder, this.journals]) rmSync(folder, { recursive: true, force: true })
  }

  // ---

  private argsOf({ own, port, modern }: Server): string[] {
    const place = port === undefined ? [`${this.mark}${own}/`] : ["--port", String(port)]
    const journal = ["--name", own, "--journal", join(this.journals, own)]
    return [fixture("journal.ts"), ...journal, ...place, ...(modern ? ["--modern"] : [])]
  }

  /** Runs a server over HTTP, and restarts it whenever it has ended. */
  private spawn(server: Server): void {
    const cmd = ["bun", ...this.argsOf(server)]
    const child = Bun.spawn({ cmd, stdin: "ignore", stdout: "ignore", stderr: "ignore" })
    server.child = child
    const again = () => void (server.child === child && this.spawn(server))
    void child.exited.then(() => setTimeout(again, RESPAWN_MS))
  }

  private async health(): Promise<readonly Health[]> {
    const response = await fetch(`${this.url}/health`)
    return ((await response.json()) as { servers: { details: [] } }).servers.details
  }

  private async isWhole(): Promise<boolean> {
    const connected = (await this.health()).filter(({ status }) => status === "connected")
    return connected.length === this.servers.length
  }

  private journal(): Entry[] {
    const texts = readdirSync(this.journals).map((name) => readFileSync(join(this.journals, name), "utf8"))
    return texts.flatMap((text) => text.split("\n").flatMap((line) => (line === "" ? [] : [JSON.parse(line) as Entry])))
  }

  /** Returns the cancelled calls that a server still executes, although nothing prevented the cancellation from reaching it. */
  private uncancelled(): Call[] {
    const ended = new Set(this.journal().flatMap((entry) => (entry.what === "cancelled" ? [entry.nonce] : [])))
    const held = this.calls.filter(({ outcome, tool }) => outcome === "cancelled" && tool === "hold")
    return held.filter(
      ({ nonce, server, started, ended: at }) =>
        !ended.has(nonce) && !this.away.touch(["svc", server?.own], started, at + CANCEL_MS),
    )
  }
}

/** Kills processes, of which some may have ended already. */
const killAll = (pids: readonly number[]) => Bun.spawnSync(["kill", "-KILL", ...pids.map(String)])

// --- clients

/** The transport of a session. `send` resolves with "whole" once nothing more can arrive in response to the message. */
type Line = { send(message: object, call?: Call): Promise<"whole" | undefined>; close(): Promise<unknown> }
type Answer = {
  readonly result?: { isError?: boolean; content?: { text: string }[]; protocolVersion?: string }
  readonly error?: unknown
}

/** The requests and answers of one client. */
class Session {
  lost = false
  /** The name in the address of its only server. */
  readonly name: string | undefined
  private readonly since = Date.now()
  private readonly calls = new Map<unknown, Call>()

  constructor(
    readonly kind: Kind,
    private readonly by: string,
    /** The only server that the client calls, at the server's own address. */
    readonly target: Server | undefined,
    readonly run: Run,
  ) {
    this.name = target?.name
  }

  get modern(): boolean {
    return this.kind.endsWith("2026")
  }

  /** Sends a request, and waits until it has ended. */
  async ask(line: Line, server: Server | undefined, tool: string, cancels: boolean, paramsOf: (call: Call) => object) {
    const { kind, by, run } = this
    const number = this.calls.size + 1
    // Half of the sessions use ids that other sessions use too.
    const id = by.length % 2 === 0 ? number : `${by}-${number}`
    const name = this.name ?? server?.name ?? ""
    const asked = { kind, by, nonce: `${by}.${number}`, server, name, tool, id, cancels, started: Date.now() }
    const ends = { abandon: new AbortController(), done: Promise.withResolvers<void>() }
    const call: Call = { ...asked, ...ends, outcome: "open", ended: 0, said: "" }
    this.calls.set(call.id, call)
    run.on &&= run.calls.push(call) < MAX_CALLS
    const timer = setTimeout(() => this.end(call, "hung"), LIMIT_MS)
    const cancelled = { jsonrpc: "2.0", method: "notifications/cancelled", params: { requestId: call.id } }
    // A 2026-era client over HTTP cancels by closing the connection.
    if (!this.modern) call.abandon.signal.onabort = () => void line.send(cancelled).catch(() => undefined)
    const method = tool === "initialize" ? tool : "tools/call"
    void line.send({ jsonrpc: "2.0", id: call.id, method, params: paramsOf(call) }, call).then(
      (whole) => whole === "whole" && this.end(call, "lost", "a response without an answer"),
      (error) => this.end(call, "lost", String(error)),
    )
    await call.done.promise
    clearTimeout(timer)
    return call.outcome
  }

  /** Handles one message. `asked` is the call that it belongs to, if the transport identifies it. */
  take(message: object, asked?: Call): void {
    const { id, method, params, ...answer } = message as Answer & {
      readonly id?: unknown
      readonly method?: string
      readonly params?: { readonly progressToken?: unknown; readonly message?: unknown }
    }
    if (method !== undefined && method !== "notifications/progress") return
    const key = (method === undefined ? id : params?.progressToken) ?? asked?.id
    const found = this.calls.get(key)
    const call = (asked ?? found) === found ? found : undefined
    const wrong = method === undefined ? this.answered(call, answer) : this.progressed(call, params?.message)
    if (wrong !== undefined) this.run.fault(wrong, { by: this.by, message, call: shown(found), asked: asked?.nonce })
  }

  /** Handles a lost connection: its requests are lost too. */
  broken(reason: string): void {
    this.lost = true
    for (const call of this.calls.values()) this.end(call, "lost", reason)
  }

  // ---

  private progressed(call: Call | undefined, said: unknown): Invariant | undefined {
    if (call === undefined || said !== textOf(call)) return "progress of another"
    this.run.count("progress")
    if (!call.cancels || call.outcome !== "open") return undefined
    this.end(call, "cancelled")
    call.abandon.abort()
    return undefined
  }

  private answered(call: Call | undefined, { result, error }: Answer): Invariant | undefined {
    if (call === undefined) return "answer of another"
    if (call.outcome === "ok" || call.outcome === "failed") return "two answers"
    const text = result?.content?.[0]?.text ?? ""
    if (error !== undefined || result?.isError === true) {
      const said = error === undefined ? text : messageOf(error)
      this.end(call, "failed", said)
      return this.isTrue(call, said) ? undefined : "untrue answer"
    }
    if (text !== textOf(call) && result?.protocolVersion === undefined) return "answer of another"
    this.end(call, "ok")
    return undefined
  }

  private end(call: Call, outcome: Call["outcome"], said = ""): void {
    if (call.outcome !== "open") return
    Object.assign(call, { outcome, said, ended: Date.now() })
    call.done.resolve()
    if (outcome === "hung") this.run.fault("hung", shown(call))
    if (outcome === "lost" && !this.run.away.touch(["svc"], call.started, call.ended))
      this.run.fault("unanswered outside an outage", shown(call))
  }

  /** Whether the error of a call reports a condition that really held. */
  private isTrue({ server, name, tool, started }: Call, said: string): boolean {
    const { away, unknown } = this.run
    const now = Date.now()
    this.run.count(`said: ${said.replaceAll(name, "NAME").replace(/\d+/g, "N").slice(0, 80)}`)
    if (
      /shutting down|^the connection to svc was lost|^svc is not running|^The answer to this request is lost/.test(said)
    )
      return away.touch(["svc"], started, now)
    if (/^(Session not found|No stream has this sessionId)/.test(said)) {
      this.lost = true
      return away.touch(["svc", this.target?.own], this.since, now)
    }
    if (/^(Unknown tool|Tool \S+ is disabled|[Nn]o server is named)|is not configured/.test(said)) {
      this.lost ||= this.target !== undefined
      return unknown.touch([name, `${server?.own} ${tool}`], started, now)
    }
    const about = [":", " is down", " is starting", " is stopped"].some((what) => said.startsWith(`${name}${what}`))
    return about && away.touch(["svc", server?.own], started - RECOVERY_MS, now)
  }
}

/** A server's journal entry about a call. */
const textOf = ({ server, nonce }: Call): string => `${server?.own} ${nonce}`

const messageOf = (error: unknown): string =>
  typeof error === "object" && error !== null && "message" in error ? String(error.message) : String(error)

/** Runs sessions of one kind, one after the other. */
async function liveAs(kind: Kind, index: number, run: Run): Promise<void> {
  const random = randomFrom(run.size.seed * 1000 + index)
  const pick = <T>(of: readonly T[]): T => of[Math.floor(random() * of.length)] as T
  for (let life = 0; run.on; life++) {
    const target = kind.startsWith("named") ? pick(run.servers) : undefined
    const session = new Session(kind, `c${index}.${life}`, target, run)
    const line = await open(session)
    let left = 20 + random() * 200
    const work = async () => {
      for (; run.on && !session.lost && left > 0; left--) {
        const tool = pick(["work", "work", "work", "work", "idle", "hold"])
        const cancels = tool === "hold" || random() < 0.05
        const ms = Math.floor(random() ** 3 * 300)
        const progress = cancels || random() < 0.3
        const paramsOf = ({ id, nonce, by, name }: Call) => ({
          name: target === undefined ? `${name}_svc_${tool}` : tool,
          arguments: { nonce, by, ms },
          ...(progress ? { _meta: { progressToken: id } } : {}),
        })
        const outcome = await session.ask(line, target ?? pick(run.servers), tool, cancels, paramsOf)
        await Bun.sleep(random() * 500 + (outcome === "lost" ? 300 : 0))
      }
    }
    await Promise.all(Array.from({ length: WORKERS }, work))
    await line.close().catch(() => undefined)
    await Bun.sleep(random() * 100)
  }
}

/** Opens the connection of a session and, in the legacy era, the session. It is `lost` if this fails. */
async function open(session: Session): Promise<Line> {
  const { kind, target, name, run } = session
  const path = name === undefined ? "/mcp" : `/servers/${name}/mcp`
  const args = ["proxy", "--config-dir", run.folder]
  const transports: { readonly [kind in Kind]?: () => Transport } = {
    http: () => new StreamableHTTPClientTransport(new URL(run.url + path), { fetch: fetchOnce }) as Transport,
    sse: () => new SSEClientTransport(new URL(`${run.url}/sse`), { fetch: fetchOnce }),
    proxy: () => new StdioClientTransport({ command: SVC, args, env: freshEnv(run.folder), stderr: "ignore" }),
  }
  const transport = transports[kind]?.()
  const line = transport === undefined ? openHttp(session, run.url + path) : openTransport(session, transport)
  if (session.modern) return line
  const clientInfo = { name: "ledger", version: "1" }
  const about = { protocolVersion: "2025-11-25", capabilities: {}, clientInfo }
  if ((await session.ask(line, target, "initialize", false, () => about)) !== "ok") session.lost = true
  else await line.send({ jsonrpc: "2.0", method: "notifications/initialized" }).catch(() => undefined)
  return line
}

/** Opens a separate connection for each request, so that no request is sent again on another one. */
const fetchOnce = (url: string | URL, init?: RequestInit) => fetch(url, { ...init, keepalive: false })

const MODERN = "2026-07-28"
const ABOUT = {
  "io.modelcontextprotocol/protocolVersion": MODERN,
  "io.modelcontextprotocol/clientInfo": { name: "ledger", version: "1" },
  "io.modelcontextprotocol/clientCapabilities": {},
}

/** Streamable HTTP without an SDK, in either era. */
function openHttp(session: Session, url: string): Line {
  let own: Record<string, string> = {}
  return {
    async send(message, call) {
      const { method, params } = message as { method: string; params?: { name?: string; _meta?: object } }
      const about = { "mcp-protocol-version": MODERN, "mcp-method": method, "mcp-name": params?.name ?? "" }
      const wrapped = { ...message, params: { ...params, _meta: { ...ABOUT, ...params?._meta } } }
      const accept = "application/json, text/event-stream"
      const response = await fetchOnce(url, {
        method: "POST",
        headers: { "content-type": "application/json", accept, ...(session.modern ? about : own) },
        body: JSON.stringify(session.modern ? wrapped : message),
        signal: (session.modern ? call?.abandon.signal : undefined) ?? null,
      })
      const id = response.headers.get("mcp-session-id")
      if (id !== null) own = { "mcp-session-id": id }
      const take = (bytes: Uint8Array | undefined) =>
        call !== undefined && bytes?.length && session.take(JSON.parse(new TextDecoder().decode(bytes)), call)
      const decoder = new SseDecoder({
        onevent: ({ data }) => void take(data),
        limit: 1 << 20,
        ondropped: () => undefined,
      })
      if (!response.headers.get("content-type")?.startsWith("text/event-stream")) take(await response.bytes())
      else for await (const chunk of response.body ?? []) decoder.push(chunk)
      return "whole"
    },
    close: () => fetchOnce(url, { method: "DELETE", headers: own }),
  }
}

/** A transport of the official SDK, without the SDK's client, which would hide a second answer. */
function openTransport(session: Session, transport: Transport): Line {
  transport.onmessage = (message) => session.take(message)
  transport.onclose = () => session.broken("closed")
  // The body of a refusal is read where the request was sent.
  transport.onerror = (error) => BODY.test(error.message) || session.broken(String(error))
  const started = transport.start()
  return {
    async send(message, call) {
      await started
      return transport.send(message as JSONRPCMessage).then(
        () => undefined,
        (error) => {
          const body = BODY.exec(String(error))?.[0]
          if (body === undefined) throw error
          if (call !== undefined) session.take({ ...JSON.parse(body), id: null }, call)
          return undefined
        },
      )
    },
    close: () => transport.close(),
  }
}

const BODY = /\{.*\}/s

// --- chaos

const EDITS = ["rename", "rewrite", "tags", "hide", "broken", ".env", "replace"] as const
const SIGNALS = ["SIGTERM", "SIGKILL"] as const
type Act = (typeof EDITS)[number] | (typeof SIGNALS)[number]

async function attackServers(run: Run): Promise<void> {
  const random = randomFrom(run.size.seed * 1000 + 998)
  while (run.on) {
    await Bun.sleep(50 + random() * 400)
    // Fewer servers use HTTP, but more can happen to them.
    const remote = random() < 0.5
    const targets = run.servers.filter(({ calm, port }) => !calm && (port !== undefined) === remote)
    const { own, child } = targets[Math.floor(random() * targets.length)] as Server
    const cuts = child !== undefined && random() < 0.6
    run.count(cuts ? "chaos: connections cut" : "chaos: server killed")
    const end = run.away.begin(own)
    if (child === undefined) killAll(processes(`${run.mark}${own}/`))
    else child.kill(cuts ? "SIGUSR1" : "SIGKILL")
    end()
  }
}

async function attackSvc(run: Run): Promise<void> {
  const random = randomFrom(run.size.seed * 1000 + 999)
  const targets = run.servers.filter(({ calm }) => !calm)
  /** Returns each edit twice and each signal once, in a new order each time. */
  let deck: Act[] = []
  while (run.on) {
    await Bun.sleep(200 + random() * 1000)
    if (deck.length === 0) deck = [...EDITS, ...SIGNALS, ...EDITS]
    const act = deck.splice(Math.floor(random() * deck.length), 1)[0] as Act
    run.count(`chaos: ${act}`)
    const fitting = targets.filter(({ port }) => act !== ".env" || port === undefined)
    await attack(run, act, fitting[Math.floor(random() * fitting.length)] as Server, random)
  }
}

async function attack(run: Run, act: Act, server: Server, random: () => number): Promise<void> {
  const { away, unknown } = run
  const { own, name } = server
  switch (act) {
    case "rename": {
      const end = away.begin(own)
      server.name = name === own ? `${own}b` : own
      for (const either of [name, server.name]) unknown.begin(either)
      await run.edit()
      unknown.end(server.name)
      return end()
    }
    case "rewrite":
      return run.edit({ head: "// The same once more.\n" })
    case "tags":
    case "replace":
      server.tags = random() < 0.5 ? [] : ["web"]
      return run.edit({ atomic: act === "replace" })
    case "hide":
      server.hidden = !server.hidden
      unknown.begin(`${own} idle`)
      await run.edit()
      if (!server.hidden) unknown.end(`${own} idle`)
      return
    case "broken":
      run.write(run.document().slice(0, 200 + random() * 200))
      await Bun.sleep(random() * 800)
      return run.edit()
    case ".env": {
      const end = away.begin(own)
      server.env++
      run.writeEnv()
      await run.followed(() => readFileSync(join(run.journals, own), "utf8").includes(`"env":"${server.env}"`))
      return end()
    }
    case "SIGTERM":
    case "SIGKILL": {
      const end = away.begin("svc")
      await run.stopSvc(act)
      await Bun.sleep(random() ** 2 * 2000)
      await run.startSvc()
      return end()
    }
  }
}

if (import.meta.main) {
  const { values } = parseArgs({ options: { minutes: { type: "string" }, seed: { type: "string" } } })
  const seed = Number(values.seed ?? Date.now() % 1_000_000)
  const ms = Number(values.minutes ?? 1) * 60_000
  const report = await runLedger({ ms, seed, sessions: 100, stdio: 20, http: 5 })
  process.stdout.write(`seed ${seed}\n${tableOf(report)}`)
  process.exit(report.faults.length === 0 ? 0 : 1)
}
