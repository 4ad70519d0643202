/**
 * Negotiates the era and the revision of a backend. `auto` sends `server/discover` first. After any answer but that of a modern
 * server, and after none, it sends `initialize`: a server that answers it is legacy. Gateways, frameworks and old servers refuse
 * a method that they do not know in every possible way.
 * spec: Server object, `protocolVersion`; stdio and Streamable HTTP: Backward Compatibility.
 */

import { checkHandshake } from "../catalog/definition-check.ts"
import { type DefinitionIssue, unknownMembers } from "../catalog/listing.ts"
import type { ProtocolMode } from "../config/server-spec.ts"
import { BackendError, messageOf, RPC_CODE } from "../lib/errors.ts"
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
import { reasonWithoutName, UnauthorizedError } from "./client-transport.ts"
import type { Connection } from "./connection.ts"
import { PeerError } from "./peer-error.ts"

/** The description of a backend from its handshake. */
export type Peer = {
  readonly era: Era
  readonly protocolVersion: string
  readonly serverInfo: Params
  readonly capabilities: Params
  readonly instructions: string | undefined
  /** The unknown members of the handshake's result, and `_meta`. */
  readonly members?: Params | undefined
  /** What svc repaired and left out. */
  readonly handshakeIssues?: readonly DefinitionIssue[]
}

/** A remote answer that is not JSON-RPC. Its status decides which era it is evidence of. */
export class HttpStatusError extends Error {
  override readonly name = "HttpStatusError"
  constructor(
    readonly status: number,
    message: string,
  ) {
    super(message)
  }
}

/** Whether another attempt will not help after a failed start: the server runs, and refuses svc or is not an MCP server. */
export const isRefusal = (error: unknown): boolean =>
  error instanceof EraError ||
  (error instanceof HttpStatusError && error.status < 500 && !TEMPORARY_STATUSES.includes(error.status))

/** The era that a failed probe is evidence of. */
export type EraEvidence = "modern" | "legacy" | "unknown"

/** The extensions that svc declares: servers look for them before they offer tools of these extensions. From: MCP Apps. */
const EXTENSIONS: Params = { [UI_EXTENSION]: { mimeTypes: ["text/html;profile=mcp-app"] } }

/**
 * svc's capabilities as a client of a shared legacy backend: all capabilities that any of its clients may have. It announces no
 * changes of roots: a shared server would treat one client's roots as the roots of all.
 */
const CLIENT_CAPABILITIES: Params = {
  extensions: EXTENSIONS,
  roots: {},
  sampling: { tools: {}, context: {} },
  elicitation: { form: {}, url: {} },
}

/** Whether a server may accept a subscription to a resource. A modern server answers that for each, in its acknowledgement. */
export const takesSubscriptions = ({ era, capabilities: { resources } }: Peer): boolean =>
  era === "modern" || (isObject(resources) && resources.subscribe === true)

/** Returns the `_meta` of a request of svc's own to a modern backend. */
export function ownMeta(version: string, capabilities: Params = { extensions: EXTENSIONS }): Params {
  return {
    [META_VERSION]: MODERN_VERSION,
    [META_CLIENT_INFO]: { name: "svc", version },
    [META_CLIENT_CAPABILITIES]: capabilities,
  }
}

/** Returns the era that a failed probe is evidence of. Pure. */
export function classify(error: unknown): EraEvidence {
  if (error instanceof PeerError) {
    const modern = [UNSUPPORTED_VERSION, HEADER_MISMATCH, MISSING_CLIENT_CAPABILITY].includes(error.code)
    return modern && !isLegacyOnly(supportedIn(error)) ? "modern" : "legacy"
  }
  if (error instanceof UnauthorizedError) return "unknown"
  if (error instanceof HttpStatusError) {
    const { status } = error
    const isEvidence = status >= 400 && status < 500 && !INCONCLUSIVE_STATUSES.includes(status)
    return isEvidence ? "legacy" : "unknown"
  }
  return "unknown"
}

/** Whether the failure of a negotiation shows that the server does not speak the requested era. Pure. */
export function refusesEra(error: unknown): boolean {
  if (error instanceof EraError) return true
  if (error instanceof PeerError) return error.code !== RPC_CODE.internalError
  return error instanceof HttpStatusError && classify(error) === "legacy"
}

/** The server does not speak the era that its configuration requires. */
class EraError extends BackendError {}

export type NegotiateOptions = {
  readonly mode: ProtocolMode
  /** The era that svc remembers of this launch. */
  readonly remembered: Era | undefined
  /** Milliseconds without an answer to the probe after which `initialize` is sent too. */
  readonly probeTimeout: number
  /** Milliseconds for each request. */
  readonly timeout: number
  readonly version: string
  /** The capabilities of the only client of a dedicated connection; undefined for a shared connection. */
  readonly capabilities?: Params | undefined
  /** Called if the probe failed although the server may be modern: what it says of the server's era may not last. */
  ondoubt?(): void
  /** Masks credentials in the text of a server. */
  mask(text: string): string
}

/** Agrees on an era and a revision. Rejects with the transport's failure, or with a BackendError. */
export async function negotiate(connection: Connection, options: NegotiateOptions): Promise<Peer> {
  const { mode, remembered } = options
  if (mode === "legacy") return initialize(connection, options).catch((error) => rejectModern(connection, error))
  if (mode === "auto" && remembered === "legacy")
    return initialize(connection, options).catch((error) => {
      // The server may be another version now.
      if (!refusesEra(error)) throw error
      return discover(connection, options)
    })
  const probe = discover(connection, options)
  if (mode === "2026-07-28") return probe.catch((error) => requireModern(connection, options, error))
  const first = await firstOf(probe, connection, options)
  if (first === "silent") return eitherOf(probe, connection, options)
  if (!("error" in first)) return first
  if (isFromModern(first.error)) throw first.error
  if (saysNothingLasting(first.error)) options.ondoubt?.()
  return initialize(connection, options).catch((error: unknown) => {
    throw wantsSignIn(first.error, error) ? first.error : withAdvice(connection, error, first.error)
  })
}

// ---

/** Advice about a server that may not survive the probe of its era. */
export const LEGACY_ADVICE = 'if it speaks only revisions of 2025 and earlier, set "protocolVersion": "legacy"'
/** The time that a late answer to the probe has after the answer to `initialize`, in milliseconds. */
const LATE_MS = 250
/** Statuses below 500 after which another attempt may succeed: Request Timeout, Too Early, Too Many Requests. */
const TEMPORARY_STATUSES = [408, 425, 429]
/** Statuses in 4xx that are no evidence of an era. */
const INCONCLUSIVE_STATUSES = [401, 403, 407, 408, 429]

/** Sends `server/discover`; sends it again if the server refuses svc's revision but lists it. */
async function discover(connection: Connection, options: NegotiateOptions, retried = false): Promise<Peer> {
  const params = { _meta: ownMeta(options.version, options.capabilities) }
  let result: Params
  try {
    result = await connection.ask("server/discover", params, options.timeout)
  } catch (error) {
    if (!(error instanceof PeerError) || error.code !== UNSUPPORTED_VERSION || retried) throw error
    // The error lists the server's revisions. If svc's revision is among them, the server must answer.
    const supported = supportedIn(error)
    checkVersions(connection, supported, options)
    if (supported.length === 0) throw error
    return discover(connection, options, true)
  }
  const supported = Array.isArray(result.supportedVersions) ? result.supportedVersions : []
  checkVersions(connection, supported, options)
  if (supported.length === 0)
    throw new PeerError(RPC_CODE.methodNotFound, "answered server/discover without supportedVersions")
  const meta = isObject(result._meta) ? result._meta : {}
  const info = meta[META_SERVER_INFO]
  return peer(connection, "modern", MODERN_VERSION, info, result)
}

/** Throws if a server does not speak svc's modern revision: a PeerError if it speaks a legacy one, else a BackendError. */
function checkVersions(
  { server }: Connection,
  supported: readonly unknown[],
  { mask }: Pick<NegotiateOptions, "mask">,
): void {
  if (supported.length === 0 || supported.includes(MODERN_VERSION)) return
  if (isLegacyOnly(supported)) throw new PeerError(RPC_CODE.methodNotFound, "speaks only legacy revisions")
  throw new EraError(
    server,
    `speaks only ${mask(supported.map(asText).join(", ")).slice(0, 200)}, which svc does not support`,
  )
}

/** Returns the revisions in a refusal: what looks like a date. basic: Versioning and Compatibility. */
const supportedIn = ({ data }: PeerError): readonly unknown[] =>
  isObject(data) && Array.isArray(data.supported)
    ? data.supported.filter((version) => typeof version === "string" && /\d{4}-\d{2}/.test(version))
    : []

/** Whether only a modern server fails the probe like this: a refusal of svc's revision without the server's revisions is no sign. */
const isFromModern = (error: unknown): boolean =>
  error instanceof EraError ||
  (classify(error) === "modern" &&
    !(error instanceof PeerError && error.code === UNSUPPORTED_VERSION && supportedIn(error).length === 0))

/** Whether a server with these revisions speaks a legacy revision, and not svc's modern revision. */
const isLegacyOnly = (supported: readonly unknown[]): boolean =>
  !supported.includes(MODERN_VERSION) &&
  supported.some((version) => (LEGACY_VERSIONS as readonly unknown[]).includes(version))

/**
 * Returns the peer of a server that is configured as modern but lacks the mandatory `server/discover`: if a list result has
 * `resultType`, which only modern results have, svc assumes all capabilities. Throws a BackendError for a legacy server, which
 * may answer lists before it is initialized.
 */
async function requireModern(connection: Connection, options: NegotiateOptions, error: unknown): Promise<Peer> {
  if (!(error instanceof PeerError) || classify(error) !== "legacy") throw error
  const isModern =
    error.code === RPC_CODE.methodNotFound &&
    (await connection
      .ask("tools/list", { _meta: ownMeta(options.version, options.capabilities) }, options.timeout)
      .then(({ resultType }) => typeof resultType === "string")
      .catch((refusal: unknown) => {
        if (classify(refusal) !== "legacy") throw refusal
        return false
      }))
  if (!isModern)
    throw new EraError(
      connection.server,
      `does not speak ${MODERN_VERSION}: it refused server/discover (${error.message}); set protocolVersion to "auto" or "legacy"`,
    )
  const capabilities = { tools: {}, prompts: {}, resources: {}, completions: {} }
  return peer(connection, "modern", MODERN_VERSION, {}, { capabilities })
}

/** Throws the error of a server that is configured as legacy; adds advice if it refuses `initialize` like a modern server. */
function rejectModern({ server }: Connection, error: unknown): never {
  const isModern =
    error instanceof PeerError && (error.code === RPC_CODE.methodNotFound || classify(error) === "modern")
  if (!isModern) throw error
  throw new EraError(
    server,
    `does not speak a legacy revision: it refused initialize (${error.message}); set protocolVersion to "auto" or "${MODERN_VERSION}"`,
  )
}

/** Returns how the probe ended, or that it has no answer yet. Never rejects. */
function firstOf(
  probe: Promise<Peer>,
  { clock }: Connection,
  { probeTimeout }: NegotiateOptions,
): Promise<Peer | { readonly error: unknown } | "silent"> {
  return new Promise((resolve) => {
    const cancel = clock.after(probeTimeout, () => resolve("silent"))
    probe.then(resolve, (error: unknown) => resolve({ error })).finally(cancel)
  })
}

/** Sends `initialize` to a server that has not answered the probe: a legacy server may ignore it. A late answer still counts. */
async function eitherOf(probe: Promise<Peer>, connection: Connection, options: NegotiateOptions): Promise<Peer> {
  const legacy = initialize(connection, options)
  const first = await Promise.any([probe, legacy]).catch((error: unknown) => {
    if (!(error instanceof AggregateError)) throw error
    const [asked, refused] = error.errors
    throw wantsSignIn(asked, refused) ? asked : refused
  })
  const isModern = first.era === "modern" || (await answersLate(probe, connection))
  return isModern ? discoverAgain(legacy, connection, options) : first
}

/** Whether the probe is answered soon: a slow server of both eras answers both requests at about the same time. */
function answersLate(probe: Promise<Peer>, { clock }: Connection): Promise<boolean> {
  return new Promise((resolve) => {
    const cancel = clock.after(LATE_MS, () => resolve(false))
    probe.then(
      () => {
        cancel()
        resolve(true)
      },
      () => undefined,
    )
  })
}

/**
 * Asks a server of both eras, which has received both requests, for its present era: `initialize` may have changed it for the
 * whole connection, as it does in the stdio servers of the TypeScript SDK.
 */
async function discoverAgain(legacy: Promise<Peer>, connection: Connection, options: NegotiateOptions): Promise<Peer> {
  // A server that has only the modern era refuses it.
  legacy.catch(() => undefined)
  try {
    return await discover(connection, options)
  } catch (error) {
    if (!refusesEra(error)) throw error
    // The next start may be faster.
    options.ondoubt?.()
    return await legacy
  }
}

/** Whether the failure of a probe is a fault of the server at that moment rather than a sign of its era. */
const saysNothingLasting = (error: unknown): boolean =>
  (error instanceof PeerError && error.code === RPC_CODE.internalError) ||
  (error instanceof HttpStatusError && error.status >= 500)

/** Whether a modern server asked for a sign-in at the probe: it refuses `initialize` for another reason. */
const wantsSignIn = (probe: unknown, initialize: unknown): boolean =>
  probe instanceof UnauthorizedError && refusesEra(initialize)

/** Adds advice to the failure of an `initialize` without an answer: the probe may have broken the server. */
function withAdvice({ server }: Connection, error: unknown, probe: unknown): unknown {
  const isAnswer = [UnauthorizedError, HttpStatusError, PeerError, EraError].some((type) => error instanceof type)
  // The same failure twice says that the server cannot be reached.
  if (isAnswer || !(error instanceof BackendError) || error.message === messageOf(probe)) return error
  const reason = reasonWithoutName(server, error)
  return new BackendError(server, `${reason}; ${LEGACY_ADVICE}`, { cause: error })
}

/** Sends `initialize`; sends it again if the server refuses svc's revision and lists another that svc speaks. */
async function initialize(
  connection: Connection,
  options: NegotiateOptions,
  protocolVersion: string = LEGACY_VERSIONS[0],
): Promise<Peer> {
  const params = {
    protocolVersion,
    capabilities: options.capabilities ?? CLIENT_CAPABILITIES,
    clientInfo: { name: "svc", version: options.version },
  }
  let result: Params
  try {
    result = await connection.ask("initialize", params, options.timeout)
  } catch (error) {
    const other = otherRevisionIn(error, protocolVersion)
    if (other === undefined || protocolVersion !== LEGACY_VERSIONS[0]) throw error
    return initialize(connection, options, other)
  }
  const version = result.protocolVersion
  if (typeof version !== "string" || !(LEGACY_VERSIONS as readonly string[]).includes(version))
    throw new EraError(
      connection.server,
      `answered initialize with a revision that svc does not support: ${options.mask(asText(version)).slice(0, 40)}`,
    )
  return peer(connection, "legacy", version, result.serverInfo, result)
}

/**
 * Returns the newest legacy revision, other than `refused`, that a refusal names: in its data, or only in its text, as many
 * servers do.
 */
function otherRevisionIn(error: unknown, refused: string): string | undefined {
  if (!(error instanceof PeerError || error instanceof HttpStatusError)) return undefined
  const listed = error instanceof PeerError ? supportedIn(error) : []
  const text = error.message.slice(0, MAX_REFUSAL)
  return (
    LEGACY_VERSIONS.find((version) => version !== refused && listed.includes(version)) ??
    LEGACY_VERSIONS.find((version) => version !== refused && text.includes(version))
  )
}

const MAX_REFUSAL = 2000
const HANDSHAKE_MEMBERS = ["protocolVersion", "supportedVersions", "capabilities", "serverInfo", "instructions"]

/** Returns a peer, with defaults for missing and invalid members. */
function peer({ server }: Connection, era: Era, protocolVersion: string, info: unknown, result: Params): Peer {
  const { capabilities, instructions } = result
  const members = unknownMembers(result, HANDSHAKE_MEMBERS)
  return { era, protocolVersion, ...checkHandshake(server, { serverInfo: info, capabilities, instructions, members }) }
}
