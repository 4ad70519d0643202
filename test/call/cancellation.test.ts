import { describe, expect, test } from "bun:test"
import { Cancellation } from "../../src/call/cancellation.ts"
import { encode, textOf } from "../../src/wire/frame.ts"
import { manualClock, settle } from "../clock.ts"
import { fakeClient, fakeConnection, fakeExchange, fakeGateway, fakePeer, fakeSpec } from "../fakes.ts"

describe("a cancellation", () => {
  test("keeps its first reason and calls each listener once", () => {
    const cancellation = new Cancellation()
    const seen: string[] = []
    cancellation.onabort((reason) => seen.push(`1 ${reason}`))
    cancellation.onabort((reason) => seen.push(`2 ${reason}`))
    cancellation.cancel("first")
    cancellation.cancel("second")
    expect([cancellation.reason, seen]).toEqual(["first", ["1 first", "2 first"]])
  })

  test("reaches a listener that is added after it", () => {
    const cancellation = new Cancellation()
    cancellation.cancel("gone")
    let seen: string | undefined
    cancellation.onabort((reason) => {
      seen = reason
    })
    expect(seen).toBe("gone")
    expect(() => cancellation.throwIfCancelled()).toThrow("gone")
    expect(cancellation.signal.aborted).toBe(true)
  })

  test("does not reach a listener that was removed, not even by another listener", () => {
    const cancellation = new Cancellation()
    const seen: string[] = []
    const second = () => seen.push("second")
    cancellation.onabort(() => cancellation.offabort(second))
    cancellation.onabort(second)
    cancellation.cancel("gone")
    expect(seen).toEqual([])
  })

  test("aborts its signal, which is always the same object", () => {
    const cancellation = new Cancellation()
    const { signal } = cancellation
    expect(cancellation.signal).toBe(signal)
    cancellation.cancel("gone")
    expect([signal.aborted, signal.reason.message]).toEqual([true, "gone"])
  })

  test("ends a wait at once, and does not affect a wait that has ended", async () => {
    const cancellation = new Cancellation()
    expect(await cancellation.race(Promise.resolve(7))).toBe(7)
    expect(await cancellation.race(Promise.reject(new Error("no"))).catch(String)).toBe("Error: no")
    const waits = cancellation.race(new Promise(() => undefined))
    cancellation.cancel("gone")
    expect(await waits.catch((error: Error) => error.message)).toBe("gone")
  })
})

/** A call of a legacy client to a modern server that asks for input first; the client answers the question at once. */
function inputRequiredCall() {
  const sent: string[] = []
  let calls = 0
  const clock = manualClock()
  const connection = fakeConnection(
    clock,
    (frame) => {
      const { id, method } = JSON.parse(textOf(frame))
      sent.push(method)
      if (method !== "tools/call") return
      calls++
      const inputRequests = { q: { method: "elicitation/create", params: { message: "?" } } }
      const result =
        calls === 1 ? { resultType: "input_required", inputRequests, requestState: "1" } : { resultType: "complete" }
      void settle().then(() => connection.receive(encode(JSON.stringify({ jsonrpc: "2.0", id, result }))))
    },
    { onprotocolerror: (text) => expect(text).toBe("") },
  )
  const peer = fakePeer("modern")
  const gateway = fakeGateway({ directory: { target: () => ({ spec: fakeSpec(), connection, peer }) } })
  const client = fakeClient("legacy", { capabilities: { elicitation: {} }, scope: { kind: "server", id: "s" } })
  const cancellation = new Cancellation()
  const exchange = fakeExchange({ cancellation, ask: async () => ({ action: "accept" }) })
  const request = { jsonrpc: "2.0", id: 1, method: "tools/call", params: { name: "t" } } as const
  const route = { id: "s", slug: "s", name: "t", mirrored: [] }
  const answer = Promise.resolve(gateway.toServer({ request, gateway, client, exchange }, { name: "t" }, route)).then(
    ({ frame }) => textOf(frame),
    (error: Error) => error.message,
  )
  return { connection, clock, sent, cancellation, answer }
}

const countOf = (sent: readonly string[], method: string): number => sent.filter((one) => one === method).length

test("a call that is cancelled at any of its await points ends, and the server is sent nothing new for it", async () => {
  const steps = 400
  const ends = { cancelled: 0, complete: 0 }
  for (let step = 0; step < steps; step++) {
    const { connection, clock, sent, cancellation, answer } = inputRequiredCall()
    for (let turn = 0; turn < step; turn++) await Promise.resolve()
    const before = countOf(sent, "tools/call")
    const { inFlight } = connection
    cancellation.cancel("was cancelled by the client")
    for (let turn = 0; turn < 5; turn++) await settle()
    expect([step, countOf(sent, "tools/call")]).toEqual([step, before])
    expect([step, countOf(sent, "notifications/cancelled")]).toEqual([step, inFlight])
    expect([step, connection.inFlight]).toEqual([step, 0])
    const text = await answer
    if (text.includes("was cancelled by the client")) ends.cancelled++
    else {
      expect(text).toBe('{"jsonrpc":"2.0","id":1,"result":{}}')
      ends.complete++
    }
    // Only the coarse timer of the connection remains.
    expect(clock.timers).toBeLessThanOrEqual(1)
  }
  expect(ends.cancelled).toBeGreaterThan(0)
  expect(ends.complete).toBeGreaterThan(0)
})
