/** The CPU time and the memory of a process, on Linux. */
import { readdirSync, readFileSync } from "node:fs"

/**
 * Returns the milliseconds of CPU that a process has used with all its threads, without its children. The kernel counts in
 * nanoseconds, so short windows can be compared. From: Linux, sched-stats.
 */
export function cpuMs(pid: number): number {
  let ns = 0
  for (const thread of readdirSync(`/proc/${pid}/task`))
    ns += Number(readFileSync(`/proc/${pid}/task/${thread}/schedstat`, "latin1").split(" ")[0])
  return ns / 1e6
}

/** Returns the proportional set size in bytes: a page that several processes map counts in part for each of them. */
export function pss(pid: number): number {
  return Number(/^Pss:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/smaps_rollup`, "utf8"))?.[1]) * 1024
}
