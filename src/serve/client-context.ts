/**
 * Reads the project context that HTTP clients send: the member `svc/context` in the `_meta` of `initialize`, or of each modern
 * request. Only if the operator trusts clients (`--template-context trusted`).
 */
import { basename } from "node:path"
import * as z from "zod"
import { type Scope, withInstances } from "../catalog/scope.ts"
import { digest } from "../lib/digest.ts"
import { RequestError } from "../lib/errors.ts"
import { withDoubles } from "../lib/json.ts"
import { lazy } from "../lib/lazy.ts"
import { schemaProblem } from "../lib/schema-problem.ts"
import { contextSchema, customSchema, type TemplateContext } from "../template/context-schema.ts"
import { metaOf, type Params } from "../wire/message.ts"
import { META_CONTEXT, type TrustedClientDeps } from "./trusted-client.ts"

/**
 * Returns the scope with the instances for the context in the params. `ready` resolves when they are connected, or after a
 * time limit. Throws a RequestError for an invalid context.
 */
type InContext = (
  scope: Scope,
  params: Params,
  info: unknown,
  transport?: HttpTransport,
) => { scope: Scope; ready: Promise<void> }

/** What templates see as `transport.type`; `http` unless given. */
type HttpTransport = "http" | "sse"

export type ClientContexts = {
  /** For `initialize`, and for a session that is resumed. */
  readonly session: InContext
  /** For a modern request. */
  readonly request: InContext
  /** Releases the instances of the session with this scope. */
  detach(scope: Scope): void
}

/**
 * Attaches instances to clients by their context: one attachment for each legacy session, until `detach`; one for all modern
 * requests with the same context, until IDLE_MS after the last one.
 */
export function createClientContexts(
  { agent, instances, clock, version, wait }: TrustedClientDeps,
  newId: () => string,
): ClientContexts {
  const shared = new Map<string, { readonly scope: Scope; cancelDetach: () => void }>()
  const attach = (scope: Scope, context: TemplateContext) => {
    const attached: Scope = withInstances(scope, () => instances.of(attached))
    instances.attach(attached, context)
    return attached
  }
  const ready = (scope: Scope) => agent.whenLoaded(instances.of(scope), wait)
  const read = (params: Params, client: ClientFacts) => {
    const sent = metaOf(params)?.[META_CONTEXT]
    return sent === undefined ? undefined : contextOf(sent, client, clock.now(), version)
  }
  return {
    session(scope, params, info, type = "http") {
      const context = scope.kind === "server" ? undefined : read(params, { info, type, sessionId: newId() })
      if (context === undefined) return { scope, ready: RESOLVED }
      const attached = attach(scope, context)
      return { scope: attached, ready: ready(attached) }
    },
    request(scope, params, info, type = "http") {
      const context = scope.kind === "server" ? undefined : read(params, { info, type, sessionId: "" })
      if (context === undefined) return { scope, ready: RESOLVED }
      const { timestamp: _, ...rest } = context.context
      const key = digest(JSON.stringify([scope.kind === "server" ? "" : scope.name, { ...context, context: rest }]), 32)
      let found = shared.get(key)
      if (found === undefined) {
        if (shared.size >= MAX_SHARED)
          throw new RequestError("too_many", "Too many contexts are in use; try again later")
        found = { scope: attach(scope, context), cancelDetach: () => undefined }
        shared.set(key, found)
      }
      found.cancelDetach()
      const { scope: attached } = found
      found.cancelDetach = clock.after(IDLE_MS, () => {
        shared.delete(key)
        instances.detach(attached)
      })
      return { scope: attached, ready: ready(attached) }
    },
    detach: (scope) => instances.detach(scope),
  }
}

// ---

const RESOLVED = Promise.resolve()
const MAX_SHARED = 1000
/** A modern client does not announce that it has gone. */
const IDLE_MS = 300_000

const schema = lazy(() =>
  z.object({
    project: contextSchema()
      .shape.project.partial({ name: true, git: true, custom: true })
      .extend({ custom: customSchema().optional() }),
    user: contextSchema().shape.user.partial().optional(),
  }),
)

/** `info`: what the client says about itself. */
type ClientFacts = { readonly info: unknown; readonly type: HttpTransport; readonly sessionId: string }

function contextOf(
  sent: unknown,
  { info, type, sessionId }: ClientFacts,
  now: number,
  version: string,
): TemplateContext {
  const parsed = schema().safeParse(withDoubles(sent), { error: schemaProblem })
  if (!parsed.success) {
    const [problem] = parsed.error.issues
    throw new RequestError(
      "invalid_params",
      `_meta["${META_CONTEXT}"]: ${problem?.path.join(".") ?? ""}: ${problem?.message ?? "is not a context"}`,
    )
  }
  const { project, user } = parsed.data
  const client = contextSchema().shape.transport.shape.client.safeParse(info).data ?? {}
  return {
    project: {
      ...project,
      name: project.name ?? basename(project.path),
      git: project.git ?? {},
      custom: project.custom ?? {},
    },
    user: { ...user, username: user?.username ?? "", home: user?.home ?? "" },
    transport: { type, client },
    context: { path: project.path, timestamp: new Date(now).toISOString(), sessionId, version },
  }
}
