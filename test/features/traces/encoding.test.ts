import { describe, expect, test } from "bun:test"
import {
  type Attributes,
  type EndedSpan,
  jsonEncoding,
  type SpanEncoding,
} from "../../../src/features/traces/encoding.ts"
import { protobufEncoding } from "../../../src/features/traces/protobuf.ts"
import { readSpans } from "../../otlp.ts"

const SOURCE = { resource: { "service.name": "svc ☃", port: 70_000 }, version: "1.2.3" }
const CONTEXT = { traceId: "0af7651916cd43dd8448eb211c80319c", spanId: "b7ad6b7169203331", flags: 3, state: "a=b,c=d" }
const OTHER = { traceId: "1af7651916cd43dd8448eb211c80319c", spanId: "c7ad6b7169203331", flags: 1, state: undefined }
const START = 1_800_000_000_123.456

type Facts = Partial<Omit<EndedSpan<never>, "name" | "shared">> & {
  readonly name?: string
  readonly about?: Attributes
}

/** Encodes spans and reads them back. */
function roundTrip<Piece>(encoding: SpanEncoding<Piece>, all: readonly Facts[]) {
  const spans = all.map(({ name = "x", about = {}, ...facts }) =>
    encoding.span({
      context: CONTEXT,
      parent: undefined,
      kind: "server",
      name: encoding.name(name),
      shared: [encoding.attributes(about)].filter(() => Object.keys(about).length > 0),
      attributes: [],
      events: [],
      droppedEvents: 0,
      link: undefined,
      start: START,
      end: START + 0.001,
      failed: false,
      ...facts,
    }),
  )
  return readSpans(encoding.request(spans), encoding.contentType)
}

describe.each([
  ["protobuf", jsonOrProtobuf("protobuf")],
  ["JSON", jsonOrProtobuf("json")],
] as const)("as %s", (form, encode) => {
  const kind = (name: "SERVER" | "CLIENT") =>
    form === "JSON" ? { SERVER: "2", CLIENT: "3" }[name] : `SPAN_KIND_${name}`

  test("a span is read as it was [traces:path]", () => {
    const [first, second] = encode([
      {
        parent: OTHER,
        name: 'tools/call "☃"',
        about: { "mcp.method.name": "tools/call", "server.port": 4_294_967_296 },
        attributes: [
          ["long", "ä".repeat(40_000)],
          ["empty", ""],
        ],
        events: [
          { name: "svc.wait", time: START, server: undefined },
          { name: "svc.wake", time: START, server: "s".repeat(200) },
        ],
        droppedEvents: 300,
        link: OTHER,
        failed: true,
      },
      { kind: "client", context: OTHER, parent: CONTEXT },
    ])
    expect(first).toMatchObject({
      traceId: CONTEXT.traceId,
      spanId: CONTEXT.spanId,
      parentSpanId: OTHER.spanId,
      name: 'tools/call "☃"',
      kind: kind("SERVER"),
      status: form === "JSON" ? "2" : "STATUS_CODE_ERROR",
      attributes: {
        "mcp.method.name": "tools/call",
        "server.port": 4_294_967_296,
        long: "ä".repeat(40_000),
        empty: "",
      },
      events: ["svc.wait", "svc.wake"],
      links: [`${OTHER.traceId} ${OTHER.spanId}`],
      traceState: "a=b,c=d",
      flags: 0x303,
      start: 1_800_000_000_123_456_000n,
      end: 1_800_000_000_123_457_000n,
      resource: SOURCE.resource,
    })
    expect(second).toMatchObject({ kind: kind("CLIENT"), status: "STATUS_CODE_UNSET", flags: 0x101, traceState: "" })
  })

  test("messages of every length are read [traces:path]", () => {
    for (const length of [0, 1, 100, 126, 127, 128, 129, 16_380, 16_384, 70_000]) {
      const text = "a".repeat(length)
      const spans = encode([{ attributes: [["k", text]] }, { about: { k: text } }])
      expect(spans.map(({ attributes }) => attributes.k)).toEqual([text, text])
    }
    expect(encode(Array.from({ length: 500 }, () => ({})))).toHaveLength(500)
  })
})

test("the answer of a receiver says how many spans it refuses, and why", () => {
  const { rejected } = protobufEncoding(SOURCE)
  expect(rejected(new Uint8Array())).toEqual({ count: 0, reason: "" })
  expect(rejected(new Uint8Array([10, 7, 8, 0xac, 2, 18, 2, 104, 105]))).toEqual({ count: 300, reason: "hi" })
  for (const wrong of [[10, 7, 8], [10, 200], [13, 0, 0, 0, 0], Array<number>(20).fill(255)])
    expect(() => rejected(new Uint8Array(wrong))).toThrow("is not a protobuf message")
  const json = (text: string) => jsonEncoding(SOURCE).rejected(Buffer.from(text))
  expect(json("{}")).toEqual({ count: 0, reason: "" })
  expect(json('{"partialSuccess":{"rejectedSpans":"3","errorMessage":"no"}}')).toEqual({ count: 3, reason: "no" })
})

// ---

function jsonOrProtobuf(form: "json" | "protobuf") {
  return (all: readonly Facts[]) =>
    form === "json" ? roundTrip(jsonEncoding(SOURCE), all) : roundTrip(protobufEncoding(SOURCE), all)
}
