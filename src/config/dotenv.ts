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
  const source = text.replace(/^\ufeff/, "").replace(/\r\n?/g, "\n")
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
    values[name] = text
    rest = after.slice(whole.length)
  }
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

// ---

/** Returns the first spelling of a value that reads back unchanged; an empty text if there is none. */
function quoted(name: string, value: string): string {
  const spellings = [value, `'${value}'`, `"${value.replaceAll('"', '\\"').replaceAll("\n", "\\n")}"`, `\`${value}\``]
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
