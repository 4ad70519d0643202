/**
 * Keeps the pins of tools in the shared state: the first replica that sees a tool pins it for all. An approval on one replica
 * counts on all, even on those that see the change later.
 *
 *  1. Each replica also has its own pins, which count while the state is away. A definition that is pinned in either place has
 *     not changed: replicas may run different versions of a server for a while.
 *  2. If two replicas see a new tool at the same time, the first one that writes its pin wins. The other drops its pin, and treats
 *     the tool as changed.
 *  3. Beyond MAX_PINS, each replica pins new tools for itself. Approvals are always shared.
 */
import { BoundedMap } from "../lib/bounded-map.ts"
import type { SharedState } from "./shared-state.ts"
import { createSync, type Sync } from "./shared-sync.ts"
import type { OwnToolPins, ToolPins } from "./tool-pins.ts"

/** A tool of a server with the fingerprint of the definition that another replica pinned. */
export type PinnedElsewhere = { readonly server: string; readonly tool: string; readonly hash: string }

export type SharedPinsDeps = {
  readonly own: OwnToolPins
  readonly state: SharedState
  /** Makes the other replicas `sync`. */
  tell(): void
  /** Called when other replicas have pinned tools of servers that this one has listed. */
  onpinned(pins: readonly PinnedElsewhere[]): void
}

/** Returns the pins, which are only those of this replica until the first `sync`. */
export function createSharedPins({ own, state, tell, onpinned }: SharedPinsDeps): ToolPins & Sync {
  const pinned = new Map<string, string>()
  /** Pins of new tools, and keys of approvals, that are not written yet. */
  const proposed = new Map<string, string>()
  const approved = new Set<string>()
  /** Keys of tools that this replica pinned first, whose pins may still be replaced by another replica's. */
  const fresh = new Set<string>()
  const listed = new BoundedMap<string, ReadonlyMap<string, string>>(MAX_SERVERS)
  const take = (key: string, hash: string): PinnedElsewhere[] => {
    const [server, tool] = JSON.parse(key) as [string, string]
    pinned.set(key, hash)
    proposed.delete(key)
    if (fresh.delete(key) && own.pinned(server).get(tool) !== hash) own.pin(server, tool, hash)
    return listed.has(server) ? [{ server, tool, hash }] : []
  }
  const exchange = async (): Promise<void> => {
    const record = (await state.read(KEY)) ?? {}
    const taken: PinnedElsewhere[] = []
    for (const [key, hash] of Object.entries(record))
      if (pinned.get(key) !== hash && !approved.has(key)) taken.push(...take(key, hash))
    if (taken.length > 0) onpinned(taken)
    const lost = [...pinned].filter(([key]) => record[key] === undefined)
    const first = [...new Map([...lost, ...proposed])].filter(([key]) => !approved.has(key))
    const approvals = [...approved].flatMap((key) => [[key, pinned.get(key) ?? ""] as const])
    if (first.length + approvals.length === 0) return
    const won = await Promise.all(first.map(([key, hash]) => state.swap(KEY, key, undefined, hash)))
    first.forEach(([key, hash], at) => {
      if (!won[at]) return
      pinned.set(key, hash)
      proposed.delete(key)
      fresh.delete(key)
    })
    if (approvals.length > 0) await state.write(KEY, Object.fromEntries(approvals))
    for (const [key, hash] of approvals) if (pinned.get(key) === hash) approved.delete(key)
    tell()
    if (won.includes(false)) await exchange()
  }
  const { sync, close } = createSync(state, exchange)
  return {
    check(server, tools, definitionOf) {
      listed.set(server, tools)
      const before = own.pinned(server)
      for (const tool of tools.keys()) {
        const hash = pinned.get(keyOf(server, tool))
        if (hash !== undefined && !before.has(tool)) own.pin(server, tool, hash)
      }
      const changed = own.check(server, tools, definitionOf)
      const now = own.pinned(server)
      for (const tool of tools.keys()) {
        const [key, hash] = [keyOf(server, tool), now.get(tool)]
        if (hash === undefined || pinned.has(key) || pinned.size + proposed.size >= MAX_PINS) continue
        proposed.set(key, hash)
        if (!before.has(tool)) fresh.add(key)
      }
      if (proposed.size > 0) void sync()
      return changed.filter((tool) => {
        const hash = tools.get(tool)
        const isPinned = hash !== undefined && pinned.get(keyOf(server, tool)) === hash
        return !isPinned || own.approve(server, tool, hash).length === 0
      })
    },
    approve(server, tool, hash) {
      const names = own.approve(server, tool, hash)
      for (const name of names) {
        const now = listed.get(server)?.get(name)
        const key = keyOf(server, name)
        if (now === undefined || pinned.get(key) === now) continue
        pinned.set(key, now)
        approved.add(key)
      }
      if (approved.size > 0) void sync()
      return names
    },
    definitions: (servers) => own.definitions(servers),
    sync,
    close,
  }
}

// ---

const KEY = "pins"
const MAX_PINS = 20_000
const MAX_SERVERS = 1000

const keyOf = (server: string, tool: string): string => JSON.stringify([server, tool])
