/**
 * Finds the command and checks its arguments, then leaves the parsing to citty, which lets mistakes pass: unknown commands
 * and flags, flags before the command, and missing or unexpected arguments are errors here, with the nearest known word.
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
}

/** A command that runs a program, given after `--`. */
export type ProgramCommand = CommandDef & {
  /** The flag for an address in place of a program. */
  readonly addressFlag: string
}

/** Finds the command that `words` name. Throws a RequestError (usage). */
export async function findCommand(root: CommandDef, words: readonly string[]): Promise<FoundCommand> {
  let command = root
  const path: string[] = []
  let rest = [...words]
  const hasHelpFlag = (args: readonly string[]) =>
    args.some((arg, at) => (arg === "--help" || arg === "-h") && !args.slice(0, at).includes("--"))
  for (;;) {
    const subs = (await resolved(command.subCommands)) ?? {}
    const names = Object.keys(subs)
    if (names.length === 0) break
    const [word] = rest
    if (word === undefined || word === "--help" || word === "-h") return { command, path, args: [], help: true }
    if (word === "help") {
      rest = [...rest.slice(1), "--help"]
      continue
    }
    if (word.startsWith("-")) throw flagBeforeCommand(word, path)
    const found = subs[word]
    if (found === undefined) {
      const near = nearest(word, names)
      throw usageError(
        `unknown command: ${[...path, word].join(" ")}${near === undefined ? `; the commands are ${names.join(", ")}` : `; did you mean ${[...path, near].join(" ")}?`}`,
      )
    }
    command = (await resolved(found)) as CommandDef
    path.push(word)
    rest = rest.slice(1)
  }
  const help = hasHelpFlag(rest)
  if (!help) checkArgs(command, ((await resolved(command.args)) ?? {}) as ArgsDef, rest, path)
  return { command, path, args: rest, help }
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
    duration(flag: string, otherwise: number): number {
      const value = raw(flag)
      if (value === undefined) return otherwise
      const [, number, unit = "s"] = /^([0-9]+(?:\.[0-9]+)?)(ms|s|m|h|d)?$/.exec(value) ?? []
      if (number === undefined)
        throw usageError(`${named(flag)} must be a time such as 500ms, 10s, 5m or 24h, not ${value}`)
      const ms = Number(number) * UNITS[unit as keyof typeof UNITS]
      if (ms > MAX_DURATION_MS)
        throw usageError(`${named(flag)} must be at most ${MAX_DURATION_MS / UNITS.d}d, not ${value}`)
      return ms
    },
    /** Returns bytes; a number without a unit is bytes. */
    size(flag: string, otherwise: number): number {
      const value = raw(flag)
      if (value === undefined) return otherwise
      const [, number, unit = "B"] = /^([0-9]+)\s*(B|KiB|MiB|GiB|K|M|G)?$/i.exec(value) ?? []
      if (number === undefined) throw usageError(`${named(flag)} must be a size such as 512KiB or 4MiB, not ${value}`)
      return Number(number) * (SIZES[(unit[0] ?? "B").toUpperCase()] ?? 1)
    },
  }
}

/** Returns the error of a wrong command line. */
export const usageError = (message: string): RequestError => new RequestError("usage", message)

// ---

/** Returns the variable of a flag: `--health-info-level` is `SVC_HEALTH_INFO_LEVEL`. */
const variableOf = (flag: string): string => `SVC_${flag.replaceAll("-", "_").toUpperCase()}`

const UNITS = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const
/** A hundred years. */
const MAX_DURATION_MS = 36_500 * UNITS.d
const SIZES: Readonly<Record<string, number>> = { B: 1, K: 1024, M: 1024 ** 2, G: 1024 ** 3 }

async function resolved<T>(value: T | (() => T) | Promise<T> | (() => Promise<T>)): Promise<T> {
  return typeof value === "function" ? await (value as () => T | Promise<T>)() : await value
}

const opposite = (flag: string): string => (flag.startsWith("--no-") ? `--${flag.slice(5)}` : `--no-${flag.slice(2)}`)

/** Flags of svc itself, which stand alone. */
const ROOT_FLAGS = ["--help", "--version", "-h", "-v"]

function flagBeforeCommand(flag: string, path: readonly string[]): RequestError {
  const near = nearest(flag, ROOT_FLAGS)
  if (near !== undefined) return usageError(`unknown flag: ${flag}; did you mean ${near}?`)
  const here = ["svc", ...path].join(" ")
  return usageError(`put ${flag} after the command: ${here} COMMAND ${flag}; see \`${here} --help\``)
}

/** An argument too many. For a command that runs a program, shows where the program or the address belongs. */
function unexpectedArgument(command: CommandDef, words: readonly string[], at: number, here: string): RequestError {
  const word = words[at] as string
  if (!("addressFlag" in command)) return usageError(`unexpected argument "${word}"; see \`${here} --help\``)
  const before = [here, ...words.slice(0, at)].join(" ")
  if (/^https?:\/\//.test(word))
    return usageError(`put the address after --${command.addressFlag}: ${before} --${command.addressFlag} ${word}`)
  return usageError(`put the command after --: ${before} -- ${words.slice(at).join(" ")}`)
}

function checkArgs(command: CommandDef, defined: ArgsDef, words: readonly string[], path: readonly string[]): void {
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
  const here = ["svc", ...path].join(" ")
  let seen = 0
  for (let at = 0; at < words.length; at++) {
    const word = words[at] as string
    if (word === "--") {
      // citty takes the words after it as arguments, a command that runs a program as the program.
      if (!("addressFlag" in command)) seen += words.length - at - 1
      break
    }
    if (!word.startsWith("-") || word === "-") {
      if (++seen > positionals.length) throw unexpectedArgument(command, words, at, here)
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
    if (value === undefined || (value.startsWith("-") && value.length > 1)) throw usageError(`${name} needs a value`)
    at++
  }
  const missing = positionals.slice(seen).find(({ required }) => required)
  if (missing !== undefined) throw usageError(`${missing.name.toUpperCase()} is missing; see \`${here} --help\``)
}
