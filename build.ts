/**
 * Builds the single file that is shipped: `bun build.ts` for this machine, `bun build.ts --all` for every platform,
 * `bun build.ts --only FILE…` for some. The runtime of another platform comes from its npm package: the build needs the
 * registry alone.
 *
 * SVC_RELEASE_KEY is the public key (minisign) that signs the releases, and SVC_RELEASES the URL of the folder with the
 * latest one. `bun run release` sets both; without them the program knows no releases.
 */
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import manifest from "./package.json" with { type: "json" }
import { PLATFORMS } from "./scripts/release/facts.ts"
import { signAdHoc } from "./scripts/sign.ts"

const root = import.meta.dir
const dist = join(root, "dist")
const version = manifest.version
const commit =
  Bun.spawnSync(["git", "rev-parse", "--short=12", "HEAD"], { cwd: root }).stdout.toString().trim() || "unknown"
const { SVC_RELEASE_KEY = "", SVC_RELEASES = "" } = process.env

mkdirSync(dist, { recursive: true })
const only = process.argv.slice(2).filter((_, at, words) => words[at - 1] === "--only")
if (process.argv.includes("--all") || only.length > 0) await buildAll()
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
    // A command loads the chunks that it uses. With one file, each paid for all of it: 6 ms of `svc --version`.
    splitting: true,
    define: {
      SVC_VERSION: JSON.stringify(version),
      SVC_COMMIT: JSON.stringify(commit),
      SVC_RELEASE_KEY: JSON.stringify(SVC_RELEASE_KEY),
      SVC_RELEASES: JSON.stringify(SVC_RELEASES),
    },
    compile: { outfile, autoloadDotenv: false, autoloadBunfig: false, ...target },
  })
  if (!result.success) throw new AggregateError(result.logs, `cannot build ${outfile}`)
  // Bun signs the other builds for macOS itself.
  if ((target?.target ?? `bun-${process.platform}-${process.arch}`) === "bun-darwin-x64")
    writeFileSync(outfile, signAdHoc(readFileSync(outfile), "svc"))
  process.stderr.write(`built ${outfile} (${version}, ${commit})\n`)
}

async function buildAll(): Promise<void> {
  for (const { file, target, runtime } of PLATFORMS.filter(({ file }) => only.length === 0 || only.includes(file)))
    await build(join(dist, file), { target, executablePath: fetchRuntime(runtime) })
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
