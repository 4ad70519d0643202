/**
 * Authorization of remote servers: what is sent with each request, and what a 401 or 403 leads to. It is answered without
 * a person where that is possible; else with a place to go to. A token that is refused when it is new ends it: asking
 * again would give the same.
 */

import { type Credentials, reasonOf } from "../backend/http.ts"
import { InsufficientScopeError, loginHint, TransientError, UnauthorizedError } from "../backend/link.ts"
import type { RemoteLaunch, ServerSpec } from "../config/server-spec.ts"
import { isLoopback } from "../lib/address.ts"
import { messageOf, RequestError, UnavailableError } from "../lib/errors.ts"
import type { Log } from "../lib/log.ts"
import { type AuthorizationFlowDeps, createAuthorizationFlow } from "./authorization-flow.ts"
import type { Challenge } from "./oauth-client.ts"
import { storeKey, type TokenSet, TokenSource, type TokenSourceDeps } from "./token-source.ts"

export type OAuthDeps = Omit<TokenSourceDeps & AuthorizationFlowDeps, "loadOAuthClient" | "addSecrets" | "warn"> & {
  readonly log: Log
  /** The authorization of a server has come, changed or gone. */
  onchange(server: string): void
}

/** Where a person must go, and how svc knows the answer; undefined where no person was needed. */
export type StartedAuthorization = { readonly url: string; readonly state: string } | undefined

/** One server's authorization, without its tokens. */
export type AuthStatus = {
  readonly server: string
  readonly state: "authorized" | "expired" | "waiting" | "none"
  readonly scopes: readonly string[]
  /** ISO 8601. */
  readonly expires?: string
  /** Whether it is renewed without a person. */
  readonly renews: boolean
  readonly issuer?: string
}

type Remote = ServerSpec & { readonly launch: RemoteLaunch }

export type OAuth = {
  credentials(spec: ServerSpec, launch: RemoteLaunch): Credentials
  /** Begins to authorize anew. `redirectUrl` undefined is svc's own. Throws what says why it cannot. */
  begin(spec: ServerSpec, redirectUrl: string | undefined): Promise<StartedAuthorization>
  /** Where browsers come back to svc itself; undefined where they cannot. */
  callback(): string | undefined
  /** Takes what came back to the redirect address; gives the server's name. Throws a RequestError. */
  finish(answer: URLSearchParams): Promise<string>
  /** Resolves when the authorization that has this state is finished; rejects with why it failed. */
  finished(state: string): Promise<void>
  status(specs: readonly ServerSpec[]): Promise<readonly AuthStatus[]>
  /** Gives the tokens back and forgets them. Says what could not be done at the authorization server. */
  logout(spec: ServerSpec): Promise<string | undefined>
  /** svc as a client, for authorization servers that look it up; undefined where they cannot. */
  description(): Promise<object | undefined>
  /** Values that must not be shown; the same array until there are more. */
  readonly secrets: readonly string[]
}

export function createOAuth(deps: OAuthDeps): OAuth {
  const sources = new Map<string, TokenSource>()
  let known: readonly string[] = []
  const addSecrets = (values: readonly string[]) => {
    const all = new Set([...known, ...values])
    if (all.size > known.length) known = [...all].slice(-MAX_KNOWN)
  }
  const warn = (server: string, message: string) => deps.log.warn(message, { server })
  const loadOAuthClient = () => import("./oauth-client.ts")
  const flow = createAuthorizationFlow({ ...deps, loadOAuthClient, addSecrets })

  const accountOf = (name: string, launch: RemoteLaunch): TokenSource => {
    const key = storeKey(name, launch.url)
    const source = sources.get(key) ?? new TokenSource(name, launch, { ...deps, loadOAuthClient, addSecrets, warn })
    source.launch = launch
    sources.set(key, source)
    return source
  }

  /** The error that says where to go. Throws where it could not be found out now. */
  const ask = async (source: TokenSource, scope: string | undefined, refused: TokenSet | undefined) => {
    const { name } = source
    const redirectUrl = ownRedirect(source)
    if (redirectUrl === undefined) return new UnauthorizedError(loginHint(name))
    try {
      const { url, authority } = await flow.start(source, redirectUrl, scope)
      if (refused !== undefined && refused.issuer === authority.issuer) return newlyRefused(refused)
      return new UnauthorizedError(`${loginHint(name)}, or open the address`, url)
    } catch (error) {
      return refusal(error)
    }
  }

  /** Where a browser would come back to this very process; undefined where only `svc auth login` can wait for it. */
  const ownRedirect = (source: TokenSource): string | undefined => {
    const own = deps.callback()
    const wanted = source.launch.oauth?.redirectUrl
    if (own === undefined || wanted === undefined) return own
    return wanted === own || !isLoopbackUrl(wanted) ? wanted : undefined
  }

  /** Remembers what a challenge says of where to be authorized, and for what. */
  const heed = (source: TokenSource, { metadataUrl, scope }: Challenge) => {
    source.demanded = scope
    if (metadataUrl !== undefined) source.entry = { ...source.entry, metadataUrl }
  }

  /** A request without authorization, for its challenge. */
  const probe = async (source: TokenSource) => {
    const { url, headers } = source.launch
    const signal = AbortSignal.timeout(PROBE_MS)
    const init = { headers: { ...headers, accept: "text/event-stream" }, signal }
    const response = await deps.fetch(url, init).catch((cause: unknown) => {
      throw new TransientError(`it cannot be reached: ${reasonOf(cause)}`, { cause })
    })
    if (response.status === 401) heed(source, (await loadOAuthClient()).challengeOf(response))
    await response.body?.cancel()
  }

  const stepUp = async (source: TokenSource, { scope }: Challenge): Promise<boolean> => {
    const { computeScopeUnion, isStrictScopeSuperset } = await loadOAuthClient()
    const had = source.tokens?.scope
    const wanted = computeScopeUnion(had, scope)
    if (!isStrictScopeSuperset(wanted, had))
      throw new InsufficientScopeError(`refuses a token that has all the scopes it names (${scope ?? "none"})`)
    if (source.isMachine) return source.renew({ scope: wanted, anew: true })
    const { message, authorizationUrl } = await ask(source, wanted, undefined)
    throw new InsufficientScopeError(`wants more scopes (${scope}): ${message}`, authorizationUrl)
  }

  const unauthorized = async (source: TokenSource, challenge: Challenge): Promise<boolean> => {
    const { tokens } = source
    // One that ended on its way says nothing of the grant that it came from.
    const ended = tokens?.expiresAt !== undefined && deps.clock.now() >= tokens.expiresAt - EARLY_MS
    const fresh = ended ? undefined : source.fresh
    heed(source, challenge)
    if (source.isMachine) {
      if (fresh === "granted") throw newlyRefused(tokens)
      return source.renew().catch((error: unknown) => {
        throw refusal(error)
      })
    }
    if (fresh === undefined && tokens !== undefined && (await source.renew())) return true
    const { computeScopeUnion } = await loadOAuthClient()
    const scope = source.launch.oauth?.scopes?.join(" ") ?? challenge.scope
    throw await ask(source, computeScopeUnion(tokens?.scope, scope), fresh === "granted" ? tokens : undefined)
  }

  return {
    credentials(spec, launch) {
      const source = accountOf(spec.name, launch)
      const own = launch.headers.authorization !== undefined && launch.oauth === undefined
      let last: string | undefined
      return {
        get last() {
          return last
        },
        async authorization() {
          if (!own) last = header(await source.usable())
          return last
        },
        accepted(sent) {
          if (sent === header(source.tokens)) source.fresh = undefined
        },
        async challenged(response, sent) {
          if (own) {
            if (response.status === 403) return false
            throw new UnauthorizedError("answered 401: it refuses the Authorization header of its configuration")
          }
          // Another request has got new ones in the meantime.
          if (source.tokens !== undefined && sent !== header(source.tokens)) return true
          const challenge = (await loadOAuthClient()).challengeOf(response)
          if (response.status === 401) return unauthorized(source, challenge)
          return challenge.error === "insufficient_scope" && source.tokens !== undefined
            ? stepUp(source, challenge)
            : false
        },
      }
    },

    async begin(spec, redirectUrl) {
      const source = accountOf(spec.name, remote(spec).launch)
      await source.load()
      try {
        if (source.demanded === undefined) await probe(source)
        if (source.isMachine) {
          await source.renew({ anew: true })
          deps.onchange(source.name)
          return undefined
        }
        const redirect = redirectUrl ?? ownRedirect(source)
        if (redirect === undefined) throw new Error("there is no address that a browser could come back to")
        const scope = source.launch.oauth?.scopes?.join(" ") ?? source.demanded
        const { url, state } = await flow.start(source, redirect, scope)
        return { url, state }
      } catch (error) {
        const message = `${spec.name} cannot be authorized: ${messageOf(error)}`
        throw error instanceof TransientError
          ? new UnavailableError(message, { cause: error })
          : new RequestError("conflict", message, undefined, { cause: error })
      }
    },

    async finish(answer) {
      const { name, failure } = await flow.finish(answer)
      if (failure === undefined) deps.log.info("authorized", { server: name })
      else warn(name, failure.message)
      // After a failure there is a new address to go to.
      deps.onchange(name)
      if (failure !== undefined) throw failure
      return name
    },

    callback: deps.callback,
    finished: flow.finished,

    async status(specs) {
      const wanted = new Set(specs.filter(isRemote).map(({ name, launch }) => accountOf(name, launch)))
      const all = [...wanted].map(async (source): Promise<readonly AuthStatus[]> => {
        const { name, launch } = source
        await source.load()
        const { tokens } = source
        const waits = flow.waitsFor(source)
        if (tokens === undefined && !waits && launch.oauth === undefined) return []
        const renews = source.isMachine || tokens?.refresh !== undefined
        const expired = tokens?.expiresAt !== undefined && tokens.expiresAt <= deps.clock.now()
        return [
          {
            server: name,
            state: tokens === undefined ? (waits ? "waiting" : "none") : expired && !renews ? "expired" : "authorized",
            scopes: tokens?.scope?.split(" ") ?? [],
            renews,
            ...(tokens?.expiresAt === undefined ? {} : { expires: new Date(tokens.expiresAt).toISOString() }),
            ...(tokens === undefined ? {} : { issuer: tokens.issuer }),
          },
        ]
      })
      return (await Promise.all(all)).flat()
    },

    async logout(spec) {
      const { launch } = remote(spec)
      const source = accountOf(spec.name, launch)
      await source.load()
      return source.end()
    },

    async description() {
      const redirectUrl = deps.callback()
      return deps.metadataUrl === undefined || redirectUrl === undefined
        ? undefined
        : (await loadOAuthClient()).clientMetadata(deps.metadataUrl, redirectUrl)
    },

    get secrets() {
      return known
    },
  }
}

// ---

const MAX_KNOWN = 1000
const PROBE_MS = 15_000
/** How much sooner a token may end than it was said to: the times in a JWT are whole seconds. */
const EARLY_MS = 1000

const header = (tokens: TokenSet | undefined): string | undefined =>
  tokens === undefined ? undefined : `Bearer ${tokens.access}`

const isLoopbackUrl = (url: string): boolean => URL.canParse(url) && isLoopback(new URL(url).hostname)

const isRemote = (spec: ServerSpec): spec is Remote => spec.launch.transport !== "stdio"

/** Asking for another token would give the same. */
const newlyRefused = (tokens: TokenSet | undefined): UnauthorizedError =>
  new UnauthorizedError(
    `refuses the token that ${tokens?.issuer} has just given for it: they do not agree on its audience, issuer or keys`,
  )

function remote(spec: ServerSpec): Remote {
  if (isRemote(spec)) return spec
  throw new RequestError("invalid_params", `${spec.name} is a command: only remote servers want authorization`)
}

/** Where a person must go, once svc knows; else the trouble. What says nothing is thrown as it is. */
function refusal(error: unknown): UnauthorizedError {
  if (error instanceof TransientError) throw error
  return new UnauthorizedError(`requires authorization, but ${messageOf(error)}`, undefined, { cause: error })
}
