/**
 * A client whose context is trusted: it runs on this machine as this user, or the operator said so. It sees instances of
 * templates, rendered for it. choice: Templates see context only from a trusted source.
 */
import type { Agent } from "../agent/agent.ts"
import type { Instances } from "../agent/instances.ts"
import { createScope, type Scope, withInstances } from "../catalog/scope.ts"
import type { ServerQuery } from "../catalog/selection.ts"
import type { Clock } from "../lib/clock.ts"
import { buildContext, type ContextFacts, type TemplateContext } from "../template/context.ts"
import type { Params } from "../wire/message.ts"

/** What was found out where the client runs. */
export type ProjectContext = {
  readonly project: Omit<ContextFacts, "transport" | "sessionId" | "now" | "version">
  /** What its `.svcrc` and its options select. */
  readonly queries: readonly ServerQuery[]
}

export type TrustedClientDeps = {
  readonly agent: Agent
  readonly instances: Instances
  readonly clock: Clock
  readonly version: string
  /** Milliseconds that the first request waits for the instances. */
  readonly wait: number
}

export type TrustedClient = {
  readonly scope: Scope
  /** The client said who it is: its instances are started. Resolves when they are there, or after `wait`. */
  initialize(info: Params): Promise<void>
  /** It is somewhere else now. Throws a RequestError, with nothing changed, where its queries cannot be followed. */
  updateContext(surroundings: ProjectContext): void
  detach(): void
}

/**
 * A client in its surroundings. `note` is told of the servers that it does not get, and why. Throws a RequestError where its
 * queries cannot be followed.
 */
export function createTrustedClient(
  first: ProjectContext,
  sessionId: string,
  type: TemplateContext["transport"]["type"],
  deps: TrustedClientDeps,
  note: (text: string) => void = () => undefined,
): TrustedClient {
  const { agent, instances, clock, version, wait } = deps
  const key = {}
  let now = first
  let client: TemplateContext["transport"]["client"] | undefined
  const attach = () => {
    const transport = { type, client: client ?? {} }
    const context = buildContext({ ...now.project, transport, sessionId, now: clock.now(), version })
    for (const problem of instances.attach(key, context)) note(problem)
  }
  return {
    scope: withInstances(
      createScope(
        () => now.queries,
        () => agent.presets,
      ),
      () => instances.of(key),
    ),
    initialize({ name, version: its }) {
      client = {
        ...(typeof name === "string" ? { name: name.slice(0, MAX_TEXT) } : {}),
        ...(typeof its === "string" ? { version: its.slice(0, MAX_TEXT) } : {}),
      }
      attach()
      return agent.whenLoaded(instances.of(key), wait)
    },
    updateContext(surroundings) {
      createScope(
        () => surroundings.queries,
        () => agent.presets,
      )
      now = surroundings
      if (client !== undefined) attach()
    },
    detach: () => instances.detach(key),
  }
}

// ---

const MAX_TEXT = 256
