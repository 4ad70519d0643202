/** The parser of responses: every split of the same bytes is read alike, and what could be read in two ways is refused. */
import { expect, test } from "bun:test"
import fc from "fast-check"
import {
  createKnownHeads,
  headerIn,
  InvalidResponseError,
  MAX_HEAD,
  ResponseParser,
} from "../../src/backend/http-response.ts"

const bytesOf = (text: string) => Buffer.from(text, "latin1")

/** Parses a response that arrives in parts of these sizes, and then the end of the connection. */
function parse(text: string, sizes: readonly number[] = [], method = "POST", known = createKnownHeads()) {
  let body = ""
  const take = (part: Uint8Array) => {
    body += Buffer.from(part).toString("latin1")
  }
  const parser = new ResponseParser(method, take, known)
  let rest = bytesOf(text)
  let excess = 0
  for (let at = 0; rest.length > 0; at++) {
    const size = Math.min(rest.length, sizes.length === 0 ? rest.length : (sizes[at % sizes.length] ?? 1))
    if (parser.isDone) excess += size
    else excess += parser.push(rest.subarray(0, size))
    rest = rest.subarray(size)
  }
  const wasDone = parser.isDone
  const { head } = parser
  return { head, body, excess, wasDone, isDone: parser.end() }
}

const OK = "HTTP/1.1 200 OK\r\n"
const WHOLE: readonly (readonly [name: string, text: string, body: string])[] = [
  ["a length", `${OK}Content-Length: 5\r\n\r\nhello`, "hello"],
  ["a length twice", `${OK}Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello`, "hello"],
  ["chunks", `${OK}Transfer-Encoding: Chunked\r\n\r\n2\r\nhe\r\n03;x=y\r\nllo\r\n0\r\n\r\n`, "hello"],
  ["trailers", `${OK}Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nA: b\r\nC: d\r\n\r\n`, "hello"],
  [
    "interim responses",
    `HTTP/1.1 103 Early\r\nLink: x\r\n\r\nHTTP/1.1 100\r\n\r\n${OK}Content-Length: 5\r\n\r\nhello`,
    "hello",
  ],
  ["no reason", "HTTP/1.1 200\r\nContent-Length: 5\r\n\r\nhello", "hello"],
  ["line feeds alone", "HTTP/1.1 200 OK\nContent-Length: 5\n\nhello", "hello"],
  ["values over several lines", `${OK}A: b;\r\n\tc\r\nContent-Length:\r\n 5\r\n \r\n\r\nhello`, "hello"],
  ["no body", "HTTP/1.1 204 No Content\r\n\r\n", ""],
]

test("a response is read in the same way whatever came before it [remote:http]", () => {
  for (const [, first] of WHOLE)
    for (const [, second] of WHOLE)
      for (const sizes of [[], [7]]) {
        const known = createKnownHeads()
        for (const text of [first, second, second]) {
          const alone = parse(text, sizes)
          expect(parse(text, sizes, "POST", known)).toEqual(alone)
        }
        expect(parse(second, sizes, "HEAD", known).head).toEqual(parse(second, sizes, "HEAD").head)
      }
})

test.each(WHOLE)("a response with %s is read whole, however it is split", (_name, text, body) => {
  fc.assert(
    fc.property(fc.array(fc.integer({ min: 1, max: 20 }), { maxLength: 10 }), (sizes) => {
      expect(parse(text, sizes)).toMatchObject({ body, excess: 0, wasDone: true })
      expect(parse(`${text}more`, sizes)).toMatchObject({ body, excess: 4, wasDone: true })
    }),
  )
  expect(parse(text, [1])).toMatchObject({ body, excess: 0, wasDone: true })
})

test("a response that ends with the connection is complete when the connection ends properly, and not if it is cut off", () => {
  expect(parse(`${OK}\r\nhello`)).toMatchObject({ body: "hello", wasDone: false, isDone: true })
  for (const [, text] of WHOLE)
    for (let length = 0; length < text.length; length++) expect(parse(text.slice(0, length)).isDone).toBe(false)
})

test.each([
  ["another protocol", "SSH-2.0-x\r\n\r\n"],
  ["HTTP/2", "HTTP/2 200\r\n\r\n"],
  ["a status of four digits", "HTTP/1.1 2000 OK\r\n\r\n"],
  ["a status past 599", "HTTP/1.1 600 OK\r\n\r\n"],
  ["a switch of protocols", "HTTP/1.1 101 Switching\r\nUpgrade: x\r\n\r\n"],
  ["two lengths", `${OK}Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello!`],
  ["a length with a sign", `${OK}Content-Length: +5\r\n\r\nhello`],
  ["a length and a transfer coding", `${OK}Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`],
  ["two transfer codings", `${OK}Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n`],
  ["a folded header without a name", `${OK} a: b\r\n\r\n`],
  ["a space before the colon", `${OK}Content-Length : 5\r\n\r\nhello`],
  ["a line without a colon", `${OK}A\r\nB: c\r\n\r\n`],
  ["a last line without a colon", `${OK}A: b\r\nC\r\n\r\n`],
  ["NUL in a header", `${OK}A: \0\r\n\r\n`],
  ["CR in a header", `${OK}A: b\rc\r\n\r\n`],
  ["no size of a chunk", `${OK}Transfer-Encoding: chunked\r\n\r\n\r\n`],
  ["a size with a prefix", `${OK}Transfer-Encoding: chunked\r\n\r\n0x5\r\nhello\r\n0\r\n\r\n`],
  ["a chunk that is longer than its size", `${OK}Transfer-Encoding: chunked\r\n\r\n2\r\nhello\r\n0\r\n\r\n`],
  ["a chunk line without CR", `${OK}Transfer-Encoding: chunked\r\n\r\n5\nhello\r\n0\r\n\r\n`],
  ["endless headers", `${OK}${`A: ${"b".repeat(1000)}\r\n`.repeat(70)}\r\n`],
  ["endless trailers", `${OK}Transfer-Encoding: chunked\r\n\r\n0\r\n${`A: ${"b".repeat(1000)}\r\n`.repeat(70)}\r\n`],
  ["an endless line", `${OK}Transfer-Encoding: chunked\r\n\r\n1;${"x".repeat(9000)}\r\n`],
  ["endless interim responses", "HTTP/1.1 100 Continue\r\n\r\n".repeat(20)],
])("a response with %s is refused [remote:http]", (_name, text) => {
  for (const sizes of [[], [1], [1460]]) expect(() => parse(text, sizes)).toThrow(InvalidResponseError)
})

test("a head that does not end is refused at its limit", () => {
  const parser = new ResponseParser("GET", () => undefined)
  parser.push(bytesOf(`${OK}A: `))
  expect(() => {
    for (let size = 0; size <= MAX_HEAD; size += 1024) parser.push(Buffer.alloc(1024, "x"))
  }).toThrow("its headers are too long")
})

test.each([
  ["HTTP/1.1", "", true],
  ["HTTP/1.1", "Connection: x, Close\r\n", false],
  ["HTTP/1.0", "", false],
  ["HTTP/1.0", "Connection: Keep-Alive\r\n", true],
])("%s with %p keeps the connection: %p", (version, header, keepsAlive) => {
  expect(parse(`${version} 200 OK\r\n${header}Content-Length: 0\r\n\r\n`).head?.keepsAlive).toBe(keepsAlive)
  expect(parse(`${version} 200 OK\r\n${header}\r\n`).head?.keepsAlive).toBe(false)
})

test.each([
  ["timeout=5", 5000],
  ["max=100, Timeout=2", 2000],
  ['timeout="7"', 7000],
  ["timeout=100000", 60_000],
  ["timeout=x", undefined],
  ["mytimeout=5", undefined],
])("Keep-Alive: %s announces %p ms", (value, idleMs) => {
  expect(parse(`${OK}Keep-Alive: ${value}\r\nContent-Length: 0\r\n\r\n`).head?.idleMs).toBe(idleMs)
})

test("headers are found in any case, and joined if they are repeated", () => {
  const { head } = parse(`${OK}X-A:\t b \r\nx-a: c\r\nEmpty:\r\nContent-Length: 0\r\n\r\n`)
  expect(headerIn(head?.headers ?? [], "x-a")).toBe("b, c")
  expect(headerIn(head?.headers ?? [], "empty")).toBe("")
  expect(headerIn(head?.headers ?? [], "x-b")).toBeUndefined()
  const folded = parse(`${OK}X-A: b;\r\n\t c\r\n \r\n d\r\nX-B:\r\n e\r\nContent-Length: 0\r\n\r\n`).head
  expect(["x-a", "x-b"].map((name) => headerIn(folded?.headers ?? [], name))).toEqual(["b; c d", "e"])
})
