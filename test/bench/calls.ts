/** Calls through one stdio server: how many, how late, at what cost; beside the floors, beside the peers. */
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { digits, type Figure, type Measured } from "./figure.ts"
import type { Count, Job } from "./load.ts"
import { interleave, over, type Rig } from "./rig.ts"
import {
  backend,
  callFrame,
  installPeer,
  OPENING,
  openSession,
  PEERS,
  type Peer,
  requestsOf,
  startFloor,
  startPeer,
  startRaw,
  startSvc,
  stdio,
  type Target,
} from "./targets.ts"

const WARM_MS = 300
const ROUND_MS = 1200
const MANY = 64
const SOME = 16
const NEEDLE = "hello world"

/** Throughput, latency and cost beside the floors, and what svc's features cost. */
export async function measureCalls(rig: Rig, rounds: number): Promise<Measured> {
  await using floor = await startFloor()
  await using raw = await startRaw()
  await using svc = await startSvc({ echo: stdio() }, ["--no-persist"])
  await using full = await startSvc({ echo: { ...stdio(), restartOnExit: true, env: SECRETS } }, ["--metrics"])
  await using budgeted = await startSvc({ echo: stdio() }, ["--no-persist", "--result-budget", "20000"])
  const counts = await interleave(rounds, {
    floor: await callsOf(rig, floor, MANY),
    raw: await callsOf(rig, raw, MANY),
    svc: await callsOf(rig, svc, MANY),
    full: await callsOf(rig, full, MANY),
    budgeted: await callsOf(rig, budgeted, MANY),
    pipe: () => rig.run({ ...pipeJob(1), warm: WARM_MS, ms: ROUND_MS }),
    one: await callsOf(rig, svc, 1),
    floorOne: await callsOf(rig, floor, 1),
  })
  const rate = (key: keyof typeof counts) => digits(over(counts[key], (count) => count.rate))
  const p50 = (key: keyof typeof counts) => `${over(counts[key], (count) => count.p50).toFixed(3)} ms`
  const to = (key: keyof typeof counts) => over(counts.svc, (count, n) => count.rate / rateOf(counts[key][n]))
  return {
    figures: [
      {
        what: `calls a second, ${MANY} callers, against an HTTP echo`,
        value: to("floor"),
        unit: "",
        aim: { least: 0.5 },
        from: `${rate("svc")}/s of ${rate("floor")}/s`,
      },
      {
        what: "the same against the least a relay can be",
        value: to("raw"),
        unit: "",
        from: `${rate("svc")}/s of ${rate("raw")}/s`,
      },
      {
        what: "added p50 at 1 caller, against the pipe without svc",
        value: over(counts.one, (count, n) => count.p50 - (counts.pipe[n]?.p50 ?? 0)),
        unit: "ms",
        aim: { most: 0.12 },
        from: `${p50("one")} over ${p50("pipe")}; an HTTP echo ${p50("floorOne")}`,
      },
      {
        what: `svc's CPU a call, ${MANY} callers`,
        value: over(counts.svc, ({ cpu, calls }) => (cpu * 1000) / calls),
        unit: "µs",
        aim: { most: 25 },
        from: `the least relay ${digits(over(counts.raw, ({ cpu, calls }) => (cpu * 1000) / calls))} µs`,
      },
      {
        what: "a result budget costs calls with results below it",
        value: (1 - over(counts.budgeted, (count, n) => count.rate / rateOf(counts.svc[n]))) * 100,
        unit: "%",
        aim: { most: 3 },
        from: `${rate("budgeted")}/s of ${rate("svc")}/s`,
      },
      {
        what: "supervision, metrics, sessions on disk and redaction cost",
        value: (1 - over(counts.full, (count, n) => count.rate / rateOf(counts.svc[n]))) * 100,
        unit: "%",
        aim: { most: 5 },
        from: `${rate("full")}/s of ${rate("svc")}/s`,
      },
    ],
  }
}

/** svc beside packages from npm that do the same or a part of it. */
export async function measurePeers(rig: Rig, rounds: number): Promise<Measured> {
  const folder = mkdtempSync(join(tmpdir(), "svc-bench-"))
  const missing: string[] = []
  await using stack = new AsyncDisposableStack()
  stack.defer(() => rmSync(folder, { recursive: true, force: true }))
  const svc = stack.use(await startSvc({ echo: stdio() }))
  const measures: Record<string, () => Promise<Count>> = {}
  const add = async (name: string, target: Target, kind: Peer["kind"]) => {
    for (const callers of [SOME, MANY]) {
      const job = await callsOf(rig, target, callers, kind)
      // The first run is not counted: it shows whether there is something to measure.
      await job()
      measures[`${name} ${callers}`] = job
    }
  }
  await add("svc", svc, "http")
  const names: string[] = []
  for (const peer of PEERS)
    try {
      await add(peer.name, stack.use(await startPeer(peer, installPeer(peer, folder), folder)), peer.kind)
      names.push(peer.name)
    } catch (error) {
      missing.push(`${peer.name} ${peer.version}: ${error instanceof Error ? error.message : String(error)}`)
    }
  const counts = await interleave(rounds, measures)
  if (names.length === 0) return { figures: [], missing }
  const figures = [SOME, MANY].map((callers): Figure => {
    const of = (name: string) => counts[`${name} ${callers}`] ?? []
    const best = (n: number) => Math.max(...names.map((name) => rateOf(of(name)[n])))
    const show = (name: string) => `${name} ${digits(over(of(name), (count) => count.rate))}/s`
    return {
      what: `calls a second against the best peer, ${callers} callers`,
      value: over(of("svc"), (count, n) => count.rate / best(n)),
      unit: "×",
      aim: { least: 4 },
      from: ["svc", ...names].map(show).join(", "),
    }
  })
  return { figures, missing }
}

// ---

/** Something to hide: redaction has work to do where text leaves svc. */
const SECRETS = { API_TOKEN: "sk-0123456789abcdef0123456789abcdef", DB_PASSWORD: "correct-horse-battery" }

const rateOf = (count: Count | undefined): number => count?.rate ?? Number.NaN

const framesOf = (target: Pick<Target, "tool">, callers: number): string[] =>
  Array.from({ length: callers }, (_, index) => callFrame(index + 1, target.tool("echo"), NEEDLE))

/** Prepares calls of one legacy session from `callers` connections; the returned function measures them once. */
export async function callsOf(
  rig: Rig,
  target: Target,
  callers: number,
  kind: Peer["kind"] = "http",
): Promise<() => Promise<Count>> {
  const { port, pid, path } = target
  const frames = framesOf(target, callers)
  const common = { port, pid, needle: NEEDLE, warm: WARM_MS, ms: ROUND_MS }
  const job: Job =
    kind === "sse"
      ? { ...common, kind, path, opening: OPENING, frames }
      : { ...common, kind, requests: requestsOf(target, await openSession(target), frames) }
  return () => rig.run(job)
}

const pipeJob = (callers: number) => ({
  kind: "pipe" as const,
  cmd: backend(),
  needle: NEEDLE,
  opening: OPENING,
  frames: framesOf({ tool: (name) => name }, callers),
})
