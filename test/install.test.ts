/** `install.sh` as it is piped from a URL, with a release of its own. */
import { expect, test } from "bun:test"
import { existsSync, mkdirSync, mkdtempSync, readFileSync, realpathSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"

const SCRIPT = readFileSync(join(import.meta.dir, "..", "install.sh"))
const RELEASE = "#!/bin/sh\necho 1.2.3\n"

async function install(cwd: string, ...args: string[]) {
  let name = ""
  await using releases = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    fetch({ url }) {
      const wanted = new URL(url).pathname.slice(1)
      if (wanted === "SHA256SUMS")
        return new Response(`${new Bun.CryptoHasher("sha256").update(RELEASE).digest("hex")}  ${name}\n`)
      name = wanted
      return new Response(RELEASE)
    },
  })
  const child = Bun.spawn({
    cmd: ["sh", "-s", "--", ...args],
    cwd,
    env: { PATH: process.env.PATH ?? "", SVC_RELEASES: releases.url.href.replace(/\/$/, "") },
    stdin: SCRIPT,
    stdout: "pipe",
    stderr: "pipe",
  })
  const [stdout, stderr, code] = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
    child.exited,
  ])
  return { stdout, stderr, code }
}

test("in a project that is not svc's, nothing of it is run, and a prefix is taken from where the user is", async () => {
  const project = mkdtempSync(join(realpathSync(tmpdir()), "svc-install-"))
  mkdirSync(join(project, "test"))
  for (const file of ["package.json", "build.ts", "install.sh", "test/get-bun.sh"])
    writeFileSync(join(project, file), "echo foreign; exit 9\n")
  const { code, stdout, stderr } = await install(project, "--prefix", "own tools")
  expect([code, stderr]).toEqual([0, ""])
  expect(stdout).toContain(`installed ${join(project, "own tools", "bin", "svc")}: 1.2.3`)
  expect(existsSync(join(project, "own tools", "bin", "svc"))).toBe(true)
})

test("without a home and a prefix it says what it needs", async () => {
  const { code, stderr } = await install(tmpdir())
  expect(code).not.toBe(0)
  expect(stderr).toContain("HOME: is not set: give --prefix")
})
