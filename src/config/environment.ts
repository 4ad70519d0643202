/** The environment of a child process. spec: Environment inheritance; choice: Configuration. */

/** Variables by name. */
export type Environment = Readonly<Record<string, string | undefined>>

export type EnvironmentOptions = {
  readonly platform: string
  readonly parent: Environment
  /** The `.env` beside the configuration. */
  readonly dotenv: Environment
  /** True: inherit all but SVC_*, or what `envFilter` includes. False: nothing. Undefined: what `envFilter` includes. */
  readonly inheritParentEnv: boolean | undefined
  readonly envFilter: readonly string[]
  /** The variables of the server's `env`, resolved. They win, and no filter applies to them. */
  readonly declared: Readonly<Record<string, string>>
}

/** Inherited by every child: hardly any server starts without HOME and PATH. */
const SAFE_POSIX = ["HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER", "LANG", "TMPDIR"] as const
const SAFE_WINDOWS = [
  "APPDATA",
  "HOMEDRIVE",
  "HOMEPATH",
  "LOCALAPPDATA",
  "PATH",
  "PROCESSOR_ARCHITECTURE",
  "SYSTEMDRIVE",
  "SYSTEMROOT",
  "TEMP",
  "USERNAME",
  "USERPROFILE",
  "PROGRAMFILES",
  // The docker command does not start without it.
  "PROGRAMDATA",
  "PATHEXT",
  "COMSPEC",
  "TMP",
] as const

/** The value of a reference with a scheme, or why it has none: a clause that follows "refers to …, ". Shows no value. */
export type ResolvedReference = { readonly value: string } | { readonly problem: string }

/** The sources that variables are looked up in. */
export type EnvironmentSources = Pick<EnvironmentOptions, "platform" | "parent" | "dotenv"> & {
  /** Returns the value of a reference such as `keychain:NAME`. Without it, or if it returns undefined, the reference stays as written. */
  readonly references?: ((reference: string) => ResolvedReference | undefined) | undefined
}

/** The values of references that are not in the environment. */
export type ReferenceValues = {
  /** Returns the value of a reference that the last load asked for. */
  readonly lookUp: NonNullable<EnvironmentSources["references"]>
  /**
   * Asks for the values of the references in the files, if there are any. `fresh` also runs commands again that have run lately.
   * `patience`: how long to wait for them, in milliseconds.
   */
  load(fresh?: boolean, patience?: number): Promise<void>
  /** Ends what runs. */
  close(): void
}

/** A reference that is resolved outside of the environment. */
const RESOLVED = /^(keychain|file|cmd):/

/** Where the value of a reference with a scheme comes from; undefined for the name of a variable. */
export const schemeOf = (reference: string): "keychain" | "file" | "cmd" | undefined =>
  RESOLVED.exec(reference)?.[1] as "keychain" | "file" | "cmd" | undefined

/** Looks up a variable and its source: the parent's value wins over `.env`. Names ignore case on Windows. */
export function lookUpVariable(
  name: string,
  { platform, parent, dotenv }: EnvironmentSources,
): { readonly value: string; readonly from: "env" | ".env" } | undefined {
  const sources: readonly (readonly ["env" | ".env", Environment])[] = [
    ["env", parent],
    [".env", dotenv],
  ]
  for (const [from, source] of sources) {
    const spelled =
      platform === "win32" && !Object.hasOwn(source, name)
        ? Object.keys(source).find((key) => key.toUpperCase() === name.toUpperCase())
        : name
    // Own members only: every object inherits a `constructor`.
    const value = spelled !== undefined && Object.hasOwn(source, spelled) ? source[spelled] : undefined
    if (value !== undefined) return { value, from }
  }
  return undefined
}

/** The settings that decide what a child inherits, and the variables to choose from. */
export type InheritanceOptions = Omit<EnvironmentOptions, "declared">

/** Returns the environment of a child, sorted by name so that equal environments compare equal. */
export function childEnvironment(options: EnvironmentOptions): Readonly<Record<string, string>> {
  const { platform, parent, dotenv, declared } = options
  const inheritance = inheritanceOf(options)
  const fold = foldFor(platform)
  const chosen = new Map<string, readonly [name: string, value: string]>()
  const inherit = (source: Environment, inherits: (name: string) => boolean) => {
    for (const [name, value] of Object.entries(source))
      if (value !== undefined && inherits(fold(name))) chosen.set(fold(name), [name, value])
  }
  // A variable of `.env` is inherited only if a pattern matches it.
  inherit(dotenv, (name) => inheritance.verdict(name) === true)
  inherit(parent, (name) => inheritance.verdict(name) ?? inheritance.byDefault(name))
  for (const [name, value] of Object.entries(declared)) chosen.set(fold(name), [name, value])
  return Object.fromEntries([...chosen.values()].sort(([a], [b]) => (a < b ? -1 : 1)))
}

/** Returns why `envFilter` has no effect, or undefined if it has one. */
export function idleFilterReason(options: InheritanceOptions): string | undefined {
  const { platform, parent, dotenv, inheritParentEnv, envFilter } = options
  if (envFilter.length === 0) return undefined
  const includes = envFilter.some(isInclusive)
  if (includes && inheritParentEnv === false)
    return "inheritParentEnv is false, so envFilter lets nothing in; remove one of them"
  const { verdict } = inheritanceOf(options)
  if (includes) {
    const names = [...Object.keys(parent), ...Object.keys(dotenv)].map(foldFor(platform))
    return names.some((name) => verdict(name) === true)
      ? undefined
      : "envFilter lets nothing in: no variable in the environment or in .env matches it"
  }
  if (inheritParentEnv === true || safeSetOf(platform).some((name) => verdict(name) === false)) return undefined
  return "envFilter only excludes variables, and none is inherited; set inheritParentEnv: true to inherit the others"
}

// ---

/** What a child inherits. Names are folded. */
type Inheritance = {
  /** Returns whether the last matching pattern includes a name, or undefined if no pattern matches. */
  verdict(name: string): boolean | undefined
  /** Whether a child inherits a variable of the parent if no pattern matches its name. */
  byDefault(name: string): boolean
}

function inheritanceOf({ platform, inheritParentEnv, envFilter }: InheritanceOptions): Inheritance {
  const safe = new Set<string>(safeSetOf(platform))
  const everything = inheritParentEnv === true && !envFilter.some(isInclusive)
  const usable = inheritParentEnv === false ? envFilter.filter((pattern) => !isInclusive(pattern)) : envFilter
  // Keeps the first of equal patterns: a server that only repeats a default must not include what a later default excludes.
  const patterns = [...new Set(usable.map(foldFor(platform)))]
  // Options of svc may be secret: a wider pattern such as * does not match them.
  const forOwn = patterns.filter((pattern) => !isInclusive(pattern) || pattern.startsWith(OWN_PREFIX))
  return {
    verdict: (name) => lastMatch(name, name.startsWith(OWN_PREFIX) ? forOwn : patterns),
    byDefault: (name) => safe.has(name) || (everything && !name.startsWith(OWN_PREFIX)),
  }
}

const OWN_PREFIX = "SVC_"

const isInclusive = (pattern: string): boolean => !pattern.startsWith("!")

const safeSetOf = (platform: string): readonly string[] => (platform === "win32" ? SAFE_WINDOWS : SAFE_POSIX)

/** Returns a function that folds names for comparison: Windows ignores their case. */
const foldFor = (platform: string) => (name: string) => (platform === "win32" ? name.toUpperCase() : name)

/** Returns whether the last matching pattern includes a name, or undefined if no pattern matches. */
function lastMatch(name: string, patterns: readonly string[]): boolean | undefined {
  let verdict: boolean | undefined
  for (const pattern of patterns) {
    const include = isInclusive(pattern)
    const body = include ? pattern : pattern.slice(1)
    const matches = body.endsWith("*") ? name.startsWith(body.slice(0, -1)) : name === body
    if (matches) verdict = include
  }
  return verdict
}
