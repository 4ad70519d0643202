import { expect, test } from "bun:test"
import type { Snapshot } from "../../src/agent/snapshot.ts"
import { exposition } from "../../src/report/metric-family.ts"
import { families, Metrics } from "../../src/report/metrics.ts"

const EMPTY: Snapshot = {
  startedAt: 0,
  loaded: true,
  backends: [],
  templates: [],
  disabled: [],
  unowned: [],
  issues: [],
  isPlaced: true,
  generation: 1,
}
const text = (metrics: Metrics, snapshot = EMPTY) =>
  exposition(
    families(metrics, snapshot, {
      inFlight: 0,
      sessions: 0,
      streams: 0,
      replica: undefined,
      uptimeSeconds: 1,
      version: "1.2.3",
      results: { report: () => [] },
      spans: undefined,
      own: {
        memory: 90_000_000,
        cpu: { user: 1, system: 0.5 },
        startedAt: 1_790_000_000,
        files: { open: 20, limit: 1024 },
      },
      usage: new Map([[7, { memory: 5_000_000, cpu: 1500 }]]),
    }),
  )
const calls = (metrics: Metrics) =>
  text(metrics)
    .split("\n")
    .filter((line) => line.startsWith("svc_calls_total{"))

test("the issues of the configuration are counted by severity [metrics:issues]", () => {
  const issues = (["error", "warning", "error"] as const).map((severity) => ({
    code: "server",
    severity,
    message: "m",
  }))
  const shown = text(new Metrics(), { ...EMPTY, issues })
  expect(shown).toContain(
    '\nsvc_configuration_issues{severity="error"} 2\nsvc_configuration_issues{severity="warning"} 1\n',
  )
  expect(text(new Metrics())).toContain('\nsvc_configuration_issues{severity="error"} 0\n')
})

test("the process of svc is described by the names that Prometheus uses for processes", () => {
  const lines = text(new Metrics()).split("\n")
  expect(lines.filter((line) => line.startsWith("process_"))).toEqual([
    "process_resident_memory_bytes 90000000",
    "process_cpu_seconds_total 1.5",
    "process_start_time_seconds 1790000000",
    "process_open_fds 20",
    "process_max_fds 1024",
  ])
})

test('a tool named "other" is counted as itself', () => {
  const metrics = new Metrics()
  metrics.record("a", "other", "ok", 0.1)
  metrics.record("a", "echo", "ok", 0.1)
  metrics.record("a", "echo", "ok", 0.1)
  expect(calls(metrics)).toEqual([
    'svc_calls_total{server="a",tool="other",outcome="ok"} 1',
    'svc_calls_total{server="a",tool="echo",outcome="ok"} 2',
  ])
})

test("above the limit, names are counted together, and no series occurs twice", () => {
  const metrics = new Metrics()
  for (let round = 0; round < 2; round++) {
    for (let number = 0; number < 6000; number++) metrics.record("a", `tool${number}`, "ok", 0.1)
    for (let number = 0; number < 6000; number++) metrics.record(`template#${number}`, "echo", "ok", 0.1)
  }
  const series = text(metrics)
    .split("\n")
    .filter((line) => line !== "" && !line.startsWith("#"))
  expect(series.length).toBeLessThan(15_000)
  expect(new Set(series.map((line) => line.slice(0, line.lastIndexOf(" ")))).size).toBe(series.length)
  const total = calls(metrics).reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(" ") + 1)), 0)
  expect(total).toBe(24_000)
})

test("quotes, backslashes and line breaks in labels are escaped", () => {
  const metrics = new Metrics()
  metrics.record('a"b', "c\\d\ne", "tool_error", 2)
  expect(calls(metrics)).toEqual(['svc_calls_total{server="a\\"b",tool="c\\\\d\\ne",outcome="tool_error"} 1'])
})

test("calls count by principal, with the name of its token; beyond a bound, principals count as other [metrics:principals]", () => {
  const metrics = new Metrics()
  metrics.nameOf = (principal) => (principal === "token 1" ? "ci" : undefined)
  for (let number = 0; number < 200; number++) metrics.recordPrincipal(`token ${number}`, "ok")
  const lines = text(metrics)
    .split("\n")
    .filter((line) => line.startsWith("svc_principal_calls_total{"))
  expect(lines).toContain('svc_principal_calls_total{principal="token 1",name="ci",outcome="ok"} 1')
  expect(lines).toContain('svc_principal_calls_total{principal="other",outcome="ok"} 100')
  expect(lines).toHaveLength(101)
  expect(text(new Metrics())).not.toContain("svc_principal_calls_total")
})
