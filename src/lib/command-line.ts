/**
 * Finds the command and checks its arguments before citty parses them, because citty accepts mistakes. Unknown commands and
 * flags, flags before the command, and missing or unexpected arguments are errors here; the message suggests the nearest
 * known word.
 */
import type { ArgDef, ArgsDef, CommandDef } from "citty"
import { RequestError } from "./errors.ts"
import { nearest } from "./nearest.ts"

/** A command, its path such as `["mcp", "tools", "list"]`, and its own arguments. */
export type FoundCommand = {
  readonly command: CommandDef
  readonly path: readonly string[]
  readonly args: readonly string[]
  readonly help: boolean
  /** Notes for the user on how svc read the words. */
  readonly notes: readonly string[]
}

/**
 * A command that takes a program, after `--` or after its own arguments and flags, or an address in its place. Everything
 * after the first word of the program belongs to the program.
 */
export type ProgramCommand = CommandDef & {
  /** The flag for an address in place of a program. */
  readonly addressFlag: string
  /** The flag for a variable of the program; `NAME=value` before the program means the same, as in a shell. */
  readonly envFlag: string
}

/** A command that takes any number of words after its arguments, as `args._` without the arguments. */
export type VariadicCommand = CommandDef & {
  /** The name of these words in its help. */
  readonly rest: string
}

/** A group of commands that understands command names of other programs, and names that it once had. */
export type CommandGroup = CommandDef & {
  readonly aliases?: Readonly<Record<string, Alias>>
  /** Names that work for one more release: the words after `svc` that replace them. */
  readonly retired?: Readonly<Record<string, readonly string[]>>
}

/** The meaning of another program's command name: the words to read in its place, or a message that says what to type. */
type Alias = readonly string[] | string

/** Finds the command that `words` name. Throws a RequestError (usage); if an argument is missing, with the command's example. */
export async function findCommand(
  root: CommandDef,
  words: readonly string[],
  exampleOf: (path: readonly string[]) => Promise<string | undefined> = async () => undefined,
): Promise<FoundCommand> {
  let command = root
  const path: string[] = []
  let rest = [...words]
  const hasHelpFlag = (args: readonly string[]) =>
    args.some((arg, at) => (arg === "--help" || arg === "-h") && !args.slice(0, at).includes("--"))
  /** Global flags that stand before the command, with their values. */
  const before: string[] = []
  const notes: string[] = []
  for (;;) {
    const subs = (await resolved(command.subCommands)) ?? {}
    const names = Object.keys(subs)
    if (names.length === 0) break
    const [word] = rest
    if (word === undefined || word === "--help" || word === "-h") return { command, path, args: [], help: true, notes }
    if (word === "help") {
      rest = [...rest.slice(1), "--help"]
      continue
    }
    if (GLOBAL_FLAGS.test(word)) {
      const count = word.includes("=") || word === "--json" ? 1 : 2
      before.push(...rest.slice(0, count))
      rest = rest.slice(count)
      continue
    }
    if (word.startsWith("-")) throw flagBeforeCommand(word, path)
    const found = Object.hasOwn(subs, word) ? subs[word] : undefined
    const successor = entryOf((command as Partial<CommandGroup>).retired, word)
    if (found === undefined && successor !== undefined) {
      const old = ["svc", ...path, word].join(" ")
      notes.push(`warning: \`${old}\` will be removed in the next release; use \`svc ${successor.join(" ")}\``)
      command = root
      path.length = 0
      rest = [...successor, ...rest.slice(1)]
      continue
    }
    if (found === undefined) {
      const alias = entryOf((command as Partial<CommandGroup>).aliases, word)
      if (alias === undefined || typeof alias === "string") throw unknownCommand(command, path, word, names, alias)
      rest = [...alias, ...rest.slice(1)]
      continue
    }
    command = (await resolved(found)) as CommandDef
    path.push(word)
    rest = rest.slice(1)
  }
  rest = [...before, ...rest]
  const defined = ((await resolved(command.args)) ?? {}) as ArgsDef
  if (!("yes" in defined) && !isProgramCommand(command)) rest = withoutYes(rest)
  const args = isProgramCommand(command) ? withProgramMarked(command, flagsOf(defined), rest) : rest
  const help = hasHelpFlag(args)
  const missing = help ? undefined : checkArgs(command, flagsOf(defined), args, path)
  if (missing !== undefined) {
    const example = await exampleOf(path)
    const hint = example === undefined ? "" : `, as in \`${example}\``
    throw usageError(`${missing.toUpperCase()} is missing${hint}; see \`svc ${path.join(" ")} --help\``)
  }
  if (isProgramCommand(command) && !rest.includes("--")) notes.push(...ownFlagNotes(args))
  return { command, path, args, help, notes }
}

/**
 * Reads options from flags and `SVC_*` variables. A flag wins. An empty variable counts as unset, but an empty flag is an
 * error: `--filter "$TAGS"` with an unset variable must not lift a restriction.
 */
export function readOptions(
  args: Readonly<Record<string, unknown>>,
  env: Readonly<Record<string, string | undefined>>,
) {
  const raw = (flag: string): string | undefined => {
    const value = args[flag]
    if (value === "") throw usageError(`--${flag} needs a value: it is empty`)
    if (typeof value === "string") return value
    const variable = env[variableOf(flag)]
    return variable === undefined || variable === "" ? undefined : variable
  }
  const named = (flag: string) => (typeof args[flag] === "string" ? `--${flag}` : variableOf(flag))
  return {
    text: raw,
    flag(flag: string, otherwise = false): boolean {
      if (typeof args[flag] === "boolean") return args[flag]
      const variable = env[variableOf(flag)]?.toLowerCase()
      if (variable === undefined || variable === "") return otherwise
      if (["1", "true", "yes", "on"].includes(variable)) return true
      if (["0", "false", "no", "off"].includes(variable)) return false
      throw usageError(`${variableOf(flag)} must be on or off, not ${variable}`)
    },
    choice<T extends string>(flag: string, choices: readonly T[], otherwise: T): T {
      const value = raw(flag)
      if (value === undefined) return otherwise
      const found = choices.find((choice) => choice === value)
      if (found === undefined) throw usageError(`${named(flag)} must be one of ${choices.join(", ")}, not ${value}`)
      return found
    },
    integer(flag: string, otherwise: number, least: number, most: number): number {
      const value = raw(flag)
      if (value === undefined) return otherwise
      const number = /^[0-9]+$/.test(value) ? Number(value) : Number.NaN
      if (!(number >= least && number <= most))
        throw usageError(`${named(flag)} must be a whole number from ${least} to ${most}, not ${value}`)
      return number
    },
    /** Returns milliseconds; a number without a unit is seconds. */
    duration(flag: string, otherwise: number | string): number {
      const value = raw(flag) ?? otherwise
      if (typeof value === "number") return value
      const [, number, unit = "s"] = /^([0-9]+(?:\.[0-9]+)?)(ms|s|m|h|d)?$/.exec(value) ?? []
      if (number === undefined)
        throw usageError(`${named(flag)} must be a time such as 500ms, 10s, 5m, 24h or 90d, not ${value}`)
      const ms = Number(number) * UNITS[unit as keyof typeof UNITS]
      if (ms > MAX_DURATION_MS)
        throw usageError(`${named(flag)} must be at most ${MAX_DURATION_MS / UNITS.d}d, not ${value}`)
      return ms
    },
    /** Returns bytes; a number without a unit is bytes. */
    size(flag: string, otherwise: string): number {
      const value = raw(flag) ?? otherwise
      const [, number, unit = "B"] = /^([0-9]+)\s*(B|KiB|MiB|GiB|K|M|G)?$/i.exec(value) ?? []
      if (number === undefined) throw usageError(`${named(flag)} must be a size such as 512KiB or 4MiB, not ${value}`)
      return Number(number) * (SIZES[(unit[0] ?? "B").toUpperCase()] ?? 1)
    },
  }
}

/** Resolves a value that citty takes as it is, as a promise or as a function. */
export async function resolved<T>(value: T | (() => T) | Promise<T> | (() => Promise<T>)): Promise<T> {
  return typeof value === "function" ? await (value as () => T | Promise<T>)() : await value
}

/** Returns the error for a wrong command line. */
export const usageError = (message: string): RequestError => new RequestError("usage", message)

// ---

/** Returns the variable of a flag: `--health-info-level` is `SVC_HEALTH_INFO_LEVEL`. */
const variableOf = (flag: string): string => `SVC_${flag.replaceAll("-", "_").toUpperCase()}`

const UNITS = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const
/** A hundred years. */
const MAX_DURATION_MS = 36_500 * UNITS.d
const SIZES: Readonly<Record<string, number>> = { B: 1, K: 1024, M: 1024 ** 2, G: 1024 ** 3 }

const opposite = (flag: string): string => (flag.startsWith("--no-") ? `--${flag.slice(5)}` : `--no-${flag.slice(2)}`)

/** Flags of most commands, which may also stand before the command. */
const GLOBAL_FLAGS = /^--(?:config|config-dir|json)(?:=|$)/

/**
 * Returns the words without `--yes`. Scripts give it to every command that may ask, so a command that never asks accepts it, too.
 */
function withoutYes(words: readonly string[]): string[] {
  const end = words.indexOf("--")
  return words.filter((word, at) => !(word === "--yes" || word === "-y") || (end >= 0 && at > end))
}

/** Flags of svc itself, which need no command. */
const ROOT_FLAGS = ["--help", "--version", "-h", "-v"]

function flagBeforeCommand(flag: string, path: readonly string[]): RequestError {
  const near = nearest(flag, ROOT_FLAGS)
  if (near !== undefined) return usageError(`unknown flag: ${flag}; did you mean ${near}?`)
  const here = ["svc", ...path].join(" ")
  return usageError(`put ${flag} after the command: ${here} COMMAND ${flag}; see \`${here} --help\``)
}

export const isProgramCommand = (command: CommandDef): command is ProgramCommand => "addressFlag" in command

function entryOf<T>(entries: Readonly<Record<string, T>> | undefined, word: string): T | undefined {
  return entries !== undefined && Object.hasOwn(entries, word) ? entries[word] : undefined
}

/** The most commands that an error names. */
const MAX_LISTED = 12

/** Returns the error for a word that is no command of a group. `advice` says what to type instead. */
function unknownCommand(
  group: CommandDef,
  path: readonly string[],
  word: string,
  names: readonly string[],
  advice: string | undefined,
): RequestError {
  const { aliases = {} } = group as Partial<CommandGroup>
  const near = nearest(word, [...names, ...Object.keys(aliases).filter((name) => typeof aliases[name] !== "string")])
  const known =
    names.length > MAX_LISTED
      ? `\`${["svc", ...path].join(" ")} --help\` lists the commands`
      : `the commands are ${names.join(", ")}`
  const suggestion = near === undefined ? known : `did you mean ${[...path, near].join(" ")}?`
  return usageError(`unknown command: ${[...path, word].join(" ")}; ${advice ?? suggestion}`)
}

/** Returns the words in the form that citty parses: flags before an address and before variables, `--` before the program. */
function withProgramMarked(
  { addressFlag, envFlag }: ProgramCommand,
  { flags, positionals }: DefinedArgs,
  words: readonly string[],
): readonly string[] {
  const marked: string[] = []
  let seen = 0
  for (let at = 0; at < words.length; at++) {
    const word = words[at] as string
    if (word === "--") return [...marked, ...words.slice(at)]
    if (word.startsWith("-") && word !== "-") {
      marked.push(word)
      const value = words[at + 1]
      const takesValue = flags.has(word) && flags.get(word)?.type !== "boolean"
      if (takesValue && value !== undefined) marked.push(words[++at] as string)
    } else if (/^[A-Za-z_]\w*=/.test(word)) marked.push(`--${envFlag}=${word}`)
    else if (seen < positionals.length) {
      seen++
      marked.push(word)
    } else if (/^https?:\/\//i.test(word)) marked.push(`--${addressFlag}`, word)
    else if (at === words.length - 1 && HOST.test(word))
      throw usageError(
        `${word} may be an address or a program: write https://${word}, or put the program after -- (-- ${word})`,
      )
    else return [...marked, "--", ...words.slice(at)]
  }
  return marked
}

/**
 * Returns a note for each flag of svc behind a program without `--` before it: the program gets the flag. Throws a RequestError
 * (usage) for a flag that would choose another configuration.
 */
function ownFlagNotes(marked: readonly string[]): readonly string[] {
  const split = marked.indexOf("--")
  const [program = "", ...words] = split < 0 ? [] : marked.slice(split + 1)
  const flags = new Set(words.flatMap((word) => OWN_FLAGS.exec(word)?.[0] ?? []))
  for (const flag of flags)
    if (flag.startsWith("--config"))
      throw usageError(
        `${flag} after ${program} may be svc's or the program's: put it before NAME if it is svc's, or -- before ${program} if it is the program's`,
      )
  return [...flags].map((flag) => `note: ${flag} belongs to ${program}; put svc's flags before NAME`)
}

/** The flags of svc that users write behind a program by mistake. */
const OWN_FLAGS = /^(?:--(?:config|config-dir|env|header|json|tags?)|-e)(?==|$)/

/** A host with a domain, or localhost with a port, and a path. */
const HOST = /^(?:localhost:\d+|[\w-]+(?:\.[\w-]+)+(?::\d+)?)(?:\/\S*)?$/

/** The arguments of a command: flags in each spelling, and positional ones. */
type DefinedArgs = {
  readonly flags: ReadonlyMap<string, ArgDef>
  readonly positionals: readonly { readonly name: string; readonly required: boolean }[]
}

function flagsOf(defined: ArgsDef): DefinedArgs {
  const flags = new Map<string, ArgDef>()
  const positionals: { readonly name: string; readonly required: boolean }[] = []
  for (const [name, definition] of Object.entries(defined)) {
    if (definition.type === "positional") {
      positionals.push({ name, required: definition.required !== false })
      continue
    }
    flags.set(`--${name}`, definition)
    if (definition.type === "boolean") flags.set(`--no-${name}`, definition)
    for (const alias of [(definition as { alias?: string | string[] }).alias ?? []].flat())
      flags.set(`${alias.length === 1 ? "-" : "--"}${alias}`, definition)
  }
  return { flags, positionals }
}

/** Returns the name of the first missing argument, or undefined. Throws a RequestError (usage) for any other mistake. */
function checkArgs(
  command: CommandDef,
  { flags, positionals }: DefinedArgs,
  words: readonly string[],
  path: readonly string[],
): string | undefined {
  const here = ["svc", ...path].join(" ")
  let seen = 0
  for (let at = 0; at < words.length; at++) {
    const word = words[at] as string
    if (word === "--") {
      // The words after `--` are arguments, or the program of a command that runs one.
      if (!isProgramCommand(command) && !("rest" in command)) seen += words.length - at - 1
      break
    }
    if (!word.startsWith("-") || word === "-") {
      if (++seen > positionals.length && !("rest" in command))
        throw usageError(`unexpected argument "${word}"; see \`${here} --help\``)
      continue
    }
    const [name = word] = word.split("=", 1)
    const definition = flags.get(name)
    if (definition === undefined) {
      const near = nearest(name, flags.keys())
      throw usageError(
        `unknown flag: ${name}${near === undefined ? `; see \`${here} --help\`` : `; did you mean ${near}?`}`,
      )
    }
    if (definition.type === "boolean") {
      if (word.includes("=") && !/^--(?!no-)[^=]+=(?:true|false)$/.test(word))
        throw usageError(`${name} takes no value; its opposite is ${opposite(name)}`)
      continue
    }
    if (word.includes("=")) continue
    const value = words[at + 1]
    if (value === undefined) throw usageError(`${name} needs a value`)
    if (value.startsWith("-") && value.length > 1)
      throw usageError(`${name} needs a value; write ${name}=${value} if ${value} is the value`)
    at++
  }
  return positionals.slice(seen).find(({ required }) => required)?.name
}
