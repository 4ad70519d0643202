/** Fifty sessions on shared servers of every kind: the messages of one session reach no other. */
import { expect, test } from "bun:test"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { Client } from "@modelcontextprotocol/sdk/client/index.js"
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js"
import { ElicitRequestSchema, LoggingMessageNotificationSchema } from "@modelcontextprotocol/sdk/types.js"
import { HttpClient } from "../../src/backend/http-client.ts"
import { systemClock } from "../../src/lib/clock.ts"
import { eventually, fixture, freshFolder, modern, processes, startHttp, startSvc } from "./harness.ts"
import { WanderingClient } from "./replicas.ts"

const SESSIONS = 50
const CALLS = 10_000
type Text = { isError?: boolean; content: { text: string }[] }

test("progress, answers, questions and cancellations of fifty sessions stay in their own session", async () => {
  const [one, two] = await Promise.all([startHttp("everything-1x.ts"), startHttp("everything-2x.ts")])
  const stdio = (file: string) => ({ command: "bun", args: [fixture(file)] })
  await using svc = await startSvc({
    config: {
      mcpServers: {
        s1: { ...stdio("everything-1x.ts"), protocolVersion: "legacy" },
        s2: { ...stdio("everything-2x.ts"), protocolVersion: "2026-07-28" },
        h1: { type: "streamableHttp", url: one.url, protocolVersion: "legacy" },
        h2: { type: "streamableHttp", url: two.url, protocolVersion: "2026-07-28" },
      },
    },
    flags: ["--startup-wait", "20s"],
  })
  const wrong: string[] = []
  const counts = { calls: 0, progress: 0, asked: 0, refused: 0, cancelled: 0 }
  const clients = await Promise.all(
    Array.from({ length: SESSIONS }, async (_, index) => {
      const client = new Client({ name: `c${index}`, version: "1" }, { capabilities: { elicitation: {} } })
      client.setRequestHandler(ElicitRequestSchema, ({ params }) => {
        counts.asked++
        if (params.message !== `for ${index}`) wrong.push(`${index} was asked ${params.message}`)
        return { action: "accept", content: { response: `from ${index}` } }
      })
      client.setNotificationHandler(LoggingMessageNotificationSchema, ({ params }) => {
        if (!String(params.data).startsWith("Tool ")) wrong.push(`${index} was logged ${params.data}`)
      })
      await client.connect(new StreamableHTTPClientTransport(new URL(`${svc.url}/mcp`)) as never)
      return client
    }),
  )
  await Promise.all(
    clients.map(async (client, index) => {
      const call = async (name: string, args: Record<string, unknown>, options?: object) => {
        counts.calls++
        return (await client.callTool({ name, arguments: args }, undefined, options as never)) as Text
      }
      for (let round = 0; counts.calls < CALLS; round++) {
        const server = ["s1", "s2", "h1", "h2"][(index + round) % 4]
        const mark = `${index}/${round}`
        const quick = await Promise.all(
          [0, 1, 2, 3, 4, 5, 6, 7].map((part) =>
            call(`${server}_svc_test_x_mcp_header`, { region: `${mark}/${part}` }),
          ),
        )
        for (const [part, { content }] of quick.entries())
          if (content[0]?.text !== `region=${mark}/${part}`) wrong.push(`${mark}/${part} got ${content[0]?.text}`)
        if (round % 8 === 1) {
          const seen: number[] = []
          await call(
            `${server}_svc_test_tool_with_progress`,
            {},
            { onprogress: ({ progress }: { progress: number }) => seen.push(progress) },
          )
          counts.progress += seen.length
          if (seen.join() !== "0,50,100") wrong.push(`${mark} had progress ${seen}`)
        }
        if (round % 8 === 3) {
          const { content, isError } = await call(`${server}_svc_test_elicitation`, { message: `for ${index}` }).catch(
            (error: Error) => ({ isError: true, content: [{ text: error.message }] }),
          )
          const text = content[0]?.text ?? ""
          // A shared legacy stdio server cannot say which client its question is for: svc may refuse it, but not ask another client.
          if (isError === true && server === "s1" && text.includes("several clients")) counts.refused++
          else if (!text.includes(`"from ${index}"`)) wrong.push(`${mark} on ${server} was answered ${text}`)
        }
        if (round % 8 === 5) {
          const controller = new AbortController()
          const cancelled = call(`${server}_svc_test_tool_with_progress`, {}, { signal: controller.signal }).then(
            () => undefined,
            () => {
              counts.cancelled++
            },
          )
          await Bun.sleep(5)
          controller.abort()
          await cancelled
        }
      }
    }),
  )
  process.stderr.write(`isolation: ${JSON.stringify(counts)}\n`)
  expect(wrong.slice(0, 5)).toEqual([])
  expect(counts.calls).toBeGreaterThanOrEqual(CALLS)
  for (const what of ["progress", "asked", "cancelled"] as const) expect(counts[what]).toBeGreaterThan(10)
  await Promise.all(clients.map((client) => client.close()))
  await Promise.all([one.stop(), two.stop()])
}, 120_000)

test("a process ends with its session, also while it works on a task [isolation:end]", async () => {
  const mark = `svc-mark-${crypto.randomUUID()}`
  const journal = join(freshFolder(), "journal")
  const args = [fixture("journal.ts"), "--journal", journal, "--name", "own", mark]
  await using svc = await startSvc({
    config: { mcpServers: { own: { command: "bun", args, isolation: "session" } } },
  })
  const client = new WanderingClient()
  await client.open(svc, { tasks: {} })
  const work = { nonce: "n", by: "b", ms: 3_600_000 }
  const params = { name: "own_svc_work", arguments: work, task: { ttl: 3_600_000 } }
  const made = await client.request(svc, "tools/call", params)
  const { taskId } = (made.result as { readonly task: { readonly taskId: string } }).task
  await eventually(() => readFileSync(journal, "utf8").includes('"what":"run"'))
  expect((await client.request(svc, "tasks/get", { taskId })).result).toMatchObject({ status: "working" })
  // One of them is the process that all sessions share.
  expect(processes(mark)).toHaveLength(2)
  await client.end(svc)
  await eventually(() => processes(mark).length === 1)
}, 60_000)

test("calls that hang at one remote server delay no other, and end what their client gives up [remote:limit]", async () => {
  const hanging = new Set<unknown>()
  const serve = (hangs: boolean) =>
    Bun.serve({
      hostname: "127.0.0.1",
      port: 0,
      idleTimeout: 0,
      async fetch(request) {
        if (request.method !== "POST") return new Response(null, { status: 405 })
        const { id, method } = (await request.json()) as { id?: unknown; method: string }
        if (id === undefined) return new Response(null, { status: 202 })
        if (method === "tools/call" && hangs) {
          hanging.add(id)
          return new Promise<Response>((resolve) => {
            request.signal.addEventListener("abort", () => {
              hanging.delete(id)
              resolve(new Response())
            })
          })
        }
        const results: Record<string, object> = {
          initialize: {
            protocolVersion: "2025-11-25",
            capabilities: { tools: {} },
            serverInfo: { name: "e", version: "1" },
          },
          "tools/list": { tools: [{ name: "t", inputSchema: { type: "object" } }] },
          "tools/call": { content: [{ type: "text", text: "answered" }] },
        }
        return Response.json({ jsonrpc: "2.0", id, result: results[method] ?? {} })
      },
    })
  using stuck = serve(true)
  using well = serve(false)
  const config = {
    mcpServers: {
      stuck: { type: "http", url: `${stuck.url}mcp`, protocolVersion: "legacy" },
      well: { type: "http", url: `${well.url}mcp`, protocolVersion: "legacy" },
    },
  }
  await using svc = await startSvc({ config })
  for (const name of ["stuck", "well"]) await svc.said(`${name}: connected`)
  // Bun's fetch would send only 256 requests at once.
  const client = new HttpClient(svc.url, { clock: systemClock, env: {}, limit: 1000 })
  const params = {
    name: "stuck_svc_t",
    arguments: {},
    _meta: {
      "io.modelcontextprotocol/protocolVersion": "2026-07-28",
      "io.modelcontextprotocol/clientInfo": { name: "test", version: "1" },
      "io.modelcontextprotocol/clientCapabilities": {},
    },
  }
  const headers = {
    "content-type": "application/json",
    accept: "application/json, text/event-stream",
    "mcp-protocol-version": "2026-07-28",
    "mcp-method": "tools/call",
    "mcp-name": "stuck_svc_t",
  }
  const calls = Array.from({ length: 300 }, (_, id) => {
    const body = JSON.stringify({ jsonrpc: "2.0", id, method: "tools/call", params })
    return client.fetch(`${svc.url}/mcp`, { method: "POST", headers, body }).catch(() => id)
  })
  const call = () => modern(`${svc.url}/mcp`, "tools/call", { name: "well_svc_t", arguments: {} })
  await eventually(async () => hanging.size === 256)
  expect(JSON.stringify(await call())).toContain("answered")
  expect(hanging.size).toBe(256)
  client.close()
  await Promise.all(calls)
  await eventually(async () => hanging.size === 0)
  expect(JSON.stringify(await call())).toContain("answered")
})
