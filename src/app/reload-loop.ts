/** Applies the configuration files of a running svc at the start and whenever they change. */
import { closeSync, constants, openSync } from "node:fs"
import { dirname } from "node:path"
import type { Applied } from "../agent/agent.ts"
import { createReload, type ReloadResult } from "../agent/reload.ts"
import type { ReferenceValues } from "../config/environment.ts"
import type { HostEnvironment } from "../config/plan.ts"
import { systemClock } from "../lib/clock.ts"
import { ConfigError } from "../lib/errors.ts"
import { homeDirectory } from "../lib/home-directory.ts"
import { type ControlDispatch, openControlSocket } from "../serve/control-socket.ts"
import type { Handover, SdNotify } from "../serve/system.ts"
import { createMissing, documentFiles, readTexts } from "../store/documents.ts"
import { ownService } from "../store/own-service.ts"
import type { Paths } from "../store/paths.ts"
import { recoverTrials } from "../store/transaction.ts"
import { type Watch, watchFiles } from "../store/watch.ts"
import { createCatalogAnswers } from "./catalog-answers.ts"
import { createControlDispatch, findBackends } from "./control-handlers.ts"
import { type ConfiguredTargets, type InternalTools, openNotifications, openReferences, openTools } from "./features.ts"
import type { HttpService } from "./http-service.ts"
import type { Runtime } from "./runtime.ts"
import type { ServeOptions } from "./serve-options.ts"

/** What the loop needs of the process that runs it. */
type ReloadHost = {
  interrupt(reason: string): void
  readonly notify: SdNotify | undefined
  readonly handover: (() => Promise<Handover | undefined>) | undefined
  readonly keepsAddress: boolean
}

/**
 * Loads the files, and reloads them when they change or at SIGHUP. If SIGHUP means that the terminal is closed, stops svc.
 * Opens the control socket if svc listens; svc on stdio has none, because several may run in one directory. Rejects with a
 * ConfigError if the first load fails in strict template mode.
 */
export async function startReloadLoop(
  runtime: Runtime,
  options: ServeOptions,
  paths: Paths,
  listening: HttpService | undefined,
  host: ReloadHost,
): Promise<ReloadLoop> {
  if (await createMissing(paths, systemClock))
    runtime.log.info(
      `created an empty configuration: ${paths.file}; add a server with \`svc mcp add\`, or edit the file`,
    )
  const loop = new ReloadLoop(runtime, options, paths, listening, host)
  await loop.start()
  return loop
}

export class ReloadLoop {
  private readonly world: Omit<HostEnvironment, "dotenv">
  private readonly references: ReferenceValues | undefined
  private readonly notifications: ConfiguredTargets
  /** Ends with the last reload: reloads never overlap. */
  private reloads: Promise<unknown> = Promise.resolve()
  private readonly apply: () => ReloadResult
  private last: ReloadResult = { applied: undefined, issues: [] }
  /** Undefined with `--no-reload`, and until the first load. */
  private watcher: Watch | undefined
  private control: { close(): void } | undefined
  private readonly loaded = Promise.withResolvers<void>()
  private openedTools: Promise<InternalTools> | undefined
  private readonly hadTerminal = hasTerminal()

  constructor(
    private readonly runtime: Runtime,
    private readonly options: ServeOptions,
    private readonly paths: Paths,
    private readonly listening: HttpService | undefined,
    private readonly host: ReloadHost,
  ) {
    const { agent, cluster, instances, log } = runtime
    const addresses = [listening?.url.href, options.externalUrl].filter((address) => address !== undefined)
    this.world = {
      parent: process.env,
      platform: process.platform,
      home: homeDirectory(),
      folder: dirname(paths.file),
      own: ownService(paths, addresses),
      sleep: { lazy: options.lazyStart, idleTimeout: options.idleTimeout },
      references: (reference) => this.references?.lookUp(reference),
    }
    const onlate = () => void this.reloadAudited("known")
    this.references = openReferences(paths, this.world, options.allowCommands, onlate)
    this.notifications = openNotifications(runtime, options, paths, this.world)
    runtime.followSecrets([() => this.notifications.secrets])
    const read = () => {
      const texts = readTexts(paths)
      cluster?.configured(texts)
      return texts
    }
    this.apply = createReload({ agent, instances, log, paths, read, world: this.world })
  }

  async start(): Promise<void> {
    const { runtime, options, paths, listening } = this
    const { internalTools, confirmInstalls, confirmEdits, maxResult } = options
    if (internalTools.length > 0) {
      const tools = await this.tools()
      runtime.offerTools(tools.offer(internalTools, { installs: !confirmInstalls, edits: !confirmEdits }))
    }
    if (listening === undefined) await this.load()
    else {
      const { mcp, trustedClient } = runtime
      const local = { mcp, trustedClient, maxResult, answer: createCatalogAnswers(runtime) }
      const dispatch = this.controlDispatch(listening)
      this.control = await openControlSocket(paths, dispatch, local, listening.url.href, this.load)
    }
    // On Windows SIGHUP means that the console window was closed.
    if (process.platform !== "win32") process.on("SIGHUP", this.onhangup)
    // Reads tokens that were created before the control socket opened.
    listening?.followTokens()
    this.loaded.resolve()
    const find = (name: string) => findBackends(runtime, name)[0].spec
    const { tools, follow } = this
    listening?.admin?.connect({ paths, endpoint: listening.endpoint, tools, find, follow })
  }

  /** Resolves when no change by a tool is waiting for its outcome, and no notification for its target. */
  async idle(): Promise<void> {
    await this.notifications.close()
    await (await this.openedTools)?.idle()
  }

  /** Ends the loop and the control socket. */
  close(): void {
    process.off("SIGHUP", this.onhangup)
    this.watcher?.close()
    this.control?.close()
    this.references?.close()
    void this.notifications.close()
  }

  // ---

  private readonly load = async (): Promise<void> => {
    const { runtime, options, paths } = this
    for (const note of await recoverTrials(paths, systemClock)) runtime.log.warn(note)
    // Watches before the first read, so that a change in between is noticed.
    this.watcher = options.reload
      ? watchFiles(documentFiles(paths), systemClock, () => void this.reloadAudited())
      : undefined
    const { applied, issues } = await this.inTurn(() => this.reload())
    if (applied === undefined && issues.some(({ code }) => code === "template")) {
      this.watcher?.close()
      throw new ConfigError(issues)
    }
  }

  /** Runs one reload after the other. */
  private inTurn<T>(run: () => Promise<T>): Promise<T> {
    const next = this.reloads.then(run)
    this.reloads = next.catch(() => undefined)
    return next
  }

  /** Reloads. `values`: whether to ask for the values of references; `fresh` also runs commands again that have run lately. */
  private async reload(values: "known" | "current" | "fresh" = "current"): Promise<ReloadResult> {
    const { metrics } = this.runtime
    if (values !== "known") await this.references?.load(values === "fresh")
    this.last = this.apply()
    if (metrics !== undefined) metrics.reloads[this.last.applied === undefined ? "refused" : "ok"]++
    await this.notifications.load()
    return this.last
  }

  private readonly reloadAudited = (values: "known" | "current" | "fresh" = "current"): Promise<ReloadResult> =>
    this.inTurn(async () => {
      const { audit, log } = this.runtime
      const { notify } = this.host
      const end = audit?.action("reload", {})
      notify?.reloading()
      const reloaded = await this.reload(values)
      const { applied } = reloaded
      notify?.ready(applied === undefined ? "the configuration is invalid; the last valid one is kept" : "reloaded")
      end?.(applied === undefined ? "error" : "ok")
      if (applied === undefined) log.warn("the configuration is invalid; svc keeps using the last valid one")
      else log.info(`reloaded: ${summaryOf(applied)}`)
      return reloaded
    })

  private readonly follow = async (fresh = false): Promise<ReloadResult | undefined> => {
    await this.loaded.promise
    this.listening?.followTokens()
    if (fresh) void this.reloadAudited("fresh")
    this.watcher?.check()
    await this.reloads
    return this.watcher === undefined && !fresh ? undefined : this.last
  }

  /** Opens svc's own tools at the first call, so that a start without them does not load them. */
  private readonly tools = (): Promise<InternalTools> => {
    this.openedTools ??= openTools(this.runtime, this.paths, this.world, () => {
      this.watcher?.acknowledge()
      return this.reloadAudited()
    })
    return this.openedTools
  }

  private readonly onhangup = (): void => {
    if (this.hadTerminal && !hasTerminal()) this.host.interrupt("the terminal is closed")
    else void this.reloadAudited()
  }

  private controlDispatch({ local, endpoint, tokensProblem, admin }: HttpService): ControlDispatch {
    const { runtime, host, follow, tools } = this
    return createControlDispatch({ runtime, url: local, endpoint, tokensProblem, follow, tools, admin, ...host })
  }
}

// ---

/** Whether a terminal controls this process: when that terminal closes, the system also sends SIGHUP. */
function hasTerminal(): boolean {
  try {
    closeSync(openSync("/dev/tty", constants.O_RDONLY | constants.O_NOCTTY))
    return true
  } catch {
    return false
  }
}

/** Returns the changes of a reload, for the log. */
function summaryOf(applied: Applied): string {
  const changes = Object.entries(applied).flatMap(([change, ids]) =>
    ids.length === 0 ? [] : [`${change} ${ids.join(", ")}`],
  )
  return changes.length === 0 ? "nothing changed" : changes.join("; ")
}
