/** Reads JSON Schemas of servers. They may be hostile: references and alternatives are followed only a few steps. */

export type Schema = Readonly<Record<string, unknown>>

export const isSchema = (value: unknown): value is Schema =>
  typeof value === "object" && value !== null && !Array.isArray(value)

/** Resolves the reference of a schema into `root`. */
export function resolved(schema: unknown, root: Schema): Schema {
  let found: unknown = schema
  for (let hop = 0; hop < MAX_REFERENCES; hop++) {
    if (!isSchema(found) || typeof found.$ref !== "string") break
    const place = found.$ref.split("/").slice(1)
    found = place.reduce<unknown>(
      (inner, part) => (isSchema(inner) && Object.hasOwn(inner, part) ? inner[part] : {}),
      root,
    )
  }
  return isSchema(found) ? found : {}
}

export const propertiesOf = ({ properties }: Schema): Schema => (isSchema(properties) ? properties : {})

/** Returns the names of the required members. */
export const requiredOf = ({ required }: Schema): readonly string[] =>
  Array.isArray(required) ? required.map(String) : []

/** Returns the alternatives of a schema without null, because the form shows null as an absent value. */
export function alternativesOf(schema: Schema, root: Schema): readonly Schema[] | undefined {
  const { anyOf, oneOf, type: types } = schema
  if (Array.isArray(types)) return types.filter((type) => type !== "null").map((type) => ({ ...schema, type }))
  const list = Array.isArray(anyOf) ? anyOf : oneOf
  return Array.isArray(list) ? list.map((one) => resolved(one, root)).filter(({ type }) => type !== "null") : undefined
}

/** Returns the default values of an object schema. */
export function defaultsOf(schema: Schema): Schema {
  const given = Object.entries(propertiesOf(schema)).flatMap(([name, property]) =>
    isSchema(property) && property.default !== undefined ? [[name, property.default] as const] : [],
  )
  return Object.fromEntries(given)
}

/** Returns a value that a schema accepts, with the required members only. It cannot satisfy a pattern. */
export const exampleOf = (schema: Schema, root: Schema): unknown => exampleAt(schema, root, 0, { left: MAX_VALUES })

// ---

/** `budget` counts the values, because each level of a hostile schema may require many members. */
function exampleAt(schema: unknown, root: Schema, depth: number, budget: { left: number }): unknown {
  const { default: given, const: only, examples, enum: choices, ...rest } = resolved(schema, root)
  for (const known of [given, only, listOf(examples)[0], listOf(choices)[0]]) if (known !== undefined) return known
  budget.left -= 1
  const isDeep = depth >= MAX_DEPTH || budget.left <= 0
  const inner = (one: unknown) => exampleAt(one, root, depth + 1, budget)
  const [alternative] = alternativesOf(rest, root) ?? []
  if (alternative !== undefined) return isDeep ? null : inner(alternative)
  switch (rest.type ?? (rest.properties === undefined ? undefined : "object")) {
    case "boolean":
      return false
    case "integer":
    case "number":
      return exampleNumber(rest)
    case "array": {
      const { items, prefixItems, minItems } = rest
      const first = listOf(prefixItems)
      const count = isDeep ? 0 : Math.max(first.length, Math.min(numberOr(minItems, 0), MAX_ITEMS))
      return Array.from({ length: count }, (_, at) => inner(first[at] ?? items))
    }
    case "object": {
      const members = propertiesOf(rest)
      return Object.fromEntries((isDeep ? [] : requiredOf(rest)).map((name) => [name, inner(members[name])]))
    }
    case "null":
      return null
    default: {
      const text = FORMATS[String(rest.format)] ?? "example"
      const { minLength, maxLength } = rest
      return text.padEnd(Math.min(numberOr(minLength, 0), MAX_LENGTH), "x").slice(0, numberOr(maxLength, MAX_LENGTH))
    }
  }
}

const MAX_REFERENCES = 5
const MAX_DEPTH = 8
const MAX_VALUES = 1000
const MAX_ITEMS = 20
const MAX_LENGTH = 1000
const FORMATS: Readonly<Record<string, string>> = {
  date: "2026-01-01",
  "date-time": "2026-01-01T00:00:00Z",
  time: "00:00:00Z",
  email: "someone@example.com",
  uri: "https://example.com",
  url: "https://example.com",
  hostname: "example.com",
  ipv4: "192.0.2.1",
  uuid: "00000000-0000-4000-8000-000000000000",
}

const listOf = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : [])

const numberOr = (value: unknown, other: number): number => (typeof value === "number" ? value : other)

/** Returns the first of a few numbers that the limits allow. */
function exampleNumber(schema: Schema): number {
  const low = numberOr(schema.minimum, -Infinity)
  const above = numberOr(schema.exclusiveMinimum, -Infinity)
  const high = numberOr(schema.maximum, Infinity)
  const below = numberOr(schema.exclusiveMaximum, Infinity)
  const step = numberOr(schema.multipleOf, 1)
  const isAllowed = (value: number) =>
    value >= low &&
    value > above &&
    value <= high &&
    value < below &&
    (schema.type === "number" || Number.isInteger(value)) &&
    (schema.multipleOf === undefined || Number.isInteger(value / step))
  const up = Math.ceil(Math.max(low, above) / step) * step
  const down = Math.floor(Math.min(high, below) / step) * step
  return [0, step, low, up, up + step, high, down, down - step, (above + below) / 2].find(isAllowed) ?? 0
}
