/**
 * Rewrites a call of `call_tool` and its like at a lazy address to the direct call inside it, before anything else looks at
 * the request. Progress, tasks, elicitation, errors and the rest are then those of the direct call. choice: Views.
 *
 * Models write the inner call in many ways: each that has one meaning is understood.
 */
import { nameIn } from "../catalog/catalog.ts"
import { isWrapper } from "../catalog/lazy-tools.ts"
import { splitName } from "../catalog/name.ts"
import { slugOf } from "../config/plan.ts"
import { parseExact } from "../lib/json.ts"
import { isObject, type Params } from "../wire/message.ts"
import type { ClientCall } from "./ports.ts"

/** Returns the direct call that a call holds; the call itself if it holds none, or none that can be read. */
export function unwrapCall(call: ClientCall): ClientCall {
  const { request, client } = call
  if (request.method !== "tools/call" || client.scope.tools !== "search") return call
  const { params = {} } = request
  if (!isWrapper(params.name)) return call
  const inner = innerCall(objectOf(params.arguments) ?? {})
  if (inner === undefined) return call
  const name = client.scope.kind === "server" ? inner.name : nameOfTool(inner.name, inner.server)
  return {
    ...call,
    request: { ...request, params: { ...params, name, arguments: inner.args } },
    wrapper: params.name,
  }
}

/** Returns the name of a tool in the aggregate, of a name that may be the server's own beside the server's. */
export const nameOfTool = (name: string, server: unknown): string =>
  typeof server === "string" && server !== "" && splitName(name) === undefined
    ? nameIn("qualified", { slug: slugOf(server) }, name)
    : name

/** Returns the name of a tool among the arguments that may hold it. */
export const nameAmong = (args: Params): string | undefined =>
  NAME_KEYS.map((key) => args[key]).find((value): value is string => typeof value === "string" && value !== "")

/** Returns an object that may be written as JSON text; undefined for anything else. */
export function objectOf(value: unknown): Params | undefined {
  if (isObject(value)) return value
  if (typeof value !== "string") return undefined
  try {
    const parsed = parseExact(value)
    return isObject(parsed) ? parsed : undefined
  } catch {
    return undefined
  }
}

// ---

type InnerCall = { readonly name: string; readonly args: Params; readonly server: unknown }

const NAME_KEYS = ["name", "tool_name", "toolName", "tool"]
const ARGS_KEYS = ["arguments", "args", "parameters", "params", "input"]

function innerCall(outer: Params): InnerCall | undefined {
  const name = nameAmong(outer)
  const key = ARGS_KEYS.find((one) => outer[one] !== undefined && outer[one] !== null)
  const written = key === undefined ? undefined : argumentsOf(outer[key])
  if (key !== undefined && written === undefined) return undefined
  if (name !== undefined)
    return { name, args: written ?? without(outer, [...NAME_KEYS, ...ARGS_KEYS, "server"]), server: outer.server }
  // The name stands among the arguments.
  return written === undefined || nameAmong(written) === undefined ? undefined : innerCall(written)
}

const argumentsOf = (value: unknown): Params | undefined => (value === "" ? {} : objectOf(value))

const without = (value: Params, keys: readonly string[]): Params =>
  Object.fromEntries(Object.entries(value).filter(([key]) => !keys.includes(key)))
