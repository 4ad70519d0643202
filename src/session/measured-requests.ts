/** Measures the requests of clients and those to servers, beside the spans of traces. Creates little: it runs for every call. */
import type { Answer } from "../call/answer.ts"
import { type End, failureOf } from "../call/failure-type.ts"
import { isKnownMethod } from "../call/methods.ts"
import type { RequestSpan, ServerSpan, SpanEvent, SpanFailure, Target, Tracer } from "../call/ports.ts"
import { OTHER, OTHER_ERROR } from "../report/durations.ts"
import type { Metrics } from "../report/metrics.ts"
import type { Params } from "../wire/message.ts"

type MeasureDeps = {
  readonly metrics: Pick<Metrics, "served" | "sent">
  /** Milliseconds of a monotonic clock. */
  now(): number
  /** Records traces; undefined if there are none. */
  readonly traces: Tracer | undefined
}

/** Creates a tracer that measures requests. */
export const measureRequests = (deps: MeasureDeps): Tracer => ({
  begin: (call) => new MeasuredRequest(call, deps.traces?.begin(call), deps),
})

// ---

class MeasuredRequest implements RequestSpan {
  readonly traceId: string | undefined
  private readonly started: number

  constructor(
    private readonly call: Parameters<Tracer["begin"]>[0],
    private readonly span: RequestSpan | undefined,
    private readonly deps: MeasureDeps,
  ) {
    this.traceId = span?.traceId
    this.started = deps.now()
  }

  toServer(target: Pick<Target, "spec" | "peer">, method: string, params: Params, unlisted?: true): ServerSpan {
    const span = this.span?.toServer(target, method, params)
    const name = unlisted ? OTHER : nameIn(params)
    return new MeasuredServerRequest(target.spec.id, method, name, span?.params ?? params, span, this.deps)
  }

  event(name: SpanEvent, server?: string): void {
    this.span?.event(name, server)
  }

  end(answer: Answer | SpanFailure): void {
    const { call, deps, span, started } = this
    const { request, destination, http } = call
    const { method } = request
    const isKnown =
      destination?.kind === "own" || (destination?.kind === "server" && destination.route.unlisted !== true)
    const name = isKnown ? nameIn(request.params) : OTHER
    const transport = http === undefined ? "pipe" : "tcp"
    deps.metrics.served.record(
      [methodIn(method), toolIn(method, name), promptIn(method, name), transport, errorIn(answer, "server")],
      (deps.now() - started) / 1000,
    )
    span?.end(answer)
  }
}

class MeasuredServerRequest implements ServerSpan {
  readonly sent: ServerSpan["sent"]
  private readonly started: number
  private hasEnded = false

  constructor(
    private readonly server: string,
    private readonly method: string,
    private readonly name: string,
    readonly params: Params,
    private readonly span: ServerSpan | undefined,
    private readonly deps: MeasureDeps,
  ) {
    this.sent = span?.sent
    this.started = deps.now()
  }

  end(end: End): void {
    if (this.hasEnded) return
    this.hasEnded = true
    const { server, method, name, span, deps, started } = this
    deps.metrics.sent.record(
      [server, methodIn(method), toolIn(method, name), promptIn(method, name), errorIn(end, "client")],
      (deps.now() - started) / 1000,
    )
    span?.end(end)
  }
}

const methodIn = (method: string): string => (isKnownMethod(method) ? method : OTHER_ERROR)
const toolIn = (method: string, name: string) => (method === "tools/call" ? name : undefined)
const promptIn = (method: string, name: string) => (method === "prompts/get" ? name : undefined)
const nameIn = (params: Params | undefined): string => (typeof params?.name === "string" ? params.name : OTHER)

const errorIn = (end: End, side: "client" | "server"): string | undefined =>
  typeof end !== "string" && end.outcome === "ok" ? undefined : failureOf(end, side).type
