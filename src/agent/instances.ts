/**
 * Decides which template instances run. Each client with a trusted context has the instances that the templates render to in
 * that context. An instance runs while a client has it, and a little longer.
 *
 * An instance is an ordinary spec of the plan: the agent starts, replaces and stops it like any other.
 */
import { EMPTY_PLAN, type Plan, type ServerSpec } from "../config/server-spec.ts"
import type { Clock } from "../lib/clock.ts"
import { ConfigError, type Issue } from "../lib/errors.ts"
import type { Log } from "../lib/log.ts"
import { contextFingerprint } from "../template/context.ts"
import type { TemplateContext } from "../template/context-schema.ts"
import type { Templates } from "../template/instance.ts"
import type { ExpressionCache } from "../template/render.ts"
import type { Agent, Applied } from "./agent.ts"

export type InstancesDeps = {
  readonly agent: Agent
  readonly clock: Clock
  readonly log: Log
  /** Milliseconds that an instance outlives its last client. */
  readonly linger: number
  /** Whether `serve --filter` lets this svc run servers with these tags. */
  selects(spec: ServerSpec): boolean
  /** Returns the plan as this replica of a cluster runs it. */
  place?(plan: Plan): Plan
}

export class Instances {
  private base: Plan = EMPTY_PLAN
  private templates: Templates | undefined
  private expressions: ExpressionCache = new Map()
  private rendered = new Map<string, Rendering>()
  private readonly clients = new Map<object, InstanceClient>()
  /** Clients that have left, but still have running instances; the value cancels the timer that stops these. */
  private readonly lingering = new Map<InstanceClient, () => void>()

  constructor(private readonly deps: InstancesDeps) {}

  /**
   * Replaces the document, and renders the instances of every client again. Throws a ConfigError and changes nothing if
   * `failureMode` is strict and an instance cannot be rendered. Problems that existed before do not count: otherwise one
   * client with an incomplete project would block every change.
   */
  update(base: Plan, templates?: Templates): Applied {
    const before = { templates: this.templates, expressions: this.expressions, rendered: this.rendered }
    this.templates = templates
    this.expressions = new Map()
    this.rendered = new Map()
    const allClients = [...this.clients.values(), ...this.lingering.keys()]
    const renderings = allClients.map(({ context }) => this.render(context))
    const known = new Set(allClients.flatMap(({ rendering }) => rendering.problems))
    const fresh = [...new Set(renderings.flatMap(({ problems }) => problems))].filter((problem) => !known.has(problem))
    if (templates?.settings.failureMode === "strict" && fresh.length > 0) {
      Object.assign(this, before)
      throw new ConfigError(fresh.map(issueOf))
    }
    this.base = base
    allClients.forEach((client, index) => {
      client.rendering = renderings[index] ?? EMPTY_RENDERING
    })
    return this.apply()
  }

  /** Sets the context of a client, which is identified by an object. Returns the problems of rendering in that context. */
  attach(client: object, context: TemplateContext): readonly string[] {
    this.retire(client)
    const rendering = this.render(context)
    for (const problem of rendering.problems) this.deps.log.warn(problem)
    this.clients.set(client, { key: client, context, rendering })
    for (const id of this.apply().added) this.deps.log.info(`${id}: started for ${context.project.path}`)
    this.deps.agent.selectionChanged()
    return rendering.problems
  }

  /** Removes a client; its instances run on for a while. */
  detach(client: object): void {
    this.retire(client)
  }

  /** Returns the ids of a client's instances. */
  of(client: object): ReadonlySet<string> {
    return this.clients.get(client)?.rendering.ids ?? EMPTY_RENDERING.ids
  }

  /** Returns the projects of the clients that use an instance, or used it until a moment ago. */
  projects(id: string): readonly string[] {
    const having = [...this.clients.values(), ...this.lingering.keys()].filter(({ rendering }) => rendering.ids.has(id))
    return [...new Set(having.map(({ context }) => context.project.path))].sort()
  }

  /** Applies the plan again after the result of `place` has changed. */
  reapply(): void {
    this.apply()
  }

  /** Cancels all timers and forgets all clients. */
  close(): void {
    for (const cancel of this.lingering.values()) cancel()
    this.lingering.clear()
    this.clients.clear()
  }

  // ---

  private retire(key: object): void {
    const client = this.clients.get(key)
    if (client === undefined) return
    this.clients.delete(key)
    this.lingerFor(client, this.deps.linger)
    // A client that changes its context often must not keep the processes of every context.
    const earlier = [...this.lingering.keys()].filter((one) => one.key === key)
    for (const one of earlier.slice(0, -MAX_LINGERING)) this.lingerFor(one, 0)
  }

  /**
   * Keeps the instances of a client that has left for `ms` milliseconds, and while a call runs on one that no other client
   * has.
   */
  private lingerFor(client: InstanceClient, ms: number): void {
    this.lingering.get(client)?.()
    const cancel = this.deps.clock.after(ms, () => {
      const kept = new Set([...this.clients.values()].flatMap(({ rendering }) => [...rendering.ids]))
      const busy = [...client.rendering.ids].some((id) => !kept.has(id) && this.deps.agent.isBusy(id))
      if (busy) {
        this.lingerFor(client, BUSY_MS)
        return
      }
      this.lingering.delete(client)
      this.apply()
    })
    this.lingering.set(client, cancel)
  }

  private apply(): Applied {
    const specs = new Map<string, ServerSpec>()
    const problems = new Set<string>()
    for (const { rendering } of [...this.clients.values(), ...this.lingering.keys()]) {
      for (const problem of rendering.problems) problems.add(problem)
      for (const spec of rendering.specs) {
        if (specs.size < MAX_INSTANCES || specs.has(spec.id)) specs.set(spec.id, spec)
        else problems.add(`template ${spec.name}: ${MAX_INSTANCES} instances run already, which is the limit`)
      }
    }
    // Servers, then templates in the order of the file, so that no client's list depends on other clients.
    const order = new Map((this.templates?.order ?? []).map((name, index) => [name, index]))
    const rank = ({ name }: ServerSpec) => order.get(name) ?? -1
    const sorted = [...this.base.specs, ...specs.values()].sort((one, other) => rank(one) - rank(other))
    const plan: Plan = {
      ...this.base,
      specs: sorted.filter((spec) => this.deps.selects(spec)),
      issues: [...this.base.issues, ...[...problems].slice(0, MAX_PROBLEMS).map(issueOf)],
    }
    return this.deps.agent.apply(this.deps.place?.(plan) ?? plan)
  }

  private render(context: TemplateContext): Rendering {
    const { templates } = this
    if (templates === undefined || templates.named.length === 0) return EMPTY_RENDERING
    const key = contextFingerprint(context)
    const known = this.rendered.get(key)
    if (known !== undefined) return known
    const specs: ServerSpec[] = []
    const problems: string[] = []
    for (const template of templates.named) {
      const instance = templates.plan(template, context, this.expressions)
      if (instance.kind === "spec") specs.push(instance.spec)
      else if (instance.kind === "wrong") problems.push(...instance.problems)
    }
    const rendering = { specs, problems, ids: new Set(specs.map(({ id }) => id)) }
    if (templates.settings.cacheContext) {
      if (this.rendered.size >= MAX_RENDERED) this.rendered.clear()
      this.rendered.set(key, rendering)
    }
    return rendering
  }
}

// ---

/** What the templates render to in one context. */
type Rendering = {
  readonly specs: readonly ServerSpec[]
  readonly ids: ReadonlySet<string>
  readonly problems: readonly string[]
}

/** A client and what its context renders to. `key` identifies the client. */
type InstanceClient = { readonly key: object; readonly context: TemplateContext; rendering: Rendering }

const EMPTY_RENDERING: Rendering = { specs: [], ids: new Set(), problems: [] }

/** Bounds the number of processes, even if every request has another context. */
const MAX_INSTANCES = 256
const MAX_RENDERED = 1000
const MAX_PROBLEMS = 50
/** Milliseconds between checks whether a call still runs on an instance that should end. */
const BUSY_MS = 1000
/** Earlier contexts of one client that keep their instances for the usual time. */
const MAX_LINGERING = 3

const issueOf = (message: string): Issue => ({ code: "template", severity: "error", message })
