/** The `.env` beside mcp.json: values for references and explicit inheritance, never for svc's own environment. */
import { ConfigError } from "../lib/errors.ts"

/**
 * The variables of a `.env` text, as dotenv has them: `export`, comments, quotes (`'…'`, `"…"`, backticks, over several
 * lines; escapes in double quotes only). Throws a ConfigError with the line that is none.
 */
export function parseDotenv(text: string, file: string): Readonly<Record<string, string>> {
  const values: Record<string, string> = Object.create(null)
  const source = text.replace(/^\ufeff/, "").replace(/\r\n?/g, "\n")
  let at = 0
  while (at < source.length) {
    const lineEnd = endOfLine(source, at)
    const line = source.slice(at, lineEnd)
    if (/^\s*(#.*)?$/.test(line)) {
      at = lineEnd + 1
      continue
    }
    const head = /^\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_.-]*)\s*=[^\S\n]*/.exec(line)
    if (head === null) throw malformed(source, at, file, "expected NAME=value")
    const [whole, name = ""] = head
    const start = at + whole.length
    const quote = source[start] ?? ""
    if (quote === '"' || quote === "'" || quote === "`") {
      const close = closing(source, start + 1, quote)
      if (close < 0) throw malformed(source, at, file, `the value of ${name} has no closing ${quote}`)
      const inner = source.slice(start + 1, close)
      values[name] = quote === '"' ? unquote(inner) : inner
      const rest = source.slice(close + 1, endOfLine(source, close))
      if (!/^\s*(#.*)?$/.test(rest))
        throw malformed(source, close, file, `there is text after the closing quote of ${name}`)
      at = endOfLine(source, close) + 1
    } else {
      values[name] = source
        .slice(start, lineEnd)
        .replace(/(^|\s)#.*$/, "")
        .trim()
      at = lineEnd + 1
    }
  }
  return values
}

// ---

function endOfLine(text: string, from: number): number {
  const at = text.indexOf("\n", from)
  return at < 0 ? text.length : at
}

function closing(text: string, from: number, quote: string): number {
  for (let at = from; at < text.length; at++) {
    if (text[at] === "\\" && quote === '"') at++
    else if (text[at] === quote) return at
  }
  return -1
}

const ESCAPES: Readonly<Record<string, string>> = { n: "\n", r: "\r", t: "\t", '"': '"', "\\": "\\" }

const unquote = (text: string): string => text.replace(/\\(.)/gs, (whole, char: string) => ESCAPES[char] ?? whole)

function malformed(text: string, at: number, file: string, message: string): ConfigError {
  const line = text.slice(0, at).split("\n").length
  return new ConfigError([{ code: "dotenv", severity: "error", file, line, column: 1, message }])
}
