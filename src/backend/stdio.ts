/**
 * The link to a stdio backend: a child in a process group of its own, frames as lines over its pipes.
 *
 *  1. The child's environment is the launch's and nothing else.
 *  2. It ends as a tree: `close` resolves when no process of its group is left. (One that made a session of its own has
 *     left the tree, and nothing short of a container holds it.)
 *  3. A child is lost when it exits, when it closes its stdout, and when it closes its stdin; each is said once.
 *  4. A child that does not read holds up nobody but itself: what waits for it is counted, and bounded.
 */
import { readdirSync, readFileSync, statSync } from "node:fs"
import type { StdioLaunch } from "../config/server-spec.ts"
import { type Clock, delay, waitWhile, withTimeout } from "../lib/clock.ts"
import { BackendError, messageOf } from "../lib/errors.ts"
import { createSplitter, escapeSeparatorsIn, lineOf } from "../wire/lines.ts"
import { type Link, type LinkEvents, watchOversize } from "./link.ts"
import type { Reaper } from "./reaper.ts"
import { resolveCommand } from "./resolve-command.ts"

export type ChildDeps = {
  /** Whom errors name. */
  readonly server: string
  readonly clock: Clock
  /** Bytes of one frame at most, and of all that wait for the child to read. */
  readonly limit: number
  /** Milliseconds from closing stdin to SIGTERM, and from that to SIGKILL. */
  readonly grace: number
  readonly reaper: Reaper
  /** Captured stderr, as it comes; undefined is its end. */
  onstderr(chunk: Uint8Array | undefined): void
  /** What it said there of late that may say why it ended. */
  exitReason(): string | undefined
  /** A line on stdout that cannot be a message. */
  onstdoutnoise(line: Uint8Array): void
}

/** Starts the child. Throws a BackendError where it cannot be started. */
export function openChild(launch: StdioLaunch, events: LinkEvents, deps: ChildDeps): Link {
  const child = spawn(launch, deps)
  const { pid, stdin } = child
  let over = false
  let closing: Promise<void> | undefined

  const lose = (reason: string) => {
    if (over) return
    over = true
    const { exitCode: code, signalCode: signal } = child
    if (code === null && signal === null) return events.onclose({ reason })
    const how = signal === null ? `exited with code ${code}` : `was ended by ${signal}`
    const exitReason = code === 0 ? undefined : deps.exitReason()
    events.onclose({
      reason: how,
      exit: { code, signal: signal === null ? null : String(signal), at: deps.clock.now() },
      ...(exitReason === undefined ? {} : { exitReason }),
    })
  }

  const long = watchOversize(
    deps.clock,
    (edges) => over || events.ondropped(edges),
    () => lose(`wrote a line of more than ${deps.limit} bytes`),
  )
  const split = createSplitter(
    (bytes) => {
      if (over) return
      const line = withoutMark(bytes)
      if (line[0] !== BRACE && line[0] !== BRACKET) return deps.onstdoutnoise(line)
      try {
        events.onframe(line)
      } catch (error) {
        // A bug of ours: it is reported as one, and costs this frame only.
        queueMicrotask(() => {
          throw error
        })
      }
    },
    deps.limit,
    long.ondropped,
    long.onlong,
  )
  const reading = new AbortController()
  const pumpFrom = (stream: ReadableStream<Uint8Array>, to: (chunk: Uint8Array) => void, rest: FloodPause) =>
    pump(stream, to, rest, deps.clock, reading.signal)
  const drained = pumpFrom(child.stdout, split, () => 0)
  const heard =
    child.stderr instanceof ReadableStream
      ? pumpFrom(child.stderr, deps.onstderr, restAfter).then(() => deps.onstderr(undefined))
      : undefined
  // The exit says more than the end of a pipe, stdout may hold answers that came before the exit, and stderr says why:
  // whichever is first waits a little for the others. A grandchild may hold stdout open for good.
  const settle = () => withTimeout(deps.clock, SETTLE_MS, Promise.all([drained, heard, child.exited]))
  void Promise.race([drained, child.exited])
    .then(settle)
    .then(() => lose("closed its stdout"))
  const outbox = createStdinQueue(stdin, () => void settle().then(() => lose("closed its stdin")))
  return {
    pid,
    get buffered() {
      return outbox.bytes
    },
    send(frame, { number }) {
      if (over) return
      if (outbox.bytes <= deps.limit) outbox.put(frame)
      else if (number !== undefined) events.onfail?.(number, new BackendError(deps.server, "does not read its input"))
    },
    close() {
      over = true
      closing ??= end(child, deps).then(() => {
        deps.reaper.remove(pid)
        // Its last words are heard; a pipe that somebody outside the group holds open is let go.
        void withTimeout(deps.clock, SETTLE_MS, Promise.all([drained, heard])).then(() => reading.abort())
      })
      return closing
    },
  }
}

// ---

/** What .NET and PowerShell write before the first line. */
const withoutMark = (line: Uint8Array): Uint8Array =>
  line[0] === 0xef && line[1] === 0xbb && line[2] === 0xbf ? line.subarray(3) : line

const BRACE = 0x7b
const BRACKET = 0x5b
/** How long the end of stdout and the exit may lie apart. */
const SETTLE_MS = 200
/** How long the remains of a group may take to be gone after SIGKILL. */
const REMAINS_MS = 1000
/** Nobody reads so much stderr: a child that floods it is slowed down rather than its neighbours. */
const FLOOD_BYTES = 32 * 1024
const FLOOD_REST_MS = 4
const restAfter: FloodPause = (chunk) => (chunk.length < FLOOD_BYTES ? 0 : FLOOD_REST_MS)
const WINDOWS = process.platform === "win32"

type Child = ReturnType<typeof spawn>
/** How many milliseconds to wait after a chunk. */
type FloodPause = (chunk: Uint8Array) => number
/** Everybody else has a turn after each chunk (so that answers and requests of many gather), but for parts of large ones. */
const PART_BYTES = 64 * 1024
const TURN_BYTES = 512 * 1024

function spawn({ cwd, env, stderr, ...launch }: StdioLaunch, { server, reaper }: ChildDeps) {
  // A missing directory would be reported as a missing command.
  if (cwd !== undefined && statSync(cwd, { throwIfNoEntry: false })?.isDirectory() !== true)
    throw new BackendError(server, `its working directory does not exist: ${cwd}`)
  const which = (command: string, options: { PATH: string; cwd?: string }) => Bun.which(command, options)
  const { cmd, verbatim } = resolveCommand({ cwd, env, stderr, ...launch }, server, { windows: WINDOWS, which })
  try {
    return reaper.start((mark) =>
      Bun.spawn({
        cmd: [...cmd],
        ...(cwd === undefined ? {} : { cwd }),
        env: { ...env },
        stdio: ["pipe", "pipe", stderr === "overlapped" ? "pipe" : stderr, ...(mark === undefined ? [] : [mark])],
        // A group of its own: what it starts ends with it, and the terminal's Ctrl-C is svc's to answer.
        detached: !WINDOWS,
        windowsHide: true,
        windowsVerbatimArguments: verbatim,
      }),
    )
  } catch (cause) {
    const closed = typeof stderr === "number" && cause instanceof Error && cause.message.startsWith("EBADF")
    const why = closed ? `stderr is file descriptor ${stderr}, which svc was not started with` : messageOf(cause)
    throw new BackendError(server, why, { cause })
  }
}

type StdinQueue = { readonly bytes: number; put(frame: Uint8Array | string): void }

/** Frames of one turn go out in one write: under load a system call for each would cost more than the relay does. */
function createStdinQueue(stdin: Bun.FileSink, onbroken: () => void): StdinQueue {
  let waiting: (Uint8Array | string)[] = []
  let bytes = 0
  let busy = false

  const write = (frames: readonly (Uint8Array | string)[]): number | Promise<number> => {
    if (frames.every((frame) => typeof frame === "string")) stdin.write(escapeSeparatorsIn(`${frames.join("\n")}\n`))
    else for (const frame of frames) stdin.write(lineOf(frame))
    return stdin.flush()
  }
  const flush = async () => {
    try {
      while (waiting.length > 0) {
        const frames = waiting
        const size = bytes
        waiting = []
        const written = write(frames)
        // A number means that the pipe has taken all; a promise, that the child has to read first.
        if (written instanceof Promise) await written
        bytes -= size
      }
      busy = false
    } catch {
      onbroken()
    }
  }
  return {
    get bytes() {
      return bytes
    },
    put(frame) {
      waiting.push(frame)
      bytes += frame.length + 1
      if (busy) return
      busy = true
      setImmediate(flush)
    },
  }
}

/**
 * Hands a stream on, a chunk at a time, and lets everybody else have a turn in between: a child that writes faster than
 * svc reads would otherwise hold up all others. Resolves at the end of the stream or when `signal` says so.
 */
async function pump(
  stream: ReadableStream<Uint8Array>,
  to: (chunk: Uint8Array) => void,
  rest: FloodPause,
  clock: Clock,
  signal: AbortSignal,
): Promise<void> {
  const reader = stream.getReader()
  signal.addEventListener("abort", () => void reader.cancel().catch(() => undefined))
  try {
    let turn = 0
    for (let next = await reader.read(); !next.done; next = await reader.read()) {
      to(next.value)
      const ms = rest(next.value)
      turn += next.value.length
      if (ms > 0) await delay(clock, ms)
      else if (next.value.length < PART_BYTES || turn >= TURN_BYTES) {
        turn = 0
        await new Promise<void>((resolve) => setImmediate(resolve))
      }
    }
  } catch {
    // A broken pipe is the end of the stream.
  }
}

/** Closes stdin, asks, kills. Resolves when the child is observed dead and no process of its group is left. */
async function end(child: Child, { clock, grace }: ChildDeps): Promise<void> {
  try {
    // Not awaited: what is buffered for a child that does not read would hold it up.
    void Promise.resolve(child.stdin.end()).catch(() => undefined)
  } catch {
    // Already broken.
  }
  await withTimeout(clock, grace, child.exited)
  if (!isAlive(child)) return
  await signalTree(child, "SIGTERM")
  await waitWhile(clock, () => isAlive(child), grace)
  if (!isAlive(child)) return
  await signalTree(child, "SIGKILL")
  await child.exited
  await waitWhile(clock, () => isAlive(child), REMAINS_MS)
}

/** Whether the child or, where there are groups, anything in its group lives. */
function isAlive({ pid, exitCode, signalCode }: Child): boolean {
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
 * Whether a group holds more than the dead that nobody has reaped yet: where svc is the first process of a container,
 * that is what remains of grandchildren, and a signal cannot tell them from the living.
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

async function signalTree(child: Child, signal: "SIGTERM" | "SIGKILL"): Promise<void> {
  if (WINDOWS) {
    // There are no signals there; taskkill ends a tree. Without a console of svc's own it would open a window.
    const cmd = ["taskkill", "/PID", String(child.pid), "/T", "/F"]
    try {
      await Bun.spawn({ cmd, stdin: "ignore", stdout: "ignore", stderr: "ignore", windowsHide: true }).exited
    } catch {
      // It is not on the PATH.
    }
    if (signal === "SIGKILL") child.kill("SIGKILL")
    return
  }
  try {
    process.kill(-child.pid, signal)
  } catch {
    // Nothing is left of it.
  }
}
