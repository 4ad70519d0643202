/**
 * Runs the command that the arguments name, and turns an error into one line and an exit code. Only this file ends the
 * process.
 */
import { parseArgs, runCommand } from "citty"
import { root } from "./cli/root.ts"
import { type FoundCommand, findCommand } from "./lib/command-line.ts"
import { codesOf, errorWord, Interrupted, messageOf, OUTPUT_FAILED, publicMessage } from "./lib/errors.ts"
import { bypassProxyForLoopback } from "./lib/no-proxy.ts"
import { print, say, stdoutLook } from "./lib/output.ts"
import { commit, version } from "./lib/version.ts"

/** Commands that handle a closed stdout themselves. */
const SERVING: ReadonlySet<string> = new Set(["serve", "proxy"])

/** How long a serving command waits for a client to read the rest of its output. */
const DRAIN_MS = 2000

const words = process.argv.slice(2)
if (!SERVING.has(words[0] ?? "") || words.includes("--help")) process.stdout.on("error", leave)
bypassProxyForLoopback(process.env)
const code = await main(words)
await Promise.race([drained(), ...(SERVING.has(words[0] ?? "") ? [Bun.sleep(DRAIN_MS)] : [])])
process.exit(code)

async function main(words: readonly string[]): Promise<number> {
  if (words[0] === "--version" || words[0] === "-v" || words[0] === "version") {
    print(words.includes("--json"), { version, commit }, () => `${version} (${commit})`)
    return 0
  }
  if (words[0] === "complete") {
    const { printCompletion } = await import("./cli/complete.ts")
    await printCompletion(root, words.slice(1))
    return 0
  }
  let found: FoundCommand | undefined
  try {
    found = await findCommand(root, words, async (path) => {
      const { EXAMPLES } = await import("./cli/examples.ts")
      return EXAMPLES[path.join(" ")]?.[0]?.[0]
    })
    const { command, path, args, help, notes } = found
    for (const note of notes) say(note)
    if (help) {
      const { helpPage } = await import("./cli/help.ts")
      process.stdout.write(`${await helpPage(command, path, stdoutLook(), words.includes("--all"))}\n`)
      return 0
    }
    const { result } = await runCommand(command, { rawArgs: [...args] })
    return typeof result === "number" ? result : 0
  } catch (error) {
    const { exit } = codesOf(error)
    if (error instanceof Interrupted) process.exit(exit)
    const { createRedactor } = await import("./lib/redact.ts")
    const mask = createRedactor(found === undefined ? [] : await secretsOf(found)).maskKnown
    const own = words.includes("--") ? words.slice(0, words.indexOf("--")) : words
    // Programs read one stream, so with --json the error is the result.
    if (own.includes("--json") && exit !== 70)
      print(true, { error: { code: errorWord(error), message: mask(publicMessage(error)) } }, () => "")
    else if (exit !== 70) say(mask(`svc: ${publicMessage(error)}`))
    else process.stderr.write(mask(`svc: internal error: ${error instanceof Error ? error.stack : String(error)}\n`))
    return exit
  }
}

/** Returns the secrets of a command's configuration: an error of the command may contain a server's text. */
async function secretsOf({ command, args }: FoundCommand): Promise<readonly string[]> {
  const definitions = (typeof command.args === "function" ? await command.args() : await command.args) ?? {}
  if (!("config" in definitions)) return []
  const { configuredSecrets } = await import("./serve/local-configuration.ts")
  const { openContext } = await import("./commands/command-context.ts")
  try {
    return configuredSecrets(openContext(parseArgs([...args], definitions)))
  } catch {
    // The command has not found its configuration either.
    return []
  }
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
