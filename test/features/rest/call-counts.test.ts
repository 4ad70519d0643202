import { expect, test } from "bun:test"
import { CallHistory } from "../../../src/features/rest/call-counts.ts"
import { manualClock } from "../../clock.ts"

const call = (tool: string, outcome: "ok" | "error" = "ok", seconds = 1) => ({ server: "web", tool, outcome, seconds })

test("calls are counted by minute and tool for one hour", async () => {
  const clock = manualClock()
  const history = new CallHistory(clock)
  history.add(call("a"))
  history.add(call("a", "error", 3))
  await clock.pass(60_000)
  history.add(call("b"))
  expect(history.counts()).toMatchObject([
    { tool: "a", calls: 2, errors: 1, seconds: 4, longest: 3 },
    { tool: "b", calls: 1, errors: 0 },
  ])
  await clock.pass(59 * 60_000)
  expect(history.counts().map(({ tool }) => tool)).toEqual(["b"])
  await clock.pass(60_000)
  expect(history.counts()).toEqual([])
})

test("above a limit, the tools of a minute are counted together as others", () => {
  const history = new CallHistory(manualClock())
  for (let tool = 0; tool < 600; tool++) history.add(call(`tool-${tool}`))
  const counts = history.counts()
  expect(counts.length).toBe(501)
  expect(counts.find(({ server }) => server === "other")).toMatchObject({ tool: "other", calls: 100 })
})
