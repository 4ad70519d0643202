/** The requests that svc's own commands may send to a running svc over the control socket. */
import type { ReloadResult } from "../agent/reload.ts"
import type { Backend } from "../backend/backend.ts"
import { knownTools } from "../catalog/listing.ts"
import { hidesEveryTool, toolRows, unknownOverrides } from "../catalog/tool-settings.ts"
import { slugOf } from "../config/server-spec.ts"
import { delay, systemClock, withTimeout } from "../lib/clock.ts"
import { formatIssue, RequestError, UnavailableError } from "../lib/errors.ts"
import { unknownNameError } from "../lib/nearest.ts"
import { version } from "../lib/version.ts"
import { HEALTH_LEVELS } from "../report/health.ts"
import { statusOf, withProjects, withResultSizes } from "../report/status.ts"
import type { ControlDispatch } from "../serve/control-socket.ts"
import { reportAt } from "../serve/health.ts"
import { isObject, type Params } from "../wire/message.ts"
import { contextOffer } from "./context-offer.ts"
import { type AdminInterface, answerOAuthControl, type InternalTools } from "./features.ts"
import type { Runtime } from "./runtime.ts"

export type ControlDeps = {
  readonly runtime: Runtime
  /** The root address at which programs of this machine reach svc, or `unix:` and the path of its socket. */
  readonly url: string
  /** The address of MCP for clients; undefined for a Unix socket. */
  readonly endpoint: string | undefined
  /** Whether svc serves its demo in place of the configuration. */
  readonly demo?: true | undefined
  /** Returns why svc refuses all tokens of clients now; undefined if it does not. */
  tokensProblem(): string | undefined
  /** Applies the current content of the files, and returns the outcome of the last reload; undefined with --no-reload. */
  follow(): Promise<ReloadResult | undefined>
  tools(): Promise<InternalTools>
  /** Stops svc as a signal does. */
  interrupt(reason: string): void
  /** Undefined with `--no-admin`. */
  readonly admin: Pick<AdminInterface, "invite"> | undefined
}

/** Returns the dispatch of control methods; methods that change something are audited like calls of clients. */
export function createControlDispatch({
  runtime,
  url,
  endpoint,
  demo,
  tokensProblem,
  follow,
  tools,
  interrupt,
  admin,
}: ControlDeps): ControlDispatch {
  return audited(runtime, async (method, params, gone) => {
    if (method === "tool") return (await tools()).run(params, gone)
    if (method === "admin") {
      if (demo) throw new UnavailableError("the demo has no admin page; stop it and start `svc serve`")
      if (admin === undefined)
        throw new UnavailableError("this svc does not serve the admin page: it was started with --no-admin")
      return admin.invite(endpoint, params.token === true)
    }
    if (method !== "stop")
      return answerControl(runtime, { url, endpoint, demo }, { follow, tokensProblem }, method, params)
    // Stops after the answer, because the control socket closes then.
    void delay(systemClock, 0).then(() => interrupt("svc stop"))
    return { pid: process.pid }
  })
}

/** Returns the backends of a server. Throws a typed error with the reason if it has none. */
export function findBackends({ agent }: Pick<Runtime, "agent">, name: string): readonly [Backend, ...Backend[]] {
  const [first, ...others] = agent.find(name)
  if (first !== undefined) return [first, ...others]
  const { templates, disabled, issues, backends } = agent.snapshot()
  const is = (one: string | undefined) => one !== undefined && (one === name || slugOf(one) === name)
  if (disabled.some(is)) throw new UnavailableError(`${name} is disabled; \`svc mcp enable ${name}\` starts it`)
  if (templates.some(is)) throw new UnavailableError(`${name} is a template without running instances`)
  if (issues.some(({ server }) => is(server)))
    throw new UnavailableError(`${name} is not loaded; \`svc mcp status\` shows why`)
  throw unknownNameError("server", name, [...backends.map(({ spec }) => spec.name), ...templates, ...disabled])
}

// ---

async function answerControl(
  runtime: Runtime,
  addresses: Pick<ControlDeps, "url" | "endpoint" | "demo">,
  { follow, tokensProblem }: Pick<ControlDeps, "follow" | "tokensProblem">,
  method: string,
  params: Params,
): Promise<unknown> {
  const { agent, instances, redactor } = runtime
  const sharedState = () => {
    const found = runtime.cluster?.problem()
    return found === undefined ? {} : { sharedState: found }
  }
  // Masks only credentials: the operator needs paths and addresses.
  const status = () => {
    const found = statusOf(agent.snapshot(), systemClock.now(), redactor().maskCredentials)
    const refused = tokensProblem()
    return {
      ...withProjects(withResultSizes(found, runtime.resultSizes), (id) => instances.projects(id)),
      ...(refused === undefined ? {} : { issues: [...found.issues, refused] }),
      ...sharedState(),
      pid: process.pid,
      version,
      ...addresses,
    }
  }
  switch (method) {
    case "status":
      return status()
    case "health": {
      const level = HEALTH_LEVELS.find((one) => one === params.level) ?? "full"
      // The reader is the operator, as above.
      const redactAll = redactor().maskCredentials
      const found = reportAt(String(params.path))?.({ facts: runtime.facts, level, redactAll }, agent.snapshot())
      if (found === undefined) throw new RequestError("invalid_params", `there is no health report at ${params.path}`)
      return { ok: found.status < 400, body: found.body }
    }
    case "cluster": {
      if (runtime.cluster !== undefined) return runtime.cluster.report()
      throw new UnavailableError("this svc is not part of a cluster; start it with `svc serve --cluster URL`")
    }
    case "restart": {
      await follow()
      const wanted = typeof params.name === "string" ? findBackends(runtime, params.name) : agent.all()
      for (const backend of wanted) agent.restart(backend)
      return { restarted: wanted.map(({ spec }) => spec.id) }
    }
    case "reload": {
      const reloaded = await follow()
      const names = Array.isArray(params.names) ? params.names.map(String) : []
      await settled(agent, names, typeof params.wait === "number" ? params.wait : 0)
      return {
        followed: reloaded !== undefined,
        applied: reloaded?.applied !== undefined,
        issues: (reloaded?.issues ?? []).map(formatIssue),
        status: status(),
        away: runtime.cluster?.state.connected === false ? runtime.cluster.place : undefined,
      }
    }
    case "approve": {
      const { approveTools } = await import("../report/approvals.ts")
      const [{ spec }] = findBackends(runtime, String(params.name))
      const [tool, hash] = [params.tool, params.hash].map((one) => (typeof one === "string" ? one : undefined))
      return { server: spec.name, approved: approveTools(agent, spec.name, tool, hash) }
    }
    case "approvals": {
      const { approvalsOf, pendingChanges } = await import("../report/approvals.ts")
      const [{ spec }] = findBackends(runtime, String(params.name))
      const { tool, from = 0 } = params
      const changes = pendingChanges(agent, spec.name).filter((one) => tool === undefined || one.tool === tool)
      const approvals = approvalsOf(agent, changes.slice(Number(from)))
      const next = Number(from) + approvals.length
      return { approvals, ...(next < changes.length ? { next } : {}) }
    }
    case "tools": {
      const instances = findBackends(runtime, String(params.name))
      const [backend] = instances
      const { spec, published } = backend
      const { disabledTools } = params
      if (published === undefined) throw new UnavailableError(`${spec.name} is not connected`)
      const known = knownTools(published.listing)
      return {
        tools: toolRows(spec, known, (tool) => agent.isQuarantined(backend, tool)),
        unknownOverrides: unknownOverrides(spec, known),
        ...(Array.isArray(disabledTools)
          ? { hidesEveryTool: hidesEveryTool(instances, disabledTools.map(String)) }
          : {}),
      }
    }
    case "context":
      return contextOffer(runtime, params, LOADED_MS)
    case "results":
      return runtime.resultSizes.report(typeof params.server === "string" ? params.server : undefined)
    case "flush":
      return runtime.serverLogs.flush()
    default:
      if (method.startsWith("auth.")) return answerOAuthControl(oauthControlDeps(runtime), method, params)
      throw new RequestError(
        "unknown_method",
        `this svc (version ${version}) does not know ${method}; restart it after an update`,
      )
  }
}

/** Resolves when the first attempts of these servers are over, or after `ms` milliseconds. */
async function settled(agent: Runtime["agent"], names: readonly string[], ms: number): Promise<void> {
  const attempts = names.flatMap((name) =>
    agent.find(name).map(async (backend) => {
      await agent.readiness.whenSettled(backend)
      await agent.readiness.whenListed(backend, ms)
    }),
  )
  if (ms > 0) await withTimeout(systemClock, ms, Promise.all(attempts))
}

const oauthControlDeps = (runtime: Runtime): Parameters<typeof answerOAuthControl>[0] => ({
  oauth: runtime.oauth,
  find: (name) => findBackends(runtime, name)[0].spec,
  all: () => runtime.agent.all().map(({ spec }) => spec),
  restart: (name) => {
    for (const backend of findBackends(runtime, name)) runtime.agent.restart(backend)
  },
})

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

/** How long the `context` method waits for servers that are starting. */
const LOADED_MS = 10_000

const READ_ONLY_METHODS: ReadonlySet<string> = new Set([
  "status",
  "health",
  // The reload itself writes an audit entry.
  "reload",
  "tools",
  "approvals",
  "context",
  "results",
  "flush",
  "auth.status",
  "auth.wait",
])
