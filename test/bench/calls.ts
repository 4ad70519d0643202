/** Calls to one stdio server: throughput, latency and CPU, compared with the baselines and with the peers. */
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { messageOf } from "../../src/lib/errors.ts"
import { digits, type Figure, type Measured } from "./figure.ts"
import type { Count, Job } from "./load.ts"
import { interleave, over, overProcesses, quantile, type Rig } from "./rig.ts"
import {
  backend,
  callFrame,
  FOLDER,
  installNode,
  installPeer,
  NODE,
  OPENING,
  openSession,
  PEERS,
  requestsOf,
  startFloor,
  startPeer,
  startRaw,
  startSvc,
  stdio,
  type Target,
  type Way,
} from "./targets.ts"

const WARM_MS = 300
const ROUND_MS = 600
const SHORT_MS = 200
const WARM_CALLS = 20_000
const MANY = 64
const SOME = 16
const NEEDLE = "hello world"

/** Measures throughput, latency and CPU relative to the baselines. */
export async function measureCalls(rig: Rig, rounds: number): Promise<Measured> {
  const counts = await overProcesses(rounds, async () => {
    await using floor = await startFloor()
    await using raw = await startRaw()
    await using usable = await startRaw("--usable")
    await using svc = await startSvc({ echo: stdio() }, ["--no-persist"])
    for (const target of [floor, raw, usable, svc]) await warmUp(rig, target)
    return await interleave(1, {
      floor: await callsOf(rig, floor, MANY),
      raw: await callsOf(rig, raw, MANY),
      usable: await callsOf(rig, usable, MANY),
      svc: await callsOf(rig, svc, MANY),
      rawSome: await callsOf(rig, raw, SOME),
      usableSome: await callsOf(rig, usable, SOME),
      some: await callsOf(rig, svc, SOME),
      rawOne: await callsOf(rig, raw, 1),
      usableOne: await callsOf(rig, usable, 1),
      pipe: () => rig.run({ ...pipeJob(1), warm: WARM_MS, ms: ROUND_MS }),
      one: await callsOf(rig, svc, 1),
      floorOne: await callsOf(rig, floor, 1),
    })
  })
  const rate = (key: keyof typeof counts) => digits(over(counts[key], (count) => count.rate))
  const p50 = (key: keyof typeof counts) => `${over(counts[key], (count) => count.p50).toFixed(3)} ms`
  const to = (key: keyof typeof counts) => over(counts.svc, (count, n) => count.rate / rateOf(counts[key][n]))
  return {
    figures: [
      {
        what: `throughput, ${MANY} callers, relative to the HTTP echo`,
        value: to("floor"),
        unit: "",
        aim: { least: 0.5 },
        from: `${rate("svc")}/s vs. ${rate("floor")}/s`,
      },
      ...against(counts.one, counts.rawOne, 1),
      ...against(counts.some, counts.rawSome, SOME),
      ...against(counts.svc, counts.raw, MANY),
      ...againstUsable(counts.one, counts.usableOne, 1, 0.88),
      ...againstUsable(counts.some, counts.usableSome, SOME, 0.95),
      ...againstUsable(counts.svc, counts.usable, MANY, 0.95),
      {
        what: "added median latency, 1 caller, over the same stdio server without svc",
        value: over(counts.one, (count, n) => count.p50 - (counts.pipe[n]?.p50 ?? 0)),
        unit: "ms",
        aim: { most: 0.1 },
        from: `${p50("one")} vs. ${p50("pipe")}; HTTP echo: ${p50("floorOne")}`,
      },
    ],
  }
}

/** Measures what the guard compares: svc with all its features and the minimal relay, in many short windows. */
export async function measureCallRatios(rig: Rig, rounds: number): Promise<readonly Figure[]> {
  await using raw = await startRaw()
  await using svc = await startFull()
  for (const target of [raw, svc]) await warmUp(rig, target)
  const short = (target: Target, callers: number) => shortCallsOf(rig, target, callers)
  const counts = await interleave(rounds, {
    rawSome: await short(raw, SOME),
    some: await short(svc, SOME),
    rawMany: await short(raw, MANY),
    many: await short(svc, MANY),
  })
  return [...against(counts.some, counts.rawSome, SOME), ...against(counts.many, counts.rawMany, MANY)]
}

/** Compares svc with packages from npm that do the same or a part of it. */
export async function measurePeers(rig: Rig, rounds: number): Promise<Measured> {
  const folder = mkdtempSync(join(tmpdir(), "svc-bench-"))
  const missing: string[] = []
  const notes: string[] = []
  await using stack = new AsyncDisposableStack()
  stack.defer(() => rmSync(folder, { recursive: true, force: true }))
  const svc = stack.use(await startSvc({ echo: stdio() }))
  const measures: Record<string, () => Promise<Count>> = {}
  const add = async (name: string, target: Target, way: Pick<Way, "kind" | "sessions"> = HTTP) => {
    for (const callers of [SOME, MANY]) measures[`${name} ${callers}`] = await callsOf(rig, target, callers, way)
  }
  await add("svc", svc)
  const names: string[] = []
  const node = installNode(folder)
  for (const peer of PEERS)
    try {
      const command = [node, installPeer(peer, folder)]
      let best: { readonly target: Target; readonly way: Way; readonly rate: number } | undefined
      for (const way of peer.ways)
        try {
          const target = stack.use(await startPeer(way, command, folder))
          await whenServing(rig, target, way)
          const run = await callsOf(rig, target, MANY, way)
          // The first run warms it up.
          await run()
          const { rate } = await run()
          if (best === undefined || rate > best.rate) best = { target, way, rate }
        } catch (error) {
          missing.push(`${peer.name} ${peer.version} over ${nameOf(way)}: ${messageOf(error)}`)
        }
      if (best === undefined) continue
      await add(peer.name, best.target, best.way)
      names.push(peer.name)
      notes.push(`${peer.name} over ${nameOf(best.way)}`)
    } catch (error) {
      missing.push(`${peer.name} ${peer.version}: ${messageOf(error)}`)
    }
  for (const measure of Object.values(measures)) await measure()
  const counts = await interleave(rounds, measures)
  if (names.length === 0) return { figures: [], missing }
  const figures = [SOME, MANY].map((callers): Figure => {
    const of = (name: string) => counts[`${name} ${callers}`] ?? []
    const best = (n: number) => Math.max(...names.map((name) => rateOf(of(name)[n])))
    const show = (name: string) =>
      `${name} ${digits(over(of(name), (count) => count.rate))}/s (${digits(over(of(name), cpuOf))} µs of CPU per call)`
    return {
      what: `throughput, ${callers} callers, relative to the fastest peer`,
      value: over(of("svc"), (count, n) => count.rate / best(n)),
      unit: "×",
      aim: { least: 4 },
      from: `${["svc", ...names].map(show).join(", ")}; Node.js ${NODE}, ${notes.join(", ")}`,
    }
  })
  return { figures, missing }
}

// ---

/** Secrets, so that redaction has work to do when text leaves svc. */
const SECRETS = { API_TOKEN: "sk-0123456789abcdef0123456789abcdef", DB_PASSWORD: "correct-horse-battery" }

/** The flags for metrics, the audit log, a rate limit of sessions and the selection by a tag. */
export const WATCHED = [
  ...["--metrics", "--audit-log", `${FOLDER}/audit.jsonl`],
  ...["--session-rate-limit", "10000000", "--filter", "bench"],
]
/** A server with supervision, a rate limit and that tag. */
export const watchedServer = { ...stdio(), restartOnExit: true, tags: ["bench"], rateLimit: 100_000_000 }

/** Starts svc with every feature that may make a call slower. */
export const startFull = () => startSvc({ echo: { ...watchedServer, env: SECRETS } }, WATCHED)

/** Calls a target until its code is compiled. */
export const warmUp = async (rig: Rig, target: Target): Promise<unknown> =>
  rig.run({ ...(await jobOf(target, MANY)), warm: 0, ms: Number.POSITIVE_INFINITY, count: WARM_CALLS })

/** Compares the throughput and the CPU per call of svc with those of the minimal relay. */
function against(
  svc: readonly Count[],
  raw: readonly Count[],
  callers: number,
  baseline = "minimal relay",
  leastRate = 0.95,
): readonly Figure[] {
  const who = `${callers} ${callers === 1 ? "caller" : "callers"}`
  // Good rounds of both: other work on the machine slows both.
  const least = (counts: readonly Count[]) => quantile(counts.map(cpuOf), 0.2)
  const most = (counts: readonly Count[]) =>
    quantile(
      counts.map(({ rate }) => rate),
      0.8,
    )
  return [
    {
      what: `throughput, ${who}, relative to the ${baseline}`,
      value: most(svc) / most(raw),
      unit: "",
      aim: { least: leastRate },
      from: `${digits(most(svc))}/s vs. ${digits(most(raw))}/s`,
    },
    {
      what: `CPU per call, ${who}, relative to the ${baseline}`,
      value: least(svc) / least(raw),
      unit: "",
      aim: { most: 1.15 },
      from: `${digits(least(svc))} µs vs. ${digits(least(raw))} µs`,
    },
  ]
}

/** Compares svc with the relay that checks what any relay has to check, also in the slowest hundredth of the calls. */
function againstUsable(
  svc: readonly Count[],
  usable: readonly Count[],
  callers: number,
  leastRate: number,
): readonly Figure[] {
  const p99 = (counts: readonly Count[]) => over(counts, (count) => count.p99)
  return [
    ...against(svc, usable, callers, USABLE, leastRate),
    {
      what: `99th percentile of the latency, ${callers} ${callers === 1 ? "caller" : "callers"}, relative to the ${USABLE}`,
      value: over(svc, (count, n) => count.p99 / (usable[n]?.p99 ?? Number.NaN)),
      unit: "",
      aim: { most: 1.5 },
      from: `${p99(svc).toFixed(3)} ms vs. ${p99(usable).toFixed(3)} ms`,
    },
  ]
}

const USABLE = "usable relay"

/** Microseconds of CPU per call. */
const cpuOf = ({ cpu, calls }: Count): number => (cpu * 1000) / calls

const rateOf = (count: Count | undefined): number => count?.rate ?? Number.NaN

const framesOf = (target: Pick<Target, "tool">, callers: number): string[] =>
  Array.from({ length: callers }, (_, index) => callFrame(index + 1, target.tool("echo"), NEEDLE))

const HTTP = { kind: "http", sessions: "one" } as const

async function jobOf(target: Target, callers: number, way: Pick<Way, "kind" | "sessions"> = HTTP): Promise<Job> {
  const { port, pid, path } = target
  const frames = framesOf(target, callers)
  const common = { port, pid, needle: NEEDLE, warm: WARM_MS, ms: ROUND_MS }
  if (way.kind === "http")
    return { ...common, kind: "http", requests: requestsOf(target, await openSession(target), frames) }
  return { ...common, kind: "sse", path, opening: OPENING, frames, sessions: way.sessions === "one" ? 1 : callers }
}

/** Prepares calls of one legacy session from `callers` connections; the returned function measures them once. */
export async function callsOf(
  rig: Rig,
  target: Target,
  callers: number,
  way: Pick<Way, "kind" | "sessions"> = HTTP,
): Promise<() => Promise<Count>> {
  const job = await jobOf(target, callers, way)
  return () => rig.run(job)
}

/** Prepares calls as `callsOf` does, in a short window: many windows in turn say more than a few long ones. */
export async function shortCallsOf(rig: Rig, target: Target, callers: number): Promise<() => Promise<Count>> {
  const job = await jobOf(target, callers)
  return () => rig.run({ ...job, warm: SHORT_MS / 5, ms: SHORT_MS })
}

const nameOf = ({ kind }: Way): string => (kind === "sse" ? "HTTP+SSE" : "Streamable HTTP")

/** Resolves once a call succeeds: a peer listens before its server has started, and calls fail until then. */
async function whenServing(rig: Rig, target: Target, way: Way): Promise<void> {
  const until = performance.now() + SERVING_MS
  for (;;)
    try {
      await rig.run({ ...(await jobOf(target, 1, way)), warm: 0, ms: 1 })
      return
    } catch (error) {
      if (performance.now() > until) throw error
      await Bun.sleep(POLL_MS)
    }
}

const SERVING_MS = 20_000
const POLL_MS = 200

const pipeJob = (callers: number) => ({
  kind: "pipe" as const,
  cmd: backend(),
  needle: NEEDLE,
  opening: OPENING,
  frames: framesOf({ tool: (name) => name }, callers),
})
