/**
 * Ends a child together with its descendants: closes its stdin, then sends SIGTERM, then SIGKILL. On POSIX the descendants are
 * the child's process group. A process that made a session of its own has left the group; only a container can end it. On
 * Windows the descendants are the child's job (job-object.ts).
 */
import { readdirSync, readFileSync } from "node:fs"
import { type Clock, delay, withTimeout } from "../lib/clock.ts"

/** A child with a pipe to its stdin and one from its stdout. */
export type ChildProcess = Bun.Subprocess<"pipe", "pipe", "pipe" | "inherit" | "ignore" | number>

/** A child and the descendants that end with it. */
export type ProcessGroup = {
  /** Whether no process of the group is alive. */
  isEmpty(): boolean
  /** Signals all processes of the group. On Windows, either signal ends them at once. */
  signal(signal: "SIGTERM" | "SIGKILL"): void
  /** Releases the resources of the group, after it was observed empty. */
  close(): void
}

/** Returns the process group that a child of POSIX leads. */
export const posixGroup = (pid: number, close: () => void): ProcessGroup => ({
  isEmpty: () => !canSignal(pid) || (process.platform === "linux" && !hasMembers(pid)),
  signal(signal) {
    try {
      process.kill(-pid, signal)
    } catch {
      // The group is empty.
    }
  },
  close,
})

/**
 * Resolves when the child is observed dead and its group is empty. `left` returns the milliseconds until SIGKILL; SIGTERM comes
 * when as much time has passed. It is called again and again, because the time may become shorter than it was.
 */
export async function endTree(
  child: ChildProcess,
  group: ProcessGroup,
  clock: Clock,
  left: () => number,
): Promise<void> {
  const start = clock.now()
  const isRunning = () => child.exitCode === null && child.signalCode === null
  const isAlive = () => isRunning() || !group.isEmpty()
  try {
    // Not awaited: bytes buffered for a child that does not read would delay it.
    void Promise.resolve(child.stdin.end()).catch(() => undefined)
  } catch {
    // The pipe is broken already.
  }
  while (isRunning()) {
    const untilTerm = (left() - (clock.now() - start)) / 2
    if (untilTerm <= 0) break
    await withTimeout(clock, Math.min(untilTerm, LOOK_MS), child.exited)
  }
  if (!isAlive()) return
  group.signal("SIGTERM")
  await untilDead(isAlive, clock, left)
  if (!isAlive()) return
  group.signal("SIGKILL")
  // The child may be in no group: Windows can refuse it.
  child.kill("SIGKILL")
  await child.exited
  const end = clock.now() + REMAINS_MS
  await untilDead(isAlive, clock, () => end - clock.now())
}

// ---

/** The time in which the rest of a group must die after SIGKILL. */
const REMAINS_MS = 1000
const POLL_MS = 20
/** How often the time that is left is compared while the child exits by itself. */
const LOOK_MS = 100

/**
 * Waits until nothing is alive, or no time is left. Polls: the exit of the child is an event, but no system reports the end of
 * a process group.
 */
async function untilDead(isAlive: () => boolean, clock: Clock, left: () => number): Promise<void> {
  while (isAlive() && left() > 0) await delay(clock, POLL_MS)
}

function canSignal(group: number): boolean {
  try {
    process.kill(-group, 0)
    return true
  } catch {
    return false
  }
}

/**
 * Whether a group has members that are not zombies. If svc is the first process of a container, grandchildren remain as
 * zombies that no process reaps, and a signal cannot tell them from living processes.
 */
function hasMembers(group: number): boolean {
  return readdirSync("/proc").some((name) => {
    if (!/^[0-9]+$/.test(name)) return false
    try {
      // proc_pid_stat(5): pid (comm) state ppid pgrp …
      const stat = readFileSync(`/proc/${name}/stat`, "latin1")
      const [state, , pgrp] = stat.slice(stat.lastIndexOf(")") + 2).split(" ")
      return pgrp === String(group) && state !== "Z" && state !== "X"
    } catch {
      return false
    }
  })
}
