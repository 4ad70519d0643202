/** A child's whole environment. spec: Environment inheritance; choice: Configuration. */

export type Environment = Readonly<Record<string, string | undefined>>

export type EnvironmentOptions = {
  readonly platform: string
  readonly parent: Environment
  /** The `.env` beside the configuration. */
  readonly dotenv: Environment
  readonly inheritParentEnv: boolean
  readonly envFilter: readonly string[]
  /** Declared and resolved; they win, and no filter applies to them. */
  readonly declared: Readonly<Record<string, string>>
}

/** What every child gets, for without a HOME and a PATH hardly any server starts. */
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
  // Docker's command does not start without.
  "PROGRAMDATA",
  "PATHEXT",
  "COMSPEC",
  "TMP",
] as const

/** Where variables are looked up. */
export type EnvironmentSources = Pick<EnvironmentOptions, "platform" | "parent" | "dotenv">

/** A variable by its name and where it is set: the parent's value wins over that of `.env`. Windows does not care for case. */
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
    // Only its own: every object has a `constructor`.
    const value = spelled !== undefined && Object.hasOwn(source, spelled) ? source[spelled] : undefined
    if (value !== undefined) return { value, from }
  }
  return undefined
}

/** The variables a child is started with, sorted by name so that equal environments compare equal. */
export function childEnvironment(options: EnvironmentOptions): Readonly<Record<string, string>> {
  const { platform, parent, dotenv, inheritParentEnv, envFilter, declared } = options
  const windows = platform === "win32"
  const fold = (name: string) => (windows ? name.toUpperCase() : name)
  const safe = new Set<string>(windows ? SAFE_WINDOWS : SAFE_POSIX)
  const everything = inheritParentEnv && envFilter.length === 0
  const chosen = new Map<string, readonly [name: string, value: string]>()
  const offer = (source: Environment, explicit: boolean) => {
    for (const [name, value] of Object.entries(source)) {
      if (value === undefined || fold(name).startsWith("SVC_")) continue
      const verdict = lastMatch(name, envFilter, fold)
      // `.env` is inherited only where a pattern names it.
      const wanted = verdict ?? (!explicit && (everything || safe.has(fold(name))))
      if (wanted) chosen.set(fold(name), [name, value])
    }
  }
  offer(dotenv, true)
  offer(parent, false)
  for (const [name, value] of Object.entries(declared)) chosen.set(fold(name), [name, value])
  return Object.fromEntries([...chosen.values()].sort(([a], [b]) => (a < b ? -1 : 1)))
}

// ---

/** What the last pattern that matches says, or undefined where none does. */
function lastMatch(name: string, patterns: readonly string[], fold: (name: string) => string): boolean | undefined {
  let verdict: boolean | undefined
  for (const pattern of patterns) {
    const include = !pattern.startsWith("!")
    const body = fold(include ? pattern : pattern.slice(1))
    const matches = body.endsWith("*") ? fold(name).startsWith(body.slice(0, -1)) : fold(name) === body
    if (matches) verdict = include
  }
  return verdict
}
