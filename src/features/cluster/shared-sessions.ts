/**
 * Keeps sessions in the shared state. Each session is one record; a change names the fields that changed, so that two replicas
 * can change one session.
 *
 *  1. `load` does not read the state: it returns the session that `preload` has read. That session is dropped if it ends, or if its
 *     record is gone.
 *  2. A session whose record is gone has ended on another replica, or expired. A late change does not restore it. If the state
 *     has lost everything, the first replica stores the session again, and the others their unstored changes.
 *  3. Each principal has a limited number of sessions, so that none fills Redis, or ends the sessions of others.
 *  4. A change that could not be written is written with the next one, or before a change of another replica is read.
 */
import { BoundedMap } from "../../lib/bounded-map.ts"
import { parseExact } from "../../lib/json.ts"
import {
  hashOfSession,
  type SessionStore,
  type SharedSessionOperations,
  type StoredSession,
} from "../../store/session-store.ts"
import { isObject } from "../../wire/message.ts"
import type { RecordGroup, SharedRecord, SharedState } from "./shared-state.ts"

export type SharedSessionsDeps = {
  readonly state: Pick<SharedState, "read" | "write" | "swap" | "remove">
  /** Milliseconds that an unused session is kept. */
  readonly ttl: number
  /** The most sessions of a principal on all replicas. Beyond that, the ones whose last use was stored the longest ago end. */
  readonly most: number
  /**
   * Called when this replica has changed a session's record; `fields` are the changed ones, unless there are too many to name.
   * Resolves when the other replicas have been told, or cannot be.
   */
  onchange(id: string, fields?: readonly string[]): Promise<void>
  /** Checks whether the state has lost everything; if so, calls `lost` before it resolves. Rejects with an UnavailableError. */
  checkLoss(): Promise<void>
  /** Called when a session that this replica has was ended elsewhere. */
  onended(id: string): void
}

/** Returns the store. */
export const createSharedSessions = (deps: SharedSessionsDeps): SessionStore => new SharedSessions(deps)

// ---

/** What this replica knows of a session's record: nothing, what the state has, or what the state had before it lost everything. */
type Stored =
  | { readonly kind: "new" }
  | { readonly kind: "stored"; readonly record: SharedRecord }
  | { readonly kind: "lost"; readonly record: SharedRecord }

/** A session that this replica has. */
type Entry = {
  stored: Stored
  /** The last write, while it or one before it is under way. */
  writing: Promise<void> | undefined
  /** The latest change that waits for a write, and the latest that could not be written. */
  waiting: StoredSession | undefined
  unwritten: StoredSession | undefined
}

class SharedSessions implements SessionStore, SharedSessionOperations {
  readonly shared = this
  private readonly fetched = new BoundedMap<string, StoredSession>(MAX_FETCHED)
  private readonly entries = new Map<string, Entry>()
  /** How often the state has lost everything. */
  private losses = 0

  constructor(private readonly deps: SharedSessionsDeps) {}

  load(id: string): StoredSession | undefined {
    const found = this.fetched.get(id)
    this.fetched.delete(id)
    if (found !== undefined) this.entry(id).stored = { kind: "stored", record: recordOf(found) }
    return found
  }

  save(id: string, session: StoredSession): void {
    const entry = this.entry(id)
    const isWaiting = entry.waiting !== undefined
    entry.waiting = session
    if (isWaiting) return
    // One at a time: each writes the differences from the one before.
    let latest = session
    const writing = settled(entry.writing).then(() => {
      latest = entry.waiting ?? session
      entry.waiting = undefined
      return this.write(id, entry, latest)
    })
    entry.writing = writing
    const settle = (isWritten: boolean) => {
      if (isWritten) entry.unwritten = undefined
      // A later write includes this one.
      if (entry.writing !== writing) return
      entry.writing = undefined
      if (!isWritten) entry.unwritten = latest
    }
    writing.then(
      () => settle(true),
      () => settle(false),
    )
  }

  remove(id: string): void {
    // Several requests may have preloaded it, but only one has loaded it.
    this.fetched.delete(id)
    const entry = this.entries.get(id)
    // Its last change is written as a change to the stored record.
    if (entry?.writing === undefined) this.entries.delete(id)
    else void settled(entry.writing).then(() => this.entries.delete(id))
  }

  close(): void {
    this.fetched.clear()
  }

  async preload(id: string): Promise<boolean> {
    let isFound = false
    await this.read(id, undefined, (record) => {
      const session = record && sessionIn(record)
      isFound = session !== undefined
      if (session === undefined) this.fetched.delete(id)
      else this.fetched.set(id, session)
    })
    return isFound
  }

  async reread(...[id, fields, take]: Parameters<SharedSessionOperations["reread"]>): Promise<void> {
    await this.whenWritten(id)
    const late = this.entries.get(id)?.unwritten
    if (late !== undefined) {
      this.save(id, late)
      await this.stored(id)
    }
    await this.read(id, fields, (record) => {
      const session = record && sessionIn(record)
      if (take(session) && session !== undefined) this.entry(id).stored = { kind: "stored", record: recordOf(session) }
    })
  }

  lost(): void {
    this.losses++
    for (const entry of this.entries.values())
      if (entry.stored.kind === "stored") entry.stored = { kind: "lost", record: entry.stored.record }
  }

  stored(id: string): Promise<void> {
    return this.entries.get(id)?.writing ?? Promise.resolve()
  }

  async adopt(id: string, gone: string, replica: string): Promise<boolean> {
    const isAdopted = await this.deps.state.swap(keyOf(id), "home", gone, replica)
    if (isAdopted) await this.deps.onchange(id, ["home"])
    return isAdopted
  }

  async end(id: string): Promise<void> {
    await settled(this.stored(id))
    const session = sessionIn(this.recordIn(id) ?? {})
    await this.deps.state.remove(keyOf(id), session && this.groupOf(session))
    const entry = this.entries.get(id)
    if (entry !== undefined) entry.stored = { kind: "new" }
  }

  // ---

  private entry(id: string): Entry {
    const entry = this.entries.get(id) ?? {
      stored: { kind: "new" },
      writing: undefined,
      waiting: undefined,
      unwritten: undefined,
    }
    this.entries.set(id, entry)
    return entry
  }

  /** Returns the record of a session as the state has it, as far as this replica knows. */
  private recordIn(id: string): SharedRecord | undefined {
    const stored = this.entries.get(id)?.stored
    return stored?.kind === "stored" ? stored.record : undefined
  }

  private groupOf({ principal }: StoredSession): RecordGroup {
    return { name: `sessions ${principal}`, most: this.deps.most }
  }

  private async whenWritten(id: string): Promise<void> {
    for (;;) {
      const writing = this.entries.get(id)?.writing
      if (writing === undefined) return
      await settled(writing)
    }
  }

  private async write(id: string, entry: Entry, session: StoredSession): Promise<void> {
    const { state, ttl, checkLoss, onchange, onended } = this.deps
    const { losses } = this
    const { stored } = entry
    const before = stored.kind === "new" ? undefined : stored.record
    const after = recordOf(session)
    const changes = changesBetween(before ?? {}, after)
    const put = (fields: Parameters<SharedState["write"]>[1], require: "absent" | "present") =>
      state.write(keyOf(id), fields, { ttl, require, group: this.groupOf(session) })
    const isNew = stored.kind !== "stored" && (await put(after, "absent"))
    // After a loss, another replica may have stored it first.
    const isThere = isNew || before === undefined || (await put(changes, "present"))
    if (!isThere) await checkLoss()
    // The state was lost meanwhile: the next write stores the session as new.
    if (losses !== this.losses) return
    if (!isThere) {
      entry.stored = { kind: "new" }
      onended(id)
      return
    }
    entry.stored = { kind: "stored", record: after }
    const fields = Object.keys(changes)
    if (!isNew && fields.length > 0) await onchange(id, isShort(fields) ? fields : undefined)
  }

  /** Passes the record of a session to `take`. Reads only `fields` of a session that this replica has, if they are given. */
  private async read(
    id: string,
    fields: readonly string[] | undefined,
    take: (record: SharedRecord | undefined) => void,
  ): Promise<void> {
    for (;;) {
      await settled(this.stored(id))
      const { losses } = this
      const isKnown = this.recordIn(id) !== undefined
      const some = isKnown ? fields : undefined
      const found = await this.deps.state.read(keyOf(id), some)
      if (found === undefined && isKnown) await this.deps.checkLoss()
      // A record that was read before a write must not undo that write.
      if (this.entries.get(id)?.writing !== undefined || losses !== this.losses) continue
      if (found === undefined || some === undefined) return take(found)
      const before = this.recordIn(id)
      if (before !== undefined) return take({ ...without(before, some), ...found })
    }
  }
}

/** Resolves when a promise has settled. */
const settled = async (promise: Promise<void> | undefined): Promise<void> => promise?.catch(() => undefined)

/** Returns the fields that differ; undefined for those that `after` does not have. */
function changesBetween(before: SharedRecord, after: SharedRecord): Readonly<Record<string, string | undefined>> {
  const removed = Object.keys(before).filter((field) => !(field in after))
  return {
    ...Object.fromEntries(Object.entries(after).filter(([field, value]) => before[field] !== value)),
    ...Object.fromEntries(removed.map((field) => [field, undefined])),
  }
}

/** The most sessions that wait between `preload` and `load`. */
const MAX_FETCHED = 10_000

/** Whether these fields are few enough to be named in a message. */
const isShort = (fields: readonly string[]): boolean =>
  fields.length <= MAX_NAMED && fields.reduce((sum, { length }) => sum + length, 0) <= MAX_NAMED_CHARS

const MAX_NAMED = 100
const MAX_NAMED_CHARS = 64 * 1024

const without = (record: SharedRecord, fields: readonly string[]): SharedRecord => {
  const left: Record<string, string> = { ...record }
  for (const field of fields) delete left[field]
  return left
}

const keyOf = (id: string): string => `session:${hashOfSession(id)}`

function recordOf({
  principal,
  scope,
  params,
  logLevel,
  subscriptions,
  tasks = [],
  stream,
  home,
}: StoredSession): SharedRecord {
  return {
    body: JSON.stringify({ principal, scope, params }),
    ...(logLevel === undefined ? {} : { level: logLevel }),
    ...(stream === undefined ? {} : { stream }),
    ...(home === undefined ? {} : { home }),
    ...Object.fromEntries(subscriptions.map((one) => [`s${JSON.stringify(one)}`, ""])),
    ...Object.fromEntries(tasks.map((one) => [`t${JSON.stringify(one)}`, ""])),
  }
}

function sessionIn(record: SharedRecord): StoredSession | undefined {
  const body: unknown = record.body === undefined ? undefined : parseExact(record.body)
  if (!isObject(body) || !isObject(body.params)) return undefined
  const pairs = (kind: string) =>
    Object.keys(record).flatMap((field) => (field.startsWith(kind) ? [JSON.parse(field.slice(1))] : []))
  return {
    ...(body as unknown as Pick<StoredSession, "principal" | "scope" | "params">),
    logLevel: record.level,
    stream: record.stream,
    home: record.home,
    subscriptions: pairs("s["),
    tasks: pairs("t["),
  }
}
