/** The environment of a child process. spec: Environment inheritance; choice: Configuration. */

/** Variables by name. */
export type Environment = Readonly<Record<string, string | undefined>>

export type EnvironmentOptions = {
  readonly platform: string
  readonly parent: Environment
  /** The `.env` beside the configuration. */
  readonly dotenv: Environment
  readonly inheritParentEnv: boolean
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

/** The sources that variables are looked up in. */
export type EnvironmentSources = Pick<EnvironmentOptions, "platform" | "parent" | "dotenv">

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

/** Returns the environment of a child, sorted by name so that equal environments compare equal. */
export function childEnvironment(options: EnvironmentOptions): Readonly<Record<string, string>> {
  const { platform, parent, dotenv, inheritParentEnv, envFilter, declared } = options
  const windows = platform === "win32"
  const fold = (name: string) => (windows ? name.toUpperCase() : name)
  const safe = new Set<string>(windows ? SAFE_WINDOWS : SAFE_POSIX)
  const everything = inheritParentEnv && envFilter.length === 0
  // Of equal patterns the first stays: a server that only repeats a default must not let in what a later default excludes.
  const patterns = new Set(envFilter.map(fold))
  const chosen = new Map<string, readonly [name: string, value: string]>()
  const inherit = (source: Environment, explicit: boolean) => {
    for (const [name, value] of Object.entries(source)) {
      if (value === undefined || fold(name).startsWith("SVC_")) continue
      const verdict = lastMatch(fold(name), patterns)
      // A variable of `.env` is inherited only if a pattern matches it.
      const inherited = verdict ?? (!explicit && (everything || safe.has(fold(name))))
      if (inherited) chosen.set(fold(name), [name, value])
    }
  }
  inherit(dotenv, true)
  inherit(parent, false)
  for (const [name, value] of Object.entries(declared)) chosen.set(fold(name), [name, value])
  return Object.fromEntries([...chosen.values()].sort(([a], [b]) => (a < b ? -1 : 1)))
}

// ---

/** Returns whether the last matching pattern includes a name, or undefined if no pattern matches. */
function lastMatch(name: string, patterns: Iterable<string>): boolean | undefined {
  let verdict: boolean | undefined
  for (const pattern of patterns) {
    const include = !pattern.startsWith("!")
    const body = include ? pattern : pattern.slice(1)
    const matches = body.endsWith("*") ? name.startsWith(body.slice(0, -1)) : name === body
    if (matches) verdict = include
  }
  return verdict
}
