/**
 * Sends metrics to the receiver at an interval.
 *
 *  1. Values are cumulative, so nothing is kept for a receiver that is away: the next request has all of it.
 *  2. One request is sent at a time.
 *  3. An outage is one line of the log, and so is its end.
 */
import { readBody } from "../../backend/http.ts"
import type { Environment } from "../../config/environment.ts"
import { type Clock, every, withTimeout } from "../../lib/clock.ts"
import { messageOf } from "../../lib/errors.ts"
import type { Log } from "../../lib/log.ts"
import { counted, cutText } from "../../lib/text.ts"
import type { Family } from "../../report/metric-family.ts"
import { jsonMetrics, protobufMetrics } from "./metrics-encoding.ts"
import { type PostDeps, post } from "./post.ts"
import { readExporterSettings, readInterval } from "./settings.ts"

export type MetricsPush = {
  /** Sends what `collect` returns, from now on. */
  start(collect: () => readonly Family[]): void
  /** The values of the configured headers, which may be credentials. */
  readonly secrets: readonly string[]
  /** Sends the last values, for at most CLOSE_MS; nothing during an outage. */
  close(): Promise<void>
}

export type PushDeps = Pick<PostDeps, "send"> & {
  /** The value of `--otlp-endpoint`. */
  readonly endpoint: string | undefined
  readonly env: Environment
  readonly version: string
  readonly clock: Clock
  readonly log: Pick<Log, "info" | "warn">
}

/** Opens the sending of metrics. Throws a RequestError (usage) for an endpoint or a protocol that cannot work. */
export function openMetricsPush({ endpoint, env, version, clock, log, send }: PushDeps): MetricsPush {
  const warn = (text: string) => log.warn(text)
  const settings = readExporterSettings("METRICS", endpoint, env, version, warn)
  const interval = readInterval(env, warn)
  const source = { resource: settings.resource, version }
  const encoding = settings.protocol === "http/json" ? jsonMetrics(source) : protobufMetrics(source)
  const deps: PostDeps = { ...settings, encoding, send, read: (response) => readBody(response, MAX_ANSWER) }
  const closing = new AbortController()
  const start = clock.now()
  let collect: (() => readonly Family[]) | undefined
  let working: Promise<void> | undefined
  let failing = false
  let warned = false
  const note = (problem: string | undefined) => {
    if (problem !== undefined && !failing) log.warn(`metrics are not sent: ${problem}; svc tries again each interval`)
    if (problem === undefined && failing) log.info("metrics are sent again")
    failing = problem !== undefined
  }
  const push = async () => {
    try {
      const body = encoding.request(collect?.() ?? [], { start, now: clock.now() })
      const outcome = await post(body, closing.signal, deps)
      if (closing.signal.aborted) return
      note(outcome.kind === "taken" ? undefined : outcome.reason)
      if (outcome.kind !== "taken" || outcome.rejected.count === 0 || warned) return
      warned = true
      const { count, reason } = outcome.rejected
      warn(`the receiver of metrics refused ${counted(count, "value")}: ${cutText(reason, 200)}`)
    } catch (error) {
      note(messageOf(error))
    }
  }
  const run = () => {
    working ??= push().finally(() => {
      working = undefined
    })
    return working
  }
  let cancel: (() => void) | undefined
  return {
    start(from) {
      collect = from
      cancel = every(clock, interval, () => void run())
    },
    secrets: Object.values(settings.headers).flatMap((value) => [value, ...value.split(" ").slice(1)]),
    async close() {
      cancel?.()
      if (!failing && collect !== undefined) {
        const last = async () => {
          await working
          await run()
        }
        await withTimeout(clock, CLOSE_MS, last())
      }
      closing.abort()
    },
  }
}

// ---

const MAX_ANSWER = 64 * 1024
const CLOSE_MS = 3000
