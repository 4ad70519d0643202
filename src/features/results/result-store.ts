/**
 * Results of tools that were too large for their clients, in sealed files. A file holds one text or one binary value.
 *
 *  1. A file is sealed in chunks (AES-256-GCM, with a key for each file), so that a range can be read without the rest. Chunks
 *     and the description at the end are bound to their place in the file and to its id: none can be swapped.
 *  2. A file appears whole or not at all: it is written under a temporary name, flushed and renamed.
 *  3. A result belongs to an owner. For all other callers it does not exist.
 *  4. Results expire after `ttl`. If all together exceed `capacity`, the oldest are removed.
 *
 *     magic (8) salt (16) { chunk, tag (16) }… description, tag (16), length of the description with its tag (4)
 */
import { createCipheriv, createDecipheriv, createHmac, randomBytes } from "node:crypto"
import { lstatSync, statSync, writeSync } from "node:fs"
import { type FileHandle, open, rename, unlink } from "node:fs/promises"
import { join } from "node:path"
import { type Clock, oneAtATime } from "../../lib/clock.ts"
import { incrementalSha256 } from "../../lib/digest.ts"
import { fileProblem, UnavailableError } from "../../lib/errors.ts"
import { WorkQueue } from "../../lib/work-queue.ts"
import { findTemporaries, isAlive, makePrivateFolder, readFolder, removeAll } from "../../store/files.ts"

/** The description of a stored result. */
export type StoredResult = {
  readonly id: string
  /** Bytes. */
  readonly size: number
  /** SHA-256 of all bytes, hexadecimal. */
  readonly sha256: string
  readonly mimeType: string
  /** Whether the bytes are UTF-8 text. */
  readonly isText: boolean
  /** The budget that the result exceeded, in characters. */
  readonly budget: number
  /** Milliseconds since the epoch. */
  readonly created: number
  /** The number of line feeds in each chunk. */
  readonly lineFeeds: readonly number[]
}

export type ResultWriter = {
  readonly id: string
  /** Appends bytes. Rejects with an UnavailableError if they cannot be written. */
  write(bytes: Uint8Array): Promise<void>
  /** Opens the file, for `writeNow`. Rejects with an UnavailableError. */
  open(): Promise<void>
  /** Appends bytes synchronously to an open file, so that a fast source does not fill the memory. Throws an UnavailableError. */
  writeNow(bytes: Uint8Array): void
  /** Completes the file: from now on the result can be opened. Rejects with an UnavailableError. */
  finish(about: Pick<StoredResult, "mimeType" | "isText" | "budget">): Promise<StoredResult>
  /** Removes the file. */
  abort(): Promise<void>
}

export type ResultReader = {
  readonly about: StoredResult
  /** Returns the bytes from `start` to before `end`. Rejects with an UnavailableError if the file was changed. */
  read(start: number, end: number): Promise<Buffer>
  close(): Promise<void>
}

export type ResultStoreOptions = {
  readonly folder: string
  readonly clock: Clock
  /** Returns the 32 bytes from which the keys of all files are derived. */
  key(): Promise<Uint8Array>
  /** Milliseconds for which a result is kept. */
  readonly ttl: number
  /** Bytes of all results together. */
  readonly capacity: number
  /** The id of the replica that stores; ids of results name it. Undefined for a single svc. */
  readonly replica?: string | undefined
}

export const CHUNK_BYTES = 64 * 1024

export class ResultStore {
  private keyPromise: Promise<Uint8Array> | undefined
  private cancelSweep: (() => void) | undefined
  private unswept = Number.POSITIVE_INFINITY
  /** The reads that need a whole result in memory. */
  readonly wholeReads = new WorkQueue(MAX_WHOLE_READS)
  /** The clock of long reads: they share the time of one. */
  readonly readClock: Clock

  constructor(private readonly options: ResultStoreOptions) {
    this.readClock = oneAtATime(options.clock)
  }

  /** Begins a result of an owner. Nothing is written before the first chunk is full. */
  create(owner: string): ResultWriter {
    const { folder, clock, replica = "" } = this.options
    return new Writer(folder, replica + randomBytes(16).toString("hex"), owner, clock.now(), {
      key: () => this.key(),
      onfinished: (bytes) => this.grown(bytes),
    })
  }

  /** Opens a result; undefined if the owner has none of this id. Rejects with an UnavailableError if its file was changed. */
  async open(id: string, owner: string): Promise<ResultReader | undefined> {
    if (!RESULT_ID.test(id)) return undefined
    const path = join(this.options.folder, `${id}${SUFFIX}`)
    if (lstatSync(path, { throwIfNoEntry: false })?.isFile() !== true) return undefined
    const reader = await Reader.open(path, id, await this.key())
    if (reader.owner === owner && reader.about.created + this.options.ttl > this.options.clock.now()) return reader
    await reader.close()
    return undefined
  }

  /** Removes a result of this store. */
  remove(id: string): void {
    removeAll([join(this.options.folder, `${id}${SUFFIX}`)])
  }

  /** Removes expired results, results beyond the capacity, and files of killed writers. Repeats while there are results. */
  sweep(): void {
    const { folder, clock, ttl, capacity } = this.options
    this.cancelSweep?.()
    // First, so that a sweep that fails is repeated.
    this.cancelSweep = clock.after(SWEEP_MS, () => this.sweep())
    this.unswept = 0
    const now = clock.now()
    removeAll(findTemporaries(folder, (name) => name.endsWith(SUFFIX)).filter((path) => isAbandoned(path, now)))
    const files = readFolder(folder)
      .filter((name) => name.endsWith(SUFFIX) && !name.startsWith("."))
      .flatMap((name) => {
        const path = join(folder, name)
        const found = statSync(path, { throwIfNoEntry: false })
        return found === undefined ? [] : [{ path, size: found.size, time: found.mtimeMs }]
      })
      .sort((one, other) => other.time - one.time)
    let total = 0
    const removable = files.filter(({ size, time }, at) => {
      total += size
      return time + ttl <= now || (at > 0 && (total > capacity || at >= MAX_FILES))
    })
    removeAll(removable.map(({ path }) => path))
    if (removable.length === files.length) this.cancelSweep()
  }

  /** Ends the repeated sweeps. */
  close(): void {
    this.cancelSweep?.()
  }

  // ---

  private key(): Promise<Uint8Array> {
    this.keyPromise ??= this.options.key().catch((error: unknown) => {
      this.keyPromise = undefined
      throw error
    })
    return this.keyPromise
  }

  /** Sweeps if much was written since the last time: a sweep looks at all files. */
  private grown(bytes: number): void {
    this.unswept += Math.max(bytes, this.options.capacity / MAX_FILES)
    if (this.unswept > this.options.capacity / SWEEPS_PER_CAPACITY) this.sweep()
  }
}

// ---

const RESULT_ID = /^(?:r[0-9a-f]{8})?[0-9a-f]{32}$/
const SUFFIX = ".result"
const MAGIC = Buffer.from("svcres1\n")
const SALT_BYTES = 16
const TAG_BYTES = 16
const HEAD_BYTES = MAGIC.length + SALT_BYTES
/** Chunks that are written at once. */
const BATCH = 16
const MAX_FILES = 10_000
const MAX_WHOLE_READS = 16
const SWEEPS_PER_CAPACITY = 20
const SWEEP_MS = 60_000
/** A live writer touches its file more often. Process ids alone may mean nothing in a shared folder. */
const ABANDONED_MS = 60_000

type Hooks = { key(): Promise<Uint8Array>; onfinished(bytes: number): void }
type Description = Omit<StoredResult, "id"> & { readonly owner: string }

const fileKey = (key: Uint8Array, salt: Uint8Array): Buffer => createHmac("sha256", key).update(salt).digest()

/** Seals one part of a file. `place` is the number of the chunk; -1 stands for the description. */
function seal(key: Uint8Array, id: string, place: number, plain: Uint8Array): Buffer {
  const cipher = createCipheriv("aes-256-gcm", key, nonceOf(place))
  cipher.setAAD(Buffer.from(id))
  return Buffer.concat([cipher.update(plain), cipher.final(), cipher.getAuthTag()])
}

/** Opens one part of a file. Throws an Error if it is not that part. */
function unseal(key: Uint8Array, id: string, place: number, sealed: Buffer): Buffer {
  const decipher = createDecipheriv("aes-256-gcm", key, nonceOf(place))
  decipher.setAAD(Buffer.from(id))
  decipher.setAuthTag(sealed.subarray(sealed.length - TAG_BYTES))
  return Buffer.concat([decipher.update(sealed.subarray(0, sealed.length - TAG_BYTES)), decipher.final()])
}

function nonceOf(place: number): Buffer {
  const nonce = Buffer.alloc(12)
  nonce.writeInt32BE(place, 8)
  return nonce
}

class Writer implements ResultWriter {
  private readonly hash = incrementalSha256()
  private readonly salt = randomBytes(SALT_BYTES)
  private readonly chunk = Buffer.allocUnsafe(CHUNK_BYTES)
  private readonly lineFeeds: number[] = []
  private readonly temporary: string
  private filled = 0
  private size = 0
  private batch: Buffer[] = []
  private file: { readonly handle: FileHandle; readonly key: Buffer } | undefined
  private isEnded = false

  constructor(
    private readonly folder: string,
    readonly id: string,
    private readonly owner: string,
    private readonly created: number,
    private readonly hooks: Hooks,
  ) {
    const pid = process.pid.toString(16).padStart(12, "0")
    this.temporary = join(folder, `.${id}${SUFFIX}.${pid}.tmp`)
  }

  async write(bytes: Uint8Array): Promise<void> {
    for (let at = 0; at < bytes.length; ) {
      at += this.fill(bytes, at)
      if (this.filled === CHUNK_BYTES) await this.flush()
    }
  }

  async open(): Promise<void> {
    await this.opened()
  }

  writeNow(bytes: Uint8Array): void {
    if (this.file === undefined || this.isEnded) return
    const { handle, key } = this.file
    for (let at = 0; at < bytes.length; ) {
      at += this.fill(bytes, at)
      if (this.filled < CHUNK_BYTES) continue
      this.sealChunk(key)
      try {
        for (const sealed of this.batch.splice(0))
          for (let written = 0; written < sealed.length; ) written += writeSync(handle.fd, sealed, written)
      } catch (cause) {
        throw this.problem(cause)
      }
    }
  }

  async finish(about: Pick<StoredResult, "mimeType" | "isText" | "budget">): Promise<StoredResult> {
    const known = { ...about, created: this.created }
    if (this.filled > 0) await this.flush()
    const sha256 = this.hash.digest("hex")
    const facts = { ...known, size: this.size, sha256, lineFeeds: this.lineFeeds }
    const { handle, key } = await this.opened()
    const description: Description = { ...facts, owner: this.owner }
    const sealed = seal(key, this.id, -1, Buffer.from(JSON.stringify(description)))
    const length = Buffer.alloc(4)
    length.writeUInt32BE(sealed.length)
    this.batch.push(sealed, length)
    await this.attempt(async () => {
      await this.writeBatch(handle)
      await handle.sync()
      await handle.close()
      await rename(this.temporary, join(this.folder, `${this.id}${SUFFIX}`))
    })
    this.isEnded = true
    this.hooks.onfinished(this.size)
    return { id: this.id, ...facts }
  }

  async abort(): Promise<void> {
    if (this.isEnded || this.file === undefined) return
    this.isEnded = true
    await this.file.handle.close().catch(() => undefined)
    await unlink(this.temporary).catch(() => undefined)
  }

  /** Adds bytes to the chunk; returns how many. */
  private fill(bytes: Uint8Array, at: number): number {
    const count = Math.min(CHUNK_BYTES - this.filled, bytes.length - at)
    this.chunk.set(bytes.subarray(at, at + count), this.filled)
    this.filled += count
    return count
  }

  private sealChunk(key: Uint8Array): void {
    const plain = this.chunk.subarray(0, this.filled)
    this.hash.update(plain)
    this.batch.push(seal(key, this.id, this.lineFeeds.length, plain))
    this.lineFeeds.push(countLineFeeds(plain))
    this.size += this.filled
    this.filled = 0
  }

  private async flush(): Promise<void> {
    const { handle, key } = await this.opened()
    this.sealChunk(key)
    if (this.batch.length >= BATCH) await this.attempt(() => this.writeBatch(handle))
  }

  private async opened(): Promise<{ readonly handle: FileHandle; readonly key: Buffer }> {
    if (this.file !== undefined) return this.file
    const key = fileKey(await this.hooks.key(), this.salt)
    makePrivateFolder(this.folder)
    const handle = await this.attempt(() => open(this.temporary, "wx", 0o600))
    this.batch.push(MAGIC, this.salt)
    this.file = { handle, key }
    return this.file
  }

  private async writeBatch(handle: FileHandle): Promise<void> {
    const bytes = Buffer.concat(this.batch)
    this.batch = []
    for (let at = 0; at < bytes.length; ) at += (await handle.write(bytes, at)).bytesWritten
  }

  private async attempt<T>(task: () => Promise<T>): Promise<T> {
    try {
      return await task()
    } catch (cause) {
      await this.abort()
      throw this.problem(cause)
    }
  }

  private problem(cause: unknown): UnavailableError {
    return new UnavailableError(`cannot write to ${this.folder}: ${fileProblem(cause)}`, { cause })
  }
}

class Reader implements ResultReader {
  readonly about: StoredResult
  private constructor(
    private readonly handle: FileHandle,
    private readonly key: Buffer,
    id: string,
    private readonly description: Description,
  ) {
    const { owner: _owner, ...about } = description
    this.about = { id, ...about }
  }

  get owner(): string {
    return this.description.owner
  }

  /** Opens a file and its description. Rejects with an UnavailableError if the description cannot be unsealed. */
  static async open(path: string, id: string, key: Uint8Array): Promise<Reader> {
    const handle = await open(path, "r")
    try {
      const { size } = await handle.stat()
      const head = await readAt(handle, 0, HEAD_BYTES)
      const length = (await readAt(handle, size - 4, 4)).readUInt32BE()
      const sealed = await readAt(handle, size - 4 - length, length)
      const own = fileKey(key, head.subarray(MAGIC.length))
      const description: unknown = JSON.parse(unseal(own, id, -1, sealed).toString())
      return new Reader(handle, own, id, description as Description)
    } catch (cause) {
      await handle.close()
      throw new UnavailableError(
        "a stored result cannot be opened, because its file or svc's key has changed; call the tool again",
        { cause },
      )
    }
  }

  async read(start: number, end: number): Promise<Buffer> {
    const { size, id } = this.about
    const [from, to] = [Math.max(0, start), Math.min(end, size)]
    if (from >= to) return Buffer.alloc(0)
    const first = Math.floor(from / CHUNK_BYTES)
    const last = Math.floor((to - 1) / CHUNK_BYTES)
    const chunks: Buffer[] = []
    const stride = CHUNK_BYTES + TAG_BYTES
    for (let group = first; group <= last; group += BATCH) {
      const until = Math.min(group + BATCH - 1, last)
      const stop = Math.min((until + 1) * CHUNK_BYTES, size) + (until + 1) * TAG_BYTES
      const sealed = await readAt(this.handle, HEAD_BYTES + group * stride, stop - group * stride)
      for (let place = group; place <= until; place++) {
        const at = (place - group) * stride
        chunks.push(this.unseal(place, sealed.subarray(at, Math.min(at + stride, sealed.length)), id))
      }
    }
    return Buffer.concat(chunks).subarray(from - first * CHUNK_BYTES, to - first * CHUNK_BYTES)
  }

  async close(): Promise<void> {
    await this.handle.close()
  }

  private unseal(place: number, sealed: Buffer, id: string): Buffer {
    try {
      return unseal(this.key, id, place, sealed)
    } catch (cause) {
      throw new UnavailableError("a stored result cannot be read, because its file has changed; call the tool again", {
        cause,
      })
    }
  }
}

/** Reads `length` bytes at an offset. Throws an Error if the file has fewer. */
async function readAt(handle: FileHandle, offset: number, length: number): Promise<Buffer> {
  if (offset < 0 || length < 0) throw new Error("the file is too short")
  const bytes = Buffer.allocUnsafe(length)
  for (let at = 0; at < length; ) {
    const { bytesRead } = await handle.read(bytes, at, length - at, offset + at)
    if (bytesRead === 0) throw new Error("the file is too short")
    at += bytesRead
  }
  return bytes
}

function countLineFeeds(bytes: Buffer): number {
  let count = 0
  for (let at = bytes.indexOf(0x0a); at >= 0; at = bytes.indexOf(0x0a, at + 1)) count++
  return count
}

/** Whether the writer of a temporary file is gone; the name of the file contains its process id. */
function isAbandoned(path: string, now: number): boolean {
  const pid = Number.parseInt(path.slice(-16, -4), 16)
  const time = statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? 0
  return pid !== process.pid && !isAlive(pid) && time + ABANDONED_MS < now
}
