/**
 * Edits the documents for tools: writes each change and reloads the configuration at once. Changes that wait for a server to
 * connect run one after the other.
 */
import type { ReloadResult } from "../../agent/reload.ts"
import { parseDotenv } from "../../config/dotenv.ts"
import type { HostEnvironment } from "../../config/plan.ts"
import type { Clock } from "../../lib/clock.ts"
import { type BundleStore, createBundleStore } from "../../store/bundles.ts"
import type { Paths } from "../../store/paths.ts"
import {
  type AppliedChange,
  changeDocuments,
  type DocumentChange,
  readDocuments,
  type WrittenDocuments,
} from "../../store/transaction.ts"

export type ConfigEditor = {
  /** The files of the bundles from which servers run. */
  readonly bundleStore: BundleStore
  read(): WrittenDocuments
  /** Returns the environment for planning the documents, with a text of `.env`. */
  world(dotenv: string): HostEnvironment
  /** Writes a change, then reloads. With `trial`, a server's name, the change is on trial until it is kept or undone. */
  change(
    change: DocumentChange,
    trial?: string,
  ): Promise<{ readonly done: AppliedChange; readonly reloaded: ReloadResult }>
  reload(): Promise<ReloadResult>
  /** Runs functions one after the other; a rejection does not block the next one. */
  exclusive<T>(run: () => Promise<T>): Promise<T>
}

export type ConfigEditorDeps = {
  readonly paths: Paths
  readonly clock: Clock
  readonly world: Omit<HostEnvironment, "dotenv">
  reload(): Promise<ReloadResult>
}

export function createConfigEditor({ paths, clock, world, reload }: ConfigEditorDeps): ConfigEditor {
  let last: Promise<unknown> = Promise.resolve()
  return {
    bundleStore: createBundleStore(paths, clock),
    read: () => readDocuments(paths),
    world: (dotenv) => ({ ...world, dotenv: parseDotenv(dotenv, paths.dotenv) }),
    async change(change, trial) {
      const done = await changeDocuments(paths, change, clock, trial)
      return { done, reloaded: await reload() }
    },
    reload,
    exclusive(run) {
      const next = last.then(run)
      last = next.catch(() => undefined)
      return next
    },
  }
}
