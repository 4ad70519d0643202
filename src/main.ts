/** Runs svc as a process. Only this file ends the process. */
import { runWords } from "./cli/run-words.ts"
import { codesOf, Interrupted, messageOf, OUTPUT_FAILED } from "./lib/errors.ts"
import { bypassProxyForLoopback } from "./lib/no-proxy.ts"
import { say } from "./lib/output.ts"

/** Commands that handle a closed stdout themselves. */
const SERVING: ReadonlySet<string> = new Set(["serve", "proxy"])

/** How long a serving command waits for a client to read the rest of its output. */
const DRAIN_MS = 2000

const words = process.argv.slice(2)
if (!SERVING.has(words[0] ?? "") || words.includes("--help")) process.stdout.on("error", leave)
bypassProxyForLoopback(process.env)
const code = await runWords(words).catch(endInterrupted)
await Promise.race([drained(), ...(SERVING.has(words[0] ?? "") ? [Bun.sleep(DRAIN_MS)] : [])])
process.exit(code)

/** Ends the process at once after an interrupted command: the user waits for nothing else. */
function endInterrupted(error: unknown): never {
  if (error instanceof Interrupted) process.exit(codesOf(error).exit)
  throw error
}

/**
 * Ends the process without an error if the reader has closed the pipe, as in `svc logs | head`; otherwise with the reason,
 * such as a full disk.
 */
function leave(error: NodeJS.ErrnoException): void {
  if (error.code === "EPIPE") process.exit(0)
  say(`svc: cannot write the output: ${error.code === "ENOSPC" ? "no space left on the device" : messageOf(error)}`)
  process.exit(OUTPUT_FAILED)
}

/** Resolves when the output is read or its reader is gone. Ending the process earlier would lose buffered output. */
function drained(): Promise<void> {
  return new Promise((done) => {
    process.stdout.on("error", () => done())
    process.stdout.end(() => done())
  })
}
