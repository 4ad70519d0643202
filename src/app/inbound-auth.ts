import { systemClock, withTimeout } from "../lib/clock.ts"
import { messageOf } from "../lib/errors.ts"
import type { Log } from "../lib/log.ts"
import { type AuthOptions, createAuthentication, createResourceMetadata } from "../serve/auth.ts"
import type { Cluster } from "../serve/cluster.ts"
import type { Middleware } from "../serve/inbound.ts"
import {
  type ClientToken,
  describeToken,
  isSameToken,
  NO_TOKENS,
  printTokens,
  readPrivate,
  readTokens,
  refusedTokens,
  type TokenFile,
} from "../store/client-tokens.ts"
import { type Paths, tokensFile } from "../store/paths.ts"
import { watchFiles } from "../store/watch.ts"
import { createRefusedLogins } from "./refused-logins.ts"
import type { Runtime } from "./runtime.ts"
import type { ServeOptions } from "./serve-options.ts"

export type InboundAuth = {
  readonly authenticate: Middleware
  /** Serves the OAuth metadata of svc as a protected resource (RFC 9728); undefined without an issuer. */
  readonly resourceMetadata: Middleware | undefined
  /** Reads the tokens now if their file has changed. */
  follow(): void
  /** Returns why svc refuses all tokens now; undefined if their file is valid. */
  problem(): string | undefined
  close(): void
}

/**
 * Opens authentication; resolves with undefined without `--auth`. `base` returns the address at which clients reach svc,
 * `tokenOf` the token behind the login of a browser.
 */
export async function openInboundAuth(
  { agent, audit, cluster, log, mcp, metrics, nameHolders, streams }: Runtime,
  { auth, authIssuer, authAudience, authGroups, authScopes, healthInfoLevel, trustProxy }: ServeOptions,
  paths: Paths | undefined,
  { base, tokenOf }: Pick<AuthOptions, "base" | "tokenOf">,
): Promise<InboundAuth | undefined> {
  if (!auth) return undefined
  // Closes all streams: clients reconnect, and svc refuses those with a revoked token.
  const onrevoked = () => {
    for (const stream of [...streams]) stream.close()
  }
  const onchange = (change: TokenChange, { id, name, tags, metricsOnly, expires }: ClientToken) => {
    log.info(`${describeToken({ id, name })} was ${change.past}`)
    audit?.access(`auth.token.${change.verb}`, "ok", {
      principal: "local",
      token: id,
      name,
      tags: tags?.join(","),
      metricsOnly,
      expires,
    })
  }
  const tokens = watchTokens(paths, log, onrevoked, onchange)
  if (cluster !== undefined) await tokens.share(cluster)
  if (authIssuer === undefined && paths !== undefined && tokens.current().size === 0)
    log.warn("no client can connect yet: create a token with `svc auth token create`")
  const nameOf = (principal: string) => tokens.current().get(principal.replace(/^token /, ""))?.name || undefined
  nameHolders(nameOf)
  if (metrics !== undefined) metrics.nameOf = nameOf
  const refused = createRefusedLogins({ log, audit, metrics, clock: systemClock, trustProxy })
  // Imported only for an issuer: without one, a start does not load the cryptography.
  const issuer =
    authIssuer === undefined
      ? undefined
      : (await import("../serve/token-issuer.ts")).createIssuer({
          url: authIssuer,
          audience: authAudience,
          groupsClaim: authGroups,
          fetch: (url, init) => fetch(url, init),
          now: () => systemClock.now(),
          onnote: (message) => log.warn(message),
        })
  let cancelRefresh: () => void = () => undefined
  const refresh = () => {
    cancelRefresh = systemClock.after(REFRESH_MS, () => void issuer?.refresh().then(refresh))
  }
  if (issuer !== undefined) void issuer.refresh().then(refresh)
  const tags = () => [...new Set(agent.snapshot().backends.flatMap(({ spec }) => spec.tuning.tags))].sort()
  return {
    authenticate: createAuthentication({
      tokens: tokens.current,
      catchUp: tokens.catchUp,
      tokenOf,
      issuer,
      byScope: authScopes,
      presets: () => agent.presets,
      now: () => systemClock.now(),
      base,
      detailed: healthInfoLevel !== "minimal",
      onrefused: refused.record,
      onbug: mcp.onbug,
    }),
    resourceMetadata: issuer === undefined ? undefined : createResourceMetadata(issuer, base, tags),
    follow: tokens.follow,
    problem: tokens.problem,
    close() {
      cancelRefresh()
      refused.close()
      tokens.close()
    },
  }
}

// ---

const REFRESH_MS = 600_000

const CREATED = { verb: "create", past: "created" } as const
const CHANGED = { verb: "change", past: "changed" } as const
const REVOKED = { verb: "revoke", past: "revoked" } as const
type TokenChange = typeof CREATED | typeof CHANGED | typeof REVOKED

type WatchedTokens = {
  current(): ReadonlyMap<string, ClientToken>
  /** Resolves when this replica has read the changes that it missed while it was suspended; returns undefined if it missed none. */
  catchUp(): Promise<void> | undefined
  follow(): void
  problem(): string | undefined
  /** Shares the tokens with the other replicas. Resolves when theirs are known, or after SYNC_MS. */
  share(cluster: Cluster): Promise<void>
  close(): void
}

/**
 * Follows the tokens file. An untrusted file counts as empty, and the log says so. `onchange` receives each difference between
 * two trusted states of the file, so that the log shows changes by commands, editors and restored backups alike.
 */
function watchTokens(
  paths: Paths | undefined,
  log: Log,
  onrevoked: () => void,
  onchange: (change: TokenChange, token: ClientToken) => void,
): WatchedTokens {
  type Tokens = ReadonlyMap<string, ClientToken>
  let tokens: Tokens = NO_TOKENS.tokens
  if (paths === undefined)
    return {
      current: () => tokens,
      catchUp: () => undefined,
      follow: () => undefined,
      problem: () => undefined,
      share: async () => undefined,
      close: () => undefined,
    }
  const file = tokensFile(paths)
  let trusted: TokenFile | undefined
  let problem: string | undefined
  /** The tokens that svc itself wrote last: the watch may report them after other replicas have changed them again. */
  let written = NO_TOKENS
  let shared: ReturnType<Cluster["openTokens"]> | undefined
  const accept = (next: Tokens) => {
    const before = tokens
    tokens = next
    if ([...before].some(([id, token]) => !isSameToken(tokens.get(id), token))) onrevoked()
  }
  const read = () => {
    try {
      const filed = readTokens(file, process.platform)
      if (trusted !== undefined) compare(trusted.tokens, filed.tokens)
      trusted = filed
      problem = undefined
      shared?.follow(filed)
      const merged = shared?.merge(filed) ?? filed
      accept(merged.tokens)
      if (printTokens(merged) !== printTokens(filed)) void write()
    } catch (error) {
      accept(NO_TOKENS.tokens)
      problem = refusedTokens(error)
      log.error(problem)
    }
  }
  const compare = (old: Tokens, now: Tokens) => {
    const isForeign = (token: ClientToken) => !isSameToken(written.tokens.get(token.id), token)
    for (const [id, token] of old) {
      const next = now.get(id)
      if (isSameToken(next, token)) continue
      if (next === undefined) {
        shared?.revoked(token)
        onchange(REVOKED, token)
      } else {
        if (isForeign(next)) shared?.changed(next)
        onchange(CHANGED, next)
      }
    }
    for (const [id, token] of now) {
      if (old.has(id)) continue
      if (isForeign(token)) shared?.created(token)
      onchange(CREATED, token)
    }
  }
  /** Writes the tokens of all replicas to the file, so that each replica's commands show them, and revocations survive a restart. */
  const write = async () => {
    const merged = () => {
      const filed = readTokens(file, process.platform)
      written = shared?.merge(filed) ?? filed
      return printTokens(written)
    }
    try {
      const { editTokens } = await import("../store/documents.ts")
      await editTokens(paths, file, merged, systemClock)
    } catch (error) {
      log.debug(`tokens of other replicas are not written to ${file}: ${messageOf(error)}`)
    }
  }
  // Watched before it is read, so that no change in between is missed. Its mode decides, too, whether it is accepted.
  const watcher = watchFiles([file], systemClock, read, (path) => readPrivate(path, process.platform))
  read()
  return {
    current: () => tokens,
    catchUp: () => shared?.catchUp(),
    follow: watcher.check,
    problem: () => problem,
    async share(cluster) {
      shared = cluster.openTokens(read)
      if (trusted !== undefined) shared.follow(trusted)
      await withTimeout(systemClock, SYNC_MS, shared.sync())
    },
    close() {
      watcher.close()
      shared?.close()
    },
  }
}

/** How long a start waits for the tokens of other replicas. */
const SYNC_MS = 1000
