/** Messages pass through svc unchanged, on every transport and in both eras, and no slow peer delays others. */
import { expect, test } from "bun:test"
import { readFileSync } from "node:fs"
import { connect } from "node:net"
import { join } from "node:path"
import { SHAPES } from "../fixtures/parrot.ts"
import { eventually, type Instance, modern, ROOT, startSvc } from "./harness.ts"

const PARROT = join(ROOT, "test/fixtures/parrot.ts")
const MB = 1024 * 1024

/** Results that break careless parsers. */
const RESULTS = [
  '{"content":[{"type":"text","text":"plain"}]}',
  '{"content":[{"type":"text","text":"\\",\\"id\\":\\"svc.1\\"}"}],"structuredContent":{"id":"svc.1","jsonrpc":"2.0"}}',
  '{"a":1,"a":{"b":2},"content":[],"a":3}',
  '{"content":[{"type":"text","text":"日本語 😀 \u2028 é"}],"zażółć":"gęślą"}',
  '{"content":[{"type":"text","text":"\\u001b[31mred\\u0000\\ud83d\\ude00"}]}',
  '{"content":[],"n":[12345678901234567890,1e300,0.0,1.0,0.1e-7]}',
  `{"content":[],"deep":${"[".repeat(500)}${"]".repeat(500)}}`,
  '{"content":[{"type":"resource_link","uri":"file:///a","name":"a"},{"type":"resource","resource":{"uri":"b:c","text":"uri"}}]}',
  '{"content":[{"type":"resource_link","\\u0075ri":"file:///a","name":"a"}]}',
  '{"content":[],"structuredContent":{"uri":"file:///not-mine","resultType":"no","taskId":7}}',
  `{"content":[{"type":"text","text":"${"é😀".repeat(50_000)}"}]}`,
  "{}",
]

/** The result as the aggregate shows it. */
function expected(body: string, slug: string): unknown {
  const result = JSON.parse(body)
  const named = (uri: string) => `svc://${slug}/${uri}`
  for (const block of result.content ?? []) {
    if (block.type === "resource_link") block.uri = named(block.uri)
    if (block.type === "resource") block.resource.uri = named(block.resource.uri)
  }
  return result
}

async function startParrot(...flags: string[]) {
  const child = Bun.spawn({ cmd: [process.execPath, PARROT, "--port", ...flags], stdin: "pipe", stdout: "pipe" })
  const port = Number(new TextDecoder().decode((await child.stdout.getReader().read()).value).trim())
  return {
    port,
    async [Symbol.asyncDispose]() {
      child.kill()
      await child.exited
    },
  }
}

const HEADERS = { "content-type": "application/json", accept: "application/json, text/event-stream" }
const stdio = (...flags: string[]) => ({ command: process.execPath, args: [PARROT, ...flags] })
const memory = (pid: number) =>
  Number(/^Pss:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/smaps_rollup`, "utf8"))?.[1]) / 1024

/** Opens a legacy session. Returns its headers. */
async function open(url: string): Promise<Record<string, string>> {
  const params = { protocolVersion: "2025-06-18", capabilities: {}, clientInfo: { name: "t", version: "1" } }
  const body = JSON.stringify({ jsonrpc: "2.0", id: 0, method: "initialize", params })
  const response = await fetch(`${url}/mcp`, { method: "POST", headers: HEADERS, body })
  await response.text()
  return { ...HEADERS, "mcp-session-id": response.headers.get("mcp-session-id") ?? "" }
}

const frame = (id: unknown, name: string, args: object) =>
  JSON.stringify({ jsonrpc: "2.0", id, method: "tools/call", params: { name, arguments: args } })

/** Ids of requests that a test does not name: an id that is in flight is refused. */
let lastId = 1000
const nextId = () => ++lastId

async function call(url: string, headers: Record<string, string>, name: string, args: object, id: unknown = nextId()) {
  const response = await fetch(`${url}/mcp`, { method: "POST", headers, body: frame(id, name, args) })
  const text = await response.text()
  return JSON.parse(/^data: (.*)$/m.exec(text)?.[1] ?? text) as {
    readonly id: unknown
    readonly extra?: unknown
    readonly result: Record<string, unknown>
  }
}

test("every way to write a result gives the same JSON, on every transport, in both eras", async () => {
  await using json = await startParrot()
  await using events = await startParrot("--events")
  await using json26 = await startParrot("--modern")
  const remote = (port: number, more: object) => ({
    type: "streamableHttp",
    url: `http://127.0.0.1:${port}/mcp`,
    ...more,
  })
  await using svc = await startSvc({
    config: {
      mcpServers: {
        stdio: stdio(),
        stdio26: stdio("--modern"),
        json: remote(json.port, {}),
        events: remote(events.port, {}),
        json26: remote(json26.port, {}),
        sse: { type: "sse", url: `http://127.0.0.1:${json.port}/sse` },
      },
    },
  })
  const headers = await open(svc.url)
  const calls = ["stdio", "stdio26", "json", "events", "json26", "sse"].flatMap((server) =>
    Object.keys(SHAPES).flatMap((shape) => RESULTS.map((body) => ({ server, shape, body }))),
  )
  await Promise.all(
    calls.map(async ({ server, shape, body }, index) => {
      const id = index % 2 === 0 ? index : `an id that is longer than those that svc gives to its own requests ${index}`
      const wanted = expected(body, server)
      const name = `${server}_svc_say`
      const { extra: _, ...old } = await call(svc.url, headers, name, { body, shape }, id)
      expect({ server, shape, ...old }).toEqual({ server, shape, jsonrpc: "2.0", id, result: wanted } as never)
      const { result } = (await modern(`${svc.url}/mcp`, "tools/call", { name, arguments: { body, shape } })).body
      const { resultType, ...rest } = result ?? {}
      expect({ server, shape, rest }).toEqual({ server, shape, rest: wanted } as never)
      // A modern server's own word counts, also where it is missing from a name that stands deeper.
      if (!body.includes("resultType")) expect(resultType).toBe("complete")
    }),
  )
}, 60_000)

test("an error of a server that mentions waiting does not become a 429 of svc", async () => {
  await using svc = await startSvc({ config: { mcpServers: { stdio: stdio() } } })
  const headers = await open(svc.url)
  for (const [shape, body] of [
    ["error", '{"code":-32000,"message":"busy","data":{"retryAfter":5}}'],
    ["spaced", '{"uri":1,"data":{"retryAfter":5}}'],
  ]) {
    const response = await fetch(`${svc.url}/mcp`, {
      method: "POST",
      headers,
      body: frame(1, "stdio_svc_say", { shape, body }),
    })
    expect([response.status, response.headers.get("retry-after")]).toEqual([200, null])
    expect(await response.text()).toContain('"retryAfter":5')
  }
  for (const wait of ["5", '"1\\r\\nX: y"']) {
    const args = { shape: "error", body: `{"code":-32000,"message":"busy","data":{"retryAfter":${wait}}}` }
    const body = JSON.stringify({ tool: "stdio_svc_say", arguments: args })
    const response = await fetch(`${svc.url}/mcp`, { method: "POST", headers: HEADERS, body })
    expect([response.status, response.headers.get("retry-after")]).toEqual([502, null])
    expect(await response.json()).toEqual({ error: { code: -32000, message: "busy" } })
  }
})

test("a result above --max-result is an error only for its caller, and the server keeps running", async () => {
  await using json = await startParrot()
  await using events = await startParrot("--events")
  await using svc = await startSvc({
    config: {
      mcpServers: {
        stdio: stdio(),
        json: { type: "streamableHttp", url: `http://127.0.0.1:${json.port}/mcp` },
        events: { type: "streamableHttp", url: `http://127.0.0.1:${events.port}/mcp` },
        sse: { type: "sse", url: `http://127.0.0.1:${json.port}/sse` },
      },
    },
    flags: ["--max-result", "1MiB"],
  })
  const headers = await open(svc.url)
  for (const server of ["stdio", "json", "events", "sse"])
    for (const shape of ["head", "tail", "spaced"]) {
      const large = (bytes: number) => call(svc.url, headers, `${server}_svc_large`, { bytes, shape })
      const [refused, passed, beside] = await Promise.all([
        large(3 * MB).catch(() => undefined),
        large(MB / 2),
        call(svc.url, headers, `${server}_svc_say`, { body: '{"content":[]}', shape }),
      ])
      // Undefined: it had begun to pass, and was broken off.
      if (refused !== undefined) {
        expect({ server, shape, ...refused.result }).toMatchObject({ server, shape, isError: true })
        expect(JSON.stringify(refused.result)).toContain("more than")
      }
      expect(JSON.stringify(passed.result)).toHaveLength(MB / 2 + '{"content":[{"type":"text","text":""}]}'.length)
      expect(beside.result).toEqual({ content: [] })
    }
  const ready = (await (await fetch(`${svc.url}/health`)).json()) as { servers: { healthy: number } }
  expect(ready.servers.healthy).toBe(4)
  expect(svc.stderr()).not.toContain("internal error")
}, 60_000)

/** A connection that sends, and stops reading when an answer begins to arrive. */
async function silent(svc: Instance, text: string) {
  const socket = connect({ host: "127.0.0.1", port: Number(new URL(svc.url).port) })
  socket.on("error", () => undefined)
  socket.write(text)
  await new Promise((resolve) => socket.once("readable", resolve))
  return socket
}
const post = (headers: Record<string, string>, body: string) =>
  `POST /mcp HTTP/1.1\r\nHost: localhost\r\n${Object.entries(headers)
    .map(([name, value]) => `${name}: ${value}\r\n`)
    .join("")}Content-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`

test("svc buffers only a bounded amount for clients that do not read, and serves the others", async () => {
  await using svc = await startSvc({ config: { mcpServers: { a: stdio(), b: stdio() } }, flags: ["--metrics"] })
  const headers = await open(svc.url)
  await call(svc.url, headers, "a_svc_large", { bytes: 100 })
  const before = memory(svc.pid)
  // A stream of two hundred megabytes that its client does not read.
  const flood = await silent(svc, post(headers, frame(1, "a_svc_flood", { count: 2000, bytes: 100_000 })))
  // The same amount in answers, on a few connections that send the next request before they have read the last answer.
  const ask = () => post(headers, frame(nextId(), "b_svc_large", { bytes: MB }))
  const asks = () => Array.from({ length: 50 }, ask).join("")
  const answers = await Promise.all(Array.from({ length: 4 }, () => silent(svc, asks())))
  const other = await open(svc.url)
  expect((await call(svc.url, other, "b_svc_say", {})).result).toEqual({ content: [] })
  // The server has sent everything.
  await eventually(async () => (await (await fetch(`${svc.url}/metrics`)).text()).includes("svc_calls_in_flight 0"))
  const peak = memory(svc.pid) - before

  expect(peak).toBeLessThan(120)
  for (const socket of [flood, ...answers]) socket.destroy()
  expect((await call(svc.url, other, "b_svc_say", {})).result).toEqual({ content: [] })
  expect(svc.stderr()).not.toContain("internal error")
}, 60_000)

test("a server that does not read its input delays only its own callers", async () => {
  await using svc = await startSvc({
    config: { mcpServers: { deaf: { ...stdio(), requestTimeout: 60_000 }, well: stdio() } },
    flags: ["--max-result", "2MiB", "--shutdown-grace", "1ms"],
  })
  const headers = await open(svc.url)
  const before = memory(svc.pid)
  const gone = new AbortController()
  const post = (name: string, args: object) =>
    fetch(`${svc.url}/mcp`, { method: "POST", headers, body: frame(nextId(), name, args), signal: gone.signal })
  const waiting: Promise<unknown>[] = [post("deaf_svc_deaf", {}).catch(() => undefined)]
  const refusals: string[] = []
  let peak = 0
  for (let n = 0; n < 40; n++)
    waiting.push(
      post("deaf_svc_say", { body: "x".repeat(MB / 2) })
        .then(async (response) => {
          refusals.push(await response.text())
          peak = Math.max(peak, memory(svc.pid) - before)
        })
        .catch(() => undefined),
    )
  // At most two megabytes wait for it; later calls fail at once.
  await eventually(() => refusals.length >= 30)
  for (const text of refusals) expect(text).toContain("does not read its stdin")
  const say = async () =>
    expect((await call(svc.url, headers, "well_svc_say", { body: '{"content":[]}' })).result).toEqual({ content: [] })
  for (let n = 0; n < 20; n++) await say()
  expect(peak).toBeLessThan(100)
  // svc returns the unused memory while it runs.
  await eventually(async () => {
    await say()
    return memory(svc.pid) - before < 40
  })
  gone.abort()
  await Promise.all(waiting)
}, 60_000)

test("a client that disconnects in the middle of a large answer leaves nothing behind", async () => {
  await using svc = await startSvc({ config: { mcpServers: { a: stdio() } } })
  const headers = await open(svc.url)
  for (let n = 0; n < 20; n++) {
    const socket = await silent(svc, post(headers, frame(n, "a_svc_large", { bytes: 4 * MB })))
    socket.destroy()
  }
  expect((await call(svc.url, headers, "a_svc_say", {})).result).toEqual({ content: [] })
  expect(svc.stderr()).not.toContain("internal error")
}, 60_000)
