/** Malicious remote servers and documents: svc stays up, the other servers keep working, and each fault gets one clear error. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { lstatSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { eventually, freshFolder, type Instance, modern, ROOT, startSvc } from "./harness.ts"

const LIMIT_MS = 30_000
const MIB = 1024 * 1024
const echo = { command: "bun", args: [join(ROOT, "test", "fixtures", "echo.ts"), "--pid"], protocolVersion: "legacy" }

type Message = { id?: unknown; method?: string; params?: { arguments?: { how?: string } } }

/** A legacy server over HTTP, well behaved until its tool `poke` is called. */
const remote = Bun.serve({
  hostname: "127.0.0.1",
  port: 0,
  idleTimeout: 0,
  async fetch(request) {
    if (request.method !== "POST") return new Response(null, { status: 405 })
    const { id, method, params } = (await request.json()) as Message
    const result = (value: unknown, other: unknown = id) => JSON.stringify({ jsonrpc: "2.0", id: other, result: value })
    const json = (text: string | Uint8Array, headers: Record<string, string> = {}) =>
      new Response(text, { headers: { "content-type": "application/json", ...headers } })
    const well = { content: [{ type: "text", text: "well" }] }
    switch (method) {
      case "initialize":
        return json(
          result({
            protocolVersion: "2025-11-25",
            capabilities: { tools: {} },
            serverInfo: { name: "e", version: "1" },
          }),
        )
      case "tools/list":
        return json(result({ tools: [{ name: "poke", inputSchema: { type: "object" } }] }))
      case "tools/call":
        break
      default:
        return id === undefined ? new Response(null, { status: 202 }) : json(result({}))
    }
    switch (params?.arguments?.how) {
      case "bomb":
        return json(Bun.gzipSync(new Uint8Array(200 * MIB)), { "content-encoding": "gzip" })
      case "half":
        return json(Bun.gzipSync(result(well)).subarray(0, -12), { "content-encoding": "gzip" })
      case "giant":
        return json(result({ content: [{ type: "text", text: "x".repeat(4 * MIB) }] }))
      case "endless":
        return new Response(
          new ReadableStream({
            async pull(controller) {
              controller.enqueue(new Uint8Array(MIB).fill(0x78))
              await Bun.sleep(5)
            },
          }),
          { headers: { "content-type": "text/event-stream" } },
        )
      case "events":
        return new Response("data: {}\n\n".repeat(200_000), { headers: { "content-type": "text/event-stream" } })
      case "wrong-id":
        return json(result(well, `${id}0`))
      case "html":
        return new Response("<html>\u001b[31m\nlogged in as root</html>", { headers: { "content-type": "text/html" } })
      case "nothing":
        return new Response(null, { status: 204 })
      case "no-json":
        return json('{"jsonrpc":"2.0",')
      case "elsewhere":
        return new Response(null, { status: 307, headers: { location: "http://169.254.169.254/latest/meta-data" } })
      case "file":
        return new Response(null, { status: 308, headers: { location: "file:///etc/passwd" } })
      case "silent":
        return new Promise<Response>(() => undefined)
      default:
        return json(result(well))
    }
  },
})

let svc: Instance
beforeAll(async () => {
  svc = await startSvc({
    config: {
      mcpServers: {
        evil: { url: `${remote.url.href}mcp`, type: "streamableHttp", protocolVersion: "legacy", requestTimeout: 2000 },
        good: echo,
      },
    },
    flags: ["--max-result", "1MiB", "--health-info-level", "full", "--health-rate-limit", "off"],
  })
}, LIMIT_MS)
afterAll(async () => {
  await svc[Symbol.asyncDispose]()
  await remote.stop(true)
})

const poke = async (how?: string) =>
  (
    await modern(`${svc.url}/mcp`, "tools/call", {
      name: "evil_svc_poke",
      arguments: how === undefined ? {} : { how },
    })
  ).body
const textOf = (body: Awaited<ReturnType<typeof poke>>): string =>
  ((body.result?.content ?? []) as { text?: string }[])[0]?.text ?? JSON.stringify(body.error)
const isReady = (one: Instance, name: string) =>
  eventually(
    async () => ((await (await fetch(`${one.url}/health/mcp/${name}`)).json()) as { state: string }).state === "ready",
  )
const usedMemory = async () =>
  ((await (await fetch(`${svc.url}/health`)).json()) as { system: { memory: { used: number } } }).system.memory.used

test.each([
  ["a body that unpacks to two hundred times the limit", "bomb", /more than --max-result allows/],
  ["a body that cannot be decompressed", "half", /^evil: sent a response that cannot be read$/],
  ["a giant body", "giant", /more than --max-result allows/],
  ["an event without an end", "endless", /more than --max-result allows/],
  ["events that answer nothing", "events", /without an answer/],
  ["an answer with a wrong id", "wrong-id", /without an answer/],
  ["a web page", "html", /answered with a web page/],
  ["no body at all", "nothing", /answered 204/],
  ["a body that is no JSON", "no-json", /without an answer|not JSON/],
  ["a redirect to another host", "elsewhere", /redirects to another origin/],
  ["a redirect to a file", "file", /redirects to another origin/],
  ["silence", "silent", /no answer to tools\/call within 2 s/],
])(
  "%s fails the call with a reason",
  async (_what, how, reason) => {
    await isReady(svc, "evil")
    const body = await poke(how)
    expect(textOf(body)).toMatch(reason)
    const { body: good } = await modern(`${svc.url}/mcp`, "tools/call", { name: "good_svc_echo", arguments: {} })
    expect(good.result).toBeDefined()
    await isReady(svc, "evil")
    expect(textOf(await poke())).toBe("well")
    expect(await usedMemory()).toBeLessThan(300)
    expect(svc.stderr()).not.toContain("internal error")
    // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
    expect(svc.stderr()).not.toMatch(/\u001b/)
  },
  LIMIT_MS,
)

test(
  "a server with a line break in a header is left out, with the place in the file; the others run",
  async () => {
    await using one = await startSvc({
      config: `{
  "mcpServers": {
    "good": ${JSON.stringify(echo)},
    "split": { "url": "${remote.url.href}mcp", "headers": { "X-Key": "\${EVIL}" } },
    "named": { "url": "${remote.url.href}mcp", "headers": { "X-Key\\r\\nX-Other": "1" } },
    "env": { "command": "true", "env": { "A\\nB": "1", "C": "\${BELL}" } },
    "address": { "url": "${remote.url.href}mcp\${EVIL}" }
  }
}`,
      env: { EVIL: "1\r\nX-Admin: true", BELL: "\u0007" },
    })
    await isReady(one, "good")
    const log = one.stderr()
    expect(log).toMatch(/mcp\.json:4:\d+: split is not loaded: headers\.X-Key contains a control character/)
    expect(log).toMatch(/mcp\.json:5:\d+: named is not loaded: headers has an invalid header name/)
    expect(log).toMatch(/mcp\.json:6:\d+: env is not loaded: /)
    expect(log).toMatch(/mcp\.json:7:\d+: address is not loaded: url contains a control character/)
    expect(log).not.toContain("X-Admin")
    expect(await (await fetch(`${one.url}/health`)).json()).toMatchObject({
      servers: { total: 1, healthy: 1, unhealthy: 0 },
    })
  },
  LIMIT_MS,
)

test(
  "mcp.json may be a symbolic link; svc replaces links at the paths of its own files with files",
  async () => {
    const folder = freshFolder()
    const dotfiles = join(folder, "dotfiles")
    mkdirSync(dotfiles)
    writeFileSync(join(dotfiles, "mcp.json"), JSON.stringify({ mcpServers: { good: echo } }))
    symlinkSync(join(dotfiles, "mcp.json"), join(folder, "mcp.json"))
    const precious = join(folder, "precious")
    writeFileSync(precious, "precious")
    for (const name of ["eras.json", "control.json"]) symlinkSync(precious, join(folder, name))
    await using one = await startSvc({ folder })
    await isReady(one, "good")
    await eventually(() => !lstatSync(join(folder, "control.json")).isSymbolicLink())
    expect(readFileSync(precious, "utf8")).toBe("precious")
    expect(lstatSync(join(folder, "mcp.json")).isSymbolicLink()).toBe(true)
    writeFileSync(join(dotfiles, "mcp.json"), JSON.stringify({ mcpServers: { good: echo, more: echo } }))
    await isReady(one, "more")
  },
  LIMIT_MS,
)

test("svc pauses between requests to a server that keeps asking for an immediate retry", async () => {
  const asked: number[] = []
  using restless = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    async fetch(request) {
      if (request.method === "GET") {
        asked.push(performance.now())
        return new Response("retry: 0\nid: 1\ndata:\n\n", { headers: { "content-type": "text/event-stream" } })
      }
      const { id, method } = (await request.json()) as Message
      if (id === undefined) return new Response(null, { status: 202 })
      const serverInfo = { name: "e", version: "1" }
      const result =
        method === "initialize" ? { protocolVersion: "2025-11-25", capabilities: {}, serverInfo } : { tools: [] }
      return Response.json({ jsonrpc: "2.0", id, result })
    },
  })
  const evil = { url: `${restless.url.href}mcp`, protocolVersion: "legacy" }
  await using _svc = await startSvc({ config: { mcpServers: { evil } } })
  await eventually(() => asked.length > 5)
  expect((asked[5] ?? 0) - (asked[0] ?? 0)).toBeGreaterThan(400)
}, 20_000)
