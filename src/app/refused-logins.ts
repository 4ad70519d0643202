/**
 * Records refused logins: in the log, where tools such as fail2ban read the address, in the audit log, and in the metrics.
 * Entries are limited, so that a flood neither fills a disk nor displaces other entries of the audit log. Beyond the limits,
 * refusals are only counted, and the count is recorded once a minute.
 */

import type { Audit } from "../call/ports.ts"
import type { Clock } from "../lib/clock.ts"
import type { Log } from "../lib/log.ts"
import { counted } from "../lib/text.ts"
import type { Metrics } from "../report/metrics.ts"
import { clientAddress, createAddressLimiter, type TrustProxy } from "../serve/address-rate-limit.ts"
import type { Inbound } from "../serve/inbound.ts"

export type RefusedLoginsOptions = {
  readonly log: Log
  readonly audit: Audit | undefined
  readonly metrics: Metrics | undefined
  readonly clock: Clock
  readonly trustProxy: TrustProxy
}

/** Records refused logins; `reason` never contains a token. `close` records the remaining count. */
export type RefusedLogins = { record(inbound: Inbound, reason: string): void; close(): void }

export function createRefusedLogins({ log, audit, metrics, clock, trustProxy }: RefusedLoginsOptions): RefusedLogins {
  const ofAddress = createAddressLimiter(clock, { requests: MAX_PER_ADDRESS, windowMs: WINDOW_MS })
  const ofAll = createAddressLimiter(clock, { requests: MAX_PER_WINDOW, windowMs: WINDOW_MS })
  let omitted = 0
  let last = ""
  let cancel: (() => void) | undefined
  const summarize = () => {
    cancel?.()
    cancel = undefined
    if (omitted === 0) return
    log.warn(`refused ${counted(omitted, "more login")}, the last from ${last}`)
    audit?.access("login", "error", { address: last, more: omitted })
    omitted = 0
  }
  return {
    record({ request, path, address }, reason) {
      if (metrics !== undefined) metrics.refusedLogins++
      const from = clientAddress(address(), request.headers.get("x-forwarded-for"), trustProxy)
      if (ofAddress(from).retryAfter !== undefined || ofAll("").retryAfter !== undefined) {
        omitted++
        last = from
        cancel ??= clock.after(WINDOW_MS, summarize)
        return
      }
      // The address comes first: the rest may be text of the client.
      log.warn(`refused login from ${from}: ${reason} (${path.slice(0, MAX_PATH)})`)
      audit?.access("login", "error", { address: from, reason, path })
    },
    close: summarize,
  }
}

// ---

const WINDOW_MS = 60_000
const MAX_PER_ADDRESS = 10
const MAX_PER_WINDOW = 100
const MAX_PATH = 100
