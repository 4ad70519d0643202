/** Describes the members of a JSON Schema for users: each with its type, whether it is required, and its limits. */

import { parametersOf, resolvedSchema } from "../catalog/signature.ts"
import { canStep, stepsOf } from "../lib/steps.ts"
import { asText, isObject, type Params } from "../wire/message.ts"

/** The path of a schema's member, such as `filter.tags[]`, and its description in one text. */
export type SchemaFact = readonly [path: string, about: string]

/** Returns the members of an object's schema, nested members after their container. */
export function schemaFacts(schema: unknown): readonly SchemaFact[] {
  const root = isObject(schema) ? schema : {}
  const facts: SchemaFact[] = []
  for (const fact of membersOf(root, root, "", 0)) if (facts.push(fact) === MAX_FACTS) break
  return facts
}

/** Returns the type of a schema for users, such as `string or null`, from at most `steps` schemas. */
export function typeName(value: unknown, root: Params, depth = 0, steps = stepsOf(MAX_SCHEMAS)): string {
  const schema = resolvedSchema(value, root)
  if (schema === undefined || depth > MAX_DEPTH || !canStep(steps)) return "any"
  const nameOf = (one: unknown) => typeName(one, root, depth + 1, steps)
  const options = optionsOf(schema)
  if (options.length > 0) return [...new Set(options.map(nameOf))].join(" or ")
  if (schema.type === "array") return schema.items === undefined ? "array" : `array of ${nameOf(schema.items)}`
  if (typeof schema.type === "string") return schema.type
  const [first] = [schema.enum, "const" in schema ? [schema.const] : undefined].find(Array.isArray) ?? []
  if (first !== undefined) return isObject(first) ? "object" : typeof first
  return isObject(schema.properties) ? "object" : "any"
}

/** Returns the alternatives of a schema, from `anyOf`, `oneOf` or several types. A value must match one of them. */
export function optionsOf(schema: Params): readonly unknown[] {
  const options = [schema.anyOf, schema.oneOf].find(Array.isArray)
  if (options !== undefined) return options.slice(0, MAX_OPTIONS)
  const types: readonly unknown[] = Array.isArray(schema.type) ? schema.type.slice(0, MAX_OPTIONS) : []
  return types.map((type) => ({ ...schema, type }))
}

// ---

const MAX_DEPTH = 4
/** Bounds the result: a server's schema may have any size. */
const MAX_FACTS = 500
/** The most schemas that are read for the name of one type: references may be circular. */
const MAX_SCHEMAS = 500
const MAX_OPTIONS = 1000

function* membersOf(schema: Params, root: Params, path: string, depth: number): Generator<SchemaFact> {
  const { properties, required } = parametersOf(schema, root)
  for (const [name, value] of properties) {
    const own = resolvedSchema(value, root) ?? {}
    const here = `${path}${name}`
    yield [here, about(own, root, required.has(name))]
    if (depth < MAX_DEPTH && optionsOf(own).length === 0) yield* nestedIn(own, root, here, depth)
  }
}

function* nestedIn(schema: Params, root: Params, path: string, depth: number): Generator<SchemaFact> {
  if (schema.type !== "array") yield* membersOf(schema, root, `${path}.`, depth + 1)
  else {
    const items = resolvedSchema(schema.items, root)
    if (items !== undefined && depth < MAX_DEPTH) yield* nestedIn(items, root, `${path}[]`, depth + 1)
  }
}

function about(schema: Params, root: Params, required: boolean): string {
  const items = schema.type === "array" ? resolvedSchema(schema.items, root) : undefined
  const facts = [
    typeName(schema, root),
    required ? "required" : "",
    choicesOf(schema) || choicesOf(items ?? {}),
    "default" in schema ? `default ${asText(schema.default)}` : "",
    ...LIMITS.flatMap(([key, word]) => (schema[key] === undefined ? [] : [`${word} ${asText(schema[key])}`])),
  ].filter((fact) => fact !== "")
  const description = [schema.description, schema.title].find((text) => typeof text === "string" && text !== "")
  return `${facts.join(", ")}${description === undefined ? "" : `: ${description}`}`
}

const choicesOf = (schema: Params): string => {
  if ("const" in schema) return `always ${asText(schema.const)}`
  return Array.isArray(schema.enum) ? `one of ${schema.enum.map(asText).join(" | ")}` : ""
}

/** The keywords that limit a value, with their words. */
const LIMITS = [
  ["format", "format"],
  ["pattern", "pattern"],
  ["minimum", "at least"],
  ["exclusiveMinimum", "more than"],
  ["maximum", "at most"],
  ["exclusiveMaximum", "less than"],
  ["minLength", "characters at least"],
  ["maxLength", "characters at most"],
  ["minItems", "items at least"],
  ["maxItems", "items at most"],
] as const
