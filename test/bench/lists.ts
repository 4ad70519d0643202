/** `tools/list` of a thousand tools, and whether its cost depends on how many servers they come from. */
import { digits, type Measured } from "./figure.ts"
import { interleave, over, type Rig } from "./rig.ts"
import { openSession, requestsOf, startSvc, stdio, type Target } from "./targets.ts"

const WARM_MS = 300
const ROUND_MS = 1000
const CALLERS = 8
const TOOLS = 1000
const SERVERS = 50

export async function measureLists(rig: Rig, rounds: number): Promise<Measured> {
  await using many = await startSvc(serversOf(SERVERS, TOOLS / SERVERS))
  await using one = await startSvc(serversOf(1, TOOLS))
  const lists = async (target: Target) => {
    const frames = Array.from({ length: CALLERS }, (_, id) =>
      JSON.stringify({ jsonrpc: "2.0", id, method: "tools/list" }),
    )
    const requests = requestsOf(target, await openSession(target), frames)
    return () =>
      rig.run({ kind: "http", port: target.port, needle: "_svc_echo", requests, warm: WARM_MS, ms: ROUND_MS })
  }
  const counts = await interleave(rounds, { many: await lists(many), one: await lists(one) })
  return {
    figures: [
      {
        what: `tools/list of ${digits(TOOLS)} tools, ${SERVERS} servers, ${CALLERS} callers`,
        value: over(counts.many, ({ rate }) => rate),
        unit: "/s",
        aim: { least: 3000 },
      },
      {
        what: `the same against as many tools of one server`,
        value: over(counts.many, ({ rate }, n) => rate / (counts.one[n]?.rate ?? Number.NaN)),
        unit: "",
        aim: { least: 0.9 },
        from: `one server: ${digits(over(counts.one, ({ rate }) => rate))}/s`,
      },
    ],
  }
}

export const serversOf = (servers: number, tools: number): Record<string, unknown> =>
  Object.fromEntries(Array.from({ length: servers }, (_, n) => [`s${n}`, stdio("--tools", String(tools))]))
