/** How a call ended, read off the answer's bytes. */
import { asBuffer, contains, encode } from "../wire/frame.ts"

/** A tool that failed says so in its result. */
export function outcomeOf(frame: Uint8Array | string): "ok" | "tool_error" | "error" {
  if (typeof frame !== "string") return saysError(asBuffer(frame)) ? "tool_error" : "ok"
  if (/^\{"jsonrpc":"2\.0","id":(?:"(?:[^"\\]|\\.)*"|[^,"]{1,40}),"error":/.test(frame)) return "error"
  return frame.includes('"isError":true') ? "tool_error" : "ok"
}

/** Looked for as servers write it, with or without a space. A name that stands deeper passes for it. */
const saysError = (frame: Buffer): boolean => contains(frame, TOOL_ERROR) || contains(frame, SPACED_ERROR)

// ---

const TOOL_ERROR = encode('"isError":true')
const SPACED_ERROR = encode('"isError": true')
