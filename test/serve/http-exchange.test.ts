/** A client whose connection broke while it was asked something. */
import { describe, expect, test } from "bun:test"
import { HttpExchange } from "../../src/serve/http-exchange.ts"
import { EventLog } from "../../src/session/event-log.ts"

const MINUTE = 60_000

/** A request whose client was asked, its stream and what became of it. */
async function asked(resumable: boolean) {
  const events = new EventLog("l")
  const exchange = new HttpExchange(
    async (_method, _params, _signal, send) => send("{}"),
    new Set(),
    resumable ? { events, sendsPrimingEvent: true } : undefined,
  )
  await exchange.ask("elicitation/create", {}, new AbortController().signal)
  const { body } = await exchange.response
  return { exchange, events, lose: () => body?.cancel(), cancelled: () => exchange.cancellation.reason }
}

describe("a client of the 2025 era that is gone", () => {
  test("may come back for ten minutes, and for one where others wait", async () => {
    for (const [others, minutes] of [
      [false, 10],
      [true, 1],
    ] as const) {
      const { exchange, lose, cancelled } = await asked(true)
      exchange.giveUpIfStale(0, others)
      await lose()
      exchange.giveUpIfStale(100, others)
      exchange.giveUpIfStale(99 + minutes * MINUTE, others)
      expect(cancelled()).toBeUndefined()
      exchange.giveUpIfStale(100 + minutes * MINUTE, others)
      expect(cancelled()).toBe("the client is gone")
    }
  })

  test("has come back when its stream is taken up again", async () => {
    const { exchange, events, lose, cancelled } = await asked(true)
    await lose()
    exchange.giveUpIfStale(0, true)
    events.resume(events.start(1), { event: () => true, end: () => undefined })
    exchange.giveUpIfStale(2 * MINUTE, true)
    expect(cancelled()).toBeUndefined()
  })
})

test("a client of the 2026 era that is gone has given up", async () => {
  const { lose, cancelled } = await asked(false)
  await lose()
  expect(cancelled()).toBe("the client closed the connection")
})
