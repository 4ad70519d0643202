/**
 * The way of a person through the browser and back: where to go, as whom, and what came back. An answer is taken once, and
 * only for a state that svc has given out. authorization: Authorization Code Protection.
 */

import { TransientError } from "../backend/link.ts"
import { BoundedMap } from "../lib/bounded-map.ts"
import { messageOf, RequestError } from "../lib/errors.ts"
import type { AuthorizationServer, OAuthClient } from "./oauth-client.ts"
import type { TokenSource, TokenSourceDeps } from "./token-source.ts"

export type AuthorizationFlowDeps = Pick<TokenSourceDeps, "clock" | "loadOAuthClient" | "addSecrets"> & {
  /** Where browsers come back to svc itself; undefined where it does not listen. */
  callback(): string | undefined
  /** Where svc's description of itself as a client is, if the world can read it. */
  readonly metadataUrl: string | undefined
  /** A value that nobody can guess. */
  newState(): string
}

/** One authorization that waits for its answer. */
export type PendingAuthorization = {
  readonly state: string
  readonly source: TokenSource
  readonly authority: AuthorizationServer
  readonly client: OAuthClient
  readonly redirectUrl: string
  /** The PKCE secret. */
  readonly verifier: string
  readonly scope: string | undefined
  /** Where the person must go. */
  readonly url: string
  settle(error: Error | undefined): void
}

export type AuthorizationFlow = {
  /** Begins to authorize, once for all that want the same at a time. */
  start(source: TokenSource, redirectUrl: string, scope: string | undefined): Promise<PendingAuthorization>
  /** Takes what came back for a server. Throws a RequestError where svc waits for no such answer. */
  finish(answer: URLSearchParams): Promise<{ readonly name: string; readonly failure?: RequestError }>
  /** Resolves when the authorization of this state is finished; rejects with why it failed. */
  finished(state: string): Promise<void>
  /** Whether an authorization of this account waits for its answer. */
  waitsFor(source: TokenSource): boolean
}

export function createAuthorizationFlow(deps: AuthorizationFlowDeps): AuthorizationFlow {
  const { loadOAuthClient, addSecrets } = deps
  const pending = new Map<string, PendingAuthorization>()
  const starting = new Map<string, Promise<PendingAuthorization>>()
  /** How the last authorizations ended: who waits for one may ask late. */
  const outcomes = new BoundedMap<string, Promise<void>>(MAX_OUTCOMES)

  /** Finds out where, registers if need be, and makes the address. */
  const prepare = async (
    source: TokenSource,
    redirectUrl: string,
    scope: string | undefined,
  ): Promise<PendingAuthorization> => {
    const { requestedScope, authorizationUrl } = await loadOAuthClient()
    const authority = await source.discover()
    const asked = requestedScope(scope, authority)
    const same = [...pending.values()].find(
      (one) =>
        one.source === source &&
        one.redirectUrl === redirectUrl &&
        one.scope === asked &&
        one.authority.issuer === authority.issuer,
    )
    if (same !== undefined) return same
    const client = await clientFor(source, authority, redirectUrl, asked)
    const state = deps.newState()
    const { url, verifier } = await authorizationUrl(authority, client, redirectUrl, state, asked)
    addSecrets([verifier])
    let settle: PendingAuthorization["settle"] = () => undefined
    const done = new Promise<void>((resolve, reject) => {
      settle = (error) => (error === undefined ? resolve() : reject(error))
    })
    // Nobody may be waiting for it.
    done.catch(() => undefined)
    const made = { state, source, authority, client, redirectUrl, verifier, scope: asked, url, settle }
    pending.set(state, made)
    outcomes.set(state, done)
    const older = [...pending.values()].filter((one) => one.source === source).slice(0, -MAX_PENDING)
    for (const one of older) {
      pending.delete(one.state)
      one.settle(new RequestError("conflict", `${source.name} is being authorized by others; begin again`))
    }
    return made
  }

  const clientFor = async (
    source: TokenSource,
    authority: AuthorizationServer,
    redirectUrl: string,
    scope: string | undefined,
  ): Promise<OAuthClient> => {
    const { register, supportsMetadataUrl, isStrictScopeSuperset } = await loadOAuthClient()
    const configured = source.configuredClient(authority)
    if (configured !== undefined) return configured
    const { issuer } = authority
    const { autoRegister, tokenEndpointAuthMethod } = source.launch.oauth ?? {}
    if (autoRegister === false) throw new Error("oauth.autoRegister is false, and there is no oauth.clientId")
    if (deps.metadataUrl !== undefined && redirectUrl === deps.callback() && supportsMetadataUrl(authority))
      return { id: deps.metadataUrl, method: "none", issuer }
    const last = source.entry.client
    const valid = last?.expiresAt === undefined || last.expiresAt > deps.clock.now()
    const reaches = last?.scope === undefined || !isStrictScopeSuperset(scope, last.scope)
    if (last?.issuer === issuer && last.redirectUrl === redirectUrl && valid && reaches) return last
    if (authority.metadata !== undefined && authority.metadata.registration_endpoint === undefined)
      throw new Error(`svc cannot register itself with ${issuer}: set oauth.clientId`)
    const client = await register(authority, redirectUrl, scope, tokenEndpointAuthMethod, source.boundedFetch).catch(
      (error: unknown) => {
        if (error instanceof TransientError) throw error
        throw new Error(
          authority.metadata === undefined
            ? "it offers no OAuth that svc could find: put a token into its headers, or set oauth"
            : `${issuer} did not register svc: ${messageOf(error).slice(0, 300)}`,
          { cause: error },
        )
      },
    )
    await source.change({ client })
    return client
  }

  return {
    start(source, redirectUrl, scope) {
      const key = JSON.stringify([source.key, redirectUrl, scope])
      const started = starting.get(key) ?? prepare(source, redirectUrl, scope).finally(() => starting.delete(key))
      starting.set(key, started)
      return started
    },

    async finish(answer) {
      const found = pending.get(answer.get("state") ?? "")
      if (found === undefined)
        throw new RequestError("not_found", "svc does not wait for this authorization, or not any more; begin it again")
      pending.delete(found.state)
      const { source, authority, client, redirectUrl, verifier, scope } = found
      const { name } = source
      const { redeem, isRevoked } = await loadOAuthClient()
      try {
        addSecrets([answer.get("code") ?? ""])
        const given = await redeem(authority, client, redirectUrl, verifier, answer, source.boundedFetch)
        await source.keep(given, client, scope, "granted")
        found.settle(undefined)
        return { name }
      } catch (cause) {
        // A registration that the authorization server has forgotten is made anew.
        if (isRevoked(cause)) await source.change({ client: undefined })
        const message = `${name} was not authorized: ${messageOf(cause).slice(0, MAX_REASON)}`
        const failure = new RequestError("invalid_request", message, undefined, { cause })
        found.settle(failure)
        return { name, failure }
      }
    },

    finished(state) {
      const done = outcomes.get(state)
      if (done === undefined) throw new RequestError("not_found", "svc knows nothing of this authorization")
      return done
    },

    waitsFor: (source) => [...pending.values()].some((one) => one.source === source),
  }
}

// ---

/** Addresses of one server that may be open in a browser somewhere. */
const MAX_PENDING = 5
const MAX_OUTCOMES = 100
const MAX_REASON = 500
