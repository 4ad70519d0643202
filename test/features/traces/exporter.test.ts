import { expect, test } from "bun:test"
import { SpanExporter } from "../../../src/features/traces/exporter.ts"
import { manualClock, settle } from "../../clock.ts"

const SPAN = { length: 1000 }
const URL = "http://127.0.0.1:4318/v1/traces"

/** An exporter whose receiver answers as `answer` says. */
function exporter(answer: () => Response | Promise<Response>) {
  const clock = manualClock()
  const log: string[] = []
  const sent: number[] = []
  const spans = new SpanExporter<{ readonly length: number }>({
    url: URL,
    headers: {},
    timeout: 60_000,
    clock,
    log: { info: (text) => log.push(text), warn: (text) => log.push(text) },
    encoding: {
      contentType: "application/x-protobuf",
      request: (batch) => new Uint8Array([batch.length % 256]),
      rejected: (bytes) => ({ count: bytes.length, reason: "too old" }),
    },
    async send(_url, { body, redirect }) {
      // The headers may hold a credential, which the target of a redirect must not get.
      expect(redirect).toBe("manual")
      sent.push((body as Uint8Array)[0] as number)
      return answer()
    },
    read: async ({ headers }) => new Uint8Array(Number(headers.get("content-length") ?? 0)),
  })
  const add = (count: number) => {
    for (let at = 0; at < count; at++) spans.add(SPAN)
  }
  return { spans, add, pass: clock.pass, log, sent }
}

const ok = () => new Response()

test("spans are sent in batches: full ones at once, others after a pause", async () => {
  const { spans, add, pass, sent, log } = exporter(ok)
  add(3)
  await settle()
  expect(sent).toEqual([])
  await pass(1000)
  expect(sent).toEqual([3])
  add(300)
  await settle()
  expect(sent).toEqual([3, 0])
  await pass(1000)
  expect(sent).toEqual([3, 0, 44])
  expect(spans.report()).toEqual({ exported: 303, dropped: 0 })
  expect(log).toEqual([])
})

test("what a stalled receiver does not take is bounded by number and bytes, and counted [traces:outage]", async () => {
  const { spans, add } = exporter(() => new Promise(() => undefined))
  add(256)
  await settle()
  add(8192 + 5)
  expect(spans.report()).toEqual({ exported: 0, dropped: 5 })
  const large = exporter(ok)
  for (let at = 0; at < 3; at++) large.spans.add({ length: 7 * 1024 * 1024 })
  expect(large.spans.report().dropped).toBe(1)
})

test("a receiver that cannot take a batch now gets it again, five times; an outage is one line [traces:outage]", async () => {
  let status = 503
  const { spans, add, pass, log, sent } = exporter(() => new Response(undefined, { status }))
  add(1)
  for (let at = 0; at < 60; at++) await pass(1000)
  expect(sent).toEqual([1, 1, 1, 1, 1])
  expect(spans.report()).toEqual({ exported: 0, dropped: 1 })
  add(1)
  await pass(1000)
  status = 200
  for (let at = 0; at < 60; at++) await pass(1000)
  expect(spans.report()).toEqual({ exported: 1, dropped: 1 })
  expect(log).toEqual([
    "traces are not exported: 127.0.0.1:4318 answered 503; until they are, svc keeps at most 8192 spans and drops the others",
    "traces are exported again; spans lost meanwhile: 1",
  ])
})

test("a batch that is refused is not sent again; a partial refusal counts, and is reported once [traces:outage]", async () => {
  let answer = () => new Response(undefined, { status: 302, headers: { location: "http://127.0.0.1/other" } })
  const { spans, add, pass, log, sent } = exporter(() => answer())
  add(2)
  for (let at = 0; at < 60; at++) await pass(1000)
  expect([sent, spans.report()]).toEqual([[2], { exported: 0, dropped: 2 }])
  answer = ok
  add(1)
  await pass(1000)
  answer = () => new Response(undefined, { headers: { "content-length": "2" } })
  for (let at = 0; at < 2; at++) {
    add(3)
    await pass(1000)
  }
  expect(spans.report()).toEqual({ exported: 3, dropped: 6 })
  expect(log.filter((line) => line.includes("too old"))).toEqual(["the receiver of traces refused 2 spans: too old"])
})

test("at the end the remaining spans are sent, and later ones are dropped", async () => {
  const { spans, add, sent } = exporter(ok)
  add(2)
  await spans.close()
  expect(sent).toEqual([2])
  add(1)
  expect(spans.report()).toEqual({ exported: 2, dropped: 1 })
})

test("the end does not wait for a receiver that is down [traces:outage]", async () => {
  const { spans, add, pass, sent } = exporter(() => new Response(undefined, { status: 503 }))
  add(1)
  await pass(1000)
  add(1)
  await spans.close()
  await settle()
  expect([sent, spans.report()]).toEqual([[1, 1], { exported: 0, dropped: 1 }])
})
