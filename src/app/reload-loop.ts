/** How a running svc follows its files, and what its own commands may ask of it. */
import { dirname } from "node:path"
import { createReload, type ReloadResult } from "../agent/reload.ts"
import type { Backend } from "../backend/backend.ts"
import { isHidden } from "../catalog/catalog.ts"
import { slugOf } from "../config/plan.ts"
import { systemClock } from "../lib/clock.ts"
import { ConfigError, formatIssue, RequestError, UnavailableError } from "../lib/errors.ts"
import { unknownNameError } from "../lib/nearest.ts"
import { version } from "../lib/version.ts"
import { HEALTH_LEVELS } from "../report/health.ts"
import { statusOf } from "../report/status.ts"
import { type ControlDispatch, openControlSocket } from "../serve/control-socket.ts"
import { reportAt } from "../serve/health.ts"
import { createMissing, documentFiles, readTexts } from "../store/documents.ts"
import type { Paths } from "../store/paths.ts"
import { recover } from "../store/transaction.ts"
import { type Watch, watchFiles } from "../store/watch.ts"
import { homeDirectory } from "../template/project.ts"
import { isObject, type Params } from "../wire/message.ts"
import type { InternalTools } from "./internal-tools.ts"
import type { Runtime } from "./runtime.ts"
import type { Settings } from "./settings.ts"
import { answerOAuthControl, type OAuthControlDeps } from "./upstream-oauth.ts"

/** `close` follows no more; `idle` resolves when no change of a tool waits for its end. */
export type ReloadLoop = { close(): void; idle(): Promise<void> }

/** Reads the files, and again whenever they change or SIGHUP comes, until it is closed. */
export async function startReloadLoop(
  runtime: Runtime,
  settings: Settings,
  paths: Paths,
  url: string | undefined,
): Promise<ReloadLoop> {
  const { agent, audit, instances, log, metrics } = runtime
  if (await createMissing(paths, systemClock))
    log.info(`made an empty configuration: ${paths.file}; add a server with \`svc mcp add\`, or edit it`)
  const world = { parent: process.env, platform: process.platform, home: homeDirectory(), folder: dirname(paths.file) }
  const apply = createReload({
    agent,
    instances,
    log,
    paths,
    read: () => readTexts(paths),
    world,
  })
  const reload = (): ReloadResult => {
    const reloaded = apply()
    if (metrics !== undefined) metrics.reloads[reloaded.applied === undefined ? "refused" : "ok"]++
    return reloaded
  }
  const again = (): ReloadResult => {
    const end = audit?.action("reload", {})
    const reloaded = reload()
    const { applied } = reloaded
    end?.(applied === undefined ? "error" : "ok")
    if (applied === undefined) {
      log.warn("not reloaded: what was good before stays")
      return reloaded
    }
    const said = Object.entries(applied).flatMap(([what, ids]) =>
      ids.length === 0 ? [] : [`${what} ${ids.join(", ")}`],
    )
    log.info(`reloaded: ${said.length === 0 ? "nothing changed" : said.join("; ")}`)
    return reloaded
  }
  // Clients that start svc over stdio may be several on one directory; only an instance that listens has its door.
  let watcher: Watch | undefined
  let own: Promise<InternalTools> | undefined
  // A start does not pay for tools that nobody calls.
  const tools = (): Promise<InternalTools> => {
    own ??= import("./internal-tools.ts").then(({ openInternalTools }) =>
      openInternalTools(runtime, settings, paths, world, () => {
        watcher?.acknowledge()
        return again()
      }),
    )
    return own
  }
  if (settings.internalTools.length > 0) await tools()
  const control =
    url === undefined
      ? undefined
      : await openControlSocket(
          paths,
          audited(runtime, async (method, params, gone) =>
            method === "tool" ? (await tools()).run(params, gone) : answerControl(runtime, url, reload, method, params),
          ),
          { mcp: runtime.mcp, trustedClient: runtime.trustedClient, maxResult: settings.maxResult },
        )
  for (const said of await recover(paths, systemClock)) log.warn(said)
  const { applied, issues } = reload()
  if (applied === undefined && issues.some(({ code }) => code === "template")) {
    control?.close()
    throw new ConfigError(issues)
  }
  // On Windows it says that the window is closed.
  if (process.platform !== "win32") process.on("SIGHUP", again)
  watcher = settings.reload ? watchFiles(documentFiles(paths), systemClock, DEBOUNCE_MS, again) : undefined
  return {
    idle: async () => (await own)?.idle(),
    close() {
      process.off("SIGHUP", again)
      watcher?.close()
      control?.close()
    },
  }
}

// ---

const DEBOUNCE_MS = 300

function answerControl(
  runtime: Runtime,
  url: string,
  reload: () => ReloadResult,
  method: string,
  params: Params,
): unknown {
  const { agent, redactor } = runtime
  switch (method) {
    case "status":
      // For the operator alone, who needs to know which path and which address.
      return { ...statusOf(agent.snapshot(), redactor().maskCredentials), pid: process.pid, version, url }
    case "health": {
      const level = HEALTH_LEVELS.find((one) => one === params.level) ?? "full"
      const found = reportAt(String(params.path))?.({ facts: runtime.facts, level, ...redactor() }, agent.snapshot())
      if (found === undefined) throw new RequestError("invalid_params", `There is no report at ${params.path}`)
      return { ok: found.status < 400, body: found.body }
    }
    case "restart": {
      const wanted = typeof params.name === "string" ? find(runtime, params.name) : agent.all()
      for (const backend of wanted) agent.restart(backend)
      return { restarted: wanted.map(({ spec }) => spec.id) }
    }
    case "reload": {
      const { applied, issues } = reload()
      return { applied, issues: issues.map(formatIssue) }
    }
    case "approve": {
      const [{ spec }] = find(runtime, String(params.name))
      const approved = agent.approve(spec.name, typeof params.tool === "string" ? params.tool : undefined)
      return { server: spec.name, approved }
    }
    case "tools": {
      const [backend] = find(runtime, String(params.name))
      const { spec, published } = backend
      if (published === undefined) throw new UnavailableError(`${spec.name} is not connected`)
      return {
        tools: published.listing.tools.map(({ name, description }) => ({
          name,
          description,
          disabled: isHidden(spec, name),
          ...(agent.isQuarantined(backend, name) ? { held: true } : {}),
        })),
      }
    }
    case "flush":
      return runtime.serverLogs.flush()
    default:
      if (method.startsWith("auth.")) return answerOAuthControl(oauthControlDeps(runtime), method, params)
      throw new RequestError("unknown_method", `This svc does not know ${method}; it is version ${version}`)
  }
}

const oauthControlDeps = (runtime: Runtime): OAuthControlDeps => ({
  oauth: runtime.oauth,
  find: (name) => find(runtime, name)[0].spec,
  all: () => runtime.agent.all().map(({ spec }) => spec),
  restart: (name) => {
    for (const backend of find(runtime, name)) runtime.agent.restart(backend)
  },
})

/** What commands change is written down as what clients call is. */
function audited({ audit }: Runtime, answer: ControlDispatch): ControlDispatch {
  if (audit === undefined) return answer
  return async (method, params, gone) => {
    if (READ_ONLY_METHODS.has(method)) return answer(method, params, gone)
    const end = audit.action(method, params)
    try {
      const result = await answer(method, params, gone)
      end(isObject(result) && result.isError === true ? "error" : "ok")
      return result
    } catch (error) {
      end("error")
      throw error
    }
  }
}

/** They change nothing. */
const READ_ONLY_METHODS: ReadonlySet<string> = new Set([
  "status",
  "health",
  "tools",
  "flush",
  "auth.status",
  "auth.wait",
])

function find({ agent }: Runtime, name: string): readonly [Backend, ...Backend[]] {
  const [first, ...others] = agent.find(name)
  if (first !== undefined) return [first, ...others]
  const { templates, disabled, issues, backends } = agent.snapshot()
  const is = (one: string | undefined) => one !== undefined && (one === name || slugOf(one) === name)
  if (disabled.some(is)) throw new UnavailableError(`${name} is disabled; \`svc mcp enable ${name}\` starts it`)
  if (templates.some(is)) throw new UnavailableError(`${name} is a template that nobody uses at the moment`)
  if (issues.some(({ server }) => is(server)))
    throw new UnavailableError(`${name} is left out for what is wrong with it; see \`svc mcp status\``)
  throw unknownNameError("server", name, [...backends.map(({ spec }) => spec.name), ...templates, ...disabled])
}
