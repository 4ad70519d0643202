import { expect, test } from "bun:test"
import { CallDurations } from "../../src/report/call-durations.ts"

const samples = (durations: CallDurations) => durations.samples((text) => JSON.stringify(text))

test("each call is in the buckets of its duration, by server, tool and kind of failure [metrics:durations]", () => {
  const durations = new CallDurations()
  durations.record("a", "t", undefined, 0.01)
  durations.record("a", "t", undefined, 0.3)
  durations.record("a", "t", undefined, 1000)
  durations.record("a", "t", "tool_error", 1)
  durations.record("a", "t", "_OTHER", 1)
  const lines = samples(durations)
  const labels = 'svc_server="a",mcp_method_name="tools/call",gen_ai_tool_name="t"'
  const of = (rest: string) =>
    lines
      .filter((line) => line.startsWith(`mcp_client_operation_duration_seconds_${rest}`))
      .map((line) => line.split(" ")[1])
  expect(of(`bucket{${labels},le`)).toEqual("1 1 1 1 1 2 2 2 2 2 2 2 2 2 3".split(" "))
  expect(of(`sum{${labels}}`)).toEqual(["1000.31"])
  expect(of(`count{${labels}`)).toEqual(["3", "1", "1"])
  expect(of(`count{${labels},error_type="tool_error"}`)).toEqual(["1"])
  expect(of(`count{${labels},error_type="_OTHER"}`)).toEqual(["1"])
})

test("beyond the bounds, calls count as those of the tool other, then of the server other; none is lost [metrics:durations]", () => {
  const durations = new CallDurations()
  for (let server = 0; server < 100; server++)
    for (let tool = 0; tool < 10; tool++) durations.record(`s${server}`, `t${tool}`, undefined, 1)
  const counts = samples(durations).filter((line) => line.includes("_count"))
  expect(counts.length).toBeLessThan(200)
  expect(counts.reduce((sum, line) => sum + Number(line.split(" ")[1]), 0)).toBe(1000)
  expect(counts.some((line) => line.includes('svc_server="other"'))).toBe(true)
  expect(
    counts.some((line) => line.includes('svc_server="s12",mcp_method_name="tools/call",gen_ai_tool_name="other"')),
  ).toBe(true)
})
