/**
 * svc's account with one remote server: its tokens, how they are renewed, and what is kept of them.
 *
 *  1. One renewal at a time, in this process and among all that share the secrets: a refresh token may be good only once.
 *  2. A failure that says nothing (no network, a 5xx) takes no token away; only the authorization server's own word does.
 *  3. Tokens go only to the resource they were asked for, refresh tokens and client secrets only to their issuer.
 */
import type { RemoteLaunch } from "../config/server-spec.ts"
import type { Clock } from "../lib/clock.ts"
import { messageOf } from "../lib/errors.ts"
import type { SecretStore } from "../store/secret-store.ts"
import { isObject } from "../wire/message.ts"
import type { AuthorizationServer, OAuthClient } from "./oauth-client.ts"
import { type BoundedFetch, boundedFetch } from "./ssrf.ts"

/** Times are milliseconds since the epoch. */
export type TokenSet = {
  readonly access: string
  readonly refresh?: string | undefined
  readonly expiresAt?: number | undefined
  readonly obtainedAt: number
  /** What was granted, or asked for where the server does not say. */
  readonly scope?: string | undefined
  readonly issuer: string
  /** Whom they were given to. */
  readonly client: OAuthClient
}

/** What is kept of one server. */
export type StoredAuthorization = {
  readonly name: string
  readonly url: string
  readonly tokens?: TokenSet | undefined
  /** The registration made last. */
  readonly client?: OAuthClient | undefined
  /** Where the server described itself last. */
  readonly metadataUrl?: string | undefined
  /** The issuer that a configured client secret has been given to: it goes to no other. */
  readonly issuer?: string | undefined
}

export type TokenSourceDeps = {
  readonly clock: Clock
  readonly fetch: (url: string, init: RequestInit) => Promise<Response>
  readonly secrets: SecretStore
  /** The talk with authorization servers, loaded when it is first needed. */
  loadOAuthClient(): Promise<typeof import("./oauth-client.ts")>
  /** Values that must not be shown from now on. */
  addSecrets(secrets: readonly string[]): void
  warn(server: string, message: string): void
}

/** The account's own name among the secrets. */
export const storeKey = (name: string, url: string): string => `${name} ${url}`

export class TokenSource {
  entry: StoredAuthorization
  /** How the tokens were got, until the server takes them for the first time. */
  fresh: "granted" | "renewed" | undefined
  /** The scope that the server demanded last. */
  demanded: string | undefined
  private loaded: Promise<void> | undefined
  /** The last trouble with what is at rest. */
  private lastStoreError: string | undefined
  private renewal: Promise<boolean> | undefined

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

  /** Whether svc authorizes as itself, without a person. */
  get isMachine(): boolean {
    return this.launch.oauth?.grantType === "client_credentials"
  }

  load(): Promise<void> {
    this.loaded ??= this.read().then((found) => {
      if (found !== undefined) this.take(found)
    })
    return this.loaded
  }

  /** The tokens to send now: renewed first where they are about to expire. Throws where they have and cannot be now. */
  async usable(): Promise<TokenSet | undefined> {
    await this.load()
    const { tokens } = this
    if (tokens?.expiresAt === undefined || (tokens.refresh === undefined && !this.isMachine)) return tokens
    const now = this.deps.clock.now()
    const margin = Math.min(MARGIN_MS, (tokens.expiresAt - tokens.obtainedAt) / 10)
    if (now < tokens.expiresAt - margin) return tokens
    try {
      return (await this.renew()) ? this.tokens : undefined
    } catch (error) {
      if (now < tokens.expiresAt) return tokens
      throw error
    }
  }

  /**
   * New tokens without a person: by the refresh token, or as svc itself. False where that is not possible (any more).
   * `anew`: even where another process has got some in the meantime.
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
        const there = (await this.read())?.tokens
        if (!anew && there !== undefined && there.obtainedAt > (before?.obtainedAt ?? 0)) {
          this.take({ ...this.entry, tokens: there })
          this.fresh = "renewed"
          return true
        }
        return this.isMachine ? this.obtain(scope) : this.refresh()
      })
      .finally(() => {
        this.renewal = undefined
      })
    return this.renewal
  }

  /** Keeps tokens that were given to a client. `asked` is the scope that was asked for. */
  async keep(
    given: {
      access_token: string
      refresh_token?: string | undefined
      expires_in?: number | undefined
      scope?: string | undefined
    },
    client: OAuthClient,
    asked: string | undefined,
    how: "granted" | "renewed",
  ): Promise<void> {
    const now = this.deps.clock.now()
    // Past that there is no date to show.
    const lifetime = Math.min(given.expires_in ?? 0, MAX_LIFETIME_S)
    const tokens: TokenSet = {
      access: given.access_token,
      refresh: given.refresh_token,
      expiresAt: lifetime > 0 ? now + lifetime * 1000 : undefined,
      obtainedAt: now,
      scope: given.scope ?? asked,
      issuer: client.issuer,
      client,
    }
    this.fresh = how
    await this.change({ tokens, issuer: client.issuer })
  }

  /** Changes what is kept. Where it cannot be kept on disk it is kept in memory, and said. */
  async change(changes: Partial<StoredAuthorization>): Promise<void> {
    this.take({ ...this.entry, ...changes })
    await this.deps.secrets
      .put(this.key, this.entry)
      .catch((error: unknown) =>
        this.deps.warn(
          this.name,
          `its authorization cannot be kept and will be lost with this process: ${messageOf(error)}`,
        ),
      )
  }

  /** For talk with the authorization servers that this server names. */
  get boundedFetch(): BoundedFetch {
    return boundedFetch(this.deps.fetch, this.launch.url)
  }

  /** Who authorizes for the server, as it and they say at this moment. */
  async discover(): Promise<AuthorizationServer> {
    const { discover } = await this.deps.loadOAuthClient()
    return discover(this.launch.url, this.entry.metadataUrl, this.boundedFetch)
  }

  /** The client to ask `authority` as, without registering one. Throws where its credentials belong to another issuer. */
  configuredClient(authority: AuthorizationServer): OAuthClient | undefined {
    const { clientId, clientSecret, tokenEndpointAuthMethod } = this.launch.oauth ?? {}
    if (clientId === undefined) return undefined
    const bound = this.entry.issuer
    if (clientSecret !== undefined && bound !== undefined && bound !== authority.issuer)
      throw new Error(
        `its authorization server changed from ${bound} to ${authority.issuer}, which gets no credentials; if that is meant, run \`svc auth logout ${this.name}\``,
      )
    return { id: clientId, secret: clientSecret, method: tokenEndpointAuthMethod, issuer: authority.issuer }
  }

  /** Forgets everything, here and at rest, and gives the tokens back. Says what the authorization server did not do. */
  async end(): Promise<string | undefined> {
    const { tokens, entry, launch, name } = this
    this.entry = { name, url: launch.url }
    this.fresh = undefined
    await this.deps.secrets.put(this.key, undefined)
    if (tokens === undefined) return undefined
    const { access, refresh, client, issuer } = tokens
    try {
      const { discover, revoke } = await this.deps.loadOAuthClient()
      const { boundedFetch: fetch } = this
      const authority = await discover(launch.url, entry.metadataUrl, fetch)
      if (authority.issuer !== issuer) return `its authorization server is another one now (${authority.issuer})`
      const [token, hint] =
        refresh === undefined ? ([access, "access_token"] as const) : ([refresh, "refresh_token"] as const)
      if (!(await revoke(authority, client, token, hint, fetch)))
        return `${issuer} cannot revoke tokens: they end by themselves`
      // With a refresh token its access tokens may end or not; not every kind of them can be revoked.
      if (refresh !== undefined) await revoke(authority, client, access, "access_token", fetch).catch(() => false)
      return undefined
    } catch (error) {
      return messageOf(error)
    }
  }

  // ---

  private async refresh(): Promise<boolean> {
    const { tokens } = this
    if (tokens?.refresh === undefined) return false
    const { deps } = this
    const grant = await deps.loadOAuthClient()
    const authority = await this.discover()
    if (authority.issuer !== tokens.issuer) return false
    try {
      // A configured secret may have been changed since; a registered one is the tokens' own.
      const client = tokens.client.redirectUrl === undefined ? this.configuredClient(authority) : undefined
      const given = await grant.refresh(authority, client ?? tokens.client, tokens.refresh, this.boundedFetch)
      await this.keep(given, client ?? tokens.client, tokens.scope, "renewed")
      return true
    } catch (error) {
      if (!grant.isRevoked(error)) throw error
      deps.warn(this.name, `its authorization is no good any more: ${messageOf(error)}`)
      await this.change({ tokens: undefined, client: undefined })
      return false
    }
  }

  private async obtain(scope: string | undefined): Promise<boolean> {
    const { deps } = this
    const grant = await deps.loadOAuthClient()
    const authority = await this.discover()
    const client = this.configuredClient(authority)
    if (client === undefined) throw new Error("grantType client_credentials needs oauth.clientId")
    const asked = scope ?? this.launch.oauth?.scopes?.join(" ") ?? this.demanded ?? authority.scopes
    await this.keep(
      await grant.clientCredentials(authority, client, asked, this.boundedFetch),
      client,
      asked,
      "granted",
    )
    return true
  }

  private take(entry: StoredAuthorization): void {
    this.entry = entry
    const { tokens, client } = entry
    this.deps.addSecrets(
      [tokens?.access, tokens?.refresh, tokens?.client.secret, client?.secret].filter((one) => one !== undefined),
    )
  }

  /** What is at rest. Where that cannot be read there is nothing, and it is said. */
  private async read(): Promise<StoredAuthorization | undefined> {
    try {
      const found = (await this.deps.secrets.read())[this.key]
      return isObject(found) && found.url === this.launch.url ? (found as StoredAuthorization) : undefined
    } catch (error) {
      // Said once, and looked at again: somebody may mend it.
      this.loaded = undefined
      if (this.lastStoreError !== messageOf(error)) this.deps.warn(this.name, messageOf(error))
      this.lastStoreError = messageOf(error)
      return undefined
    }
  }
}

const MARGIN_MS = 60_000
/** A hundred years. */
const MAX_LIFETIME_S = 36_500 * 86_400
