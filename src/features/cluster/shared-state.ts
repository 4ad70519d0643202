/**
 * The state that the replicas of a cluster share: small records, rate limits, leases, and messages to all replicas. Only
 * `--cluster` opens it (redis-state.ts); a single svc keeps its state in its own files.
 *
 *  1. A record is a map of fields. A change names its fields, so that replicas that change different fields do not undo
 *     each other's changes.
 *  2. Every method that returns a promise rejects with an UnavailableError while the state cannot be reached. Nothing is queued: a
 *     change that was not confirmed may or may not have been made.
 *  3. A message reaches every replica that is connected at the moment, the sender included. Messages of one sender arrive in
 *     order. State that depends on messages is checked again after a reconnection (`onstate`).
 */

/** A record: field name to text. */
export type SharedRecord = Readonly<Record<string, string>>

/** Changes of a record's fields; undefined removes a field. */
type RecordChanges = Readonly<Record<string, string | undefined>>

type WriteOptions = {
  /** Milliseconds after which the record is removed unless it is written again; without it, the record stays. */
  readonly ttl?: number
  /** Writes only a new record, or only one that exists, so that a late change does not restore a removed record. */
  readonly require?: "absent" | "present"
  readonly group?: RecordGroup
}

/** A group of records of which the state keeps the `most` that were written last. All have the same ttl. */
export type RecordGroup = { readonly name: string; readonly most: number }

/** A right that one replica has at a time. It expires if the replica no longer renews it. */
export type Lease = {
  readonly kind: "own"
  /** Grows with each lease of the name: a receiver refuses requests with a smaller token than it has seen (fencing). */
  readonly token: number
  /** Extends the lease by its ttl. Resolves with false if it is lost. */
  renew(): Promise<boolean>
  release(): Promise<void>
}

/** A lease that another replica has. */
export type TakenLease = {
  readonly kind: "taken"
  readonly token: number
  /** Empty if the state has lost the name of the holder. */
  readonly holder: string
  /** Milliseconds after which it is free, unless it is renewed. */
  readonly remaining: number
}

/** The count of a window, which ends in `endsIn` milliseconds. */
export type WindowCount = { readonly count: number; readonly endsIn: number }

export type SharedState = {
  /** Whether the state can be reached at the moment. */
  readonly connected: boolean
  /** Whether the state can be reached, but refuses changes. */
  readonly refusing: boolean
  /** Resolves with all fields of a record, or only with those in `fields`; with undefined if there is no record. */
  read(key: string, fields?: readonly string[]): Promise<SharedRecord | undefined>
  /** Changes a record atomically. Resolves with false if `require` forbids it. */
  write(key: string, changes: RecordChanges, options?: WriteOptions): Promise<boolean>
  /** Sets a field if its value is `expected` (undefined: missing). Resolves with whether it was set. */
  swap(key: string, field: string, expected: string | undefined, next: string): Promise<boolean>
  /** Removes a record, from its group too. Resolves with whether there was one. */
  remove(key: string, group?: RecordGroup): Promise<boolean>
  /**
   * Takes one call from a bucket that holds `perMinute` calls and fills evenly. Resolves with the seconds to wait if it is
   * empty.
   */
  take(key: string, perMinute: number): Promise<number | undefined>
  /** Adds one to the count of a window that begins with its first count and lasts `windowMs`. Resolves with the new count. */
  count(key: string, windowMs: number): Promise<WindowCount>
  /**
   * Takes the lease of a name for `ttl` milliseconds if it is free. `seen` is its largest token that the caller has seen. If the
   * state has lost that token, the lease is free only after another `ttl`: until then the holder of that token, which may not
   * know of the loss, gets the lease back by renewing it.
   */
  lease(name: string, holder: string, ttl: number, seen?: number): Promise<Lease | TakenLease>
  /** Sends a message to all replicas. */
  publish(text: string): Promise<void>
  /** Calls `listener` with each message; the returned function ends that. */
  onmessage(listener: (text: string) => void): () => void
  /** Calls `listener` when the connection is lost or back; the returned function ends that. */
  onstate(listener: (connected: boolean) => void): () => void
  close(): void
}
