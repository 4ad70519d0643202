/** Watches a running svc, and tells the targets of `notify` what people must know. */
import { isDeepStrictEqual } from "node:util"
import type { NotifyTarget } from "../../config/notify.ts"
import { every } from "../../lib/clock.ts"
import { type AlertFacts, alertsOf, downServers, type EndingSignIn, type Tracked, track } from "./alerts.ts"
import { Delivery, type DeliveryDeps } from "./delivery.ts"
import { messageOfNotice, type NotifyOrigin } from "./message.ts"

export type AlertWatchDeps = DeliveryDeps & {
  readonly origin: NotifyOrigin
  facts(): Pick<AlertFacts, "snapshot" | "cluster">
  /** Returns the tokens of clients. Throws if their file cannot be used. */
  tokens(): AlertFacts["tokens"]
  signIns(): Promise<readonly EndingSignIn[]>
  /** Returns a unique text. */
  id(): string
  mask(text: string): string
}

export class AlertWatch {
  private watched: readonly { readonly delivery: Delivery; tracked: Tracked }[] = []
  private slow: Pick<AlertFacts, "tokens" | "signIns"> = { tokens: [], signIns: [] }
  private readonly stops: readonly (() => void)[]

  constructor(private readonly deps: AlertWatchDeps) {
    void this.readSlow()
    this.stops = [
      every(deps.clock, CHECK_MS, () => this.check()),
      every(deps.clock, SLOW_MS, () => void this.readSlow()),
    ]
  }

  /** Replaces the targets. One that stays the same keeps what it was told, and its queue. */
  configure(targets: readonly NotifyTarget[]): void {
    const before = this.watched
    this.watched = targets.map(
      (target) =>
        before.find(({ delivery }) => isDeepStrictEqual(delivery.target, target)) ?? {
          delivery: new Delivery(target, this.deps),
          tracked: new Map(),
        },
    )
    for (const one of before) if (!this.watched.includes(one)) void one.delivery.close()
  }

  /** Ends the watch, and sends what is waiting, for a short time. */
  async close(): Promise<void> {
    for (const stop of this.stops) stop()
    await Promise.all(this.watched.map(({ delivery }) => delivery.close()))
  }

  // ---

  private check(): void {
    const { clock, origin, id, mask } = this.deps
    const now = clock.now()
    const facts = { ...this.deps.facts(), ...this.slow, now }
    const down = downServers(facts)
    for (const one of this.watched) {
      const { on, downAfter } = one.delivery.target
      const alerts = alertsOf({ ...facts, downAfter }).filter(({ kind }) => on.includes(kind))
      const { tracked, notices } = track(one.tracked, alerts, down, now)
      one.tracked = tracked
      for (const notice of notices) one.delivery.add(messageOfNotice(id(), notice, origin, now, mask))
    }
  }

  private async readSlow(): Promise<void> {
    const { tokens, signIns } = this.deps
    this.slow = { tokens: unlessRefused(tokens), signIns: await signIns().catch(() => []) }
  }
}

// ---

/** Returns the tokens; none if their file cannot be used, which the log reports. */
function unlessRefused(tokens: () => AlertFacts["tokens"]): AlertFacts["tokens"] {
  try {
    return tokens()
  } catch {
    return []
  }
}

const CHECK_MS = 2000
/** How often files are read: nothing there expires within a minute. */
const SLOW_MS = 60_000
