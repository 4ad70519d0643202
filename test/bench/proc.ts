/** What Linux says of a process: its CPU time and its memory. */
import { readFileSync } from "node:fs"

/** Milliseconds of CPU that a process has used, its threads included, its children not. proc_pid_stat(5). */
export function cpuMs(pid: number): number {
  const stat = readFileSync(`/proc/${pid}/stat`, "latin1")
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ")
  return (Number(fields[11]) + Number(fields[12])) * MS_PER_TICK
}

/** Proportional set size in bytes: pages that others map too count in part. */
export function pss(pid: number): number {
  return Number(/^Pss:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/smaps_rollup`, "utf8"))?.[1]) * 1024
}

// ---

/** 1000 / sysconf(_SC_CLK_TCK), which is 100 on every Linux that svc runs on. */
const MS_PER_TICK = 10
