/** What Linux says of a process: its CPU time and its memory. */
import { readdirSync, readFileSync } from "node:fs"

/**
 * Milliseconds of CPU that a process has used, its threads included, its children not: the sum of its threads, to the
 * nanosecond, so that short windows can be compared. From: Linux, sched-stats.
 */
export function cpuMs(pid: number): number {
  let ns = 0
  for (const thread of readdirSync(`/proc/${pid}/task`))
    ns += Number(readFileSync(`/proc/${pid}/task/${thread}/schedstat`, "latin1").split(" ")[0])
  return ns / 1e6
}

/** Proportional set size in bytes: pages that others map too count in part. */
export function pss(pid: number): number {
  return Number(/^Pss:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/smaps_rollup`, "utf8"))?.[1]) * 1024
}
