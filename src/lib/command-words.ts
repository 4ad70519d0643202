/** Cuts a command line into words, without a shell. */

/**
 * Returns the words of a command line, or undefined if a quote is not closed. Words are separated by blanks; `'…'` and `"…"` keep
 * them together. A backslash makes the next blank, quote or backslash part of the word, but not in single quotes; before any other
 * character it stays, for Windows paths. No other character is special.
 */
export function commandWords(text: string): readonly string[] | undefined {
  const words: string[] = []
  let word: string | undefined
  let quote: string | undefined
  for (let at = 0; at < text.length; at++) {
    const char = text.charAt(at)
    if (char === "\\" && quote !== "'" && /[\s"'\\]/.test(text.charAt(at + 1))) word = (word ?? "") + text.charAt(++at)
    else if (char === quote) quote = undefined
    else if (quote === undefined && (char === '"' || char === "'")) {
      quote = char
      word ??= ""
    } else if (quote === undefined && /\s/.test(char)) {
      if (word !== undefined) words.push(word)
      word = undefined
    } else word = (word ?? "") + char
  }
  if (quote !== undefined) return undefined
  return word === undefined ? words : [...words, word]
}
