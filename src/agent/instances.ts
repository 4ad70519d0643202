/**
 * Who needs which instance of which template. A member is a client whose context is trusted; its instances are what the
 * templates come to in that context, and an instance runs as long as it has a member, and a little longer.
 *
 * An instance is an ordinary spec of the plan: starting, replacing and stopping it is the agent's work, as for any other.
 */

import { EMPTY_PLAN, type Plan, type ServerSpec } from "../config/server-spec.ts"
import type { Clock } from "../lib/clock.ts"
import { ConfigError, type Issue } from "../lib/errors.ts"
import type { Log } from "../lib/log.ts"
import { contextKey, type TemplateContext } from "../template/context.ts"
import { planInstance, type Templates } from "../template/instance.ts"
import type { ExpressionCache } from "../template/render.ts"
import type { Agent, Applied } from "./agent.ts"

export type InstancesDeps = {
  readonly agent: Agent
  readonly clock: Clock
  readonly log: Log
  /** Milliseconds that an instance outlives its last member. */
  readonly linger: number
  /** Which servers this svc is to run at all, by their tags: `serve --filter`. */
  selects(tags: readonly string[]): boolean
}

export class Instances {
  private base: Plan = EMPTY_PLAN
  private templates: Templates | undefined
  private expressions: ExpressionCache = new Map()
  private rendered = new Map<string, Rendering>()
  private readonly clients = new Map<object, InstanceClient>()
  /** Gone, and not forgotten yet. */
  private readonly lingering = new Map<InstanceClient, () => void>()

  constructor(private readonly deps: InstancesDeps) {}

  /**
   * Another document: every member's instances are rendered anew. Throws a ConfigError, with nothing changed, where one
   * cannot be and the document says `strict`. What could not be rendered before is no reason: a client whose project lacks
   * something would hold up everybody's changes.
   */
  update(base: Plan, templates?: Templates): Applied {
    const before = { templates: this.templates, expressions: this.expressions, rendered: this.rendered }
    this.templates = templates
    this.expressions = new Map()
    this.rendered = new Map()
    const allClients = [...this.clients.values(), ...this.lingering.keys()]
    const renderings = allClients.map(({ context }) => this.render(context))
    const known = new Set(allClients.flatMap(({ rendering }) => rendering.problems))
    const made = [...new Set(renderings.flatMap(({ problems }) => problems))].filter((problem) => !known.has(problem))
    if (templates?.settings.failureMode === "strict" && made.length > 0) {
      Object.assign(this, before)
      throw new ConfigError(made.map(issueOf))
    }
    this.base = base
    allClients.forEach((client, index) => {
      client.rendering = renderings[index] ?? EMPTY_RENDERING
    })
    return this.apply()
  }

  /** A client, under the object that stands for it, has this context from now on. Gives what cannot be rendered in it. */
  attach(client: object, context: TemplateContext): readonly string[] {
    this.retire(client)
    const rendering = this.render(context)
    for (const problem of rendering.problems) this.deps.log.warn(problem)
    this.clients.set(client, { key: client, context, rendering })
    this.apply()
    this.deps.agent.selectionChanged()
    return rendering.problems
  }

  /** The client is gone. */
  detach(client: object): void {
    this.retire(client)
  }

  /** The ids of a client's instances. */
  of(client: object): ReadonlySet<string> {
    return this.clients.get(client)?.rendering.ids ?? EMPTY_RENDERING.ids
  }

  /** Ends the waiting. */
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
    // A client that moves often does not keep a process of each place where it has been.
    const left = [...this.lingering.keys()].filter((one) => one.key === key)
    for (const one of left.slice(0, -MAX_LINGERING)) this.lingerFor(one, 0)
  }

  /** Keeps the instances of who is gone for a while, and as long as a call runs on one that nobody else keeps. */
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
        else problems.add(`template ${spec.name}: there are ${MAX_INSTANCES} instances already`)
      }
    }
    // As the templates stand in the file: who else is there, and who came first, changes nobody's list.
    const rank = new Map((this.templates?.named ?? []).map(({ name }, index) => [name, index]))
    const sorted = [...specs.values()].sort((one, other) => (rank.get(one.name) ?? 0) - (rank.get(other.name) ?? 0))
    return this.deps.agent.apply({
      ...this.base,
      specs: [...this.base.specs, ...sorted].filter(({ tuning }) => this.deps.selects(tuning.tags)),
      issues: [...this.base.issues, ...[...problems].slice(0, MAX_PROBLEMS).map(issueOf)],
    })
  }

  private render(context: TemplateContext): Rendering {
    const { templates } = this
    if (templates === undefined || templates.named.length === 0) return EMPTY_RENDERING
    const key = contextKey(context)
    const known = this.rendered.get(key)
    if (known !== undefined) return known
    const { defaults, world, settings } = templates
    const specs: ServerSpec[] = []
    const problems: string[] = []
    for (const { name, config } of templates.named) {
      const instance = planInstance(name, config, context, defaults, world, this.expressions)
      if (instance.kind === "spec") specs.push(instance.spec)
      else if (instance.kind === "wrong") problems.push(...instance.problems)
    }
    const rendering = { specs, problems, ids: new Set(specs.map(({ id }) => id)) }
    if (settings.cacheContext) {
      if (this.rendered.size >= MAX_RENDERED) this.rendered.clear()
      this.rendered.set(key, rendering)
    }
    return rendering
  }
}

// ---

type Rendering = {
  readonly specs: readonly ServerSpec[]
  readonly ids: ReadonlySet<string>
  readonly problems: readonly string[]
}

/** `key` stands for the client. */
type InstanceClient = { readonly key: object; readonly context: TemplateContext; rendering: Rendering }

const EMPTY_RENDERING: Rendering = { specs: [], ids: new Set(), problems: [] }

/** A context that differs with every request must not start processes without end. */
const MAX_INSTANCES = 256
const MAX_RENDERED = 1000
const MAX_PROBLEMS = 50
const BUSY_MS = 1000
const MAX_LINGERING = 3

const issueOf = (message: string): Issue => ({ code: "template", severity: "error", message })
