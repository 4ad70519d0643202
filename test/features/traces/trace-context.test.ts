import { expect, test } from "bun:test"
import { createSampler } from "../../../src/features/traces/sampler.ts"
import { createSpanIds, parseTraceContext, traceparentOf } from "../../../src/features/traces/trace-context.ts"

const TRACE = "0af7651916cd43dd8448eb211c80319c"
const SPAN = "b7ad6b7169203331"

test("a traceparent is read and written; one that is not valid counts as none [traces:path]", () => {
  const context = parseTraceContext(`00-${TRACE}-${SPAN}-01`, "a=b")
  expect(context).toEqual({ traceId: TRACE, spanId: SPAN, flags: 1, state: "a=b" })
  expect(context && traceparentOf(context)).toBe(`00-${TRACE}-${SPAN}-01`)
  expect(parseTraceContext(`01-${TRACE}-${SPAN}-ff-more`, 7)).toEqual({
    traceId: TRACE,
    spanId: SPAN,
    flags: 3,
    state: undefined,
  })
  for (const wrong of [
    undefined,
    7,
    "",
    `ff-${TRACE}-${SPAN}-01`,
    `00-${TRACE}-${SPAN}-01-more`,
    `00-${TRACE.toUpperCase()}-${SPAN}-01`,
    `00-${"0".repeat(32)}-${SPAN}-01`,
    `00-${TRACE}-${"0".repeat(16)}-01`,
    `00-${TRACE}-${SPAN}`,
  ])
    expect(parseTraceContext(wrong, undefined)).toBeUndefined()
  expect(parseTraceContext(`00-${TRACE}-${SPAN}-00`, `a=${"b".repeat(600)}`)?.state).toBeUndefined()
})

test("ids are random, have their length, and are never zero", () => {
  let next = 0
  const ids = createSpanIds((bytes) => bytes.fill(next++))
  expect([ids.trace(), ids.span()]).toEqual(["01".repeat(16), "01".repeat(8)])
  const seen = Array.from({ length: 200 }, () => ids.trace())
  expect(seen.every((id) => /^[0-9a-f]{32}$/.test(id))).toBe(true)
})

test("a sampler records by the parent, or its part of all traces [traces:sampling]", () => {
  const parent = { traceId: TRACE, spanId: SPAN, flags: 1, state: undefined }
  const unsampled = { ...parent, flags: 0 }
  const decide = (sampler: Parameters<typeof createSampler>[0]["sampler"], of?: typeof parent, ratio = 1) =>
    createSampler({ sampler, ratio })(TRACE, of)
  expect(decide("always_on", unsampled)).toBe(true)
  expect(decide("always_off", parent)).toBe(false)
  expect([decide("parentbased_always_on"), decide("parentbased_always_on", unsampled)]).toEqual([true, false])
  expect([decide("parentbased_always_off"), decide("parentbased_always_off", parent)]).toEqual([false, true])
  const bytes = new Uint8Array(1024)
  const ids = createSpanIds((into) => into.set(crypto.getRandomValues(bytes)))
  const traces = Array.from({ length: 20_000 }, () => ids.trace())
  const part = (ratio: number) => traces.filter((id) => createSampler({ sampler: "traceidratio", ratio })(id, parent))
  expect([part(0).length, part(1).length]).toEqual([0, traces.length])
  const tenth = part(0.1)
  expect(Math.abs(tenth.length - 2000)).toBeLessThan(400)
  const half = new Set(part(0.5))
  expect(tenth.every((id) => half.has(id))).toBe(true)
})
