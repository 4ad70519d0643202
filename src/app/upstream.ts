import { Agent } from "../agent/agent.ts"
import { Instances } from "../agent/instances.ts"
import { createEraCache } from "../backend/era-cache.ts"
import { openRemoteClient } from "../backend/http-client.ts"
import { createReaper, type Reaper } from "../backend/reaper.ts"
import { ChildOutputLogger } from "../backend/stderr.ts"
import { StdioTransport } from "../backend/stdio.ts"
import { REPLICA_HEADER } from "../config/server-spec.ts"
import { matchesFilter } from "../config/tag-filter.ts"
import { systemClock } from "../lib/clock.ts"
import { messageOf } from "../lib/errors.ts"
import { version } from "../lib/version.ts"
import type { Metrics } from "../report/metrics.ts"
import { observeServers } from "../report/server-durations.ts"
import type { Cluster } from "../serve/cluster.ts"
import { CALLBACK_PATH, clientMetadataUrl } from "../serve/oauth-callback.ts"
import { openListings } from "../store/listings.ts"
import type { Paths } from "../store/paths.ts"
import { createToolPins, toolPinFiles } from "../store/tool-pins.ts"
import { createRequestIds } from "../wire/frame.ts"
import { type OAuth, openUpstreamOAuth } from "./features.ts"
import type { Logging } from "./logging.ts"
import type { ServeOptions } from "./serve-options.ts"

export type Upstream = {
  readonly agent: Agent
  readonly oauth: OAuth
  readonly instances: Instances
  /** Sets the address under which browsers reach svc: authorization servers redirect them there. */
  setPublicUrl(url: string): void
}

/** Opens a reaper, which ends the children together with svc. Calls `onfail` with the reason if they may outlive svc. */
export type OpenReaper = (onfail: (reason: string) => void) => Reaper | Promise<Reaper>

/** Builds the upstream side, and starts no server. Without `paths`, nothing is kept on disk. */
export async function openUpstream(
  options: Pick<ServeOptions, "externalUrl" | "maxResult" | "maxToolName" | "templateLinger" | "filter" | "servers">,
  paths: Paths | undefined,
  { log, redactor, followSecrets, wire }: Logging,
  cluster?: Cluster,
  metrics?: Metrics,
  openReaper: OpenReaper = process.platform === "win32" ? openJobReaper : createReaper,
): Promise<Upstream> {
  const reaper = await openReaper((reason) => log.warn(`servers may keep running if svc is killed: ${reason}`))
  process.on("exit", () => reaper.close())

  // Bound late: the address is known when svc listens, and the agent is created after the credentials that it uses.
  let callback: string | undefined
  let onauthorized: (server: string) => void = () => undefined
  let onpinned: Agent["pinnedElsewhere"] = () => undefined
  const tell = (server: string) => cluster?.replicas.send({ kind: "authorization", server })
  const oauth = openUpstreamOAuth(
    paths,
    {
      log,
      callback: () => callback,
      metadataUrl: clientMetadataUrl(options.externalUrl),
      onchange(server) {
        tell(server)
        onauthorized(server)
      },
      onlogout: tell,
      mask: (text) => redactor().maskKnown(text),
    },
    cluster && { secrets: cluster.secrets(), replica: cluster.facts().replica },
  )
  cluster?.replicas.on("authorization", ({ server }) => void oauth.reload(server).then(() => onauthorized(server)))
  const ownPins = createToolPins(paths === undefined ? undefined : toolPinFiles(paths), systemClock)
  const pins = cluster === undefined ? ownPins : await cluster.openPins(ownPins, (pinned) => void onpinned(pinned))
  const agent: Agent = new Agent({
    clock: systemClock,
    log,
    startedAt: systemClock.now(),
    ids: createRequestIds(crypto.randomUUID().replaceAll("-", "").slice(0, 16)),
    limit: options.maxResult,
    maxToolName: options.maxToolName,
    onstate: metrics && observeServers(metrics, () => systemClock.now()),
    version,
    eras: createEraCache(),
    wire,
    pins,
    listings: paths && openListings(paths),
    credentials: (spec, launch) => oauth.credentials(spec, launch),
    openClient(url) {
      const client = openRemoteClient(url, { clock: systemClock, env: process.env })
      return {
        close: () => client.close(),
        // Each call has a timeout of its own. A call to a server that another replica runs ends when that replica is gone.
        fetch(target, init) {
          const owner = REPLICA_HEADER in init.headers ? cluster?.replicas.at(target) : undefined
          if (owner === undefined) return client.fetch(target, init)
          const signal = AbortSignal.any([owner.gone, ...(init.signal ? [init.signal] : [])])
          return client.fetch(target, { ...init, signal })
        },
      }
    },
    openChild: (launch, events, { id, name: server }) =>
      StdioTransport.open(launch, events, {
        server,
        clock: systemClock,
        limit: options.maxResult,
        grace: STOP_GRACE_MS,
        msLeft: () => cluster?.leases?.graceFor(id),
        reaper,
        output: new ChildOutputLogger(systemClock, log, server, (text) => redactor().maskCredentials(text)),
      }),
  })
  onauthorized = (server) => agent.authorized(server)
  onpinned = (pinned) => agent.pinnedElsewhere(pinned)
  followSecrets([() => agent.secrets, () => oauth.secrets])
  const leases = cluster?.openLeases(agent, () => instances.reapply())
  const instances: Instances = new Instances({
    agent,
    clock: systemClock,
    log,
    linger: options.templateLinger,
    selects: ({ name, slug, tuning }) =>
      matchesFilter(options.filter, tuning.tags) &&
      (options.servers.length === 0 || options.servers.some((one) => one === name || one === slug)),
    ...(leases === undefined ? {} : { place: (plan) => leases.place(plan) }),
  })
  return {
    agent,
    oauth,
    instances,
    setPublicUrl(url) {
      callback = `${url.replace(/\/$/, "")}${CALLBACK_PATH}`
    },
  }
}

// ---

/** Imports the reaper of Windows: other systems do not load the foreign functions that it needs. */
async function openJobReaper(onfail: (reason: string) => void): Promise<Reaper> {
  try {
    const { createJobReaper } = await import("../backend/job-object.ts")
    return createJobReaper(onfail)
  } catch (error) {
    onfail(messageOf(error))
    const group = { isEmpty: () => true, signal() {}, close() {} }
    return { start: (spawn) => ({ child: spawn(undefined), group }), close() {} }
  }
}

const STOP_GRACE_MS = 4000
