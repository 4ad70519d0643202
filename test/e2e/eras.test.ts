/** Remote servers that speak both eras: svc serves each client over a connection of the client's era. */
import { expect, test } from "bun:test"
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { Client } from "@modelcontextprotocol/sdk/client/index.js"
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js"
import {
  CreateMessageRequestSchema,
  CreateTaskResultSchema,
  GetTaskResultSchema,
  LoggingMessageNotificationSchema,
  ResourceUpdatedNotificationSchema,
  ToolListChangedNotificationSchema,
} from "@modelcontextprotocol/sdk/types.js"
import { type DualEra, type DualServer, startDual } from "../fixtures/dual.ts"
import { eventually, fixture, freshFolder, type Instance, modern, startSvc, svcIn } from "./harness.ts"

type Json = Record<string, unknown>

const serve = (dual: DualServer, settings: Json = {}): Promise<Instance> =>
  startSvc({
    config: { mcpServers: { d: { type: "streamableHttp", url: dual.url, ...settings } } },
    flags: ["--startup-wait", "20s"],
  })

/** A 2025-era client that answers `sampling/createMessage`. */
async function legacy(svc: Instance, path = "/servers/d/mcp") {
  const heard: string[] = []
  const client = new Client({ name: "legacy", version: "1" }, { capabilities: { sampling: {} } })
  client.setRequestHandler(CreateMessageRequestSchema, () => ({
    model: "m",
    role: "assistant" as const,
    content: { type: "text" as const, text: "yes" },
  }))
  client.setNotificationHandler(ResourceUpdatedNotificationSchema, ({ params }) => void heard.push(params.uri))
  client.setNotificationHandler(LoggingMessageNotificationSchema, ({ params }) => void heard.push(String(params.data)))
  client.setNotificationHandler(ToolListChangedNotificationSchema, () => void heard.push("tools"))
  await client.connect(new StreamableHTTPClientTransport(new URL(svc.url + path)) as never)
  return {
    client,
    heard,
    async call(name: string, args: Json = {}): Promise<string> {
      const { content } = (await client.callTool({ name, arguments: args })) as { content: { text: string }[] }
      return content[0]?.text ?? ""
    },
    [Symbol.asyncDispose]: () => client.close(),
  }
}

async function callModern(svc: Instance, name: string, path = "/servers/d/mcp"): Promise<unknown> {
  const { body } = await modern(svc.url + path, "tools/call", { name, arguments: {} })
  return (body.result?.content as { text: string }[] | undefined)?.[0]?.text ?? body.error?.message
}

const state = async (svc: Instance): Promise<Json> => (await (await fetch(`${svc.url}/health/mcp/d`)).json()) as Json

test("each client of a server of both eras is served over a connection of its own era [protocol:own-era]", async () => {
  await using dual = startDual("legacy", "modern")
  await using svc = await serve(dual)
  expect(await callModern(svc, "era")).toBe("modern")
  expect(dual.count("legacy", "initialize")).toBe(0)
  for (const [path, prefix] of [
    ["/servers/d/mcp", ""],
    ["/mcp", "d_svc_"],
  ] as const) {
    await using ann = await legacy(svc, path)
    expect(await ann.call(`${prefix}era`)).toBe("legacy")
    expect(await ann.call(`${prefix}ask`)).toStartWith("answered:")
    expect(await callModern(svc, `${prefix}era`, path)).toBe("modern")
  }
  expect(dual.count("legacy", "initialize")).toBe(1)
}, 30_000)

test.each([
  ["2026-07-28", "modern"],
  ["legacy", "legacy"],
] as const)(
  "protocolVersion %s keeps every client on one connection [protocol:own-era]",
  async (protocolVersion, era) => {
    await using dual = startDual("legacy", "modern")
    await using svc = await serve(dual, { protocolVersion })
    await using ann = await legacy(svc)
    expect([await ann.call("era"), await callModern(svc, "era")]).toEqual([era, era])
  },
  30_000,
)

test("svc asks a server of one era for the other era once, and serves both over its connection [protocol:own-era:refused]", async () => {
  await using dual = startDual("modern")
  await using svc = await serve(dual)
  for (let session = 0; session < 2; session++) {
    await using ann = await legacy(svc)
    expect([await ann.call("era"), await ann.call("era")]).toEqual(["modern", "modern"])
  }
  expect(dual.count("legacy", "initialize")).toBe(1)
  expect(await state(svc)).toMatchObject({ state: "ready" })
}, 30_000)

test("a legacy side without sessions is not used: its server could not receive an answer [protocol:own-era]", async () => {
  await using dual = startDual("legacy", "modern")
  dual.stateless = true
  await using svc = await serve(dual)
  await using ann = await legacy(svc)
  expect(await ann.call("era")).toBe("modern")
}, 30_000)

test("a connection of the other era that fails leaves the server healthy, is reported and opened again [protocol:own-era:failure]", async () => {
  await using dual = startDual("legacy", "modern")
  dual.failing.legacy = 503
  await using svc = await serve(dual)
  await using ann = await legacy(svc)
  expect(await ann.call("era")).toBe("modern")
  await svc.said(/d: its connection for clients of 2025-11-25 and earlier: answered 503/)
  expect((await fetch(`${svc.url}/health`)).status).toBe(200)
  delete dual.failing.legacy
  await eventually(async () => (await ann.call("era")) === "legacy")
  // The server forgets its sessions; the next call opens another one.
  dual.speak("legacy", "modern")
  expect(await ann.call("era")).toBe("legacy")
  expect((await fetch(`${svc.url}/health`)).status).toBe(200)
}, 30_000)

test("the same task id on both connections means two tasks, and svc asks each where it was created [protocol:own-era:tasks]", async () => {
  await using dual = startDual("legacy", "modern")
  await using svc = await serve(dual)
  const path = `${svc.url}/servers/d/mcp`
  const _meta = {
    "io.modelcontextprotocol/clientCapabilities": { extensions: { "io.modelcontextprotocol/tasks": {} } },
  }
  await using ann = await legacy(svc)
  expect(ann.client.getServerCapabilities()?.tasks).toBeDefined()
  const params = { name: "make", arguments: {}, task: { ttl: 60_000 } }
  const { task } = await ann.client.request({ method: "tools/call", params }, CreateTaskResultSchema)
  const made = await modern(path, "tools/call", { name: "make", arguments: {}, _meta })
  const taskId = String(made.body.result?.taskId)
  expect([task.taskId, taskId]).toEqual([expect.stringMatching(/^1\./), expect.stringMatching(/^1\./)])
  const got = await ann.client.request({ method: "tasks/get", params: { taskId: task.taskId } }, GetTaskResultSchema)
  expect(got.statusMessage).toBe("legacy")
  const other = await modern(path, "tasks/get", { taskId, _meta })
  expect(other.body.result?.statusMessage).toBe("modern")
  expect((await modern(path, "tasks/get", { taskId: task.taskId, _meta })).body.error?.code).toBe(-32602)
}, 30_000)

/** Opens a modern client's stream, and collects the methods and URIs of what comes on it. */
async function listen(svc: Instance, uri: string) {
  const heard: string[] = []
  const agreed: unknown[] = []
  const controller = new AbortController()
  const meta = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": { name: "test", version: "1" },
    "io.modelcontextprotocol/clientCapabilities": {},
  }
  const response = await fetch(`${svc.url}/servers/d/mcp`, {
    method: "POST",
    signal: controller.signal,
    headers: {
      "content-type": "application/json",
      accept: "application/json, text/event-stream",
      "mcp-protocol-version": "2026-07-28",
      "mcp-method": "subscriptions/listen",
    },
    body: JSON.stringify({
      jsonrpc: "2.0",
      id: 7,
      method: "subscriptions/listen",
      params: { notifications: { toolsListChanged: true, resourceSubscriptions: [uri] }, _meta: meta },
    }),
  })
  const reading = (async () => {
    const decoder = new TextDecoder()
    for await (const chunk of response.body ?? [])
      for (const [, data = "{}"] of decoder.decode(chunk).matchAll(/^data: (.+)$/gm)) {
        const { method, params } = JSON.parse(data) as { method: string; params?: Json }
        if (method === "notifications/resources/updated") heard.push(String(params?.uri))
        if (method === "notifications/tools/list_changed") heard.push("tools")
        if (method !== "notifications/subscriptions/acknowledged") continue
        heard.push("ready")
        agreed.push(params?.notifications)
      }
  })().catch(() => undefined)
  return {
    heard,
    agreed,
    async [Symbol.asyncDispose]() {
      controller.abort()
      await reading
    },
  }
}

test("the acknowledgement of a subscription names what the server has agreed to [protocol:agreed]", async () => {
  await using dual = startDual("modern")
  dual.unwatched.push("test://other")
  await using svc = await serve(dual)
  await using ann = await listen(svc, "test://other")
  await using bob = await listen(svc, "test://r")
  await eventually(() => ann.heard.includes("ready") && bob.heard.includes("ready"))
  expect([ann.agreed, bob.agreed]).toEqual([
    [{ toolsListChanged: true }],
    [{ toolsListChanged: true, resourceSubscriptions: ["test://r"] }],
  ])
  await using eve = await legacy(svc)
  await eve.client.subscribeResource({ uri: "test://r" })
  await expect(eve.client.subscribeResource({ uri: "test://other" })).rejects.toThrow(
    "d does not accept a subscription",
  )
})

test("a subscription over the connection of one era is not refused by that of the other [protocol:agreed]", async () => {
  await using dual = startDual("legacy", "modern")
  await using svc = await serve(dual)
  await using bob = await listen(svc, "test://other")
  await eventually(() => bob.heard.includes("ready"))
  await using ann = await legacy(svc)
  await ann.client.subscribeResource({ uri: "test://r" })
  await ann.client.unsubscribeResource({ uri: "test://r" })
  expect(dual.count("legacy", "resources/subscribe")).toBe(1)
})

test("clients of both eras get each update once, over any open connection [protocol:own-era:news]", async () => {
  await using dual = startDual("legacy", "modern")
  await using svc = await serve(dual)
  await using bob = await listen(svc, "test://r")
  await using ann = await legacy(svc)
  await ann.client.subscribeResource({ uri: "test://r" })
  await eventually(() => bob.heard.includes("ready") && dual.count("legacy", "resources/subscribe") === 1)
  const hears = async (text: string, act: () => void) => {
    const before = [ann.heard.length, bob.heard.length] as const
    act()
    await eventually(() => ann.heard.length > before[0] && bob.heard.length > before[1])
    // Both have received the next message: nothing arrived twice in between.
    expect([ann.heard.slice(before[0]), bob.heard.slice(before[1])]).toEqual([[text], [text]])
  }
  await hears("test://r", () => dual.update("test://r"))
  await hears("test://r", () => dual.update("test://r"))
  for (const [name, eras] of [
    ["new1", ["legacy"]],
    ["new2", ["modern"]],
    ["new3", ["legacy", "modern"]],
  ] as [string, DualEra[]][])
    await hears("tools", () => {
      dual.more.push(name)
      for (const era of eras) dual.changed(era)
    })
  await hears("test://r", () => dual.update("test://r"))
}, 30_000)

test("log levels reach both connections in the form of their era [protocol:own-era:news]", async () => {
  await using dual = startDual("legacy", "modern")
  await using svc = await serve(dual)
  await using ann = await legacy(svc)
  await ann.client.setLoggingLevel("warning")
  const progress: number[] = []
  await ann.client.callTool({ name: "log", arguments: {} }, undefined, {
    onprogress: (one) => void progress.push(one.progress),
  })
  expect([ann.heard, progress]).toEqual([["legacy none"], [1]])
  expect(dual.count("legacy", "logging/setLevel")).toBe(1)
  expect(dual.count("modern", "logging/setLevel")).toBe(0)
}, 30_000)

test.each([
  ["modern", "legacy"],
  ["legacy", "modern"],
] as const)(
  "svc negotiates again with a server that was %s and is %s after an upgrade in place [protocol:era:relearned]",
  async (before, after) => {
    await using dual = startDual(before)
    await using svc = await serve(dual)
    await using ann = await legacy(svc)
    expect([await ann.call("era"), await callModern(svc, "era")]).toEqual([before, before])
    dual.speak(after)
    await eventually(async () => (await ann.call("era").catch(() => "")) === after)
    expect([await ann.call("era"), await callModern(svc, "era")]).toEqual([after, after])
  },
  30_000,
)

test("a legacy server that gains the modern era in place gets modern requests in it [protocol:era:relearned]", async () => {
  await using dual = startDual("legacy")
  await using svc = await serve(dual)
  await using ann = await legacy(svc)
  expect([await ann.call("era"), await callModern(svc, "era")]).toEqual(["legacy", "legacy"])
  dual.speak("legacy", "modern")
  expect([await ann.call("era"), await callModern(svc, "era")]).toEqual(["legacy", "modern"])
}, 30_000)

test("a server of both eras that loses one serves all clients in the other [protocol:era:relearned]", async () => {
  for (const [left, era] of [
    ["legacy", "legacy"],
    ["modern", "modern"],
  ] as const) {
    await using dual = startDual("legacy", "modern")
    await using svc = await serve(dual)
    await using ann = await legacy(svc)
    expect([await ann.call("era"), await callModern(svc, "era")]).toEqual(["legacy", "modern"])
    dual.speak(left)
    await eventually(
      async () => (await callModern(svc, "era")) === era && (await ann.call("era").catch(() => "")) === era,
    )
  }
}, 30_000)

/** What servers answer to requests of an era that they do not speak. */
const UNSUPPORTED = (...supported: string[]) => ({
  status: 400,
  error: { code: -32022, message: "Unsupported protocol version", data: { supported } },
})
const MALFORMED = { status: 400, error: { code: -32602, message: "Invalid params: _meta is required" } }

test.each([
  ["modern", "legacy", UNSUPPORTED("2025-11-25")],
  ["modern", "legacy", MALFORMED],
  ["modern", "legacy", { status: 405 }],
  ["legacy", "modern", UNSUPPORTED("2026-07-28")],
  ["legacy", "modern", MALFORMED],
  ["legacy", "modern", { status: 405 }],
] as const)(
  "svc negotiates again with a server that changes from %s to %s and refuses the old era with %j [protocol:era:relearned]",
  async (left, after, refusal) => {
    for (const both of [false, true]) {
      await using dual = startDual(...(both ? (["legacy", "modern"] as const) : [left]))
      await using svc = await serve(dual)
      await using ann = await legacy(svc)
      expect([await ann.call("era"), await callModern(svc, "era")]).toEqual(both ? ["legacy", "modern"] : [left, left])
      dual.refusals[left] = refusal
      dual.speak(after)
      const call = left === "legacy" ? () => ann.call("era").catch(() => "") : () => callModern(svc, "era")
      await eventually(async () => (await call()) === after)
      expect([await ann.call("era"), await callModern(svc, "era")]).toEqual([after, after])
    }
  },
  30_000,
)

test("a process that was upgraded in place is used in its new era after a restart by hand, and after a start of svc [protocol:era:remembered]", async () => {
  const folder = freshFolder()
  const flag = join(folder, "flag")
  writeFileSync(flag, "")
  const args = ["-c", `exec bun "${fixture("raw.ts")}" $(cat "${flag}")`]
  const config = { mcpServers: { r: { command: "sh", args } } }
  const eraOf = async (svc: Instance) => {
    const url = `${svc.url}/health?level=full`
    const { servers } = (await (await fetch(url)).json()) as { servers: { details?: { era?: string }[] } }
    return servers.details?.[0]?.era
  }
  const flags = ["--startup-wait", "20s", "--health-info-level", "full"]
  await using first = await startSvc({ config, flags })
  await eventually(async () => (await eraOf(first)) === "legacy")
  writeFileSync(flag, "--modern")
  expect((await svcIn(first.folder)("mcp", "restart", "r")).code).toBe(0)
  await eventually(async () => (await eraOf(first)) === "modern")
  first.signal("SIGTERM")
  await first.exited
  writeFileSync(flag, "")
  await using second = await startSvc({ folder: first.folder, flags })
  await eventually(async () => (await eraOf(second)) === "legacy")
}, 30_000)

test("after a restart, svc asks a server that refused the other era for it again [protocol:own-era:refused]", async () => {
  await using dual = startDual("modern")
  const config = { mcpServers: { d: { type: "streamableHttp", url: dual.url } } }
  await using first = await startSvc({ config, flags: ["--startup-wait", "20s"] })
  await using ann = await legacy(first)
  expect(await ann.call("era")).toBe("modern")
  first.signal("SIGTERM")
  await first.exited
  dual.speak("legacy", "modern")
  await using second = await startSvc({ folder: first.folder, flags: ["--startup-wait", "20s"] })
  await using bob = await legacy(second)
  expect(await bob.call("era")).toBe("legacy")
}, 30_000)
