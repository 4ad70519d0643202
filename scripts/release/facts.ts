/** What a release is: its version, addresses and platforms. Every package, manifest and script of `release/` is made from it. */

/** A program of the release. `target` and `runtime` are Bun's names: of the target, and of the npm package with its runtime. */
export type Platform = {
  readonly file: string
  readonly target: Bun.Build.CompileTarget
  readonly runtime: string
  readonly os: "linux" | "darwin" | "windows"
  readonly cpu: Cpu
  readonly libc?: "glibc" | "musl"
}

export type Cpu = "x64" | "arm64"

export const PLATFORMS: readonly Platform[] = [
  linux("x64", "glibc", "bun-linux-x64", "bun-linux-x64"),
  linux("arm64", "glibc", "bun-linux-arm64", "bun-linux-aarch64"),
  linux("x64", "musl", "bun-linux-x64-musl", "bun-linux-x64-musl"),
  linux("arm64", "musl", "bun-linux-arm64-musl", "bun-linux-aarch64-musl"),
  { file: "svc-darwin-x64", target: "bun-darwin-x64", runtime: "bun-darwin-x64", os: "darwin", cpu: "x64" },
  { file: "svc-darwin-arm64", target: "bun-darwin-arm64", runtime: "bun-darwin-aarch64", os: "darwin", cpu: "arm64" },
  { file: "svc-windows-x64.exe", target: "bun-windows-x64", runtime: "bun-windows-x64", os: "windows", cpu: "x64" },
]

/** The libraries that the musl programs need and a bare Alpine lacks, as its packages. A test reads them from the ELF headers. */
export const ALPINE_PACKAGES = ["libstdc++", "libgcc"]

/** The package that installs another program named svc, in Debian and Homebrew. */
export const CONFLICTING_PACKAGE = "daemontools"

export type Facts = {
  readonly name: string
  readonly version: string
  readonly description: string
  readonly license: string
  /** The holder of the copyright, who also publishes the packages. */
  readonly publisher: string
  /** The date of the released commit; everything packed has this date, so that a commit gives the same packages again. */
  readonly date: Date
  /** `https://github.com/OWNER/NAME` */
  readonly repository: string
  readonly owner: string
  /** The URL of the folder with the files of this version. */
  readonly downloads: string
  /** The URL of the folder with the files of the latest version. */
  readonly latest: string
}

export type Manifest = {
  readonly name: string
  readonly version: string
  readonly description: string
  readonly license: string
}

/** Returns the facts of a version. `repository` is the value in package.json or of the command line. Throws if it is no https URL. */
export function factsOf(manifest: Manifest, repository: unknown, date: Date): Facts {
  const url = repositoryUrl(repository)
  if (url === undefined) throw new Error("package.json names no repository: set it there, or give --repository URL")
  const { name, version, description, license } = manifest
  return {
    name,
    version,
    description,
    license,
    publisher: `the ${name} authors`,
    date,
    repository: url,
    owner: (url.split("/")[3] ?? "").toLowerCase(),
    downloads: `${url}/releases/download/v${version}`,
    latest: latestOf(url),
  }
}

// ---

/** Returns the URL of the folder with the latest release of a repository, in the layout of GitHub. */
const latestOf = (repository: string): string => `${repository}/releases/latest/download`

/** Returns the URL of a repository as package.json has it. Throws if it is not a plain https URL, safe in a shell script. */
function repositoryUrl(repository: unknown): string | undefined {
  const url = typeof repository === "object" && repository !== null && "url" in repository ? repository.url : repository
  if (url === undefined) return undefined
  const plain = String(url)
    .replace(/^github:/, "https://github.com/")
    .replace(/^git\+/, "")
    .replace(/(?:\.git)?\/?$/, "")
  if (!/^https:\/\/[\w.-]+(?:\/[\w.-]+)+$/.test(plain))
    throw new Error("repository in package.json is not an https URL")
  return plain
}

function linux(cpu: Cpu, libc: "glibc" | "musl", target: Bun.Build.CompileTarget, runtime: string): Platform {
  return { file: `svc-linux-${cpu}${libc === "musl" ? "-musl" : ""}`, target, runtime, os: "linux", cpu, libc }
}
