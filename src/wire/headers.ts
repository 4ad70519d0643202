/** Mirrors values of the body in headers, as modern HTTP requests do. basic: Streamable HTTP, Request Metadata. */
import { numberOf } from "../lib/json.ts"
import { asText, isObject } from "./message.ts"

/** A parameter of a tool that is mirrored as `Mcp-Param-<name>`, and its path in the arguments. */
export type MirroredHeader = { readonly header: string; readonly path: readonly string[] }

/**
 * Returns the parameters that a tool's input schema marks with `x-mcp-header`. Returns a message if a mark is invalid: a client
 * must not offer such a tool. basic: Streamable HTTP, Schema Extension.
 */
export function mirroredOf(inputSchema: unknown): readonly MirroredHeader[] | string {
  // Most schemas have no mark.
  if (!JSON.stringify(inputSchema ?? null).includes(`"${MARK}"`)) return []
  const found: MirroredHeader[] = []
  const names = new Set<string>()
  const visit = (schema: unknown, path: readonly string[], reachable: boolean): string | undefined => {
    if (Array.isArray(schema)) return firstOf(schema, (inner) => visit(inner, path, false))
    if (!isObject(schema)) return undefined
    if (MARK in schema) {
      const name = schema[MARK]
      if (!reachable) return "x-mcp-header marks a schema that is not a reachable parameter"
      if (typeof name !== "string" || !TOKEN.test(name)) return "x-mcp-header is not a valid header name"
      if (names.has(name.toLowerCase())) return `x-mcp-header ${name} is used twice`
      if (schema.type !== "string" && schema.type !== "integer" && schema.type !== "boolean")
        return `x-mcp-header ${name} marks a parameter that is not a string, integer or boolean`
      names.add(name.toLowerCase())
      found.push({ header: `mcp-param-${name.toLowerCase()}`, path })
    }
    return firstOf(Object.entries(schema), ([key, inner]) => {
      if (key === "properties" && isObject(inner))
        return firstOf(Object.entries(inner), ([property, below]) => visit(below, [...path, property], reachable))
      return isObject(inner) || Array.isArray(inner) ? visit(inner, path, false) : undefined
    })
  }
  return visit(inputSchema, [], true) ?? found
}

/** Returns the mirrored headers of a `tools/call`. */
export function paramHeaders(args: unknown, mirrored: readonly MirroredHeader[]): Record<string, string> {
  const headers: Record<string, string> = {}
  for (const { header, path } of mirrored) {
    const value = valueAt(args, path)
    if (value !== undefined && value !== null) headers[header] = encodeHeader(textOf(value))
  }
  return headers
}

/** Returns a message about the first header that differs from the arguments, or undefined. */
export function paramMismatch(
  args: unknown,
  mirrored: readonly MirroredHeader[],
  headers: Headers,
): string | undefined {
  for (const { header, path } of mirrored) {
    const raw = headers.get(header)
    const value = valueAt(args, path)
    const expected = value === undefined || value === null ? undefined : textOf(value)
    if (raw === null && expected === undefined) continue
    if (raw === null) return `${header} is missing`
    const decoded = decodeHeader(raw)
    if (decoded === undefined) return `${header} is not a valid header value`
    if (decoded === expected || isSameNumber(decoded, value)) continue
    return `${header} does not match the body's ${path.join(".")}`
  }
  return undefined
}

/** Encodes a value for a header. basic: Streamable HTTP, Value Encoding. */
export function encodeHeader(value: string): string {
  const plain = /^([\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?)?$/.test(value) && !SENTINEL.test(value)
  return plain ? value : `=?base64?${Buffer.from(value).toString("base64")}?=`
}

/** Returns the value that a header encodes, or undefined if it is malformed. */
export function decodeHeader(value: string): string | undefined {
  const encoded = SENTINEL.exec(value)?.[1]
  if (encoded === undefined) return /^[\t\x20-\x7e]*$/.test(value) ? value : undefined
  if (encoded.length % 4 !== 0 || !/^[A-Za-z0-9+/]*={0,2}$/.test(encoded)) return undefined
  return Buffer.from(encoded, "base64").toString("utf8")
}

// ---

const MARK = "x-mcp-header"
const TOKEN = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/
const SENTINEL = /^=\?base64\?(.*)\?=$/

/** Returns an argument as header text: integers in decimal, other numbers as written in the body. */
function textOf(value: unknown): string {
  const number = numberOf(value)
  return asText(number !== undefined && Number.isSafeInteger(number) ? number : value)
}

/** Whether a header is another spelling of the body's number. Integers beyond 2^53 never are: doubles cannot tell them apart. */
function isSameNumber(text: string, value: unknown): boolean {
  const number = numberOf(value)
  if (number === undefined || text.trim() === "" || Number(text) !== number) return false
  return Number.isSafeInteger(number) || !Number.isInteger(number)
}

function valueAt(args: unknown, path: readonly string[]): unknown {
  let value = args
  for (const key of path) value = isObject(value) && Object.hasOwn(value, key) ? value[key] : undefined
  return value
}

function firstOf<T>(items: readonly T[], find: (item: T) => string | undefined): string | undefined {
  for (const item of items) {
    const found = find(item)
    if (found !== undefined) return found
  }
  return undefined
}
