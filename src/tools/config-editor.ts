/**
 * The one door, as tools go through it: edit the documents and reload, in the same moment. Changes that wait for a server
 * to connect come one after the other.
 */
import type { ReloadResult } from "../agent/reload.ts"
import { parseDotenv } from "../config/dotenv.ts"
import type { World } from "../config/plan.ts"
import type { Clock } from "../lib/clock.ts"
import { type BundleStore, createBundleStore } from "../store/bundles.ts"
import type { Paths } from "../store/paths.ts"
import {
  type AppliedChange,
  changeDocuments,
  type DocumentChange,
  readDocuments,
  type WrittenDocuments,
} from "../store/transaction.ts"

export type ConfigEditor = {
  /** The files of bundles that servers run from. */
  readonly bundleStore: BundleStore
  read(): WrittenDocuments
  /** What the documents are planned with, `.env` as given. */
  world(dotenv: string): World
  /** Writes, then reloads. A change with the name of a server is on trial until it is kept or undone. */
  change(
    change: DocumentChange,
    trial?: string,
  ): Promise<{ readonly done: AppliedChange; readonly reloaded: ReloadResult }>
  reload(): ReloadResult
  /** Runs one after the other. */
  exclusive<T>(run: () => Promise<T>): Promise<T>
}

export type ConfigEditorDeps = {
  readonly paths: Paths
  readonly clock: Clock
  readonly world: Omit<World, "dotenv">
  reload(): ReloadResult
}

export function createConfigEditor({ paths, clock, world, reload }: ConfigEditorDeps): ConfigEditor {
  let last: Promise<unknown> = Promise.resolve()
  return {
    bundleStore: createBundleStore(paths, clock),
    read: () => readDocuments(paths),
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
