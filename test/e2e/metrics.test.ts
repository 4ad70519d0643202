/** Metrics: what a receiver that decodes strictly gets, and what /metrics shows. */
import { expect, test } from "bun:test"
import { Client, StreamableHTTPClientTransport as Http } from "@modelcontextprotocol/client"
import { type ReceivedMetric, startReceiver } from "../otlp.ts"
import { echo, eventually, fixture, freePort, modern, startHttp, startSvc } from "./harness.ts"

/** Returns the points of a metric whose attributes include these. */
const pointsOf = (
  metrics: readonly ReceivedMetric[] | undefined,
  name: string,
  wanted: Readonly<Record<string, unknown>>,
) =>
  (metrics?.find((metric) => metric.name === name)?.points ?? []).filter(({ attributes }) =>
    Object.entries(wanted).every(([key, value]) => attributes[key] === value),
  )
const countOf = (
  metrics: readonly ReceivedMetric[] | undefined,
  name: string,
  wanted: Readonly<Record<string, unknown>>,
) =>
  pointsOf(metrics, name, wanted)
    .flatMap(({ buckets }) => buckets)
    .reduce((sum, count) => sum + count, 0)

test.each(["http/protobuf", "http/json"])(
  "a receiver gets cumulative metrics by the conventions, as %s, the last when svc stops [metrics:push] [metrics:conventions]",
  async (protocol) => {
    await using receiver = startReceiver()
    const remote = await startHttp("everything-2x.ts")
    await using svc = await startSvc({
      config: {
        mcpServers: {
          local: { command: "bun", args: [fixture("everything-2x.ts")] },
          remote: { type: "http", url: remote.url },
        },
      },
      flags: ["--otlp-endpoint", receiver.url],
      env: {
        OTEL_EXPORTER_OTLP_PROTOCOL: protocol,
        OTEL_METRIC_EXPORT_INTERVAL: "100",
        OTEL_SERVICE_NAME: "mine",
        OTEL_EXPORTER_OTLP_HEADERS: "x-key=abc",
      },
    })
    const client = new Client({ name: "c", version: "1" }, { versionNegotiation: { mode: "legacy" }, capabilities: {} })
    const transport = new Http(new URL(`${svc.url}/mcp`))
    await client.connect(transport)
    for (const server of ["local", "remote"]) {
      await client.callTool({ name: `${server}_svc_meta`, arguments: {} })
      await client.callTool({ name: `${server}_svc_test_error_handling`, arguments: {} })
      await client.getPrompt({ name: `${server}_svc_test_simple_prompt` })
    }
    await client.callTool({ name: "local_svc_missing", arguments: {} }).catch(() => undefined)
    await fetch(`${svc.url}/nothing`, { method: "PUT" })
    const tool = { "mcp.method.name": "tools/call", "gen_ai.operation.name": "execute_tool" }
    const put = { "http.request.method": "PUT", "http.response.status_code": 404, "http.route": undefined }
    await eventually(() => countOf(receiver.metrics.at(-1), "http.server.request.duration", put) === 1)
    for (const server of ["local", "remote"]) {
      const sent = { ...tool, "svc.server": server }
      const now = receiver.metrics.at(-1)
      const name = "mcp.client.operation.duration"
      expect(countOf(now, name, { ...sent, "gen_ai.tool.name": "meta", "error.type": undefined })).toBe(1)
      expect(
        countOf(now, name, { ...sent, "gen_ai.tool.name": "test_error_handling", "error.type": "tool_error" }),
      ).toBe(1)
      expect(countOf(now, name, { "svc.server": server, "gen_ai.prompt.name": "test_simple_prompt" })).toBe(1)
      const served = { ...tool, "gen_ai.tool.name": `${server}_svc_meta`, "network.transport": "tcp" }
      expect(countOf(now, "mcp.server.operation.duration", served)).toBe(1)
      expect(
        pointsOf(now, "svc.calls", { "svc.server": server, "svc.tool": "meta", "svc.outcome": "ok" }),
      ).toHaveLength(1)
    }
    // Names that clients make up become no labels, and are no failures of svc.
    const missing = { ...tool, "gen_ai.tool.name": "other", "error.type": undefined }
    expect(countOf(receiver.metrics.at(-1), "mcp.server.operation.duration", missing)).toBe(1)
    const post = { "http.request.method": "POST", "http.route": "/mcp", "url.scheme": "http" }
    expect(countOf(receiver.metrics.at(-1), "http.server.request.duration", post)).toBeGreaterThan(6)
    for (const name of ["process.memory.usage", "process.cpu.time", "process.uptime", "svc.sessions"])
      expect(receiver.metrics.at(-1)?.map((metric) => metric.name)).toContain(name)
    await transport.terminateSession()
    await client.close()
    await eventually(() => countOf(receiver.metrics.at(-1), "mcp.server.session.duration", {}) === 1)
    await svc[Symbol.asyncDispose]()
    const last = receiver.metrics.at(-1)
    expect(countOf(last, "mcp.client.session.duration", { "svc.server": "local" })).toBe(1)
    expect(countOf(last, "mcp.client.session.duration", { "network.protocol.name": "http" })).toBe(1)
    expect(last?.[0]?.resource).toMatchObject({ "service.name": "mine" })
    expect(receiver.headers.at(-1)?.get("x-key")).toBe("abc")
    expect(receiver.problems).toEqual([])
    // Nothing of what is counted decreases, and the time from which it is counted stays.
    const seen = new Map<string, number>()
    for (const metrics of receiver.metrics)
      for (const { name, instrument, points } of metrics)
        for (const { attributes, value, start } of instrument === "counter" || instrument === "histogram"
          ? points
          : []) {
          const key = `${name} ${JSON.stringify(attributes)}`
          expect(value).toBeGreaterThanOrEqual(seen.get(key) ?? 0)
          expect(start).toBe(receiver.metrics[0]?.[0]?.points[0]?.start as bigint)
          seen.set(key, value)
        }
    await remote.stop()
  },
  60_000,
)

test("OTEL_METRICS_EXPORTER and OTEL_TRACES_EXPORTER turn off one of the two [metrics:push-off]", async () => {
  const off = async (variable: string) => {
    await using receiver = startReceiver()
    await using svc = await startSvc({
      config: { mcpServers: { e: { command: "bun", args: [fixture("everything-2x.ts")] } } },
      flags: ["--otlp-endpoint", receiver.url],
      env: { [variable]: "none", OTEL_METRIC_EXPORT_INTERVAL: "50" },
    })
    const { body } = await modern(`${svc.url}/mcp`, "tools/call", { name: "e_svc_meta", arguments: {} })
    await eventually(() => receiver.headers.length > 0)
    await svc[Symbol.asyncDispose]()
    expect(receiver.problems).toEqual([])
    return [receiver.spans.length > 0, receiver.metrics.length > 0, /00-[0-9a-f]{32}-/.test(JSON.stringify(body))]
  }
  expect(await off("OTEL_METRICS_EXPORTER")).toEqual([true, false, true])
  expect(await off("OTEL_TRACES_EXPORTER")).toEqual([false, true, false])
}, 60_000)

test("a receiver that is down, hangs or refuses metrics is one line of the log, and delays no call [metrics:push-outage]", async () => {
  const port = await freePort()
  await using svc = await startSvc({
    config: { mcpServers: { a: echo() } },
    env: {
      OTEL_EXPORTER_OTLP_METRICS_ENDPOINT: `http://127.0.0.1:${port}/v1/metrics`,
      OTEL_METRIC_EXPORT_INTERVAL: "50",
      OTEL_EXPORTER_OTLP_TIMEOUT: "300",
    },
  })
  const call = () => modern(`${svc.url}/mcp`, "tools/call", { name: "a_svc_echo", arguments: { m: "x" } })
  await svc.said(/metrics are not sent: nothing listens at 127\.0\.0\.1:\d+/)
  await using receiver = startReceiver(port)
  receiver.answer = () => Promise.withResolvers<Response>().promise
  await eventually(() => receiver.headers.length > 0)
  for (let at = 0; at < 20; at++) expect((await call()).status).toBe(200)
  receiver.answer = () => new Response(undefined, { status: 401 })
  const refused = receiver.headers.length
  await eventually(() => receiver.headers.length > refused + 2)
  receiver.answer = undefined
  await svc.said("metrics are sent again")
  await eventually(() => pointsOf(receiver.metrics.at(-1), "svc.calls", { "svc.server": "a" })[0]?.value === 20)
  expect(svc.stderr().match(/metrics are/g)).toHaveLength(2)
}, 60_000)

test("/metrics shows HTTP requests by route and status, waiting requests, wake-ups and ended connections [metrics:http] [metrics:waiting] [metrics:wake] [metrics:sessions]", async () => {
  const slow = { command: "sh", args: ["-c", 'sleep 1; exec "$@"', "sh", "bun", ...echo().args] }
  await using svc = await startSvc({
    config: { mcpServers: { e: { ...echo(), idleTimeout: 50 }, slow } },
    flags: ["--metrics", "--metrics-principals"],
  })
  const shown = async () => (await fetch(`${svc.url}/metrics`)).text()
  const has = (line: string | RegExp) =>
    eventually(async () => {
      const text = await shown()
      return typeof line === "string" ? text.includes(`\n${line}\n`) : line.test(text)
    })
  const call = (server: string) =>
    modern(`${svc.url}/mcp`, "tools/call", { name: `${server}_svc_echo`, arguments: { m: "x" } })
  const waiting = call("slow")
  await has("svc_calls_waiting 1")
  await waiting
  await has("svc_calls_waiting 0")
  await has("svc_servers_asleep 1")
  await call("e")
  await has('svc_server_wake_duration_seconds_count{svc_server="e"} 1')
  await has(
    /\nmcp_client_session_duration_seconds_count\{svc_server="e",mcp_protocol_version="2025-11-25"\} [1-9]\d*\n/,
  )
  for (const path of ["/nothing/a", "/nothing/b", "/servers/missing/mcp"]) await fetch(`${svc.url}${path}`)
  await fetch(`${svc.url}/mcp`, { method: "BREW" }).catch(() => undefined)
  const text = await shown()
  const http = (labels: string) => text.includes(`\nhttp_server_request_duration_seconds_count{${labels}} `)
  expect(http('http_request_method="POST",http_route="/mcp",http_response_status_code="200",url_scheme="http"')).toBe(
    true,
  )
  expect(
    http('http_request_method="GET",http_route="/metrics",http_response_status_code="200",url_scheme="http"'),
  ).toBe(true)
  expect(text).toContain(
    'http_server_request_duration_seconds_count{http_request_method="GET",http_response_status_code="404",url_scheme="http"} 2\n',
  )
  expect(
    http(
      'http_request_method="GET",http_route="/servers/{name}/mcp",http_response_status_code="404",url_scheme="http"',
    ),
  ).toBe(true)
  expect(text).not.toContain("nothing")
  expect(text).not.toContain("BREW")
  expect(text).toContain('\nsvc_principal_calls_total{principal="anonymous",outcome="ok"} 2\n')
  for (const name of ["process_open_fds", "process_max_fds", "process_resident_memory_bytes"])
    expect(text).toMatch(new RegExp(`\n${name} [1-9]\\d*\n`))
}, 60_000)
