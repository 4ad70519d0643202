/** Applies the configuration files of a running svc at the start and whenever they change. */
import { closeSync, constants, openSync } from "node:fs"
import { dirname } from "node:path"
import type { Applied } from "../agent/agent.ts"
import { createReload, type ReloadResult } from "../agent/reload.ts"
import { systemClock } from "../lib/clock.ts"
import { ConfigError } from "../lib/errors.ts"
import { homeDirectory } from "../lib/home-directory.ts"
import { openControlSocket } from "../serve/control-socket.ts"
import { createMissing, documentFiles, readTexts } from "../store/documents.ts"
import { ownService } from "../store/own-service.ts"
import type { Paths } from "../store/paths.ts"
import { recoverTrials } from "../store/transaction.ts"
import { type Watch, watchFiles } from "../store/watch.ts"
import { createCatalogAnswers } from "./catalog-answers.ts"
import { createControlDispatch, findBackends } from "./control-handlers.ts"
import { type InternalTools, openTools, type SdNotify } from "./features.ts"
import type { HttpService } from "./http-service.ts"
import type { Runtime } from "./runtime.ts"
import type { ServeOptions } from "./serve-options.ts"

/** `close` ends the loop and the control socket; `idle` resolves when no change by a tool is waiting for its outcome. */
export type ReloadLoop = { close(): void; idle(): Promise<void> }

/**
 * Loads the files, and reloads them when they change or at SIGHUP. If SIGHUP means that the terminal is closed, stops svc.
 * Opens the control socket if svc listens; svc on stdio has none, because several may run in one directory. Throws a
 * ConfigError if the first load fails in strict template mode.
 */
export async function startReloadLoop(
  runtime: Runtime,
  options: ServeOptions,
  paths: Paths,
  listening: Pick<HttpService, "url" | "local" | "endpoint" | "followTokens" | "tokensProblem" | "admin"> | undefined,
  { interrupt, notify }: { interrupt(reason: string): void; readonly notify: SdNotify | undefined },
): Promise<ReloadLoop> {
  const { agent, audit, cluster, instances, log, metrics, mcp, offerTools, trustedClient } = runtime
  if (await createMissing(paths, systemClock))
    log.info(`created an empty configuration: ${paths.file}; add a server with \`svc mcp add\`, or edit the file`)
  const external = options.externalUrl === undefined ? [] : [options.externalUrl]
  const world = {
    parent: process.env,
    platform: process.platform,
    home: homeDirectory(),
    folder: dirname(paths.file),
    own: ownService(paths, [...(listening === undefined ? [] : [listening.url.href]), ...external]),
  }
  const apply = createReload({
    agent,
    instances,
    log,
    paths,
    read: () => {
      const texts = readTexts(paths)
      if (cluster !== undefined) cluster.configured(texts)
      return texts
    },
    world,
  })
  let last: ReloadResult = { applied: undefined, issues: [] }
  const reload = (): ReloadResult => {
    const reloaded = apply()
    last = reloaded
    if (metrics !== undefined) metrics.reloads[reloaded.applied === undefined ? "refused" : "ok"]++
    return reloaded
  }
  const reloadAudited = (): ReloadResult => {
    const end = audit?.action("reload", {})
    notify?.reloading()
    const reloaded = reload()
    notify?.ready(
      reloaded.applied === undefined ? "the configuration is invalid; the last valid one is kept" : "reloaded",
    )
    const { applied } = reloaded
    end?.(applied === undefined ? "error" : "ok")
    if (applied === undefined) {
      log.warn("the configuration is invalid; svc keeps using the last valid one")
      return reloaded
    }
    log.info(`reloaded: ${summaryOf(applied)}`)
    return reloaded
  }
  let watcher: Watch | undefined
  const { promise: loaded, resolve: onload } = Promise.withResolvers<void>()
  const follow = async (): Promise<ReloadResult | undefined> => {
    await loaded
    listening?.followTokens()
    watcher?.check()
    return watcher === undefined ? undefined : last
  }
  let opened: Promise<InternalTools> | undefined
  // Imported at the first call, so that a start without internal tools does not load them.
  const tools = (): Promise<InternalTools> => {
    opened ??= openTools(runtime, paths, world, () => {
      watcher?.acknowledge()
      return reloadAudited()
    })
    return opened
  }
  const { internalTools, confirmInstalls, confirmEdits } = options
  if (internalTools.length > 0)
    offerTools((await tools()).offer(internalTools, { installs: !confirmInstalls, edits: !confirmEdits }))
  const load = async () => {
    for (const note of await recoverTrials(paths, systemClock)) log.warn(note)
    // Watches before the first read, so that a change in between is noticed.
    watcher = options.reload ? watchFiles(documentFiles(paths), systemClock, reloadAudited) : undefined
    const { applied, issues } = reload()
    if (applied === undefined && issues.some(({ code }) => code === "template")) {
      watcher?.close()
      throw new ConfigError(issues)
    }
  }
  const control =
    listening === undefined
      ? void (await load())
      : await openControlSocket(
          paths,
          createControlDispatch({
            runtime,
            url: listening.local,
            endpoint: listening.endpoint,
            tokensProblem: listening.tokensProblem,
            follow,
            tools,
            interrupt,
            admin: listening.admin,
          }),
          { mcp, trustedClient, maxResult: options.maxResult, answer: createCatalogAnswers(runtime) },
          listening.url.href,
          load,
        )
  const hadTerminal = hasTerminal()
  const onHangup = () => (hadTerminal && !hasTerminal() ? interrupt("the terminal is closed") : reloadAudited())
  // On Windows SIGHUP means that the console window was closed.
  if (process.platform !== "win32") process.on("SIGHUP", onHangup)
  // Reads tokens that were created before the control socket opened.
  listening?.followTokens()
  onload()
  listening?.admin?.connect({
    paths,
    endpoint: listening.endpoint,
    tools,
    find: (name) => findBackends(runtime, name)[0].spec,
    follow,
  })
  return {
    idle: async () => (await opened)?.idle(),
    close() {
      process.off("SIGHUP", onHangup)
      watcher?.close()
      control?.close()
    },
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
