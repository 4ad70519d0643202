/** Connects the ports of the call path to the agent, and passes the agent's notifications to sessions. */

import type { Agent } from "../agent/agent.ts"
import type { Backend } from "../backend/backend.ts"
import { loginHint, TAKEN_OVER } from "../backend/client-transport.ts"
import { isDozing, STATUS_BY_STATE } from "../backend/supervision.ts"
import type { Directory, Gateway, Listener, Notifications, Stage, Target } from "../call/ports.ts"
import { LIST_KEYS, type View } from "../catalog/catalog.ts"
import { UNANSWERED } from "../catalog/listing.ts"
import { qualifiedNames, rewriteNotification } from "../catalog/rewrite.ts"
import { type Scope, scopeIncludes } from "../catalog/scope.ts"
import { shapeAllows } from "../catalog/view-rules.ts"
import { runsElsewhere, type ServerSpec } from "../config/server-spec.ts"
import { type Clock, delay, formatDuration } from "../lib/clock.ts"
import type { Marker } from "../lib/seal.ts"
import { stateOf } from "../report/server-state.ts"
import type { Era } from "../wire/era.ts"
import { asText, notificationText, type Params } from "../wire/message.ts"
import { wantsLog } from "./relay.ts"
import type { Session } from "./session.ts"
import { throughStages } from "./stages.ts"

export type GatewayDeps = Pick<
  Gateway,
  "version" | "limits" | "observers" | "ownTools" | "hide" | "replicas" | "changes"
> & {
  /** The stages of features. */
  readonly stages: readonly Stage[]
  readonly agent: Agent
  readonly clock: Clock
  /** Authenticates the owners of task ids. */
  readonly mark: Marker
  /** Returns the current sessions. */
  sessions(): Iterable<Session>
  /** Milliseconds that a call waits for a server that is starting or reconnecting. */
  readonly startupWaitMs: number
  /** Which servers this replica of a cluster runs for all; undefined for a single svc. */
  readonly leases?: Leases | undefined
  /** Masks secrets, paths and addresses in the text of a server's failure. */
  redact(text: string): string
}

type Leases = {
  /** Returns whether this replica may run a server, and stops one that it may not run any more. */
  check(id: string): boolean
  /** Returns the other replica that runs a server; undefined if there is none. */
  runnerOf(id: string): string | undefined
  /** Whether calls that have not begun wait for the next owner of a server. */
  isHandingOver(id: string): boolean
  /** Resolves when the next owner is known, or when calls should no longer wait for it. */
  whenHandedOver(id: string): Promise<void>
}

export function createGateway(deps: GatewayDeps): Gateway {
  const { agent, version, limits, observers, ownTools, stages, hide, mark, replicas, changes } = deps
  const listeners = new Set<Listener>()
  const gateway: Gateway = {
    version,
    limits,
    observers,
    ownTools,
    toServer: throughStages(stages),
    hide,
    replicas,
    changes,
    lists: new WeakMap(),
    directory: createDirectory(deps),
    notifications: createNotifications(agent, listeners),
    tasks: { mark, owners: agent.taskOwners },
  }
  agent.observe(createObserver(gateway, listeners, deps))
  return gateway
}

/** Returns why a server is not connected; `cause` is the reason for its loss. */
export function absenceReason(
  { state, facts, spec }: Pick<Backend, "state" | "facts" | "spec">,
  cause: string,
  now: number,
): string {
  const isLost = state.kind === "waiting" || state.kind === "recovering"
  if (isLost && runsElsewhere(spec)) return TAKEN_OVER
  switch (state.kind) {
    case "starting": {
      const ms = now - state.since
      if (ms < SLOW_MS) return "is starting; try again in a moment"
      const limit = formatDuration(spec.tuning.connectionTimeout)
      return `has not answered since it started ${Math.floor(ms / 1000)} s ago (limit ${limit})`
    }
    case "waiting":
      return `is down${cause}; next try in ${Math.max(1, Math.ceil((state.retryAt - now) / 1000))} s`
    case "recovering":
      return `is down${cause}; it is being started again`
    case "crashed":
      return `is down${cause}; it crashed too often: restart it with \`svc mcp restart\``
    case "failed":
      return `is down${cause}; see \`svc mcp status\``
    case "unauthorized":
      if (facts.refusal !== "sign-in needed") return facts.lastError ?? ""
      // Without a person to sign in, as with a grant that failed, only the reason helps.
      return cause === "" || facts.lastError === loginHint(spec.name)
        ? "needs a sign-in; see `svc mcp status`"
        : cause.slice(": ".length)
    case "asleep":
    case "waking":
      return "is being started; try again in a moment"
    case "stopped":
    case "awake":
    case "connected":
      return "is stopped"
  }
}

// ---

function createDirectory({ agent, clock, startupWaitMs, leases, redact, hide }: GatewayDeps): Directory {
  /** Keeps the host of the server's own address: clients may know which server is down. */
  const cause = (error: string | undefined, { launch }: ServerSpec) => {
    if (error === undefined) return ""
    const host = launch.transport === "stdio" ? undefined : new URL(launch.url).host
    const text = host === undefined ? redact(error) : hide(error).split(host).map(redact).join(host)
    return `: ${text.slice(0, MAX_CAUSE)}`
  }
  /** Selects servers that do not run by the same tags as running ones. */
  const idleIn = (scope: Scope) =>
    agent
      .idle()
      .filter(({ name, tags }) => (scope.kind === "aggregate" || scope.id === name) && scope.selects?.(tags) !== false)
  return {
    catalogOf: (session) => agent.catalogOf(session),
    get initialLoad() {
      return agent.loading
    },
    get stopping() {
      return agent.stopping
    },
    target(id, era): Target | string {
      const backend = agent.backend(id)
      if (backend === undefined) {
        const idle = agent.idle().find(({ name }) => name === id)
        return idle === undefined ? "is not configured" : hide(idle.reason).slice(0, MAX_CAUSE)
      }
      const { published, spec, state, facts } = backend
      if (published === undefined)
        return absenceReason({ state, facts, spec }, cause(facts.lastError, spec), clock.now())
      const { pair } = published.open
      const { connection, peer } = pair === undefined || era === undefined ? published.open : pair.of(era)
      return pair === undefined ? { spec, connection, peer } : { spec, connection, peer, pair }
    },
    freshen: ({ parts }, session, method) => agent.freshen(idsOf(parts), session, method),
    listWith: (id, session, method, meta) => agent.listWith(id, session, method, meta),
    prepare: (id, era) => agent.backend(id)?.published?.open.pair?.prepare(era),
    disconnectedId(scope, slug) {
      const found = agent
        .all()
        .find(
          ({ listing, spec }) =>
            listing === undefined && scopeIncludes(scope, spec) && (scope.kind === "server" || spec.slug === slug),
        )
      const idle = idleIn(scope).find((one) => scope.kind === "server" || one.slug === slug)
      return found?.spec.id ?? idle?.name
    },
    unavailable: (scope) => [
      ...agent
        .snapshot()
        .backends.filter(
          ({ spec, state }) => STATUS_BY_STATE[state.kind].status !== "connected" && scopeIncludes(scope, spec),
        )
        .map((backend) => ({ slug: backend.spec.slug, state: stateOf(backend, clock.now()) })),
      ...idleIn(scope),
    ],
    unlisted(scope, slug, method) {
      for (const { published, spec } of agent.all()) {
        if (published === undefined || !scopeIncludes(scope, spec) || (scope.kind !== "server" && spec.slug !== slug))
          continue
        const reason = published.listing.failing?.[method]
        if (reason === undefined || published.listing[LIST_KEYS[method]].length > 0) continue
        const why = reason === UNANSWERED ? ` ${reason}` : ` failed${cause(reason, spec)}; svc requests it again`
        return { id: spec.id, slug: spec.slug, reason: method + why }
      }
      return undefined
    },
    takesCalls(id, begins) {
      if (leases !== undefined && agent.backend(id)?.spec.tuning.replicas === "one") {
        leases.check(id)
        if (begins && leases.isHandingOver(id)) return false
      }
      const backend = agent.backend(id)
      return backend?.published !== undefined && backend.state.kind !== "awake"
    },
    isAsleep(id) {
      const backend = agent.backend(id)
      return backend !== undefined && isDozing(backend.state)
    },
    mayRun: (id) => leases?.check(id) !== false,
    runnerOf: (id) => leases?.runnerOf(id),
    whenBack(id) {
      const back = () => agent.whenBack(id, startupWaitMs)
      return leases?.isHandingOver(id) ? leases.whenHandedOver(id).then(back) : back()
    },
    whenRelisted: (id) => agent.whenRelisted(id, RELISTED_MS),
    async whenReplaced(id, connection) {
      await leases?.whenHandedOver(id)
      const until = clock.now() + startupWaitMs
      while (clock.now() < until) {
        await delay(clock, CHECK_MS)
        await agent.whenBack(id, until - clock.now())
        const { published } = agent.backend(id) ?? {}
        if (published !== undefined && published.open.connection !== connection) return
      }
    },
    async dedicated(id, owner, caller, capabilities) {
      const backend = await agent.dedicated.open(id, owner, caller, capabilities)
      if (typeof backend === "string") return backend
      if (backend === undefined) return "is stopped"
      if (backend.published === undefined)
        return `could not be started for this session${cause(backend.facts.lastError, backend.spec)}; see \`svc logs\``
      const { open } = backend.published
      return { spec: backend.spec, connection: open.connection, peer: open.peer }
    },
  }
}

function createNotifications(agent: Agent, listeners: Set<Listener>): Notifications {
  return {
    subscribe(id, uri, session, era) {
      agent.subscriptions.subscribe(id, uri, session, era)
      // The connection takes over the subscription when it opens.
      void agent.backend(id)?.published?.open.pair?.prepare(era)
      return agent.subscriptionDecided(id, uri, session)
    },
    unsubscribe(id, uri, session) {
      agent.subscriptions.unsubscribe(id, uri, session)
      return agent.subscriptionDecided(id, uri, session)
    },
    setLogLevel: (session, level) => agent.subscriptions.setLevel(session, level),
    levelDecided: (id, session) => agent.levelDecided(id, session),
    dropLogLevel: (session) => agent.subscriptions.dropLevel(session),
    toBackend({ scope, session, era }, method, params) {
      const own = agent.dedicated.of(session)
      // A shared server would treat one client's roots as the roots of all clients.
      const roots = method === "notifications/roots/list_changed"
      const only = scope.kind === "server" ? (own.get(scope.id) ?? agent.backend(scope.id)) : undefined
      for (const backend of roots ? own.values() : presentOf(only)) {
        const { open: first } = backend.published ?? {}
        const open = first?.pair?.of(era) ?? first
        if (!roots || open?.peer.era === "legacy") open?.connection.notify(method, params)
      }
    },
    listen(listener) {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
  }
}

/** Passes the agent's notifications to sessions and to the streams of modern clients. */
function createObserver(
  gateway: Gateway,
  listeners: ReadonlySet<Listener>,
  { agent, sessions }: GatewayDeps,
): Parameters<Agent["observe"]>[0] {
  const { replicas, changes } = gateway
  const notified = (spec: ServerSpec, method: string, params: Params, only: Era | undefined) => {
    const updated = method === "notifications/resources/updated"
    const subscribed = updated ? agent.subscriptions.subscribersOf(spec.id, asText(params.uri)) : undefined
    const reached = only === "modern" ? [] : [...sessions()].filter(({ scope }) => scopeIncludes(scope, spec))
    // svc does not know whose elicitation it is, and may tell no other client.
    if (method === "notifications/elicitation/complete" && reached.length !== 1) return
    for (const session of reached) {
      if (method === "notifications/message" && !wantsLog(session, params.level)) continue
      if (subscribed?.has(session) === false || !mayLocate(session.scope, spec, method, params)) continue
      // The replica with the stream is also subscribed.
      if (updated && replicas?.isStreamElsewhere(session) === true) continue
      session.notify(notificationText(method, shownIn(session.scope, spec, method, params)))
    }
    if (!updated || only === "legacy") return
    for (const listener of listeners) {
      const { scope } = listener.client
      if (!scopeIncludes(scope, spec) || !mayLocate(scope, spec, method, params)) continue
      const shown = shownIn(scope, spec, method, params)
      listener.updated(asText(shown.uri), shown)
    }
  }
  changes?.follow({
    listsChanged(server, methods) {
      const spec = agent.backend(server)?.spec
      if (spec === undefined) return
      for (const session of sessions())
        if (scopeIncludes(session.scope, spec) && replicas?.isStreamElsewhere(session) !== true)
          session.listsChanged(methods)
      for (const listener of listeners) if (scopeIncludes(listener.client.scope, spec)) listener.listsChanged(methods)
    },
    updated(server, params) {
      const spec = agent.backend(server)?.spec
      if (spec !== undefined) notified(spec, "notifications/resources/updated", params, undefined)
    },
  })
  return {
    oncatalog(only) {
      for (const session of sessions()) if (only === undefined || only === session) session.catalogChanged(gateway)
      if (only !== undefined) return
      for (const listener of listeners) listener.catalogChanged()
      changes?.catalogChanged()
    },
    onnotification(spec, method, params, only) {
      notified(spec, method, params, only)
      if (method === "notifications/resources/updated") changes?.updated(spec.id, params)
    },
  }
}

const MAX_CAUSE = 300

/** Goes through the ids of servers without making a list. */
function* idsOf(parts: View["parts"]): Iterable<string> {
  for (const { spec } of parts) yield spec.id
}

const presentOf = <T>(value: T | undefined): readonly T[] => (value === undefined ? [] : [value])

/** Whether a client may know the resource of a notification, which may lie below the one that it is subscribed to. */
const mayLocate = (scope: Scope, spec: ServerSpec, method: string, { uri }: Params): boolean =>
  method !== "notifications/resources/updated" ||
  scope.shape === undefined ||
  shapeAllows(scope.shape, spec, { kind: "resource", name: asText(uri) })

/** Returns a notification's params with the names that a scope uses. */
const shownIn = (scope: Scope, spec: ServerSpec, method: string, params: Params): Params =>
  scope.kind === "aggregate" ? rewriteNotification(method, params, qualifiedNames(spec.slug)) : params

/** How long an error waits for the new lists of its server, which may show that what was asked for is gone. */
const RELISTED_MS = 5000
/** The interval of checks until this replica knows that the replica of a server is gone. */
const CHECK_MS = 100
/** Longer than the start of most servers. */
const SLOW_MS = 10_000
