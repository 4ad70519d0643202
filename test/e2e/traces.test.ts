/** Traces: what a receiver that decodes strictly gets, from clients of both eras to servers on stdio and HTTP. */
import { describe, expect, test } from "bun:test"
import { Client as Client2, StreamableHTTPClientTransport as Http2 } from "@modelcontextprotocol/client"
import { startReceiver } from "../otlp.ts"
import { echo, eventually, fixture, freePort, type Instance, modern, runSvc, startHttp, startSvc } from "./harness.ts"

const TRACE = "0af7651916cd43dd8448eb211c80319c"
const SPAN = "b7ad6b7169203331"
const META = { traceparent: `00-${TRACE}-${SPAN}-01`, tracestate: "a=b", baggage: "user=alice" }

async function connected(svc: Instance, mode: "legacy" | "auto") {
  const client = new Client2({ name: "c", version: "1" }, { versionNegotiation: { mode }, capabilities: {} })
  await client.connect(
    new Http2(new URL(`${svc.url}/mcp`), {
      requestInit: { headers: { traceparent: "00-1af7651916cd43dd8448eb211c80319c-c7ad6b7169203331-01" } },
    }),
  )
  return client
}

const metaIn = (result: unknown) =>
  JSON.parse((result as { content: { text: string }[] }).content[0]?.text ?? "{}") as Record<string, string>

describe.each(["legacy", "auto"] as const)("a client of the era %s", (mode) => {
  test("one trace leads from the client through svc to servers on stdio and HTTP [traces:path] [traces:baggage]", async () => {
    await using receiver = startReceiver()
    const remote = await startHttp("everything-2x.ts")
    await using svc = await startSvc({
      config: {
        mcpServers: {
          local: { command: "bun", args: [fixture("everything-2x.ts")] },
          remote: { type: "http", url: remote.url },
        },
      },
      flags: ["--otlp-endpoint", receiver.url, "--otlp-baggage", "remote"],
      env: { OTEL_RESOURCE_ATTRIBUTES: "deployment.environment.name=t%20est" },
    })
    const client = await connected(svc, mode)
    for (const server of ["local", "remote"]) {
      const meta = metaIn(await client.callTool({ name: `${server}_svc_meta`, arguments: {}, _meta: META }))
      const spans = await eventually(() => {
        const found = receiver.spans.filter(
          ({ traceId, attributes }) => traceId === TRACE && String(attributes["gen_ai.tool.name"]).endsWith("meta"),
        )
        return found.length === (server === "local" ? 2 : 4) && found.slice(-2)
      })
      const outer = spans.find(({ kind }) => kind === "SPAN_KIND_SERVER")
      const inner = spans.find(({ kind }) => kind === "SPAN_KIND_CLIENT")
      expect(meta.traceparent).toBe(`00-${TRACE}-${inner?.spanId}-01`)
      expect(meta.tracestate).toBe("a=b")
      expect(meta.baggage).toBe(server === "remote" ? "user=alice" : (undefined as never))
      expect(outer).toMatchObject({
        name: `tools/call ${server}_svc_meta`,
        parentSpanId: SPAN,
        status: "STATUS_CODE_UNSET",
        traceState: "a=b",
        links: ["1af7651916cd43dd8448eb211c80319c c7ad6b7169203331"],
        resource: { "service.name": "svc", "deployment.environment.name": "t est" },
        attributes: {
          "mcp.method.name": "tools/call",
          "gen_ai.tool.name": `${server}_svc_meta`,
          "gen_ai.operation.name": "execute_tool",
          "mcp.protocol.version": mode === "legacy" ? "2025-11-25" : "2026-07-28",
          "network.transport": "tcp",
          "network.protocol.name": "http",
        },
      })
      expect(inner).toMatchObject({
        name: "tools/call meta",
        parentSpanId: outer?.spanId,
        links: [],
        attributes: {
          "mcp.method.name": "tools/call",
          "gen_ai.tool.name": "meta",
          "gen_ai.operation.name": "execute_tool",
          "svc.server": server,
          ...(server === "local"
            ? { "network.transport": "pipe" }
            : {
                "network.transport": "tcp",
                "server.address": "127.0.0.1",
                "server.port": Number(new URL(remote.url).port),
              }),
        },
      })
      expect(typeof inner?.attributes["jsonrpc.request.id"]).toBe("string")
      if (outer !== undefined && inner !== undefined) {
        expect(outer.start <= inner.start && inner.start <= inner.end && inner.end <= outer.end).toBe(true)
        if (mode === "legacy") expect(String(outer.attributes["mcp.session.id"])).toHaveLength(32)
      }
    }
    expect(receiver.problems).toEqual([])
    await client.close()
    await remote.stop()
  }, 60_000)
})

test("failures have an error.type: of tools, of requests and of servers [traces:errors]", async () => {
  await using receiver = startReceiver()
  await using svc = await startSvc({
    config: {
      mcpServers: {
        e: { command: "bun", args: [fixture("everything-2x.ts")] },
        slow: { ...echo("--delay", "60000"), requestTimeout: 500 },
      },
    },
    flags: ["--otlp-endpoint", receiver.url],
  })
  const call = (name: string) => modern(`${svc.url}/mcp`, "tools/call", { name, arguments: {} })
  for (const name of ["e_svc_test_error_handling", "e_svc_missing", "slow_svc_echo"]) await call(name)
  const outcomes = await eventually(() => {
    const calls = receiver.spans.filter(({ name }) => name.startsWith("tools/call"))
    return calls.length >= 5 && calls
  })
  const found = outcomes
    .map(({ kind, name, status, attributes }) => [
      kind.slice(10),
      name.slice(11),
      status.slice(12),
      attributes["error.type"],
      attributes["rpc.response.status_code"],
    ])
    .sort()
  expect(found).toEqual([
    ["CLIENT", "echo", "ERROR", "timeout", undefined],
    ["CLIENT", "test_error_handling", "ERROR", "tool_error", undefined],
    // The conventions call what the client did wrong no failure of the server.
    ["SERVER", "e_svc_missing", "UNSET", undefined, "-32602"],
    ["SERVER", "e_svc_test_error_handling", "ERROR", "tool_error", undefined],
    ["SERVER", "slow_svc_echo", "ERROR", "tool_error", undefined],
  ])
}, 60_000)

const CANARY = "canary-4f1d0c9e8b7a6655"

test("without --otlp-content no span has arguments or results, and with it none has secrets; metrics have neither [traces:content]", async () => {
  for (const content of [false, true]) {
    await using receiver = startReceiver()
    await using svc = await startSvc({
      config: { mcpServers: { a: { ...echo(), env: { API_TOKEN: CANARY } } } },
      flags: ["--otlp-endpoint", receiver.url, ...(content ? ["--otlp-content"] : [])],
      env: {
        OTEL_EXPORTER_OTLP_PROTOCOL: "http/json",
        OTEL_EXPORTER_OTLP_HEADERS: `authorization=Bearer%20${CANARY}`,
        OTEL_METRIC_EXPORT_INTERVAL: "50",
      },
    })
    await modern(
      `${svc.url}/mcp?token=${CANARY}`,
      "tools/call",
      { name: "a_svc_echo", arguments: { m: `plain words ${CANARY}`, password: "hunter2hunter2" } },
      { "x-api-key": CANARY },
    ).catch(() => undefined)
    await modern(`${svc.url}/mcp`, "tools/call", {
      name: "a_svc_echo",
      arguments: { m: `plain words ${CANARY}`, password: "hunter2hunter2" },
    })
    await modern(`${svc.url}/mcp`, "resources/read", { uri: `https://u:${CANARY}@example.com/x?key=${CANARY}` })
    await eventually(() => receiver.spans.length >= 3 && receiver.spans)
    await eventually(() => receiver.metrics.at(-1)?.some(({ name }) => name === "mcp.server.operation.duration"))
    const texts = receiver.bodies.join("\n")
    expect(texts).not.toContain(CANARY)
    expect(texts).not.toContain("hunter2")
    expect(receiver.headers[0]?.get("authorization")).toBe(`Bearer ${CANARY}`)
    expect(svc.stderr()).not.toContain(CANARY)
    const call = receiver.spans.find(({ kind, name }) => kind === "2" && name === "tools/call a_svc_echo")
    expect(call?.attributes["gen_ai.tool.call.arguments"]).toBe(
      content ? '{"m":"plain words [REDACTED]","password":"[REDACTED]"}' : undefined,
    )
    expect(String(call?.attributes["gen_ai.tool.call.result"]).includes("plain words [REDACTED]")).toBe(content)
    if (!content) expect(texts).not.toContain("plain words")
    expect(receiver.problems).toEqual([])
  }
}, 60_000)

test("a receiver that is down, slow or refuses delays no call, is one line of the log, and spans are counted [traces:outage]", async () => {
  const port = await freePort()
  await using svc = await startSvc({
    config: { mcpServers: { a: echo() } },
    flags: ["--metrics"],
    env: { OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${port}`, OTEL_EXPORTER_OTLP_TIMEOUT: "300" },
  })
  const call = () => modern(`${svc.url}/mcp`, "tools/call", { name: "a_svc_echo", arguments: { m: "x" } })
  const counts = async () => {
    const text = await (await fetch(`${svc.url}/metrics`)).text()
    return Object.fromEntries(
      [...text.matchAll(/svc_spans_total\{result="(\w+)"\} (\d+)/g)].map(([, result = "", count]) => [
        result,
        Number(count),
      ]),
    )
  }
  await call()
  await svc.said(/traces are not exported: nothing listens at 127\.0\.0\.1:\d+/)
  {
    await using receiver = startReceiver(port)
    let release: (() => void) | undefined
    receiver.answer = () =>
      new Promise<Response>((resolve) => {
        release = () => resolve(new Response(undefined, { status: 503 }))
      })
    await eventually(() => receiver.headers.length > 0)
    // It hangs: calls are answered meanwhile.
    for (let at = 0; at < 20; at++) expect((await call()).status).toBe(200)
    receiver.answer = () => new Response(undefined, { status: 401 })
    release?.()
    await eventually(async () => ((await counts()).dropped ?? 0) > 0)
    receiver.answer = undefined
    await call()
    await svc.said("traces are exported again")
    await eventually(async () => ((await counts()).exported ?? 0) > 0)
    expect(svc.stderr().match(/traces are/g)).toHaveLength(2)
  }
}, 60_000)

test("sampling: none, and the parent's decision; the audit log and the access log name the trace [traces:sampling] [traces:ids]", async () => {
  await using receiver = startReceiver()
  await using svc = await startSvc({
    config: { mcpServers: { e: { command: "bun", args: [fixture("everything-2x.ts")] } } },
    flags: ["--otlp-endpoint", receiver.url, "--audit-log", "audit.log", "--access-log", "access.log"],
    env: { OTEL_TRACES_SAMPLER: "parentbased_always_off" },
  })
  const call = (meta: object) =>
    modern(`${svc.url}/mcp`, "tools/call", { name: "e_svc_meta", arguments: {}, _meta: meta })
  const sent = async (meta: object) => metaIn((await call(meta)).body.result).traceparent
  expect(await sent({})).toMatch(/^00-[0-9a-f]{32}-[0-9a-f]{16}-02$/)
  expect(await sent({ traceparent: `00-${TRACE}-${SPAN}-00` })).toMatch(new RegExp(`^00-${TRACE}-[0-9a-f]{16}-00$`))
  expect(await sent(META)).toMatch(new RegExp(`^00-${TRACE}-[0-9a-f]{16}-01$`))
  await eventually(() => receiver.spans.length === 2)
  expect(receiver.spans.map(({ traceId }) => traceId)).toEqual([TRACE, TRACE])
  for (const name of ["audit.log", "access.log"])
    await eventually(async () => {
      const text = await Bun.file(`${svc.folder}/${name}`).text()
      return text.split(`"trace":"${TRACE}"`).length === 3
    })
}, 60_000)

test("gRPC and addresses that cannot work are refused; without a receiver nothing is sent [traces:settings]", async () => {
  const grpc = await runSvc(["serve", "--port", "0", "--otlp-endpoint", "http://127.0.0.1:4317"], {
    OTEL_EXPORTER_OTLP_PROTOCOL: "grpc",
  })
  expect(grpc.code).toBe(64)
  expect(grpc.stderr).toContain("svc does not speak gRPC; set it to http/protobuf or http/json")
  const address = await runSvc(["serve", "--port", "0"], { OTEL_EXPORTER_OTLP_ENDPOINT: "localhost:4318" })
  expect(address.code).toBe(64)
  expect(address.stderr).toContain("OTEL_EXPORTER_OTLP_ENDPOINT must be an http or https URL")
}, 60_000)
