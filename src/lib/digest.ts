/** SHA-256 digests, which identify a text: equal texts have equal digests, and a second text for a digest cannot be found. */

/** Returns the first `length` hexadecimal digits of a text's SHA-256, for keys and file names that people see. */
export const digest = (text: string, length = 16): string => sha256(text, "hex").slice(0, length)

/** Returns the whole SHA-256 of a text. */
export const sha256 = (text: string, encoding: "hex" | "base64url"): string => Bun.SHA256.hash(text, encoding)

/** Returns a SHA-256 hasher that takes its bytes in chunks. */
export const incrementalSha256 = (): Bun.CryptoHasher => new Bun.CryptoHasher("sha256")

/** Returns the HMAC-SHA-256 of a text, in base64. */
export const hmacSha256 = (key: string | Uint8Array, text: string): string =>
  new Bun.CryptoHasher("sha256", key).update(text).digest("base64")
