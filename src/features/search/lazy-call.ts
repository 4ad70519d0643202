/**
 * Rewrites a call of `call_tool` or another wrapper at a lazy address to the direct call inside it, before any other code reads
 * the request. Progress, tasks, elicitation and errors are then those of the direct call. choice: Views.
 *
 * Models write the inner call in many ways.
 *  1. Each unambiguous way is understood.
 *  2. No argument is dropped: members next to the arguments are merged into them, and two values of one argument are refused.
 *  3. A server that is named next to the tool must be the tool's server, or the call is refused.
 */

import type { ClientCall, InnerCall, Wrapping } from "../../call/ports.ts"
import { viewFor } from "../../call/ready.ts"
import { nameIn, toolOf, type View } from "../../catalog/catalog.ts"
import { OWN } from "../../catalog/name.ts"
import { type Parameters, parametersOf } from "../../catalog/signature.ts"
import { slugOf } from "../../config/server-spec.ts"
import { cutText } from "../../lib/text.ts"
import { asText, isObject, type Params, parseJson } from "../../wire/message.ts"
import { isWrapper, type LazyWrapper } from "./lazy-tools.ts"

/** Returns the direct call inside a call; undefined if there is none, or it cannot be read. */
export function unwrapCall(call: Wrapping): InnerCall | undefined {
  const { request, client } = call
  if (request.method !== "tools/call" || client.scope.tools !== "search") return undefined
  const { params = {} } = request
  if (!isWrapper(params.name)) return undefined
  const inner = readWrapper(params.name, params.arguments, viewFor(call))
  if ("problem" in inner) return undefined
  return {
    request: { ...request, params: { ...params, name: inner.name, arguments: inner.args } },
    wrapper: inner.wrapper === "call_read_tool" ? "read-only" : "any",
  }
}

/** Returns the params of the call inside the arguments of a wrapper, as far as they can be read without a view. */
export function innerParams(args: unknown): Params {
  const given = objectOf(args) ?? {}
  return { name: nameAmong(given), arguments: objectOf(given.arguments) }
}

/** Returns why a call of a wrapper contains no valid call, and the tool that it names, if any. */
export function wrapperProblem({ request }: ClientCall, view: View): CallProblem | undefined {
  const { name, arguments: args } = request.params ?? {}
  const inner = isWrapper(name) ? readWrapper(name, args, view) : undefined
  return inner !== undefined && "problem" in inner ? inner : undefined
}

export type CallProblem = { readonly problem: string; readonly tool: string | undefined }

/**
 * Returns a tool's name in a view, from its own or qualified name and the server named next to it, or why it has no name
 * there.
 */
export function nameBeside(name: string, server: unknown, view: View): string | { readonly problem: string } {
  if (typeof server !== "string" || server.trim() === "") return name
  const isNamed = serverAmong([server])
  if (view.naming === "plain") {
    const own = view.parts[0]?.spec.slug
    if (own === undefined || isNamed(own)) return name
    return { problem: `this address has the tools of the server ${own} alone, and none of ${cutText(server, 60)}` }
  }
  const part = view.parts.find(({ spec }) => isNamed(spec.slug))
  if (part === undefined && server.trim() === OWN && !view.tools.has(name)) return name
  const slug = part?.spec.slug ?? slugOf(server.trim())
  if (part?.offered.has(name) === true) return view.nameOf(part.spec, name)
  const whole = nameIn("qualified", { slug }, name)
  const isWhole = view.tools.get(name)?.slug === slug || name.startsWith(nameIn("qualified", { slug }, ""))
  return isWhole && !view.tools.has(whole) ? name : whole
}

/** Returns whether a server is meant by one of the names that a model wrote. */
export function serverAmong(names: readonly string[]): (slug: string) => boolean {
  // No server has a longer name.
  const usual = names.filter((name) => name.length <= MAX_SERVER_NAME)
  const slugs = new Set(usual.map((name) => slugOf(name.trim()).toLowerCase()))
  return (slug) => slugs.has(slug.toLowerCase())
}

/** Returns the name of a tool from the arguments that may contain it. */
export const nameAmong = (args: Params): string | undefined => {
  const key = nameKeyIn(args)
  return key === undefined ? undefined : asText(args[key]).trim()
}

/** Returns an object, which may be written as JSON text or in a code fence; undefined for any other value. */
export function objectOf(value: unknown): Params | undefined {
  if (isObject(value)) return value
  if (typeof value !== "string") return undefined
  try {
    return objectOf(parseJson(unfenced(value)))
  } catch {
    return undefined
  }
}

// ---

type WrittenCall = { readonly name: string; readonly args: Params; readonly wrapper: LazyWrapper }

const NAME_KEYS = ["name", "tool_name", "toolName", "tool"]
const ARGS_KEYS = ["arguments", "args", "parameters", "params", "input"]
const FENCE = "```"
const MAX_SERVER_NAME = 1000
/** The most nested wrappers: deeper ones contain no tool. */
const MAX_DEPTH = 4

/** Returns the text inside a code fence around the whole text; the text itself if there is none. */
function unfenced(text: string): string {
  const fenced = text.trim()
  const start = fenced.indexOf("\n") + 1
  const isFenced =
    start > 0 && fenced.startsWith(FENCE) && fenced.length >= start + FENCE.length && fenced.endsWith(FENCE)
  return isFenced && /^\w*$/.test(fenced.slice(FENCE.length, start).trim()) ? fenced.slice(start, -FENCE.length) : text
}

const nameKeyIn = (args: Params): string | undefined =>
  NAME_KEYS.find((key) => typeof args[key] === "string" && args[key].trim() !== "")

const isEmpty = (value: unknown): boolean => value === undefined || value === null || value === "" || value === "null"

function readWrapper(wrapper: LazyWrapper, written: unknown, view: View, depth = 0): WrittenCall | CallProblem {
  const found = readCall(objectOf(written) ?? {}, view, depth)
  if ("problem" in found) return found
  const name = nameBeside(found.name, found.server, view)
  if (typeof name !== "string") return { problem: name.problem, tool: undefined }
  // At its own address, a server may have tools with the names of wrappers.
  if (!isWrapper(name) || view.naming === "plain") return { name, args: found.args, wrapper }
  if (depth >= MAX_DEPTH) return { problem: `${name} must name a tool to run`, tool: undefined }
  return readWrapper(wrapper === "call_read_tool" ? wrapper : name, found.args, view, depth + 1)
}

type ReadCall = { readonly name: string; readonly args: Params; readonly server: unknown }

/** Reads a call as models write it: the arguments under one of several names, next to the name of the tool, or around it. */
function readCall(outer: Params, view: View, depth: number): ReadCall | CallProblem {
  const nameKey = nameKeyIn(outer)
  const tool = nameAmong(outer)
  const given = Object.entries(outer).filter(
    ([key, value]) => key !== nameKey && key !== "server" && !(isEmpty(value) && ARGS_KEYS.includes(key)),
  )
  const own = given.length > 1 && tool !== undefined ? parametersIn(tool, outer.server, view) : undefined
  const written = given
    .filter(([key]) => key === "arguments" || (ARGS_KEYS.includes(key) && own?.properties.has(key) !== true))
    .map(([key, value]) => ({ key, args: objectOf(value) }))
  const read = written.filter(({ args }) => args !== undefined)
  const beside = given.filter(([key]) => !read.some((one) => one.key === key))
  const unread = written.find(({ key, args }) => args === undefined && (key === "arguments" || given.length === 1))
  if (unread !== undefined)
    return { problem: `${unread.key} must be an object, and not ${kindOf(outer[unread.key])}`, tool }
  const args = new Map<string, unknown>()
  for (const [key, value] of [...read.flatMap((one) => Object.entries(one.args ?? {})), ...beside]) {
    if (args.has(key) && !isSame(args.get(key), value))
      return {
        problem: `the argument ${cutText(key, 60)} has two values: give all arguments once, under "arguments"`,
        tool,
      }
    args.set(key, value)
  }
  const merged = Object.fromEntries(args)
  if (tool !== undefined) return { name: tool, args: merged, server: outer.server }
  // The name may be among the arguments.
  if (read.length === 0 || depth >= MAX_DEPTH || nameKeyIn(merged) === undefined)
    return { problem: "the name of a tool is missing", tool: undefined }
  const inner = readCall(merged, view, depth + 1)
  return "problem" in inner ? inner : { ...inner, server: inner.server ?? outer.server }
}

/** Returns the parameters of a tool, which may have the same names as the members in which models write arguments. */
function parametersIn(tool: string, server: unknown, view: View): Parameters | undefined {
  const name = nameBeside(tool, server, view)
  const found = typeof name === "string" ? toolOf(view, name) : undefined
  return found && parametersOf(found.inputSchema)
}

function kindOf(value: unknown): string {
  if (Array.isArray(value)) return "a list"
  return typeof value === "string" ? "a text that is no JSON object" : `a ${typeof value}`
}

const isSame = (one: unknown, other: unknown): boolean => JSON.stringify(one) === JSON.stringify(other)
