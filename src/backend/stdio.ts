/**
 * The stdio transport: a child in a process group of its own, frames as lines over its pipes.
 *
 *  1. The child's environment is the launch's and nothing else.
 *  2. The child ends with its process group: `close` resolves when the group is empty (process-tree.ts).
 *  3. The transport is lost when the child exits, closes its stdout, or closes its stdin. The loss is reported once.
 *  4. A child that does not read its stdin delays only its own callers: its waiting frames are counted and bounded.
 */
import { statSync } from "node:fs"
import type { StdioLaunch } from "../config/server-spec.ts"
import { type Clock, delay, withTimeout } from "../lib/clock.ts"
import { BackendError, messageOf } from "../lib/errors.ts"
import type { FrameSink } from "../wire/frame.ts"
import { createSplitter, escapeSeparatorsIn, lineOf } from "../wire/lines.ts"
import { type ClientTransport, type Outgoing, type TransportEvents, watchOversize } from "./client-transport.ts"
import { type ChildProcess, endTree, type ProcessGroup } from "./process-tree.ts"
import type { Reaper } from "./reaper.ts"
import { resolveCommand } from "./resolve-command.ts"
import type { ChildOutput } from "./stderr.ts"

export type StdioDeps = {
  /** The server's name, for errors. */
  readonly server: string
  readonly clock: Clock
  /** The limit, in bytes, of one frame, and of all frames that wait for the child to read. */
  readonly limit: number
  /** Milliseconds from closing stdin to SIGKILL; SIGTERM comes when half of them have passed. */
  readonly grace: number
  /** Returns the milliseconds after which the child must be dead, whenever svc began to end it; undefined if it may take its grace. */
  msLeft?(): number | undefined
  readonly reaper: Reaper
  /** Receives the output of the child beside its messages. */
  readonly output: ChildOutput
}

export class StdioTransport implements ClientTransport {
  readonly pid: number
  /** Whether the transport is lost or closed. */
  private over = false
  private closing: Promise<void> | undefined
  private readonly stopReading = new AbortController()
  private readonly stdin: StdinQueue
  /** Resolves at the end of stdout. */
  private readonly stdoutEnd: Promise<void>
  /** Resolves at the end of stderr, if it is captured. */
  private readonly stderrEnd: Promise<void> | undefined

  private constructor(
    private readonly child: ChildProcess,
    private readonly group: ProcessGroup,
    private readonly events: TransportEvents,
    private readonly deps: StdioDeps,
  ) {
    this.pid = child.pid
    this.stdoutEnd = this.readStdout()
    this.stderrEnd = this.readStderr()
    void Promise.race([this.stdoutEnd, child.exited]).then(() => this.loseSoon("closed its stdout"))
    this.stdin = new StdinQueue(child.stdin, () => void this.loseSoon("closed its stdin"))
  }

  /** Starts the child. Throws a BackendError if it cannot be started. */
  static open(launch: StdioLaunch, events: TransportEvents, deps: StdioDeps): StdioTransport {
    const { child, group } = spawn(launch, deps)
    return new StdioTransport(child, group, events, deps)
  }

  get buffered(): number {
    return this.stdin.bytes
  }

  send(frame: Uint8Array | string, { number }: Outgoing): void {
    if (this.over) return
    const { server, limit } = this.deps
    if (this.stdin.bytes <= limit) this.stdin.put(frame)
    else if (number !== undefined) this.events.onfail?.(number, new BackendError(server, "does not read its stdin"))
  }

  async lived(): Promise<boolean> {
    await withTimeout(this.deps.clock, LIVED_MS, this.child.exited)
    return this.child.exitCode === null && this.child.signalCode === null
  }

  close(): Promise<void> {
    this.over = true
    this.closing ??= this.end()
    return this.closing
  }

  // ---

  private async end(): Promise<void> {
    const { clock, grace } = this.deps
    const end = clock.now() + grace
    const left = () => Math.min(end - clock.now(), this.deps.msLeft?.() ?? grace)
    this.stdin.writeRest()
    await endTree(this.child, this.group, clock, left)
    this.group.close()
    // Reads the last output, then closes a pipe that a process outside of the group holds open.
    void withTimeout(clock, SETTLE_MS, Promise.all([this.stdoutEnd, this.stderrEnd])).then(() =>
      this.stopReading.abort(),
    )
  }

  private readStdout(): Promise<void> {
    const { clock, limit } = this.deps
    const watch = watchOversize(
      clock,
      (edges) => this.over || this.events.ondropped(edges),
      () => this.lose(`wrote a line of more than ${limit} bytes`),
    )
    const offer = (head: Uint8Array) => {
      const sink = this.over ? undefined : this.events.onlarge?.(head)
      return sink && new SharedPipeSink(sink, clock)
    }
    const split = createSplitter((line) => this.take(line), limit, watch.ondropped, watch.onlong, offer)
    return pump(this.child.stdout, split, () => 0, clock, this.stopReading.signal)
  }

  private readStderr(): Promise<void> | undefined {
    const { stderr } = this.child
    const { clock, output } = this.deps
    if (!(stderr instanceof ReadableStream)) return undefined
    const take = (chunk: Uint8Array) => {
      output.onstderr(chunk)
      return undefined
    }
    return pump(stderr, take, floodPause, clock, this.stopReading.signal).then(() => output.onstderrend())
  }

  private take(bytes: Uint8Array): void {
    if (this.over) return
    const line = trimmedStart(withoutByteOrderMark(bytes))
    if (line[0] !== BRACE && line[0] !== BRACKET) {
      this.deps.output.onstdoutnoise(line)
      if (line.length > 0) this.events.onnoise?.()
      return
    }
    try {
      this.events.onframe(line)
    } catch (error) {
      // A fault of svc: reported as an uncaught exception, and costs only this frame.
      queueMicrotask(() => {
        throw error
      })
    }
  }

  /**
   * Loses the transport after a short wait. The exit says more than the end of a pipe, stdout may hold answers from before the
   * exit, and stderr may explain it. The wait is bounded because a grandchild may hold stdout open.
   */
  private async loseSoon(reason: string): Promise<void> {
    const ends = Promise.all([this.stdoutEnd, this.stderrEnd, this.child.exited])
    await withTimeout(this.deps.clock, SETTLE_MS, ends)
    this.lose(reason)
  }

  /** Reports the loss once: as the exit if the child has exited, else with `reason`. */
  private lose(reason: string): void {
    if (this.over) return
    this.over = true
    const { exitCode: code, signalCode } = this.child
    if (code === null && signalCode === null) {
      this.events.onclose({ reason })
      return
    }
    const signal = signalCode === null ? null : String(signalCode)
    const exitReason = code === 0 ? undefined : this.deps.output.exitReason()
    this.events.onclose({
      reason: signal === null ? `exited with code ${code}` : `was terminated by ${signal}`,
      exit: { code, signal, at: this.deps.clock.now() },
      ...(exitReason === undefined ? {} : { exitReason }),
    })
  }
}

// ---

/** Drops the mark that .NET and PowerShell write before the first line. */
const withoutByteOrderMark = (line: Uint8Array): Uint8Array =>
  line[0] === 0xef && line[1] === 0xbb && line[2] === 0xbf ? line.subarray(3) : line

/** Drops white space before a message, which is part of JSON text. RFC 8259, 2. */
function trimmedStart(line: Uint8Array): Uint8Array {
  let start = 0
  while (isBlank(line[start])) start++
  return start === 0 ? line : line.subarray(start)
}

/** Whether a byte is a space, a tab or a carriage return; a line contains no line feed. */
const isBlank = (byte: number | undefined): boolean => byte === 0x20 || byte === 0x09 || byte === 0x0d

const BRACE = 0x7b
const BRACKET = 0x5b
/** The most time between the end of stdout and the exit. */
const SETTLE_MS = 200
/**
 * A program that fails at once exits within 1 ms, and runtimes take longer than this to start: until then, the request would
 * wait in the pipe anyway.
 */
const LIVED_MS = 12
/** From this size of a stderr chunk on, reading pauses: a child that floods its stderr is slowed, not its neighbours. */
const FLOOD_BYTES = 32 * 1024
const FLOOD_PAUSE_MS = 4
/** The total time of waits for the owner of one large frame. After that, the bytes that it has not taken stay in memory. */
const MAX_SLOWED_MS = 250
const floodPause = (chunk: Uint8Array): number => (chunk.length < FLOOD_BYTES ? 0 : FLOOD_PAUSE_MS)
const WINDOWS = process.platform === "win32"
/** A smaller chunk ends the turn of its stream; chunks of this size or more are parts of a large message. */
const PART_BYTES = 64 * 1024
/** Bytes after which a large message ends the turn too. */
const TURN_BYTES = 512 * 1024

function spawn(
  { cwd, env, stderr, ...launch }: StdioLaunch,
  { server, reaper }: StdioDeps,
): { readonly child: ChildProcess; readonly group: ProcessGroup } {
  // Bun reports a missing directory as a missing command.
  if (cwd !== undefined && statSync(cwd, { throwIfNoEntry: false })?.isDirectory() !== true)
    throw new BackendError(server, `working directory does not exist: ${cwd}`)
  const which = (command: string, options: { PATH: string; cwd?: string }) => Bun.which(command, options)
  const { cmd, verbatim } = resolveCommand({ cwd, env, stderr, ...launch }, server, { windows: WINDOWS, which })
  try {
    return reaper.start((mark) =>
      Bun.spawn({
        cmd: [...cmd],
        ...(cwd === undefined ? {} : { cwd }),
        env: { ...env },
        stdio: ["pipe", "pipe", stderr === "overlapped" ? "pipe" : stderr, ...(mark === undefined ? [] : [mark])],
        // A group of its own: its descendants end with it, and the terminal's Ctrl-C reaches only svc.
        detached: !WINDOWS,
        windowsHide: true,
        windowsVerbatimArguments: verbatim,
      }),
    )
  } catch (cause) {
    throw new BackendError(server, spawnReason(messageOf(cause), cmd[0] ?? "", stderr), { cause })
  }
}

/** Returns why a process could not be started, from the words of the runtime. */
function spawnReason(text: string, program: string, stderr: StdioLaunch["stderr"]): string {
  if (text.startsWith("ENOEXEC"))
    return `${program} is no program for this machine: a script needs a first line such as #!/bin/sh, or its interpreter as the command`
  if (typeof stderr !== "number") return text
  if (stderr === 0) return "stderr is file descriptor 0, which is stdin: choose another"
  return text.startsWith("EBADF") ? `stderr is file descriptor ${stderr}, which is not open in svc` : text
}

/** Lets the owner of a large frame slow down the pipe, but not for long: it also carries the messages of other clients. */
class SharedPipeSink implements FrameSink {
  private patience = MAX_SLOWED_MS

  constructor(
    private readonly sink: FrameSink,
    private readonly clock: Clock,
  ) {}

  push(bytes: Uint8Array): Promise<void> | undefined {
    const waiting = this.sink.push(bytes)
    return waiting === undefined || this.patience <= 0 ? undefined : this.waitFor(waiting)
  }

  end(): void {
    this.sink.end()
  }

  fail(error: Error): void {
    this.sink.fail(error)
  }

  private async waitFor(waiting: Promise<void>): Promise<void> {
    const since = this.clock.now()
    await withTimeout(this.clock, this.patience, waiting)
    this.patience -= this.clock.now() - since
  }
}

/**
 * Writes a frame at once if the frame before it was the only one of its turn of the event loop; otherwise writes all frames of
 * a turn together: under load, a system call for each frame would cost more than relaying it.
 */
class StdinQueue {
  /** Bytes accepted and not yet read by the child. */
  bytes = 0
  private frames: (Uint8Array | string)[] = []
  private busy = false
  /** Whether the last frame was the only one of its turn. */
  private alone = true

  constructor(
    private readonly stdin: Bun.FileSink,
    private readonly onbroken: () => void,
  ) {}

  put(frame: Uint8Array | string): void {
    this.frames.push(frame)
    this.bytes += frame.length + 1
    if (this.busy) return
    this.busy = true
    if (this.alone) this.flush()
    else setImmediate(this.flush)
  }

  /** Writes what waits for the end of the turn, before the pipe is closed: it may be a cancellation. */
  writeRest(): void {
    const { frames } = this
    this.frames = []
    try {
      if (frames.length > 0) void Promise.resolve(this.write(frames)).catch(() => undefined)
    } catch {
      // The pipe is broken already.
    }
  }

  /** A property, so that no function is made for each turn. */
  private readonly flush = (): void => {
    const { frames, bytes, alone } = this
    if (frames.length === 0) {
      this.alone = true
      this.busy = false
      return
    }
    this.frames = []
    this.alone = !alone && frames.length === 1
    const next = () => {
      this.bytes -= bytes
      if (alone || this.frames.length > 0) setImmediate(this.flush)
      else this.busy = false
    }
    try {
      const written = this.write(frames)
      // A number: the pipe has taken all bytes. A promise: the child must read first.
      if (written instanceof Promise) written.then(next, this.onbroken)
      else next()
    } catch {
      this.onbroken()
    }
  }

  private write(frames: readonly (Uint8Array | string)[]): number | Promise<number> {
    const [first] = frames
    if (frames.length === 1 && typeof first === "string") this.stdin.write(escapeSeparatorsIn(`${first}\n`))
    else if (frames.every((frame) => typeof frame === "string"))
      this.stdin.write(escapeSeparatorsIn(`${frames.join("\n")}\n`))
    else for (const frame of frames) this.stdin.write(lineOf(frame))
    return this.stdin.flush()
  }
}

/**
 * Passes a stream on in chunks and yields to other work in between, so that a child that writes faster than svc reads does
 * not block the others. `pauseAfter` returns the milliseconds to wait after a chunk. Resolves at the end of the stream or
 * when `signal` is aborted.
 */
async function pump(
  stream: ReadableStream<Uint8Array>,
  take: (chunk: Uint8Array) => Promise<void> | undefined,
  pauseAfter: (chunk: Uint8Array) => number,
  clock: Clock,
  signal: AbortSignal,
): Promise<void> {
  const reader = stream.getReader()
  signal.addEventListener("abort", () => void reader.cancel().catch(() => undefined))
  try {
    let turn = 0
    for (let next = await reader.read(); !next.done; next = await reader.read()) {
      const waiting = take(next.value)
      if (waiting !== undefined) await waiting
      const ms = pauseAfter(next.value)
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
