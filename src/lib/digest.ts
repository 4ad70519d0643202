/** A short name for a text: the same for the same text, and nobody finds a second text for it. */

/** The first `length` hexadecimal digits of the text's SHA-256. */
export const digest = (text: string, length = 16): string => Bun.SHA256.hash(text, "hex").slice(0, length)
