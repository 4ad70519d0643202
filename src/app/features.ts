/**
 * The features of a running svc. Each is imported here when it is on, and fills ports of the core: other files of app/ that need a
 * feature take it from here. A port is filled from a list, so that a feature goes with the lines that name it.
 */
import { existsSync } from "node:fs"
import { hostname } from "node:os"
import { join } from "node:path"
import type { Agent } from "../agent/agent.ts"
import type { Gateway, Stage } from "../call/ports.ts"
import { NO_SEARCH, type ToolSearch } from "../catalog/tool-search.ts"
import type { ReferenceValues } from "../config/environment.ts"
import type { HostEnvironment } from "../config/plan.ts"
import { ConfiguredTargets } from "../features/notify/configured-targets.ts"
import type { OAuth } from "../features/oauth/oauth.ts"
import { answerOAuthControl, openUpstreamOAuth } from "../features/oauth/upstream-oauth.ts"
import type { AdminInterface } from "../features/rest/admin-interface.ts"
import { openResults } from "../features/results/results.ts"
import { openFinder, searchTools } from "../features/search/search-tools.ts"
import { ConfiguredReferences } from "../features/secrets/configured-references.ts"
import { takeSystem } from "../features/system/system.ts"
import { managementTools } from "../features/tools/client-tools.ts"
import type { InternalTools } from "../features/tools/internal-tools.ts"
import type { Toolbox } from "../features/tools/toolbox.ts"
import type { MetricsPush } from "../features/traces/metrics-push.ts"
import type { Traces } from "../features/traces/traces.ts"
import { systemClock } from "../lib/clock.ts"
import type { Log } from "../lib/log.ts"
import { randomText } from "../lib/random.ts"
import { version } from "../lib/version.ts"
import type { ReportedSizes } from "../report/status.ts"
import { ADMIN_SCOPE } from "../serve/challenge.ts"
import type { Cluster } from "../serve/cluster.ts"
import type { System } from "../serve/system.ts"
import { ownName, type Paths, tokensFile } from "../store/paths.ts"
import type { Logging } from "./logging.ts"
import { type ServeOptions, sharedOptions } from "./serve-options.ts"

export type { AdminInterface, ConfiguredTargets, InternalTools, MetricsPush, OAuth, Traces }
export { answerOAuthControl, openUpstreamOAuth }

/** Joins the cluster of `--cluster`; undefined without it. Rejects with a RequestError (usage) if its Redis cannot be used. */
export async function openCluster(options: ServeOptions, logging: Logging): Promise<Cluster | undefined> {
  const { cluster } = options
  if (cluster === undefined) return undefined
  const opened: readonly Promise<Cluster>[] = [
    import("../features/cluster/cluster.ts").then((found) =>
      found.openCluster(cluster, sharedOptions(options), logging),
    ),
  ]
  return opened[0]
}

/** Opens the values of the references of a configuration; undefined without the feature. `onlate`: a value comes after the load that asked for it. */
export function openReferences(
  paths: Paths,
  world: Omit<HostEnvironment, "dotenv">,
  allowCommands: boolean,
  onlate: () => void = () => undefined,
): ReferenceValues | undefined {
  const opened: readonly ReferenceValues[] = [new ConfiguredReferences(paths, world, allowCommands, onlate)]
  return opened[0]
}

/** The features that calls meet: svc's own tools, the search over tools, and large results. */
export type OwnFeatures = Pick<Gateway, "ownTools"> & {
  /** The stages of these features, in their order. */
  readonly stages: readonly Stage[]
  /** The sizes of the results of tools. */
  readonly resultSizes: ReportedSizes
  /** Removes expired stored results, even if this svc stores none. */
  sweepResults(): void
  /** Closes the store of results. */
  closeResults(): Promise<void>
  /** Offers the management tools to clients. */
  offerTools(tools: Toolbox): void
  /** Returns the entries of the management tools that clients have, as JSON texts. */
  toolEntries(): readonly string[]
  /** Opens the search over tools. */
  readonly toolFinder: () => Promise<ToolSearch>
}

/** Opens the features that calls meet; `replica` is the id of this replica in a cluster. */
export function openOwnFeatures(
  { resultBudget, resultTtl: ttl, persist }: ServeOptions,
  paths: Paths | undefined,
  { agent, log, replica }: { readonly agent: Agent; readonly log: Log; readonly replica: string | undefined },
): OwnFeatures {
  const folder = paths && join(paths.directory, ownName("results", paths))
  const results = openResults(resultBudget, { paths, folder, ttl, persist, replica }, (text) => log.warn(text))
  const sizes: readonly ReportedSizes[] = [results.sizes]
  const closing: readonly (() => Promise<void>)[] = [results.close]
  const toolFinder = openFinder(agent, systemClock)
  const finders: readonly OwnFeatures["toolFinder"][] = [toolFinder]
  let toolbox: Toolbox | undefined
  const entries: readonly (() => readonly string[])[] = [() => toolbox?.entries ?? []]
  return {
    ownTools: [managementTools(() => toolbox), searchTools(toolFinder), results.tools],
    stages: [results.stage],
    resultSizes: { report: (server) => sizes.flatMap((one) => one.report(server)) },
    sweepResults() {
      if (folder !== undefined && existsSync(folder)) results.sweep()
    },
    async closeResults() {
      for (const close of closing) await close()
    },
    offerTools(tools) {
      toolbox = tools
    },
    toolEntries: () => entries.flatMap((one) => one()),
    toolFinder: finders[0] ?? (async () => NO_SEARCH),
  }
}

/** Opens traces if the options or the environment name their receiver. Rejects with a RequestError (usage) if that cannot work. */
export async function openTraces(
  { otlpEndpoint: endpoint, otlpContent: content, otlpBaggage: baggage }: ServeOptions,
  { log, redactor }: Logging,
): Promise<Traces | undefined> {
  if (!isExported("TRACES", endpoint)) return undefined
  const { openTraces } = await import("../features/traces/traces.ts")
  return openTraces({
    ...exporterDeps(endpoint, log),
    content,
    baggage,
    ticks: () => performance.now(),
    random: (bytes) => void crypto.getRandomValues(bytes),
    masker: () => redactor().maskCredentials,
  })
}

/** What notifications watch. */
type Notifying = { readonly agent: Agent; readonly cluster: Cluster | undefined; readonly oauth: OAuth }

/** Opens the notifications of problems, without targets. */
export function openNotifications(
  { agent, cluster, log, oauth, redactor }: Pick<Logging, "log" | "redactor"> & Notifying,
  { allowCommands }: Pick<ServeOptions, "allowCommands">,
  paths: Paths,
  world: Omit<HostEnvironment, "dotenv">,
): ConfiguredTargets {
  return new ConfiguredTargets({
    paths,
    world,
    allowCommands,
    tokensFile: tokensFile(paths),
    clock: systemClock,
    log,
    origin: { host: hostname(), replica: cluster?.facts().replica },
    facts: () => ({ snapshot: agent.snapshot(), cluster: cluster?.facts() }),
    signIns: () => oauth.status(agent.all().map(({ spec }) => spec)),
    id: () => `msg_${randomText(15)}`,
    mask: (text) => redactor().maskCredentials(text),
  })
}

/** Opens the sending of metrics if their receiver is named. Rejects with a RequestError (usage) if that cannot work. */
export async function openMetricsPush(
  { otlpEndpoint: endpoint }: ServeOptions,
  { log }: Logging,
): Promise<MetricsPush | undefined> {
  if (!isExported("METRICS", endpoint)) return undefined
  const { openMetricsPush } = await import("../features/traces/metrics-push.ts")
  return openMetricsPush(exporterDeps(endpoint, log))
}

/** Whether a signal of OpenTelemetry has a receiver, and is not turned off. */
function isExported(signal: "TRACES" | "METRICS", endpoint: string | undefined): boolean {
  const { env } = process
  const named = endpoint ?? (env[`OTEL_EXPORTER_OTLP_${signal}_ENDPOINT`] || env.OTEL_EXPORTER_OTLP_ENDPOINT)
  const isOff = /^true$/i.test(env.OTEL_SDK_DISABLED ?? "") || env[`OTEL_${signal}_EXPORTER`] === "none"
  return Boolean(named) && !isOff
}

const exporterDeps = (endpoint: string | undefined, log: Log) => ({
  endpoint,
  env: process.env,
  version,
  clock: systemClock,
  send: (url: string, init: RequestInit) => fetch(url, { ...init, redirect: "manual" }),
  log,
})

type Admin = ConstructorParameters<typeof AdminInterface>

/** Opens REST and its login. */
export async function openAdmin(deps: Admin[0], options: Admin[1]): Promise<AdminInterface> {
  const { AdminInterface } = await import("../features/rest/admin-interface.ts")
  return new AdminInterface(deps, options)
}

/** Returns the servers in a text that a person has pasted. */
export async function readPasted(text: string) {
  const { readPasted } = await import("../features/connect/pasted.ts")
  return readPasted(text, (name) => Bun.which(name) !== null)
}

/** Opens svc's client of the issuer at which people log in to the admin page. */
export async function openIssuerClient(issuer: string, metadataUrl: string | undefined) {
  const { createIssuerClient } = await import("../features/oauth/issuer-client.ts")
  return createIssuerClient({ issuer, scope: ADMIN_SCOPE, metadataUrl, fetch: (url, init) => fetch(url, init) })
}

type Tools = Parameters<typeof import("../features/tools/internal-tools.ts").openInternalTools>

/** Opens svc's own tools. */
export async function openTools(...tools: Tools): Promise<InternalTools> {
  const { openInternalTools } = await import("../features/tools/internal-tools.ts")
  return openInternalTools(...tools)
}

/** Takes what the system tells svc out of the environment; undefined without the feature. */
export function openSystem(): System | undefined {
  const opened: readonly System[] = [takeSystem(process.env, process.pid)]
  return opened[0]
}

/** Returns the files that killed commands have left beside the files of clients. */
export async function findLeftovers(paths: Paths): Promise<readonly string[]> {
  const { findClientTemporaries } = await import("../features/connect/connections.ts")
  return findClientTemporaries(paths, systemClock.now())
}
