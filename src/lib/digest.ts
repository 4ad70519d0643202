/** Digests of text (SHA-256), which stand for it: the same text has the same digest, and no other text can be found for it. */

/** Returns the first `length` hexadecimal digits of a text's SHA-256, for keys and file names that people see. */
export const digest = (text: string, length = 16): string => sha256(text, "hex").slice(0, length)

/** Returns a text's SHA-256 whole. */
export const sha256 = (text: string, encoding: "hex" | "base64url"): string => Bun.SHA256.hash(text, encoding)

/** Returns a SHA-256 that takes its bytes in pieces. */
export const incrementalSha256 = (): Bun.CryptoHasher => new Bun.CryptoHasher("sha256")
