/** A short name for a text: the same for the same text, and nobody finds a second text for it. */
import { createHash } from "node:crypto"

/** The first `length` hexadecimal digits of the text's SHA-256. */
export const digest = (text: string, length = 16): string =>
  createHash("sha256").update(text).digest("hex").slice(0, length)
