/**
 * Defines an endpoint of REST: a method, a path, schemas of its input and output, and a function. OpenAPI is generated from
 * these.
 */
import type * as z from "zod"
import type { Agent } from "../../agent/agent.ts"
import type { Audit, FinishedCall, Gateway } from "../../call/ports.ts"
import type { ToolSearch } from "../../catalog/tool-search.ts"
import type { Clock } from "../../lib/clock.ts"
import type { RequestFault } from "../../lib/errors.ts"
import type { ProcessUsage } from "../../lib/process-usage.ts"
import type { ProcessFacts } from "../../report/health.ts"
import type { OpenStream, OpenStreams } from "../../serve/http-exchange.ts"
import type { Principal } from "../../serve/principal.ts"
import type { ScopeOf } from "../../serve/query-scope.ts"
import type { Session } from "../../session/session.ts"
import type { ServerLogs } from "../../store/server-logs.ts"
import type { Params } from "../../wire/message.ts"
import type { ConfigEditor } from "../tools/config-editor.ts"
import type { Immutable, ToolResult } from "../tools/tool.ts"
import type { AdminLogin } from "./admin-login.ts"
import type { CallHistory } from "./call-counts.ts"
import type { CallRecords } from "./call-records.ts"
import type { CountTokens, RunCommand } from "./own-commands.ts"
import type { Questions } from "./questions.ts"

/** A server in a pasted text. `problem` says why svc cannot run it; `notes` name settings that are dropped. */
type ReadServer = {
  /** Empty if the text has none. */
  readonly name: string
  readonly server: Params
  readonly isTemplate: boolean
  readonly notes: readonly string[]
  readonly problem: string | undefined
}

/** The parts of svc that endpoints use. */
export type RestPorts = {
  readonly agent: Agent
  readonly clock: Clock
  readonly gateway: Gateway
  readonly editor: ConfigEditor
  /** The path of mcp.json. */
  readonly file: string
  /** Whether this is `svc serve --demo`. */
  readonly isDemo: boolean
  /** What svc keeps of the last calls (`--activity`). */
  readonly activity: "off" | "names" | "content"
  readonly serverLogs: Pick<ServerLogs, "read" | "watch">
  /** All open streams of svc; `restStreams`: the streams of REST. */
  readonly streams: OpenStreams
  readonly restStreams: Set<OpenStream>
  /** Random text, constant until svc ends. */
  readonly salt: string
  readonly login: AdminLogin
  /** Whether requests need client tokens (`--auth`). */
  readonly auth: boolean
  /** The address of MCP for clients; undefined on a Unix socket. */
  readonly endpoint: string | undefined
  /** Returns the scope of a URL's query. */
  readonly scopeOf: ScopeOf
  /** Opens the search over tools, of a view of a catalog. */
  toolFinder(): Promise<ToolSearch>
  sessions(): Iterable<Session>
  facts(): ProcessFacts
  /** Returns what svc (`own`) and the process trees with these ids use now; no tree where the system does not tell cheaply. */
  usage(pids: readonly number[]): { readonly own: ProcessUsage; readonly trees: ReadonlyMap<number, ProcessUsage> }
  /** Masks credentials; paths and addresses stay, because the reader is the operator. */
  mask(text: string): string
  /** Runs one of svc's own tools for a person who has seen its plan. `agreed` is the digest of that plan. */
  runTool(tool: string, args: Params, agreed: string | undefined, signal: AbortSignal): Promise<ToolResult>
  /**
   * Starts the sign-in to a remote server. Resolves to the address for the person's browser; undefined if no person is needed.
   * Rejects with a RequestError, or with an UnavailableError if the server cannot be reached or does not run.
   */
  authorize(server: string): Promise<{ readonly url: string; readonly state: string } | undefined>
  /** Undefined without `--audit-log`. */
  readonly audit: Audit | undefined
  /** Applies the current content of the files. */
  follow(): Promise<unknown>
  editPresets(change: (text: string) => string): Promise<boolean>
  /** Runs a command of svc. */
  readonly runCommand: RunCommand
  /** Counts the tokens of tools; an empty map if that is not possible now. */
  readonly countTokens: CountTokens
  /** Returns the servers in a text that a person has pasted. Rejects with a typed error if there is none. */
  readPasted?(text: string): Promise<readonly ReadServer[]>
  /** The calls since REST was first used. */
  readonly history: CallHistory
  readonly questions: Questions
  /** The last calls; with their content since then, unless svc keeps it from the start or never. */
  readonly records: CallRecords
  /** Calls `onfinished` after each tool call, until the returned function is called. */
  watchCalls(onfinished: (call: FinishedCall) => void): () => void
  onbug(error: unknown): void
}

/** One request for an endpoint, checked against its schemas. */
export type EndpointCall<Q = Params, B = Params> = {
  readonly ports: RestPorts
  /** The values of the parameters in the path. */
  readonly params: Readonly<Record<string, string>>
  readonly query: Q
  readonly body: B
  readonly request: Request
  readonly principal: Principal
}

export type Endpoint = {
  readonly method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE"
  /** The path below `/api/v1`, with parameters in braces: `/servers/{name}`. */
  readonly path: string
  readonly summary: string
  readonly description?: string
  readonly query?: z.ZodObject
  readonly body?: z.ZodObject
  /** The schema of a success; "stream" for server-sent events. */
  readonly answer: z.ZodType | "stream"
  /** The status of a success, if it is not 200. */
  readonly created?: true
  /** Set if the answer is sent with an `ETag`: its member `hash`. */
  readonly tagged?: true
  /** Set if a change requires `If-Match` with the `ETag` of what it replaces. */
  readonly conditional?: true
  /** Set if the body may be or contain a secret: then it is not in the audit log. */
  readonly private?: true
  /** The possible faults, in addition to a missing login, malformed input and a rate limit. */
  readonly faults: readonly RequestFault[]
  run(call: EndpointCall): unknown
}

/**
 * Returns an endpoint. `run` receives a query and a body that fit their schemas, and returns a value that fits `answer`, or a
 * stream.
 */
export function defineEndpoint<Q extends z.ZodObject, B extends z.ZodObject, A extends z.ZodType>(
  endpoint: Omit<Endpoint, "query" | "body" | "answer" | "run"> & {
    readonly query?: Q
    readonly body?: B
    readonly answer: A | "stream"
    run(
      call: EndpointCall<z.output<Q>, z.output<B>>,
    ): Immutable<z.input<A>> | Response | Promise<Immutable<z.input<A>> | Response>
  },
): Endpoint {
  const { run, ...rest } = endpoint
  return { ...rest, run: (call) => run(call as unknown as EndpointCall<z.output<Q>, z.output<B>>) }
}
