/** Replicas that share a Redis: the cost of `--cluster` for a call in a session, and the gain from a second replica. */
import { NO_REDIS, startRedis } from "../redis.ts"
import { callsOf } from "./calls.ts"
import { digits, type Measured } from "./figure.ts"
import type { Count } from "./load.ts"
import { interleave, over, overProcesses, type Rig, startRig } from "./rig.ts"
import { startSvc, stdio } from "./targets.ts"

const MANY = 64

export async function measureCluster(rig: Rig, rounds: number): Promise<Measured> {
  if (NO_REDIS !== undefined) return { figures: [], missing: [`replicas: ${NO_REDIS}`] }
  await using redis = await startRedis()
  await using second = startRig()
  const flags = ["--cluster", redis.url, "--drain-delay", "0s"]
  const counts = await overProcesses(rounds, async () => {
    await using alone = await startSvc({ echo: stdio() }, ["--no-persist"])
    await using one = await startSvc({ echo: stdio() }, flags)
    await using other = await startSvc({ echo: stdio() }, flags)
    const both = await Promise.all([callsOf(rig, one, MANY / 2), callsOf(second, other, MANY / 2)])
    return await interleave(2, {
      alone: await callsOf(rig, alone, MANY),
      one: await callsOf(rig, one, MANY),
      both: async () => sumOf(await Promise.all(both.map((run) => run()))),
    })
  })
  const rate = (key: keyof typeof counts) => digits(over(counts[key], (count) => count.rate))
  const rateOf = (key: keyof typeof counts, round: number) => counts[key][round]?.rate ?? Number.NaN
  return {
    figures: [
      {
        // CPU in the best round: other work on the machine changes throughput far more than the cluster does.
        what: "CPU that --cluster adds to a call in a session",
        value: (leastCpu(counts.one) / leastCpu(counts.alone) - 1) * 100,
        unit: "%",
        aim: { most: 15 },
        from: `${digits(leastCpu(counts.one))} µs vs. ${digits(leastCpu(counts.alone))} µs per call`,
      },
      {
        what: "throughput of two replicas, relative to one replica on the same cores",
        value: over(counts.both, (count, n) => count.rate / rateOf("one", n)),
        unit: "",
        from: `${rate("both")}/s vs. ${rate("one")}/s; two load generators on the same cores`,
      },
    ],
  }
}

// ---

/** Returns the microseconds of CPU per call in the best round. */
const leastCpu = (counts: readonly Count[]): number => Math.min(...counts.map(({ cpu, calls }) => (cpu * 1000) / calls))

/** Adds up the counts of two load generators that ran at the same time. */
const sumOf = (counts: readonly Count[]): Count => ({
  calls: counts.reduce((sum, { calls }) => sum + calls, 0),
  rate: counts.reduce((sum, { rate }) => sum + rate, 0),
  p50: Math.max(...counts.map(({ p50 }) => p50)),
  p99: Math.max(...counts.map(({ p99 }) => p99)),
  cpu: counts.reduce((sum, { cpu }) => sum + cpu, 0),
  ownCpu: counts.reduce((sum, { ownCpu }) => sum + ownCpu, 0),
})
