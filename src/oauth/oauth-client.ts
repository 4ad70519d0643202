/**
 * What svc says to authorization servers, through the MCP SDK. The only file that imports it: it is loaded when a server
 * first wants authorization, so that a start need not pay for it.
 *
 *  1. A server that cannot be reached or has trouble of its own has said nothing: a TransientError revokes nothing.
 *  2. What an authorization server is, is read anew for each grant; credentials go only to the issuer they belong to.
 */
import { createPrivateKey } from "node:crypto"
import {
  type AddClientAuthentication,
  checkResourceAllowed,
  computeScopeUnion,
  discoverAuthorizationServerMetadata,
  discoverOAuthProtectedResourceMetadata,
  exchangeAuthorization,
  extractWWWAuthenticateParams,
  type FetchLike,
  fetchToken,
  isStrictScopeSuperset,
  OAuthError,
  type OAuthTokens,
  refreshAuthorization,
  registerClient,
  resolveClientMetadata,
  resourceUrlFromServerUrl,
  selectClientAuthMethod,
  createPrivateKeyJwtAuth as signAssertion,
  startAuthorization,
  validateAuthorizationResponseIssuer,
} from "@modelcontextprotocol/client"
import { TransientError } from "../backend/link.ts"

export { computeScopeUnion, isStrictScopeSuperset }

/** Who svc is towards one authorization server. `secret` is the private key (PEM) where the method is private_key_jwt. */
export type OAuthClient = {
  readonly id: string
  readonly secret?: string | undefined
  readonly method?: string | undefined
  readonly issuer: string
  /** What it was registered with; undefined where svc did not register it. */
  readonly redirectUrl?: string | undefined
  /** The scopes it may ask for, where its registration says so. */
  readonly scope?: string | undefined
  /** Milliseconds since the epoch. */
  readonly expiresAt?: number | undefined
}

/** The authorization server of a protected resource, as both describe it at this moment. */
export type AuthorizationServer = {
  readonly issuer: string
  readonly url: string
  readonly metadata: Awaited<ReturnType<typeof discoverAuthorizationServerMetadata>>
  /** What tokens are asked for, to the letter; undefined where the resource does not describe itself. */
  readonly resource: string | undefined
  readonly scopes: string | undefined
}

export type Challenge = {
  readonly metadataUrl: string | undefined
  readonly scope: string | undefined
  readonly error: string | undefined
}

export function challengeOf(response: Response): Challenge {
  const { resourceMetadataUrl, scope, error } = extractWWWAuthenticateParams(response)
  return { metadataUrl: resourceMetadataUrl?.href, scope, error }
}

/** Finds out who authorizes for a server. RFC 9728, RFC 8414; throws where what they say does not fit together. */
export async function discover(
  serverUrl: string,
  metadataUrl: string | undefined,
  fetch: FetchLike,
): Promise<AuthorizationServer> {
  const described = await describeResource(serverUrl, metadataUrl, fetch)
  if (described !== undefined) {
    const requestedResource = resourceUrlFromServerUrl(serverUrl)
    if (!checkResourceAllowed({ requestedResource, configuredResource: described.resource }))
      throw new Error(`it describes itself as another resource, ${described.resource}`)
  }
  const url = described?.authorization_servers?.[0] ?? new URL("/", serverUrl).href
  const metadata = await discoverAuthorizationServerMetadata(url, { fetchFn: fetch })
  return {
    issuer: metadata?.issuer ?? url,
    url,
    metadata,
    resource: described?.resource,
    scopes: described?.scopes_supported?.join(" "),
  }
}

/** Whether a client may be known by the address of its own description. */
export const supportsMetadataUrl = ({ metadata }: AuthorizationServer): boolean =>
  metadata?.client_id_metadata_document_supported === true

/** Registers svc. RFC 7591. */
export async function register(
  { url, issuer, metadata }: AuthorizationServer,
  redirectUrl: string,
  scope: string | undefined,
  method: string | undefined,
  fetch: FetchLike,
): Promise<OAuthClient> {
  const methods = metadata?.token_endpoint_auth_methods_supported ?? ["client_secret_basic"]
  const clientMetadata = resolveClientMetadata({
    redirectUrl,
    clientMetadata: {
      ...DESCRIPTION,
      redirect_uris: [redirectUrl],
      token_endpoint_auth_method: method ?? PREFERRED.find((one) => methods.includes(one)) ?? "none",
    },
  })
  const made = await registerClient(url, {
    clientMetadata,
    fetchFn: fetch,
    ...(metadata === undefined ? {} : { metadata }),
    ...(scope === undefined ? {} : { scope }),
  })
  const { client_id: id, client_secret: secret, client_secret_expires_at: until } = made
  return {
    id,
    secret,
    method: made.token_endpoint_auth_method,
    issuer,
    redirectUrl,
    scope: made.scope,
    expiresAt: until === undefined || until === 0 ? undefined : until * 1000,
  }
}

/** svc as a client, for authorization servers that look it up: its name is where this is. */
export const clientMetadata = (metadataUrl: string, redirectUrl: string) => ({
  ...DESCRIPTION,
  client_id: metadataUrl,
  redirect_uris: [redirectUrl],
  token_endpoint_auth_method: "none",
})

/** What to ask for: what was demanded, else what the server offers; and to stay logged in where that has a scope. */
export function requestedScope(
  demanded: string | undefined,
  { scopes, metadata }: AuthorizationServer,
): string | undefined {
  const scope = demanded ?? scopes
  return scope !== undefined && scope !== "" && metadata?.scopes_supported?.includes("offline_access") === true
    ? computeScopeUnion(scope, "offline_access")
    : scope
}

/** Where a person must go. `verifier` is the PKCE secret (S256). */
export async function authorizationUrl(
  { url, metadata, resource }: AuthorizationServer,
  client: OAuthClient,
  redirectUrl: string,
  state: string,
  scope: string | undefined,
): Promise<{ readonly url: string; readonly verifier: string }> {
  const started = await startAuthorization(url, {
    clientInformation: { client_id: client.id },
    redirectUrl,
    state,
    ...(metadata === undefined ? {} : { metadata }),
    ...(scope === undefined ? {} : { scope }),
  })
  const { authorizationUrl, codeVerifier } = started
  // A person or a program opens it.
  if (!/^https?:$/.test(authorizationUrl.protocol))
    throw new Error(`its authorization server sends people to a ${authorizationUrl.protocol} address`)
  if (resource !== undefined) authorizationUrl.searchParams.set("resource", resource)
  return { url: authorizationUrl.href, verifier: codeVerifier }
}

/**
 * Redeems what came back to the redirect address. The issuer is checked before anything else in it is believed
 * (RFC 9207).
 */
export async function redeem(
  { url, metadata, resource }: AuthorizationServer,
  client: OAuthClient,
  redirectUrl: string,
  verifier: string,
  answer: URLSearchParams,
  fetch: FetchLike,
): Promise<OAuthTokens> {
  const iss = answer.get("iss") ?? undefined
  validateAuthorizationResponseIssuer({
    iss,
    expectedIssuer: metadata?.issuer,
    issParameterSupported: metadata?.authorization_response_iss_parameter_supported === true,
  })
  const error = answer.get("error")
  if (error !== null)
    throw new Error(`${error}: ${answer.get("error_description") ?? "no reason was given"}`.slice(0, 300))
  const code = answer.get("code")
  if (code === null) throw new Error("the authorization server sent neither a code nor an error")
  return exchangeAuthorization(url, {
    clientInformation: { client_id: client.id },
    authorizationCode: code,
    codeVerifier: verifier,
    redirectUri: redirectUrl,
    addClientAuthentication: authenticate(client, resource),
    fetchFn: fetch,
    ...(iss === undefined ? {} : { iss }),
    ...(metadata === undefined ? {} : { metadata }),
  })
}

export function refresh(
  { url, metadata, resource }: AuthorizationServer,
  client: OAuthClient,
  refreshToken: string,
  fetch: FetchLike,
): Promise<OAuthTokens> {
  return refreshAuthorization(url, {
    clientInformation: { client_id: client.id },
    refreshToken,
    addClientAuthentication: authenticate(client, resource),
    fetchFn: fetch,
    ...(metadata === undefined ? {} : { metadata }),
  })
}

/** A token for svc itself: no person is asked. RFC 6749, 4.4. */
export function clientCredentials(
  { url, metadata, resource }: AuthorizationServer,
  client: OAuthClient,
  scope: string | undefined,
  fetch: FetchLike,
): Promise<OAuthTokens> {
  const nobody = () => undefined
  return fetchToken(
    {
      redirectUrl: undefined,
      clientMetadata: { redirect_uris: [] },
      clientInformation: () => ({ client_id: client.id }),
      tokens: nobody,
      saveTokens: nobody,
      redirectToAuthorization: nobody,
      saveCodeVerifier: nobody,
      codeVerifier: () => "",
      prepareTokenRequest: () =>
        new URLSearchParams({ grant_type: "client_credentials", ...(scope === undefined ? {} : { scope }) }),
      addClientAuthentication: authenticate(client, resource),
    },
    url,
    {
      fetchFn: fetch,
      ...(metadata === undefined ? {} : { metadata }),
    },
  )
}

/** Tells the authorization server that a token is not needed any more. RFC 7009. False where it takes no such word. */
export async function revoke(
  { metadata }: AuthorizationServer,
  client: OAuthClient,
  token: string,
  hint: "access_token" | "refresh_token",
  fetch: FetchLike,
): Promise<boolean> {
  const endpoint =
    metadata !== undefined && "revocation_endpoint" in metadata ? metadata.revocation_endpoint : undefined
  if (typeof endpoint !== "string") return false
  const headers = new Headers({ "content-type": "application/x-www-form-urlencoded" })
  const body = new URLSearchParams({ token, token_type_hint: hint })
  await authenticate(client, undefined)(headers, body, endpoint, metadata)
  const response = await fetch(endpoint, { method: "POST", headers, body })
  if (!response.ok) throw new Error(`${new URL(endpoint).host} answered ${response.status}`)
  return true
}

/** Whether the authorization server has said that a grant or a client is no good any more. Nothing else is a revocation. */
export function isRevoked(error: unknown): boolean {
  return error instanceof OAuthError && ["invalid_grant", "invalid_client", "unauthorized_client"].includes(error.code)
}

// ---

/** What svc says of itself. */
const DESCRIPTION = {
  client_name: "svc",
  grant_types: ["authorization_code", "refresh_token"],
  response_types: ["code"],
}

/** A public client has no secret to lose; PKCE protects its code. */
const PREFERRED = ["none", "client_secret_basic", "client_secret_post"]

async function describeResource(serverUrl: string, metadataUrl: string | undefined, fetch: FetchLike) {
  try {
    const at = metadataUrl === undefined ? {} : { resourceMetadataUrl: metadataUrl }
    return await discoverOAuthProtectedResourceMetadata(serverUrl, at, fetch)
  } catch (error) {
    if (error instanceof TransientError) throw error
    // Servers of 2025-03-26 have none: their own origin authorizes.
    return undefined
  }
}

/** Says who svc is, and for which resource it asks: the SDK would give a name without a path a slash. */
function authenticate(client: OAuthClient, resource: string | undefined): AddClientAuthentication {
  return (headers, params, url, metadata) => {
    if (resource !== undefined) params.set("resource", resource)
    const { id, secret } = client
    const supported = metadata?.token_endpoint_auth_methods_supported ?? []
    const chosen =
      client.method === "private_key_jwt"
        ? client.method
        : selectClientAuthMethod(
            {
              client_id: id,
              ...(secret === undefined ? {} : { client_secret: secret }),
              ...(client.method === undefined ? {} : { token_endpoint_auth_method: client.method, redirect_uris: [] }),
            },
            supported,
          )
    switch (chosen) {
      case "private_key_jwt": {
        const privateKey = secret ?? ""
        return signAssertion({ issuer: id, subject: id, privateKey, alg: algorithmOf(privateKey) })(
          headers,
          params,
          url,
          metadata,
        )
      }
      case "client_secret_basic":
        headers.set("authorization", `Basic ${btoa(`${formEncode(id)}:${formEncode(secret ?? "")}`)}`)
        return
      case "client_secret_post":
        params.set("client_id", id)
        params.set("client_secret", secret ?? "")
        return
      case "none":
        params.set("client_id", id)
        return
    }
  }
}

/** RFC 6749, 2.3.1: both halves are form-encoded first. */
const formEncode = (text: string): string => new URLSearchParams({ "": text }).toString().slice(1)

function algorithmOf(pem: string): string {
  const { asymmetricKeyType, asymmetricKeyDetails } = createPrivateKey(pem)
  if (asymmetricKeyType !== "ec") return "RS256"
  return asymmetricKeyDetails?.namedCurve === "secp384r1" ? "ES384" : "ES256"
}
