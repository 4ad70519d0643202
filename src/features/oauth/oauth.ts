/**
 * Authorizes svc at remote servers: supplies the credentials of each request, and handles a 401 or 403.
 *
 *  1. svc handles a refusal without a user if possible: by a renewal, or by a new token for svc itself.
 *  2. Otherwise the error names the address at which a user authorizes svc.
 *  3. A server that refuses a new token would refuse another one too: svc requests no other token.
 */

import {
  HeadersRefusedError,
  InsufficientScopeError,
  loginHint,
  TokenRequiredError,
  TransientError,
  UnauthorizedError,
} from "../../backend/client-transport.ts"
import { type Credentials, fetchInOrigin } from "../../backend/http.ts"
import type { RemoteLaunch, ServerSpec } from "../../config/server-spec.ts"
import { isLoopback } from "../../lib/address.ts"
import { messageOf, RequestError, UnavailableError } from "../../lib/errors.ts"
import type { Log } from "../../lib/log.ts"
import { isSecretName } from "../../lib/secret-names.ts"
import { AuthorizationFlow, type AuthorizationFlowDeps } from "./authorization-flow.ts"
import type { Challenge } from "./oauth-client.ts"
import { storeKey, type TokenSet, TokenSource, type TokenSourceDeps } from "./token-source.ts"

export type OAuthDeps = Omit<TokenSourceDeps & AuthorizationFlowDeps, "loadOAuthClient" | "addSecrets" | "warn"> & {
  readonly log: Log
  /** The authorization of a server was granted, changed or removed. */
  onchange(server: string): void
  /** Called after a logout from a server. */
  onlogout?(server: string): void
}

/** The address to open in a browser, and the state of the authorization; undefined if no user is needed. */
export type StartedAuthorization = { readonly url: string; readonly state: string } | undefined

/** One server's authorization, without its tokens. */
export type AuthStatus = {
  readonly server: string
  readonly state: "authorized" | "expired" | "waiting" | "none"
  readonly scopes: readonly string[]
  /** ISO 8601. */
  readonly expires?: string
  /** Whether svc renews it without a user. */
  readonly renews: boolean
  readonly issuer?: string
}

type Remote = ServerSpec & { readonly launch: RemoteLaunch }

export class OAuth {
  private readonly sources = new Map<string, TokenSource>()
  private readonly flow: AuthorizationFlow
  private known: readonly string[] = []

  constructor(private readonly deps: OAuthDeps) {
    const addSecrets = (values: readonly string[]) => this.addSecrets(values)
    this.flow = new AuthorizationFlow({ ...deps, loadOAuthClient, addSecrets })
  }

  /** Values that must not be shown. Returns the same array until there are more. */
  get secrets(): readonly string[] {
    return this.known
  }

  /** Returns the credentials for the requests to a server. */
  credentials(spec: ServerSpec, launch: RemoteLaunch): Credentials {
    const source = this.sourceOf(spec.name, launch)
    const isConfigured = launch.headers.authorization !== undefined && launch.oauth === undefined
    return isConfigured ? new ConfiguredCredentials() : new TokenCredentials(source, this)
  }

  /**
   * Starts a new authorization. `redirectUrl` undefined means svc's own. Rejects with an UnavailableError if a server cannot be
   * reached, otherwise with a RequestError.
   */
  async begin(spec: ServerSpec, redirectUrl: string | undefined): Promise<StartedAuthorization> {
    const source = this.sourceOf(spec.name, remote(spec).launch)
    await source.load()
    try {
      return await this.beginFor(source, redirectUrl)
    } catch (error) {
      const message = `${spec.name} cannot be authorized: ${this.reason(error)}`
      throw error instanceof TransientError
        ? new UnavailableError(message, { cause: error })
        : new RequestError("conflict", message, undefined, { cause: error })
    }
  }

  /** Returns svc's own redirect address; undefined if browsers cannot reach it. */
  callback(): string | undefined {
    return this.deps.callback()
  }

  /** Redeems an authorization response. Returns the server's name. Rejects with a RequestError. */
  async finish(response: URLSearchParams): Promise<string> {
    const { name, failure } = await this.flow.finish(response)
    if (failure === undefined) this.deps.log.info("authorized", { server: name })
    else this.deps.log.warn(failure.message, { server: name })
    // A failure creates a new address to open.
    this.deps.onchange(name)
    if (failure !== undefined) throw failure
    return name
  }

  /** Resolves when the authorization with this state is finished. Rejects with the reason if it failed. */
  finished(state: string): Promise<void> {
    return this.flow.finished(state)
  }

  /** Returns the authorizations of the servers that have or need one. */
  async status(specs: readonly ServerSpec[]): Promise<readonly AuthStatus[]> {
    const sources = new Set(specs.filter(isRemote).map(({ name, launch }) => this.sourceOf(name, launch)))
    const found = await Promise.all([...sources].map((source) => this.statusOf(source)))
    return found.filter((status) => status !== undefined)
  }

  /** Revokes and deletes a server's tokens. Returns the reason if the authorization server did not revoke them. */
  async logout(spec: ServerSpec): Promise<string | undefined> {
    const source = this.sourceOf(spec.name, remote(spec).launch)
    await source.load()
    const note = await source.end()
    this.deps.onlogout?.(spec.name)
    return note
  }

  /** Reads the stored authorization of a server again, because another replica has changed it. */
  async reload(name: string): Promise<void> {
    await Promise.all([...this.sources.values()].filter((source) => source.name === name).map((one) => one.reload()))
  }

  /** Returns svc's client metadata document with more redirect addresses; undefined if authorization servers cannot read it. */
  async description(more: readonly string[]): Promise<object | undefined> {
    const { metadataUrl } = this.deps
    const redirectUrl = this.deps.callback()
    if (metadataUrl === undefined || redirectUrl === undefined) return undefined
    return (await loadOAuthClient()).clientMetadata(metadataUrl, [redirectUrl, ...more])
  }

  /** Returns the tokens to send. Rejects with an UnauthorizedError if they have expired and a grant for new tokens is refused. */
  async usable(source: TokenSource): Promise<TokenSet | undefined> {
    try {
      return await source.usable()
    } catch (error) {
      throw source.isUnattended ? this.authorizationFailed(source, error) : error
    }
  }

  /**
   * Handles a challenge to a token, or to a request without a token. Returns whether a retry may succeed. Rejects with an
   * UnauthorizedError if a user must authorize svc.
   */
  async answerChallenge(source: TokenSource, response: Response): Promise<boolean> {
    const { challengeOf, isDpopNonceChallenge } = await loadOAuthClient()
    // The nonce is recorded already: the next proof contains it.
    if (source.tokens?.scheme === "DPoP" && isDpopNonceChallenge(response)) return response.headers.has("dpop-nonce")
    const challenge = challengeOf(response)
    if (response.status === 401) return this.unauthorized(source, challenge)
    return challenge.error === "insufficient_scope" && source.tokens !== undefined
      ? this.stepUp(source, challenge)
      : false
  }

  // ---

  private addSecrets(values: readonly string[]): void {
    const all = new Set([...this.known, ...values])
    if (all.size > this.known.length) this.known = [...all].slice(-MAX_SECRETS)
  }

  private sourceOf(name: string, launch: RemoteLaunch): TokenSource {
    const key = storeKey(name, launch.url)
    const known = this.sources.get(key)
    if (known !== undefined) {
      known.launch = launch
      return known
    }
    const source = new TokenSource(name, launch, {
      ...this.deps,
      loadOAuthClient,
      addSecrets: (values) => this.addSecrets(values),
      warn: (server, message) => this.deps.log.warn(message, { server }),
    })
    this.sources.set(key, source)
    return source
  }

  private async beginFor(source: TokenSource, redirectUrl: string | undefined): Promise<StartedAuthorization> {
    if (source.demanded === undefined) await this.probe(source)
    if (source.isUnattended) {
      await source.renew({ anew: true })
      this.deps.onchange(source.name)
      return undefined
    }
    const redirect = redirectUrl ?? this.ownRedirect(source)
    if (redirect === undefined)
      throw new Error(
        `this svc has no redirect address that a browser can return to; run \`svc auth login ${source.name}\``,
      )
    const scope = source.launch.oauth?.scopes?.join(" ") ?? source.demanded
    const { url, state } = await this.flow.start(source, redirect, scope)
    return { url, state }
  }

  private async statusOf(source: TokenSource): Promise<AuthStatus | undefined> {
    const { name, launch } = source
    await source.load()
    const { tokens } = source
    const waits = this.flow.waitsFor(source)
    if (tokens === undefined) {
      if (!waits && launch.oauth === undefined) return undefined
      return { server: name, state: waits ? "waiting" : "none", scopes: [], renews: source.isUnattended }
    }
    const { expiresAt, issuer } = tokens
    const renews = source.isUnattended || (tokens.refresh !== undefined && tokens.refused !== true)
    const isExpired = expiresAt !== undefined && expiresAt <= this.deps.clock.now()
    return {
      server: name,
      state: renews ? "authorized" : unrenewedState(isExpired, waits),
      scopes: tokens.scope?.split(" ") ?? [],
      renews,
      ...(expiresAt === undefined ? {} : { expires: new Date(expiresAt).toISOString() }),
      issuer,
    }
  }

  /** Returns the error that names the address to open. Rejects with a TransientError if the address cannot be determined now. */
  private async requireAuthorization(
    source: TokenSource,
    scope: string | undefined,
    refused: TokenSet | undefined,
  ): Promise<UnauthorizedError> {
    const { name } = source
    const redirectUrl = this.ownRedirect(source)
    try {
      if (redirectUrl === undefined) {
        const { metadata, resource } = await source.discover()
        if (metadata === undefined && resource === undefined && source.launch.oauth === undefined)
          throw new TokenRequiredError(name)
        return new UnauthorizedError(loginHint(name))
      }
      const { url, authority } = await this.flow.start(source, redirectUrl, scope)
      if (refused !== undefined && refused.issuer === authority.issuer) return newTokenRefused(refused)
      return new UnauthorizedError(loginHint(name), url)
    } catch (error) {
      return this.authorizationFailed(source, error)
    }
  }

  /** Returns the redirect address that leads to this process; undefined if only `svc auth login` can wait for it. */
  private ownRedirect(source: TokenSource): string | undefined {
    const own = this.deps.callback()
    const configured = source.launch.oauth?.redirectUrl
    if (own === undefined || configured === undefined) return own
    return configured === own || !isLoopbackUrl(configured) ? configured : undefined
  }

  /** Sends a request without authorization, to get the challenge. */
  private async probe(source: TokenSource): Promise<void> {
    const { url, headers } = source.launch
    const signal = AbortSignal.timeout(PROBE_MS)
    const init = { headers: { ...headers, accept: "text/event-stream" }, signal }
    const response = await fetchInOrigin(url, init, { fetch: this.deps.fetch, credentials: undefined }).catch(
      (cause: unknown) => {
        throw new TransientError(messageOf(cause), { cause })
      },
    )
    if (response.status === 401) noteChallenge(source, (await loadOAuthClient()).challengeOf(response))
    await response.body?.cancel()
  }

  /** Requests more scopes. authorization: Step-Up Authorization Flow. */
  private async stepUp(source: TokenSource, { scope }: Challenge): Promise<boolean> {
    const { computeScopeUnion, isStrictScopeSuperset } = await loadOAuthClient()
    const granted = source.tokens?.scope
    const wanted = computeScopeUnion(granted, scope)
    if (!isStrictScopeSuperset(wanted, granted))
      throw new InsufficientScopeError(`refuses a token that has all the scopes it requires (${scope ?? "none"})`)
    if (source.isUnattended) return source.renew({ scope: wanted, anew: true })
    const { message, authorizationUrl } = await this.requireAuthorization(source, wanted, undefined)
    throw new InsufficientScopeError(`requires more scopes (${scope}): ${message}`, authorizationUrl)
  }

  /** Returns the error of an authorization that failed. Throws a TransientError unchanged. */
  private authorizationFailed({ name, isUnattended, launch }: TokenSource, cause: unknown): UnauthorizedError {
    if (cause instanceof TransientError) throw cause
    // A server without OAuth may take its credentials from another header than Authorization.
    if (launch.oauth === undefined && Object.keys(launch.headers).some((header) => isSecretName(header)))
      return new HeadersRefusedError({ cause })
    if (cause instanceof TokenRequiredError) return cause
    const next = isUnattended ? `; when that is corrected, run \`svc auth login ${name}\`` : ""
    return new UnauthorizedError(`requires authorization, but ${this.reason(cause)}${next}`, undefined, { cause })
  }

  /** Returns the message of an error in one line. Masks the message before cutting it: half a secret would not be recognized. */
  private reason(cause: unknown): string {
    return this.deps.mask(messageOf(cause)).replace(/\s+/g, " ").slice(0, MAX_REASON)
  }

  private async unauthorized(source: TokenSource, challenge: Challenge): Promise<boolean> {
    const { tokens } = source
    // A token that expired in transit says nothing about the grant.
    const isExpired = tokens?.expiresAt !== undefined && this.deps.clock.now() >= tokens.expiresAt - EARLY_MS
    const fresh = isExpired ? undefined : source.fresh
    noteChallenge(source, challenge)
    if (fresh !== undefined && challenge.error === "invalid_dpop_proof") throw proofRefused(tokens)
    if (source.isUnattended) {
      if (fresh === "granted") throw newTokenRefused(tokens)
      return source.renew().catch((error: unknown) => {
        throw this.authorizationFailed(source, error)
      })
    }
    if (fresh === undefined && tokens !== undefined && (await source.renew())) return true
    const { computeScopeUnion } = await loadOAuthClient()
    const scope = computeScopeUnion(tokens?.scope, source.launch.oauth?.scopes?.join(" ") ?? challenge.scope)
    throw await this.requireAuthorization(source, scope, fresh === "granted" ? tokens : undefined)
  }
}

// ---

/** Returns the state of tokens that svc cannot renew. If a sign-in is open, the server has refused them. */
function unrenewedState(isExpired: boolean, waits: boolean): AuthStatus["state"] {
  if (waits) return "waiting"
  return isExpired ? "expired" : "authorized"
}

/** Credentials from the tokens of a server. */
class TokenCredentials implements Credentials {
  last: string | undefined

  constructor(
    private readonly source: TokenSource,
    private readonly oauth: OAuth,
  ) {}

  async authorization(): Promise<string | undefined> {
    this.last = headerOf(await this.oauth.usable(this.source))
    return this.last
  }

  async proof(sent: string, method: string, url: string): Promise<string | undefined> {
    return sent.startsWith(DPOP_SCHEME) ? this.source.proof(sent.slice(DPOP_SCHEME.length), method, url) : undefined
  }

  noteNonce(response: Response): Promise<void> {
    return this.source.noteNonce(response)
  }

  accepted(sent: string): void {
    if (sent === headerOf(this.source.tokens)) this.source.fresh = undefined
  }

  async challenged(response: Response, sent: string | undefined): Promise<boolean> {
    const { tokens } = this.source
    // Another request has got new tokens meanwhile.
    if (tokens !== undefined && tokens.refused !== true && sent !== headerOf(tokens)) return true
    return this.oauth.answerChallenge(this.source, response)
  }
}

/** The configured Authorization header, which every request has among its headers: its refusal is final. */
class ConfiguredCredentials implements Credentials {
  readonly last = undefined

  async authorization(): Promise<undefined> {
    return undefined
  }

  async proof(): Promise<undefined> {
    return undefined
  }

  async noteNonce(): Promise<void> {}

  accepted(): void {}

  async challenged(response: Response): Promise<boolean> {
    if (response.status === 403) return false
    throw new HeadersRefusedError()
  }
}

const MAX_REASON = 500
const MAX_SECRETS = 1000
const PROBE_MS = 15_000
/** A token may expire this much earlier than declared: the times in a JWT are whole seconds. */
const EARLY_MS = 1000

/** Loads the SDK when a server first requires authorization. */
const loadOAuthClient = () => import("./oauth-client.ts")

const DPOP_SCHEME = "DPoP "

/** Returns the Authorization header of tokens. RFC 6750, 2.1; RFC 9449, 7.1. */
const headerOf = (tokens: TokenSet | undefined): string | undefined =>
  tokens === undefined ? undefined : `${tokens.scheme ?? "Bearer"} ${tokens.access}`

const isLoopbackUrl = (url: string): boolean => URL.canParse(url) && isLoopback(new URL(url).hostname)

const isRemote = (spec: ServerSpec): spec is Remote => spec.launch.transport !== "stdio"

/** Remembers the scope, the metadata address and the scheme of a challenge. */
function noteChallenge(source: TokenSource, { metadataUrl, scope, dpop }: Challenge): void {
  source.demanded = scope
  source.demandsDpop = dpop
  if (metadataUrl !== undefined) source.entry = { ...source.entry, metadataUrl }
}

/** Returns the error of a refused new token: the server would refuse another token too. */
const newTokenRefused = (tokens: TokenSet | undefined): UnauthorizedError =>
  new UnauthorizedError(
    `refuses the token that ${tokens?.issuer} has just issued for it: they disagree on its audience, issuer or keys`,
  )

/** Returns the error of a refused proof: a new token would need the same kind of proof. */
const proofRefused = (tokens: TokenSet | undefined): UnauthorizedError =>
  new UnauthorizedError(
    `refuses the DPoP proof of a token that ${tokens?.issuer} has just issued for it: check the clock of this machine, and whether the configured url is the server's own address`,
  )

function remote(spec: ServerSpec): Remote {
  if (isRemote(spec)) return spec
  throw new RequestError("invalid_params", `${spec.name} is a stdio server; only remote servers require a sign-in`)
}
