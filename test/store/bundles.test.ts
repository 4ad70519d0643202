import { expect, test } from "bun:test"
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { systemClock } from "../../src/lib/clock.ts"
import { type BundleFile, createBundleStore } from "../../src/store/bundles.ts"
import type { Paths } from "../../src/store/paths.ts"
import { recoverTrials } from "../../src/store/transaction.ts"

const [OLD, NEW] = ["a".repeat(64), "b".repeat(64)]
const short = (hash: string) => hash.slice(0, 16)
const live = new AbortController().signal

function place(name = "mcp.json"): Paths {
  const directory = mkdtempSync(join(tmpdir(), "svc-bundles-"))
  const at = (file: string) => join(directory, file)
  writeFileSync(at(name), "{}")
  return { directory, file: at(name), dotenv: at(".env"), presets: at("presets.json") }
}
const file = (path: string, content = "x", executable = false): BundleFile => ({
  path,
  executable,
  read: async () => Buffer.from(content),
})
/** Marks the bundle as installed. */
async function put(paths: Paths, server: string, hash: string): Promise<string> {
  const shelf = createBundleStore(paths, systemClock)
  const folder = shelf.folder(server, hash)
  const staged = await shelf.unpack(folder, [file("manifest.json")], live)
  staged.commit()
  await staged.discard()
  return folder
}

test("a bundle appears in its place all at once, readable only by its user", async () => {
  const paths = place()
  const shelf = createBundleStore(paths, systemClock)
  const folder = shelf.folder("my server", OLD)
  expect(folder).toBe(join(paths.directory, "bundles", "my-server", short(OLD)))
  const staged = await shelf.unpack(folder, [file("a/b/run", "go", true), file("a/c")], live)
  expect(existsSync(folder)).toBe(false)
  staged.commit()
  await staged.discard()
  expect(readFileSync(join(folder, "a/b/run"), "utf8")).toBe("go")
  const mode = (path: string) => statSync(join(paths.directory, "bundles", path)).mode & 0o777
  expect(["", "my-server", `my-server/${short(OLD)}/a/b`].map(mode)).toEqual([0o700, 0o700, 0o700])
  expect([mode(`my-server/${short(OLD)}/a/b/run`), mode(`my-server/${short(OLD)}/a/c`)]).toEqual([0o700, 0o600])
  expect(readdirSync(join(paths.directory, "bundles"))).toEqual(["my-server"])
})

test("a bundle that cannot be unpacked, or is discarded, leaves nothing behind", async () => {
  const paths = place()
  const shelf = createBundleStore(paths, systemClock)
  const folder = shelf.folder("s", OLD)
  const broken: BundleFile = { ...file("b"), read: () => Promise.reject(new Error('its file "b" is damaged')) }
  for (const [files, message] of [
    [[file("a"), broken], 'cannot be unpacked: its file "b" is damaged'],
    [[file("a"), file("a")], "cannot be unpacked: EEXIST: file already exists, open 'a'"],
    [[file("a"), file("a/b")], "cannot be unpacked"],
  ] as const)
    await expect(shelf.unpack(folder, files, live)).rejects.toThrow(message)
  await expect(shelf.unpack(folder, [file("a")], AbortSignal.abort())).rejects.toThrow("gave up")
  await (await shelf.unpack(folder, [file("a")], live)).discard()
  expect(readdirSync(paths.directory)).toEqual(["mcp.json"])
})

test("pruning removes the bundles of one server that mcp.json does not name", async () => {
  const paths = place()
  const [old, fresh, other] = [await put(paths, "s", OLD), await put(paths, "s", NEW), await put(paths, "t", OLD)]
  const shelf = createBundleStore(paths, systemClock)
  writeFileSync(paths.file, JSON.stringify({ args: [`${fresh}/x`] }))
  await shelf.prune("s")
  expect([old, fresh, other].map((folder) => existsSync(folder))).toEqual([false, true, true])
  writeFileSync(paths.file, "{}")
  await shelf.prune("s")
  await shelf.prune("t")
  expect(readdirSync(paths.directory).sort()).toEqual(["mcp.json", "mcp.json.lock"])
})

test("the next start removes bundles that a killed process left behind, unless a backup names them or their process holds the lock", async () => {
  const paths = place()
  const [kept, backed, lost] = [
    await put(paths, "s", OLD),
    await put(paths, "t", NEW),
    await put(paths, "u", "c".repeat(64)),
  ]
  writeFileSync(paths.file, JSON.stringify({ args: [`${kept}/x`] }))
  mkdirSync(join(paths.directory, "backups"))
  writeFileSync(join(paths.directory, "backups", "mcp-2026-01-01T00-00-00.000Z.json"), `// ${backed}`)
  const bundles = join(paths.directory, "bundles")
  mkdirSync(join(bundles, `~${process.ppid}-2`))
  writeFileSync(join(bundles, "~dead.lock"), "")
  const staged = await createBundleStore(paths, systemClock).unpack(join(bundles, "w", short(OLD)), [file("a")], live)
  const staging = readdirSync(bundles).filter((name) => name.startsWith("~") && !/dead|-2$/.test(name))
  // A file of the Finder.
  writeFileSync(join(bundles, ".DS_Store"), "")
  // Another configuration that shares the folder has its own bundles.
  const elsewhere = await put({ ...paths, file: join(paths.directory, "other.json") }, "v", OLD)
  expect(await recoverTrials(paths, systemClock)).toEqual([])
  expect([kept, backed, lost, elsewhere].map((folder) => existsSync(folder))).toEqual([true, true, false, true])
  expect(readdirSync(bundles).sort()).toEqual([".DS_Store", "s", "t", ...staging.sort()])
  staged.commit()
  await staged.discard()
  expect(readdirSync(bundles).sort()).toEqual([".DS_Store", "s", "t", "w"])
})
