/** The upstream side of a running svc: the agent with its backends, their credentials, and the instances of templates. */
import { join } from "node:path"
import { Agent } from "../agent/agent.ts"
import { Instances } from "../agent/instances.ts"
import type { ServerLeases } from "../agent/server-leases.ts"
import { createReaper, type Reaper } from "../backend/reaper.ts"
import { ChildOutputLogger } from "../backend/stderr.ts"
import { StdioTransport } from "../backend/stdio.ts"
import { matchesFilter } from "../config/tag-filter.ts"
import { systemClock } from "../lib/clock.ts"
import { messageOf } from "../lib/errors.ts"
import type { Log } from "../lib/log.ts"
import { version } from "../lib/version.ts"
import type { OAuth } from "../oauth/oauth.ts"
import { CALLBACK_PATH, clientMetadataUrl } from "../serve/oauth-callback.ts"
import { createEraCache } from "../store/era-cache.ts"
import { ownName, type Paths } from "../store/paths.ts"
import { createToolPins, type ToolPins, toolPinFiles } from "../store/tool-pins.ts"
import { createRequestIds } from "../wire/frame.ts"
import type { Cluster } from "./cluster.ts"
import type { Logging } from "./logging.ts"
import type { ServeOptions } from "./serve-options.ts"
import { openSharedSecrets, openUpstreamOAuth } from "./upstream-oauth.ts"

export type Upstream = {
  readonly agent: Agent
  readonly oauth: OAuth
  readonly instances: Instances
  /** Which replica runs the servers that one at a time may run; undefined for a single svc. */
  readonly leases: ServerLeases | undefined
  /** Sets the address under which browsers reach svc: authorization servers redirect them there. */
  setPublicUrl(url: string): void
}

/** Opens what ends the children together with svc. Calls `onfail` with the reason if they may outlive it. */
export type OpenReaper = (onfail: (reason: string) => void) => Reaper | Promise<Reaper>

/** Builds the upstream side; nothing has started yet. Without `paths`, nothing is kept on disk. */
export async function openUpstream(
  options: Pick<ServeOptions, "externalUrl" | "maxResult" | "maxToolName" | "templateLinger" | "filter">,
  paths: Paths | undefined,
  { log, redactor, followSecrets }: Logging,
  cluster?: Cluster,
  openReaper: OpenReaper = process.platform === "win32" ? openJobReaper : createReaper,
): Promise<Upstream> {
  const reaper = await openReaper((reason) => log.warn(`servers may keep running if svc is killed: ${reason}`))
  process.on("exit", () => reaper.close())

  // Bound late: the address is known when svc listens, and the agent is created after the credentials that it uses.
  let callback: string | undefined
  let onauthorized: (server: string) => void = () => undefined
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
    cluster === undefined ? {} : { secrets: await openSharedSecrets(cluster, log), replica: cluster.replicas.id },
  )
  cluster?.replicas.on("authorization", ({ server }) => void oauth.reload(server).then(() => onauthorized(server)))
  // Caches belong to one configuration file: another file's servers may share names.
  const eraFile = paths === undefined ? undefined : join(paths.directory, `${ownName("eras", paths)}.json`)
  const ownPins = createToolPins(paths === undefined ? undefined : toolPinFiles(paths), systemClock)
  const approve = (server: string, tool: string, hash: string) => void agent.approve(serverOf(server), tool, hash)
  const pins = cluster === undefined ? ownPins : await openSharedApprovals(cluster, ownPins, approve)
  const agent: Agent = new Agent({
    clock: systemClock,
    log,
    startedAt: systemClock.now(),
    ids: createRequestIds(crypto.randomUUID().replaceAll("-", "").slice(0, 16)),
    limit: options.maxResult,
    maxToolName: options.maxToolName,
    version,
    eras: createEraCache(eraFile, systemClock),
    pins,
    credentials: (spec, launch) => oauth.credentials(spec, launch),
    // Each call has a timeout of its own.
    fetch: (url, init) => fetch(url, { ...init, timeout: false } as RequestInit),
    openChild: (launch, events, { name: server }) =>
      StdioTransport.open(launch, events, {
        server,
        clock: systemClock,
        limit: options.maxResult,
        grace: STOP_GRACE_MS,
        reaper,
        output: new ChildOutputLogger(systemClock, log, server, (text) => redactor().maskCredentials(text)),
      }),
  })
  onauthorized = (server) => agent.authorized(server)
  followSecrets([() => agent.secrets, () => oauth.secrets])
  const leases = cluster === undefined ? undefined : await openLeases(cluster, log, agent, () => instances.reapply())
  const instances: Instances = new Instances({
    agent,
    clock: systemClock,
    log,
    linger: options.templateLinger,
    selects: (tags) => matchesFilter(options.filter, tags),
    ...(leases === undefined ? {} : { place: (plan) => leases.place(plan) }),
  })
  return {
    agent,
    oauth,
    instances,
    leases,
    setPublicUrl(url) {
      callback = `${url.replace(/\/$/, "")}${CALLBACK_PATH}`
    },
  }
}

// ---

async function openSharedApprovals(
  { state, replicas }: Cluster,
  own: ToolPins,
  onapproved: (server: string, tool: string, hash: string) => void,
): Promise<ToolPins> {
  const { createSharedApprovals } = await import("../store/shared-approvals.ts")
  const tell = () => replicas.send({ kind: "approvals" })
  const pins = createSharedApprovals({ own, state, tell, onapproved })
  replicas.on("approvals", () => void pins.sync())
  return pins
}

/** Returns the name of the server or template of an id. */
const serverOf = (id: string): string => id.split("#", 1)[0] ?? id

async function openLeases(
  { state, replicas, mark }: Cluster,
  log: Log,
  agent: Agent,
  onchange: () => void,
): Promise<ServerLeases> {
  const { ServerLeases } = await import("../agent/server-leases.ts")
  const whenStopped = (id: string) => agent.whenStopped(id)
  return new ServerLeases({ state, replicas, mark, clock: systemClock, log, whenStopped, onchange })
}

/** Imported on Windows alone: other systems do not pay for the foreign functions that it needs. */
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

const STOP_GRACE_MS = 2000
