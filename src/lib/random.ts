/** Unguessable text. */

/** Returns that many random bytes as base64url. */
export const randomText = (bytes: number): string =>
  Buffer.from(crypto.getRandomValues(new Uint8Array(bytes))).toString("base64url")
