/**
 * Sessions in SQLite, so that clients continue after a restart of svc. Ids are stored as hashes: a reader of the file cannot
 * use a session.
 */
import { Database } from "bun:sqlite"
import { chmodSync, lstatSync } from "node:fs"
import { BoundedMap } from "../lib/bounded-map.ts"
import { sha256 } from "../lib/digest.ts"
import { messageOf, UnavailableError } from "../lib/errors.ts"
import { parseExact } from "../lib/json.ts"
import type { Params } from "../wire/message.ts"
import { isObject } from "../wire/message.ts"

/** The data from which a session is restored. */
export type StoredSession = {
  readonly principal: string
  /** The scope: the path and query that the session was opened with. */
  readonly scope: string
  /** The client's `initialize` params. */
  readonly params: Params
  readonly logLevel: string | undefined
  /** Backend id and URI of each subscription. */
  readonly subscriptions: readonly (readonly [id: string, uri: string])[]
  /** Backend id, task id and replica of each task that the session created; missing in files of old versions. */
  readonly tasks?: readonly (readonly [id: string, task: string, replica?: string])[]
  /** The replica that has, or had last, the client's stream. */
  readonly stream?: string | undefined
  /** The replica that runs the session's own processes. */
  readonly home?: string | undefined
}

export type SessionStore = {
  /** Returns the session with an id, or undefined. Throws an UnavailableError if the store cannot be read. */
  load(id: string): StoredSession | undefined
  /** Stores a session, now or as soon as that is possible; never throws. `now` is in milliseconds since the epoch. */
  save(id: string, session: StoredSession, now: number): void
  /** Removes a session as `save` stores it; one that other replicas use too is only forgotten here. */
  remove(id: string): void
  close(): void
  /** Set if other replicas use the sessions too. */
  readonly shared?: SharedSessionOperations
}

/** The additional operations on sessions that several replicas serve. They reject with an UnavailableError. */
export type SharedSessionOperations = {
  /** Reads a session, so that `load` returns its current state. Resolves with whether the session exists. */
  preload(id: string): Promise<boolean>
  /**
   * Reads a session of this replica after another replica has changed it: only `fields` of its record, if they are given.
   * Passes the session to `take` as soon as it is known, or undefined if it has ended. `take` returns whether this replica
   * still has the session.
   */
  reread(
    id: string,
    fields: readonly string[] | undefined,
    take: (found: StoredSession | undefined) => boolean,
  ): Promise<void>
  /** Forgets which sessions were stored, because the shared state has lost them: the next save stores a session as new. */
  lost(): void
  /** Resolves when the last save of a session is stored, and the other replicas have been told. */
  stored(id: string): Promise<void>
  /** Makes a replica the home of a session whose home was `gone`. Resolves with false if another one is by now. */
  adopt(id: string, gone: string, replica: string): Promise<boolean>
  /** Removes a session for all replicas. */
  end(id: string): Promise<void>
}

/** Returns the hash of a session's id, under which it is stored: a reader of the store cannot use the session. */
export const hashOfSession = (id: string): string => sha256(id, "base64url")

/**
 * Returns the key of the marks on ids that clients keep: created once, and shared by every svc that opens the file. Throws if
 * the file cannot be opened.
 */
export function keepKey(file: string): Uint8Array {
  const database = openDatabase(file)
  try {
    database.run("CREATE TABLE IF NOT EXISTS keys (name TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID")
    database.run("INSERT OR IGNORE INTO keys VALUES ('mark', ?)", [crypto.getRandomValues(new Uint8Array(KEY_BYTES))])
    const row = database.query<{ value: Uint8Array }, []>("SELECT value FROM keys WHERE name = 'mark'").get()
    if (row?.value.length !== KEY_BYTES)
      throw new UnavailableError(`${file} has no valid key; remove the file, and svc creates a new one`)
    return row.value
  } finally {
    database.close()
  }
}

/**
 * Opens the file and deletes sessions unused since `before` (milliseconds since the epoch). Throws if the file cannot be
 * opened. If it cannot be written later, for example because the disk is full, changes stay in memory until it can; `onwrite`
 * is called with the problem, and without one when all changes are written.
 */
export function openSessionStore(
  file: string,
  before: number,
  onwrite: (problem: string | undefined) => void = () => undefined,
): SessionStore {
  const database = openDatabase(file)
  database.run(
    "CREATE TABLE IF NOT EXISTS sessions (hash TEXT PRIMARY KEY, body TEXT NOT NULL, seen INTEGER NOT NULL) WITHOUT ROWID",
  )
  database.run("DELETE FROM sessions WHERE seen < ?", [before])
  const load = database.query<{ body: string }, [string]>("SELECT body FROM sessions WHERE hash = ?")
  const save = database.query(
    "INSERT INTO sessions VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET body = excluded.body, seen = excluded.seen",
  )
  const remove = database.query("DELETE FROM sessions WHERE hash = ?")
  /** Changes by hash that are not written yet; undefined for a removal. */
  const unwritten = new BoundedMap<string, Row | undefined>(MAX_UNWRITTEN)
  const write = (hash: string, row: Row | undefined) => {
    if (row === undefined) remove.run(hash)
    else save.run(hash, row.body, row.seen)
  }
  const writeAll = database.transaction(() => {
    for (const [hash, row] of unwritten) write(hash, row)
  })
  const change = (hash: string, row: Row | undefined) => {
    const isFailing = unwritten.size > 0
    if (isFailing) unwritten.set(hash, row)
    try {
      if (isFailing) writeAll()
      else write(hash, row)
    } catch (error) {
      unwritten.set(hash, row)
      if (!isFailing) onwrite(messageOf(error))
      return
    }
    unwritten.clear()
    if (isFailing) onwrite(undefined)
  }
  const read = (hash: string): Pick<Row, "body"> | undefined => {
    if (unwritten.has(hash)) return unwritten.get(hash)
    try {
      return load.get(hash) ?? undefined
    } catch (cause) {
      throw new UnavailableError(`cannot read ${file}: ${messageOf(cause)}`, { cause })
    }
  }
  return {
    load(id) {
      const row = read(hashOfSession(id))
      if (row === undefined) return undefined
      const value: unknown = parseExact(row.body)
      return isObject(value) && isObject(value.params) ? (value as unknown as StoredSession) : undefined
    },
    save(id, session, now) {
      change(hashOfSession(id), { body: JSON.stringify(session), seen: now })
    },
    remove(id) {
      change(hashOfSession(id), undefined)
    },
    close() {
      try {
        if (unwritten.size > 0) writeAll()
      } catch {
        // `onwrite` has reported it.
      }
      database.close()
    },
  }
}

// ---

/** A stored session: its JSON, and when it was last seen, in milliseconds since the epoch. */
type Row = { readonly body: string; readonly seen: number }

const KEY_BYTES = 32
/** Changes that are kept while the file cannot be written. */
const MAX_UNWRITTEN = 20_000
const BUSY_MS = 2000

function openDatabase(file: string): Database {
  // SQLite would follow a planted link and write to its target.
  for (const path of [file, `${file}-wal`, `${file}-shm`])
    if (lstatSync(path, { throwIfNoEntry: false })?.isFile() === false)
      throw new UnavailableError(`${path} must be a regular file, not a link`)
  const database = new Database(file, { create: true, strict: true })
  chmodSync(file, 0o600)
  // Several processes of svc may share a folder.
  database.run(`PRAGMA busy_timeout = ${BUSY_MS}`)
  database.run("PRAGMA journal_mode = WAL")
  database.run("PRAGMA synchronous = NORMAL")
  return database
}
