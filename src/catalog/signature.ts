/**
 * Writes tools for a model in few tokens: a tool's parameters as `path*: str, head?: int`, and texts on one line. Texts of
 * servers are data: on one line and without control characters, they cannot imitate the structure around them.
 */
import { canStep, type Steps, stepsOf } from "../lib/steps.ts"
import { cutText } from "../lib/text.ts"
import { asText, isObject, type Params } from "../wire/message.ts"
import type { Tool } from "./listing.ts"

export type Detail = "name" | "summary" | "full"

/** Writes a tool on one line, within HIT_TOKENS and HIT_CHARACTERS unless `detail` is "full". */
export function lineOf(tool: Tool, detail: Detail): string {
  if (detail === "full") return jsonLine(tool)
  const head = `- ${oneLine(tool.name, NAME_TOKENS_OF_HIT)}`
  if (detail === "name") return head
  const mark = isReadOnly(tool) ? " [read-only]" : ""
  const room = HIT_TOKENS - tokensIn(head) - tokensIn(mark) - 3
  const written = typeof tool.description === "string" ? tool.description : asText(tool.title ?? "")
  const description = cutText(written, MAX_TEXT)
  // The parameters take two thirds at most, unless the description is short.
  const about = oneLine(firstSentence(description), Math.max(room, 0))
  const signature = signatureOf(tool.inputSchema, Math.max(Math.floor((room * 2) / 3), room - tokensIn(about)))
  const rest = room - tokensIn(signature)
  const text = rest < 3 ? "" : oneLine(firstSentence(description), rest)
  const start = `${head}(${signature})${mark}`
  const line = text === "" ? start : `${start}: ${text}`
  return line.length <= HIT_CHARACTERS ? line : `${cutText(line, Math.max(start.length, HIT_CHARACTERS - 1))}…`
}

/** Returns JSON text on one line for any reader. Escapes separators, and characters that hide or reorder others. */
export const jsonLine = (value: unknown): string =>
  JSON.stringify(value).replace(INVISIBLE, (found) =>
    [...Array(found.length).keys()].map((at) => `\\u${found.charCodeAt(at).toString(16).padStart(4, "0")}`).join(""),
  )

/** Whether a tool is annotated read-only. */
export const isReadOnly = ({ annotations }: Tool): boolean => isObject(annotations) && annotations.readOnlyHint === true

/** The parameters that a schema names. */
export type Parameters = {
  readonly properties: ReadonlyMap<string, unknown>
  /** Required in every case. */
  readonly required: ReadonlySet<string>
  /** Whether the schema allows other parameters. */
  readonly isOpen: boolean
}

/** Returns the parameters of a schema, including those from `$ref`, `allOf`, `anyOf` and `oneOf`. */
export function parametersOf(schema: unknown, root: Params = isObject(schema) ? schema : {}): Parameters {
  return collectParameters(schema, root, { schemas: stepsOf(MAX_SCHEMAS), members: stepsOf(MAX_PARAMETERS) })
}

/** Returns the parameters of an input schema, required ones first, in at most `room` tokens. */
export function signatureOf(schema: unknown, room: number): string {
  const root = isObject(schema) ? schema : {}
  const { properties, required } = parametersOf(root)
  const parts: string[] = []
  const steps = stepsOf(MAX_TYPES)
  let left = room
  for (const [name, value] of requiredFirst(properties, required)) {
    const mark = required.has(name) ? "*" : "?"
    const part = `${oneLine(name, NAME_TOKENS)}${mark}: ${typeOf(value, { root, steps }, 0)}`
    left -= tokensIn(part) + 1
    if (left < 0) return [...parts, "…"].join(", ")
    parts.push(part)
  }
  return parts.join(", ")
}

/** Returns a text on one line, cut at a word to at most `room` tokens, without control and format characters. */
export function oneLine(text: string, room: number): string {
  const line = cutText(text, MAX_TEXT).toWellFormed().replace(UNPRINTABLE, " ").replace(/ {2,}/g, " ").trim()
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

/** Returns the first sentence of a text; the whole text if no sentence ends in it. */
export const firstSentence = (text: string): string => /^[\s\S]*?[.!?](?=\s|$)/.exec(text.trimStart())?.[0] ?? text

/** Estimates the tokens of a text; the estimate is rarely too low. */
function tokensIn(text: string): number {
  let tokens = 0
  for (const [piece] of text.matchAll(PIECES)) {
    if (/^[A-Za-z]/.test(piece)) tokens += Math.ceil(piece.length / lettersPerToken(piece))
    else if (/^[0-9]/.test(piece)) tokens += Math.ceil(piece.length / 3)
    else if (piece.charCodeAt(0) < 128) tokens += piece.length > 1 && !USUAL.test(piece) ? 2 : 1
    else if (piece.length === 2) tokens += 3
    else if (MARK.test(piece)) tokens += 2
    else tokens += Buffer.byteLength(piece) > 2 && !EAST_ASIAN.test(piece) ? 3 : 1.5
  }
  return Math.ceil(tokens)
}

/** Returns a schema, or the target of its local reference; undefined if it is not an object. */
export function resolvedSchema(value: unknown, root: Params): Params | undefined {
  if (!isObject(value) || typeof value.$ref !== "string") return isObject(value) ? value : undefined
  if (!value.$ref.startsWith("#/") || value.$ref.length > MAX_REFERENCE) return undefined
  let found: unknown = root
  for (const step of value.$ref.slice(2).split("/")) found = isObject(found) ? found[step] : undefined
  return isObject(found) ? found : undefined
}

// ---

const MAX_TEXT = 4000
/** The most schemas within a schema that are read for its parameters: references may be circular. */
const MAX_SCHEMAS = 200
/** The most parameters that are collected from these schemas, each as often as a schema contains it. */
const MAX_PARAMETERS = 20_000
/** The most schemas that are read for the types in one signature. */
const MAX_TYPES = 1000
/** Names of members that are read in the time of one schema. */
const NAMES_PER_STEP = 100
/** The longest reference that svc follows, in characters. */
const MAX_REFERENCE = 1000
const NAME_TOKENS = 16
const MAX_CHOICES = 5
const MAX_MEMBERS = 5
const HIT_TOKENS = 60
const NAME_TOKENS_OF_HIT = HIT_TOKENS - 8
const HIT_CHARACTERS = 210
const INVISIBLE = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu
const UNPRINTABLE = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\s]+/gu
/** Words as tokenizers split them: at changes of case, and punctuation in runs of two. */
const PIECES = /[A-Z]?[a-z]+|[A-Z]+|[0-9]+|[^\sA-Za-z0-9\x80-\u{10ffff}]{1,2}|[\x80-\u{10ffff}]/gu

const EAST_ASIAN = /[\u2010-\u2027\u3000-\u30ff\u4e00-\u9fff\uac00-\ud7af]/
/** Punctuation that is one token in pairs. */
const USUAL = /^(?:(.)\1|["'([{<*.,:;)\]}>=/_-]+)$/
const MARK = /\p{M}/u
const UNPRONOUNCEABLE = /[^aeiouy]{5}|^[^aeiouy]{4,}$/i
/** Words of two letters that are one token; other pairs of letters are two. */
const SHORT = /^(?:[aio][a-z]|[b-hj-np-z][aeiou]|by|my|db|md|js|ts|py|kb|mb|gb|ms|px|vs|tv|pr|ci|cd|ux)$/i

/** Returns the number of letters per token of a piece: tokenizers split long and unusual pieces. */
function lettersPerToken(piece: string): number {
  if (UNPRONOUNCEABLE.test(piece) || (piece.length === 2 && !SHORT.test(piece))) return 1.5
  return piece.length > 14 ? 3 : 7
}

const TYPES: Readonly<Record<string, string>> = {
  string: "str",
  integer: "int",
  number: "num",
  boolean: "bool",
  object: "obj",
  array: "list",
}

function collectParameters(
  schema: unknown,
  root: Params,
  budget: { readonly schemas: Steps; readonly members: Steps },
): Parameters {
  const own = resolvedSchema(schema, root)
  if (own === undefined || budget.members.left <= 0 || !canStep(budget.schemas)) return UNREAD
  const within = (key: string) => {
    const value = own[key]
    return (Array.isArray(value) ? value : []).map((one: unknown) => collectParameters(one, root, budget))
  }
  const all = within("allOf")
  // Members beside a reference count too.
  if (isObject(schema) && schema !== own) {
    const { $ref, ...beside } = schema
    all.push(collectParameters(beside, root, budget))
  }
  const choices = [within("anyOf"), within("oneOf")].filter(({ length }) => length > 0)
  const parts = [...all, ...choices.flat()]
  const properties = new Map([
    ...Object.entries(isObject(own.properties) ? own.properties : {}),
    ...parts.flatMap((part) => [...part.properties]),
  ])
  budget.members.left -= properties.size
  const required = [
    ...stringsOf(own.required),
    ...all.flatMap((part) => [...part.required]),
    ...choices.flatMap(([first, ...others]) =>
      [...(first?.required ?? [])].filter((name) => others.every((other) => other.required.has(name))),
    ),
  ]
  budget.members.left -= required.length
  const others = own.additionalProperties
  const isOpen =
    others === true ||
    isObject(others) ||
    isObject(own.patternProperties) ||
    (others !== false && !isObject(own.properties) && parts.every((part) => part.isOpen))
  return { properties, required: new Set(required), isOpen }
}

function* requiredFirst(
  properties: ReadonlyMap<string, unknown>,
  required: ReadonlySet<string>,
): Generator<readonly [string, unknown]> {
  for (const isRequired of [true, false])
    for (const entry of properties) if (required.has(entry[0]) === isRequired) yield entry
}

/** The parameters of a schema that is not read. */
const UNREAD: Parameters = { properties: new Map(), required: new Set(), isOpen: true }

function cutWord(word: string, room: number): string {
  let end = Math.min(word.length, room * 4)
  while (end > 0 && tokensIn(word.slice(0, end)) > room - 1) end--
  return `${cutText(word, end)}…`
}

/** What a walk over the types of a schema shares. */
type TypeWalk = { readonly root: Params; readonly steps: Steps }

/** Returns a short name of a schema's type: the values of an enum, and the members of an object one level deep. */
function typeOf(value: unknown, walk: TypeWalk, depth: number, only?: unknown): string {
  const schema = resolvedSchema(value, walk.root)
  if (schema === undefined || depth > 3 || !canStep(walk.steps)) return "any"
  if ("const" in schema) return valueText(schema.const)
  if (Array.isArray(schema.enum)) return listed(schema.enum, MAX_CHOICES, valueText)
  const options = [schema.anyOf, schema.oneOf].find(Array.isArray)
  if (options !== undefined) return listed(options, 3, (one) => typeOf(one, walk, depth + 1))
  const type = only ?? schema.type
  if (Array.isArray(type)) return listed(type, 3, (one) => typeOf(schema, walk, depth + 1, one))
  if (type === "array") return schema.items === undefined ? "list" : `${typeOf(schema.items, walk, depth + 1)}[]`
  if (type === "object" || isObject(schema.properties)) return membersOf(schema, walk, depth)
  return typeof type === "string" ? (TYPES[type] ?? oneLine(type, 4)) : "any"
}

function membersOf(schema: Params, { steps }: TypeWalk, depth: number): string {
  if (depth > 1) return "obj"
  const names = Object.keys(isObject(schema.properties) ? schema.properties : {})
  const required = stringsOf(schema.required)
  if (names.length === 0 || !canStep(steps, Math.ceil((names.length + required.length) / NAMES_PER_STEP))) return "obj"
  const members = names
    .slice(0, MAX_MEMBERS)
    .map((name) => oneLine(name, NAME_TOKENS) + (required.includes(name) ? "*" : ""))
  return `{${[...members, ...(names.length > MAX_MEMBERS ? ["…"] : [])].join(", ")}}`
}

/** Lists the first distinct texts of some values; `…` stands for others. */
function listed(values: readonly unknown[], most: number, textOf: (value: unknown) => string): string {
  const texts = new Set<string>()
  for (const value of values.slice(0, MAX_TYPES)) {
    if (texts.size > most) break
    texts.add(textOf(value))
  }
  const all = [...texts]
  return [...all.slice(0, most), ...(all.length > most ? ["…"] : [])].join("|")
}

const valueText = (value: unknown): string =>
  typeof value === "string" && /^[\w.-]{1,24}$/.test(value) ? value : oneLine(JSON.stringify(value) ?? "any", 6)

const stringsOf = (value: unknown): readonly string[] =>
  Array.isArray(value) ? value.filter((one) => typeof one === "string") : []
