/** The audit log of a running svc, as `--audit-log` names it. */
import { systemClock } from "../lib/clock.ts"
import { openJournal } from "../lib/journal.ts"
import { createAudit } from "../session/audit.ts"
import type { Audit } from "../session/ports.ts"
import type { Logging } from "./logging.ts"
import type { ServeOptions } from "./serve-options.ts"

export type AuditLog = {
  /** Undefined without `--audit-log`. */
  readonly audit: Audit | undefined
  /** Sets the lookup of the names of principals, which the entries of their calls contain. */
  nameHolders(nameOf: (principal: string) => string | undefined): void
  /** Writes the lines that are left. */
  closeAudit(): Promise<void>
}

/** Opens the audit log. Rejects with an UnavailableError if the file cannot be written. */
export async function openAuditLog(
  { auditLog, auditArguments }: Pick<ServeOptions, "auditLog" | "auditArguments">,
  { log, redactor }: Pick<Logging, "log" | "redactor">,
): Promise<AuditLog> {
  if (auditLog === undefined) return { audit: undefined, nameHolders() {}, closeAudit: async () => undefined }
  let nameOf: (principal: string) => string | undefined = () => undefined
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
    mask: rememberingMask(redactor),
    nameOf: (principal) => nameOf(principal),
    withArguments: auditArguments,
  })
  const nameHolders = (lookup: typeof nameOf) => {
    nameOf = lookup
  }
  return { audit, nameHolders, closeAudit: () => journal.close() }
}

// ---

/** Names of tools and clients come again with every call; a text of arguments is longer, mostly. */
const MAX_REMEMBERED_CHARS = 200
const MAX_REMEMBERED = 1000

/** Returns a function that masks secrets in text, and remembers its results for short texts while the secrets are the same. */
function rememberingMask(redactor: Logging["redactor"]): (text: string) => string {
  const known = new Map<string, string>()
  let of = redactor()
  return (text) => {
    const current = redactor()
    if (text.length > MAX_REMEMBERED_CHARS) return current.maskCredentials(text)
    if (current !== of || known.size > MAX_REMEMBERED) known.clear()
    of = current
    const masked = known.get(text) ?? current.maskCredentials(text)
    known.set(text, masked)
    return masked
  }
}
