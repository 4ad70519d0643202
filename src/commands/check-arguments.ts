/**
 * Checks the arguments of a call against the whole input schema of its tool, with the validator of the MCP SDK. Callers import
 * this file with `await import`: the validator takes longer to load than a short command runs.
 */
import { AjvJsonSchemaValidator } from "@modelcontextprotocol/client/validators/ajv"
import { messageOf } from "../lib/errors.ts"
import { isObject, type Params } from "../wire/message.ts"

/** Returns what is wrong with the arguments, and names that the schema does not know; none for a schema that cannot be used. */
export function argumentProblems(schema: unknown, args: Params): readonly string[] {
  if (!isObject(schema)) return []
  const unknown = unknownNames(schema, args)
  const named = unknown.map((name) => `${name} is no parameter of the tool`)
  try {
    // Numbers keep their source text elsewhere; the validator knows only the numbers of JavaScript.
    const plain: unknown = JSON.parse(JSON.stringify(args))
    const { errorMessage } = new AjvJsonSchemaValidator().getValidator(schema)(plain)
    const wrong =
      errorMessage?.split(", data").map((one, at) => memberOf(at === 0 ? one.replace(/^data/, "") : one)) ?? []
    return [...named, ...wrong]
  } catch (error) {
    return [...named, `the tool's schema cannot be checked: ${messageOf(error)}`]
  }
}

// ---

/** Returns a problem of the validator with the path of its member: `/limit must be <= 100` becomes `limit must be <= 100`. */
const memberOf = (problem: string): string =>
  problem.replace(/^\/([^ ]*) /, (_, path: string) => `${path.replaceAll("/", ".")} `).trim()

function unknownNames(
  { properties, patternProperties, additionalProperties, ...rest }: Params,
  args: Params,
): readonly string[] {
  const isOpen = patternProperties !== undefined || isObject(additionalProperties) || additionalProperties === true
  const isComposed = ["$ref", "allOf", "anyOf", "oneOf", "if", "dependentSchemas"].some((key) => key in rest)
  if (isOpen || isComposed || additionalProperties === false || !isObject(properties)) return []
  return Object.keys(args).filter((name) => !Object.hasOwn(properties, name))
}
