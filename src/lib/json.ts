/**
 * JSON with exact numbers. `JSON.parse` turns every number into a double, so that `9007199254740993`, `1.0`, `-0`, `1e400` and
 * `1E5` would be written back differently. Such a number becomes a JsonNumber, any other value is that of `JSON.parse`, and
 * `JSON.stringify` writes both.
 */
import { complexityOf, INEXACT } from "./json-limits.ts"

/** A number that a double would write differently, with its source text. */
export class JsonNumber {
  constructor(readonly text: string) {}

  toString(): string {
    return this.text
  }

  /** Called by `JSON.stringify`: writes the source text. */
  toJSON(): unknown {
    return raw.rawJSON(this.text)
  }
}

/** Parses JSON text and keeps each number as written. Throws what `JSON.parse` throws. */
export function parseExact(text: string): unknown {
  return INEXACT.test(text) ? JSON.parse(text, keep as Reviver) : JSON.parse(text)
}

/** Returns the value of JSON text, with doubles; undefined for any other text, and for one that is too complex. */
export function parseIfJson(text: string): unknown {
  try {
    return complexityOf(text) === undefined ? JSON.parse(text) : undefined
  } catch {
    return undefined
  }
}

/** Returns the double of a parsed JSON number, or undefined for any other value. */
export function numberOf(value: unknown): number | undefined {
  if (typeof value === "number") return value
  return value instanceof JsonNumber ? Number(value.text) : undefined
}

/** Returns the value with plain doubles for all its numbers, for code that calculates and validates. */
export const withDoubles = <T>(value: T): T => JSON.parse(JSON.stringify(value))

/** Returns a copy of a JSON value with each string replaced by `change`. Names of members stay; undefined members are dropped. */
export function mapStrings(
  value: unknown,
  change: (text: string, path: readonly (string | number)[]) => string,
  path: readonly (string | number)[] = [],
): unknown {
  if (typeof value === "string") return change(value, path)
  if (Array.isArray(value)) return value.map((item: unknown, index) => mapStrings(item, change, [...path, index]))
  if (!isPlainObject(value)) return value
  // `fromEntries` defines members, so that one called `__proto__` stays a member.
  return Object.fromEntries(
    Object.entries(value).flatMap(([key, item]) =>
      item === undefined ? [] : [[key, mapStrings(item, change, [...path, key])]],
    ),
  )
}

/** Returns an object without its members that are undefined, for objects whose members are compared or counted. */
export const compact = (members: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> =>
  Object.fromEntries(Object.entries(members).filter(([, value]) => value !== undefined))

/**
 * Returns JSON text in which the members of each object are sorted by name (UTF-16 code units), so that equal values have
 * equal texts. From: RFC 8785, JSON Canonicalization Scheme, except that numbers stay as written; with "doubles", `1` and `1.0`
 * are equal.
 */
export function canonical(value: unknown, numbers: "written" | "doubles" = "written"): string {
  // Concatenates instead of joining arrays, for speed: a start writes the definitions of all tools of all servers.
  if (Array.isArray(value)) {
    let items = ""
    for (const item of value) items += `${items === "" ? "" : ","}${canonical(item, numbers)}`
    return `[${items}]`
  }
  if (!isPlainObject(value)) return JSON.stringify(numbers === "doubles" ? (numberOf(value) ?? value) : value) ?? "null"
  let members = ""
  for (const key of Object.keys(value).sort())
    members += `${members === "" ? "" : ","}${JSON.stringify(key)}:${canonical(value[key], numbers)}`
  return `{${members}}`
}

/** Whether two values are equal, whatever the order of members. */
export const isSameValue = (one: unknown, other: unknown): boolean =>
  one === undefined || other === undefined ? one === other : canonical(one) === canonical(other)

// ---

const isPlainObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null && !(value instanceof JsonNumber)

type Reviver = (key: string, value: unknown) => unknown

/** The reviver's third argument and `rawJSON` are newer than the types. From: ECMAScript, JSON.parse source text access. */
const raw = JSON as unknown as { rawJSON(text: string): unknown }

const keep = (_key: string, value: unknown, { source }: { readonly source?: string }): unknown =>
  typeof value === "number" && source !== undefined && String(value) !== source ? new JsonNumber(source) : value
