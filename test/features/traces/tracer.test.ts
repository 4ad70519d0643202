import { expect, test } from "bun:test"
import type { Target } from "../../../src/call/ports.ts"
import { protobufEncoding } from "../../../src/features/traces/protobuf.ts"
import { createTracer } from "../../../src/features/traces/tracer.ts"
import { createRedactor } from "../../../src/lib/redact.ts"
import type { Params } from "../../../src/wire/message.ts"
import { fakeClient, fakePeer, fakeSpec } from "../../fakes.ts"
import { readSpans } from "../../otlp.ts"

const SECRET = "velvetotter"
const TARGET: Pick<Target, "spec" | "peer"> = {
  spec: {
    ...fakeSpec(),
    launch: { transport: "http", url: "https://u:p@example.com/mcp?key=1", headers: {} } as never,
  },
  peer: fakePeer("modern"),
}

function tracing(sampled = true, content = false) {
  const encoding = protobufEncoding({ resource: {}, version: "1" })
  const added: Uint8Array[] = []
  let ticks = 0
  let epoch = 1_800_000_000_000
  let masks = createRedactor([])
  const tracer = createTracer({
    now: () => epoch,
    ticks: () => ticks++,
    random: (bytes) => void crypto.getRandomValues(bytes),
    sampler: () => sampled,
    encoding,
    masker: () => masks.maskCredentials,
    content,
    baggage: new Set(["named"]),
    add: (span) => added.push(span),
  })
  return {
    begin: (method: string, params: Params, more: Partial<Parameters<typeof tracer.begin>[0]> = {}) =>
      tracer.begin({ request: { jsonrpc: "2.0", id: 7, method, params }, client: fakeClient("modern"), ...more }),
    spans: () => readSpans(encoding.request(added), encoding.contentType),
    learn(secret: string) {
      masks = createRedactor([secret])
    },
    setClock(to: number) {
      epoch = to
    },
  }
}

test("a change of the clock within a request does not change its duration", () => {
  const { begin, spans, setClock } = tracing()
  const span = begin("tools/list", {})
  setClock(0)
  span.end({ frame: "", outcome: "ok" })
  expect(spans().map(({ start, end }) => end - start)).toEqual([1_000_000n])
})

test("what cannot be in a name is not: secrets, also those that svc learns later, queries and users of URIs [traces:content]", () => {
  const { begin, spans, learn } = tracing()
  const ask = (method: string, params: Params) => begin(method, params).end({ frame: "", outcome: "ok" })
  ask("tools/call", { name: `get_${SECRET}` })
  learn(SECRET)
  ask("tools/call", { name: `get_${SECRET}` })
  ask("resources/read", { uri: `https://u:pass@example.com/a?token=x#y` })
  ask("resources/read", { uri: "x".repeat(5000) })
  const [before, after, read, long] = spans()
  expect(before?.name).toBe(`tools/call get_${SECRET}`)
  expect(after?.name).toBe("tools/call get_[REDACTED]")
  expect(read).toMatchObject({ name: "resources/read", attributes: { "mcp.resource.uri": "https://example.com/a" } })
  expect(String(long?.attributes["mcp.resource.uri"])).toHaveLength(200)
})

test("the context in the params of a server is that of its span; the client's baggage goes only to named servers [traces:baggage]", () => {
  const { begin, spans } = tracing()
  const meta = { baggage: "a=b", tracestate: "x=y", other: 1 }
  const span = begin("tools/call", { name: "t", _meta: { ...meta, traceparent: "wrong" } })
  const sent = span.toServer(TARGET, "tools/call", { name: "t", _meta: { ...meta, traceparent: "wrong" } })
  const named = { ...TARGET, spec: { ...TARGET.spec, name: "named" } }
  expect(span.toServer(named, "ping", { _meta: meta }).params._meta).toMatchObject({ baggage: "a=b" })
  expect(span.toServer(TARGET, "ping", {}).params).toEqual({ _meta: { traceparent: expect.any(String) } })
  sent.sent?.("svc1.2")
  sent.end("timeout")
  sent.end({ outcome: "ok" })
  span.end("cancelled")
  const [inner, outer] = spans()
  expect(spans()).toHaveLength(2)
  // A state belongs to a valid parent.
  expect(sent.params._meta).toEqual({ other: 1, traceparent: `00-${outer?.traceId}-${inner?.spanId}-03` })
  expect(inner).toMatchObject({
    parentSpanId: outer?.spanId,
    attributes: {
      "jsonrpc.request.id": "svc1.2",
      "error.type": "timeout",
      "server.address": "example.com",
      "server.port": 443,
    },
  })
  expect(outer).toMatchObject({
    parentSpanId: "",
    attributes: { "error.type": "cancelled", "network.transport": "pipe" },
  })
})

test("a trace that is not recorded makes no span, and servers learn of it [traces:sampling]", () => {
  const { begin, spans } = tracing(false)
  const span = begin("tools/call", { name: "t", _meta: { traceparent: `00-${"1".repeat(32)}-${"2".repeat(16)}-01` } })
  const { params, end } = span.toServer(TARGET, "tools/call", { name: "t" })
  expect(params).toEqual({ name: "t", _meta: { traceparent: expect.stringMatching(/^00-1{32}-[0-9a-f]{16}-00$/) } })
  end({ outcome: "ok" })
  span.end({ frame: "", outcome: "ok" })
  expect(spans()).toEqual([])
})

test("content is bounded: arguments, results and events [traces:content]", () => {
  const { begin, spans } = tracing(true, true)
  const long = Object.fromEntries(Array.from({ length: 50 }, (_, n) => [`k${n}`, "v".repeat(500)]))
  const result = (text: string) =>
    JSON.stringify({ jsonrpc: "2.0", id: 7, result: { content: [{ type: "text", text }] } })
  for (const text of ["short", "x".repeat(70_000)]) {
    const span = begin("tools/call", { name: "t", arguments: long })
    for (let at = 0; at < 40; at++) span.event("svc.wait", "s")
    span.end({ frame: result(text), outcome: "ok" })
  }
  const [first, second] = spans()
  expect(String(first?.attributes["gen_ai.tool.call.arguments"])).toHaveLength(4096)
  expect(first?.attributes["gen_ai.tool.call.result"]).toContain("short")
  expect(second?.attributes["gen_ai.tool.call.result"]).toBeUndefined()
  expect(first?.events).toHaveLength(32)
})
