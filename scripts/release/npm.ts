/** Writes packages for npm: one for each platform, and the launcher, which depends on all of them optionally. */
import { gzipSync } from "node:zlib"
import { EXECUTABLE, type PackedFile, tar, textFile } from "./archive.ts"
import { type Facts, PLATFORMS, type Platform } from "./facts.ts"

/** Returns the file name that `npm pack` gives a package: of the launcher, or of a platform. */
export const npmName = (facts: Facts, platform?: Platform): string =>
  `${packageName(facts, platform).replace(/^@/, "").replaceAll("/", "-")}-${facts.version}.tgz`

/** Returns the package with the program of a platform. `others` are the documents that belong to it. */
export function npmPlatform(
  facts: Facts,
  platform: Platform,
  program: Uint8Array,
  others: readonly PackedFile[],
): Buffer {
  const { os, cpu, libc } = platform
  const manifest = {
    ...manifestOf(facts, platform),
    os: [OS_OF_NODE[os]],
    cpu: [cpu],
    ...(libc === undefined ? {} : { libc: [libc] }),
    preferUnplugged: true,
  }
  const file = { path: programName(platform), mode: EXECUTABLE, content: program }
  return pack(facts, manifest, [file, ...others])
}

/** Returns the package that people install. It has the command `svc`. */
export function npmLauncher(facts: Facts, others: readonly PackedFile[]): Buffer {
  const manifest = {
    ...manifestOf(facts),
    bin: { [facts.name]: "launcher.js" },
    engines: { node: ">=18" },
    optionalDependencies: Object.fromEntries(
      PLATFORMS.map((platform) => [packageName(facts, platform), facts.version]),
    ),
  }
  const readme = `# ${facts.name}\n\n${facts.description}.\n\n    npx ${packageName(facts)} serve --demo\n\nDocumentation: ${facts.repository}\n`
  const files = [textFile("launcher.js", launcher(facts), EXECUTABLE), textFile("README.md", readme), ...others]
  return pack(facts, manifest, files)
}

// ---

const OS_OF_NODE = { linux: "linux", darwin: "darwin", windows: "win32" } as const

const packageName = ({ owner, name }: Facts, platform?: Platform): string =>
  `@${owner}/${platform === undefined ? name : platform.file.replace(/\.exe$/, "")}`

const programName = ({ os }: Platform): string => (os === "windows" ? "svc.exe" : "svc")

function manifestOf(facts: Facts, platform?: Platform): object {
  const { version, description, license, repository } = facts
  const url = `git+${repository}.git`
  return { name: packageName(facts, platform), version, description, license, repository: { type: "git", url } }
}

function pack({ date }: Facts, manifest: object, files: readonly PackedFile[]): Buffer {
  const all = [textFile("package.json", `${JSON.stringify(manifest, null, 2)}\n`), ...files]
  return gzipSync(tar(all, date, "package/"))
}

/**
 * Returns the launcher. It replaces itself by the program where Node can (`process.execve`, from Node 22.15), so that signals
 * and the end of the launcher need no forwarding. Older versions of Node and Windows run the program as a child.
 */
function launcher(facts: Facts): string {
  const programs = Object.fromEntries(
    PLATFORMS.map((platform) => [
      [OS_OF_NODE[platform.os], platform.cpu, ...(platform.libc === "musl" ? ["musl"] : [])].join("-"),
      `${packageName(facts, platform)}/${programName(platform)}`,
    ]),
  )
  return `#!/usr/bin/env node
"use strict"
const { spawn } = require("node:child_process")

const programs = ${JSON.stringify(programs, null, 2)}

function isMusl() {
  if (process.platform !== "linux") return false
  process.report.excludeNetwork = true
  const report = process.report.getReport()
  return (typeof report === "string" ? JSON.parse(report) : report).header.glibcVersionRuntime === undefined
}

function fail(message) {
  process.stderr.write(\`${facts.name}: \${message}\\n\`)
  process.exit(69)
}

const platform = [process.platform, process.arch, ...(isMusl() ? ["musl"] : [])].join("-")
if (programs[platform] === undefined) fail(\`there is no program for \${platform}\`)
let program
try {
  program = require.resolve(programs[platform])
} catch {
  fail(\`the package \${programs[platform].replace(/\\/[^/]+$/, "")} is missing: install again, without --omit=optional\`)
}

const args = process.argv.slice(2)
if (process.execve !== undefined && process.platform !== "win32") {
  process.emitWarning = () => {}
  process.execve(program, [program, ...args], process.env)
}
const child = spawn(program, args, { stdio: "inherit" })
child.on("error", (error) => fail(error.message))
for (const signal of ["SIGTERM", "SIGHUP", "SIGUSR2"]) process.on(signal, () => child.kill(signal))
// A terminal sends SIGINT to the child as well.
process.on("SIGINT", () => process.stdin.isTTY || child.kill("SIGINT"))
child.on("exit", (code, signal) => {
  if (signal === null) process.exit(code)
  process.removeAllListeners(signal)
  process.kill(process.pid, signal)
})
`
}
