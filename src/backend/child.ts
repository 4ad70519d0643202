/**
 * The link to a stdio backend: a child in a process group of its own, frames as lines over its pipes.
 *
 *  1. The child's environment is the launch's and nothing else.
 *  2. It ends as a tree: `close` resolves when the whole group is observed dead.
 *  3. A child that closes its stdout is lost, whether it lives or not.
 */
import type { StdioLaunch } from "../config/spec.ts"
import type { Clock } from "../lib/clock.ts"
import { createSplitter } from "../wire/lines.ts"
import type { Link, LinkEvents } from "./link.ts"

export type ChildDeps = {
  readonly clock: Clock
  /** Bytes of one frame at most. */
  readonly limit: number
  /** Milliseconds between closing stdin, SIGTERM and SIGKILL. */
  readonly grace: number
  /** The process groups that live: whoever ends svc at once can end them with it. */
  readonly children: Set<number>
  /** Captured stderr, as it comes; undefined bytes mark its end. */
  onstderr(chunk: Uint8Array): void
}

/** Starts the child. Throws where its command cannot be found or run. */
export function openChild(launch: StdioLaunch, events: LinkEvents, deps: ChildDeps): Link {
  const command = resolveCommand(launch)
  const windows = process.platform === "win32"
  const captured = launch.stderr === "pipe" || launch.stderr === "overlapped"
  const child = Bun.spawn({
    cmd: [command, ...launch.args],
    ...(launch.cwd === undefined ? {} : { cwd: launch.cwd }),
    env: { ...launch.env },
    stdin: "pipe",
    stdout: "pipe",
    stderr: captured ? "pipe" : (launch.stderr as "inherit" | "ignore" | number),
    // A group of its own: what it starts can be ended with it, and the terminal's Ctrl-C is svc's to handle.
    detached: !windows,
    windowsHide: true,
  })
  const { pid, stdin } = child
  deps.children.add(pid)
  let closing: Promise<void> | undefined
  let ended = false
  let queued: (Uint8Array | string)[] = []
  let unflushed = 0
  let scheduled = false

  const lose = (reason: string) => {
    if (ended) return
    ended = true
    const { exitCode: code, signalCode: signal } = child
    if (code === null && signal === null) {
      events.onclose({ reason })
      return
    }
    const exit = { code, signal: signal === null ? null : String(signal), at: deps.clock.now() }
    events.onclose({ reason: signal === null ? `exited with code ${code}` : `was ended by ${signal}`, exit })
  }

  const split = createSplitter(
    (line) => {
      if (!ended) events.onframe(line)
    },
    deps.limit,
    () => lose(`wrote a line of more than ${deps.limit} bytes`),
  )
  void pump(child.stdout, split).finally(async () => {
    // The exit says more than the end of the stream does, if it comes at once.
    await Promise.race([child.exited, new Promise<void>((resolve) => deps.clock.after(EXIT_MS, resolve))])
    lose("closed its stdout")
  })
  if (captured) void pump(child.stderr as ReadableStream<Uint8Array>, deps.onstderr)

  // Frames of one turn go out in one write: under load a system call for each would cost more than the relay.
  const flush = () => {
    scheduled = false
    const frames = queued
    queued = []
    if (ended) return
    try {
      for (const frame of frames) {
        stdin.write(frame)
        stdin.write("\n")
      }
      const flushed = stdin.flush()
      if (flushed instanceof Promise) {
        unflushed++
        flushed.then(
          () => unflushed--,
          () => unflushed--,
        )
      }
    } catch {
      // The pipe is broken: the end of stdout or of the process says so.
    }
  }

  return {
    pid,
    get buffered() {
      return unflushed
    },
    send(frame) {
      if (ended) return
      queued.push(frame)
      if (scheduled) return
      scheduled = true
      setImmediate(flush)
    },
    close() {
      ended = true
      closing ??= end(child, windows, deps)
      return closing
    },
  }
}

/** Kills a child and all of its group at once; for the last moment of the process. */
export function killGroup(pid: number): void {
  try {
    process.kill(process.platform === "win32" ? pid : -pid, "SIGKILL")
  } catch {
    // Nothing is left of it.
  }
}

// ---

/** How long the exit may lag behind the end of stdout. */
const EXIT_MS = 200
const POLL_MS = 20

type Child = ReturnType<typeof Bun.spawn>

async function pump(stream: ReadableStream<Uint8Array>, to: (chunk: Uint8Array) => void): Promise<void> {
  try {
    for await (const chunk of stream) to(chunk)
  } catch {
    // A broken pipe is the end of the stream.
  }
}

/** Closes stdin, then asks, then kills; resolves when no process of the group is left. */
async function end(child: Child, windows: boolean, { clock, grace, children }: ChildDeps): Promise<void> {
  const gone = async (ms: number): Promise<boolean> => {
    const until = clock.now() + ms
    await Promise.race([child.exited, new Promise<void>((resolve) => clock.after(ms, resolve))])
    while (clock.now() < until && alive(child, windows))
      await new Promise<void>((resolve) => clock.after(POLL_MS, resolve))
    return !alive(child, windows)
  }
  try {
    await (child.stdin as { end(): unknown }).end()
  } catch {
    // Already broken.
  }
  if (!(await gone(child.exitCode === null && child.signalCode === null ? grace : 0))) {
    signalTree(child, "SIGTERM", windows)
    if (!(await gone(grace))) {
      signalTree(child, "SIGKILL", windows)
      await gone(KILL_MS)
    }
  }
  children.delete(child.pid)
}

const KILL_MS = 5000

/** Whether the child or, where there are groups, anything in its group lives. */
function alive(child: Child, windows: boolean): boolean {
  if (windows) return child.exitCode === null && child.signalCode === null
  try {
    process.kill(-child.pid, 0)
    return true
  } catch {
    return false
  }
}

function signalTree(child: Child, signal: "SIGTERM" | "SIGKILL", windows: boolean): void {
  if (windows) {
    // Windows has no groups to signal: taskkill ends the tree.
    Bun.spawnSync({ cmd: ["taskkill", "/PID", String(child.pid), "/T", "/F"], stdout: "ignore", stderr: "ignore" })
    return
  }
  try {
    process.kill(-child.pid, signal)
  } catch {
    // Nothing is left of it.
  }
}

/** The command as a path, looked up in the child's own PATH. Throws with what to do where it is not there. */
function resolveCommand({ command, env, cwd }: StdioLaunch): string {
  const path = env.PATH ?? env.Path ?? ""
  const found = Bun.which(command, { PATH: path, ...(cwd === undefined ? {} : { cwd }) })
  if (found !== null) return found
  const hint =
    command === "uvx" || command === "npx" || command === "docker"
      ? `install ${command === "uvx" ? "uv" : command === "npx" ? "Node.js" : "Docker"}, or `
      : ""
  throw new Error(`command not found: ${command} (${hint}give its full path; PATH of the server is "${path}")`)
}
