/** The response to one HTTP request: when it is JSON, when it is a stream, and what a closed connection means. */
import { describe, expect, test } from "bun:test"
import { type Asker, HttpExchange, type OpenStream, SilentRequests } from "../../src/serve/http-exchange.ts"
import { EventLog } from "../../src/session/event-log.ts"
import { manualClock } from "../clock.ts"

const MINUTE = 60_000

const NOTIFICATION = '{"jsonrpc":"2.0","method":"notifications/progress"}'
const ANSWER = '{"jsonrpc":"2.0","id":1,"result":{}}'

/** An exchange of a legacy session (`primes`: of a client that can resume streams from their start) or of a modern client. */
function exchangeOf(
  client: "modern" | "legacy" | "primes",
  ask: Asker["ask"] = async (_m, _p, _s, send) => send("{}"),
) {
  const events = new EventLog("l")
  const streams = new Set<OpenStream>()
  const connection = new AbortController()
  const { promise: answered, resolve } = Promise.withResolvers<Response>()
  const exchange = new HttpExchange(
    resolve,
    { ask },
    streams,
    client === "modern" ? undefined : { events, sendsPrimingEvent: client === "primes" },
    1,
    connection,
  )
  return { exchange, answered, events, streams, connection }
}

/** Returns the event that carries a frame. */
const event = (frame: string) => `event: message\ndata: ${frame}\n\n`

const kindOf = (response: Response): string | null => response.headers.get("content-type")

describe("a response", () => {
  test("is JSON if nothing comes before the answer", async () => {
    const { exchange, answered, streams } = exchangeOf("legacy")
    exchange.finish(ANSWER)
    const response = await answered
    expect([response.status, kindOf(response), await response.text()]).toEqual([200, "application/json", ANSWER])
    expect(streams.size).toBe(0)
  })

  test("in parts contains all parts that were sent before and after Bun reads it", async () => {
    const { exchange, answered } = exchangeOf("modern")
    const body = exchange.openBody()
    const give = (byte: number) => body?.write(new Uint8Array(100_000).fill(byte))
    // Bun does not read yet.
    for (const byte of [1, 2, 3]) await give(byte)
    const response = await answered
    const whole = response.bytes()
    for (const byte of [4, 5, 6]) await give(byte)
    body?.end()
    const runs = Buffer.concat([1, 2, 3, 4, 5, 6].map((byte) => Buffer.alloc(100_000, byte)))
    expect(Buffer.from(await whole).equals(runs)).toBe(true)
  })

  test("in parts is one: a second body would leave the first without an end [relay:second]", () => {
    const { exchange } = exchangeOf("modern")
    expect(exchange.openBody()).toBeDefined()
    expect(exchange.openBody()).toBeUndefined()
  })

  test("has the status and headers of its answer", async () => {
    const { exchange, answered } = exchangeOf("modern")
    exchange.finish(ANSWER, { status: 429, headers: { "retry-after": "3" } })
    const response = await answered
    expect([response.status, response.headers.get("retry-after")]).toEqual([429, "3"])
  })

  test("is JSON for a large frame too, byte for byte", async () => {
    const { exchange, answered } = exchangeOf("legacy")
    const frame = new TextEncoder().encode(`"${"x".repeat(1024 * 1024)}"`)
    exchange.finish(frame)
    expect(new Uint8Array(await (await answered).arrayBuffer())).toEqual(frame)
  })

  test("becomes a stream with the first notification, and ends with the answer", async () => {
    const { exchange, answered, streams } = exchangeOf("modern")
    exchange.notify(NOTIFICATION)
    const response = await answered
    expect([kindOf(response), streams.size]).toEqual(["text/event-stream", 1])
    exchange.finish(ANSWER, { status: 404 })
    expect([response.status, await response.text()]).toEqual([200, `${event(NOTIFICATION)}${event(ANSWER)}`])
    expect(streams.size).toBe(0)
  })

  test("becomes a stream with the first server request", async () => {
    const { exchange, answered } = exchangeOf("modern")
    await exchange.ask("elicitation/create", {}, new AbortController().signal)
    expect(kindOf(await answered)).toBe("text/event-stream")
  })

  test("of a client that can resume it begins with an event that says where it starts", async () => {
    const { exchange, answered, events } = exchangeOf("primes")
    exchange.notify(NOTIFICATION)
    exchange.finish(ANSWER)
    const [priming, ...rest] = (await (await answered).text()).split("\n\n")
    expect(priming).toBe(`id: ${events.start(1)}\nretry: 1000\ndata:`)
    expect(rest.map((event) => event.split("\n").at(-1))).toEqual([`data: ${NOTIFICATION}`, `data: ${ANSWER}`, ""])
  })

  test("of a client that cannot resume from the start has event ids and no such event", async () => {
    const { exchange, answered } = exchangeOf("legacy")
    exchange.notify(NOTIFICATION)
    exchange.finish(ANSWER)
    const text = await (await answered).text()
    expect([text.startsWith("event: message\nid: l-1-1"), text.includes("retry:")]).toEqual([true, false])
  })

  test("to a cancelled request is an empty stream, or the end of the stream that it is", async () => {
    const { exchange, answered } = exchangeOf("legacy")
    exchange.finishUnanswered()
    const response = await answered
    expect([kindOf(response), await response.text()]).toEqual(["text/event-stream", ""])
    const other = exchangeOf("modern")
    other.exchange.notify(NOTIFICATION)
    other.exchange.finishUnanswered()
    expect(await (await other.answered).text()).toBe(event(NOTIFICATION))
  })

  test("that is an endless stream is closed by its request, which then answers", async () => {
    const { exchange, answered, streams } = exchangeOf("modern")
    exchange.notify(NOTIFICATION)
    exchange.onstream(() => exchange.finish(ANSWER))
    for (const stream of streams) stream.close()
    expect(await (await answered).text()).toEndWith(`data: ${ANSWER}\n\n`)
  })
})

describe("a response after a long silence [protocol:silent]", () => {
  const BOTH = new Headers({ accept: "application/json, text/event-stream" })
  const silence = () => {
    const clock = manualClock()
    return { clock, silent: new SilentRequests(clock) }
  }
  const bodyOf = async (response: Response) => (await response.text()).replace(/^(?:id: .*\nretry: .*\ndata:\n\n)?/, "")

  test("becomes a stream with a comment, whose last event is the answer, in both eras", async () => {
    for (const client of ["modern", "legacy", "primes"] as const) {
      const { clock, silent } = silence()
      const { exchange, answered, streams } = exchangeOf(client)
      exchange.openWhenSilent(silent, BOTH)
      await clock.pass(14_000)
      expect(streams.size).toBe(0)
      await clock.pass(1000)
      const response = await answered
      expect([response.status, kindOf(response), streams.size]).toEqual([200, "text/event-stream", 1])
      exchange.keepAlive()
      exchange.notify(NOTIFICATION)
      // The status of an error is sent already: the error is in the stream.
      exchange.finish(ANSWER, { status: 429 })
      const text = (await bodyOf(response)).replaceAll(/id: .*\n/g, "")
      expect(text).toBe(`:\n\n:\n\n${event(NOTIFICATION)}${event(ANSWER)}`)
      expect([streams.size, clock.timers]).toEqual([0, 0])
    }
  })

  test("stays JSON if the client takes no streams, or the answer comes first", async () => {
    for (const accept of [
      "application/json",
      "*/*",
      "",
      "application/json, text/event-stream;q=0",
      "text/event-streams",
    ]) {
      const { clock, silent } = silence()
      const { exchange, answered, streams } = exchangeOf("modern")
      exchange.openWhenSilent(silent, new Headers({ accept }))
      await clock.pass(60_000)
      expect([accept, streams.size, clock.timers]).toEqual([accept, 0, 0])
      exchange.finish(ANSWER)
      expect(kindOf(await answered)).toBe("application/json")
    }
    const { clock, silent } = silence()
    const { exchange, answered, streams } = exchangeOf("legacy")
    exchange.openWhenSilent(silent, BOTH)
    await clock.pass(14_000)
    exchange.finish(ANSWER)
    await clock.pass(60_000)
    expect([kindOf(await answered), streams.size, clock.timers]).toEqual(["application/json", 0, 0])
  })

  test("is a stream for each spelling of the type", async () => {
    for (const accept of [
      "text/event-stream",
      "Application/JSON;q=0.9,TEXT/Event-Stream ;q=0.1",
      "a/b , text/event-stream",
    ]) {
      const { clock, silent } = silence()
      const { exchange, answered } = exchangeOf("modern")
      exchange.openWhenSilent(silent, new Headers({ accept }))
      await clock.pass(15_000)
      exchange.finish(ANSWER)
      expect([accept, kindOf(await answered)]).toEqual([accept, "text/event-stream"])
    }
  })

  test("is not opened beside a body in parts, or for a client that is gone", async () => {
    const { clock, silent } = silence()
    const large = exchangeOf("modern")
    large.exchange.openWhenSilent(silent, BOTH)
    const body = large.exchange.openBody()
    const gone = exchangeOf("legacy")
    gone.exchange.openWhenSilent(silent, BOTH)
    gone.connection.abort()
    await clock.pass(60_000)
    expect([large.streams.size, gone.streams.size, clock.timers]).toEqual([0, 0, 0])
    body?.write(ANSWER)
    body?.end()
    expect(await (await large.answered).text()).toBe(ANSWER)
    gone.exchange.finish(ANSWER)
    expect(kindOf(await gone.answered)).toBe("application/json")
  })

  test("is opened by one timer for all requests, each after its own silence", async () => {
    const { clock, silent } = silence()
    const all = [exchangeOf("modern"), exchangeOf("modern"), exchangeOf("modern")]
    for (const { exchange } of all) {
      exchange.openWhenSilent(silent, BOTH)
      expect(clock.timers).toBe(1)
      await clock.pass(5000)
    }
    expect(all.map(({ streams }) => streams.size)).toEqual([1, 0, 0])
    await clock.pass(5000)
    expect(all.map(({ streams }) => streams.size)).toEqual([1, 1, 0])
    await clock.pass(5000)
    expect(all.map(({ streams }) => streams.size)).toEqual([1, 1, 1])
    expect(clock.timers).toBe(0)
  })
})

describe("a connection that the client closes", () => {
  test("cancels the request of a modern client, and nothing more is sent", async () => {
    const { exchange, answered, streams } = exchangeOf("modern")
    exchange.notify(NOTIFICATION)
    await (await answered).body?.cancel()
    expect([exchange.cancellation.reason, streams.size]).toEqual(["the client closed the connection", 0])
    exchange.notify(NOTIFICATION)
    exchange.finish(ANSWER)
  })

  test("does not cancel the request of a legacy client, whose answer waits in the log", async () => {
    const { exchange, answered, events } = exchangeOf("legacy")
    exchange.notify(NOTIFICATION)
    await (await answered).body?.cancel()
    expect([exchange.cancellation.reason, exchange.isConnected()]).toEqual([undefined, false])
    exchange.finish(ANSWER)
    const seen: string[] = []
    events.resume(events.start(1), { event: (_id, frame) => seen.push(String(frame)) > 0, end: () => seen.push("end") })
    expect(seen).toEqual([NOTIFICATION, ANSWER, "end"])
  })

  test("is noticed when a message precedes the answer, also if it was closed earlier", async () => {
    const { exchange, connection } = exchangeOf("modern")
    connection.abort()
    expect(exchange.cancellation.reason).toBeUndefined()
    exchange.notify(NOTIFICATION)
    expect(exchange.cancellation.reason).toBe("the client closed the connection")
    const refused = exchange.ask("elicitation/create", {}, new AbortController().signal)
    expect(await refused.catch((error: Error) => error.message)).toBe("The client is disconnected")
  })
})

/** A request whose client was sent a server request, and its connection. */
async function asked() {
  const { exchange, answered, events } = exchangeOf("primes")
  await exchange.ask("elicitation/create", {}, new AbortController().signal)
  const { body } = await answered
  return { exchange, events, lose: () => body?.cancel(), cancelled: () => exchange.cancellation.reason }
}

describe("a legacy client that must answer a server request and is disconnected", () => {
  test("may reconnect within ten minutes, or within one minute if other clients wait", async () => {
    for (const [others, minutes] of [
      [false, 10],
      [true, 1],
    ] as const) {
      const { exchange, lose, cancelled } = await asked()
      exchange.giveUpIfStale(0, others)
      await lose()
      exchange.giveUpIfStale(100, others)
      exchange.giveUpIfStale(99 + minutes * MINUTE, others)
      expect(cancelled()).toBeUndefined()
      exchange.giveUpIfStale(100 + minutes * MINUTE, others)
      expect(cancelled()).toBe("client disconnected")
    }
  })

  test("is connected again when it resumes its stream", async () => {
    const { exchange, events, lose, cancelled } = await asked()
    await lose()
    exchange.giveUpIfStale(0, true)
    events.resume(events.start(1), { event: () => true, end: () => undefined })
    exchange.giveUpIfStale(2 * MINUTE, true)
    expect(cancelled()).toBeUndefined()
  })
})
