/** Runs the command that the words of a command line name. */
import { parseArgs, runCommand } from "citty"
import { type FoundCommand, findCommand } from "../lib/command-line.ts"
import { codesOf, errorWord, Interrupted, publicMessage } from "../lib/errors.ts"
import { print, say, stdoutLook } from "../lib/output.ts"
import { commit, version } from "../lib/version.ts"
import { root } from "./root.ts"

/** Returns the exit code of a command, after an error with one line that says why. Throws Interrupted alone. */
export async function runWords(words: readonly string[]): Promise<number> {
  if (words[0] === "--version" || words[0] === "-v" || words[0] === "version") {
    print(words.includes("--json"), { version, commit }, () => `${version} (${commit})`)
    return 0
  }
  if (words[0] === "complete") {
    const { printCompletion } = await import("./complete.ts")
    await printCompletion(root, words.slice(1))
    return 0
  }
  let found: FoundCommand | undefined
  try {
    found = await findCommand(root, words, async (path) => {
      const { EXAMPLES } = await import("./examples.ts")
      return EXAMPLES[path.join(" ")]?.[0]?.[0]
    })
    const { command, path, args, help, notes } = found
    for (const note of notes) say(note)
    if (help) {
      const { helpPage } = await import("./help.ts")
      process.stdout.write(`${await helpPage(command, path, stdoutLook(), words.includes("--all"))}\n`)
      return 0
    }
    const { result } = await runCommand(command, { rawArgs: [...args] })
    return typeof result === "number" ? result : 0
  } catch (error) {
    if (error instanceof Interrupted) throw error
    const { exit } = codesOf(error)
    const { createRedactor } = await import("../lib/redact.ts")
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

// ---

/** Returns the secrets of a command's configuration: an error of the command may contain a server's text. */
async function secretsOf({ command, args }: FoundCommand): Promise<readonly string[]> {
  const definitions = (typeof command.args === "function" ? await command.args() : await command.args) ?? {}
  if (!("config" in definitions)) return []
  const { configuredSecrets } = await import("../serve/local-configuration.ts")
  const { openContext } = await import("../commands/command-context.ts")
  try {
    return configuredSecrets(openContext(parseArgs([...args], definitions)))
  } catch {
    // The command has not found its configuration either.
    return []
  }
}
