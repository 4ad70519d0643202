/**
 * Opens a connection to a backend: link, era, listing. What comes back is ready to serve calls, and follows
 * `list_changed` from then on.
 */

import type { Listing } from "../catalog/listing.ts"
import type { Launch, RemoteLaunch, ServerSpec, StdioLaunch } from "../config/server-spec.ts"
import type { Clock } from "../lib/clock.ts"
import { BackendError, messageOf } from "../lib/errors.ts"
import type { Log } from "../lib/log.ts"
import { createRedactor } from "../lib/redact.ts"
import type { EraCache } from "../store/era-cache.ts"
import type { Era } from "../wire/era.ts"
import { encode, type RequestIds } from "../wire/frame.ts"
import type { Params } from "../wire/message.ts"
import type { Caller } from "./attribution.ts"
import { Connection, withoutSubscription } from "./connection.ts"
import type { Credentials, RemoteDeps, RemoteEvents } from "./http.ts"
import { type Link, type LinkEvents, type Loss, LostError, UnauthorizedError } from "./link.ts"
import { Lister, type ListerHooks } from "./lister.ts"
import { HttpStatusError, negotiate, type Peer } from "./negotiate.ts"
import { SseLink } from "./sse.ts"
import { LineCapture } from "./stderr.ts"
import { StreamableLink } from "./streamable-http.ts"

/** What the connection tells while it lives. */
export type OpenHooks = ListerHooks & {
  onnotification(method: string, params: Params, caller: Caller | undefined): void
  readonly owner: Caller | undefined
  readonly callerOfTask?: (taskId: string) => Caller | undefined
  /** The transport failed a request; an UnauthorizedError where it was answered with 401. */
  onfailure(error: Error): void
}

export type OpenDeps = {
  openChild(launch: StdioLaunch, events: LinkEvents, spec: ServerSpec): Link | Promise<Link>
  readonly fetch: RemoteDeps["fetch"]
  credentials(spec: ServerSpec, launch: RemoteLaunch): Credentials | undefined
  readonly ids: RequestIds
  readonly clock: Clock
  readonly log: Log
  readonly eras: EraCache
  /** Bytes of one message at most. */
  readonly limit: number
  readonly version: string
}

/** An open connection as its driver and the agent see it. */
export type OpenConnection = {
  readonly connection: Connection
  readonly peer: Peer
  /** What the backend offers, as far as it has said. */
  readonly listing: Listing
  readonly pid: number | undefined
  /** Resolves when the connection is lost; never after `close()`. */
  readonly closed: Promise<Loss>
  close(): Promise<void>
  /** Requests that are not answered yet, but for svc's own lists and streams. */
  readonly inFlight: number
  ping(timeout: number): Promise<void>
  /** When there was traffic last, milliseconds since the epoch; Infinity while requests are in flight. */
  idleSince(): number
  /** Says that `subscriptions()` gives something else now. */
  resubscribe(): void
  /** Says that `logLevel()` gives something else now. */
  updateLogLevel(): void
}

/** Throws what the transport failed with; everything that was opened is closed again. `signal` gives up. */
export async function openConnection(
  spec: ServerSpec,
  hooks: OpenHooks,
  deps: OpenDeps,
  signal: AbortSignal,
): Promise<OpenConnection> {
  const { launch } = spec
  const remembered = deps.eras.get(launch)
  const until = deps.clock.now() + spec.tuning.connectionTimeout * LIST_SHARE
  const attempt = (transport: "child" | "streamable" | "sse", mode = launch.mode) =>
    openOnce(spec, transport, mode, remembered, until, hooks, deps, signal)
  let open: OpenConnection
  try {
    open = await attempt(launch.transport === "stdio" ? "child" : launch.transport === "sse" ? "sse" : "streamable")
  } catch (error) {
    if (signal.aborted) throw error
    // What was remembered may be what is wrong: the next attempt asks again.
    if (remembered !== undefined) deps.eras.forget(launch)
    // A legacy server may exit on a first request it does not know; that must not cost its only start.
    if (error instanceof ProbeExit) open = await attempt("child", "legacy")
    else if (launch.transport === "http" && error instanceof HttpStatusError && [400, 404, 405].includes(error.status))
      open = await attempt("sse", "legacy").catch((refusal: unknown) => {
        throw refusal instanceof UnauthorizedError ? refusal : error
      })
    else throw error
  }
  if (launch.mode === "auto") deps.eras.set(launch, open.peer.era)
  return open
}

// ---

/** The process ended before it answered the question of its era. */
class ProbeExit extends LostError {}

const PROBE_MS = 5000
const SUSPECT_PING_MS = 10_000
/** Of the time to connect: the rest is for what comes after the lists. */
const LIST_SHARE = 0.9
/** After which a server is offered without the lists that it has not answered. */
const LIST_MS = 30_000

async function openOnce(
  spec: ServerSpec,
  transport: "child" | "streamable" | "sse",
  mode: Launch["mode"],
  remembered: Era | undefined,
  /** When it goes on without the lists that have not come, milliseconds since the epoch. */
  until: number,
  hooks: OpenHooks,
  deps: OpenDeps,
  signal: AbortSignal,
): Promise<OpenConnection> {
  const { tuning } = spec
  const { clock, log } = deps
  let live: Lister | undefined
  let lost: Loss | undefined
  let opened = false
  /** Whether a ping is in flight because a request got no response. */
  let suspected = false
  let resolveClosed: (loss: Loss) => void = () => undefined
  const closed = new Promise<Loss>((resolve) => {
    resolveClosed = resolve
  })
  // Bounded like stderr: a server may write nothing else. The log redacts.
  const warn = (line: string) => log.warn(line, { server: spec.name })
  let noise: LineCapture | undefined
  const connection: Connection = new Connection(spec.name, deps.ids, clock, {
    owner: hooks.owner,
    callerOfTask: hooks.callerOfTask,
    ping: (timeoutMs) => live?.ping(timeoutMs) ?? Promise.resolve(),
    onprotocolerror(text) {
      noise ??= new LineCapture({ clock, redact: (line) => line, emit: warn })
      noise.pushLine(encode(text))
    },
    onnotification(method, params, caller) {
      if (live?.handles(method, params) !== true) hooks.onnotification(method, withoutSubscription(params), caller)
    },
  })
  const events: RemoteEvents = {
    onframe: (frame, related) => connection.receive(frame, related),
    ondropped: (edges, related) => connection.receiveOversized(edges, related),
    isPending: (number) => connection.isPending(number),
    onfail(number, error) {
      hooks.onfailure(error)
      // While it opens, who opens it must know the kind; afterwards a caller must know whose failure it is.
      const kept = !opened && (error instanceof UnauthorizedError || error instanceof HttpStatusError)
      connection.fail(
        number,
        kept || error instanceof BackendError ? error : new BackendError(spec.name, messageOf(error), { cause: error }),
      )
    },
    onclose(loss) {
      lost = loss
      connection.end(loss)
      live?.end()
      resolveClosed(loss)
    },
    onrenewed: () => live?.resetSession(),
    onsuspect() {
      if (live === undefined || suspected) return
      suspected = true
      // A ping that gets no response loses the link by itself.
      live
        .ping(Math.min(tuning.requestTimeout, SUSPECT_PING_MS))
        .catch(() => undefined)
        .finally(() => {
          suspected = false
        })
    },
    onrefused: hooks.onfailure,
  }
  const link = await openLink(spec, transport, events, deps)
  connection.attach(link)
  const abort = () => {
    live?.end()
    connection.end({ reason: "was stopped while it started" })
    void link.close()
  }
  signal.addEventListener("abort", abort)
  let probing = transport === "child" && mode === "auto" && remembered !== "legacy"
  try {
    if (signal.aborted) throw new BackendError(spec.name, "was stopped while it started")
    const timeout = tuning.connectionTimeout
    const peer = await negotiate(connection, {
      mode: transport === "sse" ? "legacy" : mode,
      remembered,
      probeTimeout: transport === "child" ? Math.min(PROBE_MS, timeout / 2) : undefined,
      timeout,
      version: deps.version,
      capabilities: hooks.capabilities,
    })
    probing = false
    link.settle?.(peer.era, peer.protocolVersion)
    if (peer.era === "legacy") connection.notify("notifications/initialized")
    const lister = new Lister(spec, connection, peer, hooks, deps)
    live = lister
    await lister.list(Math.min(Math.max(until - clock.now(), 0), LIST_MS))
    if (lost !== undefined || signal.aborted)
      throw new BackendError(spec.name, lost?.reason ?? "was stopped while it started")
    lister.begin()
    opened = true
    const inFlight = () => connection.inFlight - lister.running
    return {
      connection,
      peer,
      get listing() {
        return lister.listing
      },
      pid: link.pid,
      closed,
      async close() {
        lister.end()
        connection.end({ reason: "was stopped" })
        await link.close()
      },
      ping: (timeoutMs) => lister.ping(timeoutMs),
      get inFlight() {
        return inFlight()
      },
      idleSince: () => (inFlight() > 0 ? Number.POSITIVE_INFINITY : connection.lastTraffic),
      resubscribe: () => lister.resubscribe(),
      updateLogLevel: () => lister.updateLogLevel(),
    }
  } catch (error) {
    live?.end()
    connection.end({ reason: "could not be opened" })
    await link.close()
    if (lost?.exit === undefined) throw error
    throw new (probing ? ProbeExit : LostError)(spec.name, lost, { cause: error })
  } finally {
    signal.removeEventListener("abort", abort)
  }
}

async function openLink(
  spec: ServerSpec,
  transport: "child" | "streamable" | "sse",
  events: LinkEvents,
  deps: OpenDeps,
): Promise<Link> {
  const { launch } = spec
  if (launch.transport === "stdio") return deps.openChild(launch, events, spec)
  const { fetch, clock, ids, limit } = deps
  const credentials = deps.credentials(spec, launch)
  const mask = (text: string) => {
    const { last } = credentials ?? {}
    const tokens = last === undefined ? [] : [last, last.slice(last.indexOf(" ") + 1)]
    return createRedactor([...spec.secrets, ...tokens]).maskCredentials(text)
  }
  const remote: RemoteDeps = { fetch, clock, ids, limit, credentials, mask }
  return transport === "sse" ? SseLink.open(launch, events, remote) : new StreamableLink(launch, events, remote)
}
