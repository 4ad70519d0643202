/** Text that others carry for us and can neither read nor change: AES-256-GCM, base64url. */
import { createCipheriv, createDecipheriv, randomBytes } from "node:crypto"

export type Sealer = {
  seal(text: string): string
  /** The sealed text, or undefined where it was not sealed with this key or was changed since. */
  open(sealed: string): string | undefined
}

/** `key` is 32 bytes. */
export function createSealer(key: Uint8Array): Sealer {
  return {
    seal(text) {
      const nonce = randomBytes(NONCE_BYTES)
      const cipher = createCipheriv("aes-256-gcm", key, nonce)
      const body = Buffer.concat([cipher.update(text, "utf8"), cipher.final()])
      return Buffer.concat([nonce, cipher.getAuthTag(), body]).toString("base64url")
    },
    open(sealed) {
      if (!/^[A-Za-z0-9_-]+$/.test(sealed)) return undefined
      const bytes = Buffer.from(sealed, "base64url")
      // Bits that base64url would ignore must not make a second spelling of the same text.
      if (bytes.toString("base64url") !== sealed || bytes.length < NONCE_BYTES + TAG_BYTES) return undefined
      const decipher = createDecipheriv("aes-256-gcm", key, bytes.subarray(0, NONCE_BYTES))
      decipher.setAuthTag(bytes.subarray(NONCE_BYTES, NONCE_BYTES + TAG_BYTES))
      try {
        return decipher.update(bytes.subarray(NONCE_BYTES + TAG_BYTES), undefined, "utf8") + decipher.final("utf8")
      } catch {
        return undefined
      }
    },
  }
}

// ---

const NONCE_BYTES = 12
const TAG_BYTES = 16
