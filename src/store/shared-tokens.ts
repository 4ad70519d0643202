/**
 * Tokens of clients in the state that replicas share. Each replica has its file of tokens; what changes in one while svc runs
 * holds for all.
 *
 *  1. A token that another replica created is accepted besides those of the own file. A revoked one is refused for good,
 *     whatever a file says: its id is never used again.
 *  2. What a file holds when svc starts is not shared: a file that a replica brings back from a backup must not open the others.
 *  3. A change that could not be written is written when the state is back, and again if the state has lost it.
 *  4. Entries are sealed with a key from SVC_STATE_KEY. Without it, who can write to Redis can create tokens: `onunsealed` says
 *     so once. With it, other entries are ignored, and `onforeign` says so once.
 */
import { type ClientToken, parseToken } from "./client-tokens.ts"
import { derivedSealer } from "./secret-store.ts"
import type { SharedState } from "./shared-state.ts"

export type SharedTokensDeps = {
  readonly state: SharedState
  /** SVC_STATE_KEY */
  readonly stateKey: string | undefined
  /** Tells the other replicas to `sync`. */
  tell(): void
  /** Tokens of other replicas were created, changed or revoked. */
  onchange(): void
  onunsealed(): void
  onforeign(): void
}

export type SharedTokens = {
  /** Returns the tokens that this replica accepts if its file holds `filed`. */
  merge(filed: ReadonlyMap<string, ClientToken>): ReadonlyMap<string, ClientToken>
  /** Takes a change of the own file: a token as it is now, or undefined if it was removed. */
  changed(id: string, token: ClientToken | undefined): void
  /** Reads the shared tokens and writes what they lack. Never rejects: while the state is away, what is known holds. */
  sync(): Promise<void>
  close(): void
}

/** Opens the tokens, and follows the state of the connection. Reads nothing before the first `sync`. */
export function createSharedTokens(deps: SharedTokensDeps): SharedTokens {
  const { state } = deps
  const sealing = deps.stateKey === undefined ? undefined : derivedSealer(deps.stateKey, SALT)
  const known = new Map<string, Known>()
  /** Ids of changes that are not written yet. */
  const unwritten = new Set<string>()
  const said = new Set<() => void>()
  const sayOnce = (say: () => void) => {
    if (!said.has(say)) say()
    said.add(say)
  }
  const print = async (token: Known): Promise<string> => {
    if (token === REVOKED) return REVOKED
    const text = JSON.stringify(token)
    if (sealing === undefined) sayOnce(deps.onunsealed)
    return (await sealing)?.seal(text) ?? text
  }
  const parse = async (id: string, text: string): Promise<Known | undefined> => {
    if (text === REVOKED) return REVOKED
    const token = parseToken(sealing === undefined ? text : ((await sealing)?.open(text) ?? ""))
    if (token?.id === id) return token
    sayOnce(deps.onforeign)
    return undefined
  }
  const exchange = async (): Promise<void> => {
    const record = (await state.read(KEY)) ?? {}
    let isChanged = false
    for (const [id, text] of Object.entries(record)) {
      const before = known.get(id)
      // A revocation holds at once, a change of this replica until it is written.
      if (before === REVOKED || (unwritten.has(id) && text !== REVOKED)) continue
      const found = await parse(id, text)
      if (found === undefined || JSON.stringify(found) === JSON.stringify(before)) continue
      known.set(id, found)
      unwritten.delete(id)
      isChanged = true
    }
    if (isChanged) deps.onchange()
    let isWritten = false
    for (const [id, value] of known) {
      const stored = record[id]
      const isWanted = unwritten.has(id) || stored === undefined || value === REVOKED
      if (!isWanted || stored === REVOKED) continue
      const text = await print(value)
      // Nothing may take the place of a revocation.
      if (value === REVOKED) await state.write(KEY, { [id]: text })
      else if (!(await state.swap(KEY, id, stored, text))) return exchange()
      isWritten = true
      if (known.get(id) === value) unwritten.delete(id)
    }
    if (isWritten) deps.tell()
  }
  // One after the other: each takes what came before it.
  let running: Promise<void> = Promise.resolve()
  const sync = (): Promise<void> => {
    running = running.then(exchange).catch(() => undefined)
    return running
  }
  const end = state.onstate((connected) => {
    if (connected) void sync()
  })
  return {
    merge(filed) {
      const merged = new Map(filed)
      for (const [id, token] of known)
        if (token === REVOKED) merged.delete(id)
        else merged.set(id, token)
      return merged
    },
    changed(id, token) {
      const before = known.get(id)
      // What has come from another replica is written to the file, too.
      if (before === REVOKED || (token !== undefined && JSON.stringify(before) === JSON.stringify(token))) return
      known.set(id, token ?? REVOKED)
      unwritten.add(id)
      void sync()
    },
    sync,
    close: end,
  }
}

// ---

const KEY = "tokens"
const SALT = "svc cluster"
const REVOKED = "revoked"

type Known = ClientToken | typeof REVOKED
