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
import { BoundedMap } from "../../lib/bounded-map.ts"
import type { OwnToolPins, ToolPins } from "../../store/tool-pins.ts"
import { SharedDocument, type Sync } from "./shared-document.ts"
import type { SharedState } from "./shared-state.ts"

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
  /** Keys of tools that were approved here: their pins take the place of any other. */
  const approved = new Set<string>()
  /** Keys of tools that this replica pinned first, whose pins may still be replaced by another replica's. */
  const fresh = new Set<string>()
  const listed = new BoundedMap<string, ReadonlyMap<string, string>>(MAX_SERVERS)
  const document = new SharedDocument<string>(state, {
    key: "pins",
    parse: (_, hash) => hash,
    print: (hash) => hash,
    merge: (key, found, mine, isUnwritten) => (isUnwritten && mine !== undefined && approved.has(key) ? mine : found),
    isFinal: (key) => approved.has(key),
    onchange(changes) {
      const taken = changes.flatMap(({ field, value: hash, wasUnwritten }) => {
        const [server, tool] = JSON.parse(field) as [string, string]
        approved.delete(field)
        if (fresh.delete(field) && wasUnwritten && own.pinned(server).get(tool) !== hash) own.pin(server, tool, hash)
        return listed.has(server) ? [{ server, tool, hash }] : []
      })
      if (taken.length > 0) onpinned(taken)
    },
    tell,
  })
  const { known, sync } = document
  return {
    check(server, tools, definitionOf) {
      listed.set(server, tools)
      const before = own.pinned(server)
      for (const tool of tools.keys()) {
        const hash = known.get(keyOf(server, tool))
        if (hash !== undefined && !before.has(tool)) own.pin(server, tool, hash)
      }
      const changed = own.check(server, tools, definitionOf)
      const now = own.pinned(server)
      for (const tool of tools.keys()) {
        const [key, hash] = [keyOf(server, tool), now.get(tool)]
        if (hash === undefined || known.has(key) || known.size >= MAX_PINS) continue
        document.set(key, hash)
        if (!before.has(tool)) fresh.add(key)
      }
      if (document.hasUnwritten) void sync()
      return changed.filter((tool) => {
        const hash = tools.get(tool)
        const isPinned = hash !== undefined && known.get(keyOf(server, tool)) === hash
        return !isPinned || own.approve(server, tool, hash).length === 0
      })
    },
    approve(server, tool, hash) {
      const names = own.approve(server, tool, hash)
      for (const name of names) {
        const now = listed.get(server)?.get(name)
        const key = keyOf(server, name)
        if (now === undefined || known.get(key) === now) continue
        document.set(key, now)
        approved.add(key)
      }
      if (document.hasUnwritten) void sync()
      return names
    },
    definitions: (servers) => own.definitions(servers),
    sync,
    close: document.close,
  }
}

// ---

const MAX_PINS = 20_000
const MAX_SERVERS = 1000

const keyOf = (server: string, tool: string): string => JSON.stringify([server, tool])
