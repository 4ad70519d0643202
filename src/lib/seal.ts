/**
 * Text that others carry for us: sealed, so that they can neither read nor change it (AES-256-GCM), or marked, so that they
 * can make none of their own (HMAC-SHA-256). Both are base64url.
 */
import { createCipheriv, createDecipheriv, createHmac, randomBytes, timingSafeEqual } from "node:crypto"

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

/** Marks texts; the same texts always get the same mark of 22 characters. */
export type Marker = (...texts: readonly string[]) => string

/** `key` gives 32 bytes; asked for with the first mark. */
export function createMarker(key: () => Uint8Array): Marker {
  let known: Uint8Array | undefined
  return (...texts) => {
    known ??= key()
    const mac = createHmac("sha256", known).update(JSON.stringify(texts)).digest()
    return mac.subarray(0, MARK_BYTES).toString("base64url")
  }
}

/** Compares in a time that says nothing about either text. */
export function isSameMark(one: string, other: string): boolean {
  const [a, b] = [Buffer.from(one), Buffer.from(other)]
  return a.length === b.length && timingSafeEqual(a, b)
}

// ---

const MARK_BYTES = 16

const NONCE_BYTES = 12
const TAG_BYTES = 16
