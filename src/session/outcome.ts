/** How a call ended, read off the answer's bytes. */
import { asBuffer, contains, encode } from "../wire/frame.ts"

/** A tool that failed says so in its result. */
export function outcomeOf(frame: Uint8Array | string): "ok" | "tool_error" | "error" {
  if (typeof frame !== "string") return contains(asBuffer(frame), TOOL_ERROR) ? "tool_error" : "ok"
  if (/^\{"jsonrpc":"2\.0","id":(?:"(?:[^"\\]|\\.)*"|[^,"]{1,40}),"error":/.test(frame)) return "error"
  return frame.includes('"isError":true') ? "tool_error" : "ok"
}

// ---

const TOOL_ERROR = encode('"isError":true')
