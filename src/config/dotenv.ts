/** The `.env` beside mcp.json: values for references and explicit inheritance, never for svc's own environment. */
import { ConfigError, RequestError } from "../lib/errors.ts"

/**
 * The variables of a `.env` text, read as dotenv reads it: `export`, comments (from any `#` outside of quotes on), and
 * quotes (`'…'`, `"…"`, backticks) over several lines. In double quotes `\n`, `\r` and `\"` are escapes, and no other
 * backslash is: it is a Windows path's. Where dotenv ignores a line that is none, this throws a ConfigError with its place.
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
          : `there is text after the closing ${after[0]} of ${name}`,
      )
    values[name] = quote === undefined ? value.trim() : after[0] === '"' ? unescaped(value) : value
    rest = after.slice(whole.length)
  }
  return values
}

/**
 * The text with these variables behind what is there, written so that they are read as they are. Throws a ConfigError
 * where the text is none, and a RequestError where a value cannot be written.
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

/** The first way to write a value that is read as it is. */
function quoted(name: string, value: string): string {
  const spellings = [value, `'${value}'`, `"${value.replaceAll('"', '\\"').replaceAll("\n", "\\n")}"`, `\`${value}\``]
  const reads = (spelling: string): boolean => {
    try {
      const read = parseDotenv(`${name}=${spelling}\n`, "")
      return read[name] === value && Object.keys(read).length === 1
    } catch {
      return false
    }
  }
  return (
    (value === "" || value.trim() !== value ? undefined : spellings.find(reads)) ?? spellings.slice(1).find(reads) ?? ""
  )
}

const HEAD = /^[^\S\n]*(?:export[^\S\n]+)?([A-Za-z_][A-Za-z0-9_.-]*)(?:[^\S\n]*=|:(?=\s))[^\S\n]*/
const BARE = /^([^#\n]*)(?:#.*)?(?:\n|$)/
/** An escaped quote does not close, unless nothing else can. */
const QUOTED: Readonly<Record<string, RegExp>> = {
  '"': /^"((?:\\"|[^"])*)"[^\S\n]*(?:#.*)?(?:\n|$)/,
  "'": /^'((?:\\'|[^'])*)'[^\S\n]*(?:#.*)?(?:\n|$)/,
  "`": /^`((?:\\`|[^`])*)`[^\S\n]*(?:#.*)?(?:\n|$)/,
}

const unescaped = (text: string): string => text.replaceAll("\\n", "\n").replaceAll("\\r", "\r").replaceAll('\\"', '"')
