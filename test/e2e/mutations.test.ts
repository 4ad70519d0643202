/**
 * Servers whose answers are changed at random, over each transport and with clients of each kind: each client sees one valid
 * answer to its request, and nothing else. SVC_E2E_MUTATIONS sets the number of calls, SVC_SEED the random changes.
 */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { SseDecoder } from "../../src/wire/sse.ts"
import { serveMutant } from "../fixtures/mutant.ts"
import { faultOf } from "../fixtures/mutations.ts"
import { eventually, fixture, freshEnv, type Instance, modern, SVC, startSvc } from "./harness.ts"

const CALLS = Number(process.env.SVC_E2E_MUTATIONS ?? 600)
const SEED = Number(process.env.SVC_SEED ?? 20_260_728)
const WORKERS = 8
const LIMIT_MS = 30_000 + CALLS * 50

const SERVERS = ["pipe", "json", "events", "old"] as const
const remote = serveMutant(SEED)
const stdio = (seed: number) => ({
  command: "bun",
  args: [fixture("mutant.ts"), String(seed)],
  protocolVersion: "legacy",
  requestTimeout: 5000,
})
const http = (type: string, path: string) => ({
  type,
  url: `http://127.0.0.1:${remote.port}${path}`,
  protocolVersion: "legacy",
  requestTimeout: 5000,
})

let svc: Instance
beforeAll(async () => {
  svc = await startSvc({
    config: {
      mcpServers: {
        good: { command: "bun", args: [fixture("echo.ts")], protocolVersion: "legacy" },
        pipe: stdio(SEED + 1),
        asks: stdio(SEED + 2),
        json: http("streamableHttp", "/json"),
        events: http("streamableHttp", "/events"),
        old: http("sse", "/old"),
      },
    },
    flags: ["--health-rate-limit", "off"],
  })
  await eventually(async () => {
    const { body } = await modern(`${svc.url}/mcp`, "tools/list")
    return Array.isArray(body.result?.tools) && body.result.tools.length === 11
  }, 15_000)
}, 30_000)
afterAll(async () => {
  await svc[Symbol.asyncDispose]()
  await remote.stop(true)
})

const HEADERS = { "content-type": "application/json", accept: "application/json, text/event-stream" }
const call = (id: number, name: string, m = "") => ({
  jsonrpc: "2.0",
  id,
  method: "tools/call",
  params: { name, arguments: { m } },
})
const INITIALIZE = {
  jsonrpc: "2.0",
  id: 0,
  method: "initialize",
  params: { protocolVersion: "2025-03-26", capabilities: {}, clientInfo: { name: "t", version: "1" } },
}
const post = (body: unknown, headers: Record<string, string> = {}, path = "/mcp") =>
  fetch(`${svc.url}${path}`, { method: "POST", headers: { ...HEADERS, ...headers }, body: JSON.stringify(body) })

/** Makes a call as a modern client. Returns the raw answer. */
const postModern = (id: number, name: string, more: object = {}) => {
  const _meta = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": { name: "t", version: "1" },
    "io.modelcontextprotocol/clientCapabilities": { elicitation: { form: {} } },
  }
  return post(
    { jsonrpc: "2.0", id, method: "tools/call", params: { name, arguments: {}, _meta, ...more } },
    { "mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": name },
  )
}

/** The messages of an HTTP response. */
async function messagesOf(response: Response): Promise<readonly Uint8Array[]> {
  const bytes = await response.bytes()
  if (response.headers.get("content-type")?.startsWith("application/json")) return [bytes]
  const messages: Uint8Array[] = []
  new SseDecoder({
    onevent: ({ data }) => void (data !== undefined && data.length > 0 && messages.push(data)),
    limit: 1 << 24,
    ondropped: () => undefined,
  }).push(bytes)
  return messages
}

/** Checks all messages that answer a request: each must be valid, and one of them must be the expected answer. */
function check(messages: readonly (Uint8Array | string)[], id: number): void {
  const asked = new Set<unknown>([id])
  for (const message of messages) expect(faultOf(message, asked)).toBeUndefined()
  expect([...asked]).toEqual([])
}

/** Calls once for each number below `CALLS`, a few at a time, each of the servers in turn. */
async function each(run: (id: number, name: string) => Promise<void>): Promise<void> {
  let last = 0
  const worker = async () => {
    for (let id = ++last; id <= CALLS; id = ++last) await run(id, `${SERVERS[id % SERVERS.length]}_svc_mutate`)
  }
  await Promise.all(Array.from({ length: WORKERS }, worker))
  expect(svc.stderr()).not.toContain("internal error")
}

const openSession = async () => {
  const session = (await post(INITIALIZE)).headers.get("mcp-session-id") ?? ""
  await post({ jsonrpc: "2.0", method: "notifications/initialized" }, { "mcp-session-id": session })
  return { "mcp-session-id": session }
}

test(
  "legacy clients over HTTP get one answer to each call [protocol:answer:checked]",
  async () => {
    const session = await openSession()
    await each(async (id, name) => check(await messagesOf(await post(call(id, name), session)), id))
  },
  LIMIT_MS,
)

test(
  "modern clients over HTTP get one answer to each call",
  async () => {
    await each(async (id, name) => {
      check(await messagesOf(await postModern(id, name)), id)
    })
  },
  LIMIT_MS,
)

test(
  "a batch holds the right answer beside the mutated one",
  async () => {
    const session = await openSession()
    await each(async (id, name) => {
      const response = await post([call(id, "good_svc_echo", `m${id}`), call(CALLS + id, name)], session)
      const asked = new Set<unknown>([id, CALLS + id])
      for (const message of await messagesOf(response)) {
        const value = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(message)) as unknown
        for (const one of Array.isArray(value) ? value : [value]) {
          expect(faultOf(JSON.stringify(one), asked)).toBeUndefined()
          if (one.id === id) expect(one.result.content[0].text).toBe(`m${id}`)
        }
      }
      expect([...asked]).toEqual([])
    })
  },
  LIMIT_MS,
)

test(
  "a tool invocation without JSON-RPC gets a result, or an error of its server",
  async () => {
    await each(async (_id, tool) => {
      const response = await post({ tool, arguments: {} })
      const text = await response.text()
      expect([200, 400, 502]).toContain(response.status)
      expect(Object.keys(JSON.parse(text) as object)).toEqual([response.ok ? "result" : "error"])
    })
  },
  LIMIT_MS,
)

/** A client on one channel: it checks every message, and each of its calls ends. */
function channel(send: (text: string) => void) {
  const asked = new Set<unknown>()
  const faults: string[] = []
  const waiting = new Map<unknown, (text: string) => void>()
  return {
    faults,
    take(message: Uint8Array) {
      const fault = faultOf(message, asked)
      if (fault !== undefined) return void faults.push(`${fault}: ${Buffer.from(message).toString("latin1")}`)
      const text = new TextDecoder().decode(message)
      waiting.get((JSON.parse(text) as { id?: unknown }).id)?.(text)
    },
    ask(request: { id: number }): Promise<string> {
      asked.add(request.id)
      const { promise, resolve } = Promise.withResolvers<string>()
      waiting.set(request.id, resolve)
      send(JSON.stringify(request))
      return promise
    },
  }
}

/** Valid calls run beside the mutated ones and must get their own answers, whatever ids the mutated answers have. */
async function beside({ ask, faults }: ReturnType<typeof channel>): Promise<void> {
  await ask(INITIALIZE)
  await each(async (id, name) => {
    const [good] = await Promise.all([ask(call(CALLS + id, "good_svc_echo", `m${id}`)), ask(call(id, name))])
    expect(good).toContain(`"m${id}"`)
    expect(faults).toEqual([])
  })
}

test(
  "a client of svc proxy gets one answer to each call, and other calls get their own",
  async () => {
    const child = Bun.spawn({
      cmd: [SVC, "proxy", "--config-dir", svc.folder],
      cwd: svc.folder,
      env: freshEnv(svc.folder),
      stdin: "pipe",
      stdout: "pipe",
      stderr: "ignore",
    })
    const client = channel((text) => void child.stdin.write(`${text}\n`))
    const reading = (async () => {
      let rest: Uint8Array = new Uint8Array()
      for await (const chunk of child.stdout) {
        rest = Buffer.concat([rest, chunk])
        for (let end = rest.indexOf(0x0a); end >= 0; end = rest.indexOf(0x0a)) {
          client.take(rest.subarray(0, end))
          rest = rest.subarray(end + 1)
        }
      }
    })()
    await beside(client)
    child.stdin.end()
    await reading
    expect(await child.exited).toBe(0)
  },
  LIMIT_MS,
)

test(
  "a client of HTTP+SSE gets one answer to each call, and other calls get their own",
  async () => {
    const stopped = new AbortController()
    const stream = await fetch(`${svc.url}/sse`, { signal: stopped.signal })
    const endpoint = Promise.withResolvers<string>()
    const client = channel((text) => void endpoint.promise.then((path) => post(JSON.parse(text), {}, path)))
    const decoder = new SseDecoder({
      onevent({ event, data }) {
        if (event === "endpoint") endpoint.resolve(new TextDecoder().decode(data))
        else if (data !== undefined && data.length > 0) client.take(data)
      },
      limit: 1 << 24,
      ondropped: () => undefined,
    })
    const reading = (async () => {
      for await (const chunk of stream.body ?? []) decoder.push(chunk)
    })().catch(() => undefined)
    await beside(client)
    stopped.abort()
    await reading
  },
  LIMIT_MS,
)

test(
  "the retry of a call that waited for its client gets one answer",
  async () => {
    const ask = async (id: number, more: object = {}) => {
      const messages = await messagesOf(await postModern(id, "asks_svc_ask", more))
      check(messages, id)
      const { result } = JSON.parse(new TextDecoder().decode(messages.at(-1))) as { result?: Record<string, unknown> }
      return result ?? {}
    }
    // One after the other, so that svc knows which client to ask.
    for (let count = 0; count < CALLS / 6; count++) {
      const { resultType, inputRequests, requestState } = await ask(2 * count)
      expect(resultType).toBe("input_required")
      const inputResponses = Object.fromEntries(
        Object.keys(inputRequests as object).map((key) => [key, { action: "decline" }]),
      )
      await ask(2 * count + 1, { inputResponses, requestState })
    }
    expect(svc.stderr()).not.toContain("internal error")
  },
  LIMIT_MS,
)
