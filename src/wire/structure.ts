/**
 * Finds the end of a JSON value by its structure alone: strings, brackets and their depth. It takes a fifth of the time of the
 * grammar (grammar.ts), and does not see whether what stands within the brackets is valid. What it does see is all that the safety
 * of others needs: where the value ends, so that no further member of the message follows, that it is not nested too deep, and that
 * no string has a line break. The program is structure.wat.
 */
import { lazy } from "../lib/lazy.ts"
import { endOfValue } from "./grammar.ts"

/**
 * Returns the offset after the object or array that begins at `from`, or -1 if it does not end, is nested deeper than `levels` or
 * has a control character in a string. Where the processor does not have the instructions, checks the whole grammar.
 */
export function endOfStructure(bytes: Uint8Array, from: number, levels: number): number {
  const program = structure()
  if (program === undefined) return endOfValue(bytes, from, levels)
  const { memory, begin, scan } = program
  begin()
  for (let at = from; at < bytes.length; at += WINDOW) {
    const window = bytes.subarray(at, at + WINDOW)
    memory.set(window)
    const rest = window.length % BLOCK
    if (rest > 0) memory.fill(SPACE, window.length, window.length + BLOCK - rest)
    const found = scan(window.length, levels)
    if (found !== GOES_ON) return found < 0 ? -1 : at + found + 1
  }
  return -1
}

// ---

/** Bytes that are copied into the memory of the program at once: they stay in the cache of the processor. */
const WINDOW = 64 * 1024
const BLOCK = 64
const SPACE = 0x20
const GOES_ON = -2
/** Written by scripts/structure.ts. */
const PROGRAM =
  "AGFzbQEAAAABEgNgAABgBHt7e3sBfmACf38BfwMEAwABAgUDAQACBhADfwFBAAt+AUIAC34BQgALBxkDBm1lbW9yeQIABWJlZ2luAAAEc2NhbgACCvsFAw4AQQAkAEIAJAFCACQCCyIAIAD9ZK0gAf1krUIQhoQgAv1krUIghiAD/WStQjCGhIQLxgUEAn8CfgR7Cn4jACEDIwIhBCMBIQUCQANAIAIgAE8NASAC/QAEACEGIAL9AAQQIQcgAv0ABCAhCCAC/QAEMCEJIAZB3AD9D/0jIAdB3AD9D/0jIAhB3AD9D/0jIAlB3AD9D/0jEAEhCiAGQSL9D/0jIAdBIv0P/SMgCEEi/Q/9IyAJQSL9D/0jEAEhCyAKUARAIAsgBUJ/hYMhC0IAIQUFIAogBUJ/hYMhCiAKQgGGIAWEIQwgCkKq1arVqtWq1ap/gyAMQn+FgyENIA0gCnwhDiAOIApUrSEFIAtCf0LVqtWq1arVqtUAIA5CAYaFIAyDhYMhCwsgCyEPIA8gD0IBhoUhDyAPIA9CAoaFIQ8gDyAPQgSGhSEPIA8gD0IIhoUhDyAPIA9CEIaFIQ8gDyAPQiCGhSEPIA8gBIUhDyAPQj+HIQQgBkEg/Q/9JiAHQSD9D/0m/VAgCEEg/Q/9JiAJQSD9D/0m/VD9UP1TBEBCACAPIAZBIP0P/SYgB0Eg/Q/9JiAIQSD9D/0mIAlBIP0P/SYQAYNSBEBBfw8LCyAPQn9SBEAgBkEg/Q/9UCEGIAdBIP0P/VAhByAIQSD9D/1QIQggCUEg/Q/9UCEJIA9Cf4UhDyAPIAZB+wD9D/0jIAdB+wD9D/0jIAhB+wD9D/0jIAlB+wD9D/0jEAGDIRAgDyAGQf0A/Q/9IyAHQf0A/Q/9IyAIQf0A/Q/9IyAJQf0A/Q/9IxABgyERIAMgEXuna0EASiADIBB7p2ogAUxxBEAgAyAQe6cgEXuna2ohAwUgECARhCESAkADQCASUA0BIBJCACASfYMhEyASIBOFIRJCACATIBCDUgRAIANBAWohAyADIAFKBEBBfw8LBSADQQFrIQMgA0EATARAIAIgE3qnag8LCwwACwsLCyACQcAAaiECDAALCyADJAAgBCQCIAUkAUF+Cw=="

type Structure = {
  readonly memory: Uint8Array
  begin(): void
  /** Takes bytes at the beginning of the memory. Returns the offset of the byte that closes the value, -1 or GOES_ON. */
  scan(length: number, levels: number): number
}

/** Loads the program at the first large frame; undefined if this machine cannot run it. */
const structure = lazy((): Structure | undefined => {
  try {
    const { exports } = new WebAssembly.Instance(new WebAssembly.Module(Buffer.from(PROGRAM, "base64")))
    const { memory, begin, scan } = exports as unknown as Structure & { readonly memory: WebAssembly.Memory }
    return { memory: new Uint8Array(memory.buffer), begin, scan }
  } catch {
    return undefined
  }
})
