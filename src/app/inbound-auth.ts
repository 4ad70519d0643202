import { join } from "node:path"
import { isDeepStrictEqual } from "node:util"
import { systemClock, withTimeout } from "../lib/clock.ts"
import { messageOf } from "../lib/errors.ts"
import type { Log } from "../lib/log.ts"
import { type AuthOptions, createAuthentication, createResourceMetadata } from "../serve/auth.ts"
import type { Middleware } from "../serve/inbound.ts"
import { type ClientToken, describeToken, printTokens, readTokens } from "../store/client-tokens.ts"
import type { Paths } from "../store/paths.ts"
import type { SharedTokens } from "../store/shared-tokens.ts"
import { watchFiles } from "../store/watch.ts"
import type { Cluster } from "./cluster.ts"
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
  { agent, audit, cluster, log, mcp, metrics, nameHolders, streams }: Runtime,
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
  const tokens = watchTokens(paths, log, onrevoked, onchange)
  if (cluster !== undefined) await tokens.share(cluster)
  if (authIssuer === undefined && paths !== undefined && tokens.current().size === 0)
    log.warn("no client can connect yet: create a token with `svc auth token create`")
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

type WatchedTokens = {
  current(): ReadonlyMap<string, ClientToken>
  follow(): void
  /** Shares the tokens with the other replicas. Resolves when theirs are known, or cannot be reached. */
  share(cluster: Cluster): Promise<void>
  close(): void
}

/**
 * Follows the tokens file. A file that cannot be trusted counts as empty, and the log says so. `onchange` gets each difference
 * between two states of the file that can be trusted, so that a command, an editor and a restored file all leave a trace.
 */
function watchTokens(
  paths: Paths | undefined,
  log: Log,
  onrevoked: () => void,
  onchange: (change: TokenChange, token: ClientToken) => void,
): WatchedTokens {
  type Tokens = ReadonlyMap<string, ClientToken>
  let tokens: Tokens = new Map()
  if (paths === undefined)
    return { current: () => tokens, follow: () => undefined, share: async () => undefined, close: () => undefined }
  const file = tokensFile(paths)
  let trusted: Tokens | undefined
  let shared: SharedTokens | undefined
  const accept = (next: Tokens) => {
    const before = tokens
    tokens = next
    if ([...before].some(([id, token]) => !isDeepStrictEqual(tokens.get(id), token))) onrevoked()
  }
  const read = () => {
    try {
      const filed = readTokens(file, process.platform)
      if (trusted !== undefined) compare(trusted, filed)
      trusted = filed
      accept(shared?.merge(filed) ?? filed)
    } catch (error) {
      accept(new Map())
      log.error(`all tokens are refused: ${messageOf(error)}`)
    }
  }
  const compare = (old: Tokens, now: Tokens) => {
    for (const [id, token] of old) {
      const next = now.get(id)
      if (isDeepStrictEqual(next, token)) continue
      if (next === undefined) {
        shared?.revoked(token)
        onchange(REVOKED, token)
      } else {
        shared?.changed(next)
        onchange(CHANGED, next)
      }
    }
    for (const [id, token] of now) {
      if (old.has(id)) continue
      shared?.changed(token)
      onchange(CREATED, token)
    }
  }
  /** Applies the changes of other replicas, and writes them to the file: the commands of each replica show all tokens. */
  const takeShared = async () => {
    read()
    const merged = () => printTokens((shared?.merge(readTokens(file, process.platform)) ?? tokens).values())
    try {
      const { editTokens } = await import("../store/documents.ts")
      await editTokens(paths, file, merged, systemClock)
    } catch (error) {
      log.debug(`tokens of other replicas are not written to ${file}: ${messageOf(error)}`)
    }
  }
  // Watched before it is read: a change in between is seen.
  const watcher = watchFiles([file], systemClock, read)
  read()
  return {
    current: () => tokens,
    follow: watcher.check,
    async share(cluster) {
      shared = await openSharedTokens(cluster, log, () => void takeShared())
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

async function openSharedTokens({ state, replicas }: Cluster, log: Log, onchange: () => void): Promise<SharedTokens> {
  const { createSharedTokens } = await import("../store/shared-tokens.ts")
  const { SVC_STATE_KEY } = process.env
  const tokens = createSharedTokens({
    state,
    stateKey: SVC_STATE_KEY === "" ? undefined : SVC_STATE_KEY,
    clock: systemClock,
    tell: () => replicas.send({ kind: "tokens" }),
    onchange,
    onunsealed: () =>
      log.warn(
        "who can write to Redis can create tokens of clients: set SVC_STATE_KEY to the same secret on all replicas",
      ),
    onforeign: () =>
      log.error(
        "tokens of another replica are refused: they are not sealed with this replica's SVC_STATE_KEY; give all replicas the same one",
      ),
  })
  const end = replicas.on("tokens", () => void tokens.sync())
  return {
    ...tokens,
    close() {
      end()
      tokens.close()
    },
  }
}
