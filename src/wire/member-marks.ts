/**
 * Marks names of members, so that an object keeps all members in the order in which they are written: `JSON.parse` moves names
 * that are numbers before all others, and keeps only the last of the members with one name.
 *
 *     {"a":1,"1":2,"a":3}
 *     {"SECRET0:a":1,"SECRET1:1":2,"a":3}
 */
import { decode, encode } from "./frame.ts"
import { endOfString, skipSpace } from "./grammar.ts"

/**
 * Returns a message with `secret` and a number before the names that must be marked: numbers, and all but the last of the equal
 * names in one object. Repeated members of the message itself are not marked, because they are an error. Returns a frame that
 * is not JSON as it is.
 */
export function markMembers(frame: Uint8Array, secret: string): Uint8Array {
  const places = placesIn(frame)
  if (places === undefined || places.length === 0) return frame
  const parts: Uint8Array[] = []
  let from = 0
  for (const [number, place] of places.sort((one, other) => one - other).entries()) {
    parts.push(frame.subarray(from, place), encode(`${secret}${number}:`))
    from = place
  }
  return Buffer.concat([...parts, frame.subarray(from)])
}

/** Returns the text of a message without the marks. */
export const withoutMarks = (text: string, secret: string): string =>
  text.replace(new RegExp(`${RegExp.escape(secret)}\\d+:`, "g"), "")

// ---

const QUOTE = 0x22
const COLON = 0x3a
const OPEN_BRACKET = 0x5b
const CLOSE_BRACKET = 0x5d
const OPEN_BRACE = 0x7b
const CLOSE_BRACE = 0x7d
const NUMBER = /^\d+$/

/** Returns the offsets of the names to be marked, after their quotation marks; undefined if a string has no end. */
function placesIn(frame: Uint8Array): number[] | undefined {
  const places: number[] = []
  /** The names in each open container, with their offsets; undefined for an array. */
  const open: (Map<string, number> | undefined)[] = []
  for (let at = 0; at < frame.length; at++) {
    const byte = frame[at]
    if (byte === OPEN_BRACE) open.push(new Map())
    else if (byte === OPEN_BRACKET) open.push(undefined)
    else if (byte === CLOSE_BRACE || byte === CLOSE_BRACKET) open.pop()
    else if (byte === QUOTE) {
      const end = endOfString(frame, at)
      if (end < 0) return undefined
      const names = open.at(-1)
      if (names !== undefined && frame[skipSpace(frame, end)] === COLON) {
        const name: string = JSON.parse(decode(frame.subarray(at, end)))
        const before = open.length > 1 ? names.get(name) : undefined
        if (before !== undefined) places.push(before)
        names.set(name, at + 1)
        if (NUMBER.test(name)) places.push(at + 1)
      }
      at = end - 1
    }
  }
  return places
}
