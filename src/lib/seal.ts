/**
 * Protects text that clients carry for svc: a sealed text (AES-256-GCM) can be neither read nor changed, and a mark, which is a
 * MAC (HMAC-SHA-256), cannot be forged. Both are base64url. Not jose's CompactEncrypt, which is asynchronous.
 */

export type Sealer = {
  seal(text: string): string
  /** Returns the sealed text, or undefined if it was sealed with another key or changed since. */
  open(sealed: string): string | undefined
}

/** Creates a sealer; `key` has 32 bytes. */
export function createSealer(key: Uint8Array): Sealer {
  return {
    seal(text) {
      const nonce = crypto.getRandomValues(new Uint8Array(NONCE_BYTES))
      const cipher = nodeCrypto().createCipheriv("aes-256-gcm", key, nonce)
      const body = Buffer.concat([cipher.update(text, "utf8"), cipher.final()])
      return Buffer.concat([nonce, cipher.getAuthTag(), body]).toString("base64url")
    },
    open(sealed) {
      if (!/^[A-Za-z0-9_-]+$/.test(sealed)) return undefined
      const bytes = Buffer.from(sealed, "base64url")
      // base64url ignores trailing bits: without this check one text would have several sealed forms.
      if (bytes.toString("base64url") !== sealed || bytes.length < NONCE_BYTES + TAG_BYTES) return undefined
      const decipher = nodeCrypto().createDecipheriv("aes-256-gcm", key, bytes.subarray(0, NONCE_BYTES))
      decipher.setAuthTag(bytes.subarray(NONCE_BYTES, NONCE_BYTES + TAG_BYTES))
      try {
        return decipher.update(bytes.subarray(NONCE_BYTES + TAG_BYTES), undefined, "utf8") + decipher.final("utf8")
      } catch {
        return undefined
      }
    },
  }
}

/** The length of a mark. */
export const MARK_CHARS = 22

/** Returns the mark of texts: MARK_CHARS characters, always the same for the same texts. */
export type Marker = (...texts: readonly string[]) => string

/** Creates a marker; `key` returns 32 bytes and is called for the first mark. */
export function createMarker(key: () => Uint8Array): Marker {
  let known: Uint8Array | undefined
  return (...texts) => {
    known ??= key()
    const mac = nodeCrypto().createHmac("sha256", known).update(JSON.stringify(texts)).digest()
    return mac.subarray(0, MARK_BYTES).toString("base64url")
  }
}

/** Compares two marks, or two tokens, in constant time. */
export function isSameMark(one: string, other: string): boolean {
  const [a, b] = [Buffer.from(one), Buffer.from(other)]
  return a.length === b.length && nodeCrypto().timingSafeEqual(a, b)
}

// ---

/** Loads node:crypto at its first use: loading takes 4 ms, and a start seals nothing. */
const nodeCrypto = () => process.getBuiltinModule("node:crypto")

const MARK_BYTES = 16

const NONCE_BYTES = 12
const TAG_BYTES = 16
