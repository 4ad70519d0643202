/**
 * Holds, renews and stores the tokens of one remote server.
 *
 *  1. One renewal runs at a time, in this process and in all processes that share the secret store: a refresh token may be
 *     valid only once.
 *  2. A transient failure (no network, a 5xx, 408, 425, 429) removes no token. Any other answer to a renewal without a token asks
 *     for a sign-in; if it does not say that the grant has ended, the tokens stay, and the next connection tries them once more.
 *  3. Access tokens go only to their resource; refresh tokens and client secrets only to their issuer.
 *  4. Tokens are bound to a key (RFC 9449) if the server asks for it, if it declares that it accepts such tokens, or if the
 *     configuration requires it. The key belongs to one server and one issuer, and is stored with the tokens.
 */

import { type BoundedFetch, boundedFetch } from "../../backend/ssrf.ts"
import type { RemoteLaunch } from "../../config/server-spec.ts"
import type { Clock } from "../../lib/clock.ts"
import { messageOf } from "../../lib/errors.ts"
import { readText } from "../../store/files.ts"
import type { SecretStore } from "../../store/secret-store.ts"
import { isObject } from "../../wire/message.ts"
import type { DpopKey, DpopProver } from "./dpop.ts"
import { readableFetch } from "./foreign-answers.ts"
import type { AuthorizationServer, OAuthClient } from "./oauth-client.ts"

/** The tokens of one server. Times are milliseconds since the epoch. */
export type TokenSet = {
  readonly access: string
  readonly refresh?: string | undefined
  readonly expiresAt?: number | undefined
  readonly obtainedAt: number
  /** The granted scope, or the requested scope if the answer names none. */
  readonly scope?: string | undefined
  readonly issuer: string
  /** The client to which they were issued. */
  readonly client: OAuthClient
  /** The scheme of the Authorization header; undefined for Bearer. */
  readonly scheme?: "DPoP" | undefined
  /** The key that was proved to the issuer: even with a bearer token, the refresh token may be bound to the key. */
  readonly dpopKey?: DpopKey | undefined
  /** Whether the issuer refused to renew them: a person must sign in. */
  readonly refused?: boolean | undefined
}

/** The stored authorization of one server. */
export type StoredAuthorization = {
  readonly name: string
  readonly url: string
  readonly tokens?: TokenSet | undefined
  /** The last registration. */
  readonly client?: OAuthClient | undefined
  /** The address of the server's metadata, from its last challenge. */
  readonly metadataUrl?: string | undefined
  /** The issuer that received a configured client secret: svc sends the secret to no other issuer. */
  readonly issuer?: string | undefined
}

/** The circumstances in which tokens were issued. */
export type Issuance = {
  readonly client: OAuthClient
  /** The requested scope. */
  readonly scope: string | undefined
  readonly dpopKey: DpopKey | undefined
  readonly how: "granted" | "renewed"
}

export type TokenSourceDeps = {
  readonly clock: Clock
  readonly fetch: (url: string, init: RequestInit) => Promise<Response>
  readonly secrets: SecretStore
  /** Loads oauth-client.ts when it is first needed. */
  loadOAuthClient(): Promise<typeof import("./oauth-client.ts")>
  /** Takes values that must not be shown from now on. */
  addSecrets(secrets: readonly string[]): void
  warn(server: string, message: string): void
}

/** Returns the key of a server in the secret store. */
export const storeKey = (name: string, url: string): string => `${name} ${url}`

export class TokenSource {
  entry: StoredAuthorization
  /** The way in which the tokens were obtained, until the server accepts them for the first time. */
  fresh: "granted" | "renewed" | undefined
  /** The scope of the server's last challenge. */
  demanded: string | undefined
  /** Whether the server's last challenge asked for tokens that are bound to a key. */
  demandsDpop = false
  /** A key that no stored token is bound to yet. */
  private newDpopKey: { readonly issuer: string; readonly key: Promise<DpopKey> } | undefined
  /** The prover for the server, with its key as it is stored. */
  private dpop: { readonly key: string; readonly session: Promise<DpopProver> } | undefined
  private loaded: Promise<void> | undefined
  /** The last failure of the secret store, which is logged once. */
  private lastStoreError: string | undefined
  private renewal: Promise<boolean> | undefined
  /** The authorization that could not be stored, and when svc tries again. */
  private unstored: { readonly entry: StoredAuthorization; readonly next: number } | undefined

  constructor(
    readonly name: string,
    public launch: RemoteLaunch,
    private readonly deps: TokenSourceDeps,
  ) {
    this.entry = { name, url: launch.url }
  }

  get tokens(): TokenSet | undefined {
    return this.entry.tokens
  }

  get key(): string {
    return storeKey(this.name, this.launch.url)
  }

  /** Whether svc obtains tokens without a user. */
  get isUnattended(): boolean {
    const { grantType = "authorization_code" } = this.launch.oauth ?? {}
    return grantType !== "authorization_code"
  }

  /** Reads the stored authorization, once. */
  load(): Promise<void> {
    this.loaded ??= this.read().then((found) => {
      if (found !== undefined) this.take(found)
    })
    return this.loaded
  }

  /** Reads the stored authorization again. */
  reload(): Promise<void> {
    this.loaded = this.read().then((found) => this.take(found ?? { name: this.name, url: this.launch.url }))
    return this.loaded
  }

  /** Returns the tokens to send, renewed if they are about to expire. Rejects if they have expired and cannot be renewed now. */
  async usable(): Promise<TokenSet | undefined> {
    await this.load()
    const { tokens, unstored } = this
    if (unstored !== undefined && this.deps.clock.now() >= unstored.next) await this.storeAgain(unstored.entry)
    if (tokens?.expiresAt === undefined || (tokens.refresh === undefined && !this.isUnattended)) return tokens
    const now = this.deps.clock.now()
    if (tokens.refused === true) return now < tokens.expiresAt ? tokens : undefined
    const margin = Math.min(MARGIN_MS, (tokens.expiresAt - tokens.obtainedAt) / 10)
    if (now < tokens.expiresAt - margin) return tokens
    try {
      if (await this.renew()) return this.tokens
      return this.tokens !== undefined && now < tokens.expiresAt ? this.tokens : undefined
    } catch (error) {
      if (now < tokens.expiresAt) return tokens
      throw error
    }
  }

  /**
   * Obtains new tokens without a user: by the refresh token, or by an unattended grant. Returns false if that is not possible.
   * `anew`: even if another process has obtained new tokens meanwhile.
   */
  renew({
    scope,
    anew = false,
  }: {
    readonly scope?: string | undefined
    readonly anew?: boolean
  } = {}): Promise<boolean> {
    const before = this.tokens
    this.renewal ??= this.deps.secrets
      .exclusive(this.key, async () => {
        const stored = (await this.read())?.tokens
        if (!anew && stored !== undefined && stored.obtainedAt > (before?.obtainedAt ?? 0)) {
          this.take({ ...this.entry, tokens: stored })
          this.fresh = "renewed"
          return true
        }
        return this.isUnattended ? this.obtain(scope) : this.refresh()
      })
      .finally(() => {
        this.renewal = undefined
      })
    return this.renewal
  }

  /**
   * Returns the key for tokens of an authorization server; undefined for bearer tokens. Throws if svc supports no algorithm that
   * the server accepts.
   */
  async dpopKey(authority: AuthorizationServer): Promise<DpopKey | undefined> {
    const { issuer, takesDpop, dpopAlgorithms } = authority
    if (!(this.launch.oauth?.dpopBoundAccessTokens ?? (this.demandsDpop || takesDpop))) return undefined
    if (this.tokens?.dpopKey !== undefined && this.tokens.issuer === issuer) return this.tokens.dpopKey
    if (this.newDpopKey?.issuer !== issuer) {
      const key = loadDpop().then(({ generateDpopKey }) => generateDpopKey(issuer, dpopAlgorithms))
      key.catch(() => {
        this.newDpopKey = undefined
      })
      this.newDpopKey = { issuer, key }
    }
    return this.newDpopKey.key
  }

  /** Returns a new proof for one request with an access token; undefined if the tokens have no key. RFC 9449, 4. */
  async proof(access: string, method: string, url: string): Promise<string | undefined> {
    const session = await this.dpopSession()
    return session?.buildProof({ htm: method, htu: url, accessToken: access })
  }

  /** Records the nonce of a response for the next proofs. RFC 9449, 8.2. */
  async noteNonce(response: Response): Promise<void> {
    if (response.headers.has("dpop-nonce")) (await this.dpopSession())?.observeNonce(response, this.launch.url)
  }

  /** Stores tokens that were issued to a client. `scope` is the requested scope, which counts if the answer names none. */
  async keep(
    answer: {
      access_token: string
      token_type?: string | undefined
      refresh_token?: string | undefined
      expires_in?: number | undefined
      scope?: string | undefined
    },
    { client, scope, dpopKey, how }: Issuance,
  ): Promise<void> {
    const scheme = answer.token_type?.toLowerCase() === "dpop" ? "DPoP" : undefined
    if (scheme === "DPoP" && dpopKey === undefined)
      throw new Error(
        `${client.issuer} issued a token that is bound to a key, without a proof from svc: set oauth.dpopBoundAccessTokens to true`,
      )
    if (scheme === undefined && this.launch.oauth?.dpopBoundAccessTokens === true)
      throw new Error(
        `${client.issuer} issued a bearer token, but oauth.dpopBoundAccessTokens requires a token that is bound to a key: enable DPoP there, or remove the setting`,
      )
    const now = this.deps.clock.now()
    // A later end is past the range of Date.
    const lifetime = Math.min(answer.expires_in ?? 0, MAX_LIFETIME_S)
    const tokens: TokenSet = {
      access: answer.access_token,
      refresh: answer.refresh_token,
      expiresAt: lifetime > 0 ? now + lifetime * 1000 : undefined,
      obtainedAt: now,
      scope: answer.scope ?? scope,
      issuer: client.issuer,
      client,
      scheme,
      dpopKey,
    }
    this.fresh = how
    await this.change({ tokens, issuer: client.issuer })
  }

  /**
   * Changes and stores the authorization. Keeps it in memory and logs the failure if it cannot be stored; `usable` then tries
   * again from time to time.
   */
  async change(changes: Partial<StoredAuthorization>): Promise<void> {
    this.take({ ...this.entry, ...changes })
    await this.store((error) =>
      this.deps.warn(
        this.name,
        `its authorization cannot be stored now and would be lost if this process ended: ${messageOf(error)}`,
      ),
    )
  }

  /** Returns a fetch for the authorization servers that this server names. */
  get boundedFetch(): BoundedFetch {
    return readableFetch(boundedFetch(this.deps.fetch, this.launch.url))
  }

  /** Discovers the server's authorization server. */
  async discover(): Promise<AuthorizationServer> {
    const { discover } = await this.deps.loadOAuthClient()
    return discover(this.launch.url, this.entry.metadataUrl, this.boundedFetch)
  }

  /** Returns the configured client, if any. Throws if its secret belongs to another issuer. */
  configuredClient(authority: AuthorizationServer): OAuthClient | undefined {
    const { clientId, clientSecret, tokenEndpointAuthMethod } = this.launch.oauth ?? {}
    if (clientId === undefined) return undefined
    const bound = this.entry.issuer
    if (clientSecret !== undefined && bound !== undefined && bound !== authority.issuer)
      throw new Error(
        `its authorization server changed from ${bound} to ${authority.issuer}, which does not get the configured credentials; if the change is intended, run \`svc auth logout ${this.name}\``,
      )
    return { id: clientId, secret: clientSecret, method: tokenEndpointAuthMethod, issuer: authority.issuer }
  }

  /** Deletes the authorization and revokes the tokens. Returns the reason if the authorization server did not revoke them. */
  async end(): Promise<string | undefined> {
    const { tokens, entry, launch, name } = this
    this.entry = { name, url: launch.url }
    this.fresh = undefined
    this.newDpopKey = undefined
    await this.deps.secrets.put(this.key, undefined)
    if (tokens === undefined) return undefined
    const { access, refresh, client, issuer } = tokens
    try {
      const { discover, revoke } = await this.deps.loadOAuthClient()
      const { boundedFetch: fetch } = this
      const authority = await discover(launch.url, entry.metadataUrl, fetch)
      if (authority.issuer !== issuer) return `its authorization server has changed to ${authority.issuer}`
      const [token, hint] =
        refresh === undefined ? ([access, "access_token"] as const) : ([refresh, "refresh_token"] as const)
      if (!(await revoke(authority, client, token, hint, fetch)))
        return `${issuer} cannot revoke tokens: they stay valid until they expire`
      // Revoking a refresh token may leave its access tokens valid, and some kinds of access tokens cannot be revoked.
      if (refresh !== undefined) await revoke(authority, client, access, "access_token", fetch).catch(() => false)
      return undefined
    } catch (error) {
      return messageOf(error)
    }
  }

  // ---

  /** Stores the authorization; calls `onfailure` if that fails. */
  private async store(onfailure: (error: unknown) => void): Promise<void> {
    const { entry } = this
    try {
      await this.deps.secrets.put(this.key, entry)
      this.unstored = undefined
    } catch (error) {
      this.unstored = { entry, next: this.deps.clock.now() + STORE_AGAIN_MS }
      onfailure(error)
    }
  }

  /** Stores an authorization that could not be stored, unless a newer one has replaced it here or in the store. */
  private async storeAgain(entry: StoredAuthorization): Promise<void> {
    const obtainedAt = (await this.read())?.tokens?.obtainedAt ?? 0
    if (this.entry !== entry || obtainedAt > (entry.tokens?.obtainedAt ?? 0)) this.unstored = undefined
    else await this.store(() => undefined)
  }

  /** Returns the prover for the key of the tokens. */
  private async dpopSession(): Promise<DpopProver | undefined> {
    const { dpopKey } = this.tokens ?? {}
    if (dpopKey === undefined) return undefined
    const key = JSON.stringify(dpopKey)
    if (this.dpop?.key !== key) this.dpop = { key, session: loadDpop().then(({ openDpop }) => openDpop(dpopKey)) }
    return this.dpop.session
  }

  /** Renews by the refresh token. Returns false if there is none, or the authorization server refuses it. */
  private async refresh(): Promise<boolean> {
    const { tokens } = this
    if (tokens?.refresh === undefined) return false
    const { deps } = this
    const oauth = await deps.loadOAuthClient()
    const authority = await this.discover()
    if (authority.issuer !== tokens.issuer) return false
    try {
      // A configured secret may have been rotated since. A registered client stays with its tokens.
      const client = tokens.client.redirectUrl === undefined ? this.configuredClient(authority) : undefined
      const issued = { client: client ?? tokens.client, scope: tokens.scope, how: "renewed" } as const
      // A refresh token stays bound to its key, whatever the configuration says now.
      const dpopKey = tokens.dpopKey ?? (await this.dpopKey(authority))
      const { boundedFetch: fetch } = this
      const answer = await oauth.refresh(authority, issued.client, tokens.refresh, tokens.scope, dpopKey, fetch)
      await this.keep(answer, { ...issued, dpopKey })
      return true
    } catch (error) {
      if (!(error instanceof oauth.OAuthError)) throw error
      const { host } = new URL(authority.issuer)
      deps.warn(this.name, `${host} no longer renews the sign-in, sign in again (${error.code}: ${messageOf(error)})`)
      await this.change(
        oauth.isRevoked(error) ? { tokens: undefined, client: undefined } : { tokens: { ...tokens, refused: true } },
      )
      return false
    }
  }

  /** Requests a token without a user. */
  private async obtain(scope: string | undefined): Promise<boolean> {
    const { deps, launch } = this
    const [{ OAuthError, requestToken }, { grantParameters }] = await Promise.all([
      deps.loadOAuthClient(),
      import("./unattended-grant.ts"),
    ])
    const authority = await this.discover()
    const { issuer } = authority
    const client = this.configuredClient(authority) ?? { id: "", issuer }
    const settings = launch.oauth ?? {}
    const requested = scope ?? settings.scopes?.join(" ") ?? this.demanded ?? authority.scopes
    const dpopKey = await this.dpopKey(authority)
    const parameters = await grantParameters({
      settings,
      authority,
      serverUrl: launch.url,
      scope: requested,
      now: deps.clock.now(),
      readText,
      fetchFrom: (identityProvider) => readableFetch(boundedFetch(deps.fetch, identityProvider)),
      addSecrets: deps.addSecrets,
    })
    const more = requested === undefined ? {} : { scope: requested }
    const answer = await requestToken(authority, client, { ...parameters, ...more }, dpopKey, this.boundedFetch).catch(
      (cause: unknown) => {
        if (!(cause instanceof OAuthError)) throw cause
        const { host } = new URL(issuer)
        throw new Error(`${host} refused the grant ${settings.grantType} (${cause.code}): ${cause.message}`, { cause })
      },
    )
    await this.keep(answer, { client, scope: requested, dpopKey, how: "granted" })
    return true
  }

  private take(entry: StoredAuthorization): void {
    this.entry = entry
    const { tokens, client } = entry
    this.deps.addSecrets(
      [tokens?.access, tokens?.refresh, tokens?.client.secret, tokens?.dpopKey?.jwk.d, client?.secret].filter(
        (one) => one !== undefined,
      ),
    )
  }

  /** Returns the stored authorization. Logs and returns nothing if the store cannot be read. */
  private async read(): Promise<StoredAuthorization | undefined> {
    try {
      const found = (await this.deps.secrets.read())[this.key]
      return isObject(found) && found.url === this.launch.url ? (found as StoredAuthorization) : undefined
    } catch (error) {
      // Reads again next time, because the store may be repaired; logs each reason once.
      this.loaded = undefined
      if (this.lastStoreError !== messageOf(error)) this.deps.warn(this.name, messageOf(error))
      this.lastStoreError = messageOf(error)
      return undefined
    }
  }
}

const loadDpop = () => import("./dpop.ts")

const MARGIN_MS = 60_000
/** How long svc waits before it stores an authorization again that could not be stored. */
const STORE_AGAIN_MS = 60_000
/** A hundred years. */
const MAX_LIFETIME_S = 36_500 * 86_400
