import { expect, test } from "bun:test"
import { CallRecords, type RecordedCall } from "../../../src/features/rest/call-records.ts"
import { manualClock } from "../../clock.ts"

/** A finished call with these arguments and this answer. */
const finished = (args: unknown, frame: Uint8Array | string = "{}"): RecordedCall => ({
  server: "files",
  tool: "read",
  outcome: "ok",
  parts: { waiting: 300, server: 199, svc: 1 },
  call: {
    client: { info: { name: "editor", version: "2" }, principal: "local" },
    request: { params: { name: "x", arguments: args } },
  },
  answer: { frame },
})

test("a call is kept with its client, arguments and answer, the newest first [admin:calls]", () => {
  const records = new CallRecords(manualClock(), true)
  records.add(finished({ path: "/a", deep: [{ n: 1 }] }, new TextEncoder().encode('{"result":1}')))
  records.add(finished(undefined, ""))
  expect(records.all()).toEqual([
    expect.objectContaining({ id: 2, arguments: {}, whole: true, answer: undefined }),
    expect.objectContaining({
      id: 1,
      client: "editor 2",
      ms: 500,
      waited: 300,
      atServer: 199,
      arguments: { path: "/a", deep: [{ n: 1 }] },
      whole: true,
      answer: '{"result":1}',
    }),
  ])
})

test("large arguments and answers are cut, and secrets left out [admin:calls]", () => {
  const records = new CallRecords(manualClock(), true)
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

test("the names that a client states are cut [activity:command]", () => {
  const records = new CallRecords(manualClock(), false)
  const { call, ...rest } = finished({})
  const info = { name: "n".repeat(1e6), version: "2" }
  records.add({ ...rest, tool: "t".repeat(1e6), call: { ...call, client: { ...call.client, info } } })
  expect(JSON.stringify(records.all()).length).toBeLessThan(1000)
})

test("the calls after an id come oldest first, a few at a time, and from the start for an id of an earlier svc [activity:command]", () => {
  const records = new CallRecords(manualClock(), true)
  for (let at = 0; at < 50; at++) records.add(finished({ at }))
  const seen: number[] = []
  for (let next = records.next(0); next.length > 0; next = records.next(seen.at(-1) ?? 0)) {
    expect(next.length).toBeLessThan(50)
    seen.push(...next.map(({ id }) => id))
  }
  expect(seen).toEqual(Array.from({ length: 50 }, (_, at) => at + 1))
  expect(records.next(1000)[0]?.id).toBe(1)
})

test("at most 200 calls are kept [admin:calls]", () => {
  const records = new CallRecords(manualClock(), true)
  for (let at = 0; at < 500; at++) records.add(finished({ at }))
  expect(records.all()).toHaveLength(200)
  expect(records.all()[0]?.arguments).toEqual({ at: 499 })
})
