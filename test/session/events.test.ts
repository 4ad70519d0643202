import { expect, test } from "bun:test"
import { EventLog, type Sink } from "../../src/session/events.ts"

function listener(): Sink & { seen: string[]; ended: boolean; gone: boolean } {
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

test("a stream goes on after the event the client saw last", () => {
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

test("streams do not mix", () => {
  const log = new EventLog("l")
  const [a, b] = [log.open(listener()), log.open(listener())]
  log.send(a, "a")
  log.send(b, "b")
  const back = listener()
  log.resume(log.start(b), back)
  expect(back.seen).toEqual(["l-2-1 b"])
})

test("what is not kept any more cannot be taken up, and memory is bounded", () => {
  const log = new EventLog("l")
  const stream = log.open(listener())
  for (let count = 0; count < 1000; count++) log.send(stream, String(count))
  expect(log.resume("l-1-10", listener())).toBeUndefined()
  const back = listener()
  expect(log.resume("l-1-990", back)).toBe(stream)
  expect(back.seen).toHaveLength(10)
  const large = "x".repeat(1024 * 1024)
  for (let count = 0; count < 10; count++) log.send(stream, large)
  const late = listener()
  log.resume(`l-1-${1010 - 4}`, late)
  expect(late.seen).toHaveLength(4)
  expect(log.resume("l-1-1001", listener())).toBeUndefined()
})

test("ids that are none of ours are refused", () => {
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

test("a stream that was given up is gone, and who hears which is known", () => {
  const log = new EventLog("l")
  const first = listener()
  const stream = log.open(first)
  log.send(stream, "a")
  expect(log.isHeard(stream)).toBe(true)
  log.detach(stream, first)
  expect(log.isHeard(stream)).toBe(false)
  const second = listener()
  log.resume(log.start(stream), second)
  expect(log.isHeard(stream)).toBe(true)
  log.drop(stream)
  expect([second.ended, log.resume(log.start(stream), listener())]).toEqual([true, undefined])
})
