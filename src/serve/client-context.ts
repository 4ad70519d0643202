/**
 * What HTTP clients say of where they are, for an operator who trusts them (`--template-context trusted`): a member
 * `svc/context` in the `_meta` of `initialize`, or of each modern request. Of everybody else it is not even read.
 */
import { basename } from "node:path"
import * as z from "zod"
import { type Scope, withInstances } from "../catalog/scope.ts"
import { digest } from "../lib/digest.ts"
import { RequestError } from "../lib/errors.ts"
import { withDoubles } from "../lib/json.ts"
import { contextSchema, customSchema, type TemplateContext } from "../template/context.ts"
import { metaOf, type Params } from "../wire/message.ts"
import type { TrustedClientDeps } from "./trusted-client.ts"

const META_CONTEXT = "svc/context"

/** What the client of these params sees, and when its instances are there. Throws a RequestError for what is no context. */
type InContext = (scope: Scope, params: Params, info: unknown) => { scope: Scope; ready: Promise<void> }

export type ClientContexts = {
  /** For `initialize`, and for a session that is taken up again. */
  readonly session: InContext
  /** For a modern request. */
  readonly request: InContext
  /** The session with this scope is over. */
  detach(scope: Scope): void
}

/**
 * `initialize` opens a member for each session, which `leave` ends. modern requests with the same context share one; it
 * ends when none has come for a while.
 */
export function createClientContexts(
  { agent, instances, clock, version, wait }: TrustedClientDeps,
  newId: () => string,
): ClientContexts {
  const shared = new Map<string, { readonly scope: Scope; rest: () => void }>()
  const attach = (scope: Scope, context: TemplateContext) => {
    const own: Scope = withInstances(scope, () => instances.of(own))
    instances.attach(own, context)
    return own
  }
  const ready = (scope: Scope) => agent.whenLoaded(instances.of(scope), wait)
  const read = (params: Params, info: unknown, sessionId: string) => {
    const said = metaOf(params)?.[META_CONTEXT]
    return said === undefined ? undefined : contextOf(said, info, sessionId, clock.now(), version)
  }
  return {
    session(scope, params, info) {
      const context = scope.kind === "server" ? undefined : read(params, info, newId())
      if (context === undefined) return { scope, ready: RESOLVED }
      const own = attach(scope, context)
      return { scope: own, ready: ready(own) }
    },
    request(scope, params, info) {
      const context = scope.kind === "server" ? undefined : read(params, info, "")
      if (context === undefined) return { scope, ready: RESOLVED }
      const { timestamp: _, ...rest } = context.context
      const key = digest(JSON.stringify([scope.kind === "server" ? "" : scope.name, { ...context, context: rest }]), 32)
      let found = shared.get(key)
      if (found === undefined) {
        if (shared.size >= MAX_SHARED) throw new RequestError("too_many", "Too many contexts are in use")
        found = { scope: attach(scope, context), rest: () => undefined }
        shared.set(key, found)
      }
      found.rest()
      const { scope: own } = found
      found.rest = clock.after(REST_MS, () => {
        shared.delete(key)
        instances.detach(own)
      })
      return { scope: own, ready: ready(own) }
    },
    detach: (scope) => instances.detach(scope),
  }
}

// ---

const RESOLVED = Promise.resolve()
const MAX_SHARED = 1000
/** Nobody says that a modern client is gone. */
const REST_MS = 300_000

const schema = z.object({
  project: contextSchema.shape.project
    .partial({ name: true, git: true, custom: true })
    .extend({ custom: customSchema.optional() }),
  user: contextSchema.shape.user.partial().optional(),
})

function contextOf(said: unknown, info: unknown, sessionId: string, now: number, version: string): TemplateContext {
  const parsed = schema.safeParse(withDoubles(said))
  if (!parsed.success) {
    const [problem] = parsed.error.issues
    throw new RequestError(
      "invalid_params",
      `_meta["${META_CONTEXT}"]: ${problem?.path.join(".") ?? ""}: ${problem?.message ?? "is not a context"}`,
    )
  }
  const { project, user } = parsed.data
  const client = contextSchema.shape.transport.shape.client.safeParse(info).data ?? {}
  return {
    project: {
      ...project,
      name: project.name ?? basename(project.path),
      git: project.git ?? {},
      custom: project.custom ?? {},
    },
    user: { ...user, username: user?.username ?? "", home: user?.home ?? "" },
    transport: { type: "http", client },
    context: { path: project.path, timestamp: new Date(now).toISOString(), sessionId, version },
  }
}
