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
import type { Clock } from "../../lib/clock.ts"
import type { ClusterTokens } from "../../serve/cluster.ts"
import { type ClientToken, isSameToken, NO_TOKENS, parseToken, revokedUntil } from "../../store/client-tokens.ts"
import { createStateSeal, SharedDocument } from "./shared-document.ts"
import type { SharedState } from "./shared-state.ts"

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

export type SharedTokens = Omit<ClusterTokens, "catchUp"> & {
  /** Resolves when the shared state was read once more. Stays pending while that fails. */
  refresh(): Promise<void>
}

/** Returns the tokens, and starts to follow the state of the connection. Reads nothing before the first `sync`. */
export function createSharedTokens({ clock, ...deps }: SharedTokensDeps): SharedTokens {
  const seal = createStateSeal(deps.stateKey, deps.onunsealed)
  let own = NO_TOKENS
  let hasWarned = false
  const isOver = (value: Known) => isRevoked(value) && value.revokedUntil <= clock.now()
  const document: SharedDocument<Known> = new SharedDocument(deps.state, {
    key: "tokens",
    async parse(id, text) {
      const end = revocationIn(text)
      if (end !== undefined) return end <= clock.now() ? undefined : { revokedUntil: end }
      const token = parseToken(deps.stateKey === undefined ? text : ((await seal.open(text)) ?? ""))
      if (token?.id === id) return token
      if (!hasWarned) deps.onforeign()
      hasWarned = true
      return undefined
    },
    async print(value) {
      if (isRevoked(value)) return `revoked ${value.revokedUntil}`
      const text = JSON.stringify(value)
      return (await seal.seal(text)) ?? text
    },
    merge: (id, found, mine = own.tokens.get(id)) => mergeTokens(found, mine, clock.now()),
    isFinal: (_, value) => isRevoked(value),
    over(record) {
      for (const [id, value] of known) if (isOver(value)) document.forget(id)
      return Object.keys(record).filter((id) => (revocationIn(record[id]) ?? Number.POSITIVE_INFINITY) <= clock.now())
    },
    onchange: deps.onchange,
    tell: deps.tell,
  })
  const { known, sync, refresh, close } = document
  const set = (id: string, value: Known) => {
    document.set(id, value)
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
    refresh,
    sync,
    close,
  }
}

// ---

/** A revocation, with its end in milliseconds since the epoch. */
type Revocation = { readonly revokedUntil: number }
type Known = ClientToken | Revocation

const isRevoked = (value: Known | undefined): value is Revocation => value !== undefined && "revokedUntil" in value

const versionOf = ({ changed, created }: ClientToken): number => Date.parse(changed ?? created)

const changedAt = (token: ClientToken, at: number): ClientToken => ({ ...token, changed: new Date(at).toISOString() })

/** Returns which of two entries of a token counts: `found`, in the shared state, or `mine`. A revocation is final. Rule 4. */
export function mergeTokens(found: Known, mine: Known | undefined, now: number): Known {
  if (isRevoked(found) || mine === undefined) return found
  if (isRevoked(mine)) return mine
  const [own, theirs] = [versionOf(mine), versionOf(found)]
  if (own === theirs && !isSameToken(mine, found)) return changedAt(mine, Math.max(now, theirs + 1))
  return own > theirs ? mine : found
}

/** Returns the end of the revocation in a text, in milliseconds since the epoch; undefined if it is none. */
function revocationIn(text = ""): number | undefined {
  const end = /^revoked (\d{1,15})$/.exec(text)?.[1]
  return end === undefined ? undefined : Number(end)
}
