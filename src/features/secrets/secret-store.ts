/** Secrets that `svc secret` stores: in the keychain, with their names in a file, because a keychain cannot be listed. */
import { join } from "node:path"
import { messageOf, UnavailableError } from "../../lib/errors.ts"
import { makePrivateFolder, readState, replaceState } from "../../store/files.ts"
import type { Paths } from "../../store/paths.ts"
import { KEYCHAIN_SERVICE } from "./system-sources.ts"

/** The keychain of the system. */
export type SystemKeychain = Pick<typeof Bun.secrets, "get" | "set" | "delete">

/** Stores a secret. Throws an UnavailableError if the keychain cannot be used, or the names cannot be written. */
export async function storeSecret(keychain: SystemKeychain, paths: Paths, name: string, value: string): Promise<void> {
  // First, so that the keychain gets nothing that no list shows.
  makePrivateFolder(paths.directory)
  await withKeychain(() => keychain.set({ service: KEYCHAIN_SERVICE, name, value }))
  writeNames(paths, [...storedNames(paths), name])
}

/** Removes a secret. Resolves to whether the keychain had it. */
export async function removeSecret(keychain: SystemKeychain, paths: Paths, name: string): Promise<boolean> {
  const had = await withKeychain(() => keychain.delete({ service: KEYCHAIN_SERVICE, name }))
  const names = storedNames(paths)
  if (names.includes(name))
    writeNames(
      paths,
      names.filter((one) => one !== name),
    )
  return had
}

/** Returns a secret; null if the keychain has none. Throws an UnavailableError if it cannot be used. */
export const readSecret = (keychain: SystemKeychain, name: string): Promise<string | null> =>
  withKeychain(() => keychain.get({ service: KEYCHAIN_SERVICE, name }))

/** Whether the keychain has a secret; undefined if it cannot be used. */
export async function hasSecret(keychain: SystemKeychain, name: string): Promise<boolean | undefined> {
  try {
    return (await keychain.get({ service: KEYCHAIN_SERVICE, name })) !== null
  } catch {
    return undefined
  }
}

/** Returns the names of the secrets that `svc secret set` has stored for this configuration. */
export function storedNames(paths: Paths): readonly string[] {
  const names: unknown = readState(namesFile(paths))?.names
  return Array.isArray(names) ? names.filter((name) => typeof name === "string") : []
}

// ---

const namesFile = ({ directory }: Paths): string => join(directory, "secret-names.json")

const writeNames = (paths: Paths, names: readonly string[]): void => {
  replaceState(namesFile(paths), `${JSON.stringify({ names: [...new Set(names)].sort() }, null, 2)}\n`)
}

async function withKeychain<T>(use: () => Promise<T>): Promise<T> {
  try {
    return await use()
  } catch (cause) {
    throw new UnavailableError(
      `the keychain of this system cannot be used (${messageOf(cause)}); unlock it, or use .env: --to .env`,
      { cause },
    )
  }
}
