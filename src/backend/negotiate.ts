/**
 * Which era a backend speaks. `auto` asks the modern question first and falls back to `initialize` only on a positive sign
 * of a legacy server; a 401, a 403, a 5xx or silence of the network is never evidence of an era.
 * spec: Server object, `protocolVersion`; stdio and Streamable HTTP: Backward Compatibility.
 */
import type { ProtocolMode } from "../config/server-spec.ts"
import { BackendError } from "../lib/errors.ts"
import {
  type Era,
  HEADER_MISMATCH,
  LEGACY_VERSIONS,
  META_CLIENT_CAPABILITIES,
  META_CLIENT_INFO,
  META_SERVER_INFO,
  META_VERSION,
  MISSING_CLIENT_CAPABILITY,
  MODERN_VERSION,
  UI_EXTENSION,
  UNSUPPORTED_VERSION,
} from "../wire/era.ts"
import { asText, isObject, type Params } from "../wire/message.ts"
import { type Connection, PeerError } from "./connection.ts"
import { UnauthorizedError } from "./link.ts"

/** What a backend said of itself. */
export type Peer = {
  readonly era: Era
  readonly protocolVersion: string
  readonly serverInfo: Params
  readonly capabilities: Params
  readonly instructions: string | undefined
}

/** A remote answer that is no JSON-RPC: its status decides what it is evidence of. */
export class HttpStatusError extends Error {
  override readonly name = "HttpStatusError"
  constructor(
    readonly status: number,
    message: string,
  ) {
    super(message)
  }
}

/** What the answer to `server/discover` says. */
export type EraEvidence = "modern" | "legacy" | "unknown"

/** Extensions that some client may have and that servers look for before they offer anything of theirs. From: MCP Apps. */
const EXTENSIONS: Params = { [UI_EXTENSION]: { mimeTypes: ["text/html;profile=mcp-app"] } }

/** svc as a client. Towards legacy backends it declares all that any of its clients may be able to do. */
export const CLIENT_CAPABILITIES: Params = {
  extensions: EXTENSIONS,
  roots: { listChanged: true },
  sampling: { tools: {}, context: {} },
  elicitation: { form: {}, url: {} },
}

/** The `_meta` of a request of svc's own to a modern backend. */
export function ownMeta(version: string, capabilities: Params = { extensions: EXTENSIONS }): Params {
  return {
    [META_VERSION]: MODERN_VERSION,
    [META_CLIENT_INFO]: { name: "svc", version },
    [META_CLIENT_CAPABILITIES]: capabilities,
  }
}

/** What a failed probe is evidence of. Pure. */
export function classify(error: unknown): EraEvidence {
  if (error instanceof PeerError) {
    const modern = [UNSUPPORTED_VERSION, HEADER_MISMATCH, MISSING_CLIENT_CAPABILITY].includes(error.code)
    return modern ? "modern" : "legacy"
  }
  if (error instanceof UnauthorizedError) return "unknown"
  if (error instanceof HttpStatusError) {
    const { status } = error
    return status === 401 ||
      status === 403 ||
      status === 407 ||
      status === 408 ||
      status === 429 ||
      status >= 500 ||
      status < 400
      ? "unknown"
      : "legacy"
  }
  return "unknown"
}

export type NegotiateOptions = {
  readonly mode: ProtocolMode
  /** What was learned of this launch before. */
  readonly remembered: Era | undefined
  /** stdio only: a server that does not answer the probe at all is given `initialize` after this many milliseconds. */
  readonly probeTimeout: number | undefined
  /** Milliseconds for the whole. */
  readonly timeout: number
  readonly version: string
  /** What the one client can do that the connection is for; undefined where it is for all. */
  readonly capabilities?: Params | undefined
}

/** Agrees on an era and a revision. Throws what the transport failed with, or a BackendError. */
export async function negotiate(connection: Connection, options: NegotiateOptions): Promise<Peer> {
  const { mode, remembered } = options
  if (mode === "legacy" || (mode === "auto" && remembered === "legacy")) return initialize(connection, options)
  const probe = discover(connection, options)
  if (mode === "2026-07-28") return probe.catch(assumeModern)
  try {
    return await (options.probeTimeout === undefined ? probe : orSilence(probe, connection, options))
  } catch (error) {
    if (classify(error) !== "legacy") throw error
    return initialize(connection, options)
  }
}

// ---

async function discover(connection: Connection, options: NegotiateOptions, retried = false): Promise<Peer> {
  const params = { _meta: ownMeta(options.version, options.capabilities) }
  let result: Params
  try {
    result = await connection.ask("server/discover", params, options.timeout)
  } catch (error) {
    if (!(error instanceof PeerError) || error.code !== UNSUPPORTED_VERSION || retried) throw error
    // It says what it does speak; asked in that, it must answer.
    checkVersions(connection, isObject(error.data) && Array.isArray(error.data.supported) ? error.data.supported : [])
    return discover(connection, options, true)
  }
  const supported = Array.isArray(result.supportedVersions) ? result.supportedVersions : []
  checkVersions(connection, supported)
  if (supported.length === 0) throw new PeerError(-32601, "answered server/discover without supportedVersions")
  const meta = isObject(result._meta) ? result._meta : {}
  const info = meta[META_SERVER_INFO]
  return peer("modern", MODERN_VERSION, info, result)
}

/** Throws where a server speaks no modern revision of ours: a PeerError where it speaks a legacy one, else a BackendError. */
function checkVersions({ server }: Connection, supported: readonly unknown[]): void {
  if (supported.length === 0 || supported.includes(MODERN_VERSION)) return
  if (supported.some((version) => (LEGACY_VERSIONS as readonly unknown[]).includes(version)))
    throw new PeerError(-32601, "speaks only legacy revisions")
  throw new BackendError(server, `speaks only ${supported.map(asText).join(", ").slice(0, 200)}, which svc does not`)
}

/**
 * A server that is said to be modern and lacks `server/discover`, which it must have: it may still answer the rest, so all
 * of it is asked. Pinning says that there is no other era to try.
 */
function assumeModern(error: unknown): Peer {
  if (!(error instanceof PeerError) || error.code !== -32601) throw error
  return peer(
    "modern",
    MODERN_VERSION,
    {},
    { capabilities: { tools: {}, prompts: {}, resources: {}, completions: {} } },
  )
}

/** A legacy server may not answer a request before `initialize` at all; a late modern answer still counts. */
async function orSilence(probe: Promise<Peer>, connection: Connection, options: NegotiateOptions): Promise<Peer> {
  const silence = new Promise<undefined>((resolve) => {
    const cancel = connection.clock.after(options.probeTimeout ?? 0, () => resolve(undefined))
    probe.then(cancel, cancel)
  })
  const first = await Promise.race([probe, silence])
  if (first !== undefined) return first
  return Promise.any([probe, initialize(connection, options)]).catch((error: unknown) => {
    throw error instanceof AggregateError ? error.errors.at(-1) : error
  })
}

async function initialize(connection: Connection, options: NegotiateOptions): Promise<Peer> {
  const result = await connection.ask(
    "initialize",
    {
      protocolVersion: LEGACY_VERSIONS[0],
      capabilities: options.capabilities ?? CLIENT_CAPABILITIES,
      clientInfo: { name: "svc", version: options.version },
    },
    options.timeout,
  )
  const version = result.protocolVersion
  if (typeof version !== "string" || !(LEGACY_VERSIONS as readonly string[]).includes(version))
    throw new BackendError(
      connection.server,
      `answered initialize with a revision svc does not speak: ${asText(version).slice(0, 40)}`,
    )
  return peer("legacy", version, result.serverInfo, result)
}

function peer(era: Era, protocolVersion: string, info: unknown, result: Params): Peer {
  return {
    era,
    protocolVersion,
    serverInfo: isObject(info) ? info : {},
    capabilities: isObject(result.capabilities) ? result.capabilities : {},
    instructions: typeof result.instructions === "string" ? result.instructions : undefined,
  }
}
