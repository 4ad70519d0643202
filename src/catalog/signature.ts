/**
 * Writes tools for a model in few tokens: a tool's parameters as `path*: str, head?: int`, and texts on one line. Texts of
 * servers are data: on one line and without control characters, they cannot pass for the structure around them.
 */
import { isObject, type Params } from "../wire/message.ts"

/** Returns the parameters of an input schema, required ones first, in at most `room` tokens. */
export function signatureOf(schema: unknown, room: number): string {
  const root = isObject(schema) ? schema : {}
  const properties = isObject(root.properties) ? Object.entries(root.properties) : []
  const required = stringsOf(root.required)
  const isRequired = ([name]: readonly [string, unknown]) => required.includes(name)
  const sorted = [...properties.filter(isRequired), ...properties.filter((entry) => !isRequired(entry))]
  const parts: string[] = []
  let left = room
  for (const [name, value] of sorted) {
    const mark = required.includes(name) ? "*" : "?"
    const part = `${oneLine(name, NAME_TOKENS)}${mark}: ${typeOf(value, root, 0)}`
    left -= tokensIn(part) + 1
    if (left < 0) return [...parts, "…"].join(", ")
    parts.push(part)
  }
  return parts.join(", ")
}

/** Returns a text on one line, cut at a word to at most `room` tokens, without control and format characters. */
export function oneLine(text: string, room: number): string {
  const line = text.slice(0, MAX_TEXT).replace(UNPRINTABLE, " ").replace(/ {2,}/g, " ").trim()
  if (tokensIn(line) <= room) return line
  const words = line.split(" ")
  let left = room - 1
  const kept = words.slice(
    0,
    words.findIndex((word) => {
      left -= tokensIn(word)
      return left < 0
    }),
  )
  return kept.length === 0 ? cutWord(line, room) : `${kept.join(" ")}…`
}

/** Returns the first sentence of a text; all of it if it has none that ends. */
export const firstSentence = (text: string): string => /^[\s\S]*?[.!?](?=\s|$)/.exec(text.trimStart())?.[0] ?? text

/** Returns an estimate of the tokens of a text, which is rarely too low. */
export function tokensIn(text: string): number {
  let tokens = 0
  for (const [piece] of text.matchAll(PIECES)) {
    if (/^[A-Za-z]/.test(piece)) tokens += Math.ceil(piece.length / (piece.length > 14 ? 3 : 7))
    else if (/^[0-9]/.test(piece)) tokens += Math.ceil(piece.length / 3)
    else if (piece.length === 2 && piece.charCodeAt(0) > 127) tokens += 3
    else tokens += piece.charCodeAt(0) < 128 ? 1 : 1.5
  }
  return Math.ceil(tokens)
}

/** Returns the value of a schema, or what its local reference leads to. */
export function resolvedSchema(value: unknown, root: Params): Params | undefined {
  if (!isObject(value) || typeof value.$ref !== "string") return isObject(value) ? value : undefined
  if (!value.$ref.startsWith("#/")) return undefined
  let found: unknown = root
  for (const step of value.$ref.slice(2).split("/")) found = isObject(found) ? found[step] : undefined
  return isObject(found) ? found : undefined
}

// ---

const MAX_TEXT = 4000
const NAME_TOKENS = 16
const MAX_CHOICES = 5
const MAX_MEMBERS = 5
const UNPRINTABLE = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\s]+/gu
/** Words as tokenizers split them: at changes of case, and punctuation in runs of two. */
const PIECES = /[A-Z]?[a-z]+|[A-Z]+|[0-9]+|[^\sA-Za-z0-9\x80-\u{10ffff}]{1,2}|[\x80-\u{10ffff}]/gu

const TYPES: Readonly<Record<string, string>> = {
  string: "str",
  integer: "int",
  number: "num",
  boolean: "bool",
  object: "obj",
  array: "list",
}

function cutWord(word: string, room: number): string {
  let end = Math.min(word.length, room * 4)
  while (end > 0 && tokensIn(word.slice(0, end)) > room - 1) end--
  return `${word.slice(0, end)}…`
}

/** Returns the short name of a schema's type: an enum's values, and the members of an object one level deep. */
function typeOf(value: unknown, root: Params, depth: number): string {
  const schema = resolvedSchema(value, root)
  if (schema === undefined || depth > 3) return "any"
  if ("const" in schema) return shownValue(schema.const)
  if (Array.isArray(schema.enum)) return listed(schema.enum.map(shownValue), MAX_CHOICES)
  const options = [schema.anyOf, schema.oneOf].find(Array.isArray)
  if (options !== undefined)
    return listed(
      options.map((one: unknown) => typeOf(one, root, depth + 1)),
      3,
    )
  if (Array.isArray(schema.type))
    return listed(
      schema.type.map((type) => typeOf({ ...schema, type }, root, depth + 1)),
      3,
    )
  if (schema.type === "array") return schema.items === undefined ? "list" : `${typeOf(schema.items, root, depth + 1)}[]`
  if (schema.type === "object" || isObject(schema.properties)) return membersOf(schema, depth)
  return typeof schema.type === "string" ? (TYPES[schema.type] ?? oneLine(schema.type, 4)) : "any"
}

function membersOf(schema: Params, depth: number): string {
  const names = Object.keys(isObject(schema.properties) ? schema.properties : {})
  if (names.length === 0 || depth > 1) return "obj"
  const required = stringsOf(schema.required)
  const shown = names
    .slice(0, MAX_MEMBERS)
    .map((name) => oneLine(name, NAME_TOKENS) + (required.includes(name) ? "*" : ""))
  return `{${[...shown, ...(names.length > MAX_MEMBERS ? ["…"] : [])].join(", ")}}`
}

const listed = (texts: readonly string[], most: number): string => {
  const all = [...new Set(texts)]
  return [...all.slice(0, most), ...(all.length > most ? ["…"] : [])].join("|")
}

const shownValue = (value: unknown): string =>
  typeof value === "string" && /^[\w.-]{1,24}$/.test(value) ? value : oneLine(JSON.stringify(value) ?? "any", 6)

const stringsOf = (value: unknown): readonly string[] =>
  Array.isArray(value) ? value.filter((one) => typeof one === "string") : []
