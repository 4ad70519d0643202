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

/** Returns the anonymous memory in bytes: all that is resident but the pages of files, which the kernel can drop. From: proc_pid_status(5). */
export function anonymous(pid: number): number {
  return Number(/^RssAnon:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, "latin1"))?.[1]) * 1024
}
