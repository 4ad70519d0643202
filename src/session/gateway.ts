/** What sessions see of the agent, and how the agent's news reach them. */
import type { Agent } from "../agent/agent.ts"
import { STATUS_BY_STATE } from "../backend/supervision.ts"
import { LIST_KEYS } from "../catalog/catalog.ts"
import { UNANSWERED } from "../catalog/listing.ts"
import { qualifiedNames, rewriteNotification } from "../catalog/rewrite.ts"
import { type Scope, sees } from "../catalog/scope.ts"
import type { ServerSpec } from "../config/server-spec.ts"
import { RequestError } from "../lib/errors.ts"
import { asText, notificationText, type Params } from "../wire/message.ts"
import type { Gateway, Listener, Target } from "./client.ts"
import { wantsLog } from "./relay.ts"
import { Session } from "./session.ts"

export type GatewayDeps = Pick<
  Gateway,
  "version" | "mark" | "hide" | "meter" | "maxInFlight" | "pageSize" | "callRate" | "sessionRate" | "audit"
> & {
  readonly agent: Agent
  /** Those that live at the moment. */
  sessions(): Iterable<Session>
  /** Milliseconds that a call waits for a server that is about to be there. */
  readonly startupWaitMs: number
  /** Cleans the text of a server's failure. */
  redact(text: string): string
  /** What a session is made of has changed. */
  onchange(session: Session): void
}

export function createGateway({ agent, sessions, startupWaitMs, redact, onchange, ...given }: GatewayDeps): Gateway {
  const cause = (error: string | undefined) => (error === undefined ? "" : `: ${redact(error).slice(0, MAX_CAUSE)}`)
  const listeners = new Set<Listener>()
  const gateway: Gateway = {
    ...given,
    taskOwners: agent.taskOwners,
    toolbox: undefined,
    catalogOf: (session) => agent.catalogOf(session),
    get initialLoad() {
      return agent.loading
    },
    get stopping() {
      return agent.stopping
    },
    target(id): Target | string {
      const backend = agent.backend(id)
      if (backend === undefined) return "is not configured"
      const { published, spec, state, facts } = backend
      if (published === undefined)
        return `is not available (${STATUS_BY_STATE[state.kind].status}): ${explain(state.kind, cause(facts.lastError))}`
      return { spec, connection: published.open.connection, peer: published.open.peer }
    },
    disconnectedId(scope, slug) {
      const gone = agent
        .all()
        .find(
          ({ published, spec }) =>
            published === undefined && sees(scope, spec) && (scope.kind === "server" || spec.slug === slug),
        )
      return gone?.spec.id
    },
    unlisted(scope, slug, method) {
      for (const { published, spec } of agent.all()) {
        if (published === undefined || !sees(scope, spec) || (scope.kind !== "server" && spec.slug !== slug)) continue
        const reason = published.listing.failing?.[method]
        if (reason === undefined || published.listing[LIST_KEYS[method]].length > 0) continue
        const why = reason === UNANSWERED ? ` ${reason}` : ` failed${cause(reason)}; svc requests it again`
        return { id: spec.id, slug: spec.slug, reason: method + why }
      }
      return undefined
    },
    whenBack: (id) => agent.whenBack(id, startupWaitMs),
    async dedicated(id, owner, caller, capabilities) {
      const backend = await agent.dedicated.open(id, owner, caller, capabilities)
      if (typeof backend === "string") return backend
      if (backend?.published === undefined)
        return `could not be started for this session${cause(backend?.facts.lastError)}; see \`svc logs\``
      const { open } = backend.published
      return { spec: backend.spec, connection: open.connection, peer: open.peer }
    },
    subscribe(id, uri, session) {
      const key = `${id} ${uri}`
      if (session instanceof Session && !session.subscriptions.has(key)) {
        if (session.subscriptions.size >= MAX_SUBSCRIPTIONS || uri.length > MAX_URI)
          throw new RequestError(
            "too_many",
            `A session may be subscribed to ${MAX_SUBSCRIPTIONS} resources of short URIs`,
          )
        session.subscriptions.set(key, [id, uri])
        onchange(session)
      }
      agent.subscriptions.subscribe(id, uri, session)
    },
    unsubscribe(id, uri, session) {
      agent.subscriptions.unsubscribe(id, uri, session)
      if (session instanceof Session && session.subscriptions.delete(`${id} ${uri}`)) onchange(session)
    },
    rememberTask(id, task, session) {
      if (!(session instanceof Session)) return
      session.tasks.set(`${id} ${task}`, [id, task])
      onchange(session)
    },
    setLogLevel(session, level) {
      agent.subscriptions.setLevel(session, level)
      if (!(session instanceof Session) || session.logLevel === level) return
      session.logLevel = level
      onchange(session)
    },
    dropLogLevel: (session) => agent.subscriptions.dropLevel(session),
    notifyBackend({ scope, session }, method, params) {
      const own = agent.dedicated.of(session)
      // What a shared server is told of one client's roots, it would believe of all.
      const roots = method === "notifications/roots/list_changed"
      const only = scope.kind === "server" ? (own.get(scope.id) ?? agent.backend(scope.id)) : undefined
      for (const backend of roots ? own.values() : only === undefined ? [] : [only]) {
        const open = backend.published?.open
        if (open?.peer.era === "legacy") open.connection.notify(method, params)
      }
    },
    listen(listener) {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
  }
  agent.observe({
    oncatalog(only) {
      for (const session of sessions()) if (only === undefined || only === session) session.catalogChanged(gateway)
      if (only !== undefined) return
      for (const listener of listeners) listener.catalogChanged()
    },
    onnotification(spec, method, params) {
      const updated = method === "notifications/resources/updated"
      const subscribed = updated ? agent.subscriptions.subscribersOf(spec.id, asText(params.uri)) : undefined
      for (const session of sessions()) {
        if (!sees(session.scope, spec)) continue
        if (method === "notifications/message" && !wantsLog(session, params.level)) continue
        if (subscribed?.has(session) === false) continue
        session.notify(notificationText(method, named(session.scope, spec, method, params)))
      }
      if (!updated) return
      for (const listener of listeners) {
        if (!sees(listener.client.scope, spec)) continue
        const shown = named(listener.client.scope, spec, method, params)
        listener.updated(asText(shown.uri), shown)
      }
    },
  })
  return gateway
}

// ---

const MAX_CAUSE = 300
/** Each is told to the backend, and all are written down with the session. */
const MAX_SUBSCRIPTIONS = 1000
const MAX_URI = 4096

const named = (scope: Scope, spec: ServerSpec, method: string, params: Params): Params =>
  scope.kind === "aggregate" ? rewriteNotification(method, params, qualifiedNames(spec.slug)) : params

/** Says what a server is doing that is not there; `cause` is what it was lost for. */
function explain(kind: keyof typeof STATUS_BY_STATE, cause: string): string {
  switch (kind) {
    case "starting":
      return "it is starting"
    case "waiting":
    case "recovering":
      return `it is being restarted${cause}`
    case "crashed":
      return `it crashed too often${cause}; restart it with \`svc mcp restart\``
    case "failed":
      return `it could not be started or was lost${cause}; see \`svc mcp status\``
    case "unauthorized":
      return "it wants authorization; see `svc mcp status`"
    case "stopped":
    case "connected":
      return "it is stopped"
  }
}
