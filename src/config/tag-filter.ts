/**
 * Boolean expressions over tags, as in `tag-filter=` and presets: `web and not (slow or "beta tools")`.
 *
 *   or    := and ( ("or" | "|" | "||") and )*
 *   and   := not ( ("and" | "&" | "&&") not )*
 *   not   := ("not" | "!") not | "(" or ")" | tag
 *   tag   := word | "quoted" | 'quoted'          a backslash in quotes escapes the next character
 *
 * The three words are keywords in any case; a tag of that name must be quoted. Tags are compared exactly.
 */

/** A parsed expression. */
export type TagFilter =
  | { readonly kind: "tag"; readonly tag: string }
  | { readonly kind: "not"; readonly of: TagFilter }
  /** An empty `and` matches everything, an empty `or` nothing. */
  | { readonly kind: "and" | "or"; readonly of: readonly TagFilter[] }

/** A syntax error: its column, from 1, and a message. */
export type FilterSyntaxProblem = { readonly column: number; readonly message: string }

/** Parses an expression of at most 2000 characters and 50 nested brackets. */
export function parseFilter(text: string): { readonly filter: TagFilter } | { readonly problem: FilterSyntaxProblem } {
  if (text.length > MAX_LENGTH)
    return { problem: { column: MAX_LENGTH + 1, message: `is longer than ${MAX_LENGTH} characters` } }
  try {
    return { filter: readGroup({ tokens: tokenize(text), at: 0 }, 0) }
  } catch (error) {
    if (error instanceof FilterSyntaxError) return { problem: error.problem }
    throw error
  }
}

/** Returns one sentence about a syntax error; `subject` names the expression. */
export const formatFilterProblem = (subject: string, { column, message }: FilterSyntaxProblem): string =>
  `${subject} is invalid at column ${column}: ${message}`

/** Whether the tags of a server match. */
export function matchesFilter(filter: TagFilter, tags: readonly string[]): boolean {
  switch (filter.kind) {
    case "tag":
      return tags.includes(filter.tag)
    case "not":
      return !matchesFilter(filter.of, tags)
    case "and":
      return filter.of.every((inner) => matchesFilter(inner, tags))
    case "or":
      return filter.of.some((inner) => matchesFilter(inner, tags))
  }
}

/** Returns the filter that matches if all of `filters` match. */
export function allOf(filters: readonly TagFilter[]): TagFilter {
  const parts = filters.flatMap((filter) => (filter.kind === "and" ? filter.of : [filter]))
  const [only] = parts
  return parts.length === 1 && only !== undefined ? only : { kind: "and", of: parts }
}

/** Returns the canonical text of a filter, which parses to the same filter; empty for a filter that matches everything. */
export function printFilter(filter: TagFilter): string {
  return print(filter, "or")
}

/** Returns the tags that a filter names. */
export function tagsOf(filter: TagFilter): readonly string[] {
  const all = (inner: TagFilter): readonly string[] => {
    if (inner.kind === "tag") return [inner.tag]
    return inner.kind === "not" ? all(inner.of) : inner.of.flatMap(all)
  }
  return [...new Set(all(filter))]
}

// ---

const MAX_LENGTH = 2000
const MAX_DEPTH = 50

type FilterToken = {
  readonly kind: "tag" | "and" | "or" | "not" | "(" | ")" | "end"
  readonly text: string
  readonly column: number
}
type Reader = { readonly tokens: readonly FilterToken[]; at: number }

class FilterSyntaxError extends Error {
  constructor(readonly problem: FilterSyntaxProblem) {
    super(problem.message)
  }
}

const OPERATORS: Readonly<Record<string, FilterToken["kind"]>> = {
  "(": "(",
  ")": ")",
  "!": "not",
  "&": "and",
  "&&": "and",
  "|": "or",
  "||": "or",
}
/** A tag that needs no quotes. */
const BARE = /^[^\s()&|!"',]+$/u
const OPERATOR_WORDS: readonly string[] = ["and", "or", "not"] satisfies FilterToken["kind"][]

function tokenize(text: string): FilterToken[] {
  const tokens: FilterToken[] = []
  for (const match of text.matchAll(
    /\s+|&&?|\|\|?|[()!]|"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|[^\s()&|!"',]+|./gsu,
  )) {
    const [whole] = match
    const quoted = match[1] ?? match[2]
    const column = match.index + 1
    const kind = Object.hasOwn(OPERATORS, whole) ? OPERATORS[whole] : undefined
    if (/^\s/.test(whole)) continue
    if (kind !== undefined) tokens.push({ kind, text: whole, column })
    else if (quoted !== undefined) tokens.push({ kind: "tag", text: quoted.replace(/\\(.)/gsu, "$1"), column })
    else if (whole === ",")
      throw new FilterSyntaxError({ column, message: 'found ","; write "or" between alternative tags' })
    else if (whole === '"' || whole === "'") throw new FilterSyntaxError({ column, message: "a quote is not closed" })
    else {
      const word = OPERATOR_WORDS.find((one) => one === whole.toLowerCase()) as FilterToken["kind"] | undefined
      tokens.push({ kind: word ?? "tag", text: whole, column })
    }
  }
  return [...tokens, { kind: "end", text: "", column: text.length + 1 }]
}

const peek = ({ tokens, at }: Reader): FilterToken => tokens[Math.min(at, tokens.length - 1)] as FilterToken

/** Reads an expression inside `depth` brackets, and the token that ends it. */
function readGroup(reader: Reader, depth: number): TagFilter {
  const { column } = peek(reader)
  if (depth > MAX_DEPTH) throw new FilterSyntaxError({ column, message: `more than ${MAX_DEPTH} nested brackets` })
  const filter = readList(reader, "or", () => readList(reader, "and", () => readOne(reader, depth)))
  const [end, name] = depth === 0 ? (["end", "the end"] as const) : ([")", '")"'] as const)
  if (peek(reader).kind !== end) throw unexpected(`"and", "or" or ${name}`, peek(reader))
  reader.at++
  return filter
}

function readList(reader: Reader, kind: "and" | "or", read: () => TagFilter): TagFilter {
  const first = read()
  const of = [first]
  while (peek(reader).kind === kind) {
    reader.at++
    of.push(read())
  }
  return of.length === 1 ? first : { kind, of }
}

function readOne(reader: Reader, depth: number): TagFilter {
  let negated = false
  for (; peek(reader).kind === "not"; reader.at++) negated = !negated
  const token = peek(reader)
  if (token.kind !== "tag" && token.kind !== "(") throw unexpected('a tag, "not" or "("', token)
  reader.at++
  const one: TagFilter = token.kind === "tag" ? { kind: "tag", tag: token.text } : readGroup(reader, depth + 1)
  return negated ? { kind: "not", of: one } : one
}

function unexpected(what: string, { kind, text, column }: FilterToken): FilterSyntaxError {
  return new FilterSyntaxError({
    column,
    message: `expected ${what}, found ${kind === "end" ? "the end" : `"${text}"`}`,
  })
}

/** Prints a filter as an operand of the operator `around`, in brackets if it binds less tightly. */
function print(filter: TagFilter, around: "or" | "and" | "not"): string {
  switch (filter.kind) {
    case "tag":
      return BARE.test(filter.tag) && !OPERATOR_WORDS.includes(filter.tag.toLowerCase())
        ? filter.tag
        : `"${filter.tag.replace(/["\\]/g, "\\$&")}"`
    case "not":
      return `not ${print(filter.of, "not")}`
    case "and":
    case "or": {
      const [only, ...others] = filter.of
      if (only !== undefined && others.length === 0) return print(only, around)
      const text = filter.of.map((inner) => print(inner, filter.kind)).join(` ${filter.kind} `)
      const loose = around === "not" || (around === "and" && filter.kind === "or")
      return loose ? `(${text})` : text
    }
  }
}
