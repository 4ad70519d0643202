/** The client of a request, and the way back to it. */
import type { Ownership, TaskOwners } from "../agent/task-owners.ts"
import type { Caller } from "../backend/attribution.ts"
import type { Connection } from "../backend/connection.ts"
import type { Peer } from "../backend/negotiate.ts"
import type { Catalog } from "../catalog/catalog.ts"
import type { Scope } from "../catalog/scope.ts"
import type { ServerSpec } from "../config/server-spec.ts"
import { UnavailableError } from "../lib/errors.ts"
import type { Marker } from "../lib/seal.ts"
import type { CallOutcome } from "../report/metrics.ts"
import type { Toolbox } from "../tools/toolbox.ts"
import type { Era } from "../wire/era.ts"
import { isObject, type Params, type Request } from "../wire/message.ts"
import type { Answer } from "./answer.ts"
import type { CallRateLimit } from "./call-rate-limit.ts"
import type { Cancellation } from "./cancellation.ts"

/** What a client said of itself: at `initialize`, or in the `_meta` of a modern request. */
export type Client = {
  readonly era: Era
  readonly protocolVersion: string
  readonly info: Params
  readonly capabilities: Params
  /** Who it is, as authentication has it. */
  readonly principal: string
  /** Its session's id; undefined for one without a session. */
  readonly id?: string
  /** The same object for all requests of one client. */
  readonly session: object
  readonly scope: Scope
  /** The least severe log message it wants, if it wants any. */
  readonly logLevel: string | undefined
  /** The client outside of any request; undefined where it is there only as long as its request. */
  readonly owner?: Exchange
  /** Requests of this client that run. */
  readonly inFlight?: number
}

/** Whose the things are that a client makes and comes back for: its session's, or the principal's where it has none. */
export const ownerOf = (client: Client): Ownership["owner"] =>
  client.era === "legacy" ? client.session : client.principal

/** The capability that a client lacks to be asked this, in the shape of the capabilities themselves. */
export function missingCapability(
  capabilities: Params,
  method: string,
  params: Params | undefined,
): Params | undefined {
  const { sampling, elicitation, roots } = capabilities
  switch (method) {
    case "sampling/createMessage":
      return sampling === undefined ? { sampling: {} } : undefined
    case "elicitation/create": {
      const { url, form } = isObject(elicitation) ? elicitation : {}
      if (params?.mode === "url") return url === undefined ? { elicitation: { url: {} } } : undefined
      // An object that names no mode says form: revisions before 2025-11-25 had nothing else.
      return elicitation === undefined || (url !== undefined && form === undefined)
        ? { elicitation: { form: {} } }
        : undefined
    }
    case "roots/list":
      return roots === undefined ? { roots: {} } : undefined
    default:
      return undefined
  }
}

/** One inbound request's way back. */
export type Exchange = {
  /** A notification that belongs to the request, as JSON text. */
  notify(text: string): void
  /** A question to the client in the middle of the request. Rejects where the client cannot be asked. */
  ask: Caller["ask"]
  /** Whether anybody is there to hear it; where it is missing, somebody is. */
  isConnected?: Caller["isConnected"]
  /** The client must answer a question: one that has been away for long gives up, sooner where others wait. */
  giveUpIfStale?: Caller["giveUpIfStale"]
  /** Whether the client gave the request up. */
  readonly cancellation: Cancellation
}

/**
 * Waits for what must be there before a request goes on. Throws a RequestError where the client gives up meanwhile, an
 * UnavailableError where svc stops.
 */
export async function unlessCancelled<T>(
  { gateway, exchange }: Pick<RequestContext, "gateway" | "exchange">,
  wait: Promise<T>,
): Promise<T> {
  const value = await exchange.cancellation.race(wait)
  refuseStopping(gateway)
  return value
}

/** Throws an UnavailableError if svc stops: its servers are gone, and their tools are not unknown for that. */
export function refuseStopping({ stopping }: Pick<Gateway, "stopping">): void {
  if (stopping) throw new UnavailableError("svc is shutting down")
}

/** A connected backend as a request needs it. */
export type Target = { readonly spec: ServerSpec; readonly connection: Connection; readonly peer: Peer }

/** What a listener is told. The agent keeps these. */
export type Listener = {
  readonly client: Client
  /** The catalog is another one. */
  catalogChanged(): void
  /** A resource (its URI as this client knows it) was updated. */
  updated(uri: string, params: Params): void
}

/** Counts what sessions pass on. */
export type Meter = {
  now(): number
  /** One finished call of a tool; `seconds` is how long it took. */
  record(server: string, tool: string, outcome: CallOutcome, seconds: number): void
  /** A request that went to a server, or an answer that went to a client. */
  passed(direction: "in" | "out", bytes: number): void
}

/** Writes down who did what. */
export type Audit = {
  /** A call begins; the returned function ends it with its answer. */
  call(request: Request, client: Client, gateway: Gateway): (answer: Answer) => void
  /** Something begins that an operator asked for; the returned function ends it. */
  action(action: string, about: Params): (outcome: "ok" | "error") => void
}

/** Requests that make a server do or tell something. */
export const CALLS: ReadonlySet<string> = new Set(["tools/call", "prompts/get", "resources/read"])

/** What a session needs of the agent. */
export type Gateway = {
  /** What a session is offered. */
  catalogOf(session: object): Catalog
  /** Set while the first round of loading runs. */
  readonly initialLoad: Promise<void> | undefined
  /** Whether the servers are being stopped, for svc ends. */
  readonly stopping: boolean
  /** The connected backend, or why there is none. */
  target(id: string): Target | string
  /** The id of a server that this scope has and that is not connected, by its name in tools. */
  disconnectedId(scope: Scope, slug: string | undefined): string | undefined
  /** The connected server of this scope with this name in tools that has never answered a list, and the reason. */
  unlisted(
    scope: Scope,
    slug: string | undefined,
    method: "tools/list" | "prompts/list",
  ): { readonly id: string; readonly slug: string; readonly reason: string } | undefined
  /** Waits for a server that may be connected in a moment, or for the first lists of a connected one. */
  whenBack(id: string): Promise<void> | undefined
  /**
   * The client's own process of a server with `isolation: "session"`, or why there is none. `owner` leads to the client
   * outside of any call; `caller` is told if what the process before it held is lost. The process is told what the client can do.
   */
  dedicated(id: string, owner: Caller, caller: Caller, capabilities: Params): Promise<Target | string>
  /** Marks the ids of tasks for their owners. */
  readonly mark: Marker
  /** What backends speak of by an id alone, and whose it is. */
  readonly taskOwners: TaskOwners
  /** Requests at once for one server, and for one session. */
  readonly maxInFlight: number
  /** Entries of a list in one answer at most. */
  readonly pageSize: number
  /** Counts a client's interest in a resource (the backend's own URI). */
  subscribe(id: string, uri: string, session: object): void
  unsubscribe(id: string, uri: string, session: object): void
  /** Remembers that a task of a backend is a client's, for when svc is restarted. */
  rememberTask(id: string, task: string, session: object): void
  /** Passes a client's notification on where that is not another client's too. */
  notifyBackend(client: Client, method: string, params: Params): void
  /** The client wants log messages of this level and above; undefined: what servers choose to say. */
  setLogLevel(session: object, level: string | undefined): void
  /** The client wants none any more. */
  dropLogLevel(session: object): void
  /** Registers a modern stream; the returned function takes it away. */
  listen(listener: Listener): () => void
  readonly version: string
  /** Takes the configured secrets out of a text that svc makes for a client. */
  hide(text: string): string
  /** Counts a finished call; undefined where nothing is counted. */
  readonly meter: Meter | undefined
  readonly callRate: CallRateLimit
  /** Calls per minute of one session; undefined for any number. */
  readonly sessionRate: number | undefined
  /** Where calls are written down; undefined where they are not. */
  readonly audit: Audit | undefined
  /** svc's own tools, where they are switched on; there once the configuration is. */
  toolbox: Toolbox | undefined
}

/** One request in its surroundings. */
export type RequestContext = { readonly gateway: Gateway; readonly client: Client; readonly exchange: Exchange }
