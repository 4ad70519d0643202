import { expect, test } from "bun:test"
import { Cancellation } from "../../src/call/cancellation.ts"
import type { Exchange } from "../../src/call/client.ts"
import { fulfilInputRequired } from "../../src/call/input-required.ts"
import { manualClock } from "../clock.ts"

const RESULT = {
  inputRequests: { a: { method: "roots/list" }, b: { method: "elicitation/create" } },
  requestState: "s",
}

/** A client that answers nothing: a question ends when it is withdrawn. */
const silent = (): Exchange => ({
  cancellation: new Cancellation(),
  notify() {},
  ask: (_method, _params, signal) =>
    new Promise((_, reject) => signal.addEventListener("abort", () => reject(new Error("withdrawn")))),
})
const run = (exchange: Exchange, clock = manualClock()) =>
  fulfilInputRequired({ name: "t" }, RESULT, exchange, clock).catch((error: Error) => error.message)

test("the responses go back under their keys, with the exact requestState", async () => {
  const exchange = { ...silent(), ask: async (method: string) => ({ to: method }) }
  expect(await run(exchange)).toEqual({
    name: "t",
    inputResponses: { a: { to: "roots/list" }, b: { to: "elicitation/create" } },
    requestState: "s",
  })
})

test("when a client cancels its request, the server requests are withdrawn and the call is not retried", async () => {
  const exchange = silent()
  const ended = run(exchange)
  exchange.cancellation.cancel("was cancelled by the client")
  expect(await ended).toBe("withdrawn")
})

test("the request of a client that disconnects and does not return is cancelled", async () => {
  const clock = manualClock()
  const exchange = silent()
  const began = clock.now()
  exchange.giveUpIfStale = (now) => {
    if (now - began >= 60_000) exchange.cancellation.cancel("the client is gone")
  }
  const ended = run(exchange, clock)
  await clock.pass(61_000)
  expect(await ended).toBe("withdrawn")
  expect(clock.timers).toBe(0)
})
