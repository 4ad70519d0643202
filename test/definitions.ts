/** Random definitions of tools, prompts and resources, and random JSON Schemas. */
import { isObject, type Params } from "../src/wire/message.ts"
import { randomFrom } from "./random.ts"

/** The lists of a random server. */
export type RandomLists = {
  readonly tools: readonly unknown[]
  readonly prompts: readonly unknown[]
  readonly resources: readonly unknown[]
  readonly resourceTemplates: readonly unknown[]
}

/** Returns lists of `count` entries each; the names begin with `prefix`. Each value is odd with the probability `odd`. */
export function randomLists(seed: number, odd: number, count: number, prefix = "e"): RandomLists {
  const random = randomFrom(seed)
  const or = (value: unknown): unknown => (random() < odd ? ODD[Math.floor(random() * ODD.length)] : value)
  const some = (members: Readonly<Record<string, () => unknown>>): Params =>
    Object.fromEntries(Object.entries(members).flatMap(([name, make]) => (random() < 0.5 ? [[name, make()]] : [])))
  const icons = () =>
    or([or({ src: or("https://example.com/i.png"), ...some({ sizes: () => or(["48x48"]), theme: () => or("dark") }) })])
  const base = {
    title: () => or("Title"),
    description: () => or("What it does."),
    icons,
    _meta: () => or({ "com.example/x": null, list: [null] }),
    extra: () => ({ unknown: [1, null] }),
  }
  const annotations = () =>
    or(some({ audience: () => or(["user"]), priority: () => or(0.5), lastModified: () => or("2026-01-02T03:04:05Z") }))
  const list = (make: (at: number) => unknown) => Array.from({ length: count }, (_, at) => or(make(at)))
  const schema = () => randomSchema(Math.floor(random() * 2 ** 31), random() < 0.5 ? 0 : odd)
  return {
    tools: list((at) => ({
      name: or(`${prefix}${at}`),
      inputSchema: or(schema()),
      ...some({
        ...base,
        outputSchema: () => or(schema()),
        annotations: () =>
          or(some({ title: () => or("T"), readOnlyHint: () => or(true), openWorldHint: () => or(false) })),
        execution: () => or(some({ taskSupport: () => or("optional") })),
      }),
    })),
    prompts: list((at) => ({
      name: or(`${prefix}${at}`),
      ...some({
        ...base,
        arguments: () => or([or({ name: or("a"), ...some({ description: () => or("d"), required: () => or(true) }) })]),
      }),
    })),
    resources: list((at) => ({
      uri: or(`file:///${prefix}${at}`),
      name: or("r"),
      ...some({ ...base, mimeType: () => or("text/plain"), size: () => or(5), annotations }),
    })),
    resourceTemplates: list((at) => ({
      uriTemplate: or(`file:///${prefix}${at}/{x}`),
      name: or("t"),
      ...some({ ...base, mimeType: () => or("text/plain"), annotations }),
    })),
  }
}

/** Returns a schema of an object. Each value is odd with the probability `odd`. */
export function randomSchema(seed: number, odd: number): Params {
  const random = randomFrom(seed)
  const pick = <T>(values: readonly T[]): T => values[Math.floor(random() * values.length)] as T
  const or = (value: unknown): unknown => (random() < odd ? pick(ODD) : value)
  const some = (make: () => unknown): unknown[] => Array.from({ length: 1 + Math.floor(random() * 2) }, make)
  const map = (depth: number) => or(Object.fromEntries(some(() => 0).map(() => [pick(NAMES), schema(depth + 1)])))
  const keywords: Readonly<Record<string, (depth: number) => unknown>> = {
    type: () => or(random() < 0.7 ? pick(TYPES) : [...new Set([pick(TYPES), pick(TYPES)])]),
    title: () => or("a title"),
    description: () => or("what it is"),
    default: () => pick(ODD),
    const: () => pick(ODD),
    enum: () => or([1, "a", null, { $id: "x" }]),
    examples: () => or([{ $ref: "#/none" }]),
    format: () => or(pick(["date", "email"])),
    pattern: () => or(pick(["^a+$", "[a-z]{2}", "\\p{L}", ...(odd > 0 ? ["(", "[\\w-.]", "a\\-b"] : [])])),
    $ref: () => or(pick(odd > 0 ? [...REFS, ...BAD_REFS] : REFS)),
    properties: map,
    patternProperties: (depth) => or({ [pick(["^a", "b$", ...(odd > 0 ? ["("] : [])])]: schema(depth + 1) }),
    additionalProperties: (depth) => schema(depth + 1),
    required: () => or(some(() => or(pick(NAMES)))),
    items: (depth) => schema(depth + 1),
    prefixItems: (depth) => or(some(() => schema(depth + 1))),
    contains: (depth) => schema(depth + 1),
    minContains: () => or(2),
    allOf: (depth) => or(some(() => schema(depth + 1))),
    anyOf: (depth) => or(some(() => schema(depth + 1))),
    oneOf: (depth) => or(some(() => schema(depth + 1))),
    not: (depth) => schema(depth + 1),
    if: (depth) => schema(depth + 1),
    // biome-ignore lint/suspicious/noThenProperty: a keyword of JSON Schema.
    then: (depth) => schema(depth + 1),
    else: (depth) => schema(depth + 1),
    propertyNames: (depth) => schema(depth + 1),
    unevaluatedProperties: (depth) => schema(depth + 1),
    unevaluatedItems: (depth) => schema(depth + 1),
    dependentSchemas: map,
    dependentRequired: () => or({ [pick(NAMES)]: or(["a"]) }),
    dependencies: (depth) => or({ a: random() < 0.5 ? or(["b"]) : schema(depth + 1) }),
    minimum: () => or(pick([0, -1.5, 1e300])),
    exclusiveMaximum: () => or(3),
    maxLength: () => or(10),
    uniqueItems: () => or(random() < 0.5),
    discriminator: () => ({ propertyName: "a" }),
    "x-extra": () => pick(["a", 1, { a: [1] }]),
    ...(odd > 0 && {
      nullable: () => pick([true, false, ...ODD]),
      id: () => pick(["Item", ...ODD]),
      $id: () => pick(["Item", "https://example.com/s", ...ODD]),
      $async: () => pick(ODD),
      $dynamicRef: () => pick(["#top", "#none", "x", ...ODD]),
    }),
  }
  const names = Object.keys(keywords)
  function schema(depth: number): unknown {
    if (random() < odd) return pick(ODD)
    if (depth > 3 || random() < 0.2) return pick([true, false, {}, { type: "string" }])
    const chosen = Array.from({ length: Math.floor(random() * 4) }, () => pick(names))
    return Object.fromEntries(chosen.map((name) => [name, keywords[name]?.(depth)]))
  }
  /** Before 2026-07-28, the schemas of an object's properties are objects. */
  function properties(): unknown {
    const made = map(1)
    if (odd > 0) return made
    return Object.fromEntries(Object.entries(made as Params).map(([name, one]) => [name, isObject(one) ? one : {}]))
  }
  const body = schema(0)
  return {
    ...(typeof body === "object" && !Array.isArray(body) ? body : {}),
    ...(random() < 0.3 && { $schema: pick([...DIALECTS, ...(odd > 0 ? BAD_DIALECTS : [])]) }),
    ...(random() < 0.1 && { $id: "https://example.com/root" }),
    type: "object",
    properties: properties(),
    $defs: { a: schema(2), "b c": schema(2), "d/e": { type: "string", $anchor: "top" }, alias: { $ref: "#/$defs/a" } },
  }
}

/** Values that most members cannot have. */
export const ODD: readonly unknown[] = [
  null,
  true,
  false,
  0,
  "",
  "x",
  [],
  {},
  [null],
  ["x", 1],
  { a: null },
  { a: [] },
  { a: "x" },
  { $ref: 5 },
]

const NAMES = [
  "a",
  "b c",
  "d/e",
  "f~g",
  "__proto__",
  "type",
  "$ref",
  "größe",
  "h%i",
  "",
  "<k>",
  "constructor",
  "properties",
]
const TYPES = ["string", "number", "integer", "boolean", "object", "array", "null"]
const REFS = ["#", "#/$defs/a", "#/$defs/b%20c", "#/$defs/b c", "#/$defs/d~1e", "#/$defs/alias", "#top"]
const BAD_REFS = ["#/$defs/none", "#none", "other.json", "https://example.com/s#/a", "#/$defs", "#/", "", "#/%"]
const DIALECTS = ["2020-12", "2019-09"]
  .map((name) => `https://json-schema.org/draft/${name}/schema`)
  .concat(["http://json-schema.org/draft-07/schema#"])
const BAD_DIALECTS = ["http://json-schema.org/draft-04/schema#", "https://example.com/dialect", "", 7]
