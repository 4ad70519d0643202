/**
 * A client with a trusted context, because it runs on this machine as this user. It sees instances of templates, rendered for
 * its project. choice: Templates see context only from a trusted source.
 */
import type { Agent } from "../agent/agent.ts"
import type { Instances } from "../agent/instances.ts"
import { createScope, type Scope, withInstances, withTools } from "../catalog/scope.ts"
import type { ServerQuery } from "../catalog/selection.ts"
import type { ToolListing } from "../config/tool-listing.ts"
import type { Clock } from "../lib/clock.ts"
import { buildContext, type ContextFacts } from "../template/context.ts"
import type { TemplateContext } from "../template/context-schema.ts"
import type { Params } from "../wire/message.ts"

/** The member of `_meta` in which a client on HTTP sends its context. */
export const META_CONTEXT = "svc/context"

/** The project in which the client runs. */
export type ProjectContext = {
  readonly project: Omit<ContextFacts, "transport" | "sessionId" | "now" | "version">
  /** The servers that its `.svcrc` and its options select. */
  readonly queries: readonly ServerQuery[]
}

export type TrustedClientDeps = {
  readonly agent: Agent
  readonly instances: Instances
  readonly clock: Clock
  readonly version: string
  /** The most milliseconds that the first request waits for the instances. */
  readonly wait: number
  /** Which tools svc lists to clients by default. */
  readonly tools: ToolListing
}

export type TrustedClient = {
  readonly scope: Scope
  /** Starts the instances for the client's name and version. Resolves when they are connected, or after `wait`. */
  initialize(info: Params): Promise<void>
  /** Replaces the project. Throws a RequestError and changes nothing if its queries are invalid. */
  updateContext(project: ProjectContext): void
  /** Releases the instances. */
  detach(): void
}

/**
 * Creates a trusted client. Calls `note` with the reason for each server that the client does not receive. Throws a
 * RequestError if its queries are invalid.
 */
export function createTrustedClient(
  first: ProjectContext,
  sessionId: string,
  deps: TrustedClientDeps,
  note: (text: string) => void = () => undefined,
): TrustedClient {
  const { agent, instances, clock, version, wait } = deps
  const key = {}
  let current = first
  let client: TemplateContext["transport"]["client"] | undefined
  const attach = () => {
    const transport = { type: "stdio" as const, client: client ?? {} }
    const context = buildContext({ ...current.project, transport, sessionId, now: clock.now(), version })
    for (const problem of instances.attach(key, context)) note(problem)
  }
  const selected = createScope(
    () => current.queries,
    () => agent.presets,
  )
  return {
    scope: withInstances(withTools(selected, deps.tools), () => instances.of(key)),
    initialize({ name, version: clientVersion }) {
      client = {
        ...(typeof name === "string" ? { name: name.slice(0, MAX_TEXT) } : {}),
        ...(typeof clientVersion === "string" ? { version: clientVersion.slice(0, MAX_TEXT) } : {}),
      }
      attach()
      return agent.whenLoaded(instances.of(key), wait)
    },
    updateContext(project) {
      // Validates the queries.
      createScope(
        () => project.queries,
        () => agent.presets,
      )
      current = project
      if (client !== undefined) attach()
    },
    detach: () => instances.detach(key),
  }
}

// ---

const MAX_TEXT = 256
