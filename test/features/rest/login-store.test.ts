/** The file with the logins of browsers. */
import { afterAll, expect, test } from "bun:test"
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { openLoginStore } from "../../../src/features/rest/login-store.ts"

const root = mkdtempSync(join(tmpdir(), "svc-logins-"))
afterAll(() => rmSync(root, { recursive: true, force: true }))

const LOGIN = { secret: "s".repeat(43), csrf: "c".repeat(43), until: 5 }

test("logins are kept in a private file, one for each configuration [rest:login:restart]", () => {
  const directory = join(root, "own")
  const open = (name: string) => openLoginStore({ directory, file: join(directory, name) })
  expect(open("mcp.json").load()).toEqual([])
  expect(existsSync(directory)).toBe(false)
  open("mcp.json").save([LOGIN])
  expect(open("mcp.json").load()).toEqual([LOGIN])
  expect(open("other.json").load()).toEqual([])
  open("other.json").save([])
  expect(readdirSync(directory).sort()).toEqual([expect.stringMatching(/^logins-[\da-f]{8}\.json$/), "logins.json"])
  if (process.platform !== "win32") expect(statSync(join(directory, "logins.json")).mode & 0o777).toBe(0o600)
})

test("a malformed file counts as empty, and the next login replaces it [rest:login:restart]", () => {
  const directory = mkdtempSync(join(root, "bad-"))
  const file = join(directory, "logins.json")
  const store = openLoginStore({ directory, file: join(directory, "mcp.json") })
  const wrong = [{ ...LOGIN, secret: "" }, { ...LOGIN, until: "later" }, null]
  for (const text of ["", "{", "[]", ...wrong.map((one) => JSON.stringify({ logins: [one] }))]) {
    writeFileSync(file, text)
    expect(store.load()).toEqual([])
  }
  store.save([LOGIN])
  expect(JSON.parse(readFileSync(file, "utf8"))).toEqual({ logins: [LOGIN] })
})

test("a login succeeds if its file cannot be written", () => {
  const directory = join(root, "file")
  writeFileSync(directory, "")
  const store = openLoginStore({ directory, file: join(directory, "mcp.json") })
  expect(() => store.save([LOGIN])).not.toThrow()
  expect(store.load()).toEqual([])
})
