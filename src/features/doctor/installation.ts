/** Reads the input of the checks of `svc doctor`. */
import type { ServerSpec } from "../../config/server-spec.ts"
import type { Clock } from "../../lib/clock.ts"
import type { Status } from "../../report/status.ts"
import type { Installation } from "../../serve/doctor-check.ts"
import type { LocalConfiguration } from "../../serve/local-configuration.ts"
import { planDocument } from "../../template/instance.ts"
import { isObject } from "../../wire/message.ts"

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
