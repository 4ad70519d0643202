import { expect, test } from "bun:test"
import { jsonMetrics, protobufMetrics } from "../../../src/features/traces/metrics-encoding.ts"
import type { Family } from "../../../src/report/metric-family.ts"
import { readMetrics } from "../../otlp.ts"

const FAMILIES: readonly Family[] = [
  {
    name: "svc.calls",
    type: "counter",
    unit: "{call}",
    help: "Calls.",
    points: [{ labels: { server: "ä", "http.response.status_code": 200 }, value: 2 ** 52 + 1 }],
  },
  { name: "process.memory.usage", type: "gauge", adds: true, unit: "By", help: "", points: [{ labels: {}, value: 0 }] },
  { name: "process.uptime", type: "gauge", unit: "s", help: "", points: [{ labels: {}, value: 1 }] },
  {
    name: "svc.call.duration",
    type: "histogram",
    unit: "s",
    help: "x".repeat(5000),
    points: Array.from({ length: 300 }, (_, at) => ({
      labels: { tool: `t${at}` },
      implied: { "gen_ai.operation.name": "execute_tool" },
      bounds: [0.01, 300],
      buckets: [at, 3_000_000_000, 1],
      sum: 0.1 + at,
    })),
  },
  { name: "svc.empty", type: "gauge", unit: "1", help: "", points: [] },
  { name: "svc.scraped", only: "prometheus", type: "gauge", unit: "1", help: "", points: [{ labels: {}, value: 1 }] },
]
const SOURCE = { resource: { "service.name": "s" }, version: "1" }
const TIMES = { start: 1_790_000_000_000, now: 1_790_000_000_000.5 }

test("both encodings hold the same: whole numbers and parts, sums, gauges and histograms [metrics:push]", () => {
  const [binary, text] = [protobufMetrics(SOURCE), jsonMetrics(SOURCE)].map(({ request, contentType }) =>
    readMetrics(request(FAMILIES, TIMES), contentType),
  )
  expect(binary).toEqual(text as never)
  expect(binary?.map(({ name, instrument }) => [name, instrument])).toEqual([
    ["svc.calls", "counter"],
    ["process.memory.usage", "updowncounter"],
    ["process.uptime", "gauge"],
    ["svc.call.duration", "histogram"],
  ])
  expect(binary?.[0]?.points).toEqual([
    {
      attributes: { "svc.server": "ä", "http.response.status_code": 200 },
      kind: "int",
      value: 2 ** 52 + 1,
      start: 1_790_000_000_000_000_000n,
      time: 1_790_000_000_000_500_000n,
      bounds: [],
      buckets: [],
    },
  ])
  expect(binary?.[2]?.points[0]).toMatchObject({ kind: "double", value: 1 })
  expect(binary?.[3]?.points).toHaveLength(300)
  expect(binary?.[3]?.points[7]).toMatchObject({
    attributes: { "svc.tool": "t7", "gen_ai.operation.name": "execute_tool" },
    bounds: [0.01, 300],
    buckets: [7, 3_000_000_000, 1],
    value: 7.1,
  })
})
