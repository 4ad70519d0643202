/** Requests over a connection that the server closes as they arrive: what is safe is sent again, and nothing else. */
import { afterEach, expect, test } from "bun:test"
import type { Socket } from "bun"
import type { EstablishedConnection } from "../../src/backend/established-connection.ts"
import { HttpClient } from "../../src/backend/http-client.ts"
import { openConnection } from "../../src/backend/open-connection.ts"
import type { ServerSpec, TransportType } from "../../src/config/server-spec.ts"
import { systemClock as clock } from "../../src/lib/clock.ts"
import { messageOf } from "../../src/lib/errors.ts"
import { silentLog } from "../../src/lib/log.ts"
import { createRequestIds } from "../../src/wire/frame.ts"

type Link = { text: string; used: boolean }
type Message = { readonly id?: string; readonly method?: string }

const closing: (() => unknown)[] = []
afterEach(async () => {
  for (const close of closing.splice(0)) await close()
})

const TOOLS = [
  { name: "write" },
  { name: "hint", annotations: { readOnlyHint: false, idempotentHint: "yes", title: "t" } },
  { name: "read", annotations: { readOnlyHint: true } },
  { name: "set", annotations: { idempotentHint: true, destructiveHint: true } },
]
const RESULTS: Readonly<Record<string, object>> = {
  initialize: { protocolVersion: "2025-11-25", capabilities: { tools: {} }, serverInfo: { name: "s", version: "1" } },
  "tools/list": { tools: TOOLS },
}

/** A server over both transports, which once closes a used or a new connection without an answer when a request `closeAt` arrives. */
function serve() {
  const arrived: string[] = []
  const wanted: { closeAt: string | undefined; on: "used" | "new" } = { closeAt: undefined, on: "used" }
  const idle = new Set<Socket<Link>>()
  let stream: ((text: string) => void) | undefined
  const server = Bun.listen<Link>({
    hostname: "127.0.0.1",
    port: 0,
    socket: {
      open(socket) {
        socket.data = { text: "", used: false }
      },
      data(socket, chunk) {
        const link = socket.data
        link.text += chunk.toString()
        const end = link.text.indexOf("\r\n\r\n") + 4
        const length = Number(/content-length: (\d+)/i.exec(link.text)?.[1] ?? 0)
        if (end < 4 || Buffer.byteLength(link.text) < end + length) return
        const body = link.text.slice(end)
        const [verb, path] = link.text.split(" ", 2)
        link.text = ""
        const { id, method = "response" } = body === "" ? { method: verb } : (JSON.parse(body) as Message)
        arrived.push(method)
        if (method === wanted.closeAt && link.used === (wanted.on === "used")) {
          wanted.closeAt = undefined
          socket.end()
          return
        }
        link.used = true
        const respond = (status: string, text = "") =>
          void socket.write(
            `HTTP/1.1 ${status}\r\nContent-Type: application/json\r\nContent-Length: ${text.length}\r\n\r\n${text}`,
          )
        if (verb === "GET" && path === "/sse") {
          socket.write("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\nevent: endpoint\ndata: /messages\n\n")
          stream = (text) => void socket.write(`data: ${text}\n\n`)
          return
        }
        idle.add(socket)
        if (verb !== "POST") return respond("405 No")
        if (id === undefined) return respond("202 Accepted")
        const answer = JSON.stringify({ jsonrpc: "2.0", id, result: RESULTS[method] ?? { ok: true } })
        if (path !== "/messages") return respond("200 OK", answer)
        respond("202 Accepted")
        stream?.(answer)
      },
      close(socket) {
        idle.delete(socket)
      },
    },
  })
  closing.push(() => server.stop(true))
  return {
    arrived,
    wanted,
    port: server.port,
    count: (method: string) => arrived.filter((one) => one === method).length,
    /** Closes all connections but streams, and lets the client see it. */
    async closeIdle() {
      for (const socket of idle) socket.end()
      for (let turn = 0; turn < 20 || idle.size > 0; turn++) await new Promise((resolve) => setImmediate(resolve))
    },
  }
}

async function open(
  port: number,
  transport: TransportType,
): Promise<{ opened: EstablishedConnection; losses: string[] }> {
  const url = `http://127.0.0.1:${port}/${transport === "sse" ? "sse" : "mcp"}`
  const spec = {
    name: "s",
    launch: { transport, url, headers: {}, oauth: undefined, mode: "legacy" },
    tuning: { connectionTimeout: 10_000, requestTimeout: 10_000 },
    secrets: [],
  } as unknown as ServerSpec
  const hooks = {
    onnotification() {},
    owner: undefined,
    onfailure() {},
    onrenewed() {},
    onlisting() {},
    subscriptions: () => [],
    logLevel: () => undefined,
  }
  const deps = {
    openChild: () => Promise.reject(new Error("no child")),
    openClient: (address: string) => new HttpClient(address, { clock, env: {} }),
    credentials: () => undefined,
    ids: createRequestIds("x"),
    clock,
    log: silentLog,
    eras: { get: () => undefined, set() {}, forget() {} },
    limit: 1 << 20,
    version: "0",
  }
  const opened = await openConnection(spec, hooks, deps, new AbortController().signal)
  closing.push(() => opened.close())
  const losses: string[] = []
  void opened.closed.then(({ reason }) => losses.push(reason))
  return { opened, losses }
}

const SAFE: readonly (readonly [method: string, params?: object])[] = [
  ["tools/list"],
  ["prompts/list"],
  ["resources/list"],
  ["resources/templates/list"],
  ["resources/read", { uri: "a:b" }],
  ["prompts/get", { name: "p" }],
  ["completion/complete", {}],
  ["server/discover", {}],
  ["tools/call", { name: "read" }],
  ["tools/call", { name: "set" }],
]

for (const transport of ["http", "sse"] as const) {
  test(`a ping on a connection that the server closes is sent again, and the server is not lost (${transport}) [remote:repeat]`, async () => {
    const server = serve()
    const { opened, losses } = await open(server.port, transport)
    for (let round = 1; round <= 3; round++) {
      server.wanted.closeAt = "ping"
      await opened.ping(5000)
      expect(server.count("ping")).toBe(2 * round)
    }
    expect(server.count("initialize")).toBe(1)
    expect(losses).toEqual([])
  })

  test(`a request that only reads is sent again (${transport}) [remote:repeat]`, async () => {
    const server = serve()
    const { opened, losses } = await open(server.port, transport)
    for (const [method, params = {}] of SAFE) {
      await opened.ping(5000)
      const before = server.count(method)
      server.wanted.closeAt = method
      await opened.connection.ask(method, { ...params }, 5000)
      expect([method, server.count(method) - before]).toEqual([method, 2])
    }
    expect(losses).toEqual([])
  })

  test(`a request that only reads is sent again if the server closes a new connection (${transport}) [remote:repeat]`, async () => {
    const server = serve()
    server.wanted.on = "new"
    const { opened, losses } = await open(server.port, transport)
    for (const [method, params = {}] of [...SAFE, ["ping"] as const]) {
      await server.closeIdle()
      const before = server.count(method)
      server.wanted.closeAt = method
      await opened.connection.ask(method, { ...params }, 5000)
      expect([method, server.count(method) - before]).toEqual([method, 2])
    }
    await server.closeIdle()
    const before = server.count("tools/call")
    server.wanted.closeAt = "tools/call"
    await expect(opened.connection.ask("tools/call", { name: "write" }, 5000)).rejects.toThrow("may have executed")
    expect(server.count("tools/call") - before).toBe(1)
    expect(losses).toEqual([])
  })

  test(`a call that may change something is sent once, and its failure says that it may have run (${transport}) [remote:repeat]`, async () => {
    const server = serve()
    const { opened, losses } = await open(server.port, transport)
    for (const name of ["write", "hint", "unknown"]) {
      await opened.ping(5000)
      const before = server.count("tools/call")
      server.wanted.closeAt = "tools/call"
      const failure = await opened.connection.ask("tools/call", { name }, 5000).then(() => "", messageOf)
      expect(failure).toBe(
        `s: 127.0.0.1:${server.port} closed the connection without an answer; it may have executed the request, so svc has not sent it again`,
      )
      expect(server.count("tools/call") - before).toBe(1)
      await opened.ping(5000)
    }
    expect(losses).toEqual([])
  })

  test(`a notification that says the same again is sent again (${transport}) [remote:repeat]`, async () => {
    const server = serve()
    const { opened, losses } = await open(server.port, transport)
    for (const [method, count] of [
      ["notifications/cancelled", 2],
      ["notifications/progress", 2],
      ["notifications/roots/list_changed", 2],
      ["notifications/of/its/own", 1],
    ] as const) {
      await opened.ping(5000)
      server.wanted.closeAt = method
      opened.connection.notify(method, {})
      while (server.count(method) < count) await new Promise((resolve) => setImmediate(resolve))
      await opened.ping(5000)
      expect([method, server.count(method)]).toEqual([method, count])
    }
    expect(losses).toEqual([])
  })
}
