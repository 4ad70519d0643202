/**
 * Ends a child together with its descendants: closes its stdin, then SIGTERM, then SIGKILL. On POSIX the descendants are
 * the child's process group. A process that made a session of its own has left the group, and only a container holds it.
 * On Windows taskkill ends the tree.
 */
import { readdirSync, readFileSync } from "node:fs"
import { type Clock, delay, withTimeout } from "../lib/clock.ts"

/** A child with a pipe to its stdin and one from its stdout. */
export type ChildProcess = Bun.Subprocess<"pipe", "pipe", "pipe" | "inherit" | "ignore" | number>

/**
 * Resolves when the child is observed dead and its process group is empty. `grace`: milliseconds from closing stdin to
 * SIGTERM, and from SIGTERM to SIGKILL.
 */
export async function endTree(child: ChildProcess, clock: Clock, grace: number): Promise<void> {
  try {
    // Not awaited: bytes buffered for a child that does not read would delay it.
    void Promise.resolve(child.stdin.end()).catch(() => undefined)
  } catch {
    // The pipe is broken already.
  }
  await withTimeout(clock, grace, child.exited)
  if (!isAlive(child)) return
  await signalTree(child, "SIGTERM")
  await untilDead(child, clock, grace)
  if (!isAlive(child)) return
  await signalTree(child, "SIGKILL")
  await child.exited
  await untilDead(child, clock, REMAINS_MS)
}

// ---

/** How long the rest of a group may take to die after SIGKILL. */
const REMAINS_MS = 1000
const POLL_MS = 20
const WINDOWS = process.platform === "win32"

/**
 * Waits until the child and its group are dead, at most `ms` milliseconds. Polls: the exit of the child is an event, but no
 * system reports the end of a process group.
 */
async function untilDead(child: ChildProcess, clock: Clock, ms: number): Promise<void> {
  const until = clock.now() + ms
  while (isAlive(child) && clock.now() < until) await delay(clock, POLL_MS)
}

/** Whether the child or, on POSIX, any process of its group is alive. */
function isAlive({ pid, exitCode, signalCode }: ChildProcess): boolean {
  if (exitCode === null && signalCode === null) return true
  if (WINDOWS) return false
  try {
    process.kill(-pid, 0)
  } catch {
    return false
  }
  return process.platform !== "linux" || hasMembers(pid)
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

async function signalTree(child: ChildProcess, signal: "SIGTERM" | "SIGKILL"): Promise<void> {
  if (WINDOWS) {
    // Windows has no signals. taskkill would open a window if svc has no console of its own.
    const cmd = ["taskkill", "/PID", String(child.pid), "/T", "/F"]
    try {
      await Bun.spawn({ cmd, stdin: "ignore", stdout: "ignore", stderr: "ignore", windowsHide: true }).exited
    } catch {
      // taskkill is not on the PATH.
    }
    if (signal === "SIGKILL") child.kill("SIGKILL")
    return
  }
  try {
    process.kill(-child.pid, signal)
  } catch {
    // The group is empty.
  }
}
