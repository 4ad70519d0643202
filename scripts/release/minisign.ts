/** Signs in the format of minisign, with a key of `minisign -G -W`. `src/lib/minisign.ts` verifies and describes the format. */
import { createHash, createPrivateKey, sign } from "node:crypto"

/** A secret key, and the public key that belongs to it as `minisign.pub` has it. */
export type SigningKey = { readonly id: Buffer; readonly secret: Buffer; readonly publicKey: string }

/** Reads a secret key: the file's text or its line of base64. Throws if it is encrypted with a password, or not a key. */
export function readSigningKey(text: string): SigningKey {
  const bytes = Buffer.from(text.trim().split("\n").at(-1) ?? "", "base64")
  if (bytes.length !== 158 || bytes.toString("latin1", 0, 2) !== "Ed")
    throw new Error("the signing key is not a secret key of minisign")
  if (bytes.readUInt16LE(2) !== 0)
    throw new Error("the signing key is encrypted with a password: make one without by `minisign -G -W`")
  const [id, secret] = [bytes.subarray(54, 62), bytes.subarray(62, 126)]
  return { id, secret, publicKey: Buffer.concat([Buffer.from("Ed"), id, secret.subarray(32)]).toString("base64") }
}

/** Returns the text of `<file>.minisig`. `comment` is signed too and says what the file is; it is one line. */
export function signMinisign(file: Uint8Array, { id, secret }: SigningKey, comment: string): string {
  const key = createPrivateKey({
    key: {
      kty: "OKP",
      crv: "Ed25519",
      d: secret.toString("base64url", 0, 32),
      x: secret.toString("base64url", 32),
    },
    format: "jwk",
  })
  const made = sign(null, createHash("blake2b512").update(file).digest(), key)
  const proof = sign(null, Buffer.concat([made, Buffer.from(comment)]), key)
  return [
    "untrusted comment: signature from minisign secret key",
    Buffer.concat([Buffer.from("ED"), id, made]).toString("base64"),
    `trusted comment: ${comment}`,
    `${proof.toString("base64")}\n`,
  ].join("\n")
}
