/** The audit log of a running svc: the file that `--audit-log` names. */

import type { Audit } from "../call/ports.ts"
import { systemClock } from "../lib/clock.ts"
import { createAudit } from "../session/audit.ts"
import type { Logging } from "./logging.ts"
import type { ServeOptions } from "./serve-options.ts"

export type AuditLog = {
  /** Undefined without `--audit-log`. */
  readonly audit: Audit | undefined
  /** Sets the function that looks up names of principals: entries of calls contain them. */
  nameHolders(nameOf: (principal: string) => string | undefined): void
  /** Writes the remaining lines. */
  closeAudit(): Promise<void>
}

/** Opens the audit log. Rejects with an UnavailableError if the file cannot be written. */
export async function openAuditLog(
  { auditLog, auditArguments }: Pick<ServeOptions, "auditLog" | "auditArguments">,
  { log, redactor }: Pick<Logging, "log" | "redactor">,
): Promise<AuditLog> {
  if (auditLog === undefined) return { audit: undefined, nameHolders() {}, closeAudit: async () => undefined }
  let nameOf: (principal: string) => string | undefined = () => undefined
  const { openJournal } = await import("../lib/journal.ts")
  const journal = await openJournal({
    path: auditLog,
    clock: systemClock,
    onfail: (reason) => log.error(`the audit log has a gap: ${reason}`),
    lost: (lost) => JSON.stringify({ time: new Date(systemClock.now()).toISOString(), method: "svc/audit", lost }),
  })
  const audit = createAudit({
    clock: systemClock,
    ticks: () => performance.now(),
    write: journal.add,
    masker: () => redactor().maskCredentials,
    nameOf: (principal) => nameOf(principal),
    withArguments: auditArguments,
  })
  const nameHolders = (lookup: typeof nameOf) => {
    nameOf = lookup
  }
  return { audit, nameHolders, closeAudit: () => journal.close() }
}
