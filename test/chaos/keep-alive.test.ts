/** The short form of the calls at the end of idle times. SVC_CHAOS_KEEP_ALIVE_MS makes it longer, SVC_SEED changes it. */
import { expect, test } from "bun:test"
import { runKeepAlive } from "./keep-alive.ts"

const DURATION_MS = Number(process.env.SVC_CHAOS_KEEP_ALIVE_MS ?? 15_000)
const SEED = Number(process.env.SVC_SEED ?? 20_261_126)

test(
  "at the end of the idle times of remote servers, no server is lost, nothing runs twice, and only unsafe calls fail [remote:keep-alive] [remote:repeat]",
  async () => {
    const report = await runKeepAlive({ ms: DURATION_MS, seed: SEED, servers: 8, longest: 4000 })
    const { calls, failures, node } = report
    process.stderr.write(`keep-alive: seed ${SEED}, ${JSON.stringify(report)}\n`)
    expect(report).toMatchObject({ twice: 0, lost: 0, failures: { read: 0, resource: 0, prompt: 0 } })
    // Node's fetch calls only `write`, about four times as often.
    expect(failures.write).toBeLessThanOrEqual(1 + (node?.failures ?? calls.write / 10))
  },
  DURATION_MS + 60_000,
)
