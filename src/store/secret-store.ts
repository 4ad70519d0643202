/**
 * Secrets at rest: tokens and registered clients, one JSON document in a folder that only its user can open.
 *
 *  1. It is sealed with a key from SVC_STATE_KEY where that is set, else with a key that the operating system's keychain
 *     holds where there is one (whether there is one is found by trying). Else only its mode protects it. The keychain
 *     holds the key and not the tokens, for what it holds is small on some systems.
 *  2. What others could read, or have put there, is refused: modes, owners and symbolic links are checked before reading.
 *  3. Processes share it: a change is made to what is there at that moment, under a lock, and appears whole or not at all.
 */
import { randomBytes, scrypt } from "node:crypto"
import { lstatSync, mkdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import type { Clock } from "../lib/clock.ts"
import { sha256 } from "../lib/digest.ts"
import { UnavailableError } from "../lib/errors.ts"
import { createSealer, type Sealer } from "../lib/seal.ts"
import { isObject } from "../wire/message.ts"
import { replaceState } from "./files.ts"
import { acquire } from "./lock.ts"

/** Entries by name; each is JSON. */
export type SecretEntries = Readonly<Record<string, unknown>>

export type SecretStore = {
  /** What is there now. Throws an UnavailableError that says what to do where it cannot be trusted or read. */
  read(): Promise<SecretEntries>
  /** Puts an entry in the place of the one there, or takes it out (undefined). */
  put(name: string, entry: unknown): Promise<void>
  /** Runs alone among all processes that share the folder, for one name. */
  exclusive<T>(name: string, task: () => Promise<T>): Promise<T>
}

/** The operating system's keychain, as far as it is used. */
export type Keychain = {
  get(name: string): Promise<string | null>
  set(name: string, value: string): Promise<void>
}

export type SecretStoreOptions = {
  /** The configuration directory. */
  readonly directory: string
  /** SVC_STATE_KEY */
  readonly stateKey: string | undefined
  readonly keychain: Keychain | undefined
  readonly clock: Clock
}

export const systemKeychain: Keychain = {
  get: (name) => Bun.secrets.get({ service: "svc", name }),
  set: (name, value) => Bun.secrets.set({ service: "svc", name, value }),
}

/** Touches nothing until it is asked. */
export function openSecretStore({ directory, stateKey, keychain, clock }: SecretStoreOptions): SecretStore {
  const folder = join(directory, "secrets")
  const file = join(folder, "oauth.json")
  const sealers = new Map<string, Promise<Sealer>>()

  const sealerOf = (lock: Lock): Promise<Sealer> => {
    const known = sealers.get(lock.id)
    if (known !== undefined) return known
    const made = lock.key === "keychain" ? fromKeychain(lock.id) : fromState(lock.id)
    sealers.set(lock.id, made)
    made.catch(() => sealers.delete(lock.id))
    return made
  }
  const fromState = async (salt: string): Promise<Sealer> => {
    if (stateKey === undefined) throw new UnavailableError(`${file} is sealed with SVC_STATE_KEY, which is not set`)
    return createSealer(await derive(stateKey, salt))
  }
  const fromKeychain = async (id: string): Promise<Sealer> => {
    const key = await within(READ_MS, clock, async () => keychain?.get(id)).catch(() => undefined)
    if (key === undefined || key === null)
      throw new UnavailableError(
        `${file} is sealed with a key that the keychain does not give; unlock it, or remove the file and log in again`,
      )
    return createSealer(Buffer.from(key, "base64url"))
  }

  /** How a new document is to be sealed; undefined where there is nothing to seal it with. */
  const newLock = async (): Promise<Lock | undefined> => {
    const id = randomBytes(16).toString("base64url")
    if (stateKey !== undefined) return { key: "state", id }
    if (keychain === undefined) return undefined
    try {
      const key = randomBytes(KEY_BYTES).toString("base64url")
      const kept = await within(TRY_MS, clock, async () => {
        await keychain.set(id, key)
        return keychain.get(id)
      })
      return kept === key ? { key: "keychain", id } : undefined
    } catch {
      return undefined
    }
  }

  const load = async (): Promise<{ readonly entries: SecretEntries; readonly lock: Lock | undefined } | undefined> => {
    if (!isThere(folder)) return undefined
    checkPrivate(folder, 0o700)
    if (!isThere(file)) return undefined
    checkPrivate(file, 0o600)
    const written: unknown = parse(readFileSync(file, "utf8"))
    if (isObject(written) && isObject(written.entries)) return { entries: written.entries, lock: undefined }
    const lock = lockOf(written)
    if (!isObject(written) || lock === undefined || typeof written.sealed !== "string")
      throw new UnavailableError(`${file} is no document of svc; remove it, then log in again`)
    const text = (await sealerOf(lock)).open(written.sealed)
    const entries = text === undefined ? undefined : parse(text)
    if (!isObject(entries))
      throw new UnavailableError(
        `${file} cannot be opened with ${lock.key === "state" ? "this SVC_STATE_KEY" : "the keychain's key"}; remove it, then log in again`,
      )
    return { entries, lock }
  }

  return {
    async read() {
      return (await load())?.entries ?? {}
    },
    async put(name, entry) {
      mkdirSync(folder, { recursive: true, mode: 0o700 })
      checkPrivate(folder, 0o700)
      await withLock(`${file}.lock`, clock, async () => {
        const there = await load()
        const { [name]: _old, ...others } = there?.entries ?? {}
        const entries = entry === undefined ? others : { ...others, [name]: entry }
        const stays = there?.lock !== undefined && (there.lock.key === "state") === (stateKey !== undefined)
        const lock = stays ? there.lock : await newLock()
        const document =
          lock === undefined
            ? { version: 1, entries }
            : { version: 1, ...lock, sealed: (await sealerOf(lock)).seal(JSON.stringify(entries)) }
        replaceState(file, `${JSON.stringify(document)}\n`)
      })
    },
    async exclusive(name, task) {
      try {
        mkdirSync(folder, { recursive: true, mode: 0o700 })
      } catch {
        // Where nothing can be written, nothing is shared.
        return task()
      }
      // A name may hold a secret, such as a URL's.
      const own = sha256(name, "base64url")
      return withLock(join(folder, `${own}.lock`), clock, task, ALONE_MS)
    },
  }
}

// ---

/** What a document is sealed with: the key itself is not in it. `id` is the keychain's name for it, or the salt. */
type Lock = { readonly key: "state" | "keychain"; readonly id: string }

const KEY_BYTES = 32
/** A keychain that is there answers at once; one that is not may never. */
const TRY_MS = 3000
/** It may ask its user first. */
const READ_MS = 30_000
/** Longer than an authorization server may take to answer. */
const ALONE_MS = 60_000

function lockOf(written: unknown): Lock | undefined {
  if (!isObject(written) || typeof written.id !== "string") return undefined
  const { key, id } = written
  return key === "state" || key === "keychain" ? { key, id } : undefined
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

function isThere(path: string): boolean {
  return lstatSync(path, { throwIfNoEntry: false }) !== undefined
}

/** Throws an UnavailableError where somebody else could read a path or has put it there. Windows has no modes. */
function checkPrivate(path: string, mode: number): void {
  if (process.platform === "win32") return
  const found = lstatSync(path)
  const refuse = (why: string) => new UnavailableError(`${path} ${why}; no secret is read from it or written to it`)
  if (found.isSymbolicLink()) throw refuse("is a symbolic link")
  if (process.getuid !== undefined && found.uid !== process.getuid()) throw refuse("belongs to another user")
  if ((found.mode & 0o077) !== 0)
    throw refuse(`can be read by others (mode ${(found.mode & 0o777).toString(8)}): chmod ${mode.toString(8)} it`)
}

/** The pass phrase may be weak: the key is made slowly. */
function derive(passphrase: string, salt: string): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    scrypt(passphrase, salt, KEY_BYTES, { N: 2 ** 15, r: 8, p: 1, maxmem: 64 * 1024 * 1024 }, (error, key) =>
      error ? reject(error) : resolve(key),
    )
  })
}

async function withLock<T>(lock: string, clock: Clock, task: () => Promise<T>, patience?: number): Promise<T> {
  const release = await acquire(lock, clock, patience)
  try {
    return await task()
  } finally {
    release()
  }
}

/** Rejects where a task takes longer. */
function within<T>(ms: number, clock: Clock, task: () => Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const cancel = clock.after(ms, () => reject(new Error("took too long")))
    task().then(resolve, reject).finally(cancel)
  })
}
