/**
 * Verifies signatures in the format of minisign (Ed25519), such as the signature of a release's SHA256SUMS. `scripts/release/minisign.ts`
 * signs.
 *
 *  1. A key is `Ed`, 8 bytes that identify it, and 32 bytes of Ed25519, as base64.
 *  2. A signature has four lines: an untrusted comment, the signature of the file, a trusted comment, and the signature of the
 *     second and third line. The algorithm `ED` signs the BLAKE2b-512 of the file, `Ed` the file itself.
 */
import { createHash, createPublicKey, verify } from "node:crypto"

/** Returns the trusted comment of a file's signature. Throws an Error with the reason unless `publicKey` made the signature. */
export function verifyMinisign(file: Uint8Array, signature: string, publicKey: string): string {
  const key = bytesOf(publicKey, KEY_BYTES)
  if (key?.toString("latin1", 0, 2) !== LEGACY) throw new Error("the public key is not in the format of minisign")
  const [untrusted = "", first = "", trusted = "", second = ""] = signature.trim().split(/\r?\n/)
  const [body, commentSignature] = [bytesOf(first, SIGNATURE_BYTES), bytesOf(second, ED25519_BYTES)]
  const algorithm = body?.toString("latin1", 0, 2)
  if (
    !untrusted.startsWith(UNTRUSTED) ||
    !trusted.startsWith(TRUSTED) ||
    body === undefined ||
    commentSignature === undefined
  )
    throw new Error("the signature is not in the format of minisign")
  if (algorithm !== PREHASHED && algorithm !== LEGACY) throw new Error("the signature has an unknown algorithm")
  if (!body.subarray(2, 10).equals(key.subarray(2, 10))) throw new Error("the signature was made with another key")
  const verifyingKey = createPublicKey({
    key: { kty: "OKP", crv: "Ed25519", x: key.toString("base64url", 10) },
    format: "jwk",
  })
  const signed = algorithm === PREHASHED ? createHash("blake2b512").update(file).digest() : file
  const fileSignature = body.subarray(10)
  const comment = trusted.slice(TRUSTED.length)
  if (!verify(null, signed, verifyingKey, fileSignature)) throw new Error("the signature does not match the file")
  if (!verify(null, Buffer.concat([fileSignature, Buffer.from(comment)]), verifyingKey, commentSignature))
    throw new Error("the signature does not match its trusted comment")
  return comment
}

// ---

const PREHASHED = "ED"
const LEGACY = "Ed"
const UNTRUSTED = "untrusted comment: "
const TRUSTED = "trusted comment: "
const KEY_BYTES = 42
const SIGNATURE_BYTES = 74
const ED25519_BYTES = 64

/** Decodes the last line of a text as base64. Returns undefined unless it has `length` bytes. */
function bytesOf(text: string, length: number): Buffer | undefined {
  const bytes = Buffer.from(text.trim().split("\n").at(-1) ?? "", "base64")
  return bytes.length === length ? bytes : undefined
}
