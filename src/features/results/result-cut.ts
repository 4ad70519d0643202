/**
 * Shortens a structured result so that it stays valid against its tool's output schema: removes the last elements of arrays and
 * the ends of strings if the schema allows it. Values with schema keywords that are unknown here stay whole.
 */
import { JsonNumber, numberOf } from "../../lib/json.ts"
import { canStep, type Steps, stepsOf } from "../../lib/steps.ts"
import { isObject, type Params } from "../../wire/message.ts"

/**
 * Returns the value shortened to at most `characters` of JSON text, still valid against `schema`; undefined if that is
 * impossible. The work grows with `characters`, not with the value; `steps` bounds the keywords of the schema that are read.
 */
export function shortened(value: unknown, schema: unknown, characters: number, steps = stepsOf(MAX_STEPS)): unknown {
  for (const limits of LIMITS) {
    const room = stepsOf(characters)
    const cut = shorten(value, schema, { ...limits, root: schema, room, steps })
    if (room.left >= 0 && (JSON.stringify(cut)?.length ?? 0) <= characters) return cut
  }
  return undefined
}

// ---

/** The most keywords that are read for one value: references may be circular. */
const MAX_STEPS = 300_000

type CutLimits = { readonly characters: number; readonly elements: number }
type Context = CutLimits & {
  readonly root: unknown
  /** Characters that are left for the shortened value. */
  readonly room: Steps
  readonly steps: Steps
}

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
  const { room } = context
  if (room.left < 0) return value
  const schema = resolved(written, value, context)
  if (schema === undefined || depth > MAX_DEPTH) return whole(value, room)
  const knows = (kind: keyof typeof KNOWN) => Object.keys(schema).every((key) => KNOWN[kind].has(key))
  if (typeof value === "string") {
    const least = numberIn(schema.minLength)
    if (!knows("string") || value.length <= context.characters || least > value.length) return whole(value, room)
    const note = context.characters === 0 ? "" : `… [cut: ${value.length} characters]`
    const kept = value.slice(0, Math.max(least, context.characters)) + note
    const fits = kept.length < value.length && kept.length >= least && kept.length <= mostIn(schema.maxLength)
    return whole(fits ? kept.toWellFormed() : value, room)
  }
  if (Array.isArray(value)) {
    if (!knows("array")) return whole(value, room)
    room.left -= 2
    return value
      .slice(0, Math.max(numberIn(schema.minItems), context.elements))
      .map((item: unknown) => shortenItem(item, schema, context, depth))
  }
  if (!isObject(value) || value instanceof JsonNumber || !knows("object")) return whole(value, room)
  const properties = isObject(schema.properties) ? schema.properties : {}
  room.left -= 2
  const members: [string, unknown][] = []
  for (const [key, member] of Object.entries(value)) {
    room.left -= key.length + 3
    if (room.left < 0) return value
    const own = Object.hasOwn(properties, key) ? properties[key] : (schema.additionalProperties ?? true)
    members.push([key, shorten(member, own, context, depth + 1)])
  }
  return Object.fromEntries(members)
}

const MAX_DEPTH = 40

/** Shortens an element, unless elements must be unique: shortened ones could be equal. */
const shortenItem = (item: unknown, { items, uniqueItems }: Params, context: Context, depth: number): unknown =>
  uniqueItems === true ? whole(item, context.room) : shorten(item, items ?? true, context, depth + 1)

/** Returns a value as it is, and takes at most the characters of its JSON text from `room`. Stops when none are left. */
function whole(value: unknown, room: Steps): unknown {
  if (typeof value === "string") room.left -= value.length + 2
  else if (typeof value !== "object" || value === null || value instanceof JsonNumber) room.left--
  else {
    room.left -= 2
    for (const [key, member] of Object.entries(value)) {
      if (room.left < 0) break
      room.left -= Array.isArray(value) ? 0 : key.length + 3
      whole(member, room)
    }
  }
  return value
}

/** Returns the schema that applies to a value: the target of a reference, or the only alternative with its type. */
function resolved(schema: unknown, value: unknown, context: Context, hops = 0): Params | undefined {
  if (schema === true) return {}
  if (!isObject(schema) || hops > MAX_HOPS) return undefined
  if (!canStep(context.steps, 1 + Object.keys(schema).length)) return undefined
  const { $ref, anyOf, oneOf, ...rest } = schema
  const isAlone = Object.keys(rest).every((key) => ABOUT.includes(key))
  if (typeof $ref === "string")
    return isAlone ? resolved(pointedAt($ref, context.root), value, context, hops + 1) : undefined
  const choices: unknown = anyOf ?? oneOf
  if (choices === undefined) return schema
  if (!isAlone || !Array.isArray(choices) || (anyOf !== undefined && oneOf !== undefined)) return undefined
  let only: Params | undefined
  for (const choice of choices) {
    const fitting = resolved(choice, value, context, hops + 1)
    if (fitting !== undefined && fitting.type !== undefined && fitting.type !== typeIn(value)) continue
    // An alternative that svc cannot read, or a second one that fits.
    if (fitting === undefined || only !== undefined) return undefined
    only = fitting
  }
  return only
}

const MAX_HOPS = 20

function typeIn(value: unknown): string {
  if (value === null) return "null"
  if (value instanceof JsonNumber) return "number"
  return Array.isArray(value) ? "array" : typeof value
}

/** Returns the schema at a JSON pointer within the root schema. */
function pointedAt(reference: string, root: unknown): unknown {
  if (!reference.startsWith("#") || reference.length > MAX_REFERENCE) return undefined
  let at = root
  for (const part of reference.slice(1).split("/").slice(1)) {
    const key = part.replace(/~1/g, "/").replace(/~0/g, "~")
    at = isObject(at) && Object.hasOwn(at, key) ? at[key] : undefined
  }
  return at
}

/** The longest reference that svc follows, in characters. */
const MAX_REFERENCE = 1000

const numberIn = (value: unknown): number => numberOf(value) ?? 0
const mostIn = (value: unknown): number => numberOf(value) ?? Number.POSITIVE_INFINITY
