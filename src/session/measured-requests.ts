/** Measures the requests of clients and those to servers, beside the spans of traces. */
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
    const { deps } = this
    const span = this.span?.toServer(target, method, params)
    const subject = subjectOf(method, params, unlisted && OTHER)
    const started = deps.now()
    let hasEnded = false
    const end = (end: End) => {
      if (hasEnded) return
      hasEnded = true
      const { type } = failureOf(end, "client")
      deps.metrics.sent.record([target.spec.id, ...subject, type], (deps.now() - started) / 1000)
      span?.end(end)
    }
    if (span === undefined) return { params, end }
    return { params: span.params, sent: (id) => span.sent?.(id), end }
  }

  event(name: SpanEvent, server?: string): void {
    this.span?.event(name, server)
  }

  end(answer: Answer | SpanFailure): void {
    const { call, deps, span, started } = this
    const { request, destination, http } = call
    const isKnown =
      destination?.kind === "own" || (destination?.kind === "server" && destination.route.unlisted !== true)
    const subject = subjectOf(request.method, request.params, isKnown ? undefined : OTHER)
    const { type } = failureOf(answer, "server")
    deps.metrics.served.record([...subject, http === undefined ? "pipe" : "tcp", type], (deps.now() - started) / 1000)
    span?.end(answer)
  }
}

/** Returns the method, the tool and the prompt of a request. `name` replaces a name that clients may have made up. */
function subjectOf(
  method: string,
  params: Params | undefined,
  name: string | undefined,
): readonly [method: string, tool: string | undefined, prompt: string | undefined] {
  const shown = isKnownMethod(method) ? method : OTHER_ERROR
  const about = name ?? (typeof params?.name === "string" ? params.name : OTHER)
  return [shown, method === "tools/call" ? about : undefined, method === "prompts/get" ? about : undefined]
}
