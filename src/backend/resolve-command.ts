/**
 * Resolves a launch's command: to a path found in the child's own PATH, and on Windows to the interpreter of a shim (npx,
 * uvx and others are shims there).
 */
import type { StdioLaunch } from "../config/server-spec.ts"
import { BackendError } from "../lib/errors.ts"

/** The facts about the machine that resolving a command needs. */
export type CommandLookup = {
  readonly windows: boolean
  /** Returns the path of an executable, or null. */
  which(command: string, options: { PATH: string; cwd?: string }): string | null
}

export type ResolvedCommand = {
  readonly cmd: readonly string[]
  /** Whether the arguments are quoted already (Windows). */
  readonly verbatim: boolean
}

/** Throws a BackendError that names `server` and says what to do if the command is not found. */
export function resolveCommand(
  launch: StdioLaunch,
  server: string,
  { windows, which }: CommandLookup,
): ResolvedCommand {
  const { command, args, env, cwd } = launch
  const path = pathOf(env, windows)
  const found = which(command, { PATH: path, ...(cwd === undefined ? {} : { cwd }) })
  if (found === null) throw new BackendError(server, notFound(command))
  if (windows && /\.(cmd|bat)$/i.test(found)) {
    // cmd ends the command at a line break.
    if (args.some((argument) => /[\r\n\0]/.test(argument)))
      throw new BackendError(
        server,
        `an argument with a line break cannot be passed to ${found}: configure the program itself as the command`,
      )
    // A shim passes its arguments (`%*`) through cmd a second time. The path needs no escapes between its quotes.
    const line = [quoted(found), ...args.map((argument) => caret(caret(quoted(argument))))].join(" ")
    return { cmd: [variable("COMSPEC", env) ?? "cmd.exe", "/d", "/s", "/c", `"${line}"`], verbatim: true }
  }
  if (windows && /\.ps1$/i.test(found))
    return {
      cmd: [powershell(env), "-NoProfile", "-ExecutionPolicy", "Bypass", "-File", found, ...args],
      verbatim: false,
    }
  return { cmd: [found, ...args], verbatim: false }
}

// ---

/** The software that provides a well-known launcher. */
const PROVIDED_BY: Readonly<Record<string, string>> = {
  npx: "Node.js",
  npm: "Node.js",
  node: "Node.js",
  uvx: "uv",
  uv: "uv",
  python: "Python",
  python3: "Python",
  docker: "Docker",
  bunx: "Bun",
  deno: "Deno",
}

function notFound(command: string): string {
  if (/^[^\s]*[\\/]/.test(command))
    return `no program at ${command}: check that it exists and is executable${/\s/.test(command) ? ', and put its arguments into "args"' : ""}`
  if (/\s/.test(command)) return `command not found: "${command}" (put its arguments into "args")`
  const provider = PROVIDED_BY[command]
  const install = provider === undefined ? "" : `install ${provider}, or `
  return `command not found: ${command} (it is not on the server's PATH; ${install}give its full path)`
}

function pathOf(env: Readonly<Record<string, string>>, windows: boolean): string {
  return (windows ? variable("PATH", env) : env.PATH) ?? ""
}

/** Returns a variable by its name in upper case: names are case-insensitive on Windows. */
function variable(wanted: string, env: Readonly<Record<string, string>>): string | undefined {
  return Object.entries(env).find(([name]) => name.toUpperCase() === wanted)?.[1]
}

/** Returns the path of Windows PowerShell, which need not be in the server's PATH. */
function powershell(env: Readonly<Record<string, string>>): string {
  const root = variable("SYSTEMROOT", env)
  return root === undefined ? "powershell.exe" : `${root}\\System32\\WindowsPowerShell\\v1.0\\powershell.exe`
}

/** Quotes an argument for the C runtime of Windows, where backslashes escape only before a quote. */
const quoted = (argument: string): string => `"${argument.replace(/(\\*)"/g, '$1$1\\"').replace(/(\\+)$/, "$1$1")}"`

/** Escapes the characters that are special to cmd. */
const caret = (text: string): string => text.replace(/[()[\]%!^"`<>&|;, *?]/g, "^$&")
