/** `svc backup` and `svc restore`: everything moves to another machine, and nothing is readable on the way. */
import { expect, test } from "bun:test"
import { readFileSync, statSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { systemClock } from "../../src/lib/clock.ts"
import { openSecretStore } from "../../src/store/secret-store.ts"
import { documents, echo, eventually, freshFolder, json, readIfThere, startSvc, svcIn, WINDOWS } from "./harness.ts"

const ENV = { SVC_KEYCHAIN: "off", SVC_BACKUP_PASSPHRASE: "correct horse" }
const signIns = (directory: string) =>
  openSecretStore({ directory, stateKey: undefined, keychain: undefined, clock: systemClock })

async function configured() {
  const folder = freshFolder({
    "mcp.json": JSON.stringify({ mcpServers: { files: { ...echo(), env: { KEY: "${KEY}" } } } }),
    ".env": "KEY=a-very-secret-value\n",
  })
  const svc = svcIn(folder, ENV)
  expect((await svc("preset", "create", "work", "--filter", "web")).code).toBe(0)
  expect((await svc("auth", "token", "create", "--name", "laptop")).code).toBe(0)
  await signIns(folder).put("web https://example.com/mcp", { tokens: { access: "an-access-token" } })
  return { folder, svc, file: join(freshFolder(), "svc.backup") }
}

test("a backup opens on another machine, with everything in it, and shows nothing without its pass phrase [backup:all]", async () => {
  const { folder, svc, file } = await configured()
  const saved = await json(svc("backup", file, "--json"))
  expect(saved).toMatchObject({ signIns: ["web https://example.com/mcp"], missing: [] })
  expect(readFileSync(file, "utf8")).not.toMatch(/a-very-secret-value|access-token|laptop|mcpServers/)
  if (!WINDOWS) expect(statSync(file).mode & 0o777).toBe(0o600)
  expect((await svc("backup", file)).stderr).toContain("--force")

  const other = freshFolder()
  const restore = svcIn(other, ENV)
  const wrong = await svcIn(other, { ...ENV, SVC_BACKUP_PASSPHRASE: "another horse" })("restore", file, "--yes")
  expect([wrong.code, wrong.stderr]).toEqual([64, expect.stringContaining("the pass phrase is wrong")])
  expect((await restore("restore", file)).stderr).toContain("add --yes")
  expect((await restore("restore", file, "--yes")).code).toBe(0)
  for (const name of ["mcp.json", ".env", "presets.json", "tokens.json"])
    expect([name, readIfThere(join(other, name))]).toEqual([name, readIfThere(join(folder, name))])
  expect(await signIns(other).read()).toEqual(await signIns(folder).read())
  expect((await json(restore("auth", "token", "list", "--json"))).map(({ name }: { name: string }) => name)).toEqual([
    "laptop",
  ])
})

test("a restore keeps what it replaces, changes nothing twice, and waits for svc to be stopped [backup:all]", async () => {
  const { folder, svc, file } = await configured()
  await svc("backup", file)
  const before = documents(folder)
  const isFile = ([path]: readonly [string, string]) => !path.includes("/backups")
  const edited = '{"mcpServers":{}}\n'
  writeFileSync(join(folder, "mcp.json"), edited)
  expect((await svc("restore", file, "--dry-run")).stdout).toContain("mcp.json")
  expect(readIfThere(join(folder, "mcp.json"))).toBe(edited)
  const { kept, changed } = await json(svc("restore", file, "--yes", "--json"))
  expect([changed, readIfThere(join(kept, "mcp.json"))]).toEqual([["mcp.json"], edited])
  expect(Object.entries(documents(folder)).filter(isFile)).toEqual(Object.entries(before))
  expect((await json(svc("restore", file, "--yes", "--json"))).changed).toEqual([])
  writeFileSync(join(folder, "other"), "{}")
  expect((await svc("restore", join(folder, "other"), "--yes")).stderr).toContain("is no backup of svc")
  {
    await using running = await startSvc({ folder, env: ENV })
    await eventually(async () => (await fetch(`${running.url}/health/live`)).ok)
    expect((await svc("restore", file, "--dry-run")).code).toBe(0)
    const refused = await svc("restore", file, "--yes")
    expect([refused.code === 0, refused.stderr]).toEqual([false, expect.stringContaining("svc stop")])
  }
})
