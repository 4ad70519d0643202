/**
 * Durations of calls by server, tool and kind of failure, with the name, the buckets and the labels of OpenTelemetry's conventions
 * for MCP. The number of series is bounded.
 * https://github.com/open-telemetry/semantic-conventions-genai/blob/main/docs/gen-ai/mcp.md#metric-mcpclientoperationduration
 */
/** The name of the metric in Prometheus. */
export const CALL_DURATION = "mcp_client_operation_duration_seconds"

/** One series. `buckets` are not cumulative: each call is in one. */
type Series = { readonly labels: readonly string[]; readonly buckets: number[]; sum: number }

export class CallDurations {
  private readonly series = new Map<string, Series>()

  /** Records a finished call; `error` is its `error.type` if it failed. */
  record(server: string, tool: string, error: string | undefined, seconds: number): void {
    const series =
      this.find(server, tool, error, MAX_SERIES) ??
      this.find(server, OTHER, error, MAX_SERIES + MAX_SERVERS) ??
      this.find(OTHER, OTHER, error, Number.POSITIVE_INFINITY)
    if (series === undefined) return
    series.sum += seconds
    const bucket = BOUNDS.findIndex((bound) => seconds <= bound)
    ;(series.buckets[bucket < 0 ? BOUNDS.length : bucket] as number)++
  }

  /** Returns the samples in the text format of Prometheus; `quote` writes the value of a label. */
  samples(quote: (text: string) => string): readonly string[] {
    return [...this.series.values()].flatMap(({ labels: [server = "", tool = "", error], buckets, sum }) => {
      const failure = error === undefined ? "" : `,error_type=${quote(error)}`
      const labels = `svc_server=${quote(server)},mcp_method_name="tools/call",gen_ai_tool_name=${quote(tool)}${failure}`
      let count = 0
      const lines = [...BOUNDS, "+Inf"].map((bound, at) => {
        count += buckets[at] ?? 0
        return `${CALL_DURATION}_bucket{${labels},le="${bound}"} ${count}`
      })
      return [...lines, `${CALL_DURATION}_sum{${labels}} ${sum}`, `${CALL_DURATION}_count{${labels}} ${count}`]
    })
  }

  // ---

  /** Returns a series, new if there are fewer than `most`; otherwise undefined. */
  private find(server: string, tool: string, error: string | undefined, most: number): Series | undefined {
    const key = `${server}\0${tool}\0${error}`
    const found = this.series.get(key)
    if (found !== undefined || this.series.size >= most) return found
    const series = {
      labels: error === undefined ? [server, tool] : [server, tool, error],
      buckets: [...BOUNDS, 0].map(() => 0),
      sum: 0,
    }
    this.series.set(key, series)
    return series
  }
}

// ---

/** What calls beyond the bounds are counted as. */
const OTHER = "other"
const MAX_SERIES = 120
const MAX_SERVERS = 20
const BOUNDS = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300]
