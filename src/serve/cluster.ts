/** The port of a cluster: what a running svc needs as one of several replicas. */
import type { Agent } from "../agent/agent.ts"
import type { CallRateLimit } from "../call/call-rate-limit.ts"
import type { ChangeExchange, Gateway, RemoteReplicas } from "../call/ports.ts"
import type { Plan } from "../config/server-spec.ts"
import type { Marker, Sealer } from "../lib/seal.ts"
import type { ClusterFacts } from "../report/health.ts"
import type { Gauges } from "../report/metrics.ts"
import type { SharedStateProblem } from "../report/shared-state.ts"
import type { GatewayDeps } from "../session/gateway.ts"
import type { Sessions } from "../session/sessions.ts"
import type { ClientToken, TokenFile } from "../store/client-tokens.ts"
import type { DocumentTexts } from "../store/documents.ts"
import type { SecretStore } from "../store/secret-store.ts"
import type { SessionStore } from "../store/session-store.ts"
import type { OwnToolPins, ToolPins } from "../store/tool-pins.ts"
import type { CountShared } from "./address-rate-limit.ts"
import type { OpenStream } from "./http-exchange.ts"
import type { McpDeps, SessionHomes } from "./mcp.ts"
import type { Listening, ServerDeps } from "./server.ts"

/** The state that the replicas share, and the place of this one. */
export type ClusterOptions = {
  /** The URL of Redis, with its port, and with user, password and database, if any. */
  readonly url: string
  /** The prefix of all keys of this cluster. */
  readonly prefix: string
  /** The URL at which other replicas reach this one, without a trailing slash; undefined for the one that it listens on. */
  readonly address: string | undefined
}

/** This replica of a cluster. */
export type Cluster = { readonly [Name in "forward" | "leaving" | "listTasks"]: NonNullable<McpDeps[Name]> } & {
  /** The host and port of the shared state. */
  readonly place: string
  /** Seals text that clients send back to any replica. */
  readonly sealer: Sealer
  /** Marks ids that clients send back to any replica. */
  readonly mark: Marker
  /** Decides which replica runs the servers with `"replicas": "one"`; undefined until `openLeases`. */
  readonly leases: ServerPlaces | undefined
  readonly replicas: Replicated
  /** Returns the store of secrets that the replicas share. */
  secrets(): SecretStore
  /** Opens the pins that the replicas share. Waits a moment for those of the others. */
  openPins(own: OwnToolPins, onpinned: Agent["pinnedElsewhere"]): Promise<ToolPins>
  /** Begins to decide which replica runs the servers that run once. `onchange` is called when the decisions have changed. */
  openLeases(agent: Agent, onchange: () => void): ServerPlaces
  /** Opens the sessions of clients that the replicas share; they end after `ttl` milliseconds without requests. */
  openSessions(agent: Agent, ttl: number): ClusterSessions
  /** Opens the tokens of clients that the replicas share. `onchange` is called when the file of this replica must be read again. */
  openTokens(onchange: () => void): ClusterTokens
  /** Returns the limit of calls per minute that the replicas share. */
  rateLimit(own: CallRateLimit, onrefuse: () => void): CallRateLimit
  /** Counts an event of all replicas in a window. */
  readonly count: CountShared
  /** Returns the function that decides about requests of other replicas. */
  admission(): ServerDeps["admitReplica"]
  /** Records the files that this replica applies, to compare them with those of other replicas. */
  configured(texts: Pick<DocumentTexts, "config" | "presets">): void
  facts(): ClusterFacts
  /** Returns the replica's figures for the metrics. */
  gauge(): NonNullable<Gauges["replica"]>
  /** Returns the report of `svc cluster status`. */
  report(): unknown
  /** Returns why the shared state cannot be used; undefined while it can. */
  problem(): SharedStateProblem | undefined
  /** Announces this replica to the others, with its address and load. `listening` is the URL that it listens on. */
  join(listening: URL, load: () => Readonly<Record<"calls" | "sessions" | "streams", number>>): void
  /** Leaves the cluster. Resolves when svc can end without failing a call, or when the time for that is over. */
  leave(parts: LeavingParts, times: LeavingTimes): Promise<void>
  /** Gives the servers to other replicas, and says goodbye to them. Call it when the processes of the servers have ended. */
  close(): Promise<void>
}

/** Where the servers run that one replica runs for all. */
type ServerPlaces = NonNullable<GatewayDeps["leases"]> & {
  /** Returns a plan as this replica runs it. Servers that are new in it get their owner a moment later. */
  place(plan: Plan): Plan
  /** Returns the milliseconds after which no process of a server may run here, unless its lease is renewed. */
  graceFor(id: string): number | undefined
}

/** The replicas, with the message that a sign-in to a server has changed. */
type Replicated = {
  send(message: { readonly kind: "authorization"; readonly server: string }): void
  on(kind: "authorization", listener: (message: { readonly server: string }) => void): unknown
  /** Returns the other replica at an address, and the signal that aborts when it is gone. */
  at(url: string): { readonly gone: AbortSignal } | undefined
}

/** The sessions of clients that all replicas share. */
export type ClusterSessions = {
  readonly store: SessionStore
  readonly replicas: RemoteReplicas
  readonly changes: ChangeExchange
  /** Connects this replica's own sessions, and returns the homes of all: call it at once. */
  connect(sessions: Sessions, gateway: Gateway): SessionHomes
}

/** The tokens of clients that all replicas share. */
export type ClusterTokens = {
  /** Exchanges changes. Never rejects: while the state is away, the replica keeps what it has. */
  sync(): Promise<void>
  /** Takes the present content of the own file. */
  follow(file: TokenFile): void
  /** Returns the content that the own file should have, given that it has `file`. */
  merge(file: TokenFile): TokenFile
  /** Takes a token of the own file that was created while svc runs. */
  created(token: ClientToken): void
  /** Takes a token of the own file that was changed while svc runs. */
  changed(token: ClientToken): void
  /** Takes a token that was removed from the own file while svc runs. */
  revoked(token: ClientToken): void
  /** Resolves when this replica knows the changes that it missed while it was suspended; returns undefined if it missed none. */
  catchUp(): Promise<void> | undefined
  close(): void
}

/** What this replica runs and serves. */
export type LeavingParts = {
  readonly agent: Pick<Agent, "drained">
  readonly streams: ReadonlySet<OpenStream>
  readonly listening: Pick<Listening, "refuse" | "pending"> | undefined
}

/** How long a replica says that it stops, and how long it may then take, in milliseconds. */
export type LeavingTimes = { readonly drainDelay: number; readonly shutdownGrace: number }
