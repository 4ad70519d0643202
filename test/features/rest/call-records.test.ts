import { expect, test } from "bun:test"
import { CallRecords, type RecordedCall } from "../../../src/features/rest/call-records.ts"
import { manualClock } from "../../clock.ts"

/** A finished call with these arguments and this answer. */
const finished = (args: unknown, frame: Uint8Array | string = "{}"): RecordedCall => ({
  server: "files",
  tool: "read",
  outcome: "ok",
  seconds: 0.5,
  call: {
    client: { info: { name: "editor", version: "2" }, principal: "local" },
    request: { params: { name: "x", arguments: args } },
  },
  answer: { frame },
})

test("a call is kept with its client, arguments and answer, the newest first [admin:calls]", () => {
  const records = new CallRecords(manualClock())
  records.add(finished({ path: "/a", deep: [{ n: 1 }] }, new TextEncoder().encode('{"result":1}')))
  records.add(finished(undefined, ""))
  expect(records.all()).toEqual([
    expect.objectContaining({ id: 2, arguments: {}, whole: true, answer: undefined }),
    expect.objectContaining({
      id: 1,
      client: "editor 2",
      ms: 500,
      arguments: { path: "/a", deep: [{ n: 1 }] },
      whole: true,
      answer: '{"result":1}',
    }),
  ])
})

test("large arguments and answers are cut, and secrets left out [admin:calls]", () => {
  const records = new CallRecords(manualClock())
  const many = Array.from({ length: 100_000 }, (_, at) => at)
  records.add(
    finished({ text: "x".repeat(1e6), many, apiKey: "sk-1", nested: { password: { of: "me" } } }, "y".repeat(1e6)),
  )
  const [record] = records.all()
  expect(record?.whole).toBe(false)
  expect(JSON.stringify(record).length).toBeLessThan(12_000)
  expect(JSON.stringify(record)).not.toContain("sk-1")
  expect(JSON.stringify(record)).not.toContain('"me"')
})

test("without content only the names of a call are kept, until content is wanted [activity:command]", () => {
  const records = new CallRecords(manualClock(), false)
  records.add(finished({ path: "/a" }))
  records.keepContent()
  records.add(finished({ path: "/b" }))
  expect(records.all()).toMatchObject([
    { id: 2, arguments: { path: "/b" }, answer: "{}", whole: true },
    { id: 1, server: "files", tool: "read", client: "editor 2", arguments: undefined, answer: undefined, whole: false },
  ])
})

test("at most 200 calls are kept [admin:calls]", () => {
  const records = new CallRecords(manualClock())
  for (let at = 0; at < 500; at++) records.add(finished({ at }))
  expect(records.all()).toHaveLength(200)
  expect(records.all()[0]?.arguments).toEqual({ at: 499 })
})
