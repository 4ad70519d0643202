/** The process of the load generator, seen from its parent, and functions that run interleaved rounds and take their median. */
import { join } from "node:path"
import type { Count, Job } from "./load.ts"

export type Rig = AsyncDisposable & {
  /** Rejects if the job fails or takes much too long: the target of the calls may never answer. */
  run(job: Job): Promise<Count>
}

export function startRig(): Rig {
  let settle: (answer: { count?: Count; error?: string }) => void = () => undefined
  const start = () =>
    Bun.spawn({
      cmd: [process.execPath, join(import.meta.dir, "load.ts")],
      stdin: "ignore",
      stdout: "inherit",
      stderr: "inherit",
      ipc: (message: { count?: Count; error?: string }) => settle(message),
      onExit() {
        child = undefined
        settle({ error: "the load generator ended: it failed, or had no answers for too long" })
      },
    })
  let child: ReturnType<typeof start> | undefined
  return {
    async run(job) {
      child ??= start()
      const running = child
      const { promise, resolve, reject } = Promise.withResolvers<Count>()
      settle = ({ count, error }) => (count === undefined ? reject(new Error(error)) : resolve(count))
      const late = setTimeout(
        () => running.kill("SIGKILL"),
        job.count === undefined ? job.warm + job.ms + LATE_MS : MOST_MS,
      )
      running.send(job)
      try {
        return await promise
      } finally {
        clearTimeout(late)
      }
    },
    async [Symbol.asyncDispose]() {
      const running = child
      running?.disconnect()
      await running?.exited
    },
  }
}

const LATE_MS = 10_000
/** The limit for jobs that end after a number of calls. */
const MOST_MS = 300_000

/** Runs every measure once in each round, so that other work on the machine disturbs all measures alike. */
export async function interleave<K extends string>(
  rounds: number,
  measures: Readonly<Record<K, () => Promise<Count>>>,
): Promise<Record<K, readonly Count[]>> {
  const counts = Object.fromEntries(Object.keys(measures).map((key) => [key, []])) as unknown as Record<K, Count[]>
  for (let round = 0; round < rounds; round++) for (const key in measures) counts[key].push(await measures[key]())
  return counts
}

/**
 * Joins the counts of several runs of `measure`, which starts the processes that it measures. Some processes are a fifth slower
 * than others of the same build for their whole life, so a single process says little.
 */
export async function overProcesses<K extends string>(
  times: number,
  measure: () => Promise<Readonly<Record<K, readonly Count[]>>>,
): Promise<Record<K, readonly Count[]>> {
  const joined = {} as Record<K, readonly Count[]>
  for (let time = 0; time < times; time++) {
    const counts = await measure()
    for (const key in counts) joined[key] = [...(joined[key] ?? []), ...counts[key]]
  }
  return joined
}

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b)
  const middle = sorted.length >> 1
  return sorted.length % 2 === 1 ? (sorted[middle] ?? 0) : ((sorted[middle - 1] ?? 0) + (sorted[middle] ?? 0)) / 2
}

/** Returns the value below which a share (0 to 1) of the values lies. */
export const quantile = (values: readonly number[], share: number): number =>
  [...values].sort((a, b) => a - b)[Math.round((values.length - 1) * share)] ?? Number.NaN

/** Returns the median of one figure over all rounds. A ratio is taken within each round first. */
export const over = (counts: readonly Count[], figure: (count: Count, round: number) => number): number =>
  median(counts.map(figure))
