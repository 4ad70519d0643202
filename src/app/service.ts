/** Runs `svc serve`, from the first line of the log to the end of the last child. */

import { delay, every, systemClock, withTimeout } from "../lib/clock.ts"
import { messageOf } from "../lib/errors.ts"
import { homeDirectory } from "../lib/home-directory.ts"
import { type Interrupt, watchInterrupts } from "../lib/interrupt.ts"
import { lazy } from "../lib/lazy.ts"
import type { Log } from "../lib/log.ts"
import type { SdNotify, System } from "../serve/system.ts"
import { makePrivateFolder, removeAll } from "../store/files.ts"
import type { Paths } from "../store/paths.ts"
import { announceRunning, runningFolder, type Starter } from "../store/running.ts"
import { MAX_SESSIONS } from "./client-sessions.ts"
import { findLeftovers, openSystem } from "./features.ts"
import { fileLimitWarning } from "./file-limit.ts"
import { showStart } from "./first-screen.ts"
import { startHttp } from "./http-service.ts"
import { createRuntime, type Runtime } from "./runtime.ts"
import type { ServeOptions } from "./serve-options.ts"

/** How a start came about. */
export type ServiceStart = {
  /** The flags that select the same configuration in another command. */
  readonly configFlags: readonly string[]
  readonly startedBy: Starter
}

/** Runs svc until a signal, `svc stop`, or the end of its client. Returns the exit code. */
export async function runService(options: ServeOptions, paths: Paths, start: ServiceStart): Promise<number> {
  // First, so that the cause is reported before its consequences.
  if (!options.demo && options.transport === "http") makePrivateFolder(paths.directory)
  // Before anything reads the environment for the servers.
  const system = openSystem()
  const demo = options.demo ? (await import("./demo.ts")).createDemoFolder() : undefined
  const runtime = await createRuntime(options, demo?.paths ?? paths)
  // Both events have a second argument of their own.
  process.on("unhandledRejection", (error) => runtime.onbug(error))
  process.on("uncaughtException", (error) => runtime.onbug(error))
  // From here on the first signal stops gracefully, and the second at once.
  const interrupts = watchInterrupts(process.platform === "win32" ? WINDOWS_STOP_SIGNALS : STOP_SIGNALS)
  const notify = await system?.openNotify((reason) => runtime.log.warn(reason))
  try {
    const ended = serveUntil(runtime, options, { paths, demo: demo?.paths, system }, start, interrupts, notify)
    return await Promise.race([ended, interrupts.forced])
  } finally {
    notify?.close()
    demo?.remove()
    await runtime.closeLog()
  }
}

// ---

/** Records the configuration, and removes files of killed processes and of configurations that are gone. Runs after the start, which need not wait. */
async function sweepConfigurations(paths: Paths, log: Log): Promise<void> {
  try {
    const { noteConfiguration, sweepGone } = await import("../store/gone-configurations.ts")
    removeAll(await findLeftovers(paths))
    noteConfiguration(paths)
    for (const file of await sweepGone(paths, systemClock.now()))
      log.info(`removed logs and sessions of a configuration that is gone: ${file}`)
  } catch (error) {
    log.debug(`files of configurations that are gone are not removed: ${messageOf(error)}`)
  }
}

const KEEP_ALIVE_MS = 25_000
/** Most servers have connected by then. A fifth of the anonymous memory is what only the start needs. */
const SHRINK_MS = 12_000
/** For package runners that download servers: the client that has started svc may list tools only once. */
const FIRST_LOAD_MS = 20_000
const STOP_SIGNALS = ["SIGINT", "SIGTERM"] as const
/** SIGBREAK is Ctrl-Break; SIGHUP means that the console window closes, which leaves a few seconds. */
const WINDOWS_STOP_SIGNALS = ["SIGINT", "SIGBREAK", "SIGHUP"] as const

/** How long connections with requests may take to end after svc has a successor. */
const DRAIN_MS = 300

type Place = {
  readonly paths: Paths
  /** The configuration of a demo. */
  readonly demo: Paths | undefined
  readonly system: System | undefined
}

/** Serves until a signal or `svc stop` interrupts it, or the client on stdio is gone, then stops everything in order. */
async function serveUntil(
  runtime: Runtime,
  options: ServeOptions,
  { paths, demo, system }: Place,
  { configFlags, startedBy }: ServiceStart,
  { signal, interrupt }: Pick<Interrupt, "signal" | "interrupt">,
  notify: SdNotify | undefined,
): Promise<number> {
  const { agent, sessions, suspendedCalls, streams, serverLogs, log } = runtime
  const own = demo ?? paths
  const startedAt = new Date(systemClock.now()).toISOString()
  const stopped = new Promise<string>((resolve) =>
    signal.addEventListener("abort", () => resolve(String(signal.reason)), { once: true }),
  )
  const listening =
    options.transport === "http" ? await startHttp(runtime, options, own, system?.predecessor) : undefined
  await system?.takeOver(paths, options.shutdownGrace)
  agent.awaitInitialLoad(options.startupWait, startedBy === "proxy" ? FIRST_LOAD_MS : undefined)
  // A turn of the event loop, in which svc answers probes of /health/live, before the modules that read the files are imported.
  if (listening !== undefined) await delay(systemClock, 0)
  const { startReloadLoop } = await import("./reload-loop.ts")
  // In the turn after the load, which keeps the event loop busy.
  if (listening !== undefined) systemClock.after(0, listening.admit)
  let successor: number | undefined
  const openHandover = lazy(async () =>
    system?.openHandover({
      port: listening?.port,
      startedBy,
      args: process.argv.slice(2),
      env: { ...process.env, ...notify?.variables },
      onsuccessor(pid) {
        successor = pid
        interrupt(`process ${pid} takes over`)
      },
    }),
  )
  const loop = await startReloadLoop(runtime, options, own, listening, {
    interrupt,
    notify,
    handover: demo === undefined ? openHandover : undefined,
    keepsAddress: startedBy === "service" || options.externalUrl !== undefined,
  })
  const demoControl =
    listening === undefined || demo === undefined
      ? undefined
      : await (await import("./demo.ts")).openDemoControl(runtime, options.maxResult, paths, listening, interrupt)
  listening?.announce()
  notify?.ready(listening === undefined ? "serving stdio" : `listening on ${listening.endpoint ?? "a Unix socket"}`)
  const isReachable = listening !== undefined && (demo === undefined || demoControl !== undefined)
  const announced = !isReachable
    ? undefined
    : announceRunning(runningFolder(homeDirectory(), process.env.APPDATA, process.platform), {
        pid: process.pid,
        directory: paths.directory,
        file: paths.file,
        startedAt,
        startedBy,
      })
  // Meanwhile the servers are starting.
  sessions.open()
  if (demo === undefined && listening !== undefined) void sweepConfigurations(paths, log)
  runtime.sweepResults()
  const fewFiles = listening === undefined ? undefined : fileLimitWarning(MAX_SESSIONS)
  if (fewFiles !== undefined) log.warn(fewFiles)
  if (announced?.problem !== undefined) log.debug(`not listed in \`svc ps\`: ${announced.problem}`)
  const screen = showStart(runtime, options, {
    endpoint: listening?.endpoint,
    configFlags,
    isDemo: options.demo,
    isReachable,
  })
  const cancelShrink = systemClock.after(SHRINK_MS, () => Bun.shrink())
  const cancelKeepAlive = every(systemClock, KEEP_ALIVE_MS, () => {
    for (const stream of streams) stream.keepAlive()
  })

  const reason = await Promise.race([
    stopped,
    ...(options.transport === "stdio" ? [(await import("./stdio-service.ts")).serveStdioClient(runtime, options)] : []),
  ])
  screen.close()
  if (successor === undefined) notify?.stopping()
  else notify?.handOver(successor)
  log.info(`stopping: ${reason}`)
  if (successor !== undefined) {
    listening?.drain()
    await delay(systemClock, DRAIN_MS)
  }
  await runtime.cluster?.leave({ agent, streams, listening }, options)
  // In order: no new requests, then the running calls, then sessions, then backends.
  cancelShrink()
  cancelKeepAlive()
  announced?.close()
  loop.close()
  demoControl?.close()
  listening?.close()
  await listening?.refuse()
  if (runtime.cluster === undefined) await withTimeout(systemClock, options.shutdownGrace, agent.drained())
  // One turn of the event loop writes the last answers to the clients.
  await delay(systemClock, 0)
  for (const stream of [...streams]) stream.close()
  sessions.close()
  suspendedCalls.close()
  await runtime.closeResults()
  runtime.instances.close()
  await agent.close()
  // The next owner starts the server after its process here has ended.
  await runtime.cluster?.close()
  // An installation whose server has just been stopped undoes its edit.
  await loop.idle()
  void listening?.stop()
  serverLogs.flush()
  await runtime.closeAudit()
  await Promise.all([runtime.traces?.close(), runtime.metricsPush?.close()])
  await listening?.closeAccessLog()
  return 0
}
