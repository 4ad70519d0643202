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
import { BoundedMap } from "../lib/bounded-map.ts"
import { parseExact } from "../lib/json.ts"
import { isObject } from "../wire/message.ts"
import { hashOfSession, type SessionStore, type StoredSession } from "./session-store.ts"
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
export function createSharedSessions({
  state,
  ttl,
  most,
  onchange,
  checkLoss,
  onended,
}: SharedSessionsDeps): SessionStore {
  const groupOf = (principal: string): RecordGroup => ({ name: `sessions ${principal}`, most })
  const fetched = new BoundedMap<string, StoredSession>(MAX_FETCHED)
  /** The stored records of the sessions that this replica has. */
  let written = new Map<string, SharedRecord>()
  /** The records that the state has lost, until they are stored again. */
  const lostRecords = new Map<string, SharedRecord>()
  const writes = new Map<string, Promise<void>>()
  /** The latest changes that wait for a write of the same session. */
  const waiting = new Map<string, StoredSession>()
  /** The latest changes that could not be written. */
  const unwritten = new Map<string, StoredSession>()
  const write = async (id: string, session: StoredSession): Promise<void> => {
    const known = written
    const stored = known.get(id)
    const before = stored ?? lostRecords.get(id)
    const after = recordOf(session)
    const removed = Object.keys(before ?? {}).filter((field) => !(field in after))
    const changes = {
      ...Object.fromEntries(Object.entries(after).filter(([field, value]) => before?.[field] !== value)),
      ...Object.fromEntries(removed.map((field) => [field, undefined])),
    }
    const put = (fields: Parameters<SharedState["write"]>[1], require: "absent" | "present") =>
      state.write(keyOf(id), fields, { ttl, require, group: groupOf(session.principal) })
    const isNew = stored === undefined && (await put(after, "absent"))
    // After a loss, another replica may have stored it first.
    const isThere = isNew || before === undefined || (await put(changes, "present"))
    if (!isThere) await checkLoss()
    // The state was lost meanwhile: the next write stores the session as new.
    if (known !== written) return
    lostRecords.delete(id)
    if (!isThere) {
      written.delete(id)
      onended(id)
      return
    }
    written.set(id, after)
    const fields = Object.keys(changes)
    if (!isNew && fields.length > 0) await onchange(id, isShort(fields) ? fields : undefined)
  }
  const save = (id: string, session: StoredSession): void => {
    const isWaiting = waiting.has(id)
    waiting.set(id, session)
    if (isWaiting) return
    // One at a time: each writes the differences from the one before.
    let latest = session
    const writing = (writes.get(id) ?? Promise.resolve())
      .catch(() => undefined)
      .then(() => {
        latest = waiting.get(id) ?? session
        waiting.delete(id)
        return write(id, latest)
      })
    writes.set(id, writing)
    const settle = (isWritten: boolean) => {
      if (isWritten) unwritten.delete(id)
      // A later write includes this one.
      if (writes.get(id) !== writing) return
      writes.delete(id)
      if (!isWritten) unwritten.set(id, latest)
    }
    writing.then(
      () => settle(true),
      () => settle(false),
    )
  }
  /** Passes the record of a session to `take`. Reads only `fields` of a session that this replica has, if they are given. */
  const read = async (
    id: string,
    fields: readonly string[] | undefined,
    take: (record: SharedRecord | undefined) => void,
  ): Promise<void> => {
    for (;;) {
      await writes.get(id)?.catch(() => undefined)
      const known = written
      const some = known.has(id) ? fields : undefined
      const found = await state.read(keyOf(id), some)
      if (found === undefined && known.has(id)) await checkLoss()
      // A record that was read before a write must not undo that write.
      if (writes.has(id) || known !== written) continue
      if (found === undefined || some === undefined) return take(found)
      const before = written.get(id)
      if (before !== undefined) return take({ ...without(before, some), ...found })
    }
  }
  return {
    load(id) {
      const found = fetched.get(id)
      fetched.delete(id)
      if (found !== undefined) written.set(id, recordOf(found))
      return found
    },
    save,
    remove(id) {
      // Several requests may have preloaded it, but only one has loaded it.
      fetched.delete(id)
      const forget = () => {
        written.delete(id)
        unwritten.delete(id)
        lostRecords.delete(id)
      }
      const writing = writes.get(id)
      if (writing === undefined) forget()
      // Its last change is written as a change to the stored record.
      else writing.then(forget, forget)
    },
    close() {
      fetched.clear()
    },
    shared: {
      async preload(id) {
        let isFound = false
        await read(id, undefined, (record) => {
          const session = record && sessionIn(record)
          isFound = session !== undefined
          if (session === undefined) fetched.delete(id)
          else fetched.set(id, session)
        })
        return isFound
      },
      async reread(id, fields, take) {
        while (writes.has(id)) await writes.get(id)?.catch(() => undefined)
        const late = unwritten.get(id)
        if (late !== undefined) {
          save(id, late)
          await writes.get(id)
        }
        await read(id, fields, (record) => {
          const session = record && sessionIn(record)
          if (take(session) && session !== undefined) written.set(id, recordOf(session))
        })
      },
      lost() {
        for (const [id, record] of written) lostRecords.set(id, record)
        written = new Map()
      },
      stored: (id) => writes.get(id) ?? Promise.resolve(),
      async adopt(id, gone, replica) {
        const isAdopted = await state.swap(keyOf(id), "home", gone, replica)
        if (isAdopted) await onchange(id, ["home"])
        return isAdopted
      },
      async end(id) {
        await writes.get(id)?.catch(() => undefined)
        const session = sessionIn(written.get(id) ?? {})
        await state.remove(keyOf(id), session && groupOf(session.principal))
        written.delete(id)
      },
    },
  }
}

// ---

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
