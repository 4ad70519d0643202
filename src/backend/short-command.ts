/** Runs commands that end by themselves and print little: those of references to secrets, and those of notifications. */
import { type Clock, withTimeout } from "../lib/clock.ts"
import { RequestError } from "../lib/errors.ts"
import { createReaper, type Reaper } from "./reaper.ts"

/** How a command has ended, and the beginning of what it has printed: one byte more than `maxBytes` if that is too much. */
type ShortCommandOutcome = { readonly exitCode: number; readonly stdout: Uint8Array; readonly stderr: string }

type ShortCommandOptions = {
  /** The text on its stdin. */
  readonly input?: string
  /** Variables in addition to the environment. */
  readonly variables?: Readonly<Record<string, string>>
  /** The most bytes on stdout: a command that prints more is ended. Undefined: nobody reads its stdout. */
  readonly maxBytes?: number
}

/** Runs a command to its end. Rejects with a RequestError (not_found) if there is no such program; ends it with the signal. */
type RunShortCommand = (
  words: readonly string[],
  signal: AbortSignal,
  options: ShortCommandOptions,
) => Promise<ShortCommandOutcome>

/**
 * Returns the function that runs commands in `folder`, with the environment `parent` without SVC_*. What a command has started ends with
 * it, and the command ends with svc.
 */
export function createShortCommands({
  folder,
  parent,
  clock,
}: {
  readonly folder: string
  readonly parent: Readonly<Record<string, string | undefined>>
  readonly clock: Clock
}): RunShortCommand {
  const env = Object.fromEntries(Object.entries(parent).filter(([name]) => !name.startsWith("SVC_")))
  let reaper: Promise<Reaper> | undefined
  return async ([program = "", ...args], signal, { input, variables, maxBytes }) => {
    const path = Bun.which(program, { PATH: env.PATH ?? "", cwd: folder })
    if (path === null) throw new RequestError("not_found", "the program is not found")
    reaper ??= openReaper()
    const { child, group } = (await reaper).start((mark) =>
      Bun.spawn({
        cmd: [path, ...args],
        cwd: folder,
        env: { ...env, ...variables },
        stdio: [
          input === undefined ? "ignore" : Buffer.from(input),
          maxBytes === undefined ? "ignore" : "pipe",
          "pipe",
          ...(mark === undefined ? [] : [mark]),
        ],
        detached: !WINDOWS,
        windowsHide: true,
      }),
    )
    const end = () => {
      if (!group.isEmpty()) group.signal("SIGKILL")
      // Windows may have refused to put it into the group.
      child.kill("SIGKILL")
    }
    signal.addEventListener("abort", end)
    if (signal.aborted) end()
    try {
      const stdout = beginOf(child.stdout, maxBytes ?? 0, end)
      const stderr = beginOf(child.stderr, MAX_STDERR_BYTES)
      const exitCode = await child.exited
      // What it has started would keep the pipes open; what has left its group, such as a daemon, still does.
      end()
      await withTimeout(clock, DRAIN_MS, Promise.all([stdout.read, stderr.read]))
      return { exitCode, stdout: stdout.close(), stderr: new TextDecoder().decode(stderr.close()) }
    } finally {
      signal.removeEventListener("abort", end)
      group.close()
    }
  }
}

// ---

const WINDOWS = process.platform === "win32"
const MAX_STDERR_BYTES = 64 * 1024
/** How long the pipes of a command that has ended are read: what it has printed is in them already. */
const DRAIN_MS = 500

/** Opens what ends the commands if svc is killed. */
async function openReaper(): Promise<Reaper> {
  if (!WINDOWS) return createReaper(() => undefined)
  const { createJobReaper } = await import("./job-object.ts")
  return createJobReaper(() => undefined)
}

/** A stream of a child, or what stands in place of one that nobody reads. */
type Readable = ReadableStream<Uint8Array> | number | undefined

/** The beginning of a stream. `read` resolves at its end; `close` gives up the rest, and returns what was read. */
type BeginOfStream = { readonly read: Promise<void>; close(): Uint8Array }

/** Reads up to `most` bytes of a stream and one more. Calls `onlong` if there is more, and drops the rest. */
function beginOf(stream: Readable, most: number, onlong?: () => void): BeginOfStream {
  if (stream === undefined || typeof stream === "number")
    return { read: Promise.resolve(), close: () => new Uint8Array() }
  const reader = stream.getReader()
  const chunks: Uint8Array[] = []
  let length = 0
  const read = async () => {
    for (;;) {
      const { done, value } = await reader.read()
      if (done) return
      if (length > most) continue
      chunks.push(value)
      length += value.length
      if (length > most) onlong?.()
    }
  }
  return {
    read: read(),
    close() {
      // A stream that has failed has ended, too.
      void reader.cancel().catch(() => undefined)
      return Buffer.concat(chunks).subarray(0, most + 1)
    },
  }
}
