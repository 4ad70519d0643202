/** Synchronizes a replica with the shared state: one exchange at a time, and one whenever the state is back. */
import type { SharedState } from "./shared-state.ts"

export type Sync = {
  /** Runs the exchange. Never rejects: while the state is away, the replica keeps what it has. */
  sync(): Promise<void>
  close(): void
}

/** Returns the synchronization. `exchange` reads the shared state and writes what it lacks; it rejects while the state is away. */
export function createSync(state: Pick<SharedState, "onstate">, exchange: () => Promise<void>): Sync {
  // One at a time: each exchange includes the changes before it.
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
