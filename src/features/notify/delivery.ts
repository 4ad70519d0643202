/**
 * Delivers the notifications of one target, one after the other.
 *
 *  1. Adding a message never waits. A full queue drops its oldest message.
 *  2. What the target cannot take now is sent again, with growing pauses, at most ATTEMPTS times.
 *  3. An outage is one line of the log, and so is its end.
 */
import type { NotifyTarget } from "../../config/notify.ts"
import { type Clock, delay, withTimeout } from "../../lib/clock.ts"
import type { Log } from "../../lib/log.ts"
import { counted } from "../../lib/text.ts"
import type { NotifyMessage } from "./message.ts"
import { type Senders, sendMessage } from "./send.ts"

export type DeliveryDeps = {
  readonly senders: Senders
  readonly clock: Clock
  readonly log: Pick<Log, "info" | "warn">
}

export class Delivery {
  private readonly queue: NotifyMessage[] = []
  private readonly closing = new AbortController()
  private working: Promise<void> | undefined
  /** The messages that were lost since the target failed; undefined while it works. */
  private lost: number | undefined

  constructor(
    readonly target: NotifyTarget,
    private readonly deps: DeliveryDeps,
  ) {}

  add(message: NotifyMessage): void {
    this.queue.push(message)
    if (this.queue.length > MAX_QUEUE) {
      this.queue.shift()
      this.lost = (this.lost ?? 0) + 1
    }
    this.working ??= this.work().finally(() => {
      this.working = undefined
    })
  }

  /** Sends what is left, for at most CLOSE_MS; nothing during an outage. */
  async close(): Promise<void> {
    if (this.lost === undefined) await withTimeout(this.deps.clock, CLOSE_MS, this.working ?? Promise.resolve())
    this.closing.abort()
    await this.working
  }

  // ---

  private async work(): Promise<void> {
    for (let message = this.queue.shift(); message !== undefined; message = this.queue.shift()) {
      if (this.closing.signal.aborted) return
      await this.deliver(message)
    }
  }

  private async deliver(message: NotifyMessage): Promise<void> {
    const { senders, clock } = this.deps
    for (let attempt = 0; ; attempt++) {
      const outcome = await sendMessage(this.target, message, senders, this.closing.signal)
      if (outcome.kind === "sent") return this.succeeded()
      if (this.closing.signal.aborted) return
      const pause = outcome.again ? PAUSES_MS[attempt] : undefined
      this.failed(outcome.reason, pause === undefined)
      if (pause === undefined) return
      await delay(clock, Math.max(pause, outcome.after ?? 0), this.closing.signal)
      if (this.closing.signal.aborted) return
    }
  }

  private succeeded(): void {
    const { lost } = this
    this.lost = undefined
    if (lost !== undefined)
      this.deps.log.info(
        `${this.target.label} accepts notifications again; lost meanwhile: ${counted(lost, "notification")}`,
      )
  }

  private failed(reason: string, isLost: boolean): void {
    if (this.lost === undefined)
      this.deps.log.warn(
        `${this.target.label} did not accept a notification: ${reason}; \`svc notify test\` tries again`,
      )
    this.lost = (this.lost ?? 0) + (isLost ? 1 : 0)
  }
}

// ---

const MAX_QUEUE = 100
/** The pauses between the attempts at one message. */
const PAUSES_MS = [1000, 5000, 30_000, 120_000, 600_000]
const CLOSE_MS = 2000
