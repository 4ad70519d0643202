/**
 * Builds the single file that is shipped: `bun build.ts` for this machine, `bun build.ts --all` for every platform, with
 * SHA256SUMS and install.sh. The runtime of another platform comes from its npm package: the build needs the registry alone.
 */
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { stampInstaller } from "./installer.ts"
import manifest from "./package.json" with { type: "json" }
import { signAdHoc } from "./sign.ts"

type Target = { readonly name: string; readonly target: Bun.Build.CompileTarget; readonly runtime: string }

const TARGETS: readonly Target[] = [
  { name: "svc-linux-x64", target: "bun-linux-x64", runtime: "bun-linux-x64" },
  { name: "svc-linux-arm64", target: "bun-linux-arm64", runtime: "bun-linux-aarch64" },
  { name: "svc-linux-x64-musl", target: "bun-linux-x64-musl", runtime: "bun-linux-x64-musl" },
  { name: "svc-linux-arm64-musl", target: "bun-linux-arm64-musl", runtime: "bun-linux-aarch64-musl" },
  { name: "svc-darwin-x64", target: "bun-darwin-x64", runtime: "bun-darwin-x64" },
  { name: "svc-darwin-arm64", target: "bun-darwin-arm64", runtime: "bun-darwin-aarch64" },
  { name: "svc-windows-x64.exe", target: "bun-windows-x64", runtime: "bun-windows-x64" },
]

const root = import.meta.dir
const dist = join(root, "dist")
const version = manifest.version
const commit =
  Bun.spawnSync(["git", "rev-parse", "--short=12", "HEAD"], { cwd: root }).stdout.toString().trim() || "unknown"

mkdirSync(dist, { recursive: true })
if (process.argv.includes("--all")) await buildAll()
else await build(join(dist, process.platform === "win32" ? "svc.exe" : "svc"), undefined)

async function build(
  outfile: string,
  target: { target: Bun.Build.CompileTarget; executablePath: string } | undefined,
): Promise<void> {
  const result = await Bun.build({
    entrypoints: [join(root, "src", "main.ts")],
    minify: true,
    bytecode: true,
    format: "esm",
    define: { SVC_VERSION: JSON.stringify(version), SVC_COMMIT: JSON.stringify(commit) },
    compile: { outfile, autoloadDotenv: false, autoloadBunfig: false, ...target },
  })
  if (!result.success) throw new AggregateError(result.logs, `cannot build ${outfile}`)
  // Bun signs the other builds for macOS itself.
  if ((target?.target ?? `bun-${process.platform}-${process.arch}`) === "bun-darwin-x64")
    writeFileSync(outfile, signAdHoc(readFileSync(outfile), "svc"))
  process.stderr.write(`built ${outfile} (${version}, ${commit})\n`)
}

async function buildAll(): Promise<void> {
  const sums: string[] = []
  for (const { name, target, runtime } of TARGETS) {
    const outfile = join(dist, name)
    await build(outfile, { target, executablePath: fetchRuntime(runtime) })
    const sum = new Bun.CryptoHasher("sha256").update(readFileSync(outfile)).digest("hex")
    sums.push(`${sum}  ${name}`)
  }
  writeFileSync(join(dist, "SHA256SUMS"), `${sums.join("\n")}\n`)
  const script = readFileSync(join(root, "install.sh"), "utf8")
  const repository = "repository" in manifest ? manifest.repository : undefined
  writeFileSync(join(dist, "install.sh"), stampInstaller(script, repository), { mode: 0o755 })
}

/** Returns the path of Bun for a platform, in the version that runs this script. Downloads it from npm if it is missing. */
function fetchRuntime(name: string): string {
  const folder = join(root, "node_modules", ".cache", "bun", `${name}-${Bun.version}`)
  const binary = join(folder, "package", "bin", name.includes("windows") ? "bun.exe" : "bun")
  if (existsSync(binary)) return binary
  mkdirSync(folder, { recursive: true })
  const packed = Bun.spawnSync(
    ["npm", "pack", "--silent", `@oven/${name}@${Bun.version}`, "--pack-destination", folder],
    { stderr: "inherit" },
  )
  const archive = packed.stdout.toString().trim().split("\n").at(-1) ?? ""
  if (!packed.success || archive === "") throw new Error(`cannot download @oven/${name}@${Bun.version} from npm`)
  const unpacked = Bun.spawnSync(["tar", "-xzf", join(folder, archive), "-C", folder], { stderr: "inherit" })
  rmSync(join(folder, archive), { force: true })
  if (!unpacked.success || !existsSync(binary)) throw new Error(`@oven/${name} does not contain ${binary}`)
  return binary
}
