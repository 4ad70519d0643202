/** The signals that ask a command to end. */
import { Interrupted } from "./errors.ts"

export type Interrupt = {
  /** Aborts at the first signal, with its name as the reason, so that the command can undo unfinished work. */
  readonly signal: AbortSignal
  /** Rejects with Interrupted at the second signal: the command ends without waiting for anything. */
  readonly forced: Promise<never>
  /** Acts as a signal does, with `reason` in place of the signal's name. */
  interrupt(reason: string): void
}

/** Follows the signals until the process ends. */
export function watchInterrupts(names: readonly NodeJS.Signals[] = ["SIGINT", "SIGTERM", "SIGHUP"]): Interrupt {
  const controller = new AbortController()
  const { promise: forced, reject } = Promise.withResolvers<never>()
  // Prevents an unhandled rejection: a command that has returned no longer waits for the promise.
  forced.catch(() => undefined)
  const interrupt = (reason: string) => {
    if (controller.signal.aborted) reject(new Interrupted("shutdown"))
    else controller.abort(reason)
  }
  for (const name of names) process.on(name, () => interrupt(name))
  return { signal: controller.signal, forced, interrupt }
}
