/** svc as a public client of an issuer that logs people in: an authorization code with PKCE. */

import { boundedFetch } from "../../backend/ssrf.ts"
import { RequestError } from "../../lib/errors.ts"
import { readableFetch } from "./foreign-answers.ts"
import {
  type AuthorizationServer,
  authorizationUrl,
  describeIssuer,
  type OAuthClient,
  redeem,
  register,
  supportsMetadataUrl,
} from "./oauth-client.ts"

export type IssuerClientOptions = {
  readonly issuer: string
  readonly scope: string
  readonly fetch: (url: string, init: RequestInit) => Promise<Response>
  /** The address of svc's client metadata document, if issuers can read it. */
  readonly metadataUrl: string | undefined
}

/**
 * Begins an authorization for `resource` (RFC 8707): returns the address for the browser, and the function that exchanges the answer
 * for tokens. Rejects with a RequestError if the issuer does not accept svc as a client.
 */
type BeginAuthorization = (
  redirectUrl: string,
  resource: string | undefined,
  state: string,
) => Promise<{ readonly url: string; redeem(answer: URLSearchParams): ReturnType<typeof redeem> }>

/** svc is a client by its metadata document or by a registration, as the issuer's metadata allows. It registers once per run. */
export function createIssuerClient({ issuer, scope, metadataUrl, ...deps }: IssuerClientOptions): BeginAuthorization {
  const fetch = readableFetch(boundedFetch(deps.fetch, issuer))
  let registered: Promise<OAuthClient> | undefined
  const clientAt = (authority: AuthorizationServer, redirectUrl: string): Promise<OAuthClient> => {
    if (metadataUrl !== undefined && supportsMetadataUrl(authority))
      return Promise.resolve({ id: metadataUrl, method: "none", issuer: authority.issuer })
    if (authority.metadata?.registration_endpoint === undefined)
      throw new RequestError(
        "conflict",
        `${issuer} does not register clients automatically; log in with one of its tokens, or with a token of \`svc auth token create\``,
      )
    registered ??= register(authority, redirectUrl, scope, "none", fetch).catch((error: unknown) => {
      registered = undefined
      throw error
    })
    return registered
  }
  return async (redirectUrl, resource, state) => {
    const authority = await describeIssuer(issuer, resource, fetch)
    const client = await clientAt(authority, redirectUrl)
    const { url, verifier } = await authorizationUrl(authority, client, redirectUrl, state, scope, undefined)
    return { url, redeem: (answer) => redeem(authority, client, redirectUrl, verifier, answer, undefined, fetch) }
  }
}
