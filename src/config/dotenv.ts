/**
 * The `.env` beside mcp.json: values for references and explicit inheritance, never for svc's own environment. Not
 * `util.parseEnv`, which ignores malformed lines (here they are errors with a line number) and cannot write a file.
 */
import { ConfigError, RequestError } from "../lib/errors.ts"

/**
 * Parses a `.env` text as dotenv does: `export`, comments (after any `#` outside of quotes), and quotes (`'…'`, `"…"`,
 * backticks) over several lines. In double quotes `\n`, `\r` and `\"` are escapes; any other backslash is literal, for
 * Windows paths. Throws a ConfigError with the line of a malformed entry, which dotenv would ignore.
 */
export function parseDotenv(text: string, file: string): Readonly<Record<string, string>> {
  const values: Record<string, string> = Object.create(null)
  for (const { name, value } of entriesOf(text.replace(/^\ufeff/, "").replace(/\r\n?/g, "\n"), file))
    values[name] = value
  return values
}

/**
 * Appends variables to a `.env` text, quoted so that they read back unchanged. Throws a ConfigError if the text is
 * malformed, and a RequestError if a value cannot be written in any quotes.
 */
export function addVariables(text: string, values: Readonly<Record<string, string>>, file: string): string {
  const eol = text.includes("\r\n") ? "\r\n" : "\n"
  let added = text === "" || text.endsWith("\n") ? text : `${text}${eol}`
  for (const [name, value] of Object.entries(values)) added += `${name}=${quoted(name, value)}${eol}`
  const read = parseDotenv(added, file)
  for (const [name, value] of Object.entries(values))
    if (read[name] !== value) throw new RequestError("invalid_params", `the value of ${name} cannot be written to .env`)
  return added
}

/**
 * Returns a `.env` text without the entries of a variable; other entries and comments stay. Throws a ConfigError if the text is
 * malformed.
 */
export function withoutVariable(text: string, name: string, file: string): string {
  const eol = text.includes("\r\n") ? "\r\n" : "\n"
  const source = text.replace(/\r\n?/g, "\n")
  const mark = source.startsWith("\ufeff") ? "\ufeff" : ""
  let rest = source.slice(mark.length)
  for (const entry of [...entriesOf(rest, file)].reverse())
    if (entry.name === name) rest = rest.slice(0, entry.start) + rest.slice(entry.end)
  return (mark + rest).replaceAll("\n", eol)
}

// ---

/** An entry of a `.env`, with its place in the text. */
type Entry = { readonly name: string; readonly value: string; readonly start: number; readonly end: number }

/** Returns the entries of a text whose lines end in `\n`. Throws a ConfigError with the line of a malformed entry. */
function entriesOf(source: string, file: string): readonly Entry[] {
  const entries: Entry[] = []
  let rest = source
  const malformed = (message: string) => {
    const line = source.slice(0, source.length - rest.length).split("\n").length
    return new ConfigError([{ code: "dotenv", severity: "error", file, line, column: 1, message }])
  }
  while (rest !== "") {
    const blank = /^[^\S\n]*(?:#.*)?(?:\n|$)/.exec(rest)
    if (blank !== null) {
      rest = rest.slice(blank[0].length)
      continue
    }
    const [head, name = ""] = HEAD.exec(rest) ?? []
    if (head === undefined) throw malformed("expected NAME=value")
    const after = rest.slice(head.length)
    const quote = QUOTED[after[0] ?? ""]
    const [whole, value = ""] = (quote ?? BARE).exec(after) ?? []
    if (whole === undefined)
      throw malformed(
        after.indexOf(after[0] ?? "", 1) < 0
          ? `the value of ${name} has no closing ${after[0]}`
          : `unexpected text after the closing ${after[0]} of ${name}`,
      )
    const text = quote === undefined ? value.trim() : unquoted(value, after[0])
    // No process takes a NUL, and a terminal obeys the others.
    if (CONTROL.test(text)) throw malformed(`the value of ${name} contains a control character`)
    entries.push({
      name,
      value: text,
      start: source.length - rest.length,
      end: source.length - rest.length + head.length + whole.length,
    })
    rest = after.slice(whole.length)
  }
  return entries
}

/** Returns the first spelling of a value that reads back unchanged; an empty text if there is none. */
function quoted(name: string, value: string): string {
  const spellings = [
    value,
    `'${value}'`,
    `"${value.replaceAll('"', '\\"').replaceAll("\n", "\\n").replaceAll("\r", "\\r")}"`,
    `\`${value}\``,
  ]
  const readsBack = (spelling: string): boolean => {
    try {
      const read = parseDotenv(`${name}=${spelling}\n`, "")
      return read[name] === value && Object.keys(read).length === 1
    } catch {
      return false
    }
  }
  return (
    (value === "" || value.trim() !== value ? undefined : spellings.find(readsBack)) ??
    spellings.slice(1).find(readsBack) ??
    ""
  )
}

/** Control characters, except tabs and line breaks: keys in PEM form have several lines. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: the pattern matches them
export const CONTROL = /[\0-\x08\x0b\x0c\x0e-\x1f\x7f]/
const HEAD = /^[^\S\n]*(?:export[^\S\n]+)?([A-Za-z_][A-Za-z0-9_.-]*)(?:[^\S\n]*=|:(?=\s))[^\S\n]*/
const BARE = /^([^#\n]*)(?:#.*)?(?:\n|$)/
/** An escaped quote closes the value only if no other quote does. */
const QUOTED: Readonly<Record<string, RegExp>> = {
  '"': /^"((?:\\"|[^"])*)"[^\S\n]*(?:#.*)?(?:\n|$)/,
  "'": /^'((?:\\'|[^'])*)'[^\S\n]*(?:#.*)?(?:\n|$)/,
  "`": /^`((?:\\`|[^`])*)`[^\S\n]*(?:#.*)?(?:\n|$)/,
}

/** Returns the text between quotes with the escapes of double quotes replaced. */
const unquoted = (text: string, quote: string | undefined): string => (quote === '"' ? unescaped(text) : text)

const unescaped = (text: string): string => text.replaceAll("\\n", "\n").replaceAll("\\r", "\r").replaceAll('\\"', '"')
