/**
 * The way of a person through the browser and back: where to go, as whom, and what came back. An answer is taken once, and
 * only for a state that svc has given out. authorization: Authorization Code Protection.
 */

import { TransientError } from "../backend/link.ts"
import { dropOldest } from "../lib/bounded.ts"
import { messageOf, RequestError } from "../lib/errors.ts"
import type { Authority, Client } from "./oauth-client.ts"
import type { Account, AccountDeps } from "./token-source.ts"

export type ConsentDeps = Pick<AccountDeps, "clock" | "grant" | "learn"> & {
  /** Where browsers come back to svc itself; undefined where it does not listen. */
  callback(): string | undefined
  /** Where svc's description of itself as a client is, if the world can read it. */
  readonly metadataUrl: string | undefined
  /** A value that nobody can guess. */
  newState(): string
}

/** One authorization that waits for its answer. */
export type Pending = {
  readonly state: string
  readonly account: Account
  readonly authority: Authority
  readonly client: Client
  readonly redirectUrl: string
  /** The PKCE secret. */
  readonly verifier: string
  readonly scope: string | undefined
  /** Where the person must go. */
  readonly url: string
  settle(error: Error | undefined): void
}

export type Consent = {
  /** Begins to authorize, once for all that want the same at a time. */
  start(account: Account, redirectUrl: string, scope: string | undefined): Promise<Pending>
  /** Takes what came back for a server. Throws a RequestError where svc waits for no such answer. */
  finish(answer: URLSearchParams): Promise<{ readonly name: string; readonly failure?: RequestError }>
  /** Resolves when the authorization of this state is finished; rejects with why it failed. */
  finished(state: string): Promise<void>
  /** Whether an authorization of this account waits for its answer. */
  waitsFor(account: Account): boolean
}

export function createConsent(deps: ConsentDeps): Consent {
  const { grant, learn } = deps
  const pending = new Map<string, Pending>()
  const starting = new Map<string, Promise<Pending>>()
  /** How the last authorizations ended: who waits for one may ask late. */
  const outcomes = new Map<string, Promise<void>>()

  /** Finds out where, registers if need be, and makes the address. */
  const prepare = async (account: Account, redirectUrl: string, scope: string | undefined): Promise<Pending> => {
    const { scopeFor, authorizationUrl } = await grant()
    const authority = await account.discover()
    const asked = scopeFor(scope, authority)
    const same = [...pending.values()].find(
      (one) =>
        one.account === account &&
        one.redirectUrl === redirectUrl &&
        one.scope === asked &&
        one.authority.issuer === authority.issuer,
    )
    if (same !== undefined) return same
    const client = await clientFor(account, authority, redirectUrl, asked)
    const state = deps.newState()
    const { url, verifier } = await authorizationUrl(authority, client, redirectUrl, state, asked)
    learn([verifier])
    let settle: Pending["settle"] = () => undefined
    const done = new Promise<void>((resolve, reject) => {
      settle = (error) => (error === undefined ? resolve() : reject(error))
    })
    // Nobody may be waiting for it.
    done.catch(() => undefined)
    const made = { state, account, authority, client, redirectUrl, verifier, scope: asked, url, settle }
    pending.set(state, made)
    outcomes.set(state, done)
    dropOldest(outcomes, MAX_OUTCOMES)
    const older = [...pending.values()].filter((one) => one.account === account).slice(0, -MAX_PENDING)
    for (const one of older) {
      pending.delete(one.state)
      one.settle(new RequestError("conflict", `${account.name} is being authorized by others; begin again`))
    }
    return made
  }

  const clientFor = async (
    account: Account,
    authority: Authority,
    redirectUrl: string,
    scope: string | undefined,
  ): Promise<Client> => {
    const { register, takesMetadataUrl, isStrictScopeSuperset } = await grant()
    const configured = account.configuredClient(authority)
    if (configured !== undefined) return configured
    const { issuer } = authority
    const { autoRegister, tokenEndpointAuthMethod } = account.launch.oauth ?? {}
    if (autoRegister === false) throw new Error("oauth.autoRegister is false, and there is no oauth.clientId")
    if (deps.metadataUrl !== undefined && redirectUrl === deps.callback() && takesMetadataUrl(authority))
      return { id: deps.metadataUrl, method: "none", issuer }
    const last = account.entry.client
    const valid = last?.expiresAt === undefined || last.expiresAt > deps.clock.now()
    const reaches = last?.scope === undefined || !isStrictScopeSuperset(scope, last.scope)
    if (last?.issuer === issuer && last.redirectUrl === redirectUrl && valid && reaches) return last
    if (authority.metadata !== undefined && authority.metadata.registration_endpoint === undefined)
      throw new Error(`svc cannot register itself with ${issuer}: set oauth.clientId`)
    const client = await register(authority, redirectUrl, scope, tokenEndpointAuthMethod, account.boundedFetch).catch(
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
    await account.change({ client })
    return client
  }

  return {
    start(account, redirectUrl, scope) {
      const key = JSON.stringify([account.key, redirectUrl, scope])
      const started = starting.get(key) ?? prepare(account, redirectUrl, scope).finally(() => starting.delete(key))
      starting.set(key, started)
      return started
    },

    async finish(answer) {
      const found = pending.get(answer.get("state") ?? "")
      if (found === undefined)
        throw new RequestError("not_found", "svc does not wait for this authorization, or not any more; begin it again")
      pending.delete(found.state)
      const { account, authority, client, redirectUrl, verifier, scope } = found
      const { name } = account
      const { redeem, isRevoked } = await grant()
      try {
        learn([answer.get("code") ?? ""])
        const given = await redeem(authority, client, redirectUrl, verifier, answer, account.boundedFetch)
        await account.keep(given, client, scope, "granted")
        found.settle(undefined)
        return { name }
      } catch (cause) {
        // A registration that the authorization server has forgotten is made anew.
        if (isRevoked(cause)) await account.change({ client: undefined })
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

    waitsFor: (account) => [...pending.values()].some((one) => one.account === account),
  }
}

// ---

/** Addresses of one server that may be open in a browser somewhere. */
const MAX_PENDING = 5
const MAX_OUTCOMES = 100
const MAX_REASON = 500
