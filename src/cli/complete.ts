/**
 * Completes an unfinished command line: the hidden `svc complete WORDS… WORD`, which the scripts of `svc completion` call at
 * each Tab. It reads the tree of commands, the configuration and, for names of tools, the running svc on this machine. It
 * never fails, because a message would appear in the middle of the line.
 */
import type { ArgDef, ArgsDef, CommandDef } from "citty"
import type { CommandGroup, VariadicCommand } from "../lib/command-line.ts"
import { isProgramCommand, resolved } from "../lib/command-line.ts"
import { printable } from "../lib/log.ts"

/** A possible next word, and its meaning. */
type Candidate = readonly [word: string, meaning: string]

export type Completion = {
  /** Which other words may come next: any files, only directories, or none. */
  readonly others: "files" | "directories" | "none"
  readonly candidates: readonly Candidate[]
}

/**
 * Returns the names of a kind (`server`, `tool` …) in the configuration that the flags select. `before`: the positional
 * arguments.
 */
export type FindNames = (
  kind: string,
  flags: Readonly<Record<string, string>>,
  before: readonly string[],
) => Promise<readonly string[]>

/** Returns the possible replacements for the last of `words`. */
export async function complete(root: CommandDef, words: readonly string[], findNames: FindNames): Promise<Completion> {
  const line = joinAssignments(words)
  const current = line.at(-1) ?? ""
  const given: Record<string, string> = {}
  const positionals: string[] = []
  let command = root
  let args = await argumentsOf(command)
  let waiting: ArgDef | undefined
  for (const [at, word] of line.slice(0, -1).entries()) {
    if (waiting !== undefined) {
      given[nameOf(line[at - 1] ?? "")] = word
      waiting = undefined
    } else if (word === "--") return isProgramCommand(command) ? FILES : NOTHING
    else if (word.startsWith("-")) {
      const [, flag = word, value] = /^(-[^=]+)=(.*)$/s.exec(word) ?? []
      if (value !== undefined) given[nameOf(flag)] = value
      else waiting = valueFlag({ ...GLOBAL_ARGS, ...args }, flag)
    } else {
      const next = await subCommand(command, word)
      if (next === undefined) positionals.push(word)
      else {
        command = next
        args = await argumentsOf(command)
      }
    }
  }
  const valuesOf = async (argument: ArgDef | undefined, prefix = ""): Promise<Completion> => {
    const { valueHint = "" } = (argument ?? {}) as { readonly valueHint?: string }
    if (valueHint === "path") return FILES
    if (valueHint === "directory") return { others: "directories", candidates: [] }
    const found = valueHint.includes("|") ? valueHint.split("|") : await findNames(valueHint, given, positionals)
    const wanted = current.slice(prefix.length)
    return none(found.flatMap((value) => (value.startsWith(wanted) ? [[prefix + value, ""] as const] : [])))
  }
  if (waiting !== undefined) return valuesOf(waiting)
  const [assigned, flag = ""] = /^(-[^=]+)=/.exec(current) ?? []
  if (assigned !== undefined) return valuesOf(valueFlag({ ...GLOBAL_ARGS, ...args }, flag), assigned)
  const starting = (candidates: readonly Candidate[]) => none(candidates.filter(([word]) => word.startsWith(current)))
  if (current.startsWith("-")) return starting([...Object.entries(args).flatMap(flagCandidates), HELP])
  const subs = Object.entries((await resolved(command.subCommands)) ?? {})
  if (subs.length > 0 && positionals.length === 0) {
    const candidates = await Promise.all(
      subs.map(async ([name, sub]) => {
        const meta = await resolved((await resolved(sub))?.meta)
        return [name, meta?.description ?? ""] as const
      }),
    )
    return starting(candidates)
  }
  const defined = Object.values(args).filter(({ type }) => type === "positional")
  if (positionals.length >= defined.length && isProgramCommand(command)) return FILES
  const last = defined.at(-1)
  // Commands such as `svc mcp remove` take more names of the same kind, but each only once.
  if (positionals.length >= defined.length && last !== undefined && repeatsLast(command, args)) {
    const { others, candidates } = await valuesOf(last)
    return { others, candidates: candidates.filter(([word]) => !positionals.includes(word)) }
  }
  return valuesOf(defined[positionals.length])
}

/**
 * Formats a completion for the scripts: the first line is `others`, then each candidate has a line, with its meaning after a
 * tab.
 */
export const formatCompletion = ({ others, candidates }: Completion): string =>
  [others, ...candidates.map((candidate) => candidate.map(printable).join("\t"))].map((line) => `${line}\n`).join("")

/** Prints the possible replacements for the last of `words`; none if anything goes wrong. */
export async function printCompletion(root: CommandDef, words: readonly string[]): Promise<void> {
  const found = await complete(root, words, configuredNames).catch(() => NOTHING)
  process.stdout.write(formatCompletion(found))
}

// ---

const none = (candidates: readonly Candidate[]): Completion => ({ others: "none", candidates })
const NOTHING: Completion = none([])
const FILES: Completion = { others: "files", candidates: [] }
const HELP: Candidate = ["--help", "Describe the command"]

/** A Tab must not wait for an svc that hangs. */
const ANSWER_MS = 300

/** The flags that may precede a command. */
const GLOBAL_ARGS: ArgsDef = { config: { type: "string" }, "config-dir": { type: "string" } }

/** Whether a command takes any number of words of the kind of its last argument. */
function repeatsLast(command: CommandDef, args: ArgsDef): boolean {
  const { rest } = command as Partial<VariadicCommand>
  const last = Object.entries(args).findLast(([, { type }]) => type === "positional")
  return rest !== undefined && rest === last?.[0].toUpperCase()
}

const nameOf = (flag: string): string => flag.replace(/^-+/, "")

/** Joins `--flag`, `=` and `value`, which bash passes as three words. */
function joinAssignments(words: readonly string[]): readonly string[] {
  const joined: string[] = []
  for (const [at, word] of words.entries()) {
    const last = joined.at(-1) ?? ""
    const isValue = words[at - 1] === "=" && last.endsWith("=")
    if (last.startsWith("-") && ((word === "=" && !last.includes("=")) || isValue))
      joined[joined.length - 1] = last + word
    else joined.push(word)
  }
  return joined
}

async function argumentsOf(command: CommandDef): Promise<ArgsDef> {
  return ((await resolved(command.args)) ?? {}) as ArgsDef
}

/** Returns the subcommand that a word names, including words of other programs. */
async function subCommand(command: CommandDef, word: string): Promise<CommandDef | undefined> {
  const subs = (await resolved(command.subCommands)) ?? {}
  if (Object.hasOwn(subs, word)) return (await resolved(subs[word])) as CommandDef
  const { aliases = {} } = command as Partial<CommandGroup>
  const meant = Object.hasOwn(aliases, word) ? aliases[word] : undefined
  if (typeof meant === "string" || meant === undefined) return undefined
  let found: CommandDef | undefined = command
  for (const one of meant) found = found === undefined ? undefined : await subCommand(found, one)
  return found
}

const aliasesOf = (definition: ArgDef): readonly string[] =>
  [(definition as { readonly alias?: string | readonly string[] }).alias ?? []].flat()

/** Returns the definition of a flag that takes a value. */
function valueFlag(args: ArgsDef, flag: string): ArgDef | undefined {
  const name = nameOf(flag)
  const found = Object.entries(args).find(([one, { type }]) => type !== "positional" && one === name)?.[1]
  const definition = found ?? Object.values(args).find((one) => aliasesOf(one).includes(name))
  return definition?.type === "boolean" ? undefined : definition
}

function flagCandidates([name, definition]: readonly [string, ArgDef]): readonly Candidate[] {
  const { type, description = "" } = definition
  if (type === "positional") return []
  return description.includes(`--no-${name}`) ? [[`--no-${name}`, description]] : [[`--${name}`, description]]
}

/** Reads names from the files of the configuration, and names of tools from the running svc. */
const configuredNames: FindNames = async (kind, flags, before) => {
  const { openContext } = await import("../commands/command-context.ts")
  const context = openContext(flags, "allowed")
  const { isObject } = await import("../wire/message.ts")
  const keysOf = (value: unknown) => (isObject(value) ? Object.keys(value) : [])
  switch (kind) {
    case "server": {
      const { mcpServers, mcpTemplates } = context.document().value
      return [...keysOf(mcpServers), ...keysOf(mcpTemplates)]
    }
    case "template":
      return keysOf(context.document().value.mcpTemplates)
    case "preset": {
      const { parseDocument } = await import("../config/document.ts")
      const { readText } = await import("../store/files.ts")
      return keysOf(parseDocument(readText(context.paths.presets) ?? "", context.paths.presets).value.presets)
    }
    case "token": {
      const { tokensOf } = await import("./auth-token.ts")
      return [...tokensOf(context).values()].map(({ id, name }) => name || id)
    }
    case "backup": {
      const [{ listBackups }, { basename }] = await Promise.all([import("../store/documents.ts"), import("node:path")])
      return listBackups(context.paths).map((path) => basename(path))
    }
    case "tool": {
      const answer = await context.ask("tools", { name: before[0] }, ANSWER_MS)
      const rows: readonly unknown[] = isObject(answer) && Array.isArray(answer.tools) ? answer.tools : []
      return rows.flatMap((row) => (isObject(row) && typeof row.name === "string" ? [row.name] : []))
    }
    case "target": {
      const servers = await configuredNames("server", flags, before)
      const tools = servers.map(async (server) => {
        const names = await configuredNames("tool", flags, [server]).catch(() => [])
        return names.map((name) => `${server}/${name}`)
      })
      return [...servers, ...(await Promise.all(tools)).flat()]
    }
    default:
      return []
  }
}
