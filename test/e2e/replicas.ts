/** Several replicas of the built binary behind a round-robin proxy, with a Redis of their own. */
import { type RedisServer, startRedis } from "../redis.ts"
import { eventually, fixture, type Instance, type Options, startSvc } from "./harness.ts"

export type ClusterUnderTest = AsyncDisposable & {
  /** The proxy: each request goes to the next replica. */
  readonly url: string
  readonly replicas: readonly Instance[]
  readonly redis: RedisServer
}

/** A server whose answers name its process; each replica runs its own. */
export const REPLICA_SERVER = { command: "bun", args: [fixture("replica.ts")] }

/** Starts replicas of one configuration, and waits until they know each other. */
export async function startCluster(
  count: number,
  options: Options & { readonly redis?: readonly string[] } = {},
): Promise<ClusterUnderTest> {
  await using opened = new AsyncDisposableStack()
  const redis = opened.use(await startRedis(...(options.redis ?? [])))
  const { config = { mcpServers: { one: REPLICA_SERVER } }, flags = [], env = {} } = options
  const start = () =>
    startSvc({
      config,
      flags: ["--health-info-level", "full", ...flags],
      env: { SVC_CLUSTER: redis.url, SVC_KEYCHAIN: "off", SVC_DRAIN_DELAY: "0s", ...env },
    })
  const starts = await Promise.allSettled(Array.from({ length: count }, start))
  const replicas = starts.flatMap((one) => (one.status === "fulfilled" ? [opened.use(one.value)] : []))
  for (const one of starts) if (one.status === "rejected") throw one.reason
  await Promise.all(
    replicas.map(({ url }) => eventually(async () => (await fetch(`${url}/health/ready`).catch(() => undefined))?.ok)),
  )
  let next = 0
  const proxy = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    idleTimeout: 0,
    async fetch(request) {
      const { pathname, search } = new URL(request.url)
      const body = request.body === null ? undefined : await request.arrayBuffer()
      // Each replica once, whatever other requests do meanwhile.
      const first = next++
      for (let tries = 0; tries < count; tries++) {
        const { url } = replicas[(first + tries) % count] as Instance
        const response = await fetch(`${url}${pathname}${search}`, {
          method: request.method,
          headers: request.headers,
          signal: request.signal,
          timeout: false,
          // A connection to a replica that was killed since is no use.
          keepalive: false,
          ...(body === undefined ? {} : { body }),
        } as RequestInit).catch((error: unknown) => error)
        if (response instanceof Response)
          return new Response(response.body, { status: response.status, headers: response.headers })
        const code = response instanceof Error && "code" in response ? response.code : undefined
        // The request did not reach a replica.
        if (code === "ConnectionRefused" || code === "ECONNREFUSED") continue
        return new Response(`the replica ended: ${code}`, { status: 502 })
      }
      return new Response("no replica", { status: 502 })
    },
  })
  opened.defer(() => proxy.stop(true))
  const all = opened.move()
  return {
    url: `http://127.0.0.1:${proxy.port}`,
    replicas,
    redis,
    [Symbol.asyncDispose]: () => all.disposeAsync(),
  }
}

/** A legacy client that sends each of its requests where the test says. */
export class WanderingClient {
  private lastId = 0
  session = ""

  constructor(private readonly headers: Record<string, string> = {}) {}

  /** Opens the session at a replica, and returns the result of `initialize`. */
  async open(at: Pick<Instance, "url">, capabilities: object = { elicitation: {} }): Promise<Initialized> {
    const params = { protocolVersion: "2025-11-25", capabilities, clientInfo: { name: "wanderer", version: "1" } }
    const response = await this.post(at, { id: ++this.lastId, method: "initialize", params })
    if (!response.ok) throw new Error(`initialize: ${response.status} ${await response.text()}`)
    this.session = response.headers.get("mcp-session-id") ?? ""
    const { result } = (await response.json()) as { readonly result: Initialized }
    await this.post(at, { method: "notifications/initialized" })
    return result
  }

  /** Posts a message, or a batch of several, as it is. */
  post(at: Pick<Instance, "url">, message: object | readonly object[], signal?: AbortSignal): Promise<Response> {
    return fetch(`${at.url}/mcp`, {
      method: "POST",
      headers: {
        "content-type": "application/json",
        accept: "application/json, text/event-stream",
        ...(this.session === "" ? {} : { "mcp-session-id": this.session, "mcp-protocol-version": "2025-11-25" }),
        ...this.headers,
      },
      body: JSON.stringify(
        Array.isArray(message) ? message.map((one) => ({ jsonrpc: "2.0", ...one })) : { jsonrpc: "2.0", ...message },
      ),
      ...(signal === undefined ? {} : { signal }),
    })
  }

  /** Sends a request, and returns the messages of its response as they come. */
  async *stream(at: Pick<Instance, "url">, method: string, params: object, id = ++this.lastId): AsyncGenerator<Event> {
    yield* eventsOf(await this.post(at, { id, method, params }))
  }

  /** Sends a request, and returns its answer. */
  async request(at: Pick<Instance, "url">, method: string, params: object = {}): Promise<Message> {
    for await (const { message } of this.stream(at, method, params))
      if ("id" in message && !message.method) return message
    throw new Error("no answer")
  }

  /** Calls a tool, and returns its text. */
  async call(at: Pick<Instance, "url">, name: string): Promise<string> {
    const answer = await this.request(at, "tools/call", { name, arguments: {} })
    return answer.result?.content?.[0]?.text ?? JSON.stringify(answer)
  }

  /** Opens the stream for messages that belong to no request, or resumes one. */
  get(at: Pick<Instance, "url">, last?: string, signal?: AbortSignal): Promise<Response> {
    return fetch(`${at.url}/mcp`, {
      headers: {
        accept: "text/event-stream",
        "mcp-session-id": this.session,
        ...(last === undefined ? {} : { "last-event-id": last }),
        ...this.headers,
      },
      ...(signal === undefined ? {} : { signal }),
    })
  }

  end(at: Pick<Instance, "url">): Promise<Response> {
    return fetch(`${at.url}/mcp`, { method: "DELETE", headers: { "mcp-session-id": this.session, ...this.headers } })
  }
}

type Initialized = { readonly capabilities: Readonly<Record<string, unknown>> }

export type Message = {
  readonly id?: string | number
  readonly method?: string
  readonly params?: Record<string, unknown>
  readonly result?: { readonly content?: readonly { readonly text: string }[]; readonly [member: string]: unknown }
  readonly error?: { readonly code: number; readonly message: string }
}
export type Event = { readonly id: string | undefined; readonly message: Message }

/** Opens a modern client's stream of changes. */
export const listen = (
  { url }: Pick<Instance, "url">,
  notifications: object,
  capabilities = {},
  {
    headers,
    signal,
    query = "",
  }: { readonly headers?: Record<string, string>; readonly signal?: AbortSignal; readonly query?: string } = {},
): Promise<Response> =>
  fetch(`${url}/mcp${query}`, {
    method: "POST",
    headers: {
      "content-type": "application/json",
      accept: "application/json, text/event-stream",
      "mcp-protocol-version": "2026-07-28",
      "mcp-method": "subscriptions/listen",
      ...headers,
    },
    signal: signal ?? null,
    body: JSON.stringify({
      jsonrpc: "2.0",
      id: 1,
      method: "subscriptions/listen",
      params: {
        notifications,
        _meta: {
          "io.modelcontextprotocol/protocolVersion": "2026-07-28",
          "io.modelcontextprotocol/clientCapabilities": capabilities,
        },
      },
    }),
  })

/** Returns the messages of a response, JSON or a stream, with the ids of their events. Events without data are left out. */
export async function* eventsOf(response: Response): AsyncGenerator<Event> {
  if (response.headers.get("content-type")?.startsWith("text/event-stream") !== true) {
    yield { id: undefined, message: (await response.json()) as Message }
    return
  }
  let text = ""
  const decoder = new TextDecoder()
  for await (const chunk of response.body ?? []) {
    text += decoder.decode(chunk, { stream: true })
    const parts = text.split("\n\n")
    text = parts.pop() ?? ""
    for (const part of parts) {
      const data = /^data: ?(.+)$/m.exec(part)?.[1]
      if (data !== undefined) yield { id: /^id: ?(.+)$/m.exec(part)?.[1], message: JSON.parse(data) as Message }
    }
  }
}
