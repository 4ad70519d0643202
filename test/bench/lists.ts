/** `tools/list` of a thousand tools, compared with a file of the same bytes, and with the same number of tools from one server. */
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { digits, type Figure, type Measured } from "./figure.ts"
import type { Count } from "./load.ts"
import { interleave, over, overProcesses, quantile, type Rig } from "./rig.ts"
import { openSession, requestsOf, startStatic, startSvc, stdio, type Target } from "./targets.ts"

const WARM_MS = 200
const ROUND_MS = 600
const CALLERS = 8
const TOOLS = 1000
const SERVERS = 50

export async function measureLists(rig: Rig, rounds: number): Promise<Measured> {
  await using many = await startSvc(serversOf(SERVERS, TOOLS / SERVERS))
  await using one = await startSvc(serversOf(1, TOOLS))
  const counts = await interleave(rounds, { many: await listsOf(rig, many), one: await listsOf(rig, one) })
  return {
    figures: [
      await measureListRatio(rig, rounds),
      {
        what: `throughput of a tools/list of ${digits(TOOLS)} tools from ${SERVERS} servers, relative to one server`,
        value: over(counts.many, ({ rate }, n) => rate / (counts.one[n]?.rate ?? Number.NaN)),
        unit: "",
        aim: { least: 0.9 },
        from: `${digits(over(counts.many, ({ rate }) => rate))}/s vs. ${digits(over(counts.one, ({ rate }) => rate))}/s`,
      },
    ],
  }
}

/** Compares the time of a list with that of a file of the same bytes. */
export async function measureListRatio(rig: Rig, rounds: number): Promise<Figure> {
  const counts = await overProcesses(rounds, async () => {
    await using svc = await startSvc(serversOf(2, TOOLS / 2))
    const file = join(svc.folder, "list.json")
    writeFileSync(file, await bodyOf(svc, listFrame(1)))
    await using still = await startStatic(file)
    return await interleave(1, { still: await listsOf(rig, still, {}), svc: await listsOf(rig, svc) })
  })
  const time = (of: readonly Count[]) =>
    quantile(
      of.map(({ rate }) => 1000 / rate),
      0.2,
    )
  return {
    what: `time of a tools/list of ${digits(TOOLS)} tools, relative to a static file`,
    value: time(counts.svc) / time(counts.still),
    unit: "",
    aim: { most: 1.1 },
    from: `${digits(time(counts.svc))} ms vs. ${digits(time(counts.still))} ms, ${CALLERS} callers`,
  }
}

export const serversOf = (servers: number, tools: number): Record<string, unknown> =>
  Object.fromEntries(Array.from({ length: servers }, (_, n) => [`s${n}`, stdio("--tools", String(tools))]))

// ---

const listFrame = (id: number): string => JSON.stringify({ jsonrpc: "2.0", id, method: "tools/list" })

async function listsOf(rig: Rig, target: Target, headers?: Record<string, string>): Promise<() => Promise<Count>> {
  const frames = Array.from({ length: CALLERS }, (_, id) => listFrame(id))
  const requests = requestsOf(target, headers ?? (await openSession(target)), frames)
  return () => rig.run({ kind: "http", port: target.port, needle: "_svc_echo", requests, warm: WARM_MS, ms: ROUND_MS })
}

/** Returns the body of one answer. */
async function bodyOf(target: Target, body: string): Promise<string> {
  const headers = {
    ...(await openSession(target)),
    "content-type": "application/json",
    accept: "application/json, text/event-stream",
  }
  return (await fetch(`http://127.0.0.1:${target.port}${target.path}`, { method: "POST", headers, body })).text()
}
