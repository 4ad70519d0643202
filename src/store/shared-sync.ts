/** Keeps what a replica knows in step with the shared state: one exchange after the other, and one whenever the state is back. */
import type { SharedState } from "./shared-state.ts"

export type Sync = {
  /** Runs the exchange. Never rejects: while the state is away, what is known here holds. */
  sync(): Promise<void>
  close(): void
}

/** `exchange` reads the shared state and writes what it lacks. It rejects while the state is away. */
export function createSync(state: Pick<SharedState, "onstate">, exchange: () => Promise<void>): Sync {
  // One after the other: each takes what came before it.
  let running: Promise<void> = Promise.resolve()
  const sync = (): Promise<void> => {
    running = running.then(exchange).catch(() => undefined)
    return running
  }
  const close = state.onstate((connected) => {
    if (connected) void sync()
  })
  return { sync, close }
}
