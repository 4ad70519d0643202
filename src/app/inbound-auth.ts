import { join } from "node:path"
import { isDeepStrictEqual } from "node:util"
import { systemClock } from "../lib/clock.ts"
import { messageOf } from "../lib/errors.ts"
import type { Log } from "../lib/log.ts"
import { type AuthOptions, createAuthentication, createResourceMetadata } from "../serve/auth.ts"
import type { Middleware } from "../serve/inbound.ts"
import { type ClientToken, describeToken, readTokens } from "../store/client-tokens.ts"
import type { Paths } from "../store/paths.ts"
import { watchFiles } from "../store/watch.ts"
import { createRefusedLogins } from "./refused-logins.ts"
import type { Runtime } from "./runtime.ts"
import type { ServeOptions } from "./serve-options.ts"

export const tokensFile = ({ directory }: Paths): string => join(directory, "tokens.json")

export type InboundAuth = {
  readonly authenticate: Middleware
  /** Serves the OAuth metadata of svc as a protected resource (RFC 9728); undefined without an issuer. */
  readonly resourceMetadata: Middleware | undefined
  /** Reads the tokens now if their file has changed. */
  follow(): void
  close(): void
}

/**
 * Opens authentication; undefined without `--auth`. `base` returns the address that clients reach svc under, `tokenOf` the token
 * that the login of a browser stands for.
 */
export async function openInboundAuth(
  { agent, audit, log, mcp, metrics, nameHolders, streams }: Runtime,
  { auth, authIssuer, authAudience, authByScope, healthLevel, trustProxy }: ServeOptions,
  paths: Paths | undefined,
  base: () => string,
  tokenOf: AuthOptions["tokenOf"],
): Promise<InboundAuth | undefined> {
  if (!auth) return undefined
  // Closes all streams: clients reconnect, and svc refuses those with a revoked token.
  const onrevoked = () => {
    for (const stream of [...streams]) stream.close()
  }
  const onchange = (change: TokenChange, { id, name, tags, expires }: ClientToken) => {
    log.info(`${describeToken({ id, name })} was ${change.past}`)
    audit?.access(`auth.token.${change.verb}`, "ok", {
      principal: "local",
      token: id,
      name,
      tags: tags?.join(","),
      expires,
    })
  }
  const tokens = watchTokens(paths, log, authIssuer === undefined, onrevoked, onchange)
  nameHolders((principal) => tokens.current().get(principal.replace(/^token /, ""))?.name || undefined)
  const refused = createRefusedLogins({ log, audit, metrics, clock: systemClock, trustProxy })
  // Imported for an issuer alone: without one, a start does not load the cryptography.
  const issuer =
    authIssuer === undefined
      ? undefined
      : (await import("../serve/token-issuer.ts")).createIssuer({
          url: authIssuer,
          audience: authAudience,
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
      tokenOf,
      issuer,
      byScope: authByScope,
      now: () => systemClock.now(),
      base,
      detailed: healthLevel !== "minimal",
      onrefused: refused.record,
      onbug: mcp.onbug,
    }),
    resourceMetadata: issuer === undefined ? undefined : createResourceMetadata(issuer, base, tags),
    follow: tokens.follow,
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

/**
 * Follows the tokens file. A file that cannot be trusted counts as empty, and the log says so. `onchange` gets each difference
 * between two states of the file that can be trusted, so that a command, an editor and a restored file all leave a trace.
 */
function watchTokens(
  paths: Paths | undefined,
  log: Log,
  needed: boolean,
  onrevoked: () => void,
  onchange: (change: TokenChange, token: ClientToken) => void,
): { current(): ReadonlyMap<string, ClientToken>; follow(): void; close(): void } {
  let tokens: ReadonlyMap<string, ClientToken> = new Map()
  if (paths === undefined) return { current: () => tokens, follow: () => undefined, close: () => undefined }
  const file = tokensFile(paths)
  let trusted: typeof tokens | undefined
  const read = () => {
    const before = tokens
    try {
      tokens = readTokens(file, process.platform)
      if (trusted !== undefined) compare(trusted, tokens)
      trusted = tokens
    } catch (error) {
      tokens = new Map()
      log.error(`all tokens are refused: ${messageOf(error)}`)
    }
    if ([...before].some(([id, token]) => !isDeepStrictEqual(tokens.get(id), token))) onrevoked()
  }
  const compare = (old: typeof tokens, now: typeof tokens) => {
    for (const [id, token] of old) {
      const next = now.get(id)
      if (next === undefined) onchange(REVOKED, token)
      else if (!isDeepStrictEqual(next, token)) onchange(CHANGED, next)
    }
    for (const [id, token] of now) if (!old.has(id)) onchange(CREATED, token)
  }
  // Watched before it is read: a change in between is seen.
  const watcher = watchFiles([file], systemClock, read)
  read()
  if (needed && tokens.size === 0) log.warn("no client can connect yet: create a token with `svc auth token create`")
  return { current: () => tokens, follow: watcher.check, close: watcher.close }
}
