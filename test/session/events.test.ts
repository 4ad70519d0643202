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
  const log = new EventLog()
  const first = listener()
  const stream = log.open(first)
  log.send(stream, "a")
  first.gone = true
  log.send(stream, "b")
  log.send(stream, "c")
  const second = listener()
  expect(log.resume("1-1", second)).toBe(stream)
  log.send(stream, "d")
  expect([first.seen, second.seen]).toEqual([["1-1 a"], ["1-2 b", "1-3 c", "1-4 d"]])
  log.end(stream)
  expect(second.ended).toBe(true)
  const third = listener()
  expect(log.resume(EventLog.start(stream), third)).toBe(stream)
  expect([third.seen.length, third.ended]).toEqual([4, true])
})

test("streams do not mix", () => {
  const log = new EventLog()
  const [a, b] = [log.open(listener()), log.open(listener())]
  log.send(a, "a")
  log.send(b, "b")
  const back = listener()
  log.resume(EventLog.start(b), back)
  expect(back.seen).toEqual(["2-1 b"])
})

test("what is not kept any more cannot be taken up, and memory is bounded", () => {
  const log = new EventLog()
  const stream = log.open(listener())
  for (let count = 0; count < 1000; count++) log.send(stream, String(count))
  expect(log.resume("1-10", listener())).toBeUndefined()
  const back = listener()
  expect(log.resume("1-990", back)).toBe(stream)
  expect(back.seen).toHaveLength(10)
  const large = "x".repeat(1024 * 1024)
  for (let count = 0; count < 10; count++) log.send(stream, large)
  const late = listener()
  log.resume(`1-${1010 - 4}`, late)
  expect(late.seen).toHaveLength(4)
  expect(log.resume("1-1001", listener())).toBeUndefined()
})

test("ids that are none of ours are refused", () => {
  const log = new EventLog()
  log.open(listener())
  for (const id of ["", "x", "1", "2-0", "1-1", "1-0-0", "-1-0", "99999999999999999-1"])
    expect(log.resume(id, listener())).toBeUndefined()
})
