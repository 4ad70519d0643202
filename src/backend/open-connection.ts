/**
 * Opens a connection to a backend: chooses the first transport and the fallbacks, and opens a pair of connections to a remote
 * server that speaks both eras.
 */
import type { ProtocolMode, ServerSpec, TransportType } from "../config/server-spec.ts"
import { BackendError } from "../lib/errors.ts"
import { type Era, LEGACY_VERSIONS, MODERN_VERSION } from "../wire/era.ts"
import { InsufficientScopeError, type Loss, reasonWithoutName, UnauthorizedError } from "./client-transport.ts"
import {
  type AttemptHooks,
  ConnectionAttempt,
  MODE_OF,
  type OpenDeps,
  type OpenHooks,
  ProbeExit,
  type TransportKind,
} from "./connection-attempt.ts"
import type { EstablishedConnection } from "./established-connection.ts"
import { endsInSse, SSE_ADVICE, statusHint } from "./http.ts"
import { listDeadline } from "./lister.ts"
import { HttpStatusError, refusesEra } from "./negotiate.ts"
import { PairedConnection } from "./paired-connection.ts"

/**
 * Opens a connection. Starts an unsupervised process again, in the legacy era, if it exits on the probe of its era; falls back
 * to HTTP+SSE if the server refuses Streamable HTTP. Rejects with the transport's failure, after closing every connection that
 * it opened. `signal` aborts it.
 */
export async function openConnection(
  spec: ServerSpec,
  hooks: OpenHooks,
  deps: OpenDeps,
  signal: AbortSignal,
): Promise<EstablishedConnection> {
  const { launch } = spec
  if (launch.transport === "sse" && launch.mode === "2026-07-28")
    throw new BackendError(
      spec.name,
      `does not speak 2026-07-28 over HTTP+SSE; set type to "http", or remove protocolVersion`,
    )
  // The process of a session is started by svc itself, like the process that all sessions share after a crash.
  if (hooks.isFresh === true && hooks.owner === undefined) deps.eras.forget(launch)
  const known = deps.eras.get(launch)
  const remembered = known ?? hooks.nextEra
  const deadline = listDeadline(deps.clock.now(), spec.tuning.connectionTimeout)
  let pair: PairedConnection | undefined
  const firstHooks: AttemptHooks = {
    ...hooks,
    subscriptions: () => hooks.subscriptions(pair?.isOpen ? pair.peer.era : undefined),
    onlistchanged: (method) => pair?.relistOther(method),
    onrenewed() {
      pair?.forgetRefusal()
      hooks.onrenewed()
    },
  }
  let isInDoubt = false
  const attempt = async (transport: TransportKind, mode: ProtocolMode) => {
    const one = new ConnectionAttempt(spec, firstHooks, deps, { transport, mode, remembered, deadline })
    const opened = await one.run(signal)
    isInDoubt = one.isInDoubt
    return opened
  }
  let transport = FIRST_TRANSPORT[launch.transport]
  let open: EstablishedConnection
  try {
    open = await attempt(transport, launch.mode)
  } catch (error) {
    if (signal.aborted) throw error
    // The remembered era may be wrong: the next attempt probes again.
    if (remembered !== undefined) deps.eras.forget(launch)
    // A legacy server may exit on an unknown first request, which must not cost the only start of an unsupervised server.
    // A supervised server tries the other era in its next attempt.
    if (error instanceof ProbeExit && spec.tuning.restart.kind === "never" && maySucceed(error.loss))
      open = await attempt("stdio", "legacy")
    // HTTP+SSE is a legacy transport.
    else if (launch.transport === "http" && launch.mode !== "2026-07-28" && maySpeakSse(error, launch.url)) {
      transport = "sse"
      open = await attempt(transport, "legacy").catch((refusal: unknown) => {
        throw refusal instanceof UnauthorizedError ? refusal : withHint(error, launch)
      })
    } else throw withHint(error, launch)
  }
  if (launch.mode !== "auto") return open
  const { era } = open.peer
  if (!isInDoubt) deps.eras.set(launch, era)
  if (transport !== "streamable" || hooks.owner !== undefined) return open
  // A server that this attempt found to be legacy has refused the modern era. If the era was only remembered, the server may
  // be another version now.
  pair = pairUp(open, known === undefined && era === "legacy", spec, hooks, deps)
  return pair
}

// ---

/** Returns the error of a failed start, with advice about its status. */
function withHint(error: unknown, launch: ServerSpec["launch"]): unknown {
  if (!(error instanceof HttpStatusError) || launch.transport === "stdio") return error
  const advice = launch.transport === "http" && endsInSse(launch.url) ? SSE_ADVICE : statusHint(error, launch.headers)
  return new HttpStatusError(error.status, `${error.message}${advice}`)
}

/** Returns a connection that opens a second connection when clients of the other era need it. */
function pairUp(
  first: EstablishedConnection,
  refused: boolean,
  spec: ServerSpec,
  hooks: OpenHooks,
  deps: OpenDeps,
): PairedConnection {
  const { clock } = deps
  const other = OTHER_ERA[first.peer.era]
  const limit = Math.min(spec.tuning.connectionTimeout, SECOND_MS)
  const report = (error: unknown) =>
    hooks.onproblem?.(`its connection for ${other.clients}: ${reasonWithoutName(spec.name, error)}`)
  const secondHooks: AttemptHooks = {
    ...hooks,
    before: undefined,
    onlisting: () => undefined,
    onrenewed: () => undefined,
    onrecovered: () => undefined,
    // Only reports credentials that are refused on the second connection: if they are invalid, the first connection ends.
    onfailure: (error) => (error instanceof InsufficientScopeError ? hooks.onfailure(error) : report(error)),
    subscriptions: () => hooks.subscriptions(other.era),
    onlistchanged: (method) => first.relist(method),
  }
  return new PairedConnection(first, {
    clock,
    limit,
    refused,
    open(signal) {
      const deadline = listDeadline(clock.now(), limit)
      const options = { transport: "streamable", mode: MODE_OF[other.era], remembered: undefined, deadline } as const
      return new ConnectionAttempt(spec, secondHooks, deps, options).run(signal)
    },
    isRefusal: refusesEra,
    onproblem: report,
  })
}

/** The other era of each era, and the words for its clients in messages. */
const OTHER_ERA = {
  legacy: { era: "modern", clients: `clients of ${MODERN_VERSION}` },
  modern: { era: "legacy", clients: `clients of ${LEGACY_VERSIONS[0]} and earlier` },
} as const satisfies Readonly<Record<Era, { era: Era; clients: string }>>
/** The time limit for opening the second connection: its clients wait for it, although the first could serve them. */
const SECOND_MS = 10_000

/** The transport that each type tries first. */
const FIRST_TRANSPORT: Readonly<Record<TransportType, TransportKind>> = {
  stdio: "stdio",
  http: "streamable",
  streamableHttp: "streamable",
  sse: "sse",
}

/**
 * Whether `http` tries HTTP+SSE after a failure: after the statuses that the specification names, and after any other answer at
 * an address that ends in /sse, as most servers of this transport have. basic: Transports, Backward Compatibility.
 */
const maySpeakSse = (error: unknown, url: string): boolean =>
  error instanceof HttpStatusError && (SSE_STATUSES.includes(error.status) || endsInSse(url))

const SSE_STATUSES = [400, 404, 405]

/** Whether another start may end differently: not if the command is missing (126 and 127, from a shell) or was killed. */
const maySucceed = ({ exit }: Loss): boolean =>
  exit !== undefined && exit.signal === null && exit.code !== 126 && exit.code !== 127
