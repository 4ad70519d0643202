/**
 * Substitutes references in configured text: `$NAME`, `${NAME}`, `${env:NAME}` as Cursor and VS Code write it, and those with a scheme,
 * such as `${keychain:NAME}`.
 * spec: Environment substitution; choice: `$$`, `${NAME:-default}`.
 */
export type Substituted = {
  readonly text: string
  /** The names of unset variables. */
  readonly missing: readonly string[]
  /** The values of references, which may be secret. */
  readonly values: readonly string[]
}

/** A reference as written: `name` is that of a variable, or `scheme:rest`. */
type Reference = { readonly name: string; readonly fallback: string | undefined }

/** A piece of a text. */
export type TextPart =
  /** `foreign`: it begins with a `${` that is no reference. */
  | { readonly kind: "text"; readonly text: string; readonly foreign?: boolean }
  /** `$$`, which stands for one `$`. */
  | { readonly kind: "dollar" }
  | ({ readonly kind: "reference"; readonly text: string } & Reference)

/**
 * Replaces the references in `text` once: references in values stay. Any other `$` stays. A default may contain references; they are
 * looked up only where the default is used.
 */
export function substitute(text: string, lookup: (name: string) => string | undefined): Substituted {
  if (!text.includes("$")) return { text, missing: [], values: [] }
  const missing: string[] = []
  const values: string[] = []
  const resolved = ({ name, fallback }: Reference, depth: number): string => {
    const found = lookup(name)
    // As in a shell, `:-` also stands in for an empty value.
    if (fallback !== undefined && (found === undefined || found === "")) return written(fallback, depth + 1)
    if (found === undefined) {
      missing.push(name)
      return ""
    }
    if (found !== "" && found !== fallback) values.push(found)
    return found
  }
  const textOf = (part: TextPart, depth: number): string => {
    if (part.kind === "reference") return resolved(part, depth)
    return part.kind === "dollar" ? "$" : part.text
  }
  const written = (inner: string, depth: number): string =>
    depth > MAX_DEPTH
      ? inner
      : partsOf(inner)
          .map((part) => textOf(part, depth))
          .join("")
  return { text: written(text, 0), missing, values }
}

/**
 * Returns text that a user typed in the syntax of mcp.json. A `$` is text, as in the password `s3c$ret$$`, except in a reference
 * in braces, and in `$NAME` as the whole text. `$${` stays: it is the way to write `${` itself.
 */
export function escapeTyped(text: string): string {
  if (WHOLE_NAME.test(text)) return text
  let at = 0
  return partsOf(text)
    .map((part) => {
      const written = part.kind === "dollar" ? "$$" : part.text
      at += written.length
      if (part.kind === "text" || written.startsWith("${")) return written
      if (part.kind === "reference") return `$${written}`
      const next = text[at] ?? ""
      if (next === "{") return written
      return /[$A-Za-z_]/.test(next) ? "$$$$" : "$$$"
    })
    .join("")
}

/** Returns each `${…` of a text that is neither a reference nor escaped, up to its `}`: it stays as written. */
export const foreignReferences = (text: string): readonly string[] =>
  partsOf(text).flatMap((part) => (part.kind === "text" && part.foreign ? [part.text] : []))

/** Whether a text is only references without defaults, perhaps after a scheme such as `Bearer`: then it has no secret of its own. */
export const isOnlyReferences = (text: string): boolean =>
  partsOf(text.replace(SCHEME_WORD, "")).every((part) => part.kind === "reference" && part.fallback === undefined)

/** Returns the start and the end of each reference in a text. */
export function referenceSpans(text: string): readonly (readonly [start: number, end: number])[] {
  let end = 0
  return partsOf(text).flatMap((part) => {
    const start = end
    end += part.kind === "dollar" ? "$$".length : part.text.length
    return part.kind === "reference" ? [[start, end] as const] : []
  })
}

/** Returns the literal parts of a text: what is not a reference, and the defaults of references. */
export const literalsIn = (text: string): readonly string[] =>
  partsOf(text).flatMap((part) => {
    if (part.kind === "reference") return part.fallback === undefined ? [] : literalsIn(part.fallback)
    return [part.kind === "dollar" ? "$" : part.text]
  })

/** Returns the names of the variables that a text refers to. */
export function referencesIn(text: string): readonly string[] {
  const names: string[] = []
  substitute(text, (name) => {
    names.push(name)
    return ""
  })
  return names
}

/** Cuts a text into references and the text between them, in linear time. */
export function partsOf(text: string): readonly TextPart[] {
  const ends = bracesOf(text)
  const parts: TextPart[] = []
  let from = 0
  const add = (part: TextPart, at: number, end: number) => {
    if (at > from) parts.push({ kind: "text", text: text.slice(from, at) })
    parts.push(part)
    from = end
  }
  for (let at = text.indexOf("$"); at >= 0; at = text.indexOf("$", Math.max(from, at + 1))) {
    const next = text[at + 1]
    if (next === "$") add({ kind: "dollar" }, at, at + 2)
    else if (next === "{") {
      const end = ends.get(at)
      if (end === undefined) {
        add({ kind: "text", text: "${", foreign: true }, at, at + 2)
        continue
      }
      const inside = text.slice(at + 2, end)
      const [, name, fallback] = INSIDE.exec(inside) ?? SCHEME.exec(inside) ?? []
      const whole = text.slice(at, end + 1)
      // The second brace of `${{ secrets.X }}` belongs to it.
      const last = inside.startsWith("{") && text[end + 1] === "}" ? end + 2 : end + 1
      if (name !== undefined) add({ kind: "reference", text: whole, name, fallback }, at, end + 1)
      // References within it are references.
      else if (inside.includes("$")) add({ kind: "text", text: "${", foreign: true }, at, at + 2)
      else add({ kind: "text", text: text.slice(at, last), foreign: true }, at, last)
    } else {
      BARE.lastIndex = at + 1
      const name = BARE.exec(text)?.[0]
      if (name !== undefined)
        add({ kind: "reference", text: `$${name}`, name, fallback: undefined }, at, at + 1 + name.length)
    }
  }
  if (from < text.length) parts.push({ kind: "text", text: text.slice(from) })
  return parts
}

// ---

/** Defaults within defaults. */
const MAX_DEPTH = 16
const WHOLE_NAME = /^\$[A-Za-z_]\w*$/
/** The scheme of a header before its credentials. */
const SCHEME_WORD = /^[A-Za-z][\w-]{0,31} (?=\$)/
const BARE = /[A-Za-z_]\w*/y
/** The inside of `${…}`. VS Code's prompts (`${input:…}`) count as missing, rather than reach a server literally. */
const INSIDE = /^(?:env:)?([A-Za-z_]\w*)(?::-([\s\S]*))?$/
const SCHEME = /^((?:input|command):[\s\S]+|(?:keychain|file|cmd):[\s\S]*)$/

/**
 * Returns the place of the `}` that closes each `${`. Other braces do not nest, as in a shell, and those within quotes of a command do
 * not count, unless a quote is not closed.
 */
function bracesOf(text: string): ReadonlyMap<number, number> {
  const ends = new Map<number, number>()
  return closeBraces(text, ends, text.includes("${cmd:")) ? ends : bracesWithoutQuotes(text)
}

function bracesWithoutQuotes(text: string): ReadonlyMap<number, number> {
  const ends = new Map<number, number>()
  closeBraces(text, ends, false)
  return ends
}

/** Finds the closing braces. Returns false if the quotes of a command count and one is not closed. */
function closeBraces(text: string, ends: Map<number, number>, quotesCount: boolean): boolean {
  const open: { readonly start: number; readonly isCommand: boolean }[] = []
  let quote: string | undefined
  for (let at = 0; at < text.length; at++) {
    const char = text.charAt(at)
    const isCommand = open.at(-1)?.isCommand === true
    // As `commandWords` reads them.
    if (isCommand && char === "\\" && quote !== "'" && /[\s"'\\]/.test(text.charAt(at + 1))) at++
    else if (quote !== undefined) quote = char === quote ? undefined : quote
    else if (isCommand && (char === '"' || char === "'")) quote = char
    else if (char === "$") {
      if (text[at + 1] === "{") {
        open.push({ start: at, isCommand: quotesCount && text.startsWith("cmd:", at + 2) })
        at++
      } else if (text[at + 1] === "$") at++
    } else if (char === "}") {
      const start = open.pop()?.start
      if (start !== undefined) ends.set(start, at)
    }
  }
  return quote === undefined && !open.some(({ isCommand }) => isCommand)
}
