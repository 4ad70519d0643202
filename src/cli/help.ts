/** Formats help pages: what a command does, how to call it, its options in groups, and examples. */
import type { ArgDef, CommandDef } from "citty"
import { CONFIG_ARGS } from "../app/config-paths.ts"
import { resolved } from "../lib/command-line.ts"
import { type Look, paint } from "../lib/terminal.ts"
import { EXAMPLES } from "./examples.ts"

/**
 * Returns the help page of a command. It is at most 100 columns wide, and 80 without a terminal. If some of its options are
 * marked as common, the page contains only these and those without a group, unless it is to contain all.
 */
export async function helpPage(
  command: CommandDef,
  path: readonly string[],
  { width, color }: Look,
  all = false,
): Promise<string> {
  const look = { width: Math.min(Number.isFinite(width) ? width : 80, 100), color }
  const here = ["svc", ...path].join(" ")
  const { description = "" } = (await resolved(command.meta)) ?? {}
  const args = Object.entries(((await resolved(command.args)) ?? {}) as Readonly<Record<string, ShownArg>>)
  const subs = Object.entries((await resolved(command.subCommands)) ?? {})
  const positionals = args.filter(([, { type }]) => type === "positional")
  const options = args.filter(([, { type }]) => type !== "positional")
  const shown = options.filter(([, { group, common }]) => all || group === undefined || common === true)
  const usage = [
    here,
    ...(subs.length > 0 ? ["COMMAND"] : []),
    ...positionals.map(([name, { required }]) => (required === false ? `[${name.toUpperCase()}]` : name.toUpperCase())),
    ...("rest" in command ? [`[${command.rest}…]`] : []),
    ...(options.length > 0 || subs.length > 0 ? ["[OPTIONS]"] : []),
    ...("addressFlag" in command ? ["[COMMAND ARGS…]"] : []),
  ].join(" ")
  const commands = await Promise.all(
    subs.map(async ([name, sub]) => {
      const meta = await resolved((await resolved(sub))?.meta)
      return [name, meta?.description ?? ""] as const
    }),
  )
  const examples = EXAMPLES[path.join(" ")] ?? []
  const title = (text: string) => paint(text, "strong", look)
  const section = (name: string, rows: readonly (readonly [string, string])[]) =>
    rows.length === 0 ? [] : ["", title(name), definitions(rows, look)]
  return [
    ...wrap(description, look.width),
    "",
    `${title("usage:")} ${usage}`,
    ...section("commands", commands),
    ...section(
      "arguments",
      positionals.map(([name, { description = "" }]) => [name.toUpperCase(), description]),
    ),
    ...groupsOf(shown).flatMap(([name, group]) => section(name, group.map(optionRow))),
    ...(shown.length < options.length
      ? ["", `\`${here} --help --all\` shows ${options.length - shown.length} more options.`]
      : []),
    ...(examples.length === 0 ? [] : ["", title("examples")]),
    ...examples.flatMap(([line, meaning]) => [`  ${paint(`# ${meaning}`, "faint", look)}`, `  ${line}`]),
    ...(subs.length > 0 ? ["", `\`${here} COMMAND --help\` describes a command.`] : []),
    ...(path[0] === "serve" ? ["", "Each option is also an environment variable: --log-level is SVC_LOG_LEVEL."] : []),
  ].join("\n")
}

// ---

/** The widest left column; a longer name has a line of its own. */
const MOST_LEFT = 26

/** An argument, and how help shows it: in which group, and whether without `--all`. */
type ShownArg = ArgDef & { readonly group?: string; readonly common?: true }
type Option = readonly [name: string, definition: ShownArg]

/** Groups options by their group. Those without one are first; of these, the options of many commands are last. */
function groupsOf(options: readonly Option[]): readonly (readonly [string, readonly Option[]])[] {
  const isGlobal = ([name, { group }]: Option) => group === undefined && (name === "json" || name in CONFIG_ARGS)
  const groups = Map.groupBy(
    [...options.filter((one) => !isGlobal(one)), ...options.filter(isGlobal)],
    ([, { group = "options" }]) => group,
  )
  return [...groups]
}

function optionRow([name, definition]: Option): readonly [string, string] {
  const { type, description, alias, valueHint, negativeDescription } = definition as ArgDef & {
    readonly alias?: string | readonly string[]
    readonly negativeDescription?: string
  }
  const aliases = [alias ?? []].flat().map((one) => `${one.length === 1 ? "-" : "--"}${one}`)
  const flag = description === undefined && negativeDescription !== undefined ? `--no-${name}` : `--${name}`
  // The description lists the choices.
  const hint = valueHint === undefined || valueHint.includes("|") ? "value" : valueHint
  const value = type === "boolean" ? "" : ` ${hint.toUpperCase()}`
  return [`${[...aliases, flag].join(", ")}${value}`, description ?? negativeDescription ?? ""]
}

/** Formats names with their descriptions, which wrap within their column. */
function definitions(rows: readonly (readonly [string, string])[], look: Look): string {
  const left = Math.min(MOST_LEFT, Math.max(...rows.map(([name]) => Bun.stringWidth(name))))
  const indent = " ".repeat(left + 4)
  return rows
    .map(([name, description]) => {
      const lines = wrap(description, look.width - indent.length)
      const room = left - Bun.stringWidth(name)
      const first = room < 0 ? [`  ${name}`] : [`  ${name}${" ".repeat(room)}  ${lines.shift() ?? ""}`.trimEnd()]
      return [...first, ...lines.map((line) => `${indent}${line}`)].join("\n")
    })
    .join("\n")
}

const wrap = (text: string, width: number): string[] =>
  text === ""
    ? []
    : Bun.wrapAnsi(text, width, { hard: false })
        .split("\n")
        .map((line) => line.trimEnd())
