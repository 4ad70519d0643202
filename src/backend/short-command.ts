/** Runs commands that end by themselves and print little: those of references to secrets, and those of notifications. */
import { RequestError } from "../lib/errors.ts"
import { createReaper, type Reaper } from "./reaper.ts"

/** How a command has ended, and the beginning of what it has printed: one byte more than `maxBytes` if that is too much. */
type ShortCommandOutcome = { readonly exitCode: number; readonly stdout: string; readonly stderr: string }

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
}: {
  readonly folder: string
  readonly parent: Readonly<Record<string, string | undefined>>
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
      const stdout = child.stdout instanceof ReadableStream ? beginOf(child.stdout, maxBytes ?? 0, end) : ""
      const stderr = child.stderr instanceof ReadableStream ? beginOf(child.stderr, MAX_STDERR_BYTES) : ""
      const exitCode = await child.exited
      // What it has started would keep the pipes open.
      end()
      return { exitCode, stdout: await stdout, stderr: await stderr }
    } finally {
      signal.removeEventListener("abort", end)
      group.close()
    }
  }
}

// ---

const WINDOWS = process.platform === "win32"
const MAX_STDERR_BYTES = 64 * 1024

/** Opens what ends the commands if svc is killed. */
async function openReaper(): Promise<Reaper> {
  if (!WINDOWS) return createReaper(() => undefined)
  const { createJobReaper } = await import("./job-object.ts")
  return createJobReaper(() => undefined)
}

/** Returns what a stream has, up to `most` bytes and one more. Calls `onlong` if there is more, and drops the rest. */
async function beginOf(stream: ReadableStream<Uint8Array>, most: number, onlong?: () => void): Promise<string> {
  const chunks: Uint8Array[] = []
  let length = 0
  for await (const chunk of stream) {
    if (length > most) continue
    chunks.push(chunk)
    length += chunk.length
    if (length > most) onlong?.()
  }
  return new TextDecoder().decode(Buffer.concat(chunks).subarray(0, most + 1))
}
