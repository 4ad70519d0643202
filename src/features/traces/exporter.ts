/**
 * Sends spans to the receiver, in batches.
 *
 *  1. Adding a span never waits. What does not fit into the queue is dropped and counted.
 *  2. One batch is sent at a time. If the receiver cannot take it now, it is sent again, with growing pauses; after MAX_ATTEMPTS,
 *     or if the receiver refuses it, it is dropped and counted.
 *  3. An outage is one line of the log, and so is its end.
 */
import { Backoff } from "../../lib/backoff.ts"
import { type Clock, delay, withTimeout } from "../../lib/clock.ts"
import { messageOf } from "../../lib/errors.ts"
import type { Log } from "../../lib/log.ts"
import { counted, cutText } from "../../lib/text.ts"
import type { ReportedSpans } from "../../report/metrics.ts"
import type { Rejected, SpanEncoding } from "./encoding.ts"
import { type PostDeps, type PostOutcome, post } from "./post.ts"

export type ExporterDeps<Piece> = PostDeps & {
  readonly clock: Clock
  readonly log: Pick<Log, "info" | "warn">
  readonly encoding: Pick<SpanEncoding<Piece>, "request">
}

/** Sends encoded spans. */
export class SpanExporter<Piece extends { readonly length: number }> {
  private queue: Piece[] = []
  private bytes = 0
  private exported = 0
  private dropped = 0
  private readonly backoff = new Backoff({ first: 1000, max: 30_000 })
  private readonly closing = new AbortController()
  private cancelTimer: (() => void) | undefined
  private working: Promise<void> | undefined
  /** Whether the last batch was not taken, and how many spans were dropped before. */
  private failing: { readonly dropped: number } | undefined
  /** Whether a partial refusal has been reported. */
  private warned = false

  constructor(private readonly deps: ExporterDeps<Piece>) {}

  report(): ReportedSpans {
    return { exported: this.exported, dropped: this.dropped }
  }

  add(span: Piece): void {
    if (this.queue.length >= MAX_QUEUE || this.bytes + span.length > MAX_BYTES || this.closing.signal.aborted) {
      this.dropped++
      return
    }
    this.queue.push(span)
    this.bytes += span.length
    if (this.working !== undefined) return
    if (this.queue.length >= BATCH) this.start()
    else this.cancelTimer ??= this.deps.clock.after(PAUSE_MS, () => this.start())
  }

  /** Sends what is left, for at most CLOSE_MS; nothing during an outage. */
  async close(): Promise<void> {
    this.cancelTimer?.()
    if (this.failing === undefined) {
      this.start()
      await withTimeout(this.deps.clock, CLOSE_MS, this.working ?? Promise.resolve())
    }
    this.closing.abort()
  }

  // ---

  private start(): void {
    this.cancelTimer?.()
    this.cancelTimer = undefined
    this.working ??= this.work().finally(() => {
      this.working = undefined
      if (this.queue.length > 0 && !this.closing.signal.aborted)
        this.cancelTimer ??= this.deps.clock.after(PAUSE_MS, () => this.start())
    })
  }

  /** Sends batches while there are full ones; the first may be smaller. */
  private async work(): Promise<void> {
    do {
      const batch = this.queue.splice(0, BATCH)
      for (const { length } of batch) this.bytes -= length
      if (batch.length > 0) await this.deliver(batch)
    } while (this.queue.length >= BATCH && !this.closing.signal.aborted)
  }

  private async deliver(batch: readonly Piece[]): Promise<void> {
    const { clock, encoding } = this.deps
    let body: Uint8Array<ArrayBuffer> | undefined
    for (let attempt = 1; ; attempt++) {
      let outcome: PostOutcome
      try {
        body ??= encoding.request(batch)
        outcome = await post(body, this.closing.signal, this.deps)
      } catch (error) {
        outcome = { kind: "refused", reason: messageOf(error) }
      }
      if (outcome.kind === "taken") {
        this.taken(batch.length, outcome.rejected)
        return
      }
      const isLast = outcome.kind === "refused" || attempt === MAX_ATTEMPTS || this.closing.signal.aborted
      if (this.failing === undefined) {
        this.failing = { dropped: this.dropped }
        this.deps.log.warn(
          `traces are not exported: ${outcome.reason}; until they are, svc keeps at most ${MAX_QUEUE} spans and drops the others`,
        )
      }
      if (isLast) this.dropped += batch.length
      await delay(clock, Math.max(this.backoff.next(), outcome.after ?? 0), this.closing.signal)
      if (isLast) return
    }
  }

  private taken(count: number, refusal: Rejected): void {
    const rejected = Math.min(refusal.count, MAX_QUEUE)
    if (rejected > 0 && this.failing === undefined && !this.warned) {
      this.warned = true
      this.deps.log.warn(`the receiver of traces refused ${counted(rejected, "span")}: ${cutText(refusal.reason, 200)}`)
    }
    this.exported += count - rejected
    this.dropped += rejected
    this.backoff.reset()
    if (this.failing === undefined) return
    const lost = this.dropped - this.failing.dropped
    this.failing = undefined
    this.deps.log.info(`traces are exported again; spans lost meanwhile: ${lost}`)
  }
}

// ---

const MAX_QUEUE = 8192
const MAX_BYTES = 16 * 1024 * 1024
const BATCH = 256
const PAUSE_MS = 1000
const MAX_ATTEMPTS = 5
const CLOSE_MS = 3000
