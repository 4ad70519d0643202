/** The input of the checks of `svc doctor`, and their findings. */

import type { ServerSpec } from "../../config/server-spec.ts"
import type { Clock } from "../../lib/clock.ts"
import type { Status } from "../../report/status.ts"
import type { LocalConfiguration } from "../../serve/local-configuration.ts"
import { planDocument } from "../../template/instance.ts"
import { isObject } from "../../wire/message.ts"

/** A problem, present or expected. */
export type Finding = {
  readonly check: string
  readonly severity: "warning" | "error"
  /** The server, file or client that has the problem. */
  readonly subject?: string
  readonly what: string
  readonly why: string
  /** The command or the action that fixes it. */
  readonly fix: string
  /** A repair that loses no data. */
  readonly repair?: () => void
}

/** The input of the checks. */
export type Installation = {
  readonly context: LocalConfiguration
  /** The status of the running svc; undefined if none runs. */
  readonly live: (Status & { readonly version?: string }) | undefined
  /** The servers of the file; none if it is not valid. */
  readonly specs: readonly ServerSpec[]
  readonly clock: Clock
  readonly fetch: (url: string, init: RequestInit) => Promise<Response>
}

/** Reads the input of the checks. */
export async function readInstallation(context: LocalConfiguration, clock: Clock): Promise<Installation> {
  const status = await context.ask("status", {}, ANSWER_MS).catch(() => undefined)
  const live = isObject(status) && Array.isArray(status.servers) ? (status as Status) : undefined
  return { context, live, specs: specsOf(context), clock, fetch }
}

// ---

/** Milliseconds that a running svc may take to answer. */
const ANSWER_MS = 5000

function specsOf(context: LocalConfiguration): readonly ServerSpec[] {
  try {
    return planDocument(context.document(), context.world()).plan.specs
  } catch {
    // The check of the configuration reports the reason.
    return []
  }
}
