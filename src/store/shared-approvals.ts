/**
 * Approvals of changed tools that replicas share: what is approved on one replica is approved on all, also on one that sees
 * the change later. Each replica keeps pins of its own: replicas may run different versions of a server for a while.
 */
import { BoundedMap } from "../lib/bounded-map.ts"
import type { SharedState } from "./shared-state.ts"
import type { ToolPins } from "./tool-pins.ts"

export type SharedApprovalsDeps = {
  readonly own: ToolPins
  readonly state: SharedState
  /** Tells the other replicas to `sync`. */
  tell(): void
  /** Another replica approved the definition with the fingerprint `hash` of a tool. */
  onapproved(server: string, tool: string, hash: string): void
}

/** Returns this replica's pins, which follow the approvals of all. Reads the shared ones now, and each time the state is back. */
export function createSharedApprovals({ own, state, tell, onapproved }: SharedApprovalsDeps): ToolPins & {
  /** Reads the shared approvals and writes what they lack. Never rejects. */
  sync(): Promise<void>
} {
  const approvals = new Map<string, string>()
  /** Keys of approvals that are not written yet. */
  const unwritten = new Set<string>()
  const listed = new BoundedMap<string, ReadonlyMap<string, string>>(MAX_SERVERS)
  const exchange = async (): Promise<void> => {
    const record = (await state.read(KEY)) ?? {}
    for (const [key, hash] of Object.entries(record)) {
      if (approvals.get(key) === hash || unwritten.has(key)) continue
      approvals.set(key, hash)
      const [server, tool] = JSON.parse(key) as [string, string]
      onapproved(server, tool, hash)
    }
    const missing = [...approvals].filter(([key]) => unwritten.has(key) || record[key] === undefined)
    if (missing.length === 0) return
    await state.write(KEY, Object.fromEntries(missing))
    for (const [key, hash] of missing) if (approvals.get(key) === hash) unwritten.delete(key)
    tell()
  }
  // One after the other: each takes what came before it.
  let running: Promise<void> = Promise.resolve()
  const sync = (): Promise<void> => {
    running = running.then(exchange).catch(() => undefined)
    return running
  }
  state.onstate((connected) => {
    if (connected) void sync()
  })
  void sync()
  return {
    check(server, tools, definitionOf) {
      listed.set(server, tools)
      const changed = own.check(server, tools, definitionOf)
      return changed.filter((tool) => {
        const hash = tools.get(tool)
        const isApproved = hash !== undefined && approvals.get(keyOf(server, tool)) === hash
        return !isApproved || own.approve(server, tool, hash).length === 0
      })
    },
    approve(server, tool, hash) {
      const approved = own.approve(server, tool, hash)
      for (const name of approved) {
        const now = listed.get(server)?.get(name)
        const key = keyOf(server, name)
        if (now === undefined || approvals.get(key) === now) continue
        approvals.set(key, now)
        unwritten.add(key)
      }
      if (unwritten.size > 0) void sync()
      return approved
    },
    definitions: (server) => own.definitions(server),
    sync,
  }
}

// ---

const KEY = "approvals"
const MAX_SERVERS = 1000

const keyOf = (server: string, tool: string): string => JSON.stringify([server, tool])
