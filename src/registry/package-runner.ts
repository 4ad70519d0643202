/**
 * By what a package is run, and where that looks for it. Only what is sure to be the package that is meant is run: of
 * another package registry, or of a name that its runner would take for an option, there is none.
 */
import type { Package } from "./entry.ts"

export type PackageRunner = {
  readonly command: string
  /** The base URLs of the registry that it asks by itself. */
  readonly home: RegExp
  /** The arguments by which it asks another; undefined where it cannot be told. */
  readonly source?: (base: string) => readonly string[]
  /** What stands before and behind the runtime's own arguments, the package last. */
  args(runtime: readonly string[], spec: string, env: readonly string[]): readonly string[]
  /** `base` is where the package is, if not at home. */
  spec(identifier: string, version: string, base: URL | undefined): string
}

/** The runner of a package; undefined where svc has none for it. */
export function runnerOf(one: Package): PackageRunner | undefined {
  const runner = RUNNERS.get(one.registryType)
  if (runner === undefined || one.transport.type !== "stdio") return undefined
  return isPackageName(one) && canFind(one, runner) ? runner : undefined
}

/** The package with its version, as its runner is told. */
export function specOf(one: Package, runner: PackageRunner): string {
  const base = baseOf(one, runner)
  const version = one.version === "latest" ? "" : one.version
  return runner.spec(one.identifier, version, base === undefined ? undefined : new URL(base))
}

/** Where a package is, if it is not where its runner looks by itself. */
export const baseOf = ({ registryBaseUrl: base }: Package, { home }: PackageRunner): string | undefined =>
  base === undefined || base === "" || home.test(base) ? undefined : base

// ---

const at = (identifier: string, version: string): string => (version === "" ? identifier : `${identifier}@${version}`)

/** A map, for a registry may name a type like a member of every object. */
const RUNNERS: ReadonlyMap<string, PackageRunner> = new Map(
  Object.entries<PackageRunner>({
    npm: {
      command: "npx",
      home: /^https:\/\/registry\.npmjs\.(?:org|com)\/?$/,
      source: (base) => ["--registry", base],
      args: (runtime, spec) => [...(runtime.includes("-y") ? [] : ["-y"]), ...runtime, spec],
      spec: at,
    },
    pypi: {
      command: "uvx",
      home: /^https:\/\/pypi\.org(?:\/|$)/,
      args: (runtime, spec) => [...runtime, spec],
      spec: (identifier, version) => (version === "" ? identifier : `${identifier}==${version}`),
    },
    nuget: {
      command: "dnx",
      home: /^https:\/\/(?:api|www)\.nuget\.org(?:\/|$)/,
      args: (runtime, spec) => [...runtime, spec, "--yes", "--"],
      spec: at,
    },
    oci: {
      command: "docker",
      home: /^https:\/\/(?:[\w-]+\.)?docker\.(?:io|com)\/?$/,
      // An image has its registry in its name.
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

/** Elsewhere there may be another package of the same name. */
function canFind(one: Package, runner: PackageRunner): boolean {
  const base = baseOf(one, runner)
  return base === undefined || (runner.source !== undefined && /^https?:\/\//.test(base) && URL.canParse(base))
}

/** What is handed to a runner must not be taken for an option of it. */
const isPackageName = ({ identifier, version }: Package): boolean =>
  /^[@A-Za-z0-9][\w@./:+~-]*$/.test(identifier) && /^[\w.+~-]*$/.test(version) && !version.startsWith("-")
