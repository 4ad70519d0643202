/** Describes a mismatch between a value and a schema to users. zod's own texts ("Invalid input: expected …") are for programmers. */
import type { core } from "zod"

/**
 * Returns what is wrong with a value, without the value: it may be a secret. Returns undefined for problems that zod words
 * well enough. Pass it as `error` to `safeParse`; a message in the schema wins over it.
 */
export const schemaProblem: core.$ZodErrorMap = (issue) => {
  switch (issue.code) {
    case "invalid_type": {
      const expected = TYPES[issue.expected] ?? issue.expected
      if (issue.input === undefined) return `is missing; it must be ${expected}`
      const found = typeName(issue.input)
      return found === undefined ? `must be ${expected}` : `must be ${expected}, not ${found}`
    }
    case "invalid_value":
      return `must be ${issue.values.length > 1 ? "one of " : ""}${issue.values.map(String).join(", ")}`
    case "too_small":
      if (issue.origin === "number" || issue.origin === "int") return `must be at least ${issue.minimum}`
      return issue.minimum === 1 ? "must not be empty" : undefined
    case "too_big":
      if (issue.origin === "number" || issue.origin === "int") return `must be at most ${issue.maximum}`
      return undefined
    default:
      return undefined
  }
}

/** Returns the JSON type of a value; undefined for NaN and for values that JSON does not have. */
export function typeName(value: unknown): string | undefined {
  if (value === null) return "null"
  if (Array.isArray(value)) return "an array"
  if (typeof value === "number") return Number.isInteger(value) ? "a number" : undefined
  return { string: "a string", boolean: "a boolean", object: "an object" }[typeof value as string]
}

// ---

const TYPES: Readonly<Record<string, string>> = {
  string: "a string",
  number: "a number",
  int: "a whole number",
  boolean: "true or false",
  object: "an object",
  record: "an object",
  array: "an array",
}
