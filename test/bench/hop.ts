/**
 * Results of one and ten megabytes through svc, compared with direct HTTP, with nginx, and with programs that pass the bytes on
 * without reading them: what any program in between costs.
 */
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
/** The targets: relative to a program that only passes bytes on, and to no program at all. */
const HOP = { most: 1.2 }
const DIRECT = { most: 1.3 }

/** The kinds of results, each with a text that it contains. */
const KINDS = {
  text: "snowman",
  lines: "without quotes",
  structured: "score",
  base64: "BwcHBwcHBwc",
} as const

type Kind = keyof typeof KINDS

/** The kinds for which all forms of an answer are measured. The form does not change how svc reads the others. */
const SOME_KINDS: readonly Kind[] = ["lines", "base64"]

export async function measureHop(rig: Rig, rounds: number): Promise<Measured> {
  const figures: Figure[] = []
  let missing: readonly string[] = []
  for (const megabytes of [1, 10]) {
    const plain = await measurePlain(rig, rounds, megabytes)
    figures.push(...plain.figures)
    missing = plain.missing ?? []
    for (const form of FORMS) figures.push(...(await measureForm(rig, rounds, megabytes, form)))
  }
  return { figures, missing }
}

// ---

/** Measures answers whose id stands before the result, one JSON response each. */
async function measurePlain(rig: Rig, rounds: number, megabytes: number): Promise<Measured> {
  const size = ["--megabytes", String(megabytes)]
  await using direct = await startFloor(...size)
  await using http = await startSvc({ big: remoteOf(direct) })
  await using pipe = await startSvc({ big: stdio(...size) })
  await using nginx = await startNginx(direct)
  await using httpHop = await startPass("fetch", String(direct.port))
  await using pipeHop = await startPass("pipe", ...backend(...size))
  const targets = { direct, http, pipe, httpHop, pipeHop, ...(nginx === undefined ? {} : { nginx }) }
  const figures: Figure[] = []
  for (const kind of Object.keys(KINDS) as Kind[]) {
    const compare = await timesOf(rig, rounds, kind, targets)
    const what = `${megabytes} MB of ${kind}`
    figures.push(
      compare("http", "httpHop", `${what}, server over HTTP, relative to the bare hop`, HOP),
      compare("pipe", "pipeHop", `${what}, server over stdio, relative to the bare hop`, HOP),
      ...(nginx === undefined ? [] : [compare("http", "nginx", `${what}, server over HTTP, relative to nginx`)]),
      compare("http", "direct", `${what}, server over HTTP, relative to direct HTTP`, DIRECT),
      compare("pipe", "direct", `${what}, server over stdio, relative to direct HTTP`, DIRECT),
      compare("httpHop", "direct", `${what}, the bare hop over HTTP, relative to direct HTTP`),
      compare("pipeHop", "direct", `${what}, the bare hop over stdio, relative to direct HTTP`),
      ...(nginx === undefined ? [] : [compare("nginx", "direct", `${what}, nginx, relative to direct HTTP`)]),
    )
  }
  return { figures, missing: nginx === undefined ? ["large results through nginx: it is not installed"] : [] }
}

/** The other forms of an answer, each with the flags of the server that writes it. */
const FORMS = [
  { what: "HTTP, id after the result", flags: ["--id-last"], transport: "http" },
  { what: "HTTP with events, id after the result", flags: ["--id-last", "--events"], transport: "http" },
  { what: "stdio, id after the result", flags: ["--id-last"], transport: "pipe" },
] as const

async function measureForm(
  rig: Rig,
  rounds: number,
  megabytes: number,
  { what, flags, transport }: (typeof FORMS)[number],
): Promise<readonly Figure[]> {
  const all = ["--megabytes", String(megabytes), ...flags]
  await using direct = await startFloor(...all)
  await using svc = await startSvc({ big: transport === "http" ? remoteOf(direct) : stdio(...all) })
  await using hop =
    transport === "http" ? await startPass("fetch", String(direct.port)) : await startPass("pipe", ...backend(...all))
  const figures: Figure[] = []
  for (const kind of SOME_KINDS) {
    const compare = await timesOf(rig, rounds, kind, { svc, hop })
    figures.push(
      compare("svc", "hop", `${megabytes} MB of ${kind}, server over ${what}, relative to the bare hop`, HOP),
    )
  }
  return figures
}

const remoteOf = ({ port }: Target) => ({ type: "streamableHttp", url: `http://127.0.0.1:${port}/mcp` })

/** Measures calls of all targets. Returns a function that compares the median times of two of them. */
async function timesOf<K extends string>(
  rig: Rig,
  rounds: number,
  kind: Kind,
  targets: Readonly<Partial<Record<K, Target>>>,
) {
  const measures: Record<string, () => ReturnType<Rig["run"]>> = {}
  for (const [name, target] of Object.entries<Target>(targets as Readonly<Record<string, Target>>)) {
    const session = await openSession(target)
    measures[name] = () =>
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
  const ms = (name: K) => `${over(counts[name] ?? [], ({ p50 }) => p50).toFixed(2)} ms`
  return (one: K, other: K, what: string, aim?: Figure["aim"]): Figure => ({
    what,
    value: over(counts[one] ?? [], ({ p50 }, n) => p50 / (counts[other]?.[n]?.p50 ?? Number.NaN)),
    unit: "×",
    ...(aim === undefined ? {} : { aim }),
    from: `${ms(one)} vs. ${ms(other)}`,
  })
}
