/** The only file that ends the process: it chooses the command, runs it, and turns errors into one line and an exit code. */
import { renderUsage, runCommand } from "citty"
import { say } from "./app/output.ts"
import { root } from "./cli/root.ts"
import { findCommand } from "./lib/command-line.ts"
import { codesOf, Interrupted, messageOf, publicMessage } from "./lib/errors.ts"
import { bypassProxyForLoopback } from "./lib/no-proxy.ts"
import { commit, version } from "./lib/version.ts"

/** They end in their own way when their client goes. */
const SERVING: ReadonlySet<string> = new Set(["serve", "proxy"])

/** A client that takes nothing does not keep svc. */
const LAST_WORDS_MS = 2000

const words = process.argv.slice(2)
bypassProxyForLoopback(process.env)
const code = await main(words)
await Promise.race([drained(), ...(SERVING.has(words[0] ?? "") ? [Bun.sleep(LAST_WORDS_MS)] : [])])
process.exit(code)

async function main(words: readonly string[]): Promise<number> {
  if (words[0] === "--version" || words[0] === "-v") {
    process.stdout.write(`${version} (${commit})\n`)
    return 0
  }
  try {
    const { command, path, args, help } = await findCommand(root, words)
    if (help) {
      const parent = path.length === 0 ? undefined : { meta: { name: ["svc", ...path.slice(0, -1)].join(" ") } }
      const usage = await renderUsage(command, parent)
      // citty colours for files and pipes too.
      const colours = process.stdout.isTTY === true && !process.env.NO_COLOR
      const lines = (colours ? usage : Bun.stripANSI(usage))
        .trimEnd()
        .split("\n")
        .map((line) => line.trimEnd())
      if (path[0] === "serve") lines.push("", "Each option is also a variable: --log-level is SVC_LOG_LEVEL.")
      process.stdout.write(`${lines.join("\n")}\n`)
      return 0
    }
    if (!SERVING.has(path[0] ?? "")) process.stdout.on("error", leave)
    const { result } = await runCommand(command, { rawArgs: [...args] })
    return typeof result === "number" ? result : 0
  } catch (error) {
    const { exit } = codesOf(error)
    if (error instanceof Interrupted) process.exit(exit)
    if (exit !== 70) say(`svc: ${publicMessage(error)}`)
    else if (isUsageError(error)) {
      process.stderr.write(`svc: ${messageOf(error)}\n`)
      return 64
    } else process.stderr.write(`svc: internal error: ${error instanceof Error ? error.stack : String(error)}\n`)
    return exit
  }
}

/** A reader that has seen enough (`svc logs | head`) has done nothing wrong. */
function leave(error: NodeJS.ErrnoException): void {
  if (error.code === "EPIPE") process.exit(0)
  throw error
}

/** Resolves when a reader has taken what was printed, or is gone: the end of the process would drop it. */
function drained(): Promise<void> {
  return new Promise((done) => {
    process.stdout.on("error", () => done())
    process.stdout.end(() => done())
  })
}

/** citty's own complaint about a missing argument. */
function isUsageError(error: unknown): boolean {
  return error instanceof Error && error.name === "CLIError"
}
