/** The access log of a running svc: the file that `--access-log` names, or stdout. */
import { systemClock } from "../lib/clock.ts"
import type { Journal } from "../lib/journal.ts"
import { type AccessLog, createAccessLog } from "../serve/access-log.ts"
import { followingMask } from "../session/masked-arguments.ts"
import type { Logging } from "./logging.ts"
import type { Runtime } from "./runtime.ts"

export type OpenAccessLog = AccessLog & {
  /** Writes the remaining lines. */
  close(): Promise<void>
}

/** Opens the access log at a path; `-` is stdout. Rejects with an UnavailableError if the file cannot be written. */
export async function openAccessLog(
  path: string,
  { log, redactor, traces }: Pick<Runtime, "log" | "redactor" | "traces">,
  clientOf: (socket: string, request: Request) => string,
): Promise<OpenAccessLog> {
  const journal = path === "-" ? stdoutJournal() : await openFile(path, log)
  const middleware = createAccessLog({
    write: journal.add,
    now: () => systemClock.now(),
    ticks: () => performance.now(),
    addressOf: ({ request, address }) => clientOf(address(), request),
    mask: followingMask(() => redactor().maskCredentials),
    traceOf: traces?.traceOf,
  })
  return { ...middleware, close: () => journal.close() }
}

// ---

const stdoutJournal = (): Journal => ({
  add: (line) => void process.stdout.write(`${line.text()}\n`),
  close: async () => undefined,
})

async function openFile(path: string, log: Logging["log"]): Promise<Journal> {
  const { openJournal } = await import("../lib/journal.ts")
  return openJournal({
    path,
    clock: systemClock,
    onfail: (reason) => log.error(`the access log has a gap: ${reason}`),
    lost: (lost) => JSON.stringify({ time: new Date(systemClock.now()).toISOString(), method: "svc/access", lost }),
  })
}
