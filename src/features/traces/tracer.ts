/**
 * Begins the spans of requests: one for each request of a client, and in it one for each request to a server.
 *
 *  1. The parent of a client's request is the `traceparent` in its `_meta`; the HTTP header is a link, because one HTTP request
 *     may carry several messages.
 *  2. A server gets the context of the request that svc sends it, recorded or not, so that it decides as svc did.
 *  3. `baggage` reaches only the servers that the operator names: it is text of the client for programs that it knows.
 *  4. Without `content`, no span has arguments, results or messages of errors.
 */
import type { Answer } from "../../call/answer.ts"
import { type End, failureOf } from "../../call/failure-type.ts"
import type { RequestSpan, ServerSpan, SpanEvent, SpanFailure, Target, Tracer } from "../../call/ports.ts"
import { BoundedMap } from "../../lib/bounded-map.ts"
import type { Mask } from "../../session/masked-arguments.ts"
import { metaOf, type Params } from "../../wire/message.ts"
import {
  argumentsText,
  cleanText,
  describe,
  descriptionKey,
  resultText,
  serverAttributes,
  sessionAttribute,
} from "./conventions.ts"
import type { EndedSpan, SpanEncoding } from "./encoding.ts"
import type { Sampler } from "./sampler.ts"
import { createSpanIds, parseTraceContext, RANDOM, SAMPLED, type TraceContext, traceparentOf } from "./trace-context.ts"

export type TracerOptions<Piece> = {
  /** Milliseconds since the epoch. */
  now(): number
  /** Milliseconds of a monotonic clock. */
  ticks(): number
  /** Fills bytes with random ones. */
  random(bytes: Uint8Array): void
  readonly sampler: Sampler
  readonly encoding: Pick<SpanEncoding<Piece>, "name" | "attributes" | "span">
  /** Returns the function that masks the current secrets; the same function while the secrets are the same. */
  masker(): Mask
  /** Whether spans have arguments and results. */
  readonly content: boolean
  /** The names of the servers that receive `baggage`. */
  readonly baggage: ReadonlySet<string>
  /** Takes a span that has ended, encoded. */
  add(span: Piece): void
}

/** Creates the tracer. `traceOf` returns the trace of the last message that an HTTP request carried. */
export function createTracer<Piece>(
  options: TracerOptions<Piece>,
): Tracer & { traceOf(http: object): string | undefined } {
  const ids = createSpanIds(options.random)
  const deps: SpanDeps<Piece> = { ...options, nextId: ids.span, known: createPieces(options) }
  const traces = new WeakMap<object, string>()
  return {
    begin(call) {
      const { request, http } = call
      const meta = metaOf(request.params)
      const parent = parseTraceContext(meta?.traceparent, meta?.tracestate)
      const traceId = parent?.traceId ?? ids.trace()
      const isSampled = options.sampler(traceId, parent)
      if (http !== undefined) traces.set(http, traceId)
      const context: TraceContext = {
        traceId,
        spanId: ids.span(),
        flags: ((parent?.flags ?? RANDOM) & RANDOM) | (isSampled ? SAMPLED : 0),
        state: parent?.state,
      }
      return isSampled ? new RecordedRequest(call, context, parent, deps) : new UnrecordedRequest(context, deps)
    },
    traceOf: (http) => traces.get(http),
  }
}

// ---

type Traced = Parameters<Tracer["begin"]>[0]
type Connected = Pick<Target, "spec" | "peer">

type SpanDeps<Piece> = TracerOptions<Piece> & { nextId(): string; readonly known: Pieces<Piece> }

/** The encoded names and attributes that spans share. */
type Pieces<Piece> = {
  /** The name of the span of a request, and the attributes that say what it is about. */
  request(method: string, params: Params | undefined): { readonly name: Piece; readonly attributes: Piece }
  client(call: Traced): Piece
  server(target: Connected): Piece
}

function createPieces<Piece>({ encoding, masker }: TracerOptions<Piece>): Pieces<Piece> {
  const requests = new BoundedMap<string, ReturnType<Pieces<Piece>["request"]>>(MAX_KNOWN)
  const clients = new BoundedMap<string, Piece>(MAX_KNOWN)
  const sessions = new WeakMap<object, Piece>()
  const servers = new WeakMap<Target["peer"], Piece>()
  let mask = masker()
  return {
    request(method, params) {
      const now = masker()
      // Names may hold secrets that svc did not know before.
      if (now !== mask) requests.clear()
      mask = now
      const key = descriptionKey(method, params)
      const found = key === undefined ? undefined : requests.get(key)
      if (found !== undefined) return found
      const { name, attributes } = describe(method, params, mask)
      const pieces = { name: encoding.name(name), attributes: encoding.attributes(attributes) }
      if (key !== undefined) requests.set(key, pieces)
      return pieces
    },
    client({ client, http }) {
      const key = `${http === undefined} ${client?.protocolVersion}`
      const isSession = client?.id !== undefined
      const found = isSession ? sessions.get(client.session) : clients.get(key)
      if (found !== undefined) return found
      const piece = encoding.attributes({
        ...(http === undefined
          ? { "network.transport": "pipe" }
          : { "network.transport": "tcp", "network.protocol.name": "http" }),
        ...(client === undefined ? {} : { "mcp.protocol.version": client.protocolVersion }),
        ...(client?.id === undefined ? {} : { "mcp.session.id": sessionAttribute(client.id) }),
      })
      if (isSession) sessions.set(client.session, piece)
      else clients.set(key, piece)
      return piece
    },
    server(target) {
      const found = servers.get(target.peer)
      if (found !== undefined) return found
      const piece = encoding.attributes(serverAttributes(target))
      servers.set(target.peer, piece)
      return piece
    },
  }
}

const MAX_KNOWN = 1000
const MAX_EVENTS = 32

/** A request whose trace is not recorded. Servers still learn of it: otherwise each would decide anew. */
class UnrecordedRequest<Piece> implements RequestSpan {
  readonly traceId: string
  constructor(
    private readonly context: TraceContext,
    private readonly deps: SpanDeps<Piece>,
  ) {
    this.traceId = context.traceId
  }

  toServer({ spec }: Connected, _method: string, params: Params): ServerSpan {
    return { params: withContext(params, this.context, this.deps.baggage.has(spec.name)), sent() {}, end() {} }
  }

  event(): void {}
  end(): void {}
}

class RecordedRequest<Piece> implements RequestSpan {
  readonly traceId: string
  private readonly recording: Recording<Piece>
  /** Times within a request are measured by the monotonic clock: the other one may be set meanwhile. */
  private readonly epoch: number

  constructor(
    { request, client, http, address }: Traced,
    context: TraceContext,
    parent: TraceContext | undefined,
    private readonly deps: SpanDeps<Piece>,
  ) {
    this.traceId = context.traceId
    this.epoch = deps.now() - deps.ticks()
    const { known, content, masker } = deps
    const { name, attributes } = known.request(request.method, request.params)
    const shared = [attributes, known.client({ request, client, http })]
    const link = http && parseTraceContext(http.headers.get("traceparent"), http.headers.get("tracestate"))
    this.recording = new Recording({ context, parent, kind: "server", name, shared, link }, this.now())
    const { id } = request
    this.recording.set("jsonrpc.request.id", typeof id === "string" ? cleanText(id, masker()) : String(id))
    if (address !== undefined) this.recording.set("client.address", address)
    if (!content || request.method !== "tools/call") return
    const text = argumentsText(request.params, masker())
    if (text !== undefined) this.recording.set("gen_ai.tool.call.arguments", text)
  }

  toServer(target: Connected, method: string, params: Params): ServerSpan {
    const { deps, recording } = this
    const context = { ...recording.context, spanId: deps.nextId() }
    const { name, attributes } = deps.known.request(method, params)
    const shared = [attributes, deps.known.server(target)]
    const span = new Recording(
      { context, parent: recording.context, kind: "client", name, shared, link: undefined },
      this.now(),
    )
    return {
      params: withContext(params, context, deps.baggage.has(target.spec.name)),
      sent: (id) => span.set("jsonrpc.request.id", id),
      end: (end) => this.finish(span, end),
    }
  }

  event(name: SpanEvent, server?: string): void {
    const { recording } = this
    if (recording.events.length < MAX_EVENTS) recording.events.push({ name, time: this.now(), server })
    else recording.droppedEvents++
  }

  end(answer: Answer | SpanFailure): void {
    const { recording, deps } = this
    const isShown = deps.content && typeof answer !== "string" && answer.outcome === "ok"
    if (isShown && recording.attributes.some(([key]) => key === "gen_ai.tool.call.arguments")) {
      const text = resultText(answer, deps.masker())
      if (text !== undefined) recording.set("gen_ai.tool.call.result", text)
    }
    this.finish(recording, answer)
  }

  private now(): number {
    return this.epoch + this.deps.ticks()
  }

  private finish(span: Recording<Piece>, end: End): void {
    if (span.end > 0) return
    const { type, code } = failureOf(end, span.kind)
    if (code !== undefined) span.set("rpc.response.status_code", code)
    if (type !== undefined) span.set("error.type", type)
    span.failed = type !== undefined
    span.end = this.now()
    this.deps.add(this.deps.encoding.span(span))
  }
}

/** A span that is being recorded. */
class Recording<Piece> implements EndedSpan<Piece> {
  readonly context: TraceContext
  readonly parent: TraceContext | undefined
  readonly kind: "server" | "client"
  readonly name: Piece
  readonly shared: readonly Piece[]
  readonly link: TraceContext | undefined
  readonly attributes: (readonly [string, string])[] = []
  readonly events: EndedSpan<Piece>["events"][number][] = []
  droppedEvents = 0
  failed = false
  /** 0 until it has ended. */
  end = 0

  constructor(
    {
      context,
      parent,
      kind,
      name,
      shared,
      link,
    }: Pick<EndedSpan<Piece>, "context" | "parent" | "kind" | "name" | "shared" | "link">,
    readonly start: number,
  ) {
    this.context = context
    this.parent = parent
    this.kind = kind
    this.name = name
    this.shared = shared
    this.link = link
  }

  set(key: string, value: string): void {
    this.attributes.push([key, value])
  }
}

/** Returns params with the context of a span, and with the baggage of the client if the server may have it. */
function withContext(params: Params, context: TraceContext, keepsBaggage: boolean): Params {
  const traceparent = traceparentOf(context)
  const given = metaOf(params)
  if (given === undefined) return { ...params, _meta: { traceparent } }
  const meta: Record<string, unknown> = { ...given, traceparent }
  if (context.state !== undefined) meta.tracestate = context.state
  else if ("tracestate" in meta) delete meta.tracestate
  if (!keepsBaggage && "baggage" in meta) delete meta.baggage
  return { ...params, _meta: meta }
}
