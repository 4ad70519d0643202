/** Checks how many files svc may have open: each connection of a client is one, and each server needs a few. */
import { readFileSync } from "node:fs"

/** Returns a warning if the limit is below `needed`; undefined if it is not, or is unknown, as on systems other than Linux. */
export function fileLimitWarning(needed: number): string | undefined {
  try {
    return fewFiles(readFileSync("/proc/self/limits", "latin1"), needed)
  } catch {
    return undefined
  }
}

/**
 * Does the same for a text of /proc/PID/limits. Reads the soft limit, which Bun has raised to the hard one. From:
 * proc_pid_limits(5).
 */
export function fewFiles(limits: string, needed: number): string | undefined {
  const limit = Number(/^Max open files +(\d+)/m.exec(limits)?.[1] ?? needed)
  if (limit >= needed) return undefined
  return `svc may have only ${limit} files open, one for each connection: at the limit it answers no new connection until another closes. Raise the hard limit to ${needed} or more (ulimit -Hn, LimitNOFILE= of a systemd unit, --ulimit nofile= of a container)`
}
