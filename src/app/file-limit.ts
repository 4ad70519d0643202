/** How many files the system lets svc have open: each connection of a client is one, and each server needs a few. */
import { readFileSync } from "node:fs"

/** Returns a warning if the limit is below `needed`. Undefined if it is not, or the system does not tell: only Linux does. */
export function fileLimitWarning(needed: number): string | undefined {
  try {
    return fewFiles(readFileSync("/proc/self/limits", "latin1"), needed)
  } catch {
    return undefined
  }
}

/** Does the same for a text of /proc/PID/limits. Bun has raised the soft limit to the hard one. From: proc_pid_limits(5). */
export function fewFiles(limits: string, needed: number): string | undefined {
  const limit = Number(/^Max open files +(\d+)/m.exec(limits)?.[1] ?? needed)
  if (limit >= needed) return undefined
  return `svc may have only ${limit} files open, one for each connection: at the limit it answers no new connection until another closes. Raise the hard limit to ${needed} or more (ulimit -Hn, LimitNOFILE= of a systemd unit, --ulimit nofile= of a container)`
}
