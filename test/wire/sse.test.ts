import { expect, test } from "bun:test"
import fc from "fast-check"
import { formatEvent, SseDecoder } from "../../src/wire/sse.ts"

function decodeAll(chunks: readonly Uint8Array[], limit = 100_000, dropped?: string[]) {
  const events: {
    event: string | undefined
    id: string | undefined
    retry: number | undefined
    data: string | undefined
  }[] = []
  const decoder = new SseDecoder({
    onevent(event) {
      events.push({ ...event, data: event.data === undefined ? undefined : new TextDecoder().decode(event.data) })
    },
    limit,
    ondropped: (edges) => dropped?.push(new TextDecoder().decode(edges)),
  })
  for (const chunk of chunks) decoder.push(chunk)
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

test("decodes events with any line ending, cut into chunks at any byte", () => {
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

test("reports comments, which are no events: a server that sends them is alive", () => {
  let comments = 0
  const decoder = new SseDecoder({
    onevent: () => expect.unreachable(),
    ondropped() {},
    oncomment: () => comments++,
    limit: 100,
  })
  for (const chunk of [": kee", "palive\n", "\n:\r\n\r\n"]) decoder.push(bytes(chunk))
  expect(comments).toBe(2)
})

test("decodes what formatEvent wrote", () => {
  fc.assert(
    fc.property(fc.jsonValue(), fc.nat(), (value, places) => {
      const written = formatEvent(JSON.stringify(value), "7")
      const at = places % (written.length + 1)
      expect(decodeAll([written.slice(0, at), written.slice(at)])).toEqual([
        event(JSON.stringify(value), { event: "message", id: "7" }),
      ])
    }),
  )
})

test("a frame with raw line breaks between its tokens cannot forge an event", () => {
  const frame = '{"a":1,\r\n\r"data":\n\n2}'
  const [read, ...more] = decodeAll([formatEvent(frame)])
  expect(more).toEqual([])
  expect(JSON.parse(read?.data ?? "")).toEqual(JSON.parse(frame))
})

test("drops an event past the limit, reports its edges, and keeps the events around it", () => {
  const long = `data: <${"x".repeat(5000)}>\n\n`
  const many = `data: <\n${"data: xxxxxxxx\n".repeat(400)}data: >\n\n`
  for (const large of [long, many])
    for (const size of [1, 7, 300, 10_000]) {
      const whole = bytes(`id: 1\ndata: a\n\nid: 2\n${large}data: b\n\n`)
      const chunks = Array.from({ length: Math.ceil(whole.length / size) }, (_, at) =>
        whole.slice(at * size, (at + 1) * size),
      )
      const dropped: string[] = []
      expect(decodeAll(chunks, 1000, dropped)).toEqual([event("a", { id: "1" }), event("b")])
      expect(dropped).toHaveLength(1)
      expect(dropped[0]).toMatch(/^(data: )?<.*>$/s)
    }
})

test("long data that have not ended are offered, and go to their taker up to the end of the event", () => {
  const taken: string[] = []
  const events: unknown[] = []
  const text = (bytes: Uint8Array) => new TextDecoder().decode(bytes)
  const add = (more: string) => void taken.push(`${taken.pop()}${more}`)
  const decoder = new SseDecoder({
    onevent: ({ id, data }) => void events.push([id, data && text(data)]),
    limit: 1_000_000,
    ondropped: () => undefined,
    onlarge(head) {
      taken.push(text(head))
      return { push: (bytes) => void add(text(bytes)), end: () => add("."), fail: () => add("!") }
    },
  })
  const give = (...chunks: string[]) => {
    for (const chunk of chunks) decoder.push(new TextEncoder().encode(chunk))
  }
  const long = "<".padEnd(200_000, "x")
  give("event: message\nid: 1\ndata: ", long, ">\r", "\nid: 2\ndata: more\n\ndata: b\n\n")
  expect(taken).toEqual([`${long}>\nmore.`])
  expect(events).toEqual([
    ["2", undefined],
    [undefined, "b"],
  ])
  // The stream ends within the event.
  give("data:", long)
  decoder.fail("closed")
  expect(taken.at(-1)).toBe(`${long}!`)
})
