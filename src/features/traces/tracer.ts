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
import type { RequestSpan, ServerSpan, SpanEvent, SpanFailure, Target, Tracer } from "../../call/ports.ts"
import type { Mask } from "../../session/masked-arguments.ts"
import { metaOf, type Params } from "../../wire/message.ts"
import {
  argumentsText,
  cleanText,
  createDescriber,
  failureOf,
  resultText,
  serverAttributes,
  sessionAttribute,
} from "./conventions.ts"
import type { Sampler } from "./sampler.ts"
import { type Attributes, type EncodedSpan, SpanRecord, type SpanResource, type Timeline } from "./span.ts"
import { createSpanIds, parseTraceContext, RANDOM, SAMPLED, type TraceContext, traceparentOf } from "./trace-context.ts"

export type TracerOptions = {
  /** Milliseconds since the epoch. */
  now(): number
  /** Milliseconds of a monotonic clock. */
  ticks(): number
  /** Fills bytes with random ones. */
  random(bytes: Uint8Array): void
  readonly sampler: Sampler
  readonly resource: SpanResource
  readonly scope: EncodedSpan["instrumentationScope"]
  /** Returns the function that masks the current secrets; the same function while the secrets are the same. */
  masker(): Mask
  /** Whether spans have arguments and results. */
  readonly content: boolean
  /** The names of the servers that receive `baggage`. */
  readonly baggage: ReadonlySet<string>
  /** Takes a span that has ended. */
  add(span: SpanRecord): void
}

/** Creates the tracer. `traceOf` returns the trace of the last message that an HTTP request carried. */
export function createTracer(options: TracerOptions): Tracer & { traceOf(http: object): string | undefined } {
  const deps: SpanDeps = {
    ...options,
    ids: createSpanIds(options.random),
    describe: createDescriber(options.masker),
    connections: new WeakMap(),
    sessions: new WeakMap(),
  }
  const traces = new WeakMap<object, string>()
  return {
    begin(call) {
      const { request, http } = call
      const meta = metaOf(request.params)
      const parent = parseTraceContext(meta?.traceparent, meta?.tracestate)
      const traceId = parent?.traceId ?? deps.ids.trace()
      const isSampled = options.sampler(traceId, parent)
      if (http !== undefined) traces.set(http, traceId)
      const context: TraceContext = {
        traceId,
        spanId: deps.ids.span(),
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

type SpanDeps = TracerOptions & {
  readonly ids: ReturnType<typeof createSpanIds>
  readonly describe: ReturnType<typeof createDescriber>
  /** The attributes of connections, by the peers that they lead to. */
  readonly connections: WeakMap<Target["peer"], Attributes>
  /** The attributes for sessions, which are digests. */
  readonly sessions: WeakMap<object, string>
}

/** A request whose trace is not recorded. Servers still learn of it: otherwise each would decide anew. */
class UnrecordedRequest implements RequestSpan {
  readonly traceId: string
  constructor(
    private readonly context: TraceContext,
    private readonly deps: SpanDeps,
  ) {
    this.traceId = context.traceId
  }

  toServer({ spec }: Pick<Target, "spec" | "peer">, _method: string, params: Params): ServerSpan {
    return { params: withContext(params, this.context, this.deps.baggage.has(spec.name)), sent() {}, end() {} }
  }

  event(): void {}
  end(): void {}
}

class RecordedRequest implements RequestSpan {
  readonly traceId: string
  private readonly span: SpanRecord
  private readonly timeline: Timeline

  constructor(
    call: Traced,
    private readonly context: TraceContext,
    parent: TraceContext | undefined,
    private readonly deps: SpanDeps,
  ) {
    this.traceId = context.traceId
    const { request, http } = call
    const { resource, scope } = deps
    const started = { at: deps.now(), ticks: deps.ticks() }
    this.timeline = { now: () => started.at + (deps.ticks() - started.ticks) }
    const { name, attributes } = deps.describe(request.method, request.params)
    const link = http && parseTraceContext(http.headers.get("traceparent"), http.headers.get("tracestate"))
    this.span = new SpanRecord(
      { context, parent, kind: "server", name, attributes: this.attributesOf(call, attributes), link, resource, scope },
      this.timeline,
    )
    if (!deps.content || request.method !== "tools/call") return
    const text = argumentsText(request.params, deps.masker())
    if (text !== undefined) this.span.setContent("gen_ai.tool.call.arguments", text)
  }

  toServer(target: Pick<Target, "spec" | "peer">, method: string, params: Params): ServerSpan {
    const { deps, timeline } = this
    const { connections, resource, scope } = deps
    const context = { ...this.context, spanId: deps.ids.span() }
    const { name, attributes } = deps.describe(method, params)
    const about = connections.get(target.peer) ?? serverAttributes(target)
    connections.set(target.peer, about)
    const span = new SpanRecord(
      {
        context,
        parent: this.context,
        kind: "client",
        name,
        attributes: { ...attributes, ...about },
        link: undefined,
        resource,
        scope,
      },
      timeline,
    )
    return {
      params: withContext(params, context, deps.baggage.has(target.spec.name)),
      sent(id) {
        span.attributes["jsonrpc.request.id"] = id
      },
      end: (end) => this.finish(span, end),
    }
  }

  event(name: SpanEvent, server?: string): void {
    if (!this.span.ended) this.span.addEvent(name, server === undefined ? {} : { "svc.server": server })
  }

  end(answer: Answer | SpanFailure): void {
    const { span, deps } = this
    if (deps.content && typeof answer !== "string" && "gen_ai.tool.call.arguments" in span.attributes) {
      const text = answer.outcome === "ok" ? resultText(answer, deps.masker()) : undefined
      if (text !== undefined) span.setContent("gen_ai.tool.call.result", text)
    }
    this.finish(span, answer)
  }

  private attributesOf({ request, client, http, address }: Traced, about: Readonly<Attributes>): Attributes {
    const attributes: Attributes = { ...about, "network.transport": http === undefined ? "pipe" : "tcp" }
    const { id } = request
    attributes["jsonrpc.request.id"] = typeof id === "string" ? cleanText(id, this.deps.masker()) : String(id)
    if (http !== undefined) attributes["network.protocol.name"] = "http"
    if (address !== undefined) attributes["client.address"] = address
    if (client === undefined) return attributes
    attributes["mcp.protocol.version"] = client.protocolVersion
    if (client.id !== undefined) attributes["mcp.session.id"] = this.sessionOf(client.id, client.session)
    return attributes
  }

  private sessionOf(id: string, session: object): string {
    const { sessions } = this.deps
    const known = sessions.get(session) ?? sessionAttribute(id)
    sessions.set(session, known)
    return known
  }

  /** Ends a span, once. */
  private finish(span: SpanRecord, end: Pick<Answer, "outcome" | "code"> | SpanFailure): void {
    if (span.ended) return
    const { type, code } = failureOf(end)
    if (code !== undefined) span.attributes["rpc.response.status_code"] = code
    span.end(type)
    this.deps.add(span)
  }
}

/** Returns params with the context of a span, and with the baggage of the client if the server may have it. */
function withContext(params: Params, context: TraceContext, keepsBaggage: boolean): Params {
  const meta: Record<string, unknown> = { ...metaOf(params), traceparent: traceparentOf(context) }
  if (context.state !== undefined) meta.tracestate = context.state
  else if ("tracestate" in meta) delete meta.tracestate
  if (!keepsBaggage && "baggage" in meta) delete meta.baggage
  return { ...params, _meta: meta }
}
