/**
 * The one door, as tools go through it: edit the documents and reload, in the same moment. Changes that wait for a server
 * to connect come one after the other.
 */
import type { Reloaded } from "../agent/reload.ts"
import { parseDotenv } from "../config/dotenv.ts"
import type { World } from "../config/plan.ts"
import type { Clock } from "../lib/clock.ts"
import { createShelf, type Shelf } from "../store/bundles.ts"
import type { Paths } from "../store/paths.ts"
import { type Change, changeDocuments, type Done, readWritten, type Written } from "../store/transaction.ts"

export type Door = {
  /** The files of bundles that servers run from. */
  readonly shelf: Shelf
  read(): Written
  /** What the documents are planned with, `.env` as given. */
  world(dotenv: string): World
  /** Writes, then reloads. A change with the name of a server is on trial until it is kept or undone. */
  change(change: Change, trial?: string): Promise<{ readonly done: Done; readonly reloaded: Reloaded }>
  reload(): Reloaded
  /** Runs one after the other. */
  exclusive<T>(run: () => Promise<T>): Promise<T>
}

export type DoorDeps = {
  readonly paths: Paths
  readonly clock: Clock
  readonly world: Omit<World, "dotenv">
  reload(): Reloaded
}

export function createDoor({ paths, clock, world, reload }: DoorDeps): Door {
  let last: Promise<unknown> = Promise.resolve()
  return {
    shelf: createShelf(paths, clock),
    read: () => readWritten(paths),
    world: (dotenv) => ({ ...world, dotenv: parseDotenv(dotenv, paths.dotenv) }),
    async change(change, trial) {
      const done = await changeDocuments(paths, change, clock, trial)
      return { done, reloaded: reload() }
    },
    reload,
    exclusive(run) {
      const next = last.then(run)
      last = next.catch(() => undefined)
      return next
    },
  }
}
