/**
 * Names and attributes of spans by the semantic conventions for MCP and GenAI.
 * https://github.com/open-telemetry/semantic-conventions-genai/blob/main/docs/gen-ai/mcp.md
 */
import type { Answer } from "../../call/answer.ts"
import type { SpanFailure, Target } from "../../call/ports.ts"
import { BoundedMap } from "../../lib/bounded-map.ts"
import { sha256 } from "../../lib/digest.ts"
import { type Mask, maskAndCut, maskArguments } from "../../session/masked-arguments.ts"
import { textOf } from "../../wire/frame.ts"
import { isObject, type Params, parseJson } from "../../wire/message.ts"
import type { Attributes } from "./span.ts"

/** The name of a span, and the attributes that say what the request is about. */
export type Described = { readonly name: string; readonly attributes: Readonly<Attributes> }

/** Returns a function that describes requests. It caches the descriptions of tools and prompts, which repeat with every call. */
export function createDescriber(masker: () => Mask): (method: string, params: Params | undefined) => Described {
  const known = new BoundedMap<string, Described>(MAX_KNOWN)
  let mask = masker()
  return (method, params) => {
    const now = masker()
    if (now !== mask) {
      mask = now
      known.clear()
    }
    const key = `${method}\0${typeof params?.name === "string" ? params.name : ""}`
    if (typeof params?.uri === "string" || key.length > MAX_CHARS) return describe(method, params, mask)
    const found = known.get(key) ?? describe(method, params, mask)
    if (!known.has(key)) known.set(key, found)
    return found
  }
}

/** Returns the attributes of a connection to a server. */
export function serverAttributes({ spec, peer }: Pick<Target, "spec" | "peer">): Attributes {
  const common = { "svc.server": spec.id, "mcp.protocol.version": peer.protocolVersion }
  if (spec.launch.transport === "stdio") return { ...common, "network.transport": "pipe" }
  const { hostname, port, protocol } = new URL(spec.launch.url)
  return {
    ...common,
    "network.transport": "tcp",
    "network.protocol.name": "http",
    "server.address": hostname,
    "server.port": Number(port) || (protocol === "https:" ? 443 : 80),
  }
}

/** Returns the attribute for the session of a client. Its id is a credential, so the attribute is a digest. */
export const sessionAttribute = (id: string): string => sha256(id, "hex").slice(0, 32)

/** Returns the `error.type` of an end, and the code of a JSON-RPC error; nothing for a success. */
export function failureOf(end: Pick<Answer, "outcome" | "code"> | SpanFailure): {
  readonly type?: string
  readonly code?: string
} {
  if (typeof end === "string") return { type: end }
  const { outcome, code } = end
  if (outcome === "ok") return {}
  if (outcome !== "error") return { type: outcome }
  return code === undefined ? { type: "_OTHER" } : { type: String(code), code: String(code) }
}

/** Returns the arguments of a call without secrets, as JSON text. */
export const argumentsText = (params: Params | undefined, mask: Mask): string | undefined =>
  isObject(params?.arguments) ? shortened(params.arguments, mask) : undefined

/** Returns the result in an answer without secrets, as JSON text; undefined if it is too large to be parsed for this. */
export function resultText({ frame, sent }: Pick<Answer, "frame" | "sent">, mask: Mask): string | undefined {
  if (sent !== undefined || frame.length > MAX_RESULT) return undefined
  const answer = parseJson(textOf(frame))
  return isObject(answer) && isObject(answer.result) ? shortened(answer.result, mask) : undefined
}

/** Returns a text of a client, short and without secrets. */
export const cleanText = (text: string, mask: Mask): string => maskAndCut(text, mask, MAX_CHARS).toWellFormed()

// ---

const MAX_CHARS = 200
const MAX_KNOWN = 1000
const MAX_CONTENT = 4096
const MAX_RESULT = 64 * 1024

function describe(method: string, params: Params | undefined, mask: Mask): Described {
  const shown = cleanText(method, mask)
  const attributes: Attributes = { "mcp.method.name": shown }
  if (typeof params?.uri === "string") attributes["mcp.resource.uri"] = cleanText(withoutQuery(params.uri), mask)
  if (typeof params?.name !== "string") return { name: shown, attributes }
  const name = cleanText(params.name, mask)
  switch (method) {
    case "tools/call":
      attributes["gen_ai.tool.name"] = name
      attributes["gen_ai.operation.name"] = "execute_tool"
      return { name: `${method} ${name}`, attributes }
    case "prompts/get":
      attributes["gen_ai.prompt.name"] = name
      return { name: `${method} ${name}`, attributes }
    default:
      return { name: shown, attributes }
  }
}

/** Returns a URI without the parts that may be arguments or credentials. */
const withoutQuery = (uri: string): string =>
  uri.replace(/[?#].*$/s, "").replace(/^([a-z][a-z0-9+.-]{0,30}:\/\/)[^/]*@/i, "$1")

const shortened = (value: Params, mask: Mask): string =>
  maskAndCut(JSON.stringify(maskArguments(value, mask)), mask, MAX_CONTENT).toWellFormed()
