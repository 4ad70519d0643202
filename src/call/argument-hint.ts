/**
 * Adds the parameters of a tool to the answer of a wrapped call that failed because of its arguments, for models that have not
 * seen the schema. svc itself refuses no arguments, because servers are more lenient than their schemas.
 */
import type { Tool } from "../catalog/listing.ts"
import { oneLine, type Parameters, parametersOf, resolvedSchema, signatureOf } from "../catalog/signature.ts"
import { RPC_CODE } from "../lib/errors.ts"
import { numberOf } from "../lib/json.ts"
import { parseRelayed } from "../wire/frame.ts"
import { isObject, type Params } from "../wire/message.ts"
import type { Answer } from "./answer.ts"
import { withFailureNote } from "./failure-note.ts"

/** Returns the answer of a call with these arguments, with the tool's parameters added if they explain the failure. */
export function withArgumentHint(answer: Answer, tool: Tool, args: unknown): Answer {
  if (answer.outcome === "ok") return answer
  const message: unknown = parseRelayed(answer.frame)
  const hint = parametersHint(tool)
  if (!isObject(message) || hint === undefined) return answer
  const { result, error } = message
  const isInvalid = isObject(error) && error.code === RPC_CODE.invalidParams
  if (!isInvalid && !(isObject(result) && (!fits(args, tool.inputSchema) || saysInvalid(result)))) return answer
  return withFailureNote(answer, hint)
}

/** Returns a text with the parameters of a tool; undefined if its schema does not name them. */
export function parametersHint({ name, inputSchema }: Tool): string | undefined {
  const { properties, isOpen } = parametersOf(inputSchema)
  if (properties.size === 0 && isOpen) return undefined
  return `Parameters of ${oneLine(name, 60)}: ${signatureOf(inputSchema, SIGNATURE_TOKENS) || "none"}`
}

// ---

const SIGNATURE_TOKENS = 300

/** Whether a tool's error mentions invalid arguments. */
const saysInvalid = ({ content }: Params): boolean =>
  Array.isArray(content) &&
  content.some(
    (block: unknown) =>
      isObject(block) &&
      typeof block.text === "string" &&
      /\binvalid (?:argument|param|input)|\binput validation\b|\bvalidation error/i.test(block.text.slice(0, 2000)),
  )

/**
 * Whether arguments fit a schema, in a shallow check: no required argument is missing, and none is unknown or of another
 * type.
 */
function fits(args: unknown, schema: unknown): boolean {
  if (!isObject(args) || !isObject(schema)) return true
  const { properties, required, isOpen } = parametersOf(schema)
  return (
    [...required].every((name) => Object.hasOwn(args, name)) &&
    Object.entries(args).every(([name, value]) =>
      properties.has(name) ? isOfType(value, properties, name, schema) : isOpen,
    )
  )
}

function isOfType(value: unknown, properties: Parameters["properties"], name: string, root: Params): boolean {
  switch (resolvedSchema(properties.get(name), root)?.type) {
    case "string":
      return typeof value === "string"
    case "integer":
    case "number":
      return numberOf(value) !== undefined
    case "boolean":
      return typeof value === "boolean"
    case "array":
      return Array.isArray(value)
    case "object":
      return isObject(value)
    default:
      return true
  }
}
