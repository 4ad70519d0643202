/**
 * Secrets at rest: OAuth tokens and registered clients, in one JSON document in a folder that only its user can open.
 *
 *  1. The document is sealed with a key from SVC_STATE_KEY, if set; otherwise with a key in the operating system's keychain, if
 *     a trial shows that there is one; otherwise only the file mode protects it. The keychain holds the key, not the tokens:
 *     on some systems, its entries must be small.
 *  2. Files that other users could have read or planted are rejected: modes, owners and symbolic links are checked first.
 *  3. Processes share the document: a change applies to the current text, under a lock, and is written atomically.
 */
import { lstatSync, mkdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { type Clock, systemClock } from "../lib/clock.ts"
import { sha256 } from "../lib/digest.ts"
import { UnavailableError } from "../lib/errors.ts"
import { parseIfJson } from "../lib/json.ts"
import { randomText } from "../lib/random.ts"
import { createSealer, type Sealer } from "../lib/seal.ts"
import { isObject } from "../wire/message.ts"
import { replaceState } from "./files.ts"
import { acquire } from "./lock.ts"
import type { Paths } from "./paths.ts"

/** Entries by name; each is a JSON value. */
type SecretEntries = Readonly<Record<string, unknown>>

/** A store of secrets. Its methods reject with an UnavailableError if the file cannot be trusted, opened or written. */
export type SecretStore = {
  /** Returns the current entries. */
  read(): Promise<SecretEntries>
  /** Replaces an entry, or removes it (undefined). */
  put(name: string, entry: unknown): Promise<void>
  /** Runs a task while no other process that shares the folder runs one for the same name. */
  exclusive<T>(name: string, task: () => Promise<T>): Promise<T>
}

/** The part of the operating system's keychain that svc uses. */
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

/** The keychain of the operating system, through Bun. */
export const systemKeychain: Keychain = {
  get: (name) => Bun.secrets.get({ service: "svc", name }),
  set: (name, value) => Bun.secrets.set({ service: "svc", name, value }),
}

/** Returns a sealer whose key is derived from a pass phrase and a salt. */
export const derivedSealer = async (passphrase: string, salt: string): Promise<Sealer> =>
  createSealer(await derive(passphrase, salt))

/**
 * Returns a few digits that tell pass phrases apart. A guess is as slow to check against them as against a sealed text, and many
 * pass phrases have the same ones.
 */
export const passphraseMark = async (passphrase: string, salt: string): Promise<string> =>
  sha256((await derive(passphrase, salt)).toString("hex"), "hex").slice(0, MARK_DIGITS)

/** Opens the store of a configuration directory, with the settings in the environment of this process. */
export function openSecrets({ directory }: Pick<Paths, "directory">): SecretStore {
  const { SVC_KEYCHAIN } = process.env
  return openSecretStore({
    directory,
    stateKey: stateKeyIn(process.env),
    keychain: SVC_KEYCHAIN === "off" ? undefined : systemKeychain,
    clock: systemClock,
  })
}

/** Returns the pass phrase that seals secrets at rest and those of a cluster; undefined if it is not set. */
export const stateKeyIn = ({ SVC_STATE_KEY }: Readonly<Record<string, string | undefined>>): string | undefined =>
  SVC_STATE_KEY || undefined

/** Opens a store. Reads and writes nothing until a method is called. */
export function openSecretStore({ directory, stateKey, keychain, clock }: SecretStoreOptions): SecretStore {
  const folder = join(directory, "secrets")
  const file = join(folder, "oauth.json")
  const sealers = new Map<string, Promise<Sealer>>()

  const sealerOf = (keyRef: KeyRef): Promise<Sealer> => {
    const known = sealers.get(keyRef.id)
    if (known !== undefined) return known
    const sealer = keyRef.key === "keychain" ? fromKeychain(keyRef.id) : fromState(keyRef.id)
    sealers.set(keyRef.id, sealer)
    sealer.catch(() => sealers.delete(keyRef.id))
    return sealer
  }
  const fromState = async (salt: string): Promise<Sealer> => {
    if (stateKey === undefined) throw new UnavailableError(`${file} is sealed with SVC_STATE_KEY, which is not set`)
    return derivedSealer(stateKey, salt)
  }
  const fromKeychain = async (id: string): Promise<Sealer> => {
    const key = await within(READ_MS, clock, async () => keychain?.get(id)).catch(() => undefined)
    if (key === undefined || key === null)
      throw new UnavailableError(
        `${file} is sealed with a key that the keychain does not return; unlock the keychain, or remove the file and log in again`,
      )
    return createSealer(Buffer.from(key, "base64url"))
  }

  /** Creates a key for a new document; returns undefined if there is neither SVC_STATE_KEY nor a working keychain. */
  const newKey = async (): Promise<KeyRef | undefined> => {
    const id = randomText(16)
    if (stateKey !== undefined) return { key: "state", id }
    if (keychain === undefined) return undefined
    try {
      const key = randomText(KEY_BYTES)
      const stored = await within(TRY_MS, clock, async () => {
        await keychain.set(id, key)
        return keychain.get(id)
      })
      return stored === key ? { key: "keychain", id } : undefined
    } catch {
      return undefined
    }
  }

  const load = async (): Promise<
    { readonly entries: SecretEntries; readonly keyRef: KeyRef | undefined } | undefined
  > => {
    if (!exists(folder)) return undefined
    checkPrivate(folder, 0o700)
    if (!exists(file)) return undefined
    checkPrivate(file, 0o600)
    const written: unknown = parseIfJson(readFileSync(file, "utf8"))
    if (isObject(written) && isObject(written.entries)) return { entries: written.entries, keyRef: undefined }
    const keyRef = keyRefOf(written)
    if (!isObject(written) || keyRef === undefined || typeof written.sealed !== "string")
      throw new UnavailableError(`${file} was not written by svc; remove it, then log in again`)
    const text = (await sealerOf(keyRef)).open(written.sealed)
    const entries = text === undefined ? undefined : parseIfJson(text)
    if (!isObject(entries))
      throw new UnavailableError(
        `${file} cannot be opened with ${keyRef.key === "state" ? "this SVC_STATE_KEY" : "the keychain's key"}; remove it, then log in again`,
      )
    return { entries, keyRef }
  }

  return {
    async read() {
      return (await load())?.entries ?? {}
    },
    async put(name, entry) {
      mkdirSync(folder, { recursive: true, mode: 0o700 })
      checkPrivate(folder, 0o700)
      await withLock(`${file}.lock`, clock, async () => {
        const current = await load()
        const { [name]: _old, ...others } = current?.entries ?? {}
        const entries = entry === undefined ? others : { ...others, [name]: entry }
        const isKept = current?.keyRef !== undefined && (current.keyRef.key === "state") === (stateKey !== undefined)
        const keyRef = isKept ? current.keyRef : await newKey()
        const document =
          keyRef === undefined
            ? { version: 1, entries }
            : { version: 1, ...keyRef, sealed: (await sealerOf(keyRef)).seal(JSON.stringify(entries)) }
        replaceState(file, `${JSON.stringify(document)}\n`)
      })
    },
    async exclusive(name, task) {
      try {
        mkdirSync(folder, { recursive: true, mode: 0o700 })
      } catch {
        // No other process can use a folder that cannot be created.
        return task()
      }
      // A name may contain a secret, for example in a URL.
      const hash = sha256(name, "base64url")
      return withLock(join(folder, `${hash}.lock`), clock, task, EXCLUSIVE_MS)
    },
  }
}

// ---

/** Names the key that a document is sealed with. `id` is the key's name in the keychain, or the salt. */
type KeyRef = { readonly key: "state" | "keychain"; readonly id: string }

const KEY_BYTES = 32
const MARK_DIGITS = 4
/** A keychain that works answers at once; a missing one may never answer. */
const TRY_MS = 3000
/** The keychain may first ask the user for permission. */
const READ_MS = 30_000
/** Longer than the timeout of an authorization server. */
const EXCLUSIVE_MS = 60_000

function keyRefOf(written: unknown): KeyRef | undefined {
  if (!isObject(written) || typeof written.id !== "string") return undefined
  const { key, id } = written
  return key === "state" || key === "keychain" ? { key, id } : undefined
}

function exists(path: string): boolean {
  return lstatSync(path, { throwIfNoEntry: false }) !== undefined
}

/** Throws an UnavailableError if another user could read a path or has planted it. Windows has no modes. */
function checkPrivate(path: string, mode: number): void {
  if (process.platform === "win32") return
  const found = lstatSync(path)
  const problem = (why: string) => new UnavailableError(`${path} ${why}; svc does not keep secrets there`)
  if (found.isSymbolicLink()) throw problem("is a symbolic link")
  if (process.getuid !== undefined && found.uid !== process.getuid()) throw problem("belongs to another user")
  if ((found.mode & 0o077) !== 0)
    throw problem(`can be read by others (mode ${(found.mode & 0o777).toString(8)}): chmod ${mode.toString(8)} it`)
}

/** Derives a key. scrypt is slow, because the pass phrase may be weak. */
function derive(passphrase: string, salt: string): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const { scrypt } = process.getBuiltinModule("node:crypto")
    scrypt(passphrase, salt, KEY_BYTES, { N: 2 ** 15, r: 8, p: 1, maxmem: 64 * 1024 * 1024 }, (error, key) =>
      error ? reject(error) : resolve(key),
    )
  })
}

async function withLock<T>(lock: string, clock: Clock, task: () => Promise<T>, timeout?: number): Promise<T> {
  const release = await acquire(lock, clock, timeout)
  try {
    return await task()
  } finally {
    release()
  }
}

/** Runs a task; rejects if it takes longer than `ms`. */
function within<T>(ms: number, clock: Clock, task: () => Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const cancel = clock.after(ms, () => reject(new Error("took too long")))
    task().then(resolve, reject).finally(cancel)
  })
}
