/**
 * Makes a release in dist/release: `bun run release`. Builds every platform, packs them, and writes manifests, notices, the
 * bill of materials, the changes, SHA256SUMS and its signature.
 *
 *   --repository URL   the repository, unless package.json names one
 *   --programs DIR     takes the programs from DIR instead of building them
 *   --out DIR          writes into DIR
 *   --unsigned         makes no signature; otherwise SVC_SIGNING_KEY is a secret key of `minisign -G -W`
 */
import { copyFileSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { parseArgs } from "node:util"
import manifest from "../package.json" with { type: "json" }
import { verifyMinisign } from "../src/lib/minisign.ts"
import { type PackedFile, textFile } from "./release/archive.ts"
import { changesOf } from "./release/changelog.ts"
import { componentsOf, noticesOf } from "./release/components.ts"
import { containerFiles } from "./release/container.ts"
import { deb, debName } from "./release/deb.ts"
import { checkNeeds } from "./release/elf.ts"
import { type Facts, factsOf, PLATFORMS } from "./release/facts.ts"
import { stampInstaller } from "./release/installer.ts"
import { checkMachO } from "./release/macho.ts"
import { homebrewFormula, scoopManifest, wingetManifests } from "./release/manifests.ts"
import { readSigningKey, type SigningKey, signMinisign } from "./release/minisign.ts"
import { npmLauncher, npmName, npmPlatform } from "./release/npm.ts"
import { checkRpmbuild, rpm, rpmName } from "./release/rpm.ts"
import { sbomOf } from "./release/sbom.ts"

const root = join(import.meta.dir, "..")

try {
  await release()
} catch (error) {
  process.stderr.write(`release: ${error instanceof Error ? error.message : String(error)}\n`)
  process.exitCode = 1
}

async function release(): Promise<void> {
  const { values } = parseArgs({
    options: {
      repository: { type: "string" },
      programs: { type: "string" },
      out: { type: "string" },
      unsigned: { type: "boolean" },
    },
  })
  const repository = values.repository ?? ("repository" in manifest ? manifest.repository : undefined)
  const facts = factsOf(manifest, repository, new Date(Number(git("log", "-1", "--format=%ct")) * 1000))
  const key = values.unsigned === true ? undefined : signingKey()
  checkRpmbuild()
  const programs = values.programs ?? (await build(facts, key))
  const out = values.out ?? join(root, "dist", "release")
  rmSync(out, { recursive: true, force: true })
  mkdirSync(out, { recursive: true })
  for (const { file } of PLATFORMS) copyFileSync(join(programs, file), join(out, file))
  await writeAll(facts, out)
  sign(facts, out, key)
  for (const file of readdirSync(out).sort())
    process.stderr.write(`${(statSync(join(out, file)).size / 1e6).toFixed(3).padStart(10)} MB  ${file}\n`)
}

/** Builds the programs of all platforms, which know where their releases are, and returns their folder. */
async function build({ latest }: Facts, key: SigningKey | undefined): Promise<string> {
  const env = {
    ...process.env,
    SVC_RELEASES: latest,
    SVC_RELEASE_KEY: key?.publicKey ?? "",
    SVC_SIGNING_KEY: undefined,
  }
  const child = Bun.spawn([process.execPath, join(root, "build.ts"), "--all"], {
    env,
    stdout: "inherit",
    stderr: "inherit",
  })
  if ((await child.exited) !== 0) throw new Error("the build failed; its error stands above")
  const folder = join(root, "dist")
  for (const platform of PLATFORMS) {
    const program = readFileSync(join(folder, platform.file))
    checkNeeds(platform, program)
    checkMachO(platform, program)
  }
  return folder
}

async function writeAll(facts: Facts, out: string): Promise<void> {
  const components = componentsOf(root)
  const license = readFileSync(join(root, "LICENSE"), "utf8")
  const notices = noticesOf(components, Bun.version)
  const program = (file: string) => readFileSync(join(out, file))
  const write = (file: string, content: string | Uint8Array, mode = 0o644) =>
    writeFileSync(join(out, file), content, { mode })

  const documents: readonly PackedFile[] = [textFile("LICENSE", license), textFile("THIRD-PARTY-NOTICES.txt", notices)]
  for (const { path, content } of documents) write(path, content)
  write(npmName(facts), npmLauncher(facts, documents))
  for (const platform of PLATFORMS) {
    const content = program(platform.file)
    write(npmName(facts, platform), npmPlatform(facts, platform, content, documents))
    if (platform.libc !== "glibc") continue
    const installed = [
      { path: "usr/bin/svc", mode: 0o755, content },
      textFile("usr/share/doc/svc/copyright", `${license}\n${notices}`),
    ]
    write(debName(facts, platform.cpu), deb(facts, platform.cpu, installed))
    write(rpmName(facts, platform.cpu), rpm(facts, platform.cpu, installed))
  }

  const sumOf = (file: string) => sha256(program(file))
  write("svc.rb", homebrewFormula(facts, sumOf))
  write("svc.json", scoopManifest(facts, sumOf))
  for (const [file, text] of wingetManifests(facts, sumOf)) write(file, text)
  for (const [file, text] of containerFiles(facts)) write(file, text)
  for (const file of ["install.sh", "install.ps1"])
    write(file, stampInstaller(readFileSync(join(root, file), "utf8"), facts.latest), 0o755)
  write("svc.cdx.json", sbomOf(facts, components, Object.keys(manifest.dependencies), Bun.version))
  write("CHANGES.md", changesOf(readFileSync(join(root, "CHANGELOG.md"), "utf8"), facts.version, facts.date))
}

/** Writes SHA256SUMS over all files, and its signature. The trusted comment names the version: an old release is no new one. */
function sign(facts: Facts, out: string, key: SigningKey | undefined): void {
  const lines = readdirSync(out)
    .sort()
    .map((file) => `${sha256(readFileSync(join(out, file)))}  ${file}\n`)
  const sums = Buffer.from(lines.join(""))
  writeFileSync(join(out, "SHA256SUMS"), sums)
  if (key === undefined) return
  const signature = signMinisign(sums, key, `${facts.name} ${facts.version}`)
  verifyMinisign(sums, signature, key.publicKey)
  writeFileSync(join(out, "SHA256SUMS.minisig"), signature)
}

function signingKey(): SigningKey {
  const text = process.env.SVC_SIGNING_KEY ?? ""
  if (text === "")
    throw new Error("SVC_SIGNING_KEY is not set: set it to a key of `minisign -G -W`, or give --unsigned")
  return readSigningKey(text)
}

function sha256(content: Uint8Array): string {
  return new Bun.CryptoHasher("sha256").update(content).digest("hex")
}

function git(...args: readonly string[]): string {
  const { stdout, stderr, success } = Bun.spawnSync(["git", ...args], { cwd: root })
  if (!success) throw new Error(`git ${args[0]}: ${stderr.toString().trim()}`)
  return stdout.toString().trim()
}
