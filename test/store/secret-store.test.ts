import { afterEach, beforeEach, expect, test } from "bun:test"
import { chmodSync, existsSync, mkdtempSync, readFileSync, renameSync, rmSync, statSync, symlinkSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { systemClock } from "../../src/lib/clock.ts"
import { type Keychain, openSecretStore } from "../../src/store/secret-store.ts"

let directory = ""
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "svc-secrets-"))
})
afterEach(() => rmSync(directory, { recursive: true, force: true }))

const file = () => join(directory, "secrets", "oauth.json")
const open = (stateKey?: string, keychain?: Keychain) =>
  openSecretStore({ directory, stateKey, keychain, clock: systemClock })
const TOKEN = "a-token-that-nobody-may-see"

function keychainOf(): Keychain & { readonly kept: Map<string, string> } {
  const kept = new Map<string, string>()
  return {
    kept,
    get: async (name) => kept.get(name) ?? null,
    set: async (name, value) => void kept.set(name, value),
  }
}

test("the next process finds an entry, in a file that only its user can read [secrets:file]", async () => {
  expect(await open().read()).toEqual({})
  expect(existsSync(join(directory, "secrets"))).toBe(false)
  await open().put("web", { token: TOKEN })
  await open().put("other", 1)
  await open().put("other", undefined)
  expect(await open().read()).toEqual({ web: { token: TOKEN } })
  expect(statSync(file()).mode & 0o777).toBe(0o600)
  expect(statSync(join(directory, "secrets")).mode & 0o777).toBe(0o700)
})

test("with SVC_STATE_KEY, the file is encrypted, and opens only with this key [secrets:sealed]", async () => {
  await open("correct horse").put("web", { token: TOKEN })
  const text = readFileSync(file(), "utf8")
  expect(text).not.toContain(TOKEN)
  // With its quotes, because the encrypted text may contain the letters by chance.
  expect(text).not.toContain('"web"')
  expect(await open("correct horse").read()).toEqual({ web: { token: TOKEN } })
  await expect(open("battery staple").read()).rejects.toThrow("cannot be opened with this SVC_STATE_KEY")
  await expect(open().read()).rejects.toThrow("sealed with SVC_STATE_KEY, which is not set")
  await expect(open("battery staple").put("web", 1)).rejects.toThrow("cannot be opened")
})

test("with a keychain, which stores the key, the file is encrypted [secrets:keychain]", async () => {
  const keychain = keychainOf()
  await open(undefined, keychain).put("web", { token: TOKEN })
  expect(readFileSync(file(), "utf8")).not.toContain(TOKEN)
  expect(keychain.kept.size).toBe(1)
  expect([...keychain.kept.values()].join()).not.toContain(TOKEN)
  expect(await open(undefined, keychain).read()).toEqual({ web: { token: TOKEN } })
  await expect(open().read()).rejects.toThrow("a key that the keychain does not return")
})

test("a key that is set later encrypts plain entries, and a change of keys loses nothing", async () => {
  await open().put("web", { token: TOKEN })
  await open("correct horse").put("other", 1)
  expect(readFileSync(file(), "utf8")).not.toContain(TOKEN)
  expect(await open("correct horse").read()).toEqual({ web: { token: TOKEN }, other: 1 })
})

test("a failing keychain is treated as if there were none", async () => {
  const broken: Keychain = {
    get: () => Promise.reject(new Error("no libsecret")),
    set: () => Promise.reject(new Error("no libsecret")),
  }
  await open(undefined, broken).put("web", 1)
  expect(await open().read()).toEqual({ web: 1 })
})

test("a file or a folder that others can read, and a symbolic link, are rejected with advice [secrets:refused]", async () => {
  await open().put("web", { token: TOKEN })
  chmodSync(file(), 0o640)
  await expect(open().read()).rejects.toThrow(/oauth\.json can be read by others \(mode 640\): chmod 600 it/)
  await expect(open().put("web", 1)).rejects.toThrow("can be read by others")
  chmodSync(file(), 0o600)
  chmodSync(join(directory, "secrets"), 0o755)
  await expect(open().read()).rejects.toThrow(/secrets can be read by others \(mode 755\): chmod 700 it/)
  chmodSync(join(directory, "secrets"), 0o700)
  renameSync(file(), join(directory, "elsewhere.json"))
  symlinkSync(join(directory, "elsewhere.json"), file())
  await expect(open().read()).rejects.toThrow("is a symbolic link")
})

test("concurrent changes are all kept", async () => {
  await Promise.all(Array.from({ length: 12 }, (_, index) => open().put(`s${index}`, index)))
  expect(Object.keys(await open().read())).toHaveLength(12)
})

test("tasks with the same name exclude each other across stores", async () => {
  let running = 0
  let most = 0
  const task = async () => {
    running++
    most = Math.max(most, running)
    await new Promise((done) => setTimeout(done, 5))
    running--
  }
  await Promise.all([open(), open(), open()].map((secrets) => secrets.exclusive("web https://x/mcp", task)))
  expect(most).toBe(1)
})
