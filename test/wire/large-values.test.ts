/** Large values pass while the rest of the frame is kept: together they are the frame, however it is cut. */
import { expect, test } from "bun:test"
import { LargeValues } from "../../src/wire/large-values.ts"
import { randomFrom } from "../random.ts"

type Split = { readonly frame: Uint8Array; readonly values: number; readonly passed: number }

/** Gives the frame back that the parts make, or undefined if it is refused. */
function reassemble(frame: Uint8Array, cuts: readonly number[], take = () => true): Split | undefined {
  const values: Uint8Array[][] = []
  const taker = new LargeValues({
    onvalue(rest) {
      JSON.parse(new TextDecoder().decode(rest))
      if (!take()) return false
      values.push([])
      return true
    },
    // Not copied: the bytes do not change afterwards.
    onbytes: (bytes) => void values.at(-1)?.push(bytes),
  })
  try {
    const at = [0, ...cuts.map((cut) => cut % (frame.length + 1)).sort((a, b) => a - b), frame.length]
    for (const [index, end] of at.slice(1).entries()) {
      taker.push(frame.slice(at[index], end))
    }
    const rest = taker.end()
    const text = new TextDecoder().decode(rest)
    JSON.parse(text)
    const parts = taker.split(text)
    if (parts?.length !== values.length + 1) return undefined
    const encoder = new TextEncoder()
    const all = parts.flatMap((part, index) => [encoder.encode(part), ...(values[index] ?? [])])
    return { frame: new Uint8Array(Buffer.concat(all)), values: values.length, passed: frame.length - rest.length }
  } catch {
    return undefined
  }
}

const LARGE = 20_000
const SEEDS = Array.from({ length: 300 }, (_, seed) => seed)

/** Makes a frame of a server, and where it is cut, from random numbers. */
function frameOf(seed: number): {
  readonly text: string
  readonly cuts: number[]
  readonly below: (n: number) => number
} {
  const next = randomFrom(seed)
  const below = (n: number) => Math.floor(next() * n)
  const pick = <T>(values: readonly T[]): T => values[below(values.length)] as T
  const value = (depth: number): unknown => {
    const leaf = pick([null, true, -1.5e-300, 12, -0.5, "", 'a "quoted" \\ ☃\n', "😀", "plain".repeat(below(40))])
    if (depth > 3 || below(3) === 0) return leaf
    if (below(2) === 0) return Array.from({ length: below(5) }, () => value(depth + 1))
    return Object.fromEntries(
      Array.from({ length: below(5) }, (_, n) => [`${pick(["a", "☃ ", '"\\'])}${n}`, value(depth + 1)]),
    )
  }
  const long = () => pick(["QUJD", 'a "quoted" \\ line\n', "☃ 😀\t"]).repeat(LARGE / 4)
  const block = () =>
    pick([
      () => ({ type: "text", text: long() }),
      () => ({ type: "resource", resource: { uri: "a:b", blob: long(), _meta: value(0) } }),
      () => ({ type: "text", text: "short", _meta: value(0) }),
    ])()
  const members = {
    content: Array.from({ length: below(4) }, block),
    structuredContent: { rows: Array(below(3) * 100).fill([value(0), value(0)]) },
    _meta: value(0),
  }
  const result = Object.fromEntries(Object.entries(members).filter(() => below(3) > 0))
  const frame = below(2) === 0 ? { result, jsonrpc: "2.0", id: "svcX.1" } : { jsonrpc: "2.0", id: "svcX.1", result }
  const text = JSON.stringify(frame, null, pick([undefined, 1]))
  return { text, cuts: Array.from({ length: below(10) }, () => below(text.length)), below }
}

const isJson = (text: string): boolean => {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}
const decode = (bytes: Uint8Array | undefined) => new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes)

test("the parts of a frame make the frame, however it is cut", () => {
  let values = 0
  for (const seed of SEEDS) {
    const { text, cuts } = frameOf(seed)
    const back = reassemble(new TextEncoder().encode(text), cuts)
    expect([seed, decode(back?.frame) === text]).toEqual([seed, true])
    values += back?.values ?? 0
  }
  expect(values).toBeGreaterThan(SEEDS.length / 2)
})

test("a frame is refused exactly if it is not JSON", () => {
  const inserted = ['"', "\\", "{", "}", "[", "]", ",", ":", "1", "-", "e", "t", " ", "\n", "\0", "\u007f"]
  for (const seed of SEEDS) {
    const { text, cuts, below } = frameOf(seed)
    const from = below(text.length)
    const changed = text.slice(0, from) + inserted[seed % inserted.length] + text.slice(from + below(3))
    const bytes = new TextEncoder().encode(changed)
    const back = reassemble(bytes, cuts)
    expect([seed, back !== undefined]).toEqual([seed, isJson(changed)])
    if (back !== undefined) expect([seed, Buffer.compare(back.frame, bytes)]).toEqual([seed, 0])
  }
})

test("bytes that are not UTF-8 become what a frame that is read whole gets for them", () => {
  for (const seed of SEEDS) {
    const { text, cuts, below } = frameOf(seed)
    const odd = Uint8Array.from({ length: 1 + below(5) }, () => 0x80 + below(0x80))
    const bytes = new TextEncoder().encode(text)
    const from = below(bytes.length)
    const changed = Uint8Array.from([...bytes.subarray(0, from), ...odd, ...bytes.subarray(from)])
    if (!isJson(decode(changed))) continue
    expect([seed, decode(reassemble(changed, cuts)?.frame) === decode(changed)]).toEqual([seed, true])
  }
})

test("megabytes pass, and hardly anything is kept", () => {
  const text = 'a "quoted" line\n'.repeat(100_000)
  const results = [
    { content: [{ type: "text", text }], structuredContent: { text }, isError: false },
    { structuredContent: { rows: Array.from({ length: 50_000 }, (_, n) => ({ n, x: [true, null, -1.5e3] })) } },
    { contents: [{ uri: "a:b", blob: "QUJD".repeat(500_000) }] },
  ]
  for (const result of results) {
    const frame = new TextEncoder().encode(JSON.stringify({ jsonrpc: "2.0", id: "svcX.1", result }))
    for (const size of [4096, 65_536, 200_001]) {
      const back = reassemble(
        frame,
        Array.from({ length: Math.floor(frame.length / size) }, (_, n) => (n + 1) * size),
      )
      expect(back?.frame).toEqual(frame)
      expect(frame.length - (back?.passed ?? 0)).toBeLessThan(300)
    }
  }
})

test("a value that its owner does not take is kept", () => {
  const result = {
    content: [{ type: "text", text: "one ".repeat(LARGE) }],
    structuredContent: { text: "two ".repeat(LARGE) },
  }
  const frame = new TextEncoder().encode(JSON.stringify({ jsonrpc: "2.0", id: "svcX.1", result }))
  const back = reassemble(frame, [17_000, 100_000], () => false)
  expect(back).toEqual({ frame, values: 0, passed: 0 })
})

test("a frame that nests too deep is refused", () => {
  const deep = `{"result":{"structuredContent":${"[".repeat(600)}${"]".repeat(600)}}}`
  expect(reassemble(new TextEncoder().encode(deep), [1000])).toBeUndefined()
})

test("names and numbers of any length pass, in linear time", () => {
  const text = `"${"text ".repeat(LARGE)}"`
  for (const size of [70_000, 200_000, 4_000_000]) {
    const [name, digits] = ["n".repeat(size), "1".repeat(size)]
    for (const result of [
      `{"content":[{"type":"text","text":${text}}],"${name}":1}`,
      `{"content":[{"type":"text","text":${text}}],"n":${digits}}`,
      `{"${name}":${digits},"content":[{"type":"text","text":${text}}]}`,
      `{"structuredContent":{"${name}":[${digits}, ${digits}]}}`,
    ]) {
      const frame = new TextEncoder().encode(`{"result":${result}}`)
      const cuts = Array.from({ length: Math.ceil(frame.length / 16_384) }, (_, at) => at * 16_384)
      expect(reassemble(frame, cuts)?.frame.length).toBe(frame.length)
    }
  }
  // Half a second if each chunk is read twice, half a minute if each is read with all chunks before it.
}, 5000)

test("no text is taken for a placeholder, and no other name for the path of a text", () => {
  const text = `"${"text ".repeat(10 * LARGE)}"`
  const placeholders: string[] = []
  const taker = new LargeValues({
    onvalue(_, placeholder) {
      placeholders.push(placeholder)
      return true
    },
    onbytes: () => undefined,
  })
  for (const member of ["content..text", "content.0.text", "contents..blob"])
    taker.push(new TextEncoder().encode(`${member === "content..text" ? '{"result":{' : ","}"${member}":${text}`))
  expect(placeholders).toEqual([])
  taker.push(new TextEncoder().encode(`,"content":[{"text":${text}},{"text":${text}}]}}`))
  const rest = new TextDecoder().decode(taker.end())
  expect(placeholders.map((placeholder) => rest.split(`"${placeholder}"`).length)).toEqual([2, 2])
  expect(new Set(placeholders).size).toBe(2)
  const [one, two] = placeholders.map((placeholder) => `"${placeholder}"`)
  expect(taker.split(`[${one},${two}]`)).toEqual(["[", ",", "]"])
  for (const wrong of [`[${two},${one}]`, `[${two}]`, `[${one},${one}]`]) expect(taker.split(wrong)).toBeUndefined()
  expect(new LargeValues({ onvalue: () => true, onbytes: () => undefined }).secret).not.toBe(taker.secret)
})
