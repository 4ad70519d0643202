/** The identity of spans, and its text forms. https://www.w3.org/TR/trace-context-2/ */

/** The identity of a span, as svc passes it on and receives it. */
export type TraceContext = {
  /** 32 hexadecimal digits. */
  readonly traceId: string
  /** 16 hexadecimal digits. */
  readonly spanId: string
  /** Bit 0: the trace is recorded. Bit 1: its id is random. */
  readonly flags: number
  /** The `tracestate` of the client, which svc passes on unchanged. */
  readonly state: string | undefined
}

export const SAMPLED = 1
export const RANDOM = 2

/** Reads a `traceparent` and its `tracestate`. Returns undefined for a text that is not valid. */
export function parseTraceContext(parent: unknown, state: unknown): TraceContext | undefined {
  if (typeof parent !== "string") return undefined
  const [, version, traceId = "", spanId = "", flags = "", rest] = TRACEPARENT.exec(parent) ?? []
  if (version === undefined || version === "ff" || (version === "00" && rest !== "")) return undefined
  if (/^0+$/.test(traceId) || /^0+$/.test(spanId)) return undefined
  return {
    traceId,
    spanId,
    flags: Number.parseInt(flags, 16) & (SAMPLED | RANDOM),
    state: typeof state === "string" && TRACESTATE.test(state) ? state : undefined,
  }
}

/** Returns the `traceparent` of a span. */
export const traceparentOf = ({ traceId, spanId, flags }: TraceContext): string => `00-${traceId}-${spanId}-0${flags}`

/** Creates ids. `random` fills bytes with random ones: one call serves many ids, because each call takes longer than an id. */
export function createSpanIds(random: (bytes: Uint8Array) => void): { trace(): string; span(): string } {
  const bytes = Buffer.alloc(POOL_BYTES)
  let digits = ""
  let at = 0
  const take = (length: number): string => {
    if (at + length > digits.length) {
      random(bytes)
      digits = bytes.toString("hex")
      at = 0
    }
    at += length
    const id = digits.slice(at - length, at)
    return /^0+$/.test(id) ? take(length) : id
  }
  return { trace: () => take(32), span: () => take(16) }
}

// ---

const POOL_BYTES = 1024
/** Later versions may have further fields. */
const TRACEPARENT = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})((?:-.{0,500})?)$/
const TRACESTATE = /^[\x20-\x7e]{1,512}$/
