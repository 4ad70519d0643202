/** Who may come in and how: the tokens, the issuer and the certificate of a running svc, followed as they change. */
import { existsSync, lstatSync, readFileSync, unlinkSync } from "node:fs"
import { join } from "node:path"
import { createSecureContext } from "node:tls"
import { isDeepStrictEqual } from "node:util"
import { systemClock } from "../lib/clock.ts"
import { messageOf, UnavailableError } from "../lib/errors.ts"
import type { Log } from "../lib/log.ts"
import { createAuthentication, createResourceMetadata } from "../serve/auth.ts"
import type { Middleware } from "../serve/inbound.ts"
import type { Listening, Tls } from "../serve/server.ts"
import { type ClientToken, readTokens } from "../store/client-tokens.ts"
import type { Paths } from "../store/paths.ts"
import { watchFiles } from "../store/watch.ts"
import type { Runtime } from "./runtime.ts"
import type { Settings } from "./settings.ts"

export const tokensFile = ({ directory }: Paths): string => join(directory, "tokens.json")

/** Something that is followed until it is closed. */
export type Watched = { close(): void }

/** The middleware of authentication. */
export type InboundAuth = Watched & {
  readonly authenticate: Middleware
  /** Undefined without an issuer. */
  readonly resourceMetadata: Middleware | undefined
}

/** Asks clients who they are; undefined where svc does not. `base` is the address svc is reached under. */
export async function openInboundAuth(
  { agent, log, mcp, streams }: Runtime,
  { auth, authIssuer, authAudience, authByScope, healthLevel }: Settings,
  paths: Paths | undefined,
  base: () => string,
): Promise<InboundAuth | undefined> {
  if (!auth) return undefined
  // Whose stream is whose is not looked up: all come back, but those that may not.
  const onrevoked = () => {
    for (const stream of [...streams]) stream.close()
  }
  const tokens = watchTokens(paths, log, authIssuer === undefined, onrevoked)
  // Who has no issuer does not pay for the cryptography.
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
      issuer,
      byScope: authByScope,
      now: () => systemClock.now(),
      base,
      detailed: healthLevel !== "minimal",
      onbug: mcp.onbug,
    }),
    resourceMetadata: issuer === undefined ? undefined : createResourceMetadata(issuer, base, tags),
    close() {
      cancelRefresh()
      tokens.close()
    },
  }
}

/** Reads the certificate. Throws an UnavailableError that names the file which is wrong. */
export function readTls({ cert, key }: Tls): Tls {
  const read = (path: string) => {
    try {
      return readFileSync(path, "utf8")
    } catch (cause) {
      throw new UnavailableError(`cannot read ${path}: ${messageOf(cause)}`, { cause })
    }
  }
  const tls = { cert: read(cert), key: read(key) }
  try {
    createSecureContext(tls)
  } catch (cause) {
    throw new UnavailableError(`${cert} and ${key} are no certificate and its key: ${messageOf(cause)}`, { cause })
  }
  return tls
}

/** Serves with another certificate when its files are others. */
export function watchTls(files: Tls, listening: Listening, log: Log): Watched {
  return watchFiles([files.cert, files.key], systemClock, DEBOUNCE_MS, () => {
    try {
      listening.secure(readTls(files))
      log.info("new connections are served with the new certificate")
    } catch (error) {
      log.error(`the certificate was not replaced: ${messageOf(error)}`)
    }
  })
}

/** Takes a socket's path that an svc left behind. Throws an UnavailableError where something else is there or uses it. */
export async function clearSocket(path: string): Promise<void> {
  if (!existsSync(path)) return
  if (!lstatSync(path).isSocket()) throw new UnavailableError(`${path} is there already, and is no socket`)
  const used = await fetch("http://localhost/health/live", { unix: path, signal: AbortSignal.timeout(1000) }).then(
    () => true,
    () => false,
  )
  if (used) throw new UnavailableError(`somebody listens on ${path} already`)
  unlinkSync(path)
}

// ---

const DEBOUNCE_MS = 300
const REFRESH_MS = 600_000

/** A file that cannot be trusted lets nobody in, and says so. */
function watchTokens(
  paths: Paths | undefined,
  log: Log,
  needed: boolean,
  onrevoked: () => void,
): { current(): ReadonlyMap<string, ClientToken> } & Watched {
  let tokens: ReadonlyMap<string, ClientToken> = new Map()
  if (paths === undefined) return { current: () => tokens, close: () => undefined }
  const file = tokensFile(paths)
  const read = () => {
    const before = tokens
    try {
      tokens = readTokens(file, process.platform)
    } catch (error) {
      tokens = new Map()
      log.error(`no token is good: ${messageOf(error)}`)
    }
    if ([...before].some(([id, token]) => !isDeepStrictEqual(tokens.get(id), token))) onrevoked()
  }
  read()
  if (needed && tokens.size === 0) log.warn("nobody can come in yet: make a token with `svc auth token create`")
  const watcher = watchFiles([file], systemClock, DEBOUNCE_MS, read)
  return { current: () => tokens, close: () => watcher.close() }
}
