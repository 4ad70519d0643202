/** Results of one and ten megabytes: through svc, and through programs that only pass bytes on, compared with direct HTTP. */
import type { Figure, Measured } from "./figure.ts"
import { interleave, over, type Rig } from "./rig.ts"
import {
  backend,
  callFrame,
  openSession,
  requestsOf,
  startFloor,
  startNginx,
  startPass,
  startSvc,
  stdio,
  type Target,
} from "./targets.ts"

const WARM_MS = 100
const ROUND_MS = 300

/** The kinds of results, each with a text that it contains. */
const KINDS = {
  text: "snowman",
  lines: "without quotes",
  structured: "score",
  base64: "BwcHBwcHBwc",
} as const

/** A program that a result passes through, and its target. */
type Way = { readonly what: string; readonly target: Target; readonly aim?: Figure["aim"] }

export async function measureResults(rig: Rig, rounds: number): Promise<Measured> {
  const figures: Figure[] = []
  const missing = new Set<string>()
  for (const megabytes of [1, 10]) {
    const measured = await measureSize(rig, rounds, megabytes)
    figures.push(...measured.figures)
    for (const line of measured.missing ?? []) missing.add(line)
  }
  return { figures, missing: [...missing] }
}

// ---

async function measureSize(rig: Rig, rounds: number, megabytes: number): Promise<Measured> {
  const size = ["--megabytes", String(megabytes)]
  await using direct = await startFloor(...size)
  await using remote = await startSvc({ big: { type: "streamableHttp", url: `http://127.0.0.1:${direct.port}/mcp` } })
  await using piped = await startSvc({ big: stdio(...size) })
  await using nginx = await startNginx(direct)
  await using tcp = await startPass("tcp", String(direct.port))
  await using http = await startPass("fetch", String(direct.port))
  await using pipe = await startPass("pipe", ...backend(...size))
  const aim = { most: 1.3 }
  const ways: readonly Way[] = [
    { what: "server over HTTP", target: remote, aim },
    { what: "server over stdio", target: piped, aim },
    ...(nginx === undefined ? [] : [{ what: "nginx", target: nginx }]),
    { what: "sockets that pass it on", target: tcp },
    { what: "`fetch` and `Bun.serve` that pass it on", target: http },
    { what: "a pipe and `Bun.serve` that pass it on", target: pipe },
  ]
  const figures: Figure[] = []
  for (const kind of Object.keys(KINDS) as (keyof typeof KINDS)[]) {
    const measures: Record<string, () => ReturnType<Rig["run"]>> = {}
    for (const { what, target } of [{ what: "direct", target: direct }, ...ways]) {
      const session = await openSession(target)
      measures[what] = () =>
        rig.run({
          kind: "http",
          port: target.port,
          needle: KINDS[kind],
          requests: requestsOf(target, session, [callFrame(1, target.tool(kind))]),
          warm: WARM_MS,
          ms: ROUND_MS,
        })
    }
    const counts = await interleave(rounds, measures)
    const ms = (what: string) => `${over(counts[what] ?? [], ({ p50 }) => p50).toFixed(2)} ms`
    for (const { what, aim } of ways)
      figures.push({
        what: `${megabytes} MB of ${kind}, ${what}, relative to direct HTTP`,
        value: over(counts[what] ?? [], ({ p50 }, n) => p50 / (counts.direct?.[n]?.p50 ?? Number.NaN)),
        unit: "×",
        ...(aim === undefined ? {} : { aim }),
        from: `${ms(what)} vs. ${ms("direct")}`,
      })
  }
  return { figures, missing: nginx === undefined ? ["large results through nginx: it is not installed"] : [] }
}
