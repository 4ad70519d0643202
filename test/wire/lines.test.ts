import { expect, test } from "bun:test"
import fc from "fast-check"
import { createSplitter, lineOf } from "../../src/wire/lines.ts"
import { formatEvent } from "../../src/wire/sse.ts"

function split(chunks: readonly Uint8Array[], limit = 1000): { lines: string[]; dropped: string[] } {
  const lines: string[] = []
  const dropped: string[] = []
  const feed = createSplitter(
    (line) => lines.push(new TextDecoder().decode(line)),
    limit,
    (edges) => dropped.push(new TextDecoder().decode(edges)),
  )
  for (const chunk of chunks) feed(chunk)
  return { lines, dropped }
}

/** Cuts bytes at the given places. */
function cut(bytes: Uint8Array, places: readonly number[]): Uint8Array[] {
  const at = [0, ...places.map((place) => place % (bytes.length + 1)).sort((a, b) => a - b), bytes.length]
  return at.slice(1).map((end, index) => bytes.slice(at[index], end))
}

test("lines are the same however the bytes arrive", () => {
  const line = fc.string({ unit: "binary" }).map((text) => text.replace(/[\r\n]/g, ""))
  fc.assert(
    fc.property(fc.array(line), fc.constantFrom("\n", "\r\n"), fc.array(fc.nat()), (lines, end, places) => {
      const bytes = new TextEncoder().encode(lines.map((text) => text + end).join(""))
      const expected = new TextDecoder()
        .decode(bytes)
        .split(end)
        .filter((text) => text !== "")
      expect(split(cut(bytes, places), 100_000).lines).toEqual(expected)
    }),
  )
})

test("a line past the limit is dropped whole, its ends are told, and the next one is whole", () => {
  const bytes = new TextEncoder().encode(`<${"x".repeat(5000)}>\nok\n<${"y".repeat(5000)}>\r\nok2\n`)
  for (const size of [1, 7, 49, 300, 20_000]) {
    const chunks = Array.from({ length: Math.ceil(bytes.length / size) }, (_, index) =>
      bytes.slice(index * size, (index + 1) * size),
    )
    const { lines, dropped } = split(chunks, 1000)
    expect(lines).toEqual(["ok", "ok2"])
    expect(dropped).toEqual([`<${"x".repeat(255)}${"x".repeat(255)}>`, `<${"y".repeat(255)}${"y".repeat(254)}>\r`])
  }
})

/** Every end of a line that some client's reader of lines knows. */
const ANY_END = /\r\n|[\n\r\u0085\u2028\u2029]/
const text = (bytes: Uint8Array) => new TextDecoder().decode(bytes)

test("a frame is one line and one event for every reader of lines, and the same JSON", () => {
  const space = fc.string({ unit: fc.constantFrom(" ", "\n", "\r", "\t"), maxLength: 4 })
  const string = fc.string({ unit: fc.constantFrom("\u0085", "\u2028", "\u2029", "\u2027", "é", '"', "\\", "\r", "x") })
  const forged = '{"jsonrpc":"2.0","id":1,"result":{}}'
  fc.assert(
    fc.property(space, string, fc.boolean(), (spaces, value, asBytes) => {
      const json = `{${spaces}"x":${spaces}${forged}${spaces},"y":${JSON.stringify(value)}${spaces}}`
      const frame = asBytes ? new TextEncoder().encode(json) : json
      const line = text(lineOf(frame))
      expect(line.split(ANY_END)).toEqual([line.slice(0, -1), ""])
      expect(JSON.parse(line)).toEqual(JSON.parse(json))
      const event = text(formatEvent(frame))
      const [name = "", ...rest] = event.split("\n")
      expect([name, event.split(ANY_END)]).toEqual(["event: message", [name, rest[0] ?? "", "", ""]])
      expect(JSON.parse(event.slice("event: message\ndata: ".length))).toEqual(JSON.parse(json))
    }),
  )
})

test("a long line that has not ended is offered once, and goes to its taker up to its end", () => {
  const taken: string[] = []
  const lines: string[] = []
  const dropped: string[] = []
  let takes = true
  const text = (bytes: Uint8Array) => new TextDecoder().decode(bytes)
  const feed = createSplitter(
    (line) => lines.push(text(line)),
    1_000_000,
    (edges) => dropped.push(text(edges)),
    undefined,
    (head) => {
      taken.push(text(head))
      if (!takes) return undefined
      const add = (more: string) => void taken.push(`${taken.pop()}${more}`)
      return { push: (bytes) => void add(text(bytes)), end: () => add("."), fail: () => add("!") }
    },
  )
  const long = "<".padEnd(200_000, "x")
  const give = (...chunks: string[]) => {
    for (const chunk of chunks) feed(new TextEncoder().encode(chunk))
  }
  give("a\n", long, ">", "\nb\n")
  expect([taken, lines]).toEqual([[`${long}>.`], ["a", "b"]])
  // In one chunk it has ended, and below the look-ahead it is not offered.
  give(`${long}\n`, "short", "er\n")
  expect([taken.length, lines.slice(2)]).toEqual([1, [long, "shorter"]])
  takes = false
  give(long, long, ">\n")
  expect([taken.length, lines.at(-1) === `${long}${long}>`]).toEqual([2, true])
  // Past the limit its taker gets no more, and no end.
  takes = true
  give(...Array(6).fill(long), "the end>\nc\n")
  expect(taken.at(-1)).toHaveLength(5 * long.length)
  expect(dropped).toEqual([`${long.slice(0, 256)}${long.slice(-248)}the end>`])
  expect(lines.at(-1)).toBe("c")
})
