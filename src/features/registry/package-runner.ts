/**
 * Package runners (npx, uvx, dnx, docker) and their arguments. svc runs a package only if the runner certainly gets the intended
 * one: it rejects a package registry that the runner cannot use, and a name that the runner would read as an option.
 */
import type { Package } from "./entry.ts"

export type PackageRunner = {
  readonly command: string
  /** Matches the base URLs of the runner's default registry. */
  readonly defaultRegistry: RegExp
  /** Returns the arguments for another registry; undefined if the runner has none. */
  readonly source?: (base: string) => readonly string[]
  /** Returns the arguments of the runner: those of the runtime, and the package last. */
  args(runtime: readonly string[], spec: string, env: readonly string[]): readonly string[]
  /** Returns the package with its version. `base` is its registry; undefined for the default registry. */
  spec(identifier: string, version: string, base: URL | undefined): string
}

/** Returns the runner of a package, or undefined if svc cannot run it. */
export function runnerOf(one: Package): PackageRunner | undefined {
  const runner = runnerOfType(one.registryType)
  if (runner === undefined || one.transport.type !== "stdio") return undefined
  return isPackageName(one) && canFind(one, runner) ? runner : undefined
}

/** Returns the runner of a type of packages: npm, pypi, nuget or oci. */
export const runnerOfType = (type: string): PackageRunner | undefined => RUNNERS.get(type)

/** Returns the package with its version, as its runner takes it. */
export function specOf(one: Package, runner: PackageRunner): string {
  const base = baseOf(one, runner)
  const version = one.version === "latest" ? "" : one.version
  return runner.spec(one.identifier, version, base === undefined ? undefined : new URL(base))
}

/** Returns the registry of a package; undefined for the default registry of its runner. */
export const baseOf = ({ registryBaseUrl: base }: Package, { defaultRegistry }: PackageRunner): string | undefined =>
  base === undefined || base === "" || defaultRegistry.test(base) ? undefined : base

// ---

const withVersion = (identifier: string, version: string): string =>
  version === "" ? identifier : `${identifier}@${version}`

/** A Map, because a registry may name a type `constructor`. */
const RUNNERS: ReadonlyMap<string, PackageRunner> = new Map(
  Object.entries<PackageRunner>({
    npm: {
      command: "npx",
      defaultRegistry: /^https:\/\/registry\.npmjs\.(?:org|com)\/?$/,
      source: (base) => ["--registry", base],
      args: (runtime, spec) => [...(runtime.includes("-y") ? [] : ["-y"]), ...runtime, spec],
      spec: withVersion,
    },
    pypi: {
      command: "uvx",
      defaultRegistry: /^https:\/\/pypi\.org(?:\/|$)/,
      args: (runtime, spec) => [...runtime, spec],
      spec: (identifier, version) => (version === "" ? identifier : `${identifier}==${version}`),
    },
    nuget: {
      command: "dnx",
      defaultRegistry: /^https:\/\/(?:api|www)\.nuget\.org(?:\/|$)/,
      args: (runtime, spec) => [...runtime, spec, "--yes", "--"],
      spec: withVersion,
    },
    oci: {
      command: "docker",
      defaultRegistry: /^https:\/\/(?:[\w-]+\.)?docker\.(?:io|com)\/?$/,
      // The name of an image contains its registry.
      source: () => [],
      args: (runtime, spec, env) => ["run", "-i", "--rm", ...env.flatMap((name) => ["-e", name]), ...runtime, spec],
      spec: (identifier, version, base) => {
        const image =
          base === undefined || identifier.startsWith(`${base.host}/`) ? identifier : `${base.host}/${identifier}`
        return version === "" || /[:@]/.test(image.slice(image.lastIndexOf("/") + 1)) ? image : `${image}:${version}`
      },
    },
  }),
)

/** Whether the runner can use the package's registry: another registry may have another package of the same name. */
function canFind(one: Package, runner: PackageRunner): boolean {
  const base = baseOf(one, runner)
  return base === undefined || (runner.source !== undefined && /^https?:\/\//.test(base) && URL.canParse(base))
}

/** Whether a name and version are valid, so that no runner reads them as an option. */
const isPackageName = ({ identifier, version }: Package): boolean =>
  /^[@A-Za-z0-9][\w@./:+~-]*$/.test(identifier) && /^[\w.+~-]*$/.test(version) && !version.startsWith("-")
