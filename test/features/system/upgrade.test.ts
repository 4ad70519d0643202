/** The replacement of the program: svc installs a complete, signed program and keeps the previous one, or changes nothing. */
import { afterAll, beforeEach, expect, test } from "bun:test"
import { generateKeyPairSync } from "node:crypto"
import { chmodSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { type SigningKey, signMinisign } from "../../../scripts/release/minisign.ts"
import { findRelease, releaseFile } from "../../../src/features/system/release-download.ts"
import { installRelease, packageManagerOf, rollBack } from "../../../src/features/system/upgrade.ts"

const FILE = "svc-linux-x64"
const newKey = (): SigningKey => {
  const { d = "", x = "" } = generateKeyPairSync("ed25519").privateKey.export({ format: "jwk" })
  const [id, own] = [Buffer.from("12345678"), Buffer.from(x, "base64url")]
  return {
    id,
    secret: Buffer.concat([Buffer.from(d, "base64url"), own]),
    publicKey: Buffer.concat([Buffer.from("Ed"), id, own]).toString("base64"),
  }
}
const KEY = newKey()
const programOf = (version: string) => `#!/bin/sh\necho "${version} (abc)"\n`
const sha256 = (text: string) => new Bun.CryptoHasher("sha256").update(text).digest("hex")

/** The files of a release, by name. */
type Files = Record<string, string>

function releaseOf(version: string, key: SigningKey | "unsigned" = KEY, program = programOf(version)): Files {
  const sums = `${sha256("other")}  svc-darwin-x64\n${sha256(program)}  ${FILE}\n`
  return {
    [FILE]: program,
    SHA256SUMS: sums,
    ...(key === "unsigned" ? {} : { "SHA256SUMS.minisig": signMinisign(Buffer.from(sums), key, `svc ${version}`) }),
  }
}

/** A file whose download breaks off. */
const BROKEN = "broken"

const broken = Bun.listen({
  hostname: "127.0.0.1",
  port: 0,
  socket: {
    data: (socket) => void socket.end("HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n#!/bin/sh\n"),
  },
})

let files: Files = {}
const server = Bun.serve({
  hostname: "127.0.0.1",
  port: 0,
  fetch(request) {
    const content = files[new URL(request.url).pathname.replace("/releases/latest/download/", "")]
    if (content === BROKEN) return Response.redirect(`http://127.0.0.1:${broken.port}/`)
    return content === undefined ? new Response("none", { status: 404 }) : new Response(content)
  },
})
const releases = new URL("/releases/latest/download", server.url).href
const folder = mkdtempSync(join(tmpdir(), "svc-upgrade-"))
const program = join(folder, "svc")
const current = { program, file: FILE, releases, key: KEY.publicKey as string | undefined }
const any = () => true

beforeEach(() => {
  for (const name of readdirSync(folder)) rmSync(join(folder, name))
  writeFileSync(program, programOf("1.0.0"))
  chmodSync(program, 0o755)
})
afterAll(async () => {
  broken.stop(true)
  await server.stop(true)
  rmSync(folder, { recursive: true })
})

const upgrade = async (upgraded = current, wanted?: string) =>
  installRelease(upgraded.program, await findRelease(upgraded, wanted), any)

test("a signed release replaces the program, and the previous program can be restored [cli:upgrade]", async () => {
  files = releaseOf("1.1.0")
  expect(await findRelease(current)).toMatchObject({ version: "1.1.0", isInstalled: false })
  expect(await upgrade()).toBe("1.1.0")
  expect(readFileSync(program, "utf8")).toBe(programOf("1.1.0"))
  expect(readdirSync(folder).sort()).toEqual(["svc", "svc.previous"])
  expect((await findRelease(current)).isInstalled).toBe(true)

  files = releaseOf("1.2.0")
  expect(await upgrade()).toBe("1.2.0")
  expect(await rollBack(program)).toBe("1.1.0")
  expect(await rollBack(program)).toBe("1.2.0")
  expect(readdirSync(folder).sort()).toEqual(["svc", "svc.previous"])
})

const tampered = `${programOf("1.1.0")}# more\n`
test.each<[string, Files, string]>([
  ["a program that was changed", { ...releaseOf("1.1.0"), [FILE]: tampered }, "differs from SHA256SUMS"],
  [
    "a program that was cut off",
    { ...releaseOf("1.1.0"), [FILE]: programOf("1.1.0").slice(0, 9) },
    "differs from SHA256SUMS",
  ],
  ["a download that breaks off", { ...releaseOf("1.1.0"), [FILE]: BROKEN }, "nothing was changed"],
  [
    "sums that were changed together with the program",
    { ...releaseOf("1.1.0", KEY, tampered), "SHA256SUMS.minisig": releaseOf("1.1.0")["SHA256SUMS.minisig"] ?? "" },
    "not signed by the key of svc",
  ],
  ["a signature of another key", releaseOf("1.1.0", newKey()), "not signed by the key of svc"],
  ["a signature that is none", { ...releaseOf("1.1.0"), "SHA256SUMS.minisig": "none" }, "not signed by the key of svc"],
  ["no signature", releaseOf("1.1.0", "unsigned"), "is unsigned: it has no SHA256SUMS.minisig"],
  ["no sums", {}, "there is no release at "],
  ["no file for this platform", { ...releaseOf("1.1.0"), ...signedSums("") }, `has no file ${FILE}`],
  [
    "a signature of another file of the project",
    { ...releaseOf("1.1.0"), ...signedSums("", "notes") },
    "does not name a version",
  ],
  [
    "a program whose version differs from its signature",
    { ...releaseOf("1.1.0", KEY, programOf("0.9.0")) },
    "is 0.9.0, not 1.1.0",
  ],
  ["a program that does not run", releaseOf("1.1.0", KEY, "#!/bin/sh\nexit 1\n"), "does not run on this machine"],
])("nothing is changed by %s [cli:upgrade:checks]", async (_what, served, message) => {
  files = served
  await expect(upgrade()).rejects.toThrow(message)
  expect([readdirSync(folder), readFileSync(program, "utf8")]).toEqual([["svc"], programOf("1.0.0")])
})

function signedSums(sums: string, comment = "svc 1.1.0"): Files {
  return { SHA256SUMS: sums, "SHA256SUMS.minisig": signMinisign(Buffer.from(sums), KEY, comment) }
}

test("an old release cannot be passed off as the requested one [cli:upgrade:checks]", async () => {
  const old = releaseOf("1.0.5")
  files = Object.fromEntries(Object.entries(old).map(([name, text]) => [`/releases/download/v1.1.0/${name}`, text]))
  await expect(upgrade(current, "1.1.0")).rejects.toThrow("is signed as 1.0.5, not as 1.1.0")
})

test("a refused version is not installed [cli:upgrade]", async () => {
  files = releaseOf("0.9.0", "unsigned")
  const unsigned = { ...current, key: undefined }
  const release = await findRelease(unsigned)
  expect(release.version).toBeUndefined()
  await expect(installRelease(unsigned.program, release, (version) => version !== "0.9.0")).rejects.toThrow("is 0.9.0")
  expect(readFileSync(program, "utf8")).toBe(programOf("1.0.0"))
})

test("releases come over https, or from this machine [cli:upgrade:checks]", async () => {
  for (const address of ["http://releases.example/latest", "ftp://127.0.0.1/", "nonsense"])
    await expect(findRelease({ ...current, releases: address })).rejects.toThrow("must be at an https URL")
  await expect(findRelease({ ...current, releases: "https://x.example/files" }, "1.1.0")).rejects.toThrow(
    "--version needs releases at",
  )
})

test("a rollback without an earlier program says so [cli:upgrade]", async () => {
  await expect(rollBack(program)).rejects.toThrow("svc.previous does not exist")
})

test("svc does not change a program that a package manager installed [cli:upgrade]", () => {
  const manager = (path: string, dpkg = true) => packageManagerOf(path, () => dpkg)
  expect([
    manager("/usr/local/lib/node_modules/svc-linux-x64/svc"),
    manager("/opt/homebrew/Cellar/svc/1.0.0/bin/svc"),
    manager("/usr/bin/svc"),
    manager("/usr/bin/svc", false),
    manager("C:\\Users\\ann\\scoop\\apps\\svc\\current\\svc.exe"),
    manager("/nix/store/abc-svc/bin/svc"),
  ]).toEqual(["npm", "brew", "apt", "dnf", "scoop", "nix"])
  expect(["/usr/local/bin/svc", "/home/ann/.local/bin/svc", "C:\\svc\\svc.exe"].map((path) => manager(path))).toEqual([
    undefined,
    undefined,
    undefined,
  ])
})

test("each platform has its file [cli:upgrade]", () => {
  expect([
    releaseFile("linux", "x64", false),
    releaseFile("linux", "arm64", true),
    releaseFile("darwin", "arm64", false),
    releaseFile("win32", "x64", false),
  ]).toEqual(["svc-linux-x64", "svc-linux-arm64-musl", "svc-darwin-arm64", "svc-windows-x64.exe"])
})
