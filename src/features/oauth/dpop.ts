/**
 * Binds tokens to a key, and proves possession of it to authorization servers and resources, through the MCP SDK. Loaded
 * when tokens are first bound. RFC 9449.
 */
import { DPOP_SUPPORTED_ALGS, type DpopAlg, DpopSession, generateDpopKeyPair } from "@modelcontextprotocol/client"
import { calculateJwkThumbprint, exportJWK, importJWK, type JWK } from "jose"

/** A private key, as it is stored with the tokens that are bound to it. */
export type DpopKey = { readonly alg: DpopAlg; readonly jwk: JWK }

/** Creates proofs with one key, and remembers the nonce of each origin. */
export type DpopProver = DpopSession

/** Generates a key for tokens of an issuer, with an algorithm that is in each of the lists. Throws if svc supports none. */
export async function generateDpopKey(issuer: string, lists: readonly (readonly unknown[])[]): Promise<DpopKey> {
  const alg = DPOP_SUPPORTED_ALGS.find((one) => lists.every((accepted) => accepted.includes(one)))
  if (alg === undefined)
    throw new Error(
      `${issuer} and the server accept no DPoP signing algorithm that svc supports: set oauth.dpopBoundAccessTokens to false to use bearer tokens`,
    )
  const { privateKey } = await generateDpopKeyPair({ alg, extractable: true })
  return { alg, jwk: await exportJWK(privateKey) }
}

/** Returns a prover for a stored key. */
export async function openDpop({ alg, jwk }: DpopKey): Promise<DpopProver> {
  const publicJwk = Object.fromEntries(Object.entries(jwk).filter(([name]) => PUBLIC_MEMBERS.includes(name)))
  const [privateKey, publicKey] = await Promise.all([importJWK(jwk, alg), importJWK(publicJwk, alg)])
  if (privateKey instanceof Uint8Array || publicKey instanceof Uint8Array) throw new Error("a DPoP key is a key pair")
  const thumbprint = await calculateJwkThumbprint(publicJwk, "sha256")
  return DpopSession.create({ keyPair: { alg, privateKey, publicKey, publicJwk, thumbprint } })
}

// ---

/** The members of a JWK that are not secret. RFC 7517, 4; RFC 7518, 6; RFC 8037, 2. */
const PUBLIC_MEMBERS = ["kty", "crv", "x", "y", "n", "e"]
