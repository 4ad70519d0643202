/**
 * The kind of a failure as traces and metrics name it, by the semantic conventions for MCP.
 * https://github.com/open-telemetry/semantic-conventions-genai/blob/main/docs/gen-ai/mcp.md
 */
import type { Answer } from "./answer.ts"
import type { SpanFailure } from "./ports.ts"

/** How a request ended: its answer, or why there is none. */
export type End = Pick<Answer, "outcome" | "code"> | SpanFailure

/**
 * Returns the `error.type` of an end, and the code of a JSON-RPC error; nothing for a success. For the one that answered
 * ("server"), a request that the client should not have sent is no failure.
 */
export function failureOf(end: End, side: "client" | "server"): { readonly type?: string; readonly code?: string } {
  if (typeof end === "string") return { type: end }
  const { outcome, code } = end
  if (outcome === "ok") return {}
  if (outcome !== "error") return { type: outcome }
  if (code === undefined) return { type: "_OTHER" }
  return side === "server" && FAULTS_OF_CLIENTS.has(code)
    ? { code: String(code) }
    : { type: String(code), code: String(code) }
}

// ---

/** Parse error, invalid request, method not found, invalid params, resource not found. */
const FAULTS_OF_CLIENTS: ReadonlySet<number> = new Set([-32700, -32600, -32601, -32602, -32002])
