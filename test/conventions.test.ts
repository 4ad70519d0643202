/** The checker of conventions finds what is wrong: otherwise it would show nothing. */
import { expect, test } from "bun:test"
import { type CheckedMetric, type CheckedSpan, problemsOfMetric, problemsOfSpan } from "./conventions.ts"

const SPAN: CheckedSpan = {
  name: "tools/call t",
  kind: "SPAN_KIND_CLIENT",
  status: "STATUS_CODE_UNSET",
  attributes: {
    "mcp.method.name": "tools/call",
    "gen_ai.tool.name": "t",
    "gen_ai.operation.name": "execute_tool",
    "network.transport": "tcp",
    "server.address": "example.com",
    "server.port": 443,
    "svc.server": "a",
  },
  events: ["svc.wake"],
}
const POINT = {
  attributes: { "mcp.method.name": "ping" },
  kind: "histogram",
  bounds: [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300],
} as const
const METRIC: CheckedMetric = {
  name: "mcp.server.operation.duration",
  unit: "s",
  instrument: "histogram",
  points: [POINT],
}

test("a span that follows the conventions has no problem, and each deviation is one [metrics:conventions]", () => {
  expect(problemsOfSpan(SPAN)).toEqual([])
  const wrong: Record<string, Partial<CheckedSpan>> = {
    "is not named tools/call t": { name: "t" },
    "has the kind SPAN_KIND_INTERNAL": { kind: "SPAN_KIND_INTERNAL" },
    "has error.type without its status": { status: "STATUS_CODE_ERROR" },
    "has the event wake": { events: ["wake"] },
    "has the attribute mcp.tool": { attributes: { ...SPAN.attributes, "mcp.tool": "t" } },
    "has the attribute client.address": { attributes: { ...SPAN.attributes, "client.address": "127.0.0.1" } },
    'server.port is "443"': { attributes: { ...SPAN.attributes, "server.port": "443" } },
    'network.transport is "http"': { attributes: { ...SPAN.attributes, "network.transport": "http" } },
    "gen_ai.operation.name belongs to tools/call": {
      attributes: { "mcp.method.name": "tools/call", "gen_ai.tool.name": "t" },
    },
    'mcp.method.name is "call"': { name: "call", attributes: { "mcp.method.name": "call" } },
    "-32602 is no error of a server": {
      kind: "2",
      status: "2",
      name: "ping",
      attributes: { "mcp.method.name": "ping", "error.type": "-32602", "rpc.response.status_code": "-32602" },
    },
  }
  for (const [problem, change] of Object.entries(wrong))
    expect(problemsOfSpan({ ...SPAN, ...change }).join("\n")).toContain(problem)
})

test("a metric that follows the conventions has no problem, and each deviation is one [metrics:conventions]", () => {
  expect(problemsOfMetric(METRIC)).toEqual([])
  const wrong: Record<string, Partial<CheckedMetric>> = {
    "not svc's own": { name: "mcp.server.requests" },
    "is a histogram of ms, not a histogram of s": { unit: "ms" },
    "is a counter of s, not a histogram": { instrument: "counter" },
    "lacks mcp.method.name": { points: [{ ...POINT, attributes: {} }] },
    "has the buckets 1": { points: [{ ...POINT, bounds: [1] }] },
    "has two points with the same attributes": { points: [POINT, POINT] },
    "has the attribute server": { points: [{ ...POINT, attributes: { ...POINT.attributes, server: "a" } }] },
    "has another error.type than its code": {
      points: [{ ...POINT, attributes: { ...POINT.attributes, "error.type": "-32603" } }],
    },
  }
  for (const [problem, change] of Object.entries(wrong))
    expect(problemsOfMetric({ ...METRIC, ...change }).join("\n")).toContain(problem)
})
