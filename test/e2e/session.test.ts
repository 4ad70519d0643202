/** Legacy sessions: their owners, their end, and their persistence. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { Client } from "@modelcontextprotocol/sdk/client/index.js"
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js"
import {
  callsRun,
  echo,
  eventually,
  fixture,
  type Instance,
  modern,
  npmServer,
  processes,
  runSvc,
  SVC,
  startSvc,
} from "./harness.ts"

const BOTH = "application/json, text/event-stream"

type Said = { status: number; session: string | null; body: string; type: string }

async function post(url: string, message: object, session?: string, more: Record<string, string> = {}): Promise<Said> {
  const response = await fetch(url, {
    method: "POST",
    headers: {
      "content-type": "application/json",
      accept: BOTH,
      ...(session === undefined ? {} : { "mcp-session-id": session }),
      ...more,
    },
    body: JSON.stringify({ jsonrpc: "2.0", ...message }),
  })
  return {
    status: response.status,
    session: response.headers.get("mcp-session-id"),
    type: response.headers.get("content-type") ?? "",
    body: await response.text(),
  }
}

async function initialize(url: string): Promise<string> {
  const params = { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "t", version: "1" } }
  const { session, status } = await post(url, { id: 0, method: "initialize", params })
  expect(status).toBe(200)
  await post(url, { method: "notifications/initialized" }, session ?? "")
  return session ?? ""
}

const call = (name: string, args: object = {}, token?: number) => ({
  id: 1,
  method: "tools/call",
  params: { name, arguments: args, ...(token === undefined ? {} : { _meta: { progressToken: token } }) },
})

describe("a session", () => {
  test("is required and ends with DELETE; an unknown one gets 404", async () => {
    await using svc = await startSvc({ flags: ["--demo"] })
    const url = `${svc.url}/mcp`
    expect((await post(url, { id: 1, method: "tools/list" })).status).toBe(400)
    expect((await post(url, { id: 1, method: "tools/list" }, "nonsense")).status).toBe(404)
    const session = await initialize(url)
    expect((await post(url, { id: 1, method: "tools/list" }, session)).status).toBe(200)
    expect((await post(`${svc.url}/servers/demo/mcp`, { id: 1, method: "tools/list" }, session)).status).toBe(404)
    expect((await fetch(url, { method: "DELETE", headers: { "mcp-session-id": session } })).status).toBe(204)
    expect((await post(url, { id: 1, method: "tools/list" }, session)).status).toBe(404)
  })

  test("that svc does not know is refused with -32001 and the request's id, however it is named [session:unknown]", async () => {
    await using svc = await startSvc({ flags: ["--demo"] })
    const url = `${svc.url}/mcp`
    const mine = await initialize(url)
    const lost = (id: unknown) => [404, { jsonrpc: "2.0", id, error: { code: -32001, message: expect.any(String) } }]
    const send = async (at: string, body: unknown, session?: string) => {
      const headers = { "content-type": "application/json", accept: BOTH }
      const named = session === undefined ? headers : { ...headers, "mcp-session-id": session }
      const response = await fetch(at, { method: "POST", headers: named, body: JSON.stringify(body) })
      return [response.status, await response.json()]
    }
    const list = { jsonrpc: "2.0", id: "a1", method: "tools/list" }
    for (const [body, id] of [
      [list, "a1"],
      [{ ...list, id: 7 }, 7],
      [{ jsonrpc: "2.0", method: "notifications/initialized" }, null],
      [{ jsonrpc: "2.0", id: 3, result: {} }, null],
      [[list, { ...list, id: 2 }], null],
    ] as const) {
      for (const at of [url, `${svc.url}/servers/demo/mcp`, `${url}?tools=search`])
        expect(await send(at, body, "gone")).toEqual(lost(id))
      // A session of another address is as unknown as one that never was.
      expect(await send(`${svc.url}/servers/demo/mcp`, body, mine)).toEqual(lost(id))
      expect(await send(`${svc.url}/messages?sessionId=gone`, body)).toEqual(lost(id))
    }
    for (const method of ["GET", "DELETE"]) {
      const headers = { accept: "text/event-stream", "mcp-session-id": "gone" }
      const response = await fetch(url, { method, headers })
      expect([response.status, await response.json()]).toEqual(lost(null))
    }
    // Only the session is unknown: other errors keep their codes.
    expect((await send(url, list))[1]).toMatchObject({ id: "a1", error: { code: -32600 } })
  })

  test("survives a restart of svc, unless --no-persist is set", async () => {
    const config = { mcpServers: { a: echo() } }
    const first = await startSvc({ config })
    const port = Number(new URL(first.url).port)
    const session = await initialize(`${first.url}/mcp`)
    first.signal("SIGTERM")
    expect(await first.exited).toBe(0)
    await using second = await startSvc({ folder: first.folder, port })
    const answer = await post(`${second.url}/mcp`, call("a_svc_echo", { m: "still me" }), session)
    expect([answer.status, JSON.parse(answer.body).result.content[0].text]).toEqual([200, "still me"])
    second.signal("SIGKILL")
    await second.exited
    await using third = await startSvc({ folder: first.folder, port })
    expect((await post(`${third.url}/mcp`, { id: 1, method: "ping" }, session)).status).toBe(200)
    third.signal("SIGTERM")
    await third.exited
    await using fourth = await startSvc({ folder: first.folder, port, flags: ["--no-persist"] })
    expect((await post(`${fourth.url}/mcp`, { id: 1, method: "ping" }, session)).status).toBe(404)
  }, 30_000)

  test("expires when nobody uses it", async () => {
    await using svc = await startSvc({ flags: ["--demo", "--metrics", "--session-ttl", "100ms"] })
    const session = await initialize(`${svc.url}/mcp`)
    await eventually(async () => (await (await fetch(`${svc.url}/metrics`)).text()).includes("\nsvc_sessions 0\n"))
    expect((await post(`${svc.url}/mcp`, { id: 1, method: "ping" }, session)).status).toBe(404)
  })
})

type SentEvent = { id: string; data: string; event: string | undefined }

/** The events of a stream as they come; `enough` ends the reading. */
async function readEvents(response: Response, enough: (events: SentEvent[]) => boolean) {
  const events: SentEvent[] = []
  let text = ""
  const decoder = new TextDecoder()
  for await (const chunk of response.body ?? []) {
    text += decoder.decode(chunk, { stream: true })
    for (let end = text.indexOf("\n\n"); end >= 0; end = text.indexOf("\n\n")) {
      const fields = Object.fromEntries(
        text
          .slice(0, end)
          .split("\n")
          .map((line) => [line.slice(0, line.indexOf(":")), line.slice(line.indexOf(":") + 1).trim()]),
      )
      text = text.slice(end + 2)
      if (fields.id !== undefined) events.push({ id: fields.id, data: fields.data ?? "", event: fields.event })
    }
    if (enough(events)) break
  }
  return events
}

const everything = async (): Promise<Instance> => {
  const svc = await startSvc({ config: { mcpServers: { e: npmServer("server-everything") } } })
  await svc.said("e: connected")
  return svc
}

test("a slash at the end of an address changes nothing, for clients of each transport [inbound:slash]", async () => {
  await using svc = await startSvc({ config: { mcpServers: { demo: { command: SVC, args: ["demo-server"] } } } })
  await svc.said("demo: connected")
  const { SSEClientTransport } = await import("@modelcontextprotocol/sdk/client/sse.js")
  for (const path of ["/mcp/", "/mcp/?tools=all", "/servers/demo/mcp/", "/sse/"]) {
    const client = new Client({ name: "t", version: "1" })
    const url = new URL(`${svc.url}${path}`)
    await client.connect(path === "/sse/" ? new SSEClientTransport(url) : new StreamableHTTPClientTransport(url))
    expect([path, (await client.listTools()).tools.length > 0]).toEqual([path, true])
    await client.close()
  }
  for (const [path, status] of [
    ["/health/", 200],
    ["/health/live/", 200],
    ["/health/mcp/demo/", 200],
    ["/mcp/server-card/", 200],
    ["/servers/demo/mcp/server-card/", 200],
    ["/api/tools/", 200],
    ["/api/v1/servers/", 401],
    ["/admin/", 200],
    ["/nothing/", 404],
  ] as const)
    expect([path, (await fetch(`${svc.url}${path}`, { redirect: "error" })).status]).toEqual([path, status])
  const { stdout } = await runSvc(["admin", "--print", "--config-dir", svc.folder])
  const link = new URL(stdout.trim())
  const opened = await fetch(`${link.origin}${link.pathname}/${link.search}`, { redirect: "manual" })
  const page = new URL(opened.headers.get("location") ?? "", opened.url)
  expect([opened.status, page.pathname]).toEqual([303, "/admin/"])
})

test("clients of HTTP+SSE reach svc under a path that a proxy removes [inbound:prefix]", async () => {
  let target = ""
  using proxy = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    idleTimeout: 0,
    fetch(request) {
      const { pathname, search } = new URL(request.url)
      if (!pathname.startsWith("/svc/")) return new Response("another service", { status: 404 })
      const { method, headers, body, signal } = request
      return fetch(`${target}${pathname.slice(4)}${search}`, { method, headers, body, signal })
    },
  })
  const config = { mcpServers: { demo: { command: SVC, args: ["demo-server"] } } }
  const external = `http://127.0.0.1:${proxy.port}/svc`
  await using svc = await startSvc({ config, flags: ["--external-url", external] })
  target = svc.url
  await svc.said("demo: connected")
  const { SSEClientTransport } = await import("@modelcontextprotocol/sdk/client/sse.js")
  for (const address of [`${external}/sse`, `${external}/sse/`, `${svc.url}/sse`]) {
    const client = new Client({ name: "t", version: "1" })
    await client.connect(new SSEClientTransport(new URL(address)))
    expect([address, (await client.listTools()).tools.length > 0]).toEqual([address, true])
    await client.close()
  }
})

test("a call that is silent for a long time gets an open stream, whose last event is its answer or its error [protocol:silent]", async () => {
  const replica = { command: "bun", args: [fixture("replica.ts")] }
  await using svc = await startSvc({ config: { mcpServers: { x: replica, y: { ...replica, resultBudget: 8000 } } } })
  for (const name of ["x", "y"]) await svc.said(`${name}: connected`)
  const session = await initialize(`${svc.url}/mcp`)
  const meta = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": { name: "t", version: "1" },
    "io.modelcontextprotocol/clientCapabilities": {},
  }
  let lastId = 0
  const hold = (path: string, name: string, accept: string, era: "legacy" | "modern") =>
    fetch(`${svc.url}${path}`, {
      method: "POST",
      headers: {
        "content-type": "application/json",
        accept,
        ...(era === "legacy"
          ? { "mcp-session-id": session }
          : { "mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": name }),
      },
      body: JSON.stringify({
        jsonrpc: "2.0",
        id: ++lastId,
        method: "tools/call",
        params: { name, arguments: {}, ...(era === "modern" ? { _meta: meta } : {}) },
      }),
    })
  const json = hold("/mcp", "x_svc_hold", "application/json", "legacy")
  const streams = await Promise.all([
    hold("/mcp", "x_svc_hold", BOTH, "legacy"),
    hold("/mcp", "x_svc_hold", BOTH, "modern"),
    hold("/servers/x/mcp", "hold", "text/event-stream, application/json", "modern"),
    hold("/mcp", "y_svc_hold", BOTH, "legacy"),
    hold("/mcp", "y_svc_hold", BOTH, "modern"),
  ])
  for (const { status, headers } of streams)
    expect([status, headers.get("content-type")]).toEqual([200, "text/event-stream"])
  const direct = async (server: string, name: string) => {
    const { body } = await modern(`${svc.url}/servers/${server}/mcp`, "tools/call", { name, arguments: {} })
    return (body.result as { content: { text: string }[] }).content[0]?.text ?? ""
  }
  await direct("x", "release")
  process.kill(Number(await direct("y", "who")), "SIGKILL")
  const answer = await json
  expect([answer.status, answer.headers.get("content-type")]).toEqual([200, "application/json"])
  expect(await answer.json()).toMatchObject({
    id: 1,
    result: { content: [{ text: expect.stringMatching(/released$/) }] },
  })
  for (const [at, stream] of streams.entries()) {
    const text = await stream.text()
    expect(text).toMatch(/^(?:id: .*\nretry: .*\ndata:\n\n)?:\n\n/)
    const messages = [...text.matchAll(/^data: (\{.*)$/gm)].map(([, data = ""]) => JSON.parse(data))
    expect(messages).toHaveLength(1)
    const [message] = messages
    expect(message.id).toBe(at + 2)
    expect(JSON.stringify(message.result ?? message.error)).toMatch(at < 3 ? /released/ : /y /)
  }
}, 40_000)

test("a stream whose connection breaks is resumed where it was; its events are named [protocol:event]", async () => {
  await using svc = await everything()
  const url = `${svc.url}/mcp`
  const session = await initialize(url)
  const headers = { "content-type": "application/json", accept: BOTH, "mcp-session-id": session }
  const long = { jsonrpc: "2.0", ...call("e_svc_trigger-long-running-operation", { duration: 1, steps: 5 }, 9) }
  const broken = await fetch(url, { method: "POST", headers, body: JSON.stringify(long) })
  const seen = await readEvents(broken, (events) => events.length >= 3)
  expect(seen.slice(1).every(({ event }) => event === "message")).toBe(true)
  expect(seen[0]?.data).toBe("")
  const last = seen.at(-1)?.id ?? ""
  const again = await fetch(url, {
    headers: { accept: "text/event-stream", "mcp-session-id": session, "last-event-id": last },
  })
  const rest = await readEvents(again, () => false)
  expect(rest.every(({ event }) => event === "message")).toBe(true)
  const messages = [...seen.slice(1), ...rest].map(({ data }) => JSON.parse(data))
  expect(messages.slice(0, -1).map(({ params }) => params.progress)).toEqual([1, 2, 3, 4, 5])
  expect(messages.at(-1)).toMatchObject({ id: 1, result: { content: [{ type: "text" }] } })
})

test("a stream that cannot be resumed starts anew, because the session still exists [protocol:stream]", async () => {
  await using svc = await startSvc({ flags: ["--demo"] })
  const url = `${svc.url}/mcp`
  const [mine, other] = [await initialize(url), await initialize(url)]
  const listen = (session: string, last?: string) =>
    fetch(url, {
      headers: {
        accept: "text/event-stream",
        "mcp-session-id": session,
        ...(last === undefined ? {} : { "last-event-id": last }),
      },
    })
  const first = await listen(other)
  const foreign = (await readEvents(first, (events) => events.length > 0))[0]?.id ?? ""
  for (const last of [foreign, "99-1", "", "x", "1-0", "\u00e9", "l-1-1".repeat(1000)]) {
    const stream = await listen(mine, last)
    expect([last.slice(0, 20), stream.status]).toEqual([last.slice(0, 20), 200])
    const [start] = await readEvents(stream, (events) => events.length > 0)
    expect(start?.data).toBe("")
  }
})

test("a client that reconnects after an error, as SDK 1.x does, learns that the stream is over [protocol:stream:over]", async () => {
  const parrot = { command: "bun", args: [fixture("parrot.ts")] }
  await using svc = await startSvc({ config: { mcpServers: { parrot } }, flags: ["--startup-wait", "20s"] })
  const statuses: number[] = []
  const watched = async (url: string | URL, init?: RequestInit) => {
    const response = await fetch(url, init)
    if (init?.method === "GET") statuses.push(response.status)
    return response
  }
  const client = new Client({ name: "t", version: "1" })
  await client.connect(new StreamableHTTPClientTransport(new URL(`${svc.url}/mcp`), { fetch: watched }) as never)
  const body = '{"code":-32000,"message":"no"}'
  const failing = client.callTool({ name: "parrot_svc_flood", arguments: { count: 1, shape: "error", body } })
  await failing.catch((error: Error) => expect(error.message).toContain("no"))
  await eventually(() => statuses.length === 2)
  expect(statuses).toEqual([200, 204])
  await client.close()
})

test("a call that was lost in a restart of svc is answered with an error when its client reconnects", async () => {
  const config = { mcpServers: { e: npmServer("server-everything") } }
  const first = await startSvc({ config, flags: ["--startup-wait", "20s"] })
  const session = await initialize(`${first.url}/mcp`)
  const headers = { "content-type": "application/json", accept: BOTH, "mcp-session-id": session }
  const long = { ...call("e_svc_trigger-long-running-operation", { duration: 60, steps: 60 }, 9), id: "long-é" }
  const body = JSON.stringify({ jsonrpc: "2.0", ...long })
  const seen = await readEvents(
    await fetch(`${first.url}/mcp`, { method: "POST", headers, body }),
    (events) => events.length >= 2,
  )
  first.signal("SIGKILL")
  await first.exited
  const port = Number(new URL(first.url).port)
  await using second = await startSvc({ folder: first.folder, port })
  const open = (last?: string) =>
    fetch(`${second.url}/mcp`, {
      headers: { accept: "text/event-stream", "mcp-session-id": session, ...(last && { "last-event-id": last }) },
    })
  const standalone = await open()
  const [told, ...more] = await readEvents(await open(seen.at(-1)?.id), () => false)
  expect(JSON.parse(told?.data ?? "{}")).toMatchObject({ id: "long-é", error: { code: -32603 } })
  expect(more).toEqual([])
  expect((await open(told?.id)).status).toBe(204)
  // The stream for messages that belong to no request continues where it was.
  await post(`${second.url}/mcp`, { method: "notifications/initialized" }, session)
  const ended = await Promise.race([standalone.text().then(() => true), Bun.sleep(50).then(() => false)])
  expect(ended).toBe(false)
}, 30_000)

test("the end of a session ends its stream, and cancels its running calls at the server", async () => {
  await using svc = await startSvc({
    config: { mcpServers: { slow: echo("--delay", "600000") } },
    flags: ["--metrics"],
  })
  await svc.said("slow: connected")
  const url = `${svc.url}/mcp`
  const session = await initialize(url)
  const stream = await fetch(url, { headers: { accept: "text/event-stream", "mcp-session-id": session } })
  const call1 = post(url, call("slow_svc_echo"), session)
  await callsRun(svc)
  expect((await fetch(url, { method: "DELETE", headers: { "mcp-session-id": session } })).status).toBe(204)
  // A request that its client has cancelled is not answered.
  expect((await call1).body).toBe("")
  await stream.text()
})

test("a batch gets one answer, and a batch with an invalid part is refused before any part is executed", async () => {
  await using svc = await startSvc({ flags: ["--demo"] })
  const url = `${svc.url}/mcp`
  const session = await initialize(url)
  const send = async (messages: unknown[]) => {
    const headers = { "content-type": "application/json", accept: BOTH, "mcp-session-id": session }
    const response = await fetch(url, { method: "POST", headers, body: JSON.stringify(messages) })
    return { status: response.status, body: (await response.json().catch(() => undefined)) as { id: number }[] }
  }
  const ping = (id: number) => ({ jsonrpc: "2.0", id, method: "ping" })
  const { status, body } = await send([ping(1), { jsonrpc: "2.0", method: "notifications/initialized" }, ping(2)])
  expect([status, body.map(({ id }) => id).sort()]).toEqual([200, [1, 2]])
  expect((await send([ping(1), { jsonrpc: "1.0" }])).status).toBe(400)
  expect((await send([])).status).toBe(400)
  expect((await send([{ jsonrpc: "2.0", method: "notifications/initialized" }])).status).toBe(202)
})

test("messages that precede the answers of a batch come on its stream, and the answers as one batch", async () => {
  await using svc = await everything()
  const url = `${svc.url}/mcp`
  const session = await initialize(url)
  const long = { jsonrpc: "2.0", ...call("e_svc_trigger-long-running-operation", { duration: 0.2, steps: 2 }, 9) }
  const headers = { "content-type": "application/json", accept: BOTH, "mcp-session-id": session }
  const body = JSON.stringify([long, { jsonrpc: "2.0", id: 2, method: "ping" }])
  const text = await (await fetch(url, { method: "POST", headers, body })).text()
  const said = [...text.matchAll(/^data: (.+)$/gm)].map(([, data = ""]) => JSON.parse(data))
  expect(said.slice(0, -1).map(({ params }) => params.progress)).toEqual([1, 2])
  expect(said.at(-1)).toMatchObject([
    { id: 1, result: {} },
    { id: 2, result: {} },
  ])
})

test("subscriptions and the log level survive a restart of svc, and updates reach the client that reconnects", async () => {
  const config = { mcpServers: { s: { command: "bun", args: [fixture("everything-1x.ts")] } } }
  const first = await startSvc({ config, flags: ["--startup-wait", "20s"] })
  const session = await initialize(`${first.url}/mcp`)
  const uri = "svc://s/test://watched-resource"
  await post(`${first.url}/mcp`, { id: 1, method: "resources/subscribe", params: { uri } }, session)
  await post(`${first.url}/mcp`, { id: 2, method: "logging/setLevel", params: { level: "error" } }, session)
  const open = (url: string, last?: string) =>
    fetch(`${url}/mcp`, {
      headers: { accept: "text/event-stream", "mcp-session-id": session, ...(last && { "last-event-id": last }) },
    })
  const [start] = await readEvents(await open(first.url), (events) => events.length > 0)
  first.signal("SIGTERM")
  await first.exited
  const port = Number(new URL(first.url).port)
  await using second = await startSvc({ folder: first.folder, port, flags: ["--startup-wait", "20s"] })
  const stream = await open(second.url, start?.id)
  expect(stream.status).toBe(200)
  const news = readEvents(stream, (events) => events.some(({ data }) => data.includes("resources/updated")))
  await post(`${second.url}/mcp`, call("s_svc_test_tool_with_logging"), session)
  await post(`${second.url}/mcp`, call("s_svc_touch", { uri: "test://watched-resource" }), session)
  const texts = (await news).map(({ data }) => data)
  expect(texts.some((text) => text.includes(JSON.stringify(uri)))).toBe(true)
  expect(texts.some((text) => text.includes("notifications/message"))).toBe(false)
}, 30_000)

test("a client's log level is its own", async () => {
  await using svc = await everything()
  const url = `${svc.url}/mcp`
  const [loud, calm] = [await initialize(url), await initialize(url)]
  await post(url, { id: 2, method: "logging/setLevel", params: { level: "debug" } }, loud)
  await post(url, { id: 2, method: "logging/setLevel", params: { level: "emergency" } }, calm)
  const listen = (session: string) =>
    fetch(url, { headers: { accept: "text/event-stream", "mcp-session-id": session } })
  const [streamLoud, streamCalm] = await Promise.all([listen(loud), listen(calm)])
  const heard = readEvents(streamLoud, (events) => events.some(({ data }) => data.includes("notifications/message")))
  let calmHeard = ""
  void (async () => {
    const decoder = new TextDecoder()
    for await (const chunk of streamCalm.body ?? []) calmHeard += decoder.decode(chunk)
  })().catch(() => undefined)
  await post(url, call("e_svc_toggle-simulated-logging"), loud)
  expect((await heard).some(({ data }) => data.includes("notifications/message"))).toBe(true)
  expect(calmHeard).not.toContain("notifications/message")
}, 30_000)

test('a server with isolation "session" has a process for each session, which ends with it', async () => {
  const mark = `svc-mark-${crypto.randomUUID()}`
  await using svc = await startSvc({
    config: { mcpServers: { own: { ...echo("--pid", mark), isolation: "session" } } },
  })
  const url = `${svc.url}/mcp`
  const pidOf = async (session: string) =>
    JSON.parse((await post(url, call("own_svc_echo"), session)).body).result.content[0].text
  const [one, two] = [await initialize(url), await initialize(url)]
  const pids = [await pidOf(one), await pidOf(one), await pidOf(two)]
  expect(pids[0]).toBe(pids[1])
  expect(pids[2]).not.toBe(pids[0])
  expect(processes(mark)).toHaveLength(3)
  await fetch(url, { method: "DELETE", headers: { "mcp-session-id": one } })
  await eventually(() => processes(mark).length === 2)
})

test("the next call starts a session's own process again: after its end, and after a restart of svc", async () => {
  await using svc = await startSvc({ config: { mcpServers: { own: { ...echo("--pid"), isolation: "session" } } } })
  const url = `${svc.url}/mcp`
  const session = await initialize(url)
  const pidOf = async () => {
    const { isError, content } = JSON.parse((await post(url, call("own_svc_echo"), session)).body).result
    return isError === true ? undefined : Number(content[0].text)
  }
  const first = await pidOf()
  process.kill(first as number, "SIGKILL")
  const second = await eventually(async () => {
    const pid = await pidOf()
    return pid !== first && pid
  })
  expect((await runSvc(["mcp", "restart", "own", "--config-dir", svc.folder])).stdout).toMatch(/^restarted own/)
  const third = await eventually(pidOf)
  expect([first, second]).not.toContain(third)
})

test("processes of sessions are bounded in number, and those of abandoned sessions end [isolation:idle] [isolation:bound]", async () => {
  const mark = `svc-mark-${crypto.randomUUID()}`
  const own = { ...echo("--pid", mark), isolation: "session", maxProcesses: 5 }
  await using svc = await startSvc({ config: { mcpServers: { own } } })
  await svc.said("own: connected")
  const url = `${svc.url}/mcp`
  let most = 0
  const text = async (session: string) => {
    const { body } = await post(url, call("own_svc_echo"), session)
    // The shared one, of which the list is taken, is not a session's.
    most = Math.max(most, processes(mark).length - 1)
    return body
  }
  const sessions: string[] = []
  for (let count = 0; count < 30; count++) {
    sessions.push(await initialize(url))
    expect(await text(sessions.at(-1) as string)).toContain('"result":{"content":[{"type":"text","text":"')
  }
  expect(most).toBe(5)
  // All at once: a session without room gets an error, and none gets the process of another.
  const bodies = await Promise.all(sessions.map(text))
  for (const body of bodies)
    expect(body).toMatch(/"text":"\d+"|has 5 processes for sessions and all are in use; .*maxProcesses/)
  expect(most).toBe(5)
  svc.write({ mcpServers: { own: { ...own, idleTimeout: 200 } } })
  await eventually(() => processes(mark).length === 1)
  const [first = ""] = sessions
  expect(await text(first)).toMatch(
    /"method":"notifications\/message".*own: the process of this session was stopped .* the state of the old one is lost.*"text":"\d+"/s,
  )
}, 60_000)

test("requests past --max-in-flight are refused with a clear error", async () => {
  await using svc = await startSvc({
    config: { mcpServers: { slow: echo("--delay", "500") } },
    flags: ["--max-in-flight", "2"],
  })
  const url = `${svc.url}/mcp`
  const sessions = await Promise.all([0, 1, 2].map(() => initialize(url)))
  await svc.said("slow: connected")
  const bodies = await Promise.all(
    sessions.map(async (session) => (await post(url, call("slow_svc_echo", { m: "ok" }), session)).body),
  )
  const texts = bodies.map((body) => JSON.parse(body).result.content[0].text).sort()
  expect(texts).toEqual(["ok", "ok", "slow has 2 requests in flight already; try again later"])
})

test("a server takes no more lists with the _meta of clients than --max-in-flight allows", async () => {
  await using svc = await startSvc({
    config: { mcpServers: { slow: echo("--delay", "1500") } },
    flags: ["--max-in-flight", "1"],
  })
  const own = `${svc.url}/servers/slow/mcp`
  const [caller, lister] = await Promise.all([initialize(own), initialize(own)])
  await svc.said("slow: connected")
  const list = { jsonrpc: "2.0", id: 1, method: "tools/list", params: { _meta: { "x/variant": "any" } } }
  const running = post(own, call("echo", { m: "ok" }), caller)
  let refusal: unknown
  await eventually(async () => {
    refusal = JSON.parse((await post(own, list, lister)).body).error
    return refusal !== undefined
  })
  expect(refusal).toMatchObject({ message: expect.stringContaining("has 1 requests in flight already") })
  expect((await running).body).toContain('"ok"')
})

describe("a faulty request of a legacy client", () => {
  test.each([
    ["an unknown log level", { id: 1, method: "logging/setLevel", params: { level: "loud" } }, {}, 200, -32602],
    ["an unknown cursor", { id: 1, method: "tools/list", params: { cursor: "x" } }, {}, 200, -32602],
    ["an unknown version", { id: 1, method: "ping" }, { "mcp-protocol-version": "x" }, 400, -32600],
    [
      "an unknown version on a notification",
      { method: "notifications/x" },
      { "mcp-protocol-version": "x" },
      400,
      -32600,
    ],
    [
      "a name that every JavaScript object has",
      { id: 1, method: "tools/call", params: { name: "__proto__" } },
      {},
      200,
      -32602,
    ],
    ["a method that every JavaScript object has", { id: 1, method: "constructor" }, {}, 200, -32601],
    ["params that are not an object", { id: 1, method: "ping", params: [1] }, {}, 400, -32600],
    ["an invalid id", { id: null, method: "ping" }, {}, 400, -32600],
  ])("is answered with an error: %s", async (_what, message, headers, status, code) => {
    await using svc = await startSvc({ flags: ["--demo"] })
    const session = await initialize(`${svc.url}/mcp`)
    const answer = await post(`${svc.url}/mcp`, message, session, headers)
    expect([answer.status, JSON.parse(answer.body).error.code]).toEqual([status, code])
    if (Object.hasOwn(headers, "mcp-protocol-version"))
      expect(answer.body).toContain("x (supported: 2026-07-28, 2025-11-25, 2025-06-18")
  })
})

describe("a faulty request of a modern client", () => {
  const name = "e_svc_test_elicitation"
  const args = { message: "m" }
  const can = { "io.modelcontextprotocol/clientCapabilities": { elicitation: {} } }
  const level = { "io.modelcontextprotocol/logLevel": "loud" }
  const version = { "io.modelcontextprotocol/protocolVersion": "2027-01-01" }
  let svc: Instance
  beforeAll(async () => {
    const stdio = { command: "bun", args: [fixture("everything-1x.ts")], protocolVersion: "legacy" }
    svc = await startSvc({ config: { mcpServers: { e: stdio } }, flags: ["--startup-wait", "20s"] })
  })
  afterAll(() => svc[Symbol.asyncDispose]())

  test.each([
    ["an unknown state", { name, arguments: args, requestState: "x", _meta: can }, {}, 200, -32602],
    ["a state that looks like svc's", { name, arguments: args, requestState: "svc.x", _meta: can }, {}, 200, -32602],
    ["a state that is not a string", { name, arguments: args, requestState: 7, _meta: can }, {}, 200, -32602],
    ["an unknown log level", { name, arguments: args, _meta: level }, {}, 400, -32602],
    ["another name in the header", { name, arguments: args }, { "mcp-name": "test_elicitation" }, 400, -32020],
    ["no name, in the body and the header", { arguments: args }, {}, 200, -32602],
    ["another method in the header", { name, arguments: args }, { "mcp-method": "tools/list" }, 400, -32020],
    ["another version in the header", { name }, { "mcp-protocol-version": "2025-11-25" }, 400, -32020],
    ["a capability that it lacks", { name, arguments: args }, {}, 400, -32021],
    ["a future version", { name, _meta: version }, { "mcp-protocol-version": "2027-01-01" }, 400, -32022],
  ])("is answered with an error: %s", async (_what, params, headers, status, code) => {
    const answer = await modern(`${svc.url}/mcp`, "tools/call", params, headers as Record<string, string>)
    expect([answer.status, answer.body.error?.code]).toEqual([status, code])
  })

  test("is not an unknown notification", async () => {
    const headers = { "content-type": "application/json", "mcp-protocol-version": "2026-07-28" }
    const body = JSON.stringify({ jsonrpc: "2.0", method: "com.example/news" })
    expect((await fetch(`${svc.url}/mcp`, { method: "POST", headers, body })).status).toBe(202)
  })
})

test("svc's own subscriptions do not count as calls, and svc does not wait for them when it stops", async () => {
  const svc = await startSvc({
    config: {
      mcpServers: { s: { command: "bun", args: [fixture("everything-2x.ts")], protocolVersion: "2026-07-28" } },
    },
    flags: ["--shutdown-grace", "1h", "--metrics"],
  })
  await svc.said("s: connected")
  expect(await (await fetch(`${svc.url}/metrics`)).text()).toContain("svc_calls_in_flight 0")
  await svc[Symbol.asyncDispose]()
}, 30_000)

test("when svc stops, it answers the calls that it cannot finish with an error", async () => {
  const svc = await startSvc({
    config: { mcpServers: { slow: echo("--delay", "60000") } },
    flags: ["--shutdown-grace", "100ms", "--metrics"],
  })
  await svc.said("slow: connected")
  const url = `${svc.url}/mcp`
  const old = post(url, call("slow_svc_echo"), await initialize(url))
  const young = modern(url, "tools/call", { name: "slow_svc_echo", arguments: {} })
  await callsRun(svc, 2)
  svc.signal("SIGTERM")
  expect(JSON.parse((await old).body).result).toMatchObject({ isError: true })
  expect((await young).body.result).toMatchObject({ isError: true })
  expect(await svc.exited).toBe(0)
})

test("a compressed body is refused with 415, which names the cause", async () => {
  await using svc = await startSvc({ flags: ["--demo"] })
  const response = await fetch(`${svc.url}/mcp`, {
    method: "POST",
    headers: { "content-type": "application/json", accept: BOTH, "content-encoding": "gzip" },
    body: Bun.gzipSync(JSON.stringify({ jsonrpc: "2.0", id: 1, method: "ping" })),
  })
  expect([response.status, response.headers.get("accept-encoding")]).toEqual([415, "identity"])
  expect(await response.text()).toContain("Content-Encoding")
})

describe("a server decides [relay:decides]", () => {
  const servers = {
    a: { command: "bun", args: [fixture("deciding.ts")] },
    b: { command: "bun", args: [fixture("deciding.ts"), "--plain"] },
  }
  const ask = async (url: string, session: string, method: string, params: object, id = 1) =>
    JSON.parse((await post(url, { id, method, params }, session)).body)

  test("on subscriptions and log levels, and the client gets its answer", async () => {
    await using svc = await startSvc({ config: { mcpServers: servers } })
    for (const name of ["a", "b"]) await svc.said(`${name}: connected`)
    const [all, own, plain] = [`${svc.url}/mcp`, `${svc.url}/servers/a/mcp`, `${svc.url}/servers/b/mcp`]
    const [inAll, inOwn, inPlain] = await Promise.all([all, own, plain].map(initialize))
    const at = [
      [all, inAll ?? "", "svc://a/"],
      [own, inOwn ?? "", ""],
    ] as const
    for (const [url, session, prefix] of at) {
      const subscribe = (uri: string) => ask(url, session, "resources/subscribe", { uri: `${prefix}${uri}` })
      expect(await subscribe("x:yes")).toMatchObject({ result: {} })
      // Twice: the refusal leaves nothing behind.
      for (let time = 0; time < 2; time++)
        expect(await subscribe("x:no")).toMatchObject({ error: { code: -32602, message: "not this one" } })
    }
    const read = await ask(own, inOwn ?? "", "resources/read", { uri: "x:yes" })
    expect(read.result.contents[0].text).toBe("x:yes")
    const level = (url: string, session: string, level: string) => ask(url, session, "logging/setLevel", { level })
    expect(await level(own, inOwn ?? "", "debug")).toMatchObject({ error: { code: -32602, message: "not so much" } })
    expect(await level(own, inOwn ?? "", "info")).toMatchObject({ result: {} })
    expect(await ask(plain, inPlain ?? "", "resources/subscribe", { uri: "x:yes" })).toMatchObject({
      error: { code: -32601 },
    })
    expect(await ask(all, inAll ?? "", "resources/subscribe", { uri: "svc://b/x:yes" })).toMatchObject({
      error: { code: -32601 },
    })
    expect(await level(plain, inPlain ?? "", "info")).toMatchObject({ error: { code: -32601 } })
    expect(await ask(plain, inPlain ?? "", "resources/unsubscribe", { uri: "x:yes" })).toMatchObject({
      error: { code: -32601 },
    })
  })

  test("on the end of a subscription, which the client learns when the server has answered", async () => {
    await using svc = await startSvc({ config: { mcpServers: servers } })
    await svc.said("a: connected")
    const own = `${svc.url}/servers/a/mcp`
    const session = (await initialize(own)) ?? ""
    const read = async (uri: string) =>
      (await ask(own, session, "resources/read", { uri })).result.contents[0].text as string
    await ask(own, session, "resources/subscribe", { uri: "x:slow" })
    let ended = false
    const end = ask(own, session, "resources/unsubscribe", { uri: "x:slow" }, 2).finally(() => {
      ended = true
    })
    expect(await read("x:yes")).toBe("x:slow")
    expect(ended).toBe(false)
    await read("x:release")
    expect(await end).toMatchObject({ result: {} })
    expect(await read("x:yes")).toBe("")
  })

  test("on a list whose _meta names a variant, at its own address [relay:list-meta]", async () => {
    await using svc = await startSvc({ config: { mcpServers: servers } })
    await svc.said("a: connected")
    const [all, own] = [`${svc.url}/mcp`, `${svc.url}/servers/a/mcp`]
    const [inAll, inOwn] = await Promise.all([all, own].map(initialize))
    const list = (url: string, session: string, _meta: object) => ask(url, session, "resources/list", { _meta })
    const uris = ({ result }: { result: { resources: { uri: string }[] } }) => result.resources.map(({ uri }) => uri)
    const more = { "x/variant": "more" }
    const found = await list(own, inOwn ?? "", { ...more, progressToken: 1, traceparent: "00-1-1-01" })
    expect(uris(found)).toEqual(["x:yes", "x:no", "x:more"])
    expect(found.result._meta).toEqual(more)
    expect(uris(await list(own, inOwn ?? "", {}))).toEqual(["x:yes", "x:no"])
    const { status, body } = await modern(own, "resources/list", { _meta: more })
    expect([status, uris(body as never)]).toEqual([200, ["x:yes", "x:no", "x:more"]])
    expect(await list(own, inOwn ?? "", { "x/variant": "no" })).toMatchObject({
      error: { code: -32602, message: 'no such variant: {"x/variant":"no"}' },
    })
    // On /mcp, no server is addressed.
    expect(uris(await list(all, inAll ?? "", more)).filter((uri) => uri.startsWith("svc://a/"))).toHaveLength(2)
  })
})
