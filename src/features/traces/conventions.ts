/**
 * Names and attributes of spans by the semantic conventions for MCP and GenAI.
 * https://github.com/open-telemetry/semantic-conventions-genai/blob/main/docs/gen-ai/mcp.md
 */
import type { Answer } from "../../call/answer.ts"
import type { Target } from "../../call/ports.ts"
import { sha256 } from "../../lib/digest.ts"
import { type Mask, maskAndCut, maskArguments } from "../../session/masked-arguments.ts"
import { textOf } from "../../wire/frame.ts"
import { isObject, type Params, parseJson } from "../../wire/message.ts"
import { type Attributes, SERVER_ATTRIBUTE } from "./encoding.ts"

/** The name of a span, and the attributes that say what the request is about. */
export type Described = { readonly name: string; readonly attributes: Attributes }

/** Describes a request. */
export function describe(method: string, params: Params | undefined, mask: Mask): Described {
  const shown = cleanText(method, mask)
  const common = { "mcp.method.name": shown }
  if (typeof params?.uri === "string")
    return {
      name: shown,
      attributes: { ...common, "mcp.resource.uri": cleanText(withoutQuery(params.uri), mask) },
    }
  const name = nameIn(method, params)
  if (name === undefined) return { name: shown, attributes: common }
  const target = cleanText(name, mask)
  return {
    name: `${shown} ${target}`,
    attributes:
      method === "tools/call"
        ? { ...common, "gen_ai.tool.name": target, "gen_ai.operation.name": "execute_tool" }
        : { ...common, "gen_ai.prompt.name": target },
  }
}

/** Returns a key that requests with the same description share; undefined if the description is not worth to be kept. */
export function descriptionKey(method: string, params: Params | undefined): string | undefined {
  if (params?.uri !== undefined) return undefined
  const key = `${method}\0${nameIn(method, params) ?? ""}`
  return key.length > MAX_CHARS ? undefined : key
}

/** Returns the attributes of a connection to a server. */
export function serverAttributes({ spec, peer }: Pick<Target, "spec" | "peer">): Attributes {
  const common = { [SERVER_ATTRIBUTE]: spec.id, "mcp.protocol.version": peer.protocolVersion }
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
const MAX_CONTENT = 4096
const MAX_RESULT = 64 * 1024

/** Returns the name of the tool or prompt of a request. */
function nameIn(method: string, params: Params | undefined): string | undefined {
  const isNamed = method === "tools/call" || method === "prompts/get"
  return isNamed && typeof params?.name === "string" ? params.name : undefined
}

/** Returns a URI without the parts that may be arguments or credentials. */
const withoutQuery = (uri: string): string =>
  uri.replace(/[?#].*$/s, "").replace(/^([a-z][a-z0-9+.-]{0,30}:\/\/)[^/]*@/i, "$1")

const shortened = (value: Params, mask: Mask): string =>
  maskAndCut(JSON.stringify(maskArguments(value, mask)), mask, MAX_CONTENT).toWellFormed()
