/**
 * Keeps client tokens in the shared state. Each replica has its own file of tokens; a change to one file while svc runs counts on
 * all replicas.
 *
 *  1. A replica accepts the tokens of its own file, and those that others created. A revoked token is refused, whatever a file
 *     says, until it would have expired, or for a year if it does not expire.
 *  2. Files keep revocations too: one that was made while svc was stopped, or that the state has lost, is shared at the start.
 *  3. Tokens that a file has when svc starts are not shared: a file that was restored from a backup must not add tokens to other
 *     replicas. An entry that the others already know is shared if it was edited since.
 *  4. Of two changes of a token the newer one counts. A change that is noticed while svc runs gets the time at which it is noticed.
 *     An entry that differs from one of the same time was edited while svc was stopped, and is newer.
 *  5. A change that could not be written is written when the state is back, and again if the state has lost it.
 *  6. Entries are sealed with a key from SVC_STATE_KEY. Without it, anyone who can write to Redis can create tokens, and
 *     `onunsealed` is called once. With it, other entries are ignored, and `onforeign` is called once.
 */
import { isDeepStrictEqual } from "node:util"
import type { Clock } from "../lib/clock.ts"
import { type ClientToken, isSameToken, NO_TOKENS, parseToken, revokedUntil, type TokenFile } from "./client-tokens.ts"
import { derivedSealer } from "./secret-store.ts"
import type { SharedState } from "./shared-state.ts"
import { createSync, type Sync } from "./shared-sync.ts"

export type SharedTokensDeps = {
  readonly state: SharedState
  /** SVC_STATE_KEY */
  readonly stateKey: string | undefined
  readonly clock: Pick<Clock, "now">
  /** Makes the other replicas `sync`. */
  tell(): void
  /** Called when tokens were created, changed or revoked elsewhere, or an entry is newer here. */
  onchange(): void
  onunsealed(): void
  onforeign(): void
}

export type SharedTokens = Sync & {
  /** Takes the present content of the own file. */
  follow(file: TokenFile): void
  /** Returns the content that the own file should have, given that it has `file`. */
  merge(file: TokenFile): TokenFile
  /** Takes a token of the own file that was created while svc runs. */
  created(token: ClientToken): void
  /** Takes a token of the own file that was changed while svc runs. */
  changed(token: ClientToken): void
  /** Takes a token that was removed from the own file while svc runs. */
  revoked(token: ClientToken): void
  /** Resolves when the shared state was read once more. Stays pending while that fails. */
  refresh(): Promise<void>
}

/** Returns the tokens, and starts to follow the state of the connection. Reads nothing before the first `sync`. */
export function createSharedTokens(deps: SharedTokensDeps): SharedTokens {
  const { state, clock } = deps
  const sealing = deps.stateKey === undefined ? undefined : derivedSealer(deps.stateKey, SALT)
  const known = new Map<string, Known>()
  /** Ids of changes that are not written yet. */
  const unwritten = new Set<string>()
  let own = NO_TOKENS
  const warned = new Set<() => void>()
  const warnOnce = (warn: () => void) => {
    if (!warned.has(warn)) warn()
    warned.add(warn)
  }
  const print = async (token: Known): Promise<string> => {
    if (isRevoked(token)) return `revoked ${token.revokedUntil}`
    const text = JSON.stringify(token)
    if (sealing === undefined) warnOnce(deps.onunsealed)
    return (await sealing)?.seal(text) ?? text
  }
  const parse = async (id: string, text: string): Promise<Known | undefined> => {
    const end = revocationIn(text)
    if (end !== undefined) return { revokedUntil: end }
    const token = parseToken(sealing === undefined ? text : ((await sealing)?.open(text) ?? ""))
    if (token?.id === id) return token
    warnOnce(deps.onforeign)
    return undefined
  }
  const isOver = (value: Known) => isRevoked(value) && value.revokedUntil <= clock.now()
  /** Takes an entry of the shared state. Returns whether it changed what this replica knows. */
  const take = (id: string, found: Known): boolean => {
    const before = known.get(id)
    // A revocation is final.
    if (isRevoked(before) || isOver(found)) return false
    const mine = before ?? own.tokens.get(id)
    const newest = isRevoked(found) || mine === undefined ? found : newerOf(mine, found, clock.now())
    if (newest === found) unwritten.delete(id)
    else unwritten.add(id)
    if (isDeepStrictEqual(newest, before)) return false
    known.set(id, newest)
    return true
  }
  const waiting: (() => void)[] = []
  const exchange = async (): Promise<void> => {
    const waited = waiting.length
    const record = (await state.read(KEY)) ?? {}
    const found = await Promise.all(
      Object.entries(record).map(async ([id, text]) => [id, await parse(id, text)] as const),
    )
    // Without waiting in between: a change that arrives meanwhile would be overwritten.
    const news = found.filter(([id, value]) => value !== undefined && take(id, value))
    if (news.length > 0) deps.onchange()
    for (const done of waiting.splice(0, waited)) done()
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
  const set = (id: string, value: Known) => {
    known.set(id, value)
    unwritten.add(id)
    void sync()
  }
  const changed = (token: ClientToken) => {
    const before = known.get(token.id)
    // A change of another replica is written to the file too, and must not be taken for a new one.
    if (isRevoked(before) || (before !== undefined && isSameToken(before, token))) return
    set(token.id, changedAt(token, Math.max(clock.now(), versionOf(before ?? token) + 1)))
  }
  return {
    follow(file) {
      own = file
      for (const [id, until] of file.revoked)
        if (!isRevoked(known.get(id)) && until > clock.now()) set(id, { revokedUntil: until })
    },
    merge({ tokens, revoked }) {
      const kept = [...revoked].filter(([, until]) => until > clock.now())
      const merged = { tokens: new Map(tokens), revoked: new Map(kept) }
      for (const [id, value] of known)
        if (isOver(value)) continue
        else if (isRevoked(value)) {
          merged.tokens.delete(id)
          merged.revoked.set(id, value.revokedUntil)
        } else if (!revoked.has(id)) {
          const filed = tokens.get(id)
          // An edit of the file may not have been noticed yet.
          const isNewer = filed !== undefined && versionOf(filed) >= versionOf(value)
          merged.tokens.set(id, isNewer ? filed : value)
        }
      return merged
    },
    created(token) {
      if (known.has(token.id)) changed(token)
      else set(token.id, token)
    },
    changed,
    revoked(token) {
      if (!isRevoked(known.get(token.id))) set(token.id, { revokedUntil: revokedUntil(token, clock.now()) })
    },
    refresh() {
      const { promise, resolve } = Promise.withResolvers<void>()
      waiting.push(resolve)
      void sync()
      return promise
    },
    sync,
    close,
  }
}

// ---

const KEY = "tokens"
const SALT = "svc cluster"

/** A revocation, with its end in milliseconds since the epoch. */
type Revocation = { readonly revokedUntil: number }
type Known = ClientToken | Revocation

const isRevoked = (value: Known | undefined): value is Revocation => value !== undefined && "revokedUntil" in value

const versionOf = ({ changed, created }: ClientToken): number => Date.parse(changed ?? created)

const changedAt = (token: ClientToken, at: number): ClientToken => ({ ...token, changed: new Date(at).toISOString() })

/** Rule 4. */
function newerOf(mine: ClientToken, other: ClientToken, now: number): ClientToken {
  const [own, theirs] = [versionOf(mine), versionOf(other)]
  if (own === theirs && !isSameToken(mine, other)) return changedAt(mine, Math.max(now, theirs + 1))
  return own > theirs ? mine : other
}

/** Returns the end of the revocation in a text, in milliseconds since the epoch; undefined if it is none. */
function revocationIn(text = ""): number | undefined {
  const end = /^revoked (\d{1,15})$/.exec(text)?.[1]
  return end === undefined ? undefined : Number(end)
}
