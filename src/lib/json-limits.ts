/** How deeply a JSON text may be nested, and of how many values it may consist, to be parsed at all. */

/** The limit of nesting: code that walks a parsed value must not run out of stack. */
export const MAX_DEPTH = 512
/** The limit of values in one text: parsing, walking and writing them must not take long. */
const MAX_VALUES = 500_000
/** The same for a text with numbers that are kept as written, which takes five times as long. */
const MAX_EXACT_VALUES = 100_000

/**
 * Matches a number that a double may write differently: 16 digits or more, an exponent, a trailing zero in the fraction, a
 * value below 0.000001, or minus zero. A match inside a string costs only time. The leading class, which precedes every
 * number, keeps the search from trying each digit of the text.
 */
export const INEXACT = /(?:^|[\s:,[])-?(?:[\d.]{16}|\d+(?:\.\d+)?[eE]|\d+\.\d*0(?!\d)|0\.0{6}|(?<=-)0(?!\.))/

/**
 * Returns why a JSON text is too complex to be parsed at once; undefined for any other text, valid or not. Takes linear time,
 * and builds nothing.
 */
export function complexityOf(text: string): string | undefined {
  // A shorter text cannot be that deep.
  if (text.length < 2 * MAX_DEPTH) return undefined
  let depth = 0
  let values = 1
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at)
    if (code === QUOTE) at = endOfString(text, at)
    else if (code === COMMA) {
      if (++values > MAX_VALUES) break
    } else if (code === OPEN_BRACKET || code === OPEN_BRACE) {
      values++
      if (++depth > MAX_DEPTH) return `nested deeper than ${MAX_DEPTH} levels`
    } else if (code === CLOSE_BRACKET || code === CLOSE_BRACE) depth--
  }
  const most = values > MAX_EXACT_VALUES && INEXACT.test(text) ? MAX_EXACT_VALUES : MAX_VALUES
  return values > most ? `made of more than ${most} values` : undefined
}

// ---

const QUOTE = 0x22
const COMMA = 0x2c
const OPEN_BRACKET = 0x5b
const BACKSLASH = 0x5c
const CLOSE_BRACKET = 0x5d
const OPEN_BRACE = 0x7b
const CLOSE_BRACE = 0x7d

/** Returns the index of the quote that ends the string at `quote`, or the length of the text. */
function endOfString(text: string, quote: number): number {
  let at = quote + 1
  while (at < text.length && text.charCodeAt(at) !== QUOTE) at += text.charCodeAt(at) === BACKSLASH ? 2 : 1
  return at
}
