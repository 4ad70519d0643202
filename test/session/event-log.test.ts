import { expect, test } from "bun:test"
import { parseExact } from "../../src/lib/json.ts"
import { EventLog, type EventSink, requestOf } from "../../src/session/event-log.ts"
import type { Id } from "../../src/wire/message.ts"
import { ODD_NUMBERS } from "../numbers.ts"

function listener(): EventSink & { seen: string[]; ended: boolean; gone: boolean } {
  const sink = {
    seen: [] as string[],
    ended: false,
    gone: false,
    event(id: string, frame: Uint8Array | string) {
      if (sink.gone) return false
      sink.seen.push(`${id} ${frame}`)
      return true
    },
    end() {
      sink.ended = true
    },
  }
  return sink
}

test("a stream is resumed after the event that the client saw last", () => {
  const log = new EventLog("l")
  const first = listener()
  const stream = log.open(first)
  log.send(stream, "a")
  first.gone = true
  log.send(stream, "b")
  log.send(stream, "c")
  const second = listener()
  expect(log.resume("l-1-1", second)).toBe(stream)
  log.send(stream, "d")
  expect([first.seen, second.seen]).toEqual([["l-1-1 a"], ["l-1-2 b", "l-1-3 c", "l-1-4 d"]])
  log.end(stream)
  expect(second.ended).toBe(true)
  const third = listener()
  expect(log.resume(log.start(stream), third)).toBe(stream)
  expect([third.seen.length, third.ended]).toEqual([4, true])
})

test("a resumed stream sends only its own events", () => {
  const log = new EventLog("l")
  const [a, b] = [log.open(listener()), log.open(listener())]
  log.send(a, "a")
  log.send(b, "b")
  const back = listener()
  log.resume(log.start(b), back)
  expect(back.seen).toEqual(["l-2-1 b"])
})

test("a stream is resumed without the events that were evicted, and memory is bounded", () => {
  const log = new EventLog("l")
  const stream = log.open(listener())
  for (let count = 0; count < 1000; count++) log.send(stream, String(count))
  const gap = listener()
  expect(log.resume("l-1-10", gap)).toBe(stream)
  expect([gap.seen.length, gap.seen[0], gap.seen.at(-1)]).toEqual([256, "l-1-745 744", "l-1-1000 999"])
  const back = listener()
  expect(log.resume("l-1-990", back)).toBe(stream)
  expect(back.seen).toHaveLength(10)
  const large = "x".repeat(1024 * 1024)
  for (let count = 0; count < 10; count++) log.send(stream, large)
  const late = listener()
  log.resume(`l-1-${1010 - 4}`, late)
  expect(late.seen).toHaveLength(4)
  const later = listener()
  log.resume("l-1-1001", later)
  expect(later.seen).toHaveLength(4)
})

test("an event id names the request of its stream, even to a log that does not contain the stream", () => {
  for (const id of [7, -1.5, "", "a-b", "é\n", "7"]) {
    const log = new EventLog("l")
    const sink = listener()
    const stream = log.open(sink, id)
    log.send(stream, "x")
    const [event = ""] = sink.seen[0]?.split(" ") ?? []
    expect(event).toMatch(/^[\w-]+$/)
    expect([requestOf(event), requestOf(log.start(stream))]).toEqual([id, id])
    expect(log.resume(event, listener())).toBe(stream)
    expect(new EventLog("m").resume(event, listener())).toBeUndefined()
  }
  const log = new EventLog("l")
  for (const event of [log.start(log.open(listener())), log.start(log.open(listener(), "x".repeat(1000)))])
    expect(requestOf(event)).toBeUndefined()
  for (const event of ["", "l-1-1-", "l-1-1-e30", "l-1-1-%", "l-1-1-bnVsbA"]) expect(requestOf(event)).toBeUndefined()
})

test("an event id contains the id of its request as the client wrote it", () => {
  for (const odd of ODD_NUMBERS) {
    const log = new EventLog("l")
    const stream = log.open(listener(), parseExact(odd) as Id)
    expect(JSON.stringify(requestOf(log.start(stream)))).toBe(odd)
  }
})

test("a stream is over for a client that has seen its last event", () => {
  const log = new EventLog("l")
  const stream = log.open(listener(), 1)
  const start = log.start(stream)
  log.send(stream, "a")
  expect([log.isOver(start), log.isOver("l-1-1-MQ"), log.isOver("l-1-2-MQ")]).toEqual([false, false, false])
  log.end(stream)
  expect([log.isOver(start), log.isOver("l-1-1-MQ"), log.isOver("l-1-1"), log.isOver("")]).toEqual([
    false,
    true,
    false,
    false,
  ])
})

test("ids that are not from this log are rejected", () => {
  const log = new EventLog("l")
  log.open(listener())
  for (const id of [
    "",
    "x",
    "1",
    "1-0",
    "l",
    "l-1",
    "l-2-0",
    "l-1-1",
    "m-1-0",
    "l-1-0-0",
    "l--1-0",
    "l-1-",
    "l-99999999999999999-1",
  ])
    expect(log.resume(id, listener())).toBeUndefined()
})

test("a dropped stream is gone, and the log knows which streams have a client", () => {
  const log = new EventLog("l")
  const first = listener()
  const stream = log.open(first)
  log.send(stream, "a")
  expect(log.isConnected(stream)).toBe(true)
  log.detach(stream, first)
  expect(log.isConnected(stream)).toBe(false)
  const second = listener()
  log.resume(log.start(stream), second)
  expect(log.isConnected(stream)).toBe(true)
  log.drop(stream)
  expect([second.ended, log.resume(log.start(stream), listener())]).toEqual([true, undefined])
})

test("events older than ten minutes are dropped", () => {
  const log = new EventLog("l")
  const [old, young] = [log.open(listener()), log.open(listener())]
  log.send(old, "old")
  log.end(old)
  log.send(young, "1")
  for (let minute = 0; minute < 10; minute++) log.onMinute()
  const back = listener()
  expect(log.resume(log.start(old), back)).toBe(old)
  expect(back.seen).toEqual(["l-1-1 old"])
  log.send(young, "2")
  log.onMinute()
  expect(log.resume("l-1-0", listener())).toBeUndefined()
  const later = listener()
  expect(log.resume(log.start(young), later)).toBe(young)
  expect(later.seen).toEqual(["l-2-2 2"])
})
