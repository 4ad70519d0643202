/** `install.sh`, piped into a shell as from a URL, with a test release. */
import { expect, test } from "bun:test"
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, realpathSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import manifest from "../package.json" with { type: "json" }
import { factsOf } from "../scripts/release/facts.ts"
import { stampInstaller } from "../scripts/release/installer.ts"
import { runProgram } from "./process.ts"

const SCRIPT = readFileSync(join(import.meta.dir, "..", "install.sh"), "utf8")
const RELEASE = "#!/bin/sh\necho 1.2.3\n"

/** Runs a script as if it were piped from a URL. */
async function pipe(script: string, cwd: string, args: readonly string[], env: Record<string, string>) {
  return runProgram(["sh", "-s", "--", ...args], { cwd, env: { PATH: process.env.PATH ?? "", ...env }, input: script })
}

/** Runs `use` with the URL of a release that is `program`, and returns the name of the file that was downloaded. */
async function serve<R extends object>(program: string, use: (releases: string) => Promise<R>) {
  let name = ""
  await using releases = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    fetch({ url }) {
      const wanted = new URL(url).pathname.slice(1)
      if (wanted === "SHA256SUMS")
        return new Response(`${new Bun.CryptoHasher("sha256").update(program).digest("hex")}  ${name}\n`)
      name = wanted
      return new Response(program)
    },
  })
  const result = await use(releases.url.href.replace(/\/$/, ""))
  return { ...result, name }
}

const install = (cwd: string, ...args: string[]) =>
  serve(RELEASE, (releases) => pipe(SCRIPT, cwd, args, { SVC_RELEASES: releases }))

test("in the folder of another project, it runs no code of that project; a relative prefix starts at the working directory", async () => {
  const project = mkdtempSync(join(realpathSync(tmpdir()), "svc-install-"))
  mkdirSync(join(project, "test"))
  for (const file of ["package.json", "build.ts", "install.sh", "test/get-bun.sh"])
    writeFileSync(join(project, file), "echo foreign; exit 9\n")
  const { code, stdout, stderr } = await install(project, "--prefix", "own tools")
  expect([code, stderr]).toEqual([0, ""])
  expect(stdout).toContain(`installed ${join(project, "own tools", "bin", "svc")}: 1.2.3`)
  expect(existsSync(join(project, "own tools", "bin", "svc"))).toBe(true)
})

test("without HOME and --prefix, it says what it needs", async () => {
  const { code, stderr } = await install(tmpdir())
  expect(code).not.toBe(0)
  expect(stderr).toContain("HOME: is not set; give --prefix DIR")
})

test("without a URL of releases, it downloads nothing and says what to do", async () => {
  const cwd = mkdtempSync(join(realpathSync(tmpdir()), "svc-install-"))
  // The repository in the package.json of another project is not svc's.
  writeFileSync(join(cwd, "package.json"), '{ "name": "svc", "repository": "github:evil/svc" }')
  const bin = join(cwd, "bin")
  mkdirSync(bin)
  for (const tool of ["curl", "wget"]) writeFileSync(join(bin, tool), "#!/bin/sh\ntouch asked\n", { mode: 0o755 })
  const { code, stderr } = await pipe(SCRIPT, cwd, ["--prefix", "own"], { PATH: `${bin}:${process.env.PATH}` })
  expect([code, stderr]).toEqual([
    1,
    "install.sh: svc has no published releases yet: run ./install.sh in a clone to build it from source, or set SVC_RELEASES to the URL of the folder with the release files\n",
  ])
  expect(existsSync(join(cwd, "asked"))).toBe(false)
  expect(SCRIPT).not.toMatch(/https?:/)
})

test("the script of a release has the URL of the repository in package.json", async () => {
  const latest = (repository: unknown) => factsOf(manifest, repository, new Date(0)).latest
  const line = (repository: unknown) => /^published=.*$/m.exec(stampInstaller(SCRIPT, latest(repository)))?.[0]
  expect(() => line(undefined)).toThrow("package.json names no repository")
  for (const repository of [
    "github:own/svc",
    "https://github.com/own/svc",
    { type: "git", url: "git+https://github.com/own/svc.git" },
  ])
    expect(line(repository)).toBe("published=https://github.com/own/svc/releases/latest/download")
  for (const repository of ["http://github.com/own/svc", "https://x/$(touch pwned)", "own"])
    expect(() => line(repository)).toThrow("not an https URL")
  const cwd = mkdtempSync(join(realpathSync(tmpdir()), "svc-install-"))
  const bin = join(cwd, "bin")
  mkdirSync(bin)
  writeFileSync(join(bin, "curl"), '#!/bin/sh\necho "$2" >>asked; exit 1\n', { mode: 0o755 })
  const { stderr } = await pipe(stampInstaller(SCRIPT, latest("github:own/svc")), cwd, ["--prefix", "own"], {
    PATH: `${bin}:${process.env.PATH}`,
  })
  expect(stderr).toContain("cannot download https://github.com/own/svc/releases/latest/download/svc-")
  expect(readFileSync(join(cwd, "asked"), "utf8")).toStartWith("https://github.com/own/svc/releases/latest/download/")
})

test("on Alpine without the required libraries, it installs nothing and says which packages to add [release:installer]", async () => {
  const cwd = mkdtempSync(join(realpathSync(tmpdir()), "svc-install-"))
  const bin = join(cwd, "bin")
  mkdirSync(bin)
  writeFileSync(join(bin, "ldd"), "#!/bin/sh\necho '/lib/ld-musl-x86_64.so.1 (0x7f)'\n", { mode: 0o755 })
  const { name, code, stderr } = await serve(
    "#!/bin/sh\necho 'Error loading shared library libstdc++.so.6: No such file or directory' >&2; exit 127\n",
    (releases) =>
      pipe(SCRIPT, cwd, ["--prefix", "own"], { SVC_RELEASES: releases, PATH: `${bin}:${process.env.PATH}` }),
  )
  expect(name).toEndWith("-musl")
  expect([code, stderr]).toEqual([
    1,
    "install.sh: svc needs libstdc++ and libgcc: run 'apk add libstdc++ libgcc', then install again; nothing was installed\n",
  ])
  expect(readdirSync(join(cwd, "own", "bin"))).toEqual([])
})

test("a program that does not run on this machine replaces nothing", async () => {
  const cwd = mkdtempSync(join(realpathSync(tmpdir()), "svc-install-"))
  mkdirSync(join(cwd, "own", "bin"), { recursive: true })
  writeFileSync(join(cwd, "own", "bin", "svc"), "older")
  const { code, stderr } = await serve("#!/bin/sh\necho 'version GLIBC_2.17 not found' >&2; exit 1\n", (releases) =>
    pipe(SCRIPT, cwd, ["--prefix", "own"], { SVC_RELEASES: releases }),
  )
  expect([code, stderr]).toEqual([
    1,
    "install.sh: svc does not run on this machine: version GLIBC_2.17 not found; nothing was installed\n",
  ])
  expect(readdirSync(join(cwd, "own", "bin"))).toEqual(["svc"])
  expect(readFileSync(join(cwd, "own", "bin", "svc"), "utf8")).toBe("older")
})

test("if glibc and musl are both installed, it installs the program for the one that the system uses", async () => {
  const cwd = mkdtempSync(join(realpathSync(tmpdir()), "svc-install-"))
  const bin = join(cwd, "bin")
  mkdirSync(bin)
  writeFileSync(join(bin, "ldd"), "#!/bin/sh\necho 'libc.so.6 => /lib/libc.so.6'\n", { mode: 0o755 })
  writeFileSync(join(bin, "ls"), "#!/bin/sh\necho /lib/ld-musl-x86_64.so.1\n", { mode: 0o755 })
  writeFileSync(join(bin, "uname"), "#!/bin/sh\n[ $1 = -s ] && echo Linux || echo x86_64\n", { mode: 0o755 })
  const { name, code } = await serve(RELEASE, (releases) =>
    pipe(SCRIPT, cwd, ["--prefix", "own"], { SVC_RELEASES: releases, PATH: `${bin}:${process.env.PATH}` }),
  )
  expect([code, name]).toEqual([0, "svc-linux-x64"])
})
