/** Stand-ins for the ports of the call path: each does nothing until a test replaces the members that it needs. */
import { TaskOwners } from "../src/agent/task-owners.ts"
import type { ClientTransport } from "../src/backend/client-transport.ts"
import { Connection, type ConnectionHooks } from "../src/backend/connection.ts"
import type { Peer } from "../src/backend/negotiate.ts"
import { Cancellation } from "../src/call/cancellation.ts"
import type { Client, Exchange } from "../src/call/client.ts"
import type {
  Directory,
  Gateway,
  Limits,
  Notifications,
  Observers,
  OwnTools,
  Stage,
  TaskPort,
} from "../src/call/ports.ts"
import { emptyCatalog } from "../src/catalog/catalog.ts"
import { createScope } from "../src/catalog/scope.ts"
import type { ServerSpec } from "../src/config/server-spec.ts"
import type { Clock } from "../src/lib/clock.ts"
import { throughStages } from "../src/session/stages.ts"
import type { StoredSession } from "../src/store/session-store.ts"
import type { Era } from "../src/wire/era.ts"
import { createRequestIds, type RequestIds } from "../src/wire/frame.ts"
import type { Params } from "../src/wire/message.ts"

const NO_QUERIES: readonly never[] = []
const NO_PRESETS = new Map<string, never>()

/** The scope of `/mcp` without a query. */
export const AGGREGATE = createScope(
  () => NO_QUERIES,
  () => NO_PRESETS,
)

/** An open connection to a server that `send` stands for. */
export function fakeConnection(
  clock: Clock,
  send: ClientTransport["send"],
  { ids = createRequestIds("x"), ...hooks }: Partial<ConnectionHooks> & { readonly ids?: RequestIds } = {},
): Connection {
  const connection = new Connection("s", ids, clock, {
    owner: undefined,
    onprotocolerror() {},
    onnotification() {},
    ...hooks,
  })
  connection.attach({ pid: undefined, buffered: 0, close: async () => undefined, send })
  return connection
}

/** The members of a gateway that a test replaces. Getters stay getters. */
export type GatewayParts = {
  readonly directory?: Partial<Directory>
  readonly notifications?: Partial<Notifications>
  readonly tasks?: Partial<TaskPort>
  readonly limits?: Partial<Limits>
  readonly observers?: Partial<Observers>
  readonly ownTools?: Gateway["ownTools"]
  readonly stages?: readonly Stage[]
}

/** svc's own tool `mcp_list`, which clients of all servers have. */
export const FAKE_OWN_TOOLS: OwnTools = {
  has(name, { client: { scope } }) {
    if (name !== "mcp_list" || scope.kind === "server") return undefined
    return scope.restricted ? "denied" : "offered"
  },
  entries: () => [],
  list: (listed, { scope }) => (scope.kind === "server" ? listed : ['{"name":"mcp_list"}', ...listed]),
  run: () => ({ frame: "{}", outcome: "ok" }),
}

/** A gateway without servers. A bug of svc fails the test. */
export function fakeGateway(parts: GatewayParts = {}): Gateway {
  const empty = emptyCatalog()
  return {
    version: "1",
    hide: (text) => text,
    ownTools: parts.ownTools ?? [],
    toServer: throughStages(parts.stages ?? []),
    lists: new WeakMap(),
    directory: replaced<Directory>(parts.directory, {
      catalogOf: () => empty,
      initialLoad: undefined,
      stopping: false,
      target: () => "is not configured",
      freshen: () => undefined,
      listWith: () => undefined,
      prepare: () => undefined,
      disconnectedId: () => undefined,
      unavailable: () => [],
      unlisted: () => undefined,
      isAsleep: () => false,
      takesCalls(id) {
        return typeof this.target(id) !== "string"
      },
      mayRun: () => true,
      runnerOf: () => undefined,
      whenBack: () => undefined,
      whenRelisted: () => undefined,
      whenReplaced: async () => undefined,
      dedicated: async () => "has no process for this session",
    }),
    notifications: replaced<Notifications>(parts.notifications, {
      subscribe: () => undefined,
      unsubscribe() {},
      setLogLevel: () => undefined,
      levelDecided: () => undefined,
      dropLogLevel() {},
      toBackend() {},
      listen: () => () => undefined,
    }),
    tasks: replaced<TaskPort>(parts.tasks, { mark: () => "m", owners: new TaskOwners() }),
    limits: replaced<Limits>(parts.limits, {
      maxInFlight: 1000,
      pageSize: Number.POSITIVE_INFINITY,
      instructions: 2048,
      callRate: { take: () => undefined },
      sessionRate: undefined,
    }),
    observers: replaced<Observers>(parts.observers, {
      meter: undefined,
      audit: undefined,
      tracer: undefined,
      onbug(error) {
        throw error
      },
    }),
  }
}

/** A client of one era without a session. */
export const fakeClient = (era: Era, more: Partial<Client> = {}): Client => ({
  era,
  protocolVersion: era === "legacy" ? "2025-11-25" : "2026-07-28",
  info: {},
  capabilities: {},
  principal: "me",
  session: {},
  scope: AGGREGATE,
  logLevel: undefined,
  ...more,
})

/** A connection to a client that cannot be asked. */
export const fakeExchange = (more: Partial<Exchange> = {}): Exchange => ({
  cancellation: new Cancellation(),
  notify() {},
  ask: () => Promise.reject(new Error("this client cannot be asked")),
  ...more,
})

/** The information that a server sent when its connection was opened. */
export const fakePeer = (era: Era, capabilities: Params = {}): Peer => ({
  era,
  protocolVersion: era === "legacy" ? "2025-11-25" : "2026-07-28",
  serverInfo: {},
  capabilities,
  instructions: undefined,
})

/** A shared server named `s`. */
export const fakeSpec = (tuning: object = {}): ServerSpec =>
  ({
    id: "s",
    name: "s",
    slug: "s",
    secrets: [],
    launch: {},
    tuning: {
      tags: [],
      disabledTools: [],
      toolDescriptionOverrides: {},
      alwaysVisible: [],
      requestTimeout: 600_000,
      ...tuning,
    },
  }) as unknown as ServerSpec

/** A legacy session as it is stored. */
export const fakeStoredSession: StoredSession = {
  principal: "token a",
  scope: "/mcp",
  params: { protocolVersion: "2025-11-25", clientInfo: { name: "ü", version: "1" } },
  logLevel: "warning",
  subscriptions: [],
  tasks: [],
}

// ---

function replaced<T extends object>(by: Partial<T> | undefined, all: T): T {
  return Object.defineProperties(all, by === undefined ? {} : Object.getOwnPropertyDescriptors(by)) as T
}
