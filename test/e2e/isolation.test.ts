/** Fifty sessions on shared servers of every kind: the messages of one session reach no other. */
import { expect, test } from "bun:test"
import { Client } from "@modelcontextprotocol/sdk/client/index.js"
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js"
import { ElicitRequestSchema, LoggingMessageNotificationSchema } from "@modelcontextprotocol/sdk/types.js"
import { fixture, startHttp, startSvc } from "./harness.ts"

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
