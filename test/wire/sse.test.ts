import { expect, test } from "bun:test"
import fc from "fast-check"
import { createDecoder, formatEvent, type ServerSentEvent } from "../../src/wire/sse.ts"

function decodeAll(chunks: readonly Uint8Array[], limit = 100_000) {
  const events: {
    event: string | undefined
    id: string | undefined
    retry: number | undefined
    data: string | undefined
  }[] = []
  const feed = createDecoder((event: ServerSentEvent) => {
    events.push({ ...event, data: event.data === undefined ? undefined : new TextDecoder().decode(event.data) })
  }, limit)
  for (const chunk of chunks) feed(chunk)
  return events
}

const bytes = (text: string) => new TextEncoder().encode(text)
const event = (data: string | undefined, more = {}) => ({
  event: undefined,
  id: undefined,
  retry: undefined,
  data,
  ...more,
})

test("events are read whatever ends their lines and however they are cut", () => {
  const text = ":hi\nid: 1\nevent: message\nretry: 50\ndata: a\ndata:b\n\ndata\n\nnothing: x\n\n"
  for (const end of ["\n", "\r\n", "\r"]) {
    const whole = bytes(text.replaceAll("\n", end))
    for (let size = 1; size <= whole.length; size++) {
      const chunks = Array.from({ length: Math.ceil(whole.length / size) }, (_, at) =>
        whole.slice(at * size, (at + 1) * size),
      )
      expect(decodeAll(chunks)).toEqual([event("a\nb", { event: "message", id: "1", retry: 50 }), event("")])
    }
  }
})

test("what is written is read back", () => {
  fc.assert(
    fc.property(fc.jsonValue(), fc.nat(), (value, places) => {
      const written = formatEvent(JSON.stringify(value), "7")
      const at = places % (written.length + 1)
      expect(decodeAll([written.slice(0, at), written.slice(at)])).toEqual([event(JSON.stringify(value), { id: "7" })])
    }),
  )
})

test("a frame with raw line breaks between its tokens cannot forge an event", () => {
  const frame = '{"a":1,\r\n\r"data":\n\n2}'
  const [read, ...more] = decodeAll([formatEvent(frame)])
  expect(more).toEqual([])
  expect(JSON.parse(read?.data ?? "")).toEqual(JSON.parse(frame))
})

test("a line or an event past the limit is refused", () => {
  expect(() => decodeAll([bytes(`data: ${"x".repeat(200)}`)], 100)).toThrow("larger")
  expect(() =>
    decodeAll(
      Array.from({ length: 100 }, () => bytes("data: xxxxxxxx\n")),
      100,
    ),
  ).toThrow("larger")
})
