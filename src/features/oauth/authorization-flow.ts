/**
 * Runs authorizations by a user: creates the address to open in a browser, and redeems the response at the redirect address.
 * Accepts a response once, and only for a state that svc issued. authorization: Authorization Code Protection.
 */

import { TokenRequiredError, TransientError } from "../../backend/client-transport.ts"
import { BoundedMap } from "../../lib/bounded-map.ts"
import { messageOf, RequestError } from "../../lib/errors.ts"
import type { DpopKey } from "./dpop.ts"
import type { AuthorizationServer, OAuthClient } from "./oauth-client.ts"
import type { TokenSource, TokenSourceDeps } from "./token-source.ts"

export type AuthorizationFlowDeps = Pick<TokenSourceDeps, "clock" | "loadOAuthClient" | "addSecrets"> & {
  /** Returns svc's own redirect address; undefined if svc does not listen. */
  callback(): string | undefined
  /** The address of svc's client metadata document, if authorization servers can read it. */
  readonly metadataUrl: string | undefined
  /** Returns an unguessable value. */
  newState(): string
  /** Masks secrets in the text of an authorization server. Callers mask before they cut: half a secret would not be recognized. */
  mask(text: string): string
}

/** An authorization that waits for its response. */
export type PendingAuthorization = {
  readonly state: string
  readonly source: TokenSource
  readonly authority: AuthorizationServer
  readonly client: OAuthClient
  readonly redirectUrl: string
  /** The PKCE secret. */
  readonly verifier: string
  /** The key to bind the tokens to; undefined for bearer tokens. */
  readonly dpopKey: DpopKey | undefined
  readonly scope: string | undefined
  /** The address to open in a browser. */
  readonly url: string
  /** Ends the authorization, with an error if it failed. */
  settle(error: Error | undefined): void
}

export class AuthorizationFlow {
  /** The authorizations that wait for their response, by state. */
  private readonly pending = new Map<string, PendingAuthorization>()
  private readonly starting = new Map<string, Promise<PendingAuthorization>>()
  /** The outcomes of the latest authorizations by state, for callers that ask after the end. */
  private readonly outcomes = new BoundedMap<string, Promise<void>>(MAX_OUTCOMES)

  constructor(private readonly deps: AuthorizationFlowDeps) {}

  /** Starts an authorization, which concurrent callers with the same arguments share. Rejects with the reason if it cannot start. */
  start(source: TokenSource, redirectUrl: string, scope: string | undefined): Promise<PendingAuthorization> {
    const key = JSON.stringify([source.key, redirectUrl, scope])
    const started =
      this.starting.get(key) ?? this.prepare(source, redirectUrl, scope).finally(() => this.starting.delete(key))
    this.starting.set(key, started)
    return started
  }

  /** Redeems an authorization response. Rejects with a RequestError if svc does not wait for it. */
  async finish(response: URLSearchParams): Promise<{ readonly name: string; readonly failure?: RequestError }> {
    const found = this.pending.get(response.get("state") ?? "")
    if (found === undefined)
      throw new RequestError(
        "not_found",
        "svc does not wait for this sign-in, which may have expired; start it again with `svc auth login`",
      )
    this.pending.delete(found.state)
    const { source } = found
    const { name } = source
    try {
      await this.redeem(found, response)
      found.settle(undefined)
      return { name }
    } catch (cause) {
      const { isRevoked } = await this.deps.loadOAuthClient()
      // The authorization server has forgotten the registration: the next authorization registers again.
      if (isRevoked(cause)) await source.change({ client: undefined })
      const reason = this.deps.mask(messageOf(cause)).replace(/\s+/g, " ").slice(0, MAX_REASON)
      const message = `${name} was not authorized by ${new URL(found.authority.url).host}: ${reason}`
      const failure = new RequestError("invalid_request", message, undefined, { cause })
      found.settle(failure)
      return { name, failure }
    }
  }

  /** Resolves when the authorization with this state is finished. Rejects with the reason if it failed. */
  finished(state: string): Promise<void> {
    const outcome = this.outcomes.get(state)
    if (outcome === undefined)
      throw new RequestError("not_found", "svc does not know this sign-in; start it again with `svc auth login`")
    return outcome
  }

  /** Whether an authorization of this server waits for its response. */
  waitsFor(source: TokenSource): boolean {
    return [...this.pending.values()].some((one) => one.source === source)
  }

  // ---

  /** Discovers the authorization server, registers a client if needed, and creates the address. */
  private async prepare(
    source: TokenSource,
    redirectUrl: string,
    demandedScope: string | undefined,
  ): Promise<PendingAuthorization> {
    const { requestedScope, authorizationUrl } = await this.deps.loadOAuthClient()
    const authority = await source.discover()
    const scope = requestedScope(demandedScope, authority)
    const same = [...this.pending.values()].find(
      (one) =>
        one.source === source &&
        one.redirectUrl === redirectUrl &&
        one.scope === scope &&
        one.authority.issuer === authority.issuer,
    )
    if (same !== undefined) return same
    const client = await this.clientFor(source, authority, redirectUrl, scope)
    const state = this.deps.newState()
    const dpopKey = await source.dpopKey(authority)
    const { url, verifier } = await authorizationUrl(authority, client, redirectUrl, state, scope, dpopKey)
    this.deps.addSecrets([verifier])
    const settle = this.trackOutcome(state)
    const prepared = { state, source, authority, client, redirectUrl, verifier, dpopKey, scope, url, settle }
    this.pending.set(state, prepared)
    this.dropOlder(source)
    return prepared
  }

  private trackOutcome(state: string): PendingAuthorization["settle"] {
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    // Prevents an unhandled rejection if no caller waits for the failure.
    promise.catch(() => undefined)
    this.outcomes.set(state, promise)
    return (error) => (error === undefined ? resolve() : reject(error))
  }

  /** Ends the oldest authorizations of a server that has too many. */
  private dropOlder(source: TokenSource): void {
    const older = [...this.pending.values()].filter((one) => one.source === source).slice(0, -MAX_PENDING)
    for (const one of older) {
      this.pending.delete(one.state)
      one.settle(
        new RequestError(
          "conflict",
          `too many authorizations of ${source.name} were started after this one; start again`,
        ),
      )
    }
  }

  /** Redeems the code of a response and keeps the tokens. */
  private async redeem(found: PendingAuthorization, response: URLSearchParams): Promise<void> {
    const { source, authority, client, redirectUrl, verifier, dpopKey, scope } = found
    const { redeem } = await this.deps.loadOAuthClient()
    this.deps.addSecrets([response.get("code") ?? ""])
    const tokens = await redeem(authority, client, redirectUrl, verifier, response, dpopKey, source.boundedFetch)
    await source.keep(tokens, { client, scope, dpopKey, how: "granted" })
  }

  /**
   * Returns the client for an authorization, in this order: the configured client, svc's metadata document, the last
   * registration if it still fits, a new registration. authorization: Client Registration Approaches.
   */
  private async clientFor(
    source: TokenSource,
    authority: AuthorizationServer,
    redirectUrl: string,
    scope: string | undefined,
  ): Promise<OAuthClient> {
    const { deps } = this
    const { supportsMetadataUrl, isStrictScopeSuperset } = await deps.loadOAuthClient()
    const configured = source.configuredClient(authority)
    if (configured !== undefined) return configured
    const { issuer } = authority
    if (source.launch.oauth?.autoRegister === false)
      throw new Error("oauth.autoRegister is false and oauth.clientId is not set")
    if (deps.metadataUrl !== undefined && redirectUrl === deps.callback() && supportsMetadataUrl(authority))
      return { id: deps.metadataUrl, method: "none", issuer }
    const last = source.entry.client
    const isValid = last?.expiresAt === undefined || last.expiresAt > deps.clock.now()
    const hasScope = last?.scope === undefined || !isStrictScopeSuperset(scope, last.scope)
    if (last?.issuer === issuer && last.redirectUrl === redirectUrl && isValid && hasScope) return last
    return this.register(source, authority, redirectUrl, scope)
  }

  /** Registers svc as a new client and keeps the registration. */
  private async register(
    source: TokenSource,
    authority: AuthorizationServer,
    redirectUrl: string,
    scope: string | undefined,
  ): Promise<OAuthClient> {
    const { register } = await this.deps.loadOAuthClient()
    const { issuer, metadata, resource } = authority
    if (metadata !== undefined && metadata.registration_endpoint === undefined)
      throw new Error(`${issuer} offers no client registration: set oauth.clientId`)
    const method = source.launch.oauth?.tokenEndpointAuthMethod
    const client = await register(authority, redirectUrl, scope, method, source.boundedFetch).catch(
      (error: unknown) => {
        if (error instanceof TransientError) throw error
        if (metadata === undefined && resource === undefined && source.launch.oauth === undefined)
          throw new TokenRequiredError(source.name, { cause: error })
        throw new Error(
          metadata === undefined
            ? "no OAuth metadata was found: put a token into the server's headers, or set oauth"
            : `${issuer} did not register svc: ${this.deps.mask(messageOf(error))}`,
          { cause: error },
        )
      },
    )
    await source.change({ client })
    return client
  }
}

// ---

/** The most addresses of one server that may be open in browsers at a time. */
const MAX_PENDING = 5
const MAX_OUTCOMES = 100
const MAX_REASON = 500
