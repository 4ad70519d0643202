import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { randomBytes } from "node:crypto"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { readPart } from "../../../src/features/results/result-parts.ts"
import { CHUNK_BYTES, type ResultReader, ResultStore } from "../../../src/features/results/result-store.ts"
import { systemClock } from "../../../src/lib/clock.ts"

const ROOM = 2000
const opened: ResultReader[] = []
const clock = systemClock
let folder: string
let store: ResultStore
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "svc-parts-"))
  store = new ResultStore({ folder, clock, key: async () => new Uint8Array(32), ttl: 1e9, capacity: 1e9 })
})
afterAll(async () => {
  for (const reader of opened) await reader.close()
  rmSync(folder, { recursive: true, force: true })
})

async function stored(content: string | Buffer): Promise<ResultReader> {
  const writer = store.create("me")
  await writer.write(Buffer.from(content))
  const isText = typeof content === "string"
  const { id } = await writer.finish({ mimeType: isText ? "text/plain" : "image/png", isText, budget: ROOM })
  const reader = (await store.open(id, "me")) as ResultReader
  opened.push(reader)
  return reader
}

async function read(reader: ResultReader, args: object, room = ROOM): Promise<{ text: string; note: string }> {
  const part = await readPart(reader, { ...args }, room, { clock, signal: new AbortController().signal })
  expect("text" in part ? part.text.length : part.blob.length).toBeLessThanOrEqual(room)
  return part as { text: string; note: string }
}

describe("range", () => {
  test("reads a text in whole characters, part after part, up to all of its bytes", async () => {
    const text = "aÅ€😀\n".repeat(20_000)
    const reader = await stored(text)
    let all = ""
    for (let next: string | undefined = "0-"; next !== undefined; ) {
      const { text: part, note } = await read(reader, { range: next }, 7001)
      all += part
      next = /next: range "(\d+-)"/.exec(note)?.[1]
    }
    expect(all).toBe(text)
  })

  test("a range within a character is that character", async () => {
    const reader = await stored("a😀b")
    for (const range of ["1-1", "2-2", "3-4", "4-4"]) expect((await read(reader, { range })).text).toBe("😀")
    expect((await read(reader, { range: "2-5" })).text).toBe("😀b")
    expect((await read(reader, { range: "-1" })).text).toBe("b")
  })

  test("of a binary value are its bytes", async () => {
    const bytes = randomBytes(10_000)
    const reader = await stored(bytes)
    const part = await readPart(reader, { range: "100-9999" }, ROOM, { clock, signal: new AbortController().signal })
    expect("blob" in part && part.blob).toEqual(bytes.subarray(100, 1600))
    expect(part.note).toBe('bytes 100-1599 of 10000; next: range "1600-"')
    await expect(read(reader, { grep: "x" })).rejects.toThrow("not text")
  })

  test("limit ends it", async () => {
    expect(await read(await stored("abcdef"), { range: "2-", limit: 2 })).toEqual({
      text: "cd",
      note: 'bytes 2-3 of 6; next: range "4-"',
    })
  })
})

describe("lines", () => {
  const numbers = Array.from({ length: 100_000 }, (_, at) => `line ${at + 1}`)

  test("are read by their numbers, in any chunk", async () => {
    const reader = await stored(`${numbers.join("\n")}\n`)
    for (const line of [1, 2, 5958, 5959, 50_000, 99_999])
      expect((await read(reader, { lines: `${line}-${line + 1}` })).text).toBe(`line ${line}\nline ${line + 1}\n`)
    expect(await read(reader, { lines: "-2" })).toEqual({
      text: "line 99999\nline 100000\n",
      note: "lines 99999-100000 of 100000, the end",
    })
    expect((await read(reader, { lines: "7" })).text).toBe("line 7\n")
    expect((await read(reader, { lines: "10-", limit: 3 })).note).toBe('lines 10-12 of 100000; next: lines "13-"')
  })

  test("at the beginning of a chunk, and empty lines, are found", async () => {
    const reader = await stored(`${"a".repeat(CHUNK_BYTES - 1)}\n\n\nlast`)
    expect((await read(reader, { lines: "2-4" })).text).toBe("\n\nlast")
    expect((await read(reader, { lines: "4" })).text).toBe("last")
  })

  test("that do not fit are left for the next read, and a long line for a range", async () => {
    const reader = await stored(numbers.join("\n"))
    const { text, note } = await read(reader, { lines: "1-" }, 100)
    expect(numbers.join("\n")).toStartWith(text)
    expect(text).toEndWith("\n")
    expect(note).toContain(`next: lines "${text.split("\n").length}-"`)
    const long = await read(await stored(`${"x".repeat(9000)}\ny`), { lines: "1-2" })
    expect(long.text).toBe("x".repeat(ROOM))
    expect(long.note).toContain('the rest is range "2000-')
  })

  test("outside of the text are refused with its number of lines", async () => {
    await expect(read(await stored("a\nb"), { lines: "3-4" })).rejects.toThrow("which has 1 to 2")
    await expect(read(await stored("a\nb"), { lines: "two" })).rejects.toThrow('must be like "100-150"')
  })
})

describe("path", () => {
  const items = Array.from({ length: 3000 }, (_, id) => ({ id, name: `n${id}`, price: 1.5 }))
  const text = `{"exact": 1.50, "big":9007199254740993, "é\\u0041": [ true ],\n "items":${JSON.stringify(items)}}`

  test("a value is read as the bytes that are stored", async () => {
    const reader = await stored(text)
    expect((await read(reader, { path: "$.exact" })).text).toBe("1.50")
    expect((await read(reader, { path: "$.big" })).text).toBe("9007199254740993")
    expect((await read(reader, { path: "$['éA']" })).text).toBe("[ true ]")
    const { text: found, note } = await read(reader, { path: "$.items[?@.id==2042].name" })
    expect(found).toBe('"n2042"')
    const [, start, end] = /bytes (\d+)-(\d+)/.exec(note) ?? []
    expect((await read(reader, { range: `${start}-${end}` })).text).toBe('"n2042"')
    expect((await read(reader, { path: "$.items[-1].id" })).text).toBe("2999")
  })

  test("several values have their paths, and a large one is cut", async () => {
    const reader = await stored(text)
    const several = await read(reader, { path: "$.items[:2]" })
    expect(several.text).toBe(`$['items'][0]: ${JSON.stringify(items[0])}\n$['items'][1]: ${JSON.stringify(items[1])}`)
    expect((await read(reader, { path: "$.items[*].name", limit: 5 })).note).toBe(
      "5 of 3000 values; narrow the path for others",
    )
    const whole = await read(reader, { path: "$.items" })
    expect(whole.text).toBe(JSON.stringify(items).slice(0, ROOM))
    expect(whole.note).toContain("the rest is range")
    expect((await read(reader, { path: "$.none" })).note).toBe("nothing is at $.none")
  })

  test.each([
    "$..*..*",
    "$[?@[?@[?@.a]]]",
    "$[?count($..*)>1]",
    `$${"[*,*]".repeat(9)}`,
    "$[?match(@.name, '(a+)+$')]",
    "$.items[",
    "items",
  ])("%p is refused", async (path) => {
    await expect(read(await stored(text), { path })).rejects.toThrow("path")
  })

  test("a text that is not JSON is refused", async () => {
    await expect(read(await stored("a,b\n1,2"), { path: "$" })).rejects.toThrow("not JSON")
  })
})

describe("grep", () => {
  const lines = Array.from({ length: 20_000 }, (_, at) => `line ${at + 1} of many`)

  test("finds lines, with those around them", async () => {
    const reader = await stored(lines.join("\n"))
    expect(await read(reader, { grep: "line 150(00|02) ", context: 1 })).toEqual({
      text: [
        "14999- line 14999 of many",
        "15000: line 15000 of many",
        "15001- line 15001 of many",
        "15002: line 15002 of many",
        "15003- line 15003 of many",
      ].join("\n"),
      note: "2 matches; read around a match with lines or range",
    })
    expect((await read(reader, { grep: "^line (7|20000) ", context: 0 })).text).toBe(
      "7: line 7 of many\n--\n20000: line 20000 of many",
    )
    expect((await read(reader, { grep: "nothing" })).note).toBe("no match for nothing")
    expect((await read(reader, { grep: "many$", limit: 3, context: 0 })).note).toStartWith("3 of 20000 matches shown")
    expect((await read(reader, { grep: "(?i)LINE 12345 ", context: 0 })).text).toBe("12345: line 12345 of many")
  })

  test("finds each match in a line of any length once, with its place in bytes", async () => {
    for (const at of [10, CHUNK_BYTES - 3, CHUNK_BYTES - 600, 2 * CHUNK_BYTES + 1, 199_990]) {
      const text = `é${"x".repeat(at - 2)}needle${"y".repeat(200_000 - at)}\nshort`
      const { text: found, note } = await read(await stored(text), { grep: "needle" })
      expect(found).toContain("needle")
      expect(found).toContain(`1 (byte ${at}):`)
      expect(note).toStartWith("1 match;")
    }
  })

  test("continues after a long line", async () => {
    const reader = await stored(`${"x".repeat(100_000)}\nneedle\n${"y".repeat(70_000)}needle`)
    const { text, note } = await read(reader, { grep: "needle", context: 0 })
    expect(note).toStartWith("2 matches")
    expect(text).toContain("2: needle")
    expect(text).toContain("3 (byte 170008)")
  })

  test("takes linear time for expressions that make others backtrack", async () => {
    const reader = await stored(`${"a".repeat(50_000)}!`)
    expect((await read(reader, { grep: "(a+)+$" })).note).toStartWith("no match")
  })

  test("finds ^ and $ only at the ends of a long line, and each match once", async () => {
    const reader = await stored(`${"ab".repeat(30_000)}`)
    for (const [pattern, count] of [
      ["^a", "1 match;"],
      ["b$", "1 match;"],
      ["ab", "20 of 30000 matches"],
      ["^b", "no match"],
    ] as const)
      expect((await read(reader, { grep: pattern }, 20_000)).note).toStartWith(count)
  })

  test("refuses an invalid expression", async () => {
    await expect(read(await stored("a"), { grep: "(" })).rejects.toThrow("RE2")
    await expect(read(await stored("a"), { grep: "(a)\\1" })).rejects.toThrow("RE2")
  })

  test("ends when the client gives up", async () => {
    const reader = await stored(lines.join("\n"))
    await expect(readPart(reader, { grep: "x" }, ROOM, { clock, signal: AbortSignal.abort() })).rejects.toThrow(
      "cancelled",
    )
  })
})

test("an expression that may match nothing looks at the clock at each match, and stops counting soon", async () => {
  const reader = await stored("a".repeat(30_000))
  for (const grep of ["(?:a*a*a*b)?", `(${"a?".repeat(60)})*b|`, `${"(a?)".repeat(60)}b|`, "a*b|"]) {
    let readings = 0
    const ticking = { now: () => (readings += 5), after: clock.after.bind(clock) }
    const work = { clock: ticking, signal: new AbortController().signal }
    const { note } = await readPart(reader, { grep, limit: 3 }, ROOM, work)
    expect(note).toMatch(/^3 of more than \d+ matches shown; use a narrower expression/)
    expect(readings).toBeWithin(2000, 3000)
  }
})

describe("a long read", () => {
  /** A clock that advances by a second at each reading. `turns` counts how often other code ran. */
  function passing() {
    const seen = { turns: 0, time: 0 }
    const clock = {
      now: () => (seen.time += 1000),
      after(_ms: number, run: () => void) {
        seen.turns++
        queueMicrotask(run)
        return () => undefined
      },
    }
    return { seen, work: { clock, signal: new AbortController().signal } }
  }

  test("lets others work in between, and ends [results:read-time]", async () => {
    const { seen, work } = passing()
    const text = JSON.stringify(Array.from({ length: 60_000 }, (_, id) => ({ id, a: { b: [1, 2] } })))
    const reader = await stored(text)
    await expect(readPart(reader, { path: "$..*[*,*][*,*].zz" }, ROOM, work)).rejects.toThrow(
      "path: it took more than 30 s: narrow the path, or use grep",
    )
    expect(seen.turns).toBeGreaterThan(5)
    const later = passing()
    const { note } = await readPart(reader, { grep: "[a-z]{300}[^a]" }, ROOM, later.work)
    expect(note).toMatch(/^no match for .*; stopped after 30 s at byte \d+ of \d+$/)
    expect(later.seen.turns).toBeGreaterThan(5)
  })

  test("of a path finds elements far behind in an array by their true place", async () => {
    const reader = await stored(JSON.stringify({ a: Array.from({ length: 3000 }, (_, id) => ({ id })) }))
    expect((await read(reader, { path: "$.a[?@.id==2047]" })).note).toEndWith("$['a'][2047]")
    expect((await read(reader, { path: "$..[?@.id>=2998].id" })).text).toBe(
      "$['a'][2998]['id']: 2998\n$['a'][2999]['id']: 2999",
    )
  })

  test("of an expression with many steps is refused", async () => {
    await expect(read(await stored("abc"), { grep: "[ab]{900}[^a]" })).rejects.toThrow("repeats too much")
  })

  test("of a path with .. within a filter is refused", async () => {
    const reader = await stored('{"a":[{"b":".."}]}')
    await expect(read(reader, { path: "$.a[?@..b]" })).rejects.toThrow("a filter may have no ..")
    expect((await read(reader, { path: "$..[?@.b=='..']" })).text).toBe('{"b":".."}')
  })
})

test("grep finds the end of a line that ends with CR LF, and the byte of a match among longer characters", async () => {
  expect((await read(await stored("one\r\ntwo\r\nthree"), { grep: "two$", context: 1 })).text).toBe(
    "1- one\n2: two\n3- three",
  )
  const reader = await stored(`${"é€😀".repeat(30_000)}NEEDLE${"é€😀".repeat(30_000)}`)
  const byte = /byte (\d+)/.exec((await read(reader, { grep: "NEEDLE" })).text)?.[1]
  expect((await read(reader, { range: `${byte}-`, limit: 6 })).text).toBe("NEEDLE")
})

test("the last 0 lines and bytes are refused", async () => {
  const reader = await stored("a\nb")
  for (const way of ["lines", "range"]) await expect(read(reader, { [way]: "-0" })).rejects.toThrow("must be like")
})

test("long ranges, lines and paths are refused in linear time", async () => {
  const reader = await stored("a\nb")
  const blank = " ".repeat(500_000)
  for (const way of ["lines", "range"]) {
    await expect(read(reader, { [way]: `${blank}x` })).rejects.toThrow("must be like")
    expect((await read(reader, { [way]: ` 1 ${way === "lines" ? "" : "- 1 "}` })).note).toMatch(/1/)
  }
  await expect(read(reader, { path: `$[${'\\"'.repeat(500_000)}` })).rejects.toThrow("500 characters at most")
})

test("two ways of reading at once are refused; without any, the beginning is read", async () => {
  const reader = await stored("abc")
  await expect(read(reader, { grep: "a", lines: "1" })).rejects.toThrow("give one of")
  expect(await read(reader, { grep: "", path: null })).toEqual({ text: "abc", note: "bytes 0-2 of 3, the end" })
})
