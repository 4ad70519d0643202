/**
 * The ledger of replicas: clients of both eras behind a load balancer do everything that crosses replicas, while replicas and
 * Redis are killed, and replicas are suspended, or stopped and started again. Afterwards the clients' book and the servers'
 * journals must agree. Around a clean stop no call may fail but for what the replica took with it.
 *
 *   bun test/chaos/replicas.ts --minutes 10 --seed 7 [--aof] [--home]
 *
 * `--aof`: Redis writes what it holds to a file, and so loses nothing when it is killed. `--home`: sessions have processes of
 * their own.
 */
import { readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { parseArgs } from "node:util"
import {
  eventually,
  fixture,
  freshEnv,
  freshFolder,
  type Instance,
  modernRequest,
  removeFolder,
  runSvc,
  startHttp,
  startSvc,
} from "../e2e/harness.ts"
import { type ClusterUnderTest, type Event, eventsOf, listen, startCluster, WanderingClient } from "../e2e/replicas.ts"
import type { Entry } from "../fixtures/journal.ts"
import { randomFrom } from "../random.ts"

export type Size = {
  readonly ms: number
  readonly seed: number
  readonly clients: number
  /** Whether Redis keeps what it holds when it is killed. */
  readonly aof: boolean
  /** Whether sessions have processes of their own: all their requests are then served where these run, and fewer cross. */
  readonly home: boolean
}
export type Report = {
  readonly counts: Readonly<Record<string, number>>
  /** What breaks an invariant; at most MAX_FAULTS of them. */
  readonly faults: readonly { readonly what: string; readonly call: unknown }[]
}

/** Runs the ledger. Its processes, folders and connections end with it. */
export async function runReplicas(size: Size): Promise<Report> {
  const folder = freshFolder()
  await using opened = new AsyncDisposableStack()
  opened.defer(() => removeFolder(folder))
  const journalOf = (name: string) => ["--name", name, "--journal", join(folder, name)]
  const remote = await startHttp("journal.ts", ...journalOf("remote"))
  opened.defer(() => remote.stop())
  const stdio = (name: string) => ({ command: "bun", args: [fixture("journal.ts"), ...journalOf(name)] })
  const mcpServers = {
    each: { ...stdio("each"), resultBudget: BUDGET },
    once: { ...stdio("once"), replicas: "one" },
    ...(size.home ? { own: { ...stdio("own"), isolation: "session" } } : {}),
    remote: { type: "streamableHttp", url: remote.url },
  }
  const redis = size.aof ? ["--appendonly", "yes", "--dir", freshFolder()] : []
  opened.defer(() => removeFolder(redis.at(-1) ?? folder))
  const env = { SVC_STATE_KEY: "a key of the replicas", SVC_DRAIN_DELAY: "500ms" }
  const options = { config: { mcpServers }, flags: FLAGS, env, redis }
  const cluster = opened.use(await startCluster(REPLICAS, options))
  const run = new Run(size, cluster)
  const names = Array.from({ length: size.clients }, (_, index) => `c${index}`)
  const headers = new Map(await Promise.all(names.map(async (by) => [by, await authorize(by, cluster)] as const)))
  const plays = names.map((by, index) => {
    const client = new Client(by, index % 2 === 0, headers.get(by) ?? {}, run, randomFrom(size.seed * 100 + index))
    return index >= size.clients - 2 ? client.listens() : client.lives(index === 0)
  })
  await Bun.sleep(SETTLE_MS)
  const all = Promise.all([...plays, attack(run, options, opened)])
  await Promise.race([Bun.sleep(size.ms), all])
  run.on = false
  await all
  const journal = () =>
    readdirSync(folder).flatMap((name) =>
      readFileSync(join(folder, name), "utf8")
        .split("\n")
        .flatMap((line) => (line === "" ? [] : [JSON.parse(line) as Entry])),
    )
  await eventually(() => run.uncancelled(journal()).length === 0, CANCEL_MS).catch(() => undefined)
  run.settle(journal())
  return run
}

/** Formats the counts, and the first faults, a line for each. */
export function tableOf({ counts, faults }: Report): string {
  const rows = Object.keys(counts)
    .sort()
    .map((name) => `${String(counts[name]).padStart(8)}  ${name}\n`)
  return [...rows, ...faults.slice(0, MAX_SHOWN).map((fault) => `${JSON.stringify(fault)}\n`)].join("")
}

// ---

const REPLICAS = 3
const FLAGS = ["--auth", "--health-rate-limit", "off"]
const BUDGET = 4000
/** How long after a kill a call may fail that needs a session, or a server with one owner: a lease passes on, and a process starts. */
const AFTER_MS = 6000
/** How long a client waits. Nothing that svc waits for takes as long. */
const LIMIT_MS = 20_000
/** How long a cancellation may take to reach a server, and a change of lists to reach a listener. */
const CANCEL_MS = 3000
const HEARD_MS = 2000
const SETTLE_MS = 1000
/** What the proxy of the cluster says of a replica that has closed a connection without an answer. */
const RESET = /^the replica ended: (ECONNRESET|ConnectionClosed)$/
/** How long a replica may stay suspended: longer than it takes to be given up. */
const PAUSE_MS = 6000
/** How long a clean stop may take. No call takes a second, unless its client is gone: then the replica waits for it. */
const STOP_MS = 6000
/** How long after Redis is back a replica may not be connected again. */
const BACK_MS = 1500
const MAX_FAULTS = 1000
const MAX_SHOWN = 30

type Span = { readonly from: number; to: number }
/** What was done: a replica was killed, stopped, or suspended for a while; or Redis was killed. */
type Kill = Span & { readonly what: "replica" | "stop" | "pause" | "redis" }
/** After these, a replica may have lost what it had at hand. */
const BROKEN = ["replica", "pause"] as const
const HARD = [...BROKEN, "redis"] as const
const REPLICA = [...BROKEN, "stop"] as const
type Call = {
  readonly what: string
  readonly by: string
  readonly nonce: string
  /** Whether only the death of the replica that serves it can fail it. */
  readonly stateless: boolean
  readonly started: number
  /** When what the call needs was made: a stored result, for example. */
  since: number
  ended: number
  outcome: "ok" | "cancelled" | "failed"
  said: string
}

/** The book of a run. */
class Run {
  on = true
  readonly counts: Record<string, number> = {}
  readonly faults: { what: string; call: unknown }[] = []
  readonly calls: Call[] = []
  readonly kills: Kill[] = []
  /** When streams for changes were open, and when they told of one. */
  readonly listening: (Span & { readonly heard: number[] })[] = []
  /** What clients hold that others must not get, the last of them. */
  readonly held: {
    readonly by: string
    readonly nonce: string
    readonly kind: "session" | "task" | "result"
    readonly id: string
  }[] = []

  constructor(
    readonly size: Size,
    readonly cluster: ClusterUnderTest,
  ) {}

  count(what: string): void {
    this.counts[what] = (this.counts[what] ?? 0) + 1
  }

  fault(what: string, call: unknown): void {
    this.count(`FAULT: ${what}`)
    if (this.faults.length < MAX_FAULTS) this.faults.push({ what, call })
  }

  /** Whether something was killed in a span of time. */
  killed(from: number, to: number, ...what: readonly Kill["what"][]): boolean {
    return this.kills.some((kill) => kill.from <= to && kill.to >= from && what.includes(kill.what))
  }

  /** Whether a call may have failed, or may have been forgotten. */
  excuses({ stateless, started, since, ended, said }: Call): boolean {
    // A connection that is opened just when a replica refuses more is reset. It happens seldom: `settle` counts it.
    if (RESET.test(said) && this.killed(started, ended, "stop")) {
      this.count("reset by a stop")
      return true
    }
    if (stateless) return this.killed(started, ended, ...BROKEN)
    return this.killed(started - AFTER_MS, ended, ...HARD) || this.killed(since, ended, ...REPLICA)
  }

  /** Returns a call with what was done around it. */
  around(call: Call): unknown {
    const { started, ended } = call
    return { ...call, kills: this.kills.filter(({ from, to }) => from <= ended && to >= started - 2 * AFTER_MS) }
  }

  /** Cancelled calls that a server still runs. */
  uncancelled(journal: readonly Entry[]): Call[] {
    const heard = new Set(journal.flatMap((entry) => (entry.what === "cancelled" ? [entry.nonce] : [])))
    return this.calls.filter(
      ({ outcome, nonce, started, ended }) =>
        outcome === "cancelled" && !heard.has(nonce) && !this.killed(started - AFTER_MS, ended + CANCEL_MS, ...HARD),
    )
  }

  /** Compares the book with the journals. */
  settle(journal: readonly Entry[]): void {
    for (const call of this.uncancelled(journal)) this.fault("cancellation forgotten", call)
    const runs = new Map<string, Entry>()
    for (const entry of journal) {
      if (entry.what !== "run") continue
      if (runs.has(entry.nonce)) this.fault("executed twice", [runs.get(entry.nonce), entry])
      runs.set(entry.nonce, entry)
    }
    for (const call of this.calls) {
      this.count(`${call.what}: ${call.outcome}`)
      if (call.outcome === "ok" && !runs.has(call.nonce)) this.fault("ok but not executed", call)
      if (call.outcome === "failed" && !this.excuses(call)) this.fault("failed without a kill", this.around(call))
      if (call.what === "change" && call.outcome === "ok") this.judgeChange(call)
    }
    for (const { what } of this.kills) this.count(`killed: ${what}`)
    const { "reset by a stop": resets = 0, "killed: stop": stops = 0 } = this.counts
    if (resets > 1 + stops / 4) this.fault("too many calls reset by stops", { resets, stops })
  }

  /** Every stream that was open around a change has told of one. */
  private judgeChange(call: Call): void {
    const [from, to] = [call.started, call.ended + HEARD_MS]
    if (this.killed(from - BACK_MS, to, ...HARD)) return
    for (const stream of this.listening.filter((one) => one.from < from - SETTLE_MS && one.to > to)) {
      this.count("changes that a stream had to tell")
      if (!stream.heard.some((at) => at >= from && at <= to)) this.fault("change not told", call)
    }
  }
}

/** Creates a token, and waits until all replicas take it. */
async function authorize(by: string, { replicas }: ClusterUnderTest): Promise<Record<string, string>> {
  const { folder } = replicas[0] as Instance
  const args = ["auth", "token", "create", by, "--config-dir", folder]
  const authorization = `Bearer ${(await runSvc(args, freshEnv(folder))).stdout.trim()}`
  for (const { url } of replicas)
    await eventually(async () => (await fetch(`${url}/mcp`, { headers: { authorization } })).status !== 401)
  return { authorization }
}

/** A request failed in a way that a client sees. */
class Failure extends Error {}

/** What clients do, with its weight. */
const PLAYS = {
  work: 6,
  cancel: 2,
  ask: 2,
  store: 2,
  task: 2,
  resume: 2,
  steal: 1,
} as const
type Play = keyof typeof PLAYS
/** In the modern era a task is an extension, which the server does not have, and a stream is not resumed. */
const MODERN_PLAYS: readonly Play[] = ["work", "cancel", "ask", "store", "steal"]

class Client {
  private count = 0
  private session: WanderingClient | undefined

  constructor(
    private readonly by: string,
    private readonly modern: boolean,
    private readonly headers: Record<string, string>,
    private readonly run: Run,
    private readonly random: () => number,
  ) {}

  /** Calls tools of every kind; if it `changes`, those that change lists too. */
  async lives(changes: boolean): Promise<void> {
    const plays = (Object.keys(PLAYS) as Play[]).filter((play) => !this.modern || MODERN_PLAYS.includes(play))
    const deck = plays.flatMap((play) => Array.from({ length: PLAYS[play] }, () => play))
    while (this.run.on) {
      await (changes && this.random() < 0.2 ? this.change() : this[this.pick(deck)]())
      await Bun.sleep(this.random() * 100)
    }
  }

  /** Keeps a stream for changes open. */
  async listens(): Promise<void> {
    const { run } = this
    while (run.on) {
      const ends = new AbortController()
      const response = await this.openStream(ends.signal).catch(() => undefined)
      if (response?.ok !== true) {
        await Bun.sleep(100)
        continue
      }
      const span = { from: Date.now(), to: Number.POSITIVE_INFINITY, heard: [] as number[] }
      run.listening.push(span)
      run.count("streams for changes")
      const over = setInterval(() => run.on || ends.abort(), 100)
      try {
        for await (const { message } of eventsOf(response))
          if (message.method === "notifications/tools/list_changed") span.heard.push(Date.now())
      } catch {
        // Its replica was killed.
      }
      clearInterval(over)
      span.to = Date.now()
    }
  }

  // ---

  private pick<T>(of: readonly T[]): T {
    return of[Math.floor(this.random() * of.length)] as T
  }

  private work(): Promise<void> {
    const server = this.pick(["each", "each", "once", "remote", ...(this.run.size.home ? ["own", "own"] : [])])
    return this.plays(`work of ${server}`, this.modern && server !== "once", async (call) => {
      const answer = await this.last(this.send("tools/call", this.about(call, server, "work")))
      return textIn(answer) === `${server} ${call.nonce}` ? "ok" : failed(answer)
    })
  }

  private change(): Promise<void> {
    return this.plays("change", false, async (call) => {
      const answer = await this.last(this.send("tools/call", this.about(call, "each", "change")))
      return textIn(answer) === `each ${call.nonce}` ? "ok" : failed(answer)
    })
  }

  /** Cancels a call that runs, at whichever replica. */
  private cancel(): Promise<void> {
    const server = this.pick(["each", "remote"])
    return this.plays("cancel", false, async (call) => {
      const ends = new AbortController()
      const id = ++this.count + 1_000_000
      const events = this.send("tools/call", this.about(call, server, "hold", { progressToken: call.nonce }), id, ends)
      const { value } = await events.next()
      if (value?.message.method !== "notifications/progress") return failed(value?.message)
      if (this.modern) ends.abort()
      else
        await eventually(
          async () => (await this.post({ method: "notifications/cancelled", params: { requestId: id } })).ok,
        )
      const more = await events.next().catch(() => undefined)
      return more?.value === undefined ? "cancelled" : failed(more.value.message)
    })
  }

  /** Answers a server's question, at whichever replica. */
  private ask(): Promise<void> {
    return this.plays("ask", false, async (call) => {
      const params = this.about(call, "remote", "ask")
      const content = { by: this.by }
      const isOwn = (message: Event["message"]) => textIn(message) === `remote ${call.nonce} ${this.by}`
      if (this.modern) {
        const first = await this.last(this.send("tools/call", params))
        const { inputRequests, requestState } = (first.result ?? {}) as {
          inputRequests?: Record<string, { params: { message: string } }>
          requestState?: string
        }
        const [[key, question] = []] = Object.entries(inputRequests ?? {})
        if (key === undefined) return failed(first)
        if (question?.params.message !== call.nonce) this.run.fault("question of another", [call, question])
        const inputResponses = { [key]: { action: "accept", content } }
        const answer = await this.last(this.send("tools/call", { ...params, inputResponses, requestState }))
        return isOwn(answer) ? "ok" : failed(answer)
      }
      for await (const { message } of this.send("tools/call", params)) {
        if (message.method === "elicitation/create") {
          if (message.params?.message !== call.nonce) this.run.fault("question of another", [call, message])
          const response = await this.post({ id: message.id, result: { action: "accept", content } })
          if (!response.ok)
            return failed(response.status === 502 ? await response.text() : `answer: ${response.status}`)
        } else if (message.method === undefined) return isOwn(message) ? "ok" : failed(message)
      }
      return failed("no answer")
    })
  }

  /** Reads a stored result, at whichever replica. */
  private store(): Promise<void> {
    return this.plays("stored result", false, async (call) => {
      const first = await this.last(this.send("tools/call", this.about(call, "each", "large")))
      const id = /r[0-9a-f]{40}/.exec(JSON.stringify(first))?.[0]
      if (id === undefined) return failed(first)
      this.hold("result", call, id)
      call.since = Date.now()
      const answer = await this.last(this.send("tools/call", { name: "read_result", arguments: { id, range: "0-99" } }))
      return textIn(answer)?.includes(`each ${call.nonce} `) ? "ok" : failed(answer)
    })
  }

  /** Follows a task, at whichever replica. */
  private task(): Promise<void> {
    return this.plays("task", false, async (call) => {
      const made = await this.last(
        this.send("tools/call", { ...this.about(call, "each", "work"), task: { ttl: 60_000 } }),
      )
      const { taskId } = (made.result as { task?: { taskId: string } } | undefined)?.task ?? {}
      if (taskId === undefined) return failed(made)
      this.hold("task", call, taskId)
      if (this.session !== undefined) this.hold("session", call, this.session.session)
      call.since = call.started
      for (;;) {
        const { result } = await this.last(this.send("tasks/get", { taskId }))
        if (result?.status === "completed") break
        if (result?.status !== "working") return failed(result)
        await Bun.sleep(20)
      }
      const answer = await this.last(this.send("tasks/result", { taskId }))
      return textIn(answer) === `each ${call.nonce}` ? "ok" : failed(answer)
    })
  }

  /** Breaks the stream of a call off, and resumes it at whichever replica. */
  private resume(): Promise<void> {
    const server = this.pick(["each", "remote", "once"])
    return this.plays("resume", false, async (call) => {
      const ends = new AbortController()
      call.since = call.started
      const id = ++this.count + 1_000_000
      const params = this.about(call, server, "work", { progressToken: call.nonce })
      const events = this.send("tools/call", params, id, ends)
      const { value } = await events.next()
      if (value?.message.method !== "notifications/progress") return failed(value?.message)
      ends.abort()
      await events.return(undefined).catch(() => undefined)
      const response = await this.session?.get(this.run.cluster, value.id)
      if (response?.ok !== true) return failed(`resumption: ${response?.status} ${await response?.text()}`)
      const answers: Event["message"][] = []
      for await (const { id: event, message } of eventsOf(response)) {
        if (event !== undefined && event === value.id) this.run.fault("event repeated", [call, event])
        if (message.method === undefined) answers.push(message)
      }
      if (answers.length > 1) this.run.fault("two answers", [call, answers])
      const [answer] = answers
      return answer !== undefined && textIn(answer) === `${server} ${call.nonce}` ? "ok" : failed(answer)
    })
  }

  /** Asks for what another client holds. */
  private async steal(): Promise<void> {
    const others = this.run.held.filter(({ by }) => by !== this.by)
    if (others.length === 0) return
    const { kind, id, nonce } = this.pick(others)
    if (kind === "session") {
      const thief = new WanderingClient(this.headers)
      thief.session = id
      const response = await thief.post(this.run.cluster, { id: 1, method: "ping" })
      if (response.ok) this.run.fault("given to another", [this.by, kind, await response.text()])
      return
    }
    const asks = [
      ...(kind === "task" && !this.modern ? [{ method: "tasks/get", params: { taskId: id } }] : []),
      ...(kind === "task" && !this.modern ? [{ method: "tasks/result", params: { taskId: id } }] : []),
      ...(kind === "result"
        ? [{ method: "tools/call", params: { name: "read_result", arguments: { id, range: "0-99" } } }]
        : []),
    ]
    for (const { method, params } of asks) {
      const said = await this.within(this.last(this.send(method, params))).catch((error) => error)
      this.run.count("asked for what is another's")
      if (said instanceof Hung) this.run.fault("hung", [this.by, method, params])
      if (!(said instanceof Error) && (said.result?.status !== undefined || JSON.stringify(said).includes(nonce)))
        this.run.fault("given to another", [this.by, method, params, said])
    }
  }

  private hold(kind: "session" | "task" | "result", { nonce }: Call, id: string): void {
    this.run.held.push({ by: this.by, nonce, kind, id })
    if (this.run.held.length > 20) this.run.held.shift()
  }

  // ---

  /** Plays something, and writes down what came of it. */
  private async plays(
    what: string,
    stateless: boolean,
    play: (call: Call) => Promise<"ok" | "cancelled">,
  ): Promise<void> {
    const { run } = this
    const nonce = `${this.by}.${++this.count}`
    const era = this.modern ? "2026" : "2025"
    const started = Date.now()
    const none = Number.POSITIVE_INFINITY
    const call: Call = {
      what: `${era} ${what}`,
      by: this.by,
      nonce,
      stateless,
      started,
      since: none,
      ended: 0,
      outcome: "failed",
      said: "",
    }
    run.calls.push(what === "change" ? Object.assign(call, { what }) : call)
    try {
      if (!this.modern && this.session === undefined) await this.within(this.open())
      call.outcome = await this.within(play(call))
    } catch (error) {
      call.said = String(error instanceof Error ? error.message : error).slice(0, 400)
      if (error instanceof Hung) {
        call.ended = Date.now()
        run.fault("hung", run.around(call))
      }
    }
    call.ended = Date.now()
    if (call.outcome === "failed") {
      run.count(`said: ${call.said.replaceAll(/\d+/g, "N").slice(0, 100)}`)
      await Bun.sleep(this.random() * 300)
    }
  }

  private async within<T>(work: Promise<T>): Promise<T> {
    const late = Promise.withResolvers<never>()
    const timer = setTimeout(() => late.reject(new Hung()), LIMIT_MS)
    return Promise.race([work, late.promise]).finally(() => clearTimeout(timer))
  }

  private async open(): Promise<void> {
    const session = new WanderingClient(this.headers)
    await session.open(this.run.cluster)
    this.session = session
    this.run.count("sessions")
  }

  private about({ nonce, by }: Call, server: string, tool: string, _meta?: object): Record<string, unknown> {
    const args = { nonce, by, ms: Math.floor(this.random() ** 2 * 400) }
    return { name: `${server}_svc_${tool}`, arguments: args, ...(_meta === undefined ? {} : { _meta }) }
  }

  private async post(message: object, signal?: AbortSignal): Promise<Response> {
    const { run } = this
    const response = await (this.session as WanderingClient).post(run.cluster, message, signal)
    if (response.status !== 404) return response
    // A session is lost only with what Redis held.
    this.session = undefined
    run.count("sessions lost")
    const now = Date.now()
    if (run.size.aof || !run.killed(now - AFTER_MS, now, "redis"))
      run.fault("session lost", [this.by, await response.text()])
    throw new Failure("the session is lost")
  }

  /** Sends a request, and returns the messages of its response. */
  private async *send(
    method: string,
    params: Record<string, unknown>,
    id: number = ++this.count + 1_000_000,
    ends?: AbortController,
  ): AsyncGenerator<Event> {
    const response = this.modern
      ? await postModern(this.run.cluster.url, this.headers, method, params, id, ends?.signal)
      : await this.post({ id, method, params }, ends?.signal)
    // What the proxy says itself is no message.
    if (response.status === 502 && response.headers.get("content-type")?.startsWith("text/plain"))
      failed(await response.text())
    const token = (params._meta as { progressToken?: string } | undefined)?.progressToken
    for await (const event of eventsOf(response)) {
      const { message } = event
      if (message.method === "notifications/progress" && message.params?.progressToken !== token)
        this.run.fault("progress of another", [this.by, params, message])
      if (message.method === undefined && message.id !== id && message.id !== null && message.id !== undefined)
        this.run.fault("answer of another", [this.by, id, message])
      const named = (textIn(message)?.match(/\bc\d+\.\d+/g) ?? []).find((nonce) => !nonce.startsWith(`${this.by}.`))
      if (named !== undefined) this.run.fault("answer of another", [this.by, named, message])
      yield event
    }
  }

  /** Returns the last message of a response, its answer. */
  private async last(events: AsyncGenerator<Event>): Promise<Event["message"]> {
    let answer: Event["message"] | undefined
    let answers = 0
    for await (const { message } of events) {
      if (message.method !== undefined) continue
      answer = message
      if (++answers > 1) this.run.fault("two answers", [this.by, message])
    }
    return answer ?? failed("no answer")
  }

  private async openStream(signal: AbortSignal): Promise<Response> {
    const { cluster } = this.run
    if (this.modern) return listen(cluster, { toolsListChanged: true }, {}, { headers: this.headers, signal })
    if (this.session === undefined) await this.open()
    const response = await (this.session as WanderingClient).get(cluster, undefined, signal)
    if (response.status === 404) this.session = undefined
    return response
  }
}

class Hung extends Error {
  override readonly message = "no answer in time"
}

function failed(answer: unknown): never {
  throw new Failure(typeof answer === "string" ? answer : JSON.stringify(answer ?? "no answer"))
}

/** Returns the text of an answer. */
const textIn = ({ result }: Event["message"]): string | undefined =>
  result?.content?.length === 0 ? undefined : result?.content?.[0]?.text

function postModern(
  url: string,
  headers: Record<string, string>,
  method: string,
  params: Record<string, unknown>,
  id: number,
  signal: AbortSignal | undefined,
): Promise<Response> {
  const _meta = {
    "io.modelcontextprotocol/clientCapabilities": { elicitation: {} },
    ...(params._meta as object | undefined),
  }
  return fetch(`${url}/mcp`, { ...modernRequest(method, { ...params, _meta }, headers, id), signal: signal ?? null })
}

/** Kills, stops and suspends replicas, kills Redis, and starts all again. */
async function attack(
  run: Run,
  { flags, env }: { readonly flags: readonly string[]; readonly env: Record<string, string> },
  opened: AsyncDisposableStack,
): Promise<void> {
  const { cluster, kills } = run
  const random = randomFrom(run.size.seed)
  const current = [...cluster.replicas]
  /** When each was started. */
  const since = current.map(() => 0)
  const all = { SVC_CLUSTER: cluster.redis.url, SVC_KEYCHAIN: "off", ...env }
  for (let count = 1; run.on; count++) {
    // Now and then long enough for everything to be as it was.
    const next = Date.now() + 500 + random() ** 3 * 6000
    while (run.on && Date.now() < next) await Bun.sleep(100)
    if (!run.on) return
    const what = count % 3 === 2 ? "redis" : kindOf(random())
    const kill: Kill = { from: Date.now(), to: Number.POSITIVE_INFINITY, what }
    kills.push(kill)
    const at = Math.floor(random() * current.length)
    const { url, folder, pid, signal, exited } = current[at] as Instance
    const restart = async () => {
      current[at] = opened.use(await startSvc({ folder, port: Number(new URL(url).port), flags, env: all }))
      since[at] = Date.now()
    }
    switch (what) {
      case "redis":
        await cluster.redis.kill()
        await Bun.sleep(random() * 1500)
        await cluster.redis.start()
        break
      case "pause":
        process.kill(pid, "SIGSTOP")
        try {
          await Bun.sleep(random() * PAUSE_MS)
        } finally {
          process.kill(pid, "SIGCONT")
        }
        break
      case "stop": {
        signal("SIGTERM")
        const code = await exited
        const ms = Date.now() - kill.from
        // A client that has failed may have left a call that waits for it.
        const isLeft = run.calls.some(({ outcome, ended }) => outcome === "failed" && ended >= (since[at] ?? 0))
        if (code !== 0 || (ms > STOP_MS && !isLeft)) run.fault("stopped badly", { code, ms, kills: kills.slice(-4) })
        await restart()
        break
      }
      case "replica":
        signal("SIGKILL")
        await exited
        kill.to = Date.now()
        await restart()
    }
    kill.to = Math.min(kill.to, Date.now())
  }
}

/** Returns what is done to a replica, by a number from 0 to 1. */
function kindOf(random: number): Kill["what"] {
  if (random < 0.4) return "replica"
  return random < 0.8 ? "stop" : "pause"
}

if (import.meta.main) {
  const { values } = parseArgs({
    options: {
      minutes: { type: "string" },
      seed: { type: "string" },
      aof: { type: "boolean" },
      home: { type: "boolean" },
    },
  })
  const seed = Number(values.seed ?? Date.now() % 1_000_000)
  const ms = Number(values.minutes ?? 1) * 60_000
  const report = await runReplicas({ ms, seed, clients: 16, aof: values.aof ?? false, home: values.home ?? false })
  process.stdout.write(`seed ${seed}\n${tableOf(report)}`)
  process.exit(report.faults.length === 0 ? 0 : 1)
}
