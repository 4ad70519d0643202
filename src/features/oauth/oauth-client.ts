/**
 * Talks to authorization servers through the MCP SDK. Only this file, dpop.ts and unattended-grant.ts import the SDK: they are
 * loaded when a server first requires authorization, so that a start does not load it.
 *
 *  1. A server that cannot be reached, or answers 5xx, revokes nothing: a TransientError.
 *  2. svc reads the metadata of an authorization server again for each grant. Credentials go only to their issuer.
 */
import { createPrivateKey } from "node:crypto"
import {
  type AddClientAuthentication,
  checkResourceAllowed,
  computeScopeUnion,
  discoverAuthorizationServerMetadata,
  discoverOAuthProtectedResourceMetadata,
  exchangeAuthorization,
  type FetchLike,
  fetchToken,
  isDpopNonceChallenge,
  isStrictScopeSuperset,
  OAuthError,
  type OAuthTokens,
  RegistrationRejectedError,
  refreshAuthorization,
  registerClient,
  resolveClientMetadata,
  resourceUrlFromServerUrl,
  selectClientAuthMethod,
  createPrivateKeyJwtAuth as signAssertion,
  startAuthorization,
  validateAuthorizationResponseIssuer,
} from "@modelcontextprotocol/client"
import { TransientError } from "../../backend/client-transport.ts"
import { type DpopKey, openDpop } from "./dpop.ts"
import { refusalIn, requiringToken, runDiscovery, withSentMetadata } from "./foreign-answers.ts"

export { computeScopeUnion, isDpopNonceChallenge, isStrictScopeSuperset, OAuthError }

/**
 * svc as a client of one authorization server. `id` is empty if the grant needs no client. `secret` is the private key (PEM) if
 * the method is private_key_jwt.
 */
export type OAuthClient = {
  readonly id: string
  readonly secret?: string | undefined
  readonly method?: string | undefined
  readonly issuer: string
  /** The redirect address of the registration; undefined if svc did not register the client. */
  readonly redirectUrl?: string | undefined
  /** The scopes that the registration allows, if it names any. */
  readonly scope?: string | undefined
  /** When the secret expires, milliseconds since the epoch. */
  readonly expiresAt?: number | undefined
}

/** The authorization server of a protected resource, from the current metadata of both. */
export type AuthorizationServer = {
  readonly issuer: string
  readonly url: string
  readonly metadata: Awaited<ReturnType<typeof discoverAuthorizationServerMetadata>>
  /** The `resource` parameter (RFC 8707), verbatim; undefined if the resource has no metadata. */
  readonly resource: string | undefined
  /** The scopes that the resource supports. */
  readonly scopes: string | undefined
  /** Whether the resource declares that it accepts tokens that are bound to a key. RFC 9728, 2. */
  readonly takesDpop: boolean
  /** The algorithms of DPoP proofs that the resource and the server accept: a list of each that names any. RFC 9449, 5.1. */
  readonly dpopAlgorithms: readonly (readonly unknown[])[]
}

/** The parts of a `WWW-Authenticate` header. */
export type Challenge = {
  readonly metadataUrl: string | undefined
  readonly scope: string | undefined
  readonly error: string | undefined
  /** Whether the server asks for a token that is bound to a key. RFC 9449, 7.1. */
  readonly dpop: boolean
}

/** Reads the challenge of a 401 or 403. RFC 6750, 3; RFC 9728, 5.1. */
export function challengeOf(response: Response): Challenge {
  const challenges = challengesIn(response.headers.get("www-authenticate") ?? "")
  const ours = challenges.filter(({ scheme }) => scheme === "bearer" || scheme === "dpop")
  const named = (name: string) => ours.map(({ params }) => params.get(name)).find((value) => value)
  const metadataUrl = named("resource_metadata")
  return {
    metadataUrl: metadataUrl !== undefined && URL.canParse(metadataUrl) ? new URL(metadataUrl).href : undefined,
    scope: named("scope"),
    error: named("error"),
    dpop: challenges.some(({ scheme }) => scheme === "dpop"),
  }
}

/** Discovers the authorization server of a server. RFC 9728, RFC 8414. Throws if the metadata names another resource. */
export async function discover(
  serverUrl: string,
  metadataUrl: string | undefined,
  fetch: FetchLike,
): Promise<AuthorizationServer> {
  const described = await describeResource(serverUrl, metadataUrl, fetch)
  if (described !== undefined) {
    const requestedResource = resourceUrlFromServerUrl(serverUrl)
    const configuredResource = described.resource
    const isAllowed =
      checkResourceAllowed({ requestedResource, configuredResource }) ||
      isSameButSlash(new URL(requestedResource).href, new URL(configuredResource).href)
    if (!isAllowed) throw new Error(`its metadata names another resource, ${configuredResource}`)
  }
  const url = described?.authorization_servers?.[0] ?? new URL("/", serverUrl).href
  const metadata = await describeServer(url, fetch)
  const declared: Readonly<Record<string, unknown>> = metadata ?? {}
  const algorithms = described?.dpop_signing_alg_values_supported
  return {
    issuer: metadata?.issuer ?? url,
    url,
    metadata,
    resource: described?.resource,
    scopes: described?.scopes_supported?.join(" ") || undefined,
    takesDpop: algorithms !== undefined || described?.dpop_bound_access_tokens_required === true,
    dpopAlgorithms: [algorithms, declared.dpop_signing_alg_values_supported].filter(Array.isArray),
  }
}

/** Describes an authorization server by its own address, for tokens for `resource`. Throws if it has no metadata. */
export async function describeIssuer(
  url: string,
  resource: string | undefined,
  fetch: FetchLike,
): Promise<AuthorizationServer> {
  const metadata = await describeServer(url, fetch)
  if (metadata === undefined) throw new Error("it serves no metadata")
  return { issuer: metadata.issuer, url, metadata, resource, scopes: undefined, takesDpop: false, dpopAlgorithms: [] }
}

/** Whether an authorization server accepts a client metadata document. */
export const supportsMetadataUrl = ({ metadata }: AuthorizationServer): boolean =>
  metadata?.client_id_metadata_document_supported === true

/** Registers svc as a client. RFC 7591. */
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
      token_endpoint_auth_method: method ?? PREFERRED_METHODS.find((one) => methods.includes(one)) ?? "none",
    },
  })
  const registered = await explained(
    url,
    registerClient(url, {
      clientMetadata,
      fetchFn: withSentMetadata(clientMetadata, fetch),
      ...(metadata === undefined ? {} : { metadata }),
      ...(scope === undefined ? {} : { scope }),
    }),
  )
  const { client_id: id, client_secret: secret, client_secret_expires_at: until } = registered
  return {
    id,
    secret,
    method: registered.token_endpoint_auth_method,
    issuer,
    redirectUrl,
    scope: registered.scope,
    expiresAt: until === undefined || until === 0 ? undefined : until * 1000,
  }
}

/** Returns svc's client metadata document. Its address is the client id. */
export const clientMetadata = (metadataUrl: string, redirectUrls: readonly string[]) => ({
  ...DESCRIPTION,
  client_id: metadataUrl,
  redirect_uris: redirectUrls,
  token_endpoint_auth_method: "none",
})

/** Returns the scope to request: the demanded scope, else all scopes of the server; with offline_access if supported. */
export function requestedScope(
  demanded: string | undefined,
  { scopes, metadata }: AuthorizationServer,
): string | undefined {
  const scope = demanded || scopes
  return scope !== undefined && metadata?.scopes_supported?.includes("offline_access") === true
    ? computeScopeUnion(scope, "offline_access")
    : scope
}

/** Returns the address to open in a browser. `verifier` is the PKCE secret (S256). The code is bound to the key too. */
export async function authorizationUrl(
  { url, metadata, resource }: AuthorizationServer,
  client: OAuthClient,
  redirectUrl: string,
  state: string,
  scope: string | undefined,
  dpopKey: DpopKey | undefined,
): Promise<{ readonly url: string; readonly verifier: string }> {
  const started = await startAuthorization(url, {
    clientInformation: { client_id: client.id },
    redirectUrl,
    state,
    ...(metadata === undefined ? {} : { metadata }),
    ...(scope === undefined ? {} : { scope }),
  })
  const { authorizationUrl, codeVerifier } = started
  if (metadata !== undefined && metadata.authorization_endpoint === metadata.token_endpoint)
    throw new Error(`${metadata.issuer} names no authorization endpoint: no user can sign in there`)
  // The operating system may open the address: other schemes could start a program.
  if (!/^https?:$/.test(authorizationUrl.protocol))
    throw new Error(
      `its authorization server names an address to open that is neither http nor https (${authorizationUrl.protocol})`,
    )
  if (resource !== undefined) authorizationUrl.searchParams.set("resource", resource)
  // RFC 9449, 10.
  if (dpopKey !== undefined) authorizationUrl.searchParams.set("dpop_jkt", (await openDpop(dpopKey)).thumbprint)
  return { url: authorizationUrl.href, verifier: codeVerifier }
}

/**
 * Redeems an authorization response for tokens. Checks its issuer first (RFC 9207). Throws the error of the response or of the
 * authorization server.
 */
export async function redeem(
  { url, metadata, resource }: AuthorizationServer,
  client: OAuthClient,
  redirectUrl: string,
  verifier: string,
  response: URLSearchParams,
  dpopKey: DpopKey | undefined,
  fetch: FetchLike,
): Promise<OAuthTokens> {
  // Compared as it is: RFC 9207, 2.4 allows no normalization.
  const iss = response.get("iss") ?? undefined
  validateAuthorizationResponseIssuer({
    iss,
    expectedIssuer: metadata?.issuer,
    issParameterSupported: metadata?.authorization_response_iss_parameter_supported === true,
  })
  const error = response.get("error")
  if (error !== null) throw new Error(`${error}: ${response.get("error_description") ?? "no reason was given"}`)
  const code = response.get("code")
  if (code === null) throw new Error("the authorization server sent neither a code nor an error")
  const dpop = dpopKey === undefined ? {} : { dpop: await openDpop(dpopKey) }
  return explained(
    url,
    exchangeAuthorization(url, {
      clientInformation: { client_id: client.id },
      authorizationCode: code,
      codeVerifier: verifier,
      redirectUri: redirectUrl,
      addClientAuthentication: authenticate(client, resource),
      fetchFn: fetch,
      ...dpop,
      ...(iss === undefined ? {} : { iss }),
      ...(metadata === undefined ? {} : { metadata }),
    }),
  )
}

/**
 * Exchanges a refresh token for new tokens. RFC 6749, 6. Names `scope`, the granted scope, only after a refusal without it: some
 * servers demand it, and others refuse it.
 */
export async function refresh(
  { url, metadata, resource }: AuthorizationServer,
  client: OAuthClient,
  refreshToken: string,
  scope: string | undefined,
  dpopKey: DpopKey | undefined,
  fetch: FetchLike,
): Promise<OAuthTokens> {
  const dpop = dpopKey === undefined ? {} : { dpop: await openDpop(dpopKey) }
  const attempt = (more: { readonly scope?: string }) =>
    explained(
      url,
      refreshAuthorization(url, {
        clientInformation: { client_id: client.id },
        refreshToken,
        addClientAuthentication: authenticate(client, resource),
        fetchFn: requiringToken(fetch),
        ...dpop,
        ...more,
        ...(metadata === undefined ? {} : { metadata }),
      }),
    )
  try {
    return await attempt({})
  } catch (error) {
    if (!(error instanceof OAuthError) || isRevoked(error) || !scope) throw error
    return attempt({ scope })
  }
}

/** Requests a token with the parameters of a grant without a user. Throws the error of the authorization server. */
export function requestToken(
  { url, metadata, resource }: AuthorizationServer,
  client: OAuthClient,
  parameters: Readonly<Record<string, string>>,
  dpopKey: DpopKey | undefined,
  fetch: FetchLike,
): Promise<OAuthTokens> {
  const none = () => undefined
  const answer = fetchToken(
    {
      redirectUrl: undefined,
      clientMetadata: { redirect_uris: [] },
      clientInformation: () => ({ client_id: client.id }),
      tokens: none,
      saveTokens: none,
      redirectToAuthorization: none,
      saveCodeVerifier: none,
      codeVerifier: () => "",
      prepareTokenRequest: () => new URLSearchParams(parameters),
      addClientAuthentication: authenticate(client, resource),
      ...(dpopKey === undefined ? {} : { dpop: () => openDpop(dpopKey) }),
    },
    url,
    {
      fetchFn: fetch,
      ...(metadata === undefined ? {} : { metadata }),
    },
  )
  return explained(url, answer)
}

/** Revokes a token. RFC 7009. Returns false if the authorization server has no revocation endpoint. */
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

/** Whether the authorization server says that the grant or the client is no longer valid: no later attempt can succeed. */
export function isRevoked(error: unknown): boolean {
  return error instanceof OAuthError && ["invalid_grant", "invalid_client", "unauthorized_client"].includes(error.code)
}

// ---

/** svc's client metadata. RFC 7591, 2. */
const DESCRIPTION = {
  client_name: "svc",
  grant_types: ["authorization_code", "refresh_token"],
  response_types: ["code"],
}

/** The methods in order of preference. A public client has no secret to lose, and PKCE protects its code. */
const PREFERRED_METHODS = ["none", "client_secret_basic", "client_secret_post"]

/** Returns the metadata of a protected resource; undefined if it has none. */
async function describeResource(serverUrl: string, metadataUrl: string | undefined, fetch: FetchLike) {
  const ask = (options: { readonly resourceMetadataUrl?: string }) =>
    runDiscovery(fetch, (patient) => discoverOAuthProtectedResourceMetadata(serverUrl, options, patient))
  try {
    // The address of the challenge may be wrong, and the usual one right.
    if (metadataUrl === undefined) return await ask({})
    return await ask({ resourceMetadataUrl: metadataUrl }).catch((first: unknown) =>
      ask({}).catch((second: unknown) => {
        throw first instanceof TransientError ? first : second
      }),
    )
  } catch (error) {
    if (error instanceof TransientError) throw error
    // A server of 2025-03-26 has none: its own origin is its authorization server.
    return undefined
  }
}

/** Returns the metadata of an authorization server; undefined if it has none. Throws if they name another issuer. RFC 8414, 3.3. */
async function describeServer(url: string, fetch: FetchLike): Promise<AuthorizationServer["metadata"]> {
  const metadata = await explained(
    url,
    runDiscovery(fetch, (patient) =>
      // The issuer is compared here: many servers write it with a final slash in one place only.
      discoverAuthorizationServerMetadata(url, { fetchFn: patient, skipIssuerValidation: true }),
    ),
  )
  if (metadata !== undefined && !isSameButSlash(metadata.issuer, url))
    throw new Error(`the metadata of ${url} name another issuer, ${metadata.issuer}`)
  return metadata
}

/** Passes an answer on. An answer that cannot be read becomes an error in one line that names the host. */
async function explained<T>(url: string, answer: Promise<T>): Promise<T> {
  try {
    return await answer
  } catch (cause) {
    const { host } = new URL(url)
    const error = (why: string) => new Error(`${host} ${why}`, { cause })
    if (cause instanceof SyntaxError) throw error("did not answer with JSON")
    if (cause instanceof RegistrationRejectedError) throw error(refusalIn(cause.body))
    const { issues } = cause as { readonly issues?: unknown }
    if (!Array.isArray(issues)) throw cause
    const members = issues.map(
      (issue: { readonly path?: readonly unknown[] }) => issue.path?.join(".") || "JSON object",
    )
    throw error(`answered with a missing or invalid ${[...new Set(members)].join(", ")}`)
  }
}

/** Whether two addresses are equal but for one final slash. */
const isSameButSlash = (one: string, other: string): boolean => one.replace(/\/$/, "") === other.replace(/\/$/, "")

type SchemeAndParams = { readonly scheme: string; readonly params: ReadonlyMap<string, string> }

/** Returns the challenges of a `WWW-Authenticate` header, their names in lower case. RFC 9110, 11.6.1. */
function challengesIn(header: string): readonly SchemeAndParams[] {
  const challenges: { readonly scheme: string; readonly params: Map<string, string> }[] = []
  for (const [, scheme, name, quoted, plain] of header.slice(0, MAX_CHALLENGE).matchAll(CHALLENGE)) {
    if (scheme !== undefined) challenges.push({ scheme: scheme.toLowerCase(), params: new Map() })
    if (name === undefined) continue
    const value = quoted === undefined ? (plain ?? "") : quoted.replace(/\\(.)/g, "$1")
    challenges.at(-1)?.params.set(name.toLowerCase(), value)
  }
  return challenges
}

const MAX_CHALLENGE = 8192
/** A scheme, which a blank, a comma or the end follows; or a parameter with its value. */
const CHALLENGE =
  /([\w!#$%&'*+.^`|~-]{1,100})(?=\s{0,20}(?:,|$)|\s{1,20}[\w!#$%&'*+.^`|~-])|([\w!#$%&'*+.^`|~-]{1,100})\s{0,20}=\s{0,20}(?:"((?:[^"\\]|\\.)*)"|([^\s,"]*))/g

/**
 * Returns a function that adds a client's authentication to a token request, and the resource verbatim: the SDK would append a
 * slash to a bare origin.
 */
export function authenticate(client: OAuthClient, resource: string | undefined): AddClientAuthentication {
  return (headers, params, url, metadata) => {
    if (resource !== undefined) params.set("resource", resource)
    const { id, secret } = client
    switch (authMethodOf(client, metadata?.token_endpoint_auth_methods_supported ?? [])) {
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
        if (id !== "") params.set("client_id", id)
        return
    }
  }
}

function authMethodOf(client: OAuthClient, supported: readonly string[]) {
  const { id, secret, method } = client
  if (method === "private_key_jwt") return method
  return selectClientAuthMethod(
    {
      client_id: id,
      ...(secret === undefined ? {} : { client_secret: secret }),
      ...(method === undefined ? {} : { token_endpoint_auth_method: method, redirect_uris: [] }),
    },
    [...supported],
  )
}

/** Encodes one half of HTTP Basic credentials. RFC 6749, 2.3.1: both halves are form-encoded first. */
const formEncode = (text: string): string => new URLSearchParams({ "": text }).toString().slice(1)

function algorithmOf(pem: string): string {
  const { asymmetricKeyType, asymmetricKeyDetails } = createPrivateKey(pem)
  if (asymmetricKeyType !== "ec") return "RS256"
  return asymmetricKeyDetails?.namedCurve === "secp384r1" ? "ES384" : "ES256"
}
