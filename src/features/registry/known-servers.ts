/**
 * Well-known servers that are part of svc, for what no registry can answer at the moment. The list is dated, and loaded only
 * then: it has the form of registry entries, so they are installed like these.
 */
import { type RegistryEntry, readEntry } from "./entry.ts"

/** What answers and questions call this list. It cannot be the name of a configured registry. */
const BUNDLED = "bundled with svc"

export type KnownServers = {
  /** The date of the list: its versions may be outdated. */
  readonly since: string
  readonly entries: readonly RegistryEntry[]
}

export async function loadKnownServers(): Promise<KnownServers> {
  const { default: list } = await import("./known-servers.json")
  return { since: list.since, entries: list.servers.flatMap((one: unknown) => readEntry(one, BUNDLED) ?? []) }
}
