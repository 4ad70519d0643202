/** The requests that svc's own commands may send to a running svc over the control socket. */
import type { ReloadResult } from "../agent/reload.ts"
import { type Need, needOf } from "../agent/sleepers.ts"
import type { Backend } from "../backend/backend.ts"
import { isDozing } from "../backend/supervision.ts"
import { knownTools } from "../catalog/listing.ts"
import { presetsOf } from "../catalog/selection.ts"
import { hidesEveryTool, toolRows, unknownOverrides } from "../catalog/tool-settings.ts"
import { elsewhereText, type ServerSpec, slugOf } from "../config/server-spec.ts"
import { delay, systemClock, withTimeout } from "../lib/clock.ts"
import { formatIssue, RequestError, UnavailableError } from "../lib/errors.ts"
import { unknownNameError } from "../lib/nearest.ts"
import { counted } from "../lib/text.ts"
import { version } from "../lib/version.ts"
import { HEALTH_LEVELS } from "../report/health.ts"
import { statusOf, withProjects, withResultSizes } from "../report/status.ts"
import type { ControlDispatch } from "../serve/control-socket.ts"
import { reportAt } from "../serve/health.ts"
import type { Handover } from "../serve/system.ts"
import { isObject, type Params } from "../wire/message.ts"
import { type AdminInterface, answerOAuthControl, type InternalTools } from "./features.ts"
import { contextOffer } from "./offered-texts.ts"
import type { Runtime } from "./runtime.ts"

export type ControlDeps = {
  readonly runtime: Runtime
  /** The root address at which programs of this machine reach svc, or `unix:` and the path of its socket. */
  readonly url: string
  /** The address of MCP for clients; undefined for a Unix socket. */
  readonly endpoint: string | undefined
  /** Whether clients can rely on that address: svc is a service, or has an external URL. */
  readonly keepsAddress: boolean
  /** Whether svc serves its demo in place of the configuration. */
  readonly demo?: true | undefined
  /** Returns why svc refuses all tokens of clients now; undefined if it does not. */
  tokensProblem(): string | undefined
  /**
   * Applies the current content of the files, and returns the outcome of the last reload; undefined with --no-reload. `fresh` reloads in
   * any case, and asks for the values of all references anew.
   */
  follow(fresh?: boolean): Promise<ReloadResult | undefined>
  tools(): Promise<InternalTools>
  /** Stops svc as a signal does. */
  interrupt(reason: string): void
  /** Undefined with `--no-admin`. */
  readonly admin: Pick<AdminInterface, "calls" | "invite"> | undefined
  /** Opens the handover to a successor; undefined for a demo, and without the feature. */
  readonly handover: (() => Promise<Handover | undefined>) | undefined
}

/** Returns the dispatch of control methods; methods that change something are audited like calls of clients. */
export const createControlDispatch =
  (deps: ControlDeps): ControlDispatch =>
  async (method, params, gone) => {
    const { audited, answer } = methodNamed(method)
    const end = audited ? deps.runtime.audit?.action(method, params) : undefined
    try {
      const result = await answer(deps, params, gone)
      end?.(isObject(result) && result.isError === true ? "error" : "ok")
      return result
    } catch (error) {
      end?.("error")
      throw error
    }
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

/** Throws a RequestError if another replica has the process of a server. */
function refuseElsewhere(spec: ServerSpec, command: Parameters<typeof elsewhereText>[1]): void {
  const where = elsewhereText(spec, command)
  if (where !== undefined) throw new RequestError("conflict", where)
}

/** Returns why a server may not sleep, and what its operator can do. */
function awakeReason(need: Need, name: string): string {
  switch (need.kind) {
    case "calls":
      return `is working on ${counted(need.count, "call")}; try again later`
    case "open":
      return `has a task, a subscription or a question that is open; try again later, or end it with \`svc mcp restart ${name}\``
    case "lists":
      return "has not answered all its lists: asleep, it would offer less"
  }
}

type AnswerControl = (deps: ControlDeps, params: Params, gone: AbortSignal) => unknown

type ControlMethod = { readonly audited: boolean; readonly answer: AnswerControl }

const plain = (answer: AnswerControl): ControlMethod => ({ audited: false, answer })
const audited = (answer: AnswerControl): ControlMethod => ({ audited: true, answer })

/** Returns the methods of `svc auth`, which `answer` answers by their names. */
function signInMethods(
  answer: (deps: ControlDeps, name: string, params: Params) => unknown,
): Readonly<Record<string, ControlMethod>> {
  const named =
    (name: string): AnswerControl =>
    (deps, params) =>
      answer(deps, name, params)
  return {
    ...Object.fromEntries(["auth.status", "auth.wait"].map((name) => [name, plain(named(name))])),
    ...Object.fromEntries(
      ["auth.begin", "auth.callback", "auth.finish", "auth.logout"].map((name) => [name, audited(named(name))]),
    ),
  }
}

const METHODS: Readonly<Record<string, ControlMethod>> = {
  status: plain(statusHere),
  health: plain(({ runtime }, { level: wanted, path }) => {
    const level = HEALTH_LEVELS.find((one) => one === wanted) ?? "full"
    const redactAll = runtime.redactor().maskCredentials
    const found = reportAt(String(path))?.({ facts: runtime.facts, level, redactAll }, runtime.agent.snapshot())
    if (found === undefined) throw new RequestError("invalid_params", `there is no health report at ${path}`)
    return { ok: found.status < 400, body: found.body }
  }),
  cluster: audited(({ runtime: { cluster } }) => {
    if (cluster !== undefined) return cluster.report()
    throw new UnavailableError("this svc is not part of a cluster; start it with `svc serve --cluster URL`")
  }),
  restart: audited(async ({ runtime, follow }, { name }) => {
    await follow()
    const wanted = typeof name === "string" ? findBackends(runtime, name) : runtime.agent.all()
    if (name !== undefined) for (const { spec } of wanted) refuseElsewhere(spec, "restart")
    for (const backend of wanted) runtime.agent.restart(backend)
    return { restarted: wanted.map(({ spec }) => spec.id) }
  }),
  wake: audited(async ({ runtime, follow }, { name }) => {
    await follow()
    const { agent } = runtime
    const wanted = findBackends(runtime, String(name))
    const asleep = new Set(agent.snapshot().backends.flatMap(({ spec, asleep }) => (asleep ? [spec.id] : [])))
    for (const { spec } of wanted) if (asleep.has(spec.id)) refuseElsewhere(spec, "start")
    for (const backend of wanted)
      if (backend.state.kind === "failed" || backend.state.kind === "crashed") agent.restart(backend)
      else backend.wake()
    await Promise.all(wanted.map((backend) => agent.readiness.whenSettled(backend)))
    return { started: wanted.map(({ spec }) => spec.id) }
  }),
  sleep: audited(({ runtime }, { name }) => {
    const wanted = findBackends(runtime, String(name))
    for (const backend of wanted) {
      const { spec, published, state } = backend
      refuseElsewhere(spec, "sleep")
      if (spec.launch.transport !== "stdio")
        throw new RequestError("invalid_params", `${spec.name} is a remote server: svc runs no process of it`)
      if (spec.tuning.isolation === "session")
        throw new RequestError("invalid_params", `${spec.name} has a process for each session, which ends with it`)
      const need = needOf(backend, (id) => runtime.agent.isNeeded(id))
      if (need !== undefined) throw new RequestError("conflict", `${spec.name} ${awakeReason(need, spec.name)}`)
      if (state.kind === "waking" || state.kind === "awake")
        throw new RequestError("conflict", `${spec.name} is starting for a call; try again later`)
      if (published === undefined && !isDozing(state)) throw new UnavailableError(`${spec.name} is not connected`)
      backend.sleep()
    }
    return { asleep: wanted.map(({ spec }) => spec.id) }
  }),
  // The reload itself writes an audit entry.
  reload: plain(async (deps, { names, wait, fresh }) => {
    const { agent, cluster } = deps.runtime
    const reloaded = await deps.follow(fresh === true)
    await settled(agent, Array.isArray(names) ? names.map(String) : [], typeof wait === "number" ? wait : 0)
    return {
      followed: reloaded !== undefined,
      applied: reloaded?.applied !== undefined,
      issues: (reloaded?.issues ?? []).map(formatIssue),
      status: statusHere(deps),
      away: cluster?.facts().state === "away" ? cluster.place : undefined,
    }
  }),
  tool: audited(async ({ tools }, params, gone) => (await tools()).run(params, gone)),
  approve: audited(async ({ runtime }, params) => {
    const { approveTools } = await import("../report/approvals.ts")
    const [{ spec }] = findBackends(runtime, String(params.name))
    const [tool, hash] = [params.tool, params.hash].map((one) => (typeof one === "string" ? one : undefined))
    return { server: spec.name, approved: approveTools(runtime.agent, spec.name, tool, hash) }
  }),
  approvals: plain(async ({ runtime }, { name, tool, from = 0 }) => {
    const { approvalsOf, pendingChanges } = await import("../report/approvals.ts")
    const [{ spec }] = findBackends(runtime, String(name))
    const found = pendingChanges(runtime.agent, spec.name).filter((one) => tool === undefined || one.tool === tool)
    const approvals = approvalsOf(runtime.agent, found.slice(Number(from)))
    const next = Number(from) + approvals.length
    return { approvals, ...(next < found.length ? { next } : {}) }
  }),
  tools: plain(({ runtime }, { name, disabledTools }) => {
    const instances = findBackends(runtime, String(name))
    const [backend] = instances
    const { spec, listing } = backend
    if (listing === undefined) throw new UnavailableError(`${spec.name} is not connected`)
    const known = knownTools(listing)
    return {
      tools: toolRows(spec, known, (tool) => runtime.agent.isQuarantined(backend, tool)),
      unknownOverrides: unknownOverrides(spec, known),
      ...(Array.isArray(disabledTools) ? { hidesEveryTool: hidesEveryTool(instances, disabledTools.map(String)) } : {}),
    }
  }),
  preset: plain(async ({ runtime }, { preset }) => {
    const { presetReport } = await import("../report/preset-report.ts")
    const { agent, scopeOf } = runtime
    await agent.whenLoaded(undefined, LOADED_MS)
    const names = String(preset)
    const scope = scopeOf(`?tools=all&preset=${encodeURIComponent(names)}`)
    return presetReport(agent.catalog, scope, presetsOf(names, agent.presets))
  }),
  context: plain(({ runtime }, params) => contextOffer(runtime, params, LOADED_MS)),
  results: plain(({ runtime }, { server }) =>
    runtime.resultSizes.report(typeof server === "string" ? server : undefined),
  ),
  wire: audited(({ runtime }, { name }) => {
    const [{ spec }] = findBackends(runtime, String(name))
    runtime.wire.watch(spec.name, WATCHED_MS)
    return { server: spec.name }
  }),
  flush: plain(({ runtime }) => runtime.serverLogs.flush()),
  admin: audited(({ admin, endpoint }, { token }) => served(admin).invite(endpoint, token === true)),
  calls: plain(({ admin }, { after }) => ({ calls: served(admin).calls(typeof after === "number" ? after : 0) })),
  takeover: audited(async ({ handover }, { program }) => ({
    pid: await given(await handover?.()).start(String(program)),
  })),
  handover: audited(async ({ handover }, { pid }) => {
    given(await handover?.()).accept(Number(pid))
    return { pid: process.pid }
  }),
  stop: audited(({ interrupt }) => {
    // Stops after the answer, because the control socket closes then.
    void delay(systemClock, 0).then(() => interrupt("svc stop"))
    return { pid: process.pid }
  }),
  ...signInMethods(({ runtime }, name, params) => answerOAuthControl(oauthControlDeps(runtime), name, params)),
}

/** How long a request to watch a server lasts; the watcher renews it. */
const WATCHED_MS = 30_000

function methodNamed(name: string): ControlMethod {
  const method = Object.hasOwn(METHODS, name) ? METHODS[name] : undefined
  if (method !== undefined) return method
  return audited(() => {
    throw new RequestError(
      "unknown_method",
      `this svc (version ${version}) does not know ${name}; restart it after an update`,
    )
  })
}

/** Returns REST with the admin page; throws an UnavailableError that says why if svc does not serve it. */
function served<Admin>(admin: Admin | undefined): Admin {
  if (admin === undefined)
    throw new UnavailableError("this svc has no REST and no admin page: it was started with --no-admin")
  return admin
}

function given<Value>(value: Value | undefined): Value {
  if (value === undefined) throw new UnavailableError("the demo has no successor")
  return value
}

/** Masks only credentials: the operator needs paths and addresses. */
function statusHere({ runtime, url, endpoint, keepsAddress, demo, tokensProblem }: ControlDeps) {
  const { agent, cluster, instances, redactor } = runtime
  const found = statusOf(agent.snapshot(), systemClock.now(), redactor().maskCredentials)
  const refused = tokensProblem()
  const sharedState = cluster?.problem()
  return {
    ...withProjects(withResultSizes(found, runtime.resultSizes), (id) => instances.projects(id)),
    ...(refused === undefined ? {} : { issues: [...found.issues, refused] }),
    ...(sharedState === undefined ? {} : { sharedState }),
    pid: process.pid,
    version,
    url,
    endpoint,
    keepsAddress,
    demo,
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

/** How long the `context` method waits for servers that are starting. */
const LOADED_MS = 10_000
