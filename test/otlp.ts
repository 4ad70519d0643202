/**
 * A receiver of OTLP/HTTP for tests. It decodes with the code that OpenTelemetry generated from its protobuf definitions, and
 * refuses what they do not define.
 */
import root from "otlp-definitions/build/src/generated/root.js"
import { Reader } from "protobufjs/minimal"

type ReceivedSpan = {
  readonly traceId: string
  readonly spanId: string
  readonly parentSpanId: string
  readonly name: string
  readonly kind: string
  readonly status: string
  readonly attributes: Readonly<Record<string, unknown>>
  readonly events: readonly string[]
  readonly links: readonly string[]
  readonly traceState: string
  readonly flags: number
  readonly start: bigint
  readonly end: bigint
  readonly resource: Readonly<Record<string, unknown>>
}

export type Receiver = AsyncDisposable & {
  readonly url: string
  readonly spans: ReceivedSpan[]
  /** The bodies of all requests, as text. */
  readonly bodies: string[]
  readonly headers: Headers[]
  /** Answers the next requests; undefined takes their spans. */
  answer: ((request: Request) => Promise<Response> | Response | undefined) | undefined
}

/** Starts a receiver. A body that is not strictly valid is answered with 400, and reported by `problems`. */
export function startReceiver(port = 0): Receiver & { readonly problems: string[] } {
  const spans: ReceivedSpan[] = []
  const bodies: string[] = []
  const problems: string[] = []
  const headers: Headers[] = []
  const receiver = { spans, bodies, problems, headers, answer: undefined as Receiver["answer"] }
  const server = Bun.serve({
    port,
    hostname: "127.0.0.1",
    async fetch(request) {
      const bytes = new Uint8Array(await request.arrayBuffer())
      headers.push(request.headers)
      const answered = await receiver.answer?.(request)
      if (answered !== undefined) return answered
      bodies.push(Buffer.from(bytes).toString("latin1"))
      try {
        if (new URL(request.url).pathname !== "/v1/traces") throw new Error(`wrong path: ${request.url}`)
        const type = request.headers.get("content-type") ?? ""
        spans.push(...readSpans(bytes, type))
        return new Response(type === JSON_TYPE ? "{}" : new Uint8Array(), { headers: { "content-type": type } })
      } catch (error) {
        problems.push(String(error))
        return new Response(undefined, { status: 400 })
      }
    },
  })
  return Object.assign(receiver, {
    url: `http://127.0.0.1:${server.port}`,
    [Symbol.asyncDispose]: () => server.stop(true),
  })
}

/** Decodes a request. Throws for a field that the definitions do not have, and for ids of a wrong length. */
function decodeSpans(bytes: Uint8Array): ReceivedSpan[] {
  const message = Request.decode(new StrictReader(bytes))
  const problem = Request.verify(message)
  if (problem) throw new Error(problem)
  return spansIn(
    Request.toObject(message, { longs: String, enums: String, bytes: Array, defaults: true }) as Json,
    (id) => Buffer.from(id as number[]).toString("hex"),
  )
}

/** Reads the spans in the body of a request. Throws for one that is not strictly valid. */
export const readSpans = (bytes: Uint8Array, type: string): ReceivedSpan[] =>
  type === JSON_TYPE
    ? spansInJson(JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes)))
    : decodeSpans(bytes)

// ---

const JSON_TYPE = "application/json"

type Json = Readonly<Record<string, unknown>>

const Request = (root as unknown as { opentelemetry: { proto: { collector: { trace: { v1: Json } } } } }).opentelemetry
  .proto.collector.trace.v1.ExportTraceServiceRequest as {
  decode(reader: Reader): object
  verify(message: object): string | null
  toObject(message: object, options: object): object
}

/** Generated code skips what it does not know: here that is an error. */
class StrictReader extends Reader {
  override skipType(): Reader {
    throw new Error("a field that the definitions do not have")
  }
}

/** https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding: ids are hexadecimal, enums are numbers. */
const spansInJson = (value: Json): ReceivedSpan[] => spansIn(value, (id) => String(id ?? ""))

function spansIn(request: Json, idText: (id: unknown) => string): ReceivedSpan[] {
  const list = (value: unknown) => (value ?? []) as Json[]
  const id = (value: unknown, digits: number, isOptional = false) => {
    const text = idText(value)
    if (!(isOptional && text === "") && !new RegExp(`^(?!0+$)[0-9a-f]{${digits}}$`).test(text))
      throw new Error(`not an id of ${digits} digits: ${text}`)
    return text
  }
  return list(request.resourceSpans).flatMap(({ resource, scopeSpans }) =>
    list(scopeSpans).flatMap(({ spans }) =>
      list(spans).map((span) => ({
        traceId: id(span.traceId, 32),
        spanId: id(span.spanId, 16),
        parentSpanId: id(span.parentSpanId ?? "", 16, true),
        name: String(span.name),
        kind: String(span.kind),
        status: String((span.status as Json | null)?.code ?? "STATUS_CODE_UNSET"),
        attributes: attributesIn(span.attributes),
        events: list(span.events).map(({ name }) => String(name)),
        links: list(span.links).map(({ traceId, spanId }) => `${id(traceId, 32)} ${id(spanId, 16)}`),
        traceState: String(span.traceState ?? ""),
        flags: Number(span.flags),
        start: BigInt(span.startTimeUnixNano as string),
        end: BigInt(span.endTimeUnixNano as string),
        resource: attributesIn((resource as Json).attributes),
      })),
    ),
  )
}

function attributesIn(value: unknown): Json {
  const pairs = (value as { key: string; value: Json }[]).map(({ key, value }) => {
    const [kind, inner] = Object.entries(value).find(([name]) => name !== "value") ?? []
    return [key, kind === "intValue" ? Number(inner) : inner] as const
  })
  if (new Set(pairs.map(([key]) => key)).size < pairs.length) throw new Error("an attribute occurs twice")
  return Object.fromEntries(pairs)
}
