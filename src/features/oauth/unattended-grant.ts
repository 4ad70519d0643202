/**
 * Creates the token requests of grants without a user: client credentials, an assertion of svc's platform (workload identity,
 * RFC 7523), and an identity that an enterprise's identity provider confirms (RFC 8693, ID-JAG). Loaded when such a grant is
 * first used.
 *
 *  1. An assertion goes only to an authorization server in its audience, and an ID token only to its issuer: a remote server
 *     names its authorization server, and could collect tokens that other servers accept.
 *  2. svc reads files for each request, because platforms rotate them. A missing file or an expired token is a TransientError:
 *     svc tries again until the file is replaced.
 */
import {
  type AuthorizationServerMetadata,
  buildDiscoveryUrls,
  requestJwtAuthorizationGrant,
} from "@modelcontextprotocol/client"
import { decodeJwt, type JWTPayload } from "jose"
import { TransientError } from "../../backend/client-transport.ts"
import type { BoundedFetch } from "../../backend/ssrf.ts"
import type { OAuthSettings } from "../../config/server-spec.ts"
import { messageOf } from "../../lib/errors.ts"
import { isObject } from "../../wire/message.ts"
import { requiringToken } from "./foreign-answers.ts"
import { type AuthorizationServer, authenticate } from "./oauth-client.ts"

export type UnattendedGrant = {
  readonly settings: OAuthSettings
  readonly authority: AuthorizationServer
  /** The address of the MCP server. */
  readonly serverUrl: string
  readonly scope: string | undefined
  /** Milliseconds since the epoch. */
  readonly now: number
  /** Returns the text of a file; undefined if it is missing. */
  readText(path: string): string | undefined
  /** Returns a fetch for the identity provider. */
  fetchFrom(identityProvider: string): BoundedFetch
  /** Takes values that must not be shown from now on. */
  addSecrets(secrets: readonly string[]): void
}

/** Returns the parameters of the token request. Rejects with the reason if there is no valid assertion. */
export async function grantParameters(grant: UnattendedGrant): Promise<Readonly<Record<string, string>>> {
  const { grantType } = grant.settings
  if (grantType === "jwt-bearer") return { grant_type: JWT_BEARER, assertion: platformAssertion(grant) }
  if (grantType === "token-exchange") return { grant_type: JWT_BEARER, assertion: await exchangeIdentity(grant) }
  return { grant_type: "client_credentials" }
}

// ---

/** How the SDK begins the message about an answer to a token exchange that it cannot read. */
const INVALID_ANSWER = "Invalid token exchange response"
const JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"

type Jwt = { readonly text: string; readonly claims: JWTPayload; readonly source: string }

/** Returns the configured assertion. Throws if it is not for the authorization server. RFC 7523, 3. */
function platformAssertion(grant: UnattendedGrant): string {
  const { text, claims, source } = readJwt(grant, "assertion")
  const { issuer, metadata } = grant.authority
  const audiences = [claims.aud ?? []].flat()
  if (!audiences.some((one) => isSameUrl(one, issuer) || one === metadata?.token_endpoint))
    throw new Error(
      `${source} is for ${audiences.join(", ") || "no audience"}, not for the authorization server ${issuer}: request it with that audience (aud)`,
    )
  return text
}

/** Exchanges the user's ID token for an assertion (ID-JAG) at the identity provider. */
async function exchangeIdentity(grant: UnattendedGrant): Promise<string> {
  const { settings, authority, serverUrl, scope } = grant
  const { identityProvider = "", identityProviderClientId: id = "", identityProviderClientSecret: secret } = settings
  const { text, claims, source } = readJwt(grant, "subjectToken")
  if (!isSameUrl(claims.iss ?? "", identityProvider))
    throw new Error(`${source} is an ID token of ${claims.iss}, not of oauth.identityProvider ${identityProvider}`)
  const boundedFetch = grant.fetchFrom(identityProvider)
  const metadata = await discoverIdentityProvider(identityProvider, boundedFetch)
  // The SDK would send a secret only in the body.
  const authenticated: BoundedFetch = async (url, init) => {
    const headers = new Headers(init?.headers)
    const body = new URLSearchParams(String(init?.body))
    body.delete("client_id")
    await authenticate({ id, secret, issuer: identityProvider }, undefined)(headers, body, url, metadata)
    return boundedFetch(url, { ...init, headers, body })
  }
  try {
    const { jwtAuthGrant } = await requestJwtAuthorizationGrant({
      tokenEndpoint: metadata.token_endpoint,
      audience: authority.issuer,
      resource: authority.resource ?? serverUrl,
      idToken: text,
      clientId: id,
      fetchFn: requiringToken(authenticated),
      ...(scope === undefined ? {} : { scope }),
    })
    grant.addSecrets([jwtAuthGrant])
    return jwtAuthGrant
  } catch (cause) {
    if (cause instanceof TransientError) throw cause
    // The SDK would describe an invalid answer by the JSON of its issues.
    const why = messageOf(cause).startsWith(INVALID_ANSWER) ? "its answer is no ID-JAG" : messageOf(cause)
    throw new Error(`${new URL(identityProvider).host} issued no grant for ${new URL(serverUrl).host}: ${why}`, {
      cause,
    })
  }
}

/**
 * Returns the metadata of the identity provider. Only its issuer and its token endpoint must be valid: it need not be able to
 * authorize clients in the way that an MCP server's authorization server must. RFC 8414, 3; OpenID Connect Discovery, 4.
 */
async function discoverIdentityProvider(issuer: string, fetchFn: BoundedFetch): Promise<AuthorizationServerMetadata> {
  for (const { url } of buildDiscoveryUrls(issuer)) {
    const response = await fetchFn(url, { headers: { accept: "application/json" } })
    const found: unknown = response.ok ? await response.json().catch(() => undefined) : undefined
    if (!isObject(found) || typeof found.token_endpoint !== "string") continue
    if (!isSameUrl(String(found.issuer), issuer))
      throw new Error(`${url.href} describes the issuer ${found.issuer}: check oauth.identityProvider`)
    return found as AuthorizationServerMetadata
  }
  throw new Error(`${issuer} has no metadata with a token endpoint: check oauth.identityProvider`)
}

/** Reads a configured JWT or its file. Throws if it is missing or not valid now. */
function readJwt(grant: UnattendedGrant, name: "assertion" | "subjectToken"): Jwt {
  const path = grant.settings[`${name}File`]
  const source = path ?? `oauth.${name}`
  const text = (path === undefined ? grant.settings[name] : readFile(grant, path))?.trim() ?? ""
  grant.addSecrets(text === "" ? [] : [text])
  // Only a file can change without a new configuration.
  const problem = (why: string) => (path === undefined ? new Error(why) : new TransientError(why))
  if (text === "") throw problem(`${source} is missing or empty`)
  const claims = claimsOf(text)
  if (claims === undefined) throw problem(`${source} is not a JWT`)
  if (claims.exp !== undefined && claims.exp * 1000 <= grant.now)
    throw problem(`${source} expired at ${new Date(claims.exp * 1000).toISOString()}: a new token is needed there`)
  return { text, claims, source }
}

function readFile({ readText }: UnattendedGrant, path: string): string | undefined {
  try {
    return readText(path)
  } catch (cause) {
    throw new TransientError(messageOf(cause), { cause })
  }
}

function claimsOf(text: string): JWTPayload | undefined {
  try {
    return decodeJwt(text)
  } catch {
    return undefined
  }
}

/** Whether two issuers are the same, with or without a slash at the end. */
const isSameUrl = (one: string, other: string): boolean => one.replace(/\/$/, "") === other.replace(/\/$/, "")
