/**
 * Reads the arguments of a tool as users write them in a shell, with types from the input schema:
 *
 *   key=value     text stays text if the schema allows text; otherwise a number, a boolean, null, a list or an object
 *   key=a key=b   the items of a list; `key=[…]` is a whole list
 *   a.b=value     a member of a nested object
 *   key:=JSON     any JSON value as it is
 */

import { resolvedSchema, signatureOf } from "../catalog/signature.ts"
import { usageError } from "../lib/command-line.ts"
import { parseExact } from "../lib/json.ts"
import { didYouMean } from "../lib/nearest.ts"
import { canStep, stepsOf } from "../lib/steps.ts"
import { asText, isObject, type Params } from "../wire/message.ts"
import { optionsOf, typeName } from "./schema-facts.ts"

/**
 * Returns the arguments from words such as `key=value`. Throws a RequestError (usage) for a malformed word, a value of another
 * type, a name that the schema refuses, and a missing argument that is required.
 */
export function readArguments(words: readonly string[], schema: unknown): Params {
  const root = isObject(schema) ? schema : {}
  const byKey = Map.groupBy(words.map(readWord), ({ key }) => key)
  const tree: Tree = new Map()
  for (const [key, given] of byKey) {
    const path = pathOf(key, root)
    const member = path.reduce<Member>(
      (at, name, depth) => memberOf(at, name, path.slice(0, depth + 1).join("."), root),
      {
        schema: root,
      },
    )
    put(tree, path, argumentOf(key, given, member.schema, root))
  }
  const required = Array.isArray(root.required) ? root.required : []
  const missing = required.filter((name) => typeof name === "string" && !tree.has(name))
  const known = isObject(root.properties) ? root.properties : {}
  const unknown = [...tree.keys()].filter((name) => !Object.hasOwn(known, name))
  if (missing.length > 0)
    throw usageError(
      `${namesAre(missing, "missing")}${unknown.length === 0 ? "" : `, and ${namesAre(unknown, "unknown")}`}; the parameters are ${signatureOf(root, SIGNATURE_TOKENS)}`,
    )
  return objectOf(tree)
}

/** Returns the value of a text by a schema. Throws a RequestError (usage), with `name` for the value, if the text has none. */
export function readValue(name: string, text: string, value: unknown, root: Params): unknown {
  const schema = resolvedSchema(value, root) ?? {}
  const choices = choicesOf(schema, root)
  if (choices.length > 0) {
    const chosen = choices.find((choice) => asText(choice.value) === text || choice.title === text)
    if (chosen !== undefined) return chosen.value
    throw usageError(`${name} must be one of ${choices.map((choice) => asText(choice.value)).join(", ")}, not ${text}`)
  }
  const types = typesOf(schema, root)
  if (types.length === 0 || types.includes("string")) return text
  for (const type of types) {
    const found = readAs(type, name, text, schema, root)
    if (found !== undefined) return found.value
  }
  throw usageError(`${name} must be ${withArticle(typeName(schema, root))}, not ${text}`)
}

/** Returns the values that a schema allows, each with its title, if it lists them. */
export function choicesOf(
  schema: Params,
  root: Params,
  steps = stepsOf(MAX_SCHEMAS),
): readonly { readonly value: unknown; readonly title?: string }[] {
  if ("const" in schema)
    return [{ value: schema.const, ...(typeof schema.title === "string" ? { title: schema.title } : {}) }]
  if (Array.isArray(schema.enum)) return schema.enum.map((value: unknown) => ({ value }))
  if (!canStep(steps)) return []
  const options = optionsOf(schema).map((one) => choicesOf(resolvedSchema(one, root) ?? {}, root, steps))
  return options.some((option) => option.length === 0) ? [] : options.flat()
}

/** Whether a schema allows a list. */
export const allowsList = (schema: unknown, root: Params): boolean => typesOf(schema, root).includes("array")

/** Returns the schema of a list's items. */
export function itemsOf(value: unknown, root: Params): unknown {
  const schema = resolvedSchema(value, root) ?? {}
  const list = [schema, ...optionsOf(schema).map((one) => resolvedSchema(one, root) ?? {})].find(
    ({ type }) => type === "array",
  )
  return list?.items
}

// ---

type Word = { readonly key: string; readonly text: string; readonly isJson: boolean }
type Tree = Map<string, unknown>
type Member = { readonly schema: unknown }

const SIGNATURE_TOKENS = 300
/** The most schemas that are read for the types or the choices of a value: references may be circular. */
const MAX_SCHEMAS = 500
const JSON_NUMBER = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][-+]?\d+)?$/

function readWord(word: string): Word {
  const [, key = "", sign, text = ""] = /^([^=]+?)(:?=)(.*)$/s.exec(word) ?? []
  if (sign === undefined)
    throw usageError(`"${word}" is not an argument; write key=value, key:=JSON, or all arguments as --args JSON`)
  return { key, text, isJson: sign === ":=" }
}

/** Splits a key at its dots, unless the schema has a parameter of this name. */
const pathOf = (key: string, root: Params): readonly string[] =>
  isObject(root.properties) && Object.hasOwn(root.properties, key) ? [key] : key.split(".")

/** Returns the schema of a member. Throws a RequestError (usage) if the schema allows no such member. */
function memberOf({ schema }: Member, name: string, path: string, root: Params): Member {
  const whole = resolvedSchema(schema, root) ?? {}
  const options = [whole, ...optionsOf(whole).map((one) => resolvedSchema(one, root) ?? {})]
  for (const { properties } of options)
    if (isObject(properties) && Object.hasOwn(properties, name)) return { schema: properties[name] }
  const { properties, additionalProperties } = whole
  const known = isObject(properties) ? Object.keys(properties) : []
  if (additionalProperties === false && options.length === 1)
    throw usageError(
      `there is no parameter ${path}${didYouMean(name, known) || (known.length > 0 ? `; the parameters are ${known.join(", ")}` : "")}`,
    )
  return { schema: additionalProperties }
}

function argumentOf(key: string, given: readonly Word[], schema: unknown, root: Params): unknown {
  const items = allowsList(schema, root) ? itemsOf(schema, root) : undefined
  const isList = allowsList(schema, root)
  const values = given.map(({ text, isJson }) => {
    if (isJson) return parseValue(key, text)
    return isList && given.length > 1 ? readValue(key, text, items, root) : readValue(key, text, schema, root)
  })
  if (values.length === 1) return values[0]
  if (isList || given.every(({ isJson }) => isJson)) return values
  throw usageError(`${key} is given ${values.length} times, but takes one value`)
}

function parseValue(key: string, text: string): unknown {
  try {
    return parseExact(text)
  } catch {
    throw usageError(`${key}:= needs JSON, such as 5, true, "text" or ["a"]; write ${key}=… for a text`)
  }
}

/** Returns the value of a text as this type, or undefined. */
function readAs(
  type: string,
  name: string,
  text: string,
  schema: Params,
  root: Params,
): { readonly value: unknown } | undefined {
  switch (type) {
    case "number":
      return JSON_NUMBER.test(text) ? { value: parseExact(text) } : undefined
    case "integer":
      return JSON_NUMBER.test(text) && Number.isInteger(Number(text)) ? { value: parseExact(text) } : undefined
    case "boolean":
      return text === "true" || text === "false" ? { value: text === "true" } : undefined
    case "null":
      return text === "null" ? { value: null } : undefined
    case "array":
      return jsonOf(text, Array.isArray) ?? { value: [readValue(name, text, itemsOf(schema, root), root)] }
    case "object":
      return jsonOf(text, isObject)
    default:
      return undefined
  }
}

function jsonOf(text: string, fits: (value: unknown) => boolean): { readonly value: unknown } | undefined {
  try {
    const value = parseExact(text)
    return fits(value) ? { value } : undefined
  } catch {
    return undefined
  }
}

/** Returns the JSON types that a schema allows; none if it does not say. */
function typesOf(value: unknown, root: Params, depth = 0, steps = stepsOf(MAX_SCHEMAS)): readonly string[] {
  const schema = resolvedSchema(value, root) ?? {}
  const options = canStep(steps) ? optionsOf(schema) : []
  if (options.length > 0) return depth > 3 ? [] : options.flatMap((one) => typesOf(one, root, depth + 1, steps))
  if (typeof schema.type === "string") return [schema.type]
  if ("const" in schema) return [typeof schema.const]
  return isObject(schema.properties) ? ["object"] : []
}

function put(tree: Tree, [name = "", ...rest]: readonly string[], value: unknown): void {
  const known = tree.get(name)
  if (rest.length === 0 ? known !== undefined : known !== undefined && !(known instanceof Map))
    throw usageError(`${name} is given both as a whole and by its members`)
  if (rest.length === 0) {
    tree.set(name, value)
    return
  }
  const inner: Tree = known instanceof Map ? known : new Map()
  tree.set(name, inner)
  put(inner, rest, value)
}

/** Builds an object. `fromEntries` defines members, so that a member named `__proto__` stays a member. */
const objectOf = (tree: Tree): Params =>
  Object.fromEntries([...tree].map(([name, value]) => [name, value instanceof Map ? objectOf(value) : value]))

const namesAre = (names: readonly string[], word: string): string =>
  `${names.join(", ")} ${names.length === 1 ? "is" : "are"} ${word}`

const withArticle = (type: string): string => `${/^[aeiou]/.test(type) ? "an" : "a"} ${type}`
