/** How a call ended, read off the answer's bytes. */
import { asBuffer, encode } from "../wire/frame.ts"

/** A tool that failed says so in its result. */
export function outcomeOf(frame: Uint8Array | string): "ok" | "tool_error" | "error" {
  if (typeof frame !== "string") return saysError(asBuffer(frame)) ? "tool_error" : "ok"
  if (/^\{"jsonrpc":"2\.0","id":(?:"(?:[^"\\]|\\.)*"|-?[0-9][-+.0-9eE]*),"error":/.test(frame)) return "error"
  return frame.includes('"isError":true') ? "tool_error" : "ok"
}

// ---

const NAME = encode('"isError"')

/** Looked for as servers write it, with or without spaces. A name that stands deeper passes for it. */
function saysError(frame: Buffer): boolean {
  for (let at = frame.indexOf(NAME); at >= 0; at = frame.indexOf(NAME, at)) {
    at += NAME.length
    if (/^\s{0,4}:\s{0,4}true/.test(frame.toString("latin1", at, at + 16))) return true
  }
  return false
}
