/** `svc service`: installs svc as a service that starts with the user's session or the machine. Shows the changes first. */
import { existsSync, mkdirSync, readFileSync } from "node:fs"
import { dirname, join, resolve } from "node:path"
import type { ArgsDef, CommandDef } from "citty"
import { CONFIG_ARGS } from "../app/config-paths.ts"
import { readServeOptions, SERVE_OPTIONS } from "../app/serve-options.ts"
import { CONTEXT_ARGS, openContext } from "../commands/command-context.ts"
import { defineService, type ServiceDefinition } from "../features/system/service-definition.ts"
import { canWrite, closedTo, findUser, type ServiceUser } from "../features/system/service-user.ts"
import { readOptions, usageError } from "../lib/command-line.ts"
import { digest } from "../lib/digest.ts"
import { messageOf, RequestError, UnavailableError } from "../lib/errors.ts"
import { homeDirectory } from "../lib/home-directory.ts"
import { print, say } from "../lib/output.ts"
import { ownCommand } from "../lib/own-command.ts"
import { isInteractive, promptYesNo } from "../lib/prompt.ts"
import { describeInstance, instancePid } from "../serve/control-socket.ts"
import { readFolder, removeAll, replaceFile } from "../store/files.ts"
import { ownName, type Paths, standardDirectory } from "../store/paths.ts"

const SCOPE_ARGS = {
  system: { type: "boolean", description: "A service of the machine instead of the user (needs root)" },
} as const satisfies ArgsDef

export const CHANGE_ARGS = {
  ...SCOPE_ARGS,
  "dry-run": { type: "boolean", description: "Only show what would change" },
  yes: { type: "boolean", alias: "y", description: "Do not ask for confirmation" },
} as const satisfies ArgsDef

const INSTALL_ARGS = {
  ...CHANGE_ARGS,
  "run-as": {
    type: "string",
    description: "User that runs a service of the machine (default: the user who called sudo)",
  },
} as const satisfies ArgsDef

/** The options of `svc serve` that a service can have. */
const { background: _background, json: _json, demo: _demo, transport: _transport, ...SERVICE_OPTIONS } = SERVE_OPTIONS

export const service: CommandDef = {
  meta: { name: "service", description: "Run svc as a service that starts with the user's session or the machine" },
  subCommands: {
    install: {
      meta: { name: "install", description: "Install and start the service, with the options of `svc serve`" },
      args: { ...INSTALL_ARGS, ...SERVICE_OPTIONS },
      async run({ args }) {
        readServeOptions(args, process.env, process.platform)
        if (args.system === true && process.platform === "linux" && userOf(args) === undefined)
          throw usageError("--system needs --run-as USER: the user that runs svc and its servers")
        const user = args.system === true ? findServiceUser(args) : undefined
        // The configuration of another user cannot always be read here.
        const isOther = user?.home !== undefined && user.home !== homeDirectory()
        const { paths } = openContext(args, args.init === true || isOther ? "allowed" : "refused")
        if (user !== undefined) checkServiceUser(user, args, paths)
        const { file, text, encoding, install, start, stop, hint } = definitionOf(args, paths, undefined, user?.home)
        const before = existsSync(file) ? readFileSync(file, encoding).replace(/^\ufeff/, "") : undefined
        const running = before === undefined && args.system !== true ? await instancePid(paths) : undefined
        if (running !== undefined) {
          const refusal = `${await describeInstance(paths, running)}; stop it with \`svc stop\` first`
          if (args["dry-run"] !== true) throw new UnavailableError(refusal)
          say(refusal)
        }
        const isCurrent = before === text
        const written = isCurrent ? [] : [`write ${file}:`, "", text.trimEnd().replace(/^(?=.)/gm, "  "), ""]
        const ended = before === undefined || isCurrent ? [] : stop
        const commands = isCurrent ? start : install
        if (!(await confirmChanges(args, [...written, ...runLines([...ended, ...commands])], "install the service")))
          return 0
        makeFolder(dirname(file))
        if (!isCurrent) replaceFile(file, encoding === "utf8" ? text : Buffer.from(`\ufeff${text}`, encoding), 0o644)
        try {
          // An error means that the old service does not run.
          for (const command of ended) await run(command).catch(() => undefined)
          for (const command of commands) await run(command)
        } catch (error) {
          if (before === undefined) removeAll([file])
          throw error
        }
        if (isOther && args["config-dir"] === undefined && args.config === undefined)
          say(`it runs as ${user.name}, with the configuration in ${join(user.home, ".config", "svc")}`)
        say(
          `the service is installed; \`svc service status\`${args.system === true ? " with --system" : ""} shows its state`,
        )
        if (hint !== undefined) say(hint)
        noteVariables()
        return 0
      },
    },
    uninstall: {
      meta: { name: "uninstall", description: "Stop the service and remove it" },
      args: { ...CHANGE_ARGS, ...CONFIG_ARGS },
      async run({ args }) {
        const definition = definitionOf(args, openContext(args, "allowed").paths)
        const { file } = definition
        if (!existsSync(file)) {
          say(`there is no service: ${file} does not exist`)
          return 0
        }
        if (!(await confirmChanges(args, removalLines(definition), "remove the service"))) return 0
        await removeService(definition)
        say("the service is removed; the configuration is kept")
        return 0
      },
    },
    status: {
      meta: { name: "status", description: "Show the state of the service, as the service manager reports it" },
      args: { ...SCOPE_ARGS, ...CONTEXT_ARGS },
      async run({ args }) {
        const { paths } = openContext(args, "allowed")
        const { manager, file, status } = installed(args, paths)
        if (args.json !== true) return show(status)
        const code = await show(status, "ignore")
        const pid = await instancePid(paths)
        print(true, { manager, file, ...(pid === undefined ? {} : { pid }) }, () => "")
        return code
      },
    },
    logs: {
      meta: { name: "logs", description: "Show the log of the service; `svc logs` shows those of the servers" },
      args: {
        ...SCOPE_ARGS,
        ...CONFIG_ARGS,
        lines: { type: "string", alias: "n", description: "Number of lines to show (default 50)" },
        follow: { type: "boolean", alias: "f", description: "Keep printing new lines" },
      },
      run({ args }) {
        const { paths } = openContext(args, "allowed")
        const lines = readOptions({ lines: args.lines }, {}).integer("lines", 50, 1, 100_000)
        const follow = args.follow === true
        const { logs } = installed(args, paths)
        if (logs !== undefined) return show(logs(lines, follow))
        if (process.platform !== "win32")
          return show(["tail", "-n", String(lines), ...(follow ? ["-F"] : []), logFileOf(paths)])
        const path = `'${logFileOf(paths).replaceAll("'", "''")}'`
        return show([
          "powershell",
          "-NoProfile",
          "-Command",
          `Get-Content -Path ${path} -Tail ${lines}${follow ? " -Wait" : ""}`,
        ])
      },
    },
  },
}

/**
 * Shows the changes and asks for confirmation; returns false if they must not be made. With `--json`, shows them only
 * together with the question. Throws a RequestError (usage) if no person can answer.
 */
export async function confirmChanges(
  args: Readonly<Record<string, unknown>>,
  lines: readonly string[],
  what: string,
): Promise<boolean> {
  const text = lines.join("\n")
  if (args.json !== true) process.stdout.write(`${text}\n`)
  if (args["dry-run"] === true) return false
  if (args.yes === true) return true
  if (!isInteractive())
    throw usageError(`no terminal to ask for confirmation; add --yes to ${what}, or --dry-run to see the change`)
  if (args.json === true) say(text)
  return promptYesNo(`${what}?`)
}

/** Returns the services of this user, for all configurations. Throws an UnavailableError if the machine has a service. */
export function installedServices(): readonly ServiceDefinition[] {
  const { paths } = openContext({}, "allowed")
  const found = (system: boolean) => {
    const { file } = definitionOf({ system }, paths)
    const names = readFolder(dirname(file)).flatMap((name) => SERVICE_FILE.exec(name)?.[1] ?? [])
    return names.map((name) => definitionOf({ system }, paths, name))
  }
  const ofMachine = process.platform === "win32" ? [] : found(true)
  if (ofMachine.length > 0)
    throw new UnavailableError(
      `${ofMachine.map(({ file }) => file).join(", ")} is a service of the machine; \`svc service uninstall --system\` removes it`,
    )
  return found(false)
}

/** Returns lines that describe the removal of a service. */
export const removalLines = ({ file, uninstall, forget }: ServiceDefinition): readonly string[] => [
  ...runLines(uninstall),
  `remove ${file}`,
  ...runLines(forget),
]

/** Stops a service and removes it. Rejects with an UnavailableError if its file cannot be removed. */
export async function removeService({ file, uninstall, forget }: ServiceDefinition): Promise<void> {
  const warn = (error: unknown) => say(`warning: ${messageOf(error)}`)
  // Continues after an error: the service may not run, or may be unknown to its manager.
  for (const command of uninstall) await run(command).catch(warn)
  removeAll([file])
  if (existsSync(file)) throw new UnavailableError(`cannot remove ${file}; remove it as the user who owns it`)
  for (const command of forget) await run(command).catch(warn)
}

// ---

/** Matches the definition files of `features/system/service-definition.ts`. */
const SERVICE_FILE = /^(svc(?:-[0-9a-f]{8})?)(?:\.service|\.plist|-task\.xml)$/

/** Hints of options with a path: these become absolute, because a service has another working directory. */
const PATH_HINTS: ReadonlySet<string> = new Set(["path", "directory"])

const logFileOf = (paths: Paths): string => join(paths.directory, `${ownName("svc", paths)}.log`)

function definitionOf(
  args: Readonly<Record<string, unknown>>,
  paths: Paths,
  named?: string,
  userHome?: string,
): ServiceDefinition {
  const { env, platform } = process
  const home = homeDirectory()
  const standard = standardDirectory({ platform, home, appData: env.APPDATA })
  const isStandard = paths.directory === standard && paths.file === join(standard, "mcp.json")
  return defineService({
    platform,
    scope:
      args.system === true
        ? { kind: "system", user: userOf(args) ?? "root" }
        : { kind: "user", uid: process.getuid?.() ?? 0 },
    // Each configuration has its own service.
    name: named ?? (isStandard ? "svc" : `svc-${digest(`${paths.directory}\0${paths.file}`, 8)}`),
    command: ownCommand("serve", ...configurationWords(paths, standard), ...serveWords(args)),
    home,
    // The service finds its default directory in the home of its user.
    directory:
      isStandard && userHome !== undefined
        ? standardDirectory({ platform, home: userHome, appData: undefined })
        : paths.directory,
    path: env.PATH ?? "",
    logFile: logFileOf(paths),
  })
}

/** Returns the user as whom a service of the machine runs svc; undefined on Windows. Throws a RequestError if there is no such user. */
function findServiceUser(args: Readonly<Record<string, unknown>>): ServiceUser | undefined {
  if (process.platform === "win32") return undefined
  const name = userOf(args) ?? "root"
  const user = findUser(name, (command) => {
    const { exitCode, stdout } = Bun.spawnSync([...command], { stderr: "ignore" })
    return exitCode === 0 ? stdout.toString() : undefined
  })
  if (user === undefined)
    throw new RequestError(
      "not_found",
      `this machine has no user named ${name}; create it, or name another one with --run-as`,
    )
  return user
}

/** Throws a RequestError if the user of a service cannot run this program or write the configuration directory. */
function checkServiceUser(user: ServiceUser, args: Readonly<Record<string, unknown>>, { directory }: Paths): void {
  const { name } = user
  const [program] = ownCommand()
  const closed = closedTo(user, program)
  if (closed !== undefined)
    throw new RequestError(
      "conflict",
      `${name} cannot run ${program}: ${closed} is closed to it; run \`sudo install -m 755 ${program} /usr/local/bin/svc\`, and then \`sudo /usr/local/bin/svc service install --system --run-as ${name}\``,
    )
  if (args["config-dir"] !== undefined && !canWrite(user, directory))
    throw new RequestError(
      "conflict",
      `${name} cannot write ${directory}; run \`sudo install -d -m 700 -o ${name} ${directory}\``,
    )
}

const userOf = (args: Readonly<Record<string, unknown>>): string | undefined =>
  readOptions(args, {}).text("run-as") ?? process.env.SUDO_USER

function makeFolder(folder: string): void {
  try {
    mkdirSync(folder, { recursive: true })
  } catch (cause) {
    throw new UnavailableError(`cannot create ${folder}: ${messageOf(cause)}`, { cause })
  }
}

/** Returns the flags that select the configuration, even if variables have selected it here. */
function configurationWords({ directory, file }: Paths, standard: string): readonly string[] {
  return [
    ...(directory === standard ? [] : [`--config-dir=${directory}`]),
    ...(file === join(directory, "mcp.json") ? [] : [`--config=${file}`]),
  ]
}

/** Returns the other options of `svc serve` that were given. */
function serveWords(args: Readonly<Record<string, unknown>>): readonly string[] {
  return Object.entries(SERVICE_OPTIONS).flatMap(([name, definition]) => {
    const value = args[name]
    if (name in CONFIG_ARGS || value === undefined) return []
    if (typeof value === "boolean") return [value ? `--${name}` : `--no-${name}`]
    const isPath = "valueHint" in definition && PATH_HINTS.has(definition.valueHint)
    return [`--${name}=${isPath ? resolve(String(value)) : String(value)}`]
  })
}

/** Warns about variables that are set here, but not in the service. */
function noteVariables(): void {
  const known = Object.keys(SERVICE_OPTIONS)
    .filter((name) => !(name in CONFIG_ARGS))
    .map((name) => [name, `SVC_${name.replaceAll("-", "_").toUpperCase()}`] as const)
  for (const [name, variable] of known)
    if (process.env[variable])
      say(`warning: ${variable} is set here, but not in the service; give --${name} to svc service install`)
}

function installed(args: Readonly<Record<string, unknown>>, paths: Paths): ServiceDefinition {
  const definition = definitionOf(args, paths)
  if (!existsSync(definition.file))
    throw new UnavailableError(`there is no service for ${paths.file}; \`svc service install\` installs one`)
  return definition
}

/** Returns lines that announce commands. */
const runLines = (commands: readonly (readonly string[])[]): readonly string[] =>
  commands.map((command) => `run ${command.join(" ")}`)

/** Runs a command of the service manager. Rejects with an UnavailableError that contains the last line of its stderr. */
async function run(command: readonly string[]): Promise<void> {
  const failed = (reason: string) => new UnavailableError(`\`${command.join(" ")}\` failed: ${reason}`)
  let child: Bun.Subprocess<"ignore", "pipe", "pipe">
  try {
    child = Bun.spawn([...command], { stdin: "ignore", stdout: "pipe", stderr: "pipe" })
  } catch (error) {
    throw failed(messageOf(error))
  }
  const [, stderr, code] = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
    child.exited,
  ])
  if (code !== 0) throw failed(stderr.trim().split("\n").at(-1) || `it exited with code ${code}`)
}

/** Runs a command, prints its output unless that is ignored, and returns its exit code. */
async function show(command: readonly string[], output: "inherit" | "ignore" = "inherit"): Promise<number> {
  try {
    return await Bun.spawn([...command], { stdin: "ignore", stdout: output, stderr: output }).exited
  } catch (error) {
    throw new UnavailableError(`cannot run ${command[0]}: ${messageOf(error)}`)
  }
}
