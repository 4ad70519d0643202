/**
 * A client must not notice that svc is between it and a server, except by the names. Makes the same calls directly
 * and through `/mcp`, by clients of both SDKs, to servers of both SDKs, over stdio and HTTP.
 */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { Client as Client2, StreamableHTTPClientTransport as Http2 } from "@modelcontextprotocol/client"
import { Client as Client1 } from "@modelcontextprotocol/sdk/client/index.js"
import { StreamableHTTPClientTransport as Http1 } from "@modelcontextprotocol/sdk/client/streamableHttp.js"
import {
  ResultSchema as AnyResultSchema,
  CreateMessageRequestSchema,
  ElicitationCompleteNotificationSchema,
  ElicitRequestSchema,
  ListRootsRequestSchema,
  LoggingMessageNotificationSchema,
  ResourceUpdatedNotificationSchema,
} from "@modelcontextprotocol/sdk/types.js"
import {
  eventually,
  fixture,
  type Instance,
  modern,
  modernRequest,
  type Remote,
  startHttp,
  startSvc,
} from "./harness.ts"

type Json = Record<string, unknown>

let svc: Instance
let remotes: readonly Remote[]

beforeAll(async () => {
  remotes = await Promise.all([startHttp("everything-1x.ts"), startHttp("everything-2x.ts")])
  const stdio = (file: string) => ({ command: "bun", args: [fixture(file)] })
  svc = await startSvc({
    config: {
      mcpServers: {
        s1: { ...stdio("everything-1x.ts"), protocolVersion: "legacy" },
        s2: { ...stdio("everything-2x.ts"), protocolVersion: "2026-07-28" },
        h1: { type: "streamableHttp", url: remotes[0]?.url, protocolVersion: "legacy" },
        own: { ...stdio("everything-1x.ts"), protocolVersion: "legacy", isolation: "session" },
        h2: { type: "streamableHttp", url: remotes[1]?.url, protocolVersion: "2026-07-28" },
      },
    },
    flags: ["--startup-wait", "20s", "--pagination", "7"],
  })
}, 60_000)

afterAll(async () => {
  await svc?.[Symbol.asyncDispose]()
  await Promise.all((remotes ?? []).map((remote) => remote.stop()))
}, 30_000)

const CAPABILITIES = {
  sampling: { tools: {} },
  elicitation: { form: {}, url: {} },
  roots: { listChanged: true },
  extensions: { "io.modelcontextprotocol/ui": { mimeTypes: ["text/html;profile=mcp-app"] } },
}

/** What both SDKs' clients have in common, as far as this test needs it. */
type AnyClient = {
  callTool(params: Json, ...more: never[]): Promise<Json>
  request(request: { method: string; params: Json }, ...more: never[]): Promise<Json>
  getServerCapabilities(): Json | undefined
  close(): Promise<void>
}

/** A connected client, and all messages and requests that it receives, in order. */
type Peer = {
  readonly client: AnyClient
  readonly heard: Json[]
  call(params: Json, progress?: boolean): Promise<Json>
}

function answers(heard: Json[]) {
  const answer = (method: string, reply: (params: Json) => Json) => (params: Json) => {
    const { _meta, ...rest } = params
    const { progressToken: _token, ...meta } = (_meta ?? {}) as Json
    heard.push({ asked: method, ...rest, meta })
    return reply(params)
  }
  return {
    sample: answer("sampling", () => ({ role: "assistant", model: "m", content: { type: "text", text: "sampled" } })),
    elicit: answer("elicitation", ({ mode }) =>
      mode === "url" ? { action: "accept" } : { action: "accept", content: { name: "Ada", response: "yes", ok: true } },
    ),
    roots: answer("roots", () => ({ roots: [{ uri: "file:///home/ada", name: "home" }] })),
  }
}

async function connect1(url: string): Promise<Peer> {
  const heard: Json[] = []
  const client = new Client1({ name: "one", version: "1" }, { capabilities: CAPABILITIES })
  const { sample, elicit, roots } = answers(heard)
  client.setRequestHandler(CreateMessageRequestSchema, ({ params }) => sample(params as Json) as never)
  client.setRequestHandler(ElicitRequestSchema, ({ params }) => elicit(params as Json) as never)
  client.setRequestHandler(ListRootsRequestSchema, ({ params }) => roots((params ?? {}) as Json) as never)
  client.setNotificationHandler(LoggingMessageNotificationSchema, ({ params }) => void heard.push({ log: params }))
  client.setNotificationHandler(
    ElicitationCompleteNotificationSchema,
    ({ params }) => void heard.push({ complete: params }),
  )
  client.setNotificationHandler(
    ResourceUpdatedNotificationSchema,
    ({ params }) => void heard.push({ updated: params.uri }),
  )
  await client.connect(new Http1(new URL(url)) as never)
  const call = (params: Json, progress = false) =>
    client.callTool(
      params as never,
      undefined,
      progress ? { onprogress: (said) => void heard.push({ progress: said.progress, total: said.total }) } : {},
    ) as Promise<Json>
  return { client: client as never, heard, call }
}

async function connect2(url: string): Promise<Peer> {
  const heard: Json[] = []
  const client = new Client2(
    { name: "two", version: "1" },
    { capabilities: CAPABILITIES as never, versionNegotiation: { mode: { pin: "2026-07-28" } } },
  )
  const { sample, elicit, roots } = answers(heard)
  client.setRequestHandler("sampling/createMessage", ({ params }) => sample(params as Json) as never)
  client.setRequestHandler("elicitation/create", ({ params }) => elicit(params as Json) as never)
  client.setRequestHandler("roots/list", ({ params }) => roots((params ?? {}) as Json) as never)
  client.setNotificationHandler("notifications/message", ({ params }) => void heard.push({ log: params }))
  client.setNotificationHandler(
    "notifications/resources/updated",
    ({ params }) => void heard.push({ updated: params.uri }),
  )
  await client.connect(new Http2(new URL(url)))
  const call = (params: Json, progress = false) =>
    client.callTool(
      params as never,
      progress
        ? { onprogress: (said: Json) => void heard.push({ progress: said.progress, total: said.total }) }
        : ({} as never),
    ) as Promise<Json>
  return { client: client as never, heard, call }
}

/** The calls, each with its name. `prefix` and `scheme` are what the aggregate puts before names and URIs. */
async function exercise({ client, heard, call }: Peer, prefix: string, scheme: string): Promise<Json> {
  const said: Json = {}
  const uri = (own: string) => (own.startsWith("ui://") ? own.replace("ui://", `ui://${prefix}`) : scheme + own)
  const record = async (name: string, run: () => Promise<unknown>) => {
    heard.length = 0
    const outcome = await run().catch((error: Error & { code?: number; data?: unknown }) => ({
      failed: bareWords(error.message),
      code: error.code,
      data: error.data,
    }))
    said[name] = { outcome, heard: [...heard] }
  }
  const list = async (method: string, key: string) => {
    const found: Json[] = []
    let cursor: unknown
    do {
      const result = await plain(client, method, cursor === undefined ? {} : { cursor })
      found.push(...(result[key] as Json[]))
      cursor = result.nextCursor
    } while (cursor !== undefined)
    return found.filter((entry) => prefix === "" || JSON.stringify(entry).includes(prefix) || ownUri(entry, scheme))
  }
  await record("tools", () => list("tools/list", "tools"))
  await record("prompts", () => list("prompts/list", "prompts"))
  await record("resources", () => list("resources/list", "resources"))
  await record("templates", () => list("resources/templates/list", "resourceTemplates"))
  const trace = {
    traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    tracestate: "a=b",
    baggage: "c=d",
  }
  const TOOLS: readonly [name: string, args?: Json, progress?: boolean, meta?: Json][] = [
    ["test_simple_text"],
    ["test_image_content"],
    ["test_audio_content"],
    ["test_embedded_resource"],
    ["test_multiple_content_types"],
    ["test_tool_with_progress", {}, true],
    ["test_error_handling"],
    ["test_sampling", { prompt: "p" }],
    ["test_elicitation", { message: "m" }],
    ["test_elicitation_sep1034_defaults"],
    ["json_schema_2020_12_tool", { name: "n", phone: "1" }],
    ["test_x_mcp_header", { region: "eu-ä" }],
    ["test_input_required_result_multiple_inputs"],
    ["test_input_required_result_multi_round"],
    ["test_input_required_result_list_roots"],
    ["meta", {}, false, { ...trace, "com.example/k": { deep: [1] } }],
    ["links"],
    ["sample_with_tools"],
    ["visit"],
  ]
  for (const [name, args = {}, progress = false, meta] of TOOLS)
    await record(name, async () => {
      const result = await call(
        { name: prefix + name, arguments: args, ...(meta === undefined ? {} : { _meta: meta }) },
        progress,
      )
      // The progress token is the client's own choice.
      return name === "test_tool_with_progress" ? { ...result, content: [] } : result
    })
  for (const [name, args] of [
    ["test_simple_prompt", {}],
    ["test_prompt_with_arguments", { arg1: "a", arg2: "b" }],
    ["test_prompt_with_embedded_resource", { resourceUri: "test://static-text" }],
    ["test_prompt_with_image", {}],
    ["test_input_required_result_prompt", {}],
  ] as const)
    await record(name, () => plain(client, "prompts/get", { name: prefix + name, arguments: args }))
  for (const own of [
    "test://static-text",
    "test://static-binary",
    "test://template/7/data",
    "ui://app/main.html",
    "test://gone",
  ])
    await record(own, () => plain(client, "resources/read", { uri: uri(own) }))
  const argument = { name: "id", value: "7" }
  await record("complete prompt", () =>
    plain(client, "completion/complete", {
      ref: { type: "ref/prompt", name: `${prefix}test_simple_prompt` },
      argument,
    }),
  )
  await record("complete template", () =>
    plain(client, "completion/complete", {
      ref: { type: "ref/resource", uri: uri("test://template/{id}/data") },
      argument,
      context: { arguments: { other: "x" } },
    }),
  )
  return said
}

const ownUri = (entry: Json, scheme: string) => String(entry.uri ?? entry.uriTemplate ?? "").startsWith(scheme)

/** A request through the SDK with as little of its own handling as it allows. */
async function plain(client: AnyClient, method: string, params: Json): Promise<Json> {
  const any = client as unknown as Record<string, (params: Json) => Promise<Json>>
  const name = METHODS[method] as string
  return (any[name] as (params: Json) => Promise<Json>).call(client, params)
}
const METHODS: Record<string, string> = {
  "tools/list": "listTools",
  "prompts/list": "listPrompts",
  "resources/list": "listResources",
  "resources/templates/list": "listResourceTemplates",
  "prompts/get": "getPrompt",
  "resources/read": "readResource",
  "completion/complete": "complete",
}

/** The members that may differ between two servers that offer the same: cache hints and their names. */
function bare(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(bare)
  if (typeof value !== "object" || value === null) return value
  const { ttlMs: _t, cacheScope: _c, resultType: _r, ...rest } = value as Json
  const out = Object.fromEntries(Object.entries(rest).map(([key, inner]) => [key, bare(inner)]))
  if (typeof out._meta === "object" && out._meta !== null) {
    const { "io.modelcontextprotocol/serverInfo": _i, ...meta } = out._meta as Json
    if (Object.keys(meta).length === 0) delete out._meta
    else out._meta = meta
  }
  return out
}

/** The SDKs put the code of an error into its words, some of them twice. */
const bareWords = (message: string): string => message.replace(/^(MCP error -?\d+: )+/, "")

const without = (said: Json, key: string): Json => ({
  ...said,
  heard: (said.heard as Json[]).filter((event) => !(key in event)),
})

/** The text of the aggregate without its prefixes. */
const unnamed = (value: unknown, server: string): unknown =>
  JSON.parse(JSON.stringify(value).replaceAll(`${server}_svc_`, "").replaceAll(`svc://${server}/`, ""))

describe.each([
  ["SDK 1.x", connect1, 0],
  ["SDK 2.x", connect2, 1],
] as const)("a client of %s", (_sdk, connect, own) => {
  test.each([["s1"], ["s2"], ["h1"], ["h2"]])(
    "is answered by %s through /mcp as it is directly",
    async (server) => {
      const straight = await connect(remotes[own]?.url ?? "")
      const expected = await exercise(straight, "", "")
      const through = await connect(`${svc.url}/mcp`)
      const found = unnamed(await exercise(through, `${server}_svc_`, `svc://${server}/`), server) as Json
      // 2026-07-28 has no such notification.
      if (server.endsWith("2")) expected.visit = without(expected.visit as Json, "complete")
      for (const name of Object.keys(expected))
        expect({ [name]: bare(found[name]) }).toEqual({ [name]: bare(expected[name]) })
      await Promise.all([straight.client.close(), through.client.close()])
    },
    30_000,
  )
})

describe("through /mcp", () => {
  test.each([["s1"], ["s2"], ["h1"], ["h2"]])(
    "%s reports a missing resource under the name that the client knows",
    async (server) => {
      const uri = `svc://${server}/test://gone`
      const { body } = await modern(`${svc.url}/mcp`, "resources/read", { uri })
      expect(body.error).toMatchObject({ code: -32602, data: { uri } })
    },
  )

  test.each([["s1"], ["s2"], ["h1"], ["h2"]])(
    "clients of both eras can subscribe to a resource of %s",
    async (server) => {
      const uri = `svc://${server}/test://watched-resource`
      const [one, two] = [await connect1(`${svc.url}/mcp`), await connect2(`${svc.url}/mcp`)]
      await (one.client as unknown as Client1).subscribeResource({ uri })
      const listening = await (two.client as unknown as Client2).listen({ resourceSubscriptions: [uri] })
      await eventually(async () => {
        await one.call({ name: `${server}_svc_touch`, arguments: { uri: "test://watched-resource" } })
        return one.heard.length > 0 && two.heard.length > 0
      })
      expect([one.heard[0], two.heard[0]]).toEqual([{ updated: uri }, { updated: uri }])
      await listening.close()
      await (one.client as unknown as Client1).unsubscribeResource({ uri })
      await one.call({ name: `${server}_svc_touch`, arguments: { uri: "test://watched-resource" } })
      const count = [one.heard.length, two.heard.length]
      await one.call({ name: `${server}_svc_touch`, arguments: { uri: "test://watched-resource" } })
      expect([one.heard.length, two.heard.length]).toEqual(count)
      await Promise.all([one.client.close(), two.client.close()])
    },
  )

  test.each([["s1"], ["s2"], ["h1"], ["h2"]])(
    "each client gets the log messages of %s at its own level",
    async (server) => {
      const name = `${server}_svc_test_tool_with_logging`
      const [loud, calm, two] = await Promise.all(
        [connect1, connect1, connect2].map((connect) => connect(`${svc.url}/mcp`)),
      )
      if (loud === undefined || calm === undefined || two === undefined) throw new Error("not connected")
      await (loud.client as unknown as Client1).setLoggingLevel("debug")
      await (calm.client as unknown as Client1).setLoggingLevel("error")
      for (const { call } of [loud, calm, two]) await call({ name, arguments: {} })
      expect([loud.heard.length, calm.heard.length, two.heard.length]).toEqual([3, 0, 0])
      await two.call({ name, arguments: {}, _meta: { "io.modelcontextprotocol/logLevel": "info" } })
      expect([loud.heard.length, calm.heard.length, two.heard.length]).toEqual([3, 0, 3])
      await Promise.all([loud, calm, two].map(({ client }) => client.close()))
    },
  )

  test("svc advertises the extensions that it routes, and answers other extension methods as unknown [aggregate:extensions]", async () => {
    const { client } = await connect1(`${svc.url}/mcp`)
    expect(client.getServerCapabilities()?.extensions).toEqual({
      "io.modelcontextprotocol/ui": { mimeTypes: ["text/html;profile=mcp-app"] },
    })
    const { status, body } = await modern(`${svc.url}/mcp`, "com.example/echo", { say: "hi" })
    expect([status, body.error]).toEqual([404, { code: -32601, message: "Method not found: com.example/echo" }])
    await client.close()
  })
})

test.each([["s1"], ["s2"], ["h1"], ["h2"]])(
  "an app of %s keeps its ui:// scheme, for hosts that render it",
  async (server) => {
    const { client } = await connect1(`${svc.url}/mcp`)
    const real = client as unknown as Client1
    const tools: { name: string; _meta?: Json | undefined }[] = []
    let cursor: string | undefined
    do {
      const page = await real.listTools(cursor === undefined ? {} : { cursor })
      tools.push(...page.tools)
      cursor = page.nextCursor
    } while (cursor !== undefined)
    const uri = `ui://${server}_svc_app/main.html`
    expect(tools.find(({ name }) => name === `${server}_svc_links`)?._meta).toEqual({
      ui: { resourceUri: uri, visibility: ["model"] },
      "ui/resourceUri": uri,
    })
    const { contents } = await real.readResource({ uri })
    expect(contents).toMatchObject([
      { uri, mimeType: "text/html;profile=mcp-app", _meta: { ui: { prefersBorder: true } } },
    ])
    const links = (await real.callTool({ name: `${server}_svc_links`, arguments: {} })) as Json
    expect(links.content).toMatchObject([{ uri: `svc://${server}/test://static-text` }, { resource: { uri } }, {}])
    expect(links.structuredContent).toMatchObject({ uri: "test://static-text" })
    await client.close()
  },
)

describe("a notification of a client", () => {
  const told = (heard: readonly Json[], data: Json) =>
    eventually(() => heard.some(({ log }) => JSON.stringify((log as Json | undefined)?.data) === JSON.stringify(data)))

  test.each([["s1"], ["h1"], ["own"]])(
    "reports to %s the progress of its answer, under the server's own token",
    async (server) => {
      const { client, heard } = await connect1(`${svc.url}/mcp`)
      const real = client as unknown as Client1
      real.setRequestHandler(ElicitRequestSchema, async ({ params }, { sendNotification }) => {
        const progressToken = params._meta?.progressToken ?? "none"
        await sendNotification({ method: "notifications/progress", params: { progressToken, progress: 0.5 } })
        // The server forgets the request as soon as it is answered.
        await told(heard, { progress: 0.5 })
        return { action: "decline" }
      })
      await real.callTool({ name: `${server}_svc_test_elicitation`, arguments: { message: "m" } })
      await client.close()
    },
  )

  test("reaches the client's own process: changed roots, and methods that only this server knows", async () => {
    const aggregate = await connect1(`${svc.url}/mcp`)
    await aggregate.call({ name: "own_svc_test_simple_text", arguments: {} })
    await (aggregate.client as unknown as Client1).sendRootsListChanged()
    await told(aggregate.heard, { told: "notifications/roots/list_changed" })
    const alone = await connect1(`${svc.url}/servers/own/mcp`)
    await alone.call({ name: "test_simple_text", arguments: {} })
    await (alone.client as unknown as Client1).notification({ method: "com.example/news", params: {} } as never)
    await told(alone.heard, { told: "com.example/news" })
    await Promise.all([aggregate.client.close(), alone.client.close()])
  })
})

test("a session's own process is subscribed only for this session, and no other client gets its updates", async () => {
  const uri = "svc://own/test://watched-resource"
  const connect = () => connect1(`${svc.url}/mcp`)
  const [early, late, other] = [await connect(), await connect(), await connect()]
  const subscribe = ({ client }: Peer) => (client as unknown as Client1).subscribeResource({ uri })
  const touch = ({ call }: Peer, own: string) => call({ name: "own_svc_touch", arguments: { uri: own } })
  // Before its process has started, and after.
  await subscribe(early)
  await Promise.all([early, late, other].map((peer) => touch(peer, "test://nothing")))
  await subscribe(late)
  await touch(late, "*")
  await touch(other, "*")
  await touch(other, "test://watched-resource")
  await touch(early, "*")
  await touch(early, "test://watched-resource/part")
  await eventually(() => early.heard.length === 2 && late.heard.length === 1)
  expect(early.heard).toEqual([{ updated: uri }, { updated: `${uri}/part` }])
  expect([late.heard, other.heard]).toEqual([[{ updated: uri }], []])
  await Promise.all([early, late, other].map(({ client }) => client.close()))
})

test("a client that subscribes while servers are still starting gets updates of their resources too", async () => {
  const slow = { command: "sh", args: ["-c", `sleep 1; exec bun ${fixture("everything-2x.ts")}`] }
  await using starting = await startSvc({ config: { mcpServers: { slow } }, flags: ["--startup-wait", "20s"] })
  const uri = "svc://slow/test://watched-resource"
  const enough = new AbortController()
  const stream = await fetch(`${starting.url}/mcp`, {
    ...modernRequest("subscriptions/listen", { notifications: { resourceSubscriptions: [uri] } }),
    signal: enough.signal,
  })
  const reader = stream.body?.getReader()
  const first = new TextDecoder().decode((await reader?.read())?.value)
  expect(JSON.parse(/^data: (.*)$/m.exec(first)?.[1] ?? "{}")).toMatchObject({
    method: "notifications/subscriptions/acknowledged",
    params: { notifications: { resourceSubscriptions: [uri] } },
  })
  enough.abort()
}, 30_000)

describe("under its own address", () => {
  test.each([["s1"], ["s2"], ["h1"], ["h2"]])("%s has its own methods and capabilities", async (server) => {
    const url = `${svc.url}/servers/${server}/mcp`
    const { body } = await modern(url, "com.example/echo", { say: "hi" })
    expect(body.result).toMatchObject({ resultType: "complete", method: "com.example/echo", said: "hi" })
    const { client } = await connect1(url)
    expect(client.getServerCapabilities()).toMatchObject({
      experimental: { "com.example/e": { a: 1 } },
      extensions: { "com.example/x": { a: 1 } },
    })
    const echo = (client as unknown as Client1).request(
      { method: "com.example/echo", params: { say: "yo" } } as never,
      AnyResultSchema,
    )
    expect(await echo).toMatchObject({ method: "com.example/echo", said: "yo" })
    await client.close()
  })
})
