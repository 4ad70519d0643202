/** A malicious server at full speed: whatever it writes, each client sees only one valid answer to its request. */
import { expect, test } from "bun:test"
import { BackendError, messageOf } from "../../src/lib/errors.ts"
import { createRequestIds } from "../../src/wire/frame.ts"
import { lineOf } from "../../src/wire/lines.ts"
import { errorText } from "../../src/wire/message.ts"
import { formatEvent, SseDecoder } from "../../src/wire/sse.ts"
import { manualClock } from "../clock.ts"
import { AGGREGATE, fakeClient, fakeConnection, fakeExchange, fakeGateway, fakePeer, fakeSpec } from "../fakes.ts"
import { createMutator, faultOf } from "../fixtures/mutations.ts"
import { randomFrom } from "../random.ts"

const FRAMES = Number(process.env.SVC_MUTATIONS ?? 100_000)
const SEED = Number(process.env.SVC_SEED ?? 20_260_728)
const LIMIT_MS = 120_000

const spec = fakeSpec()
const METHODS = ["tools/call", "resources/read", "prompts/get", "completion/complete"]
const ERAS = ["legacy", "modern"] as const

/** The one message of an event stream with this frame in it. */
function throughEvents(frame: Uint8Array | string): Uint8Array {
  const seen: Uint8Array[] = []
  new SseDecoder({
    onevent: ({ data }) => void seen.push(data ?? new Uint8Array()),
    limit: 1 << 24,
    ondropped: () => undefined,
  }).push(formatEvent(frame))
  expect(seen).toHaveLength(1)
  return seen[0] as Uint8Array
}

/** The one message of a pipe with this frame in it. */
function throughLine(frame: Uint8Array | string): Uint8Array {
  const line = lineOf(frame)
  expect(line.indexOf(0x0a)).toBe(line.length - 1)
  return line.subarray(0, -1)
}

test(
  "no client sees an id that it did not use, or an invalid answer [protocol:answer:checked]",
  async () => {
    const random = randomFrom(SEED)
    const mutate = createMutator(random)
    const pick = <T>(of: readonly T[]): T => of[Math.floor(random() * of.length)] as T
    const ids = createRequestIds("Rand0m")
    const counts = { right: 0, refused: 0, ignored: 0 }
    let asked: number[] = []
    let over = false
    const connection = fakeConnection(
      manualClock(),
      (_frame, { number }) => {
        if (number === undefined) return
        asked.push(number)
        if (over) queueMicrotask(() => giveUp(number))
      },
      { ids, onprotocolerror: (text) => expect(text).toBeString() },
    )
    const giveUp = (number: number) => connection.fail(number, new BackendError("s", "gave up"))
    for (let count = 0; count < FRAMES; count++) {
      asked = []
      over = false
      const faults: string[] = []
      const peer = fakePeer(pick(ERAS))
      const gateway = fakeGateway({ directory: { target: () => ({ spec, connection, peer }) } })
      let written = ""
      const see = (frame: Uint8Array | string, id: number) => {
        for (const way of [frame, throughEvents(frame), throughLine(frame)]) {
          const fault = faultOf(way, new Set([id]))
          if (fault !== undefined) faults.push(`${fault}\n  from ${written}`)
        }
      }
      /** One request under this id; the answer is looked at where it comes. */
      const call = async (id: number) => {
        const client = fakeClient(pick(ERAS), { scope: pick([AGGREGATE, { kind: "server", id: "s" } as const]) })
        const exchange = fakeExchange({ notify: (text) => see(text, id) })
        const method = pick(METHODS)
        const params = { name: "t", uri: "u" }
        const route = { id: "s", slug: "s", name: "t", mirrored: [] }
        try {
          const request = { jsonrpc: "2.0", id, method, params } as const
          const { frame } = await gateway.toServer({ request, gateway, client, exchange }, params, route)
          const text = typeof frame === "string" ? frame : new TextDecoder().decode(frame)
          counts[outcomeOf(text)]++
          see(frame, id)
        } catch (error) {
          // If the session or the backend's state rules out a request, it fails, and the caller writes the error.
          see(errorText(id, -32602, messageOf(error)), id)
        }
      }
      const calls = [call(7), call(1)]
      const [first = 0, second = 0] = asked
      const bytes = mutate(ids.text(first), [1, 7, ids.text(second), "7", 0, ids.text(999_999_999)])
      written = Buffer.from(bytes).toString("latin1")
      connection.receive(bytes, pick([undefined, first]))
      // Requests without an answer by now will not get one, and repeated server requests get no answer.
      for (const number of [...asked]) giveUp(number)
      over = true
      await Promise.all(calls)
      expect(faults).toEqual([])
    }
    // Both kinds must occur, or the test proves nothing.
    expect(counts.right).toBeGreaterThan(FRAMES / 20)
    expect(counts.refused).toBeGreaterThan(FRAMES / 20)
  },
  LIMIT_MS,
)

/** The fate of a mutated response: ignored until the call was given up, refused as malformed, or relayed. */
function outcomeOf(text: string): "ignored" | "refused" | "right" {
  if (text.includes("gave up")) return "ignored"
  return /s: (sent|answered)/.test(text) ? "refused" : "right"
}
