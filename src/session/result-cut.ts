/**
 * Shortens a structured result so that it stays valid against its tool's output schema: removes the last elements of arrays and
 * the ends of strings if the schema allows it. Values with schema keywords that are unknown here stay whole.
 */
import { JsonNumber, numberOf } from "../lib/json.ts"
import { isObject, type Params } from "../wire/message.ts"

/**
 * Returns the value shortened to at most `characters` of JSON text, still valid against `schema`; undefined if that is
 * impossible.
 */
export function shortened(value: unknown, schema: unknown, characters: number): unknown {
  for (const limits of LIMITS) {
    const cut = shorten(value, schema, { ...limits, root: schema })
    if ((JSON.stringify(cut)?.length ?? 0) <= characters) return cut
  }
  return undefined
}

// ---

type CutLimits = { readonly characters: number; readonly elements: number }
type Context = CutLimits & { readonly root: unknown }

/** The maximum length of strings and arrays, in the order in which svc tries them. */
const LIMITS: readonly CutLimits[] = [
  { characters: 1000, elements: 50 },
  { characters: 450, elements: 20 },
  { characters: 200, elements: 8 },
  { characters: 80, elements: 3 },
  { characters: 40, elements: 1 },
  { characters: 0, elements: 0 },
]

const ABOUT = [
  "title",
  "description",
  "default",
  "examples",
  "$schema",
  "$defs",
  "definitions",
  "deprecated",
  "$comment",
]
/** The only keywords that a schema may have if its values are to be shortened. */
const KNOWN = {
  object: new Set([...ABOUT, "type", "properties", "required", "additionalProperties"]),
  array: new Set([...ABOUT, "type", "items", "minItems", "maxItems", "uniqueItems"]),
  string: new Set([...ABOUT, "type", "minLength", "maxLength"]),
}

function shorten(value: unknown, written: unknown, context: Context, depth = 0): unknown {
  const schema = resolved(written, value, context.root)
  if (schema === undefined || depth > MAX_DEPTH) return value
  const knows = (kind: keyof typeof KNOWN) => Object.keys(schema).every((key) => KNOWN[kind].has(key))
  if (typeof value === "string") {
    const least = numberIn(schema.minLength)
    if (!knows("string") || value.length <= context.characters || least > value.length) return value
    const note = context.characters === 0 ? "" : `… [cut: ${value.length} characters]`
    const kept = value.slice(0, Math.max(least, context.characters)) + note
    return kept.length < value.length && kept.length >= least && kept.length <= mostIn(schema.maxLength)
      ? kept.toWellFormed()
      : value
  }
  if (Array.isArray(value)) {
    if (!knows("array")) return value
    return value
      .slice(0, Math.max(numberIn(schema.minItems), context.elements))
      .map((item: unknown) => shortenItem(item, schema, context, depth))
  }
  if (!isObject(value) || value instanceof JsonNumber || !knows("object")) return value
  const properties = isObject(schema.properties) ? schema.properties : {}
  return Object.fromEntries(
    Object.entries(value).map(([key, member]) => {
      const own = Object.hasOwn(properties, key) ? properties[key] : (schema.additionalProperties ?? true)
      return [key, shorten(member, own, context, depth + 1)]
    }),
  )
}

const MAX_DEPTH = 40

/** Shortens an element, unless elements must be unique: shortened ones could be equal. */
const shortenItem = (item: unknown, { items, uniqueItems }: Params, context: Context, depth: number): unknown =>
  uniqueItems === true ? item : shorten(item, items ?? true, context, depth + 1)

/** Returns the schema that applies to a value: the target of a reference, or the only alternative with its type. */
function resolved(schema: unknown, value: unknown, root: unknown, hops = 0): Params | undefined {
  if (schema === true) return {}
  if (!isObject(schema) || hops > MAX_HOPS) return undefined
  const { $ref, anyOf, oneOf, ...rest } = schema
  const isAlone = Object.keys(rest).every((key) => ABOUT.includes(key))
  if (typeof $ref === "string") return isAlone ? resolved(pointedAt($ref, root), value, root, hops + 1) : undefined
  const choices: unknown = anyOf ?? oneOf
  if (choices === undefined) return schema
  if (!isAlone || !Array.isArray(choices) || (anyOf !== undefined && oneOf !== undefined)) return undefined
  const fitting = choices
    .map((choice) => resolved(choice, value, root, hops + 1))
    .filter((choice) => choice === undefined || choice.type === undefined || choice.type === typeIn(value))
  return fitting.length === 1 ? fitting[0] : undefined
}

const MAX_HOPS = 20

function typeIn(value: unknown): string {
  if (value === null) return "null"
  if (value instanceof JsonNumber) return "number"
  return Array.isArray(value) ? "array" : typeof value
}

/** Returns the schema at a JSON pointer within the root schema. */
function pointedAt(reference: string, root: unknown): unknown {
  if (!reference.startsWith("#")) return undefined
  let at = root
  for (const part of reference.slice(1).split("/").slice(1)) {
    const key = part.replace(/~1/g, "/").replace(/~0/g, "~")
    at = isObject(at) && Object.hasOwn(at, key) ? at[key] : undefined
  }
  return at
}

const numberIn = (value: unknown): number => numberOf(value) ?? 0
const mostIn = (value: unknown): number => numberOf(value) ?? Number.POSITIVE_INFINITY
