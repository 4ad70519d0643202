/**
 * What to start for a launch: the command as a path, found in the child's own PATH, and on Windows the interpreter of the
 * shims that npx, uvx and their like are there.
 */
import type { StdioLaunch } from "../config/server-spec.ts"
import { BackendError } from "../lib/errors.ts"

/** The machine, as far as finding a command goes. */
export type CommandLookup = {
  readonly windows: boolean
  /** The path of an executable, or null. */
  which(command: string, options: { PATH: string; cwd?: string }): string | null
}

export type ResolvedCommand = {
  readonly cmd: readonly string[]
  /** Windows: the arguments are quoted already. */
  readonly verbatim: boolean
}

/** Throws with what to do where the command is not there. `server` is whom the error names. */
export function resolveCommand(
  launch: StdioLaunch,
  server: string,
  { windows, which }: CommandLookup,
): ResolvedCommand {
  const { command, args, env, cwd } = launch
  const path = pathOf(env, windows)
  const found = which(command, { PATH: path, ...(cwd === undefined ? {} : { cwd }) })
  if (found === null) throw new BackendError(server, notFound(command, path))
  if (windows && /\.(cmd|bat)$/i.test(found)) {
    // cmd would take what follows for a command of its own, or for nothing.
    if (args.some((argument) => /[\r\n\0]/.test(argument)))
      throw new BackendError(
        server,
        `an argument with a line break cannot be handed to ${found}: give the program itself`,
      )
    // A shim hands its arguments (`%*`) through cmd once more. Between quotes nothing is escaped, and no path has any in it.
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

/** What brings a well-known launcher. */
const BRINGS: Readonly<Record<string, string>> = {
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

function notFound(command: string, path: string): string {
  if (/^[^\s]*[\\/]/.test(command))
    return `no program at ${command}: see that it is there and that it may be executed${/\s/.test(command) ? ', and put its arguments into "args"' : ""}`
  if (/\s/.test(command)) return `command not found: "${command}" (put what follows the command into "args")`
  const brings = BRINGS[command]
  const install = brings === undefined ? "" : `install ${brings}, or `
  return `command not found: ${command} (${install}give its full path; the server's PATH is "${path}")`
}

function pathOf(env: Readonly<Record<string, string>>, windows: boolean): string {
  return (windows ? variable("PATH", env) : env.PATH) ?? ""
}

/** Variables have no case on Windows. */
function variable(wanted: string, env: Readonly<Record<string, string>>): string | undefined {
  return Object.entries(env).find(([name]) => name.toUpperCase() === wanted)?.[1]
}

/** The server's PATH need not lead to it. */
function powershell(env: Readonly<Record<string, string>>): string {
  const root = variable("SYSTEMROOT", env)
  return root === undefined ? "powershell.exe" : `${root}\\System32\\WindowsPowerShell\\v1.0\\powershell.exe`
}

/** As the C runtime of Windows reads it back: backslashes count only before a quote. */
const quoted = (argument: string): string => `"${argument.replace(/(\\*)"/g, '$1$1\\"').replace(/(\\+)$/, "$1$1")}"`

/** Takes their meaning from the characters that cmd gives one to. */
const caret = (text: string): string => text.replace(/[()[\]%!^"`<>&|;, *?]/g, "^$&")
