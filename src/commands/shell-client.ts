/**
 * The MCP client of svc's own commands. It connects to the running svc's socket with the context of its project, so that it
 * sees what `svc proxy` offers there. Each command has its own connection, and repeats nothing if it is lost. The client is
 * modern, because a legacy session also receives the log messages of other clients' calls.
 */
import type { ArgsDef } from "citty"
import { findProjectContext, projectDirectory } from "../app/project-context.ts"
import { withoutServerInfo } from "../catalog/listing.ts"
import { type ServerQuery, selectServers } from "../catalog/selection.ts"
import { parseDocument } from "../config/document.ts"
import { readPresets } from "../config/presets.ts"
import { systemClock, withTimeout } from "../lib/clock.ts"
import { readOptions } from "../lib/command-line.ts"
import { RequestError, RPC_CODE, UnavailableError } from "../lib/errors.ts"
import { numberOf } from "../lib/json.ts"
import { say } from "../lib/output.ts"
import { version } from "../lib/version.ts"
import type { LocalConfiguration } from "../serve/local-configuration.ts"
import { formatProxyMessage, isProxyMessage, type ProxyMessage, parseProxyMessage } from "../serve/proxy-server.ts"
import type { ProxyLink } from "../serve/proxy-state.ts"
import { readTexts } from "../store/documents.ts"
import {
  META_CLIENT_CAPABILITIES,
  META_CLIENT_INFO,
  META_LOG_LEVEL,
  META_VERSION,
  MODERN_VERSION,
} from "../wire/era.ts"
import { decode } from "../wire/frame.ts"
import {
  asMessage,
  asText,
  isObject,
  isRequest,
  isResponse,
  notificationText,
  type Params,
  parseJson,
} from "../wire/message.ts"
import { CONTEXT_ARGS, notRunning, openContext } from "./command-context.ts"
import { connectToProxySocket } from "./proxy-connection.ts"

/** How the command answers servers while its requests run. */
export type ShellEvents = {
  readonly capabilities: Params
  onnotification(method: string, params: Params): void
  /** Answers an input request of a server; undefined if the command does not know the method. */
  onrequest(method: string, params: Params): Promise<Params | undefined>
}

/** A running request. */
export type ShellRequest = {
  /** Rejects with a RequestError or UnavailableError that contains the refusal. */
  readonly result: Promise<Params>
  cancel(reason: string): void
}

/** The flags of the commands that are clients of the running svc. */
export const SHELL_ARGS = {
  ...CONTEXT_ARGS,
  project: { type: "string", description: "Directory of the project (default: the working directory)" },
  preset: {
    type: "string",
    description: "See only what this preset selects, under its names",
    valueHint: "preset",
  },
} as const satisfies ArgsDef

/** Connects for one command, and disconnects when it is done. Rejects with an UnavailableError if no svc runs. */
export async function withShellClient<T>(
  args: Readonly<Record<string, unknown>>,
  use: (client: ShellClient) => Promise<T>,
  events = SILENT,
): Promise<T> {
  const project = readOptions(args, process.env).text("project")
  const context = openContext(args)
  const queries = presetQueries(context, readOptions(args, {}).text("preset"))
  const client = await ShellClient.open(context, project, queries, events)
  try {
    return await use(client)
  } finally {
    client.close()
  }
}

/** Returns the query for a preset. Throws a RequestError (not_found) if there is none of this name. */
function presetQueries({ paths }: LocalConfiguration, preset: string | undefined): readonly ServerQuery[] {
  if (preset === undefined) return []
  const { presets } = readPresets(parseDocument(readTexts(paths).presets() ?? "{}", paths.presets))
  selectServers([{ preset }], presets)
  return [{ preset }]
}

export class ShellClient {
  private link: ProxyLink | undefined
  private count = 0
  private readonly pending = new Map<number, PromiseWithResolvers<unknown>>()
  private readonly welcome = Promise.withResolvers<void>()
  /** Why the connection has ended. */
  private end: UnavailableError | undefined

  private constructor(private readonly events: ShellEvents) {
    this.welcome.promise.catch(() => undefined)
  }

  /**
   * Connects to the running svc as a client in a project's directory (`--project`, or the working directory) with these
   * queries, and waits for the servers of that project. Rejects with an UnavailableError if no svc runs.
   */
  static async open(
    context: LocalConfiguration,
    project: string | undefined,
    queries: readonly ServerQuery[],
    events: ShellEvents,
  ): Promise<ShellClient> {
    const { paths } = context
    const client = new ShellClient(events)
    const surroundings = findProjectContext(projectDirectory(project), queries, say)
    const found = await connectToProxySocket(paths, {
      line: (bytes) => client.receive(bytes),
      lost: () => client.fail(new UnavailableError("the connection to svc was lost")),
    }).catch(() => undefined)
    if (found === undefined) throw notRunning(paths)
    client.link = found.link
    client.send({ svc: "hello", token: found.token, surroundings, wholeResults: true })
    try {
      await withTimeout(systemClock, HELLO_MS, client.welcome.promise)
      // Has no effect if the welcome has arrived.
      client.welcome.reject(new UnavailableError(`svc did not answer within ${HELLO_MS / 1000} s`))
      await client.welcome.promise
      // The first request identifies the client, so that svc starts its template instances.
      await client.request("server/discover", {}).result
      return client
    } catch (error) {
      client.close()
      throw error
    }
  }

  /** Asks svc what the project's servers offer. Rejects as a request does. */
  ask(question: string, params: Params = {}): Promise<unknown> {
    const { id, promise } = this.begin()
    this.send({ svc: "ask", id, question, params })
    return promise
  }

  /** Sends an MCP request, and again with the answers for each round of input that a server requests. */
  request(method: string, params: Params): ShellRequest {
    let running = 0
    const send = async (more: Params, round: number): Promise<Params> => {
      const { id, promise } = this.begin()
      running = id
      this.link?.send(
        JSON.stringify({ jsonrpc: "2.0", id, method, params: { ...params, ...more, _meta: this.meta(id) } }),
      )
      const result = await promise
      if (!isObject(result)) return {}
      const { resultType, ...rest } = result
      if (resultType !== "input_required") return withoutServerInfo(rest)
      if (round >= MAX_ROUNDS) throw new UnavailableError(`the server requested input ${MAX_ROUNDS} times`)
      return send(await this.answersTo(result), round + 1)
    }
    return {
      result: send({}, 1),
      cancel: (reason) => {
        if (!this.pending.delete(running)) return
        this.link?.send(notificationText("notifications/cancelled", { requestId: running, reason }))
      },
    }
  }

  /** Disconnects. svc cancels requests that still run. */
  close(): void {
    this.end ??= new UnavailableError("the command has ended")
    this.link?.close()
  }

  // ---

  private meta(progressToken: number): Params {
    return {
      progressToken,
      [META_VERSION]: MODERN_VERSION,
      [META_CLIENT_INFO]: { name: "svc", title: "svc", version },
      [META_CLIENT_CAPABILITIES]: this.events.capabilities,
      [META_LOG_LEVEL]: "info",
    }
  }

  /** Returns the params that the retry of a request adds. patterns: Multi Round-Trip Requests. */
  private async answersTo({ inputRequests, requestState }: Params): Promise<Params> {
    const inputResponses: [string, Params][] = []
    for (const [key, request] of Object.entries(isObject(inputRequests) ? inputRequests : {})) {
      const { method, params } = isObject(request) ? request : {}
      const answer = await this.events.onrequest(asText(method), isObject(params) ? params : {})
      if (answer === undefined)
        throw new UnavailableError(`the server requests ${asText(method)}, which svc run does not answer`)
      inputResponses.push([key, answer])
    }
    return {
      ...(inputResponses.length === 0 ? {} : { inputResponses: Object.fromEntries(inputResponses) }),
      ...(typeof requestState === "string" ? { requestState } : {}),
    }
  }

  private begin(): { readonly id: number; readonly promise: Promise<unknown> } {
    const id = ++this.count
    const pending = Promise.withResolvers<unknown>()
    if (this.end === undefined) this.pending.set(id, pending)
    else pending.reject(this.end)
    return { id, promise: pending.promise }
  }

  private send(message: ProxyMessage): void {
    this.link?.send(formatProxyMessage(message))
  }

  /** Rejects all pending requests with an error. */
  private fail(error: UnavailableError): void {
    this.welcome.reject(error)
    this.end ??= error
    for (const { reject } of this.pending.values()) reject(this.end)
    this.pending.clear()
  }

  private settle(id: number | undefined, end: (pending: PromiseWithResolvers<unknown>) => void): void {
    const pending = id === undefined ? undefined : this.pending.get(id)
    if (id === undefined || pending === undefined) return
    this.pending.delete(id)
    end(pending)
  }

  private receive(bytes: Uint8Array): void {
    const line = decode(bytes)
    if (isProxyMessage(line)) {
      this.receiveOwn(parseProxyMessage(line) as ProxyMessage)
      return
    }
    const message = asMessage(parseJson(line))
    // svc sends a modern client no requests.
    if (isRequest(message)) return
    if (!isResponse(message)) this.events.onnotification(message.method, message.params ?? {})
    else
      this.settle(message.id === null ? undefined : numberOf(message.id), (pending) => {
        if (message.error === undefined) pending.resolve(message.result)
        else pending.reject(errorOf(message.error))
      })
  }

  private receiveOwn(message: ProxyMessage): void {
    if (message.svc === "welcome") this.welcome.resolve()
    if (message.svc === "refused") this.fail(new UnavailableError(message.message))
    if (message.svc === "note") say(`svc: ${message.message}`)
    if (message.svc === "answer")
      this.settle(message.id, (pending) => {
        if ("error" in message) pending.reject(refusalOf(message.error))
        else pending.resolve(message.result)
      })
  }
}

// ---

const HELLO_MS = 10_000
/** The most rounds of input for one call. */
const MAX_ROUNDS = 20

const SILENT: ShellEvents = { capabilities: {}, onnotification: () => undefined, onrequest: async () => undefined }

const refusalOf = ({ message, exit }: { readonly message: string; readonly exit: number }): Error =>
  exit === 64 ? new RequestError("not_found", message) : new UnavailableError(message)

/** Returns the error of a refused request: an error of the caller, or of svc or a server. */
function errorOf({ code, message }: { readonly code: unknown; readonly message: string }): Error {
  const isOfCaller = [RPC_CODE.invalidParams, RPC_CODE.invalidRequest, RPC_CODE.methodNotFound].includes(
    numberOf(code) as -32602,
  )
  return isOfCaller ? new RequestError("invalid_params", message) : new UnavailableError(message)
}
