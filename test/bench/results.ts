/** Results of one and ten megabytes: through svc beside the same server asked directly. */
import type { Figure, Measured } from "./figure.ts"
import { interleave, over, type Rig } from "./rig.ts"
import { callFrame, openSession, requestsOf, startFloor, startSvc, stdio, type Target } from "./targets.ts"

const WARM_MS = 200
const ROUND_MS = 600

/** What each result is, and text that it holds. */
const KINDS = { text: "snowman", structured: "score", base64: "BwcHBwcHBwc" } as const

export async function measureResults(rig: Rig, rounds: number): Promise<Measured> {
  const figures: Figure[] = []
  for (const megabytes of [1, 10]) figures.push(...(await measureSize(rig, rounds, megabytes)))
  return { figures }
}

// ---

async function measureSize(rig: Rig, rounds: number, megabytes: number): Promise<Figure[]> {
  const size = ["--megabytes", String(megabytes)]
  await using direct = await startFloor(...size)
  await using remote = await startSvc({ big: { type: "streamableHttp", url: `http://127.0.0.1:${direct.port}/mcp` } })
  await using piped = await startSvc({ big: stdio(...size) })
  const sessions = new Map<Target, Record<string, string>>()
  for (const target of [direct, remote, piped]) sessions.set(target, await openSession(target))
  const figures: Figure[] = []
  for (const kind of Object.keys(KINDS) as (keyof typeof KINDS)[]) {
    const measure = (target: Target) => () =>
      rig.run({
        kind: "http",
        port: target.port,
        needle: KINDS[kind],
        requests: requestsOf(target, sessions.get(target) ?? {}, [callFrame(1, target.tool(kind))]),
        warm: WARM_MS,
        ms: ROUND_MS,
      })
    const counts = await interleave(rounds, {
      direct: measure(direct),
      remote: measure(remote),
      piped: measure(piped),
    })
    const ms = (key: keyof typeof counts) => `${over(counts[key], ({ p50 }) => p50).toFixed(2)} ms`
    for (const key of ["remote", "piped"] as const)
      figures.push({
        what: `a result of ${megabytes} MB (${kind}), server over ${key === "remote" ? "HTTP" : "stdio"}, against direct HTTP`,
        value: over(counts[key], ({ p50 }, n) => p50 / (counts.direct[n]?.p50 ?? Number.NaN)),
        unit: "×",
        aim: { most: 1.3 },
        from: `${ms(key)} of ${ms("direct")}`,
      })
  }
  return figures
}
