/**
 * The portable end-to-end tests on the platforms that Linux x64 can emulate or provide: `bun run platforms [--require | --no-install]
 * [--write] [--only PLATFORM]`. The Windows binary runs under Wine, driven by Bun for Windows, so that pipes, paths and processes
 * are those of Windows; the arm64 binary runs under qemu-user, and the musl binary under Debian's musl. As root, this installs what is missing from Debian,
 * unless `--no-install` is given. A platform that still lacks something is left out with the reason; `--require` makes that a failure. `--write` runs the
 * same tests on this machine too, and writes the counts to docs/platforms.md.
 */
import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs"
import { basename, join } from "node:path"
import { PORTABLE, UNPORTABLE } from "./portable.ts"

type Emulated = "windows" | "arm64" | "musl"
type Counts = {
  readonly platform: string
  readonly passed: number
  readonly failed: number
  readonly left: number
  readonly seconds: number
}

const ROOT = join(import.meta.dir, "..", "..")
const CACHE = join(ROOT, "node_modules", ".cache")
const BINARIES = { windows: "svc-windows-x64.exe", arm64: "svc-linux-arm64", musl: "svc-linux-x64-musl" }
const WINE = Bun.which("wine64") ?? "/usr/lib/wine/wine64"
const COMPILER = "x86_64-w64-mingw32-gcc"
const QEMU = "qemu-aarch64-static"
const ARM64_LIBRARIES = "/usr/aarch64-linux-gnu"
/** Debian's, which musl.c adapts to musl. */
const MUSL_LIBRARIES = ["/usr/lib/x86_64-linux-gnu/libstdc++.so.6", "/lib/x86_64-linux-gnu/libgcc_s.so.1"]
const PREFIX = join(CACHE, "platforms", "wine")
const SYSTEM32 = join(PREFIX, "drive_c", "windows", "system32")
const TOOLS = join(PREFIX, "drive_c", "tools")
const WINE_ENV = {
  WINEPREFIX: PREFIX,
  WINEARCH: "win64",
  WINEDEBUG: "-all",
  // Else Wine asks for Mono and Gecko.
  WINEDLLOVERRIDES: "mscoree,mshtml=",
  WINEPATH: "C:\\tools",
  DISPLAY: "",
}
const NEEDS = {
  windows: {
    packages: ["wine", "wine64", "gcc-mingw-w64-x86-64"],
    isMet: () => existsSync(WINE) && Bun.which(COMPILER) !== null,
  },
  arm64: {
    packages: ["qemu-user-static", "libc6-arm64-cross", "libstdc++6-arm64-cross"],
    isMet: () => Bun.which(QEMU) !== null && existsSync(join(ARM64_LIBRARIES, "lib", "libstdc++.so.6")),
  },
  musl: {
    packages: ["musl", "gcc", "libstdc++6"],
    isMet: () => [...MUSL_LIBRARIES, "/lib/ld-musl-x86_64.so.1"].every(existsSync) && Bun.which("gcc") !== null,
  },
}
const MEASURED = /(<!-- measured: platforms -->\n)[\s\S]*?(<!-- \/measured -->)/
/** How long a test, and a file of tests, may take. */
const TEST_MS = 30_000
const MAX_MS = 450_000
const TESTS = { windows: testWindows, arm64: testArm64, musl: testMusl }

const only = process.argv[process.argv.indexOf("--only") + 1]
const willWrite = process.argv.includes("--write")
const platforms = (["windows", "arm64", "musl"] as const).filter(
  (platform) => !process.argv.includes("--only") || platform === only,
)
const available = platforms.filter(isAvailable)
let isComplete = available.length === platforms.length || !process.argv.includes("--require")
if (available.length > 0) {
  run("bun", ["build.ts", ...available.flatMap((platform) => ["--only", BINARIES[platform]])])
  // Two at a time, for two cores: Windows takes about as long as the others together.
  const lanes = [true, false].map((isFirst) => available.filter((platform) => (platform === "windows") === isFirst))
  const counts = (await Promise.all(lanes.map(testAll))).flat()
  if (willWrite) write([await testHere(), ...counts])
  isComplete &&= counts.every(({ passed, failed }) => passed > 0 && failed === 0)
}
process.exit(isComplete ? 0 : 1)

// ---

function say(text: string): void {
  process.stdout.write(`${text}\n`)
}

/** Runs a step to its end. Throws if it fails. */
function run(command: string, args: readonly string[], env: Readonly<Record<string, string>> = {}): void {
  const { success, stderr } = Bun.spawnSync([command, ...args], {
    cwd: ROOT,
    env: { ...process.env, ...env },
    stdin: "ignore",
    stdout: "ignore",
  })
  if (!success) throw new Error(`${command} ${args.join(" ")} failed: ${stderr}`)
}

/** Writes the counts to docs/platforms.md. */
function write(counts: readonly Counts[]): void {
  const file = join(ROOT, "docs", "platforms.md")
  const rows = counts.map(
    ({ platform, passed, failed, left, seconds }) => `| ${platform} | ${passed} | ${failed} | ${left} | ${seconds} |`,
  )
  const table = ["| platform | passed | failed | skipped | seconds |", "|---|---|---|---|---|", ...rows].join("\n")
  writeFileSync(file, readFileSync(file, "utf8").replace(MEASURED, `$1${table}\n$2`))
}

/** Installs what a platform needs, if this may. Says what is missing otherwise. */
function isAvailable(platform: Emulated): boolean {
  const { packages, isMet } = NEEDS[platform]
  const mayInstall = process.getuid?.() === 0 && !process.argv.includes("--no-install")
  if (!isMet() && mayInstall && Bun.which("apt-get") !== null)
    Bun.spawnSync(["apt-get", "install", "-y", "--no-install-recommends", ...packages], {
      env: { ...process.env, DEBIAN_FRONTEND: "noninteractive" },
      stdout: "ignore",
      stderr: "ignore",
    })
  const met = isMet()
  if (!met) say(`${platform}: skipped; install the Debian packages ${packages.join(" ")}`)
  return met
}

async function testAll(platforms: readonly Emulated[]): Promise<readonly Counts[]> {
  const counts: Counts[] = []
  for (const platform of platforms) counts.push(await TESTS[platform]())
  return counts
}

function testHere(): Promise<Counts> {
  run("bun", ["build.ts"])
  return test("Linux x64", ["bun"], {}, undefined)
}

function testArm64(): Promise<Counts> {
  const binary = join(ROOT, "dist", "svc-arm64")
  writeFileSync(binary, `#!/bin/sh\nexec ${QEMU} -L ${ARM64_LIBRARIES} ${ROOT}/dist/${BINARIES.arm64} "$@"\n`)
  chmodSync(binary, 0o755)
  return test("Linux arm64 (qemu-user)", ["bun"], { SVC_TEST_BINARY: binary }, "arm64")
}

/** Debian has no libstdc++ for musl: its own runs under musl with the functions of musl.c. */
function testMusl(): Promise<Counts> {
  const folder = join(CACHE, "platforms", "musl")
  mkdirSync(folder, { recursive: true })
  for (const file of MUSL_LIBRARIES) copyFileSync(file, join(folder, basename(file)))
  const source = join(import.meta.dir, "musl.c")
  const flags = ["-O1", "-Wall", "-shared", "-fPIC", "-nostdlib", "-ffreestanding", "-fno-builtin"]
  run("gcc", [...flags, "-o", join(folder, "ld-linux-x86-64.so.2"), source])
  const binary = join(ROOT, "dist", "svc-musl")
  writeFileSync(binary, `#!/bin/sh\nLD_LIBRARY_PATH=${folder} exec ${ROOT}/dist/${BINARIES.musl} "$@"\n`)
  chmodSync(binary, 0o755)
  return test("Linux x64 (musl)", ["bun"], { SVC_TEST_BINARY: binary }, "musl")
}

async function testWindows(): Promise<Counts> {
  makePrefix()
  try {
    const env = { ...WINE_ENV, SVC_TEST_BINARY: windowsPath(join(ROOT, "dist", BINARIES.windows)) }
    return await test("Windows x64 (Wine)", [WINE, "C:\\tools\\bun.exe"], env, "windows")
  } finally {
    // Ends every process of the prefix, and of no other.
    Bun.spawnSync(["wineserver", "-k"], { env: { ...process.env, ...WINE_ENV } })
  }
}

/** Makes the Wine prefix, or takes that of an earlier run: Windows 10, Bun, and the programs that the tests use. */
function makePrefix(): void {
  mkdirSync(PREFIX, { recursive: true })
  if (!existsSync(join(SYSTEM32, "bcryptprimitives.dll"))) {
    run(WINE, ["wineboot", "-i"], WINE_ENV)
    run(WINE, ["reg", "add", "HKCU\\Software\\Wine", "/v", "Version", "/d", "win10", "/f"], WINE_ENV)
    const source = join(import.meta.dir, "bcryptprimitives.c")
    run(COMPILER, ["-shared", "-o", join(SYSTEM32, "bcryptprimitives.dll"), source, "-ladvapi32"])
  }
  mkdirSync(TOOLS, { recursive: true })
  const bun = join(CACHE, "bun", `bun-windows-x64-${Bun.version}`, "package", "bin", "bun.exe")
  copyFileSync(bun, join(TOOLS, "bun.exe"))
  const source = join(import.meta.dir, "windows.c")
  run(COMPILER, ["-O1", "-Wall", "-o", join(TOOLS, "windows.exe"), source, "-lpsapi", "-lntdll"])
  // In place of programs that Wine lacks, or has without their function.
  copyFileSync(join(TOOLS, "windows.exe"), join(TOOLS, "schtasks.exe"))
  copyFileSync(join(TOOLS, "windows.exe"), join(SYSTEM32, "WindowsPowerShell", "v1.0", "powershell.exe"))
  // Wine finds the shares of other machines here.
  mkdirSync(join(PREFIX, "dosdevices", "unc", "files", "share"), { recursive: true })
  const users = join(PREFIX, "drive_c", "users")
  for (const user of readdirSync(users)) rmSync(join(users, user, "Temp"), { recursive: true, force: true })
  for (const user of readdirSync(users)) mkdirSync(join(users, user, "Temp"), { recursive: true })
}

/** Wine shows the root of this machine as the drive Z:. */
function windowsPath(path: string): string {
  return `Z:${path.replaceAll("/", "\\")}`
}

/** Runs the portable tests of a platform, and on Windows its own cases; says what was left out, and why. */
async function test(
  platform: string,
  bun: readonly string[],
  env: Readonly<Record<string, string>>,
  emulated: Emulated | undefined,
): Promise<Counts> {
  const started = Date.now()
  const left = UNPORTABLE.flatMap(({ title, ...reasons }) => {
    const reason = emulated === undefined ? undefined : reasons[emulated]
    return reason === undefined ? [] : [{ title, reason }]
  })
  const files = PORTABLE[emulated ?? "windows"].map((name) => `test/e2e/${name}.test.ts`)
  if (emulated === "windows") files.push("./test/platforms/windows-cases.ts")
  const flags = ["--timeout", String(TEST_MS)]
  if (left.length > 0) flags.push("-t", `^(?!.*(?:${left.map(({ title }) => RegExp.escape(title)).join("|")}))`)
  let passed = 0
  let failed = 0
  // Each in a process of its own: what a failed test leaves behind disturbs no other file.
  for (const file of files) {
    // A file and not a pipe, which a process that outlives a failed test would hold open.
    const said = Bun.file(join(CACHE, "platforms", `${emulated ?? "here"}.log`))
    await Bun.write(said, "")
    const child = Bun.spawn([...bun, "test", ...flags, file], {
      cwd: ROOT,
      env: { ...process.env, ...env },
      stdio: ["ignore", "ignore", said],
      timeout: MAX_MS,
    })
    const success = (await child.exited) === 0
    const stderr = await said.text()
    const [passes, failures] = ["pass", "fail"].map((word) =>
      Number(new RegExp(`^ *(\\d+) ${word}$`, "m").exec(stderr)?.[1] ?? 0),
    ) as [number, number]
    passed += passes
    failed += success ? 0 : Math.max(failures, 1)
    if (!success) say(stderr.replace(/^Internal error: directory mismatch.*\n/gm, ""))
  }
  for (const { title, reason } of left) say(`${platform}: not "${title}": ${reason}`)
  const seconds = Math.round((Date.now() - started) / 1000)
  say(`${platform}: ${passed} passed, ${failed} failed, ${left.length} skipped (${seconds} s)`)
  return { platform, passed, failed, left: left.length, seconds }
}
