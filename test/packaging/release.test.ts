/** A release made of small programs that stand in for the real ones: its files, and what the tools of each system make of them. */
import { beforeAll, describe, expect, test } from "bun:test"
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { gunzipSync } from "node:zlib"
import { Ajv } from "ajv"
import addFormats from "ajv-formats"
import { Language, Parser } from "web-tree-sitter"
import manifest from "../../package.json" with { type: "json" }
import { PLATFORMS } from "../../scripts/release/facts.ts"
import { verifyMinisign } from "../../src/lib/minisign.ts"
import { runProgram } from "../process.ts"

const ROOT = join(import.meta.dir, "..", "..")
const { version } = manifest
const PUBLIC = "RWRhiXAgF9wuUZS9y6swbu19s5A59jdeKysc6hz/zJ43Tpe5nyfWJvd1"
const SECRET =
  "RWQAAEIyAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAYYlwIBfcLlFFRfaYlwI7ITvEkrjGYEry+0UBTzRtJD/Y+6l9GzxKbZS9y6swbu19s5A59jdeKysc6hz/zJ43Tpe5nyfWJvd1AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="

const folder = mkdtempSync(join(tmpdir(), "svc-release-"))
const programs = join(folder, "programs")
const out = join(folder, "out")

const run = (cmd: readonly string[], options: { cwd?: string; env?: Record<string, string | undefined> } = {}) =>
  runProgram(cmd, { cwd: options.cwd ?? ROOT, env: { ...process.env, ...options.env } })

const release = (args: readonly string[], env: Record<string, string | undefined>) =>
  run([process.execPath, "scripts/release.ts", "--programs", programs, ...args], { env: { PATH, ...env } })
const REPOSITORY = ["--repository", "https://github.com/Own/svc"]

const bytes = (file: string) => readFileSync(join(out, file))
const text = (file: string) => readFileSync(join(out, file), "utf8")
const sha256 = (content: Uint8Array) => new Bun.CryptoHasher("sha256").update(content).digest("hex")

const HAS_RPMBUILD = Bun.which("rpmbuild") !== null
/** Without rpmbuild, a program that stands in for it writes empty packages, so that the other files of a release are tested. */
const PATH = HAS_RPMBUILD ? process.env.PATH : `${join(folder, "bin")}:${process.env.PATH}`

beforeAll(async () => {
  mkdirSync(programs)
  mkdirSync(join(folder, "bin"))
  writeFileSync(join(folder, "bin", "rpmbuild"), "#!/bin/sh\n: >package.rpm\n", { mode: 0o755 })
  for (const { file } of PLATFORMS)
    writeFileSync(join(programs, file), `#!/bin/sh\necho "${file} $*"\nexit "\${CODE:-0}"\n`, { mode: 0o755 })
  const { code, stderr } = await release([...REPOSITORY, "--out", out], { SVC_SIGNING_KEY: SECRET })
  expect([code, stderr.includes("release:")]).toEqual([0, false])
})

describe("files", () => {
  test("SHA256SUMS names every file of the release, and its signature names the version [release:signature]", () => {
    const sums = text("SHA256SUMS").trim().split("\n")
    const files = readdirSync(out).filter((file) => !file.startsWith("SHA256SUMS"))
    expect(sums).toEqual(files.sort().map((file) => `${sha256(bytes(file))}  ${file}`))
    expect(verifyMinisign(bytes("SHA256SUMS"), text("SHA256SUMS.minisig"), PUBLIC)).toBe(`svc ${version}`)
  })

  test("a release has the programs, packages, manifests and documents of all systems", () => {
    expect(readdirSync(out).sort()).toEqual(
      [
        ...PLATFORMS.flatMap(({ file }) => [file, `own-${file.replace(".exe", "")}-${version}.tgz`]),
        ...["amd64", "arm64"].map((cpu) => `svc_${version}_${cpu}.deb`),
        ...["aarch64", "x86_64"].map((cpu) => `svc-${version}-1.${cpu}.rpm`),
        ...["", ".installer", ".locale.en-US"].map((part) => `own.svc${part}.yaml`),
        ...["CHANGES.md", "LICENSE", "SHA256SUMS", "SHA256SUMS.minisig", "THIRD-PARTY-NOTICES.txt", "svc.cdx.json"],
        ...[
          "Dockerfile",
          "compose.yaml",
          "kubernetes-replicas.yaml",
          "kubernetes.yaml",
          "install.ps1",
          "install.sh",
          "svc.json",
          "svc.rb",
        ],
        `own-svc-${version}.tgz`,
      ].sort(),
    )
  })

  test("the same commit gives the same bytes again [release:same-bytes]", async () => {
    const again = join(folder, "again")
    await release([...REPOSITORY, "--out", again], { SVC_SIGNING_KEY: SECRET })
    expect(readFileSync(join(again, "SHA256SUMS.minisig"), "utf8")).toBe(text("SHA256SUMS.minisig"))
  })

  test("without a key, without a repository and with a wrong one it says what to do, and writes nothing", async () => {
    const nowhere = join(folder, "nowhere")
    const cases: readonly (readonly [readonly string[], string | undefined, string])[] = [
      [REPOSITORY, undefined, "SVC_SIGNING_KEY is not set: set it to a key of `minisign -G -W`, or give --unsigned"],
      [REPOSITORY, "AAAA", "the signing key is not a secret key of minisign"],
      [[], SECRET, "package.json names no repository: set it there, or give --repository URL"],
      [["--repository", "http://x/y"], SECRET, "repository in package.json is not an https URL"],
    ]
    for (const [args, key, reason] of cases) {
      const { code, stderr } = await release([...args, "--out", nowhere], { SVC_SIGNING_KEY: key })
      expect([code, stderr]).toEqual([1, `release: ${reason}\n`])
    }
    expect(existsSync(nowhere)).toBe(false)
  })
})

describe("deb", () => {
  const deb = `svc_${version}_arm64.deb`

  test("the package has the program and its licenses, and keeps out the other program of its name", () => {
    const parts = arOf(bytes(deb))
    expect([...parts.keys()]).toEqual(["debian-binary", "control.tar.gz", "data.tar.gz"])
    const control = gunzipSync(parts.get("control.tar.gz") ?? "").toString()
    for (const line of [
      `Version: ${version}`,
      "Architecture: arm64",
      "Depends: libc6 (>= 2.17)",
      "Conflicts: daemontools",
    ])
      expect(control).toContain(`${line}\n`)
    const data = gunzipSync(parts.get("data.tar.gz") ?? "").toString()
    expect(data).toContain("./usr/bin/svc\0")
    expect(data).toContain('echo "svc-linux-arm64 $*"')
    expect(data).toContain("./usr/share/doc/svc/copyright\0")
  })

  test.if(Bun.which("dpkg-deb") !== null)("dpkg-deb reads it", async () => {
    const fields = await run(["dpkg-deb", "-f", join(out, deb), "Package", "Version", "Architecture"])
    expect(fields.stdout).toBe(`Package: svc\nVersion: ${version}\nArchitecture: arm64\n`)
    const listed = await run(["dpkg-deb", "-c", join(out, deb)])
    expect(listed.stdout).toMatch(/^-rwxr-xr-x root\/root +\d+ [\d-]+ [\d:]+ \.\/usr\/bin\/svc$/m)
    const unpacked = join(folder, "deb")
    expect((await run(["dpkg-deb", "-x", join(out, deb), unpacked])).code).toBe(0)
    expect((await run([join(unpacked, "usr/bin/svc"), "--version"])).stdout).toBe("svc-linux-arm64 --version\n")
  })
})

describe("rpm", () => {
  const rpm = `svc-${version}-1.x86_64.rpm`

  test("without rpmbuild, the release says what to install, and writes nothing", async () => {
    const nowhere = join(folder, "nowhere")
    const tools = join(folder, "tools")
    mkdirSync(tools)
    symlinkSync(Bun.which("git") ?? "", join(tools, "git"))
    const { code, stderr } = await release([...REPOSITORY, "--out", nowhere, "--unsigned"], { PATH: tools })
    expect([code, stderr]).toEqual([
      1,
      expect.stringMatching(/^release: rpmbuild is not in PATH: install the package rpm/),
    ])
    expect(existsSync(nowhere)).toBe(false)
  })

  test.if(HAS_RPMBUILD)(
    "the package has the program and its licenses, and says what it needs (skipped without rpmbuild)",
    async () => {
      const { stdout, code } = await run(["rpm", "-Kv", rpm], { cwd: out })
      expect([code, stdout.includes("Payload SHA256 digest: OK"), stdout.includes("BAD")]).toEqual([0, true, false])
      const format =
        "%{NEVRA} %{LICENSE} %{OS} [%{CONFLICTS} ]%{PAYLOADCOMPRESSOR}\n[%{FILEMODES:perms} %{FILEUSERNAME} %{FILENAMES}\n]"
      const query = await run(["rpm", "-qp", "--qf", format, "--requires", rpm], { cwd: out })
      expect(query.stdout).toContain("\nlibc.so.6(GLIBC_2.17)(64bit)\n")
      expect(query.stdout).toStartWith(
        `svc-${version}-1.x86_64 MIT linux daemontools gzip\n-rwxr-xr-x root /usr/bin/svc\n-rw-r--r-- root /usr/share/doc/svc/copyright\n`,
      )
      expect((await run(["rpm2cpio", rpm], { cwd: out })).stdout).toContain('echo "svc-linux-x64 $*"')
    },
  )
})

describe("npm", () => {
  test("the launcher runs the program of this platform with its arguments, and ends with its exit code", async () => {
    const project = join(folder, "project")
    mkdirSync(project)
    writeFileSync(join(project, "package.json"), "{}")
    // npm refuses a package of another libc.
    const libc = existsSync("/etc/alpine-release") ? "-musl" : ""
    const tarballs = ["own-svc", `own-svc-${process.platform}-${process.arch}${libc}`].map(
      (name) => `${name}-${version}.tgz`,
    )
    const flags = ["--no-audit", "--no-fund", "--offline", "--cache", join(folder, "npm")]
    const installed = await run(["npm", "install", ...flags, ...tarballs.map((file) => join(out, file))], {
      cwd: project,
    })
    expect([installed.code, installed.stderr]).toEqual([0, expect.not.stringContaining("ERR")])
    const svc = join(project, "node_modules", ".bin", "svc")
    const { stdout, stderr, code } = await run([svc, "--version", "a b"], { cwd: project, env: { CODE: "7" } })
    expect([code, stdout, stderr]).toEqual([7, expect.stringMatching(/^svc-\w+-\w+ --version a b\n$/), ""])
    expect(existsSync(join(project, "node_modules/@own/svc/THIRD-PARTY-NOTICES.txt"))).toBe(true)
  })

  test("without the package of the platform the launcher says what is missing", async () => {
    const alone = join(folder, "alone")
    mkdirSync(alone)
    await run(["tar", "-xzf", join(out, `own-svc-${version}.tgz`), "-C", alone])
    const { stderr, code } = await run(["node", join(alone, "package/launcher.js"), "--version"])
    expect(code).toBe(69)
    expect(stderr).toMatch(/^svc: the package @own\/svc-\w+-\w+ is missing: install again, without --omit=optional\n$/)
  })
})

describe("manifests", () => {
  test.each([
    ["svc.rb", 4],
    ["svc.json", 1],
    ["own.svc.installer.yaml", 1],
  ])("every URL in %s is a file of this version, followed by its SHA-256", (file, count) => {
    const urls = [
      ...text(file).matchAll(
        /https:\/\/github\.com\/Own\/svc\/releases\/download\/v([^/]+)\/([\w.-]+)[\s\S]*?\b([0-9a-fA-F]{64})\b/g,
      ),
    ]
    expect(urls.length).toBe(count)
    for (const [, tag, name = "", sum] of urls)
      expect([tag, sum?.toLowerCase()]).toEqual([version, sha256(bytes(name))])
  })

  test("the manifests of winget are YAML of one package and version", () => {
    for (const part of ["", ".installer", ".locale.en-US"]) {
      const parsed = Bun.YAML.parse(text(`own.svc${part}.yaml`))
      expect(parsed).toMatchObject({ PackageIdentifier: "own.svc", PackageVersion: version, ManifestVersion: "1.6.0" })
    }
  })

  test("the scripts that install have the URL of the latest release", () => {
    const url = "https://github.com/Own/svc/releases/latest/download"
    expect(text("install.sh")).toContain(`\npublished=${url}\n`)
    expect(text("install.ps1")).toContain(`\n$published = '${url}'\n`)
    expect(readFileSync(join(ROOT, "install.ps1"), "utf8")).not.toMatch(/https?:/)
  })
})

describe("install.ps1", () => {
  test("it is PowerShell, and moves the program into place after the check of its SHA-256 alone", async () => {
    await Parser.init()
    const grammar = join(ROOT, "node_modules/tree-sitter-powershell/tree-sitter-powershell.wasm")
    const parser = new Parser().setLanguage(await Language.load(grammar))
    const script = text("install.ps1")
    expect(parser.parse(script)?.rootNode.hasError).toBe(false)
    expect(parser.parse(script.replace("try {", "try"))?.rootNode.hasError).toBe(true)
    const order = ["Get-FileHash", "-ne $expected) { throw", "Move-Item -Force $new $program"].map((part) =>
      script.indexOf(part),
    )
    expect(order).toEqual(order.filter((at) => at > 0).sort((one, other) => one - other))
  })
})

describe("images", () => {
  test("the Dockerfile copies files of the release, and each image runs unprivileged under tini with a health check", () => {
    const images = text("Dockerfile").split(/^FROM /m)
    for (const [, line = ""] of text("Dockerfile").matchAll(/^COPY (?:--chmod=755 )?([^-].*) \S+$/gm))
      expect(line.split(" ").filter((file) => !existsSync(join(out, file)))).toEqual([])
    const final = images.filter((image) => image.includes("ENTRYPOINT"))
    expect(final.map((image) => image.split("\n")[0])).toEqual([
      "node:24-bookworm-slim AS node",
      "alpine:3 AS alpine",
      "gcr.io/distroless/base-nossl-debian12:nonroot",
    ])
    for (const image of final) {
      expect(image).toContain("\nUSER 65532:65532\n")
      expect(image).toContain('\nENTRYPOINT ["/usr/bin/tini", "--", "/usr/bin/svc"]\nCMD ["serve"]')
      expect(image).toContain(' CMD ["/usr/bin/svc", "health"]\n')
      expect(image).toContain("LICENSE THIRD-PARTY-NOTICES.txt")
    }
    expect(final[1]).toContain("libstdc++ libgcc")
  })

  test("the examples for Compose and Kubernetes run the image of this version, and Kubernetes probes the health paths", () => {
    const image = `ghcr.io/own/svc:${version}-node`
    expect(Bun.YAML.parse(text("compose.yaml"))).toMatchObject({ services: { svc: { image } } })
    const [, deployment] = Bun.YAML.parse(text("kubernetes.yaml")) as readonly unknown[]
    const probe = (path: string) => ({ httpGet: { path, port: "http" } })
    const container = { image, livenessProbe: probe("/health/live"), readinessProbe: probe("/health/ready") }
    expect(deployment).toMatchObject({ kind: "Deployment", spec: { template: { spec: { containers: [container] } } } })
  })

  test("the workflow makes the release as `bun run release` does, and publishes all of it", () => {
    const workflow = readFileSync(join(ROOT, ".github/workflows/release.yml"), "utf8")
    expect(Bun.YAML.parse(workflow)).toMatchObject({ jobs: { release: { "runs-on": "ubuntu-latest" } } })
    expect(workflow).toContain("bun run release --repository")
    expect(workflow).toContain("--notes-file dist/release/CHANGES.md dist/release/*")
    const targets = [...workflow.matchAll(/--target (\w+)/g)].map(([, target]) => target)
    expect(targets.filter((target) => !text("Dockerfile").includes(` AS ${target}\n`))).toEqual([])
    const [, patterns = ""] = /for package in (.*); do/.exec(workflow) ?? []
    const published = patterns.split(" ").flatMap((pattern) => [...new Bun.Glob(pattern).scanSync(out)])
    expect(published.sort()).toEqual(
      readdirSync(out)
        .filter((file) => file.endsWith(".tgz"))
        .sort(),
    )
  })
})

describe("bill of materials", () => {
  test("it is valid CycloneDX 1.6 and names every package that svc depends on at run time, and Bun", () => {
    const schema = (name: string) =>
      JSON.parse(
        readFileSync(
          join(ROOT, "node_modules/@cyclonedx/cyclonedx-library/res/schema", `${name}.SNAPSHOT.schema.json`),
          "utf8",
        ),
      )
    const ajv = new Ajv({ strict: false })
    for (const name of ["spdx", "jsf-0.82", "cryptography-defs"])
      ajv.addSchema({ ...schema(name), $id: `http://cyclonedx.org/schema/${name}.SNAPSHOT.schema.json` })
    addFormats.default(ajv)
    for (const format of ["iri-reference", "idn-email"]) ajv.addFormat(format, true)
    const bom = JSON.parse(text("svc.cdx.json"))
    const validate = ajv.compile(schema("bom-1.6"))
    validate(bom)
    expect(validate.errors ?? []).toEqual([])
    const ids = bom.components.map((one: { name: string; version: string }) => `${one.name}@${one.version}`)
    for (const [name, exact] of Object.entries(manifest.dependencies)) expect(ids).toContain(`${name}@${exact}`)
    for (const name of Object.keys(manifest.devDependencies))
      expect(ids.filter((id: string) => id.startsWith(`${name}@`))).toEqual([])
    expect(ids).toContain(`bun@${Bun.version}`)
    const refs = new Set(bom.components.map((one: { "bom-ref": string }) => one["bom-ref"]))
    const used = bom.dependencies.flatMap((one: { dependsOn?: string[] }) => one.dependsOn ?? [])
    expect(used.filter((ref: string) => !refs.has(ref))).toEqual([])
    for (const id of ids)
      expect(text("THIRD-PARTY-NOTICES.txt")).toContain(id.startsWith("bun@") ? "\nBun " : `\n${id} (`)
  })
})

// ---

/** Returns the members of an ar archive by name. */
function arOf(archive: Buffer): ReadonlyMap<string, Buffer> {
  const members = new Map<string, Buffer>()
  for (let at = 8; at < archive.length; ) {
    const size = Number(archive.toString("latin1", at + 48, at + 58))
    members.set(archive.toString("latin1", at, at + 16).trim(), archive.subarray(at + 60, at + 60 + size))
    at += 60 + size + (size % 2)
  }
  return members
}
