import { expect, test } from "bun:test"
import { exposition } from "../../src/report/metric-family.ts"
import { Metrics } from "../../src/report/metrics.ts"

const samples = ({ sent }: Metrics) =>
  exposition([
    { name: "mcp.client.operation.duration", type: "histogram", unit: "s", help: "Help.", points: sent.points() },
  ]).split("\n")
const call = (server: string, tool: string, error?: string) => [server, "tools/call", tool, undefined, error]

test("each request is in the buckets of its duration, by server, tool and kind of failure [metrics:durations]", () => {
  const metrics = new Metrics()
  metrics.sent.record(call("a", "t"), 0.01)
  metrics.sent.record(call("a", "t"), 0.3)
  metrics.sent.record(call("a", "t"), 1000)
  metrics.sent.record(call("a", "t", "tool_error"), 1)
  metrics.sent.record(call("a", "t", "-32603"), 1)
  metrics.sent.record(["a", "prompts/get", undefined, "p", undefined], 1)
  const lines = samples(metrics)
  const labels = 'svc_server="a",mcp_method_name="tools/call",gen_ai_tool_name="t"'
  const of = (rest: string) =>
    lines
      .filter((line) => line.startsWith(`mcp_client_operation_duration_seconds_${rest}`))
      .map((line) => line.split(" ")[1])
  expect(of(`bucket{${labels},le`)).toEqual("1 1 1 1 1 2 2 2 2 2 2 2 2 2 3".split(" "))
  expect(of(`sum{${labels}}`)).toEqual(["1000.31"])
  expect(of(`count{${labels}`)).toEqual(["3", "1", "1"])
  expect(of(`count{${labels},error_type="tool_error"}`)).toEqual(["1"])
  expect(of(`count{${labels},error_type="-32603"}`)).toEqual(["1"])
  expect(of('count{svc_server="a",mcp_method_name="prompts/get",gen_ai_prompt_name="p"}')).toEqual(["1"])
})

test("beyond the bounds, requests count as those of other tools, then of other servers; none is lost [metrics:durations]", () => {
  const metrics = new Metrics()
  for (let server = 0; server < 100; server++)
    for (let tool = 0; tool < 10; tool++)
      metrics.sent.record(call(`s${server}`, `t${tool}`, tool % 2 === 0 ? undefined : String(-tool * server)), 1)
  const counts = samples(metrics).filter((line) => line.includes("_count"))
  expect(counts.length).toBeLessThan(200)
  expect(counts.reduce((sum, line) => sum + Number(line.split(" ")[1]), 0)).toBe(1000)
  const other = 'mcp_method_name="tools/call",gen_ai_tool_name="other"'
  for (const labels of [`svc_server="other",${other}}`, `svc_server="other",${other},error_type="_OTHER"}`])
    expect(counts.some((line) => line.includes(labels))).toBe(true)
  expect(counts.some((line) => line.includes(`svc_server="s12",${other}`))).toBe(true)
})
