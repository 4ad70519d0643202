/**
 * Tokens of clients in the state that replicas share. Each replica has its file of tokens; what changes in one while svc runs
 * holds for all.
 *
 *  1. A token that another replica created is accepted besides those of the own file. A revoked one is refused, whatever a file
 *     says, until it would have expired; one that does not expire, for a year.
 *  2. What a file holds when svc starts is not shared: a file that a replica brings back from a backup must not open the others.
 *  3. A change that could not be written is written when the state is back, and again if the state has lost it.
 *  4. Entries are sealed with a key from SVC_STATE_KEY. Without it, who can write to Redis can create tokens: `onunsealed` says
 *     so once. With it, other entries are ignored, and `onforeign` says so once.
 */
import type { Clock } from "../lib/clock.ts"
import { type ClientToken, parseToken } from "./client-tokens.ts"
import { derivedSealer } from "./secret-store.ts"
import type { SharedState } from "./shared-state.ts"
import { createSync, type Sync } from "./shared-sync.ts"

export type SharedTokensDeps = {
  readonly state: SharedState
  /** SVC_STATE_KEY */
  readonly stateKey: string | undefined
  readonly clock: Pick<Clock, "now">
  /** Tells the other replicas to `sync`. */
  tell(): void
  /** Tokens of other replicas were created, changed or revoked. */
  onchange(): void
  onunsealed(): void
  onforeign(): void
}

export type SharedTokens = Sync & {
  /** Returns the tokens that this replica accepts if its file holds `filed`. */
  merge(filed: ReadonlyMap<string, ClientToken>): ReadonlyMap<string, ClientToken>
  /** Takes a token of the own file that was created or changed. */
  changed(token: ClientToken): void
  /** Takes a token that was removed from the own file. */
  revoked(token: ClientToken): void
}

/** Opens the tokens, and follows the state of the connection. Reads nothing before the first `sync`. */
export function createSharedTokens(deps: SharedTokensDeps): SharedTokens {
  const { state, clock } = deps
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
    if ("revokedUntil" in token) return `revoked ${token.revokedUntil}`
    const text = JSON.stringify(token)
    if (sealing === undefined) sayOnce(deps.onunsealed)
    return (await sealing)?.seal(text) ?? text
  }
  const parse = async (id: string, text: string): Promise<Known | undefined> => {
    const end = revocationIn(text)
    if (end !== undefined) return { revokedUntil: end }
    const token = parseToken(sealing === undefined ? text : ((await sealing)?.open(text) ?? ""))
    if (token?.id === id) return token
    sayOnce(deps.onforeign)
    return undefined
  }
  const isOver = (value: Known) => "revokedUntil" in value && value.revokedUntil <= clock.now()
  const exchange = async (): Promise<void> => {
    const record = (await state.read(KEY)) ?? {}
    let isChanged = false
    for (const [id, text] of Object.entries(record)) {
      const before = known.get(id)
      // A revocation holds at once, a change of this replica until it is written.
      if (isRevoked(before) || (unwritten.has(id) && revocationIn(text) === undefined)) continue
      const found = await parse(id, text)
      if (found === undefined || isOver(found) || JSON.stringify(found) === JSON.stringify(before)) continue
      known.set(id, found)
      unwritten.delete(id)
      isChanged = true
    }
    if (isChanged) deps.onchange()
    for (const [id, value] of known) if (isOver(value) && known.delete(id)) unwritten.delete(id)
    const over = Object.keys(record).filter(
      (id) => (revocationIn(record[id]) ?? Number.POSITIVE_INFINITY) <= clock.now(),
    )
    if (over.length > 0) await state.write(KEY, Object.fromEntries(over.map((id) => [id, undefined])))
    let isWritten = false
    for (const [id, value] of known) {
      const stored = record[id]
      const isWanted = unwritten.has(id) || stored === undefined || isRevoked(value)
      if (!isWanted || revocationIn(stored) !== undefined) continue
      const text = await print(value)
      // Nothing may take the place of a revocation.
      if (isRevoked(value)) await state.write(KEY, { [id]: text })
      else if (!(await state.swap(KEY, id, stored, text))) return exchange()
      isWritten = true
      if (known.get(id) === value) unwritten.delete(id)
    }
    if (isWritten) deps.tell()
  }
  const { sync, close } = createSync(state, exchange)
  const take = (id: string, value: Known) => {
    known.set(id, value)
    unwritten.add(id)
    void sync()
  }
  return {
    merge(filed) {
      const merged = new Map(filed)
      for (const [id, value] of known)
        if ("revokedUntil" in value) merged.delete(id)
        else merged.set(id, value)
      return merged
    },
    changed(token) {
      const before = known.get(token.id)
      // What has come from another replica is written to the file, too.
      if (!isRevoked(before) && JSON.stringify(before) !== JSON.stringify(token)) take(token.id, token)
    },
    revoked({ id, expires }) {
      const now = clock.now()
      // A day at least: replicas that are away for a while hear of it, and clocks differ.
      const end = expires === undefined ? now + YEAR_MS : Math.max(Date.parse(expires), now + DAY_MS)
      if (!isRevoked(known.get(id))) take(id, { revokedUntil: end })
    },
    sync,
    close,
  }
}

// ---

const KEY = "tokens"
const SALT = "svc cluster"
const DAY_MS = 24 * 3_600_000
const YEAR_MS = 365 * DAY_MS

/** A token, or when its revocation ends, in milliseconds since the epoch. */
type Known = ClientToken | { readonly revokedUntil: number }

const isRevoked = (value: Known | undefined): boolean => value !== undefined && "revokedUntil" in value

/** Returns the end of the revocation in a text, in milliseconds since the epoch; undefined if it is none. */
function revocationIn(text = ""): number | undefined {
  const end = /^revoked (\d{1,15})$/.exec(text)?.[1]
  return end === undefined ? undefined : Number(end)
}
