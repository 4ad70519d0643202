/** `svc mcp install`, `update` and `uninstall`: run the internal tools with these names for a person at a terminal. */
import type { CommandDef } from "citty"
import { CONTEXT_ARGS, openContext, repeated, TAG_ARGS, tagsOf } from "../commands/command-context.ts"
import { runTool } from "../commands/run-tool.ts"
import { writtenName } from "../config/edit.ts"
import { quoted } from "../config/server-text.ts"
import { createBundles } from "../features/registry/bundle.ts"
import { statusWord } from "../features/tools/servers.ts"
import { systemClock } from "../lib/clock.ts"
import { type ProgramCommand, usageError } from "../lib/command-line.ts"
import { visible } from "../lib/log.ts"
import { print, say } from "../lib/output.ts"
import { isInteractive, promptLine, promptYesNo } from "../lib/prompt.ts"
import { counted } from "../lib/text.ts"
import { configuredServers } from "../serve/local-configuration.ts"
import { isObject, type Params } from "../wire/message.ts"

const YES = { type: "boolean", alias: "y", description: "Do not ask for confirmation" } as const
const ENV = {
  type: "string",
  alias: "e",
  description: "Value that the server needs, NAME=value; may be repeated",
} as const
const DRY_RUN = { type: "boolean", description: "Only show what would change" } as const

export const install: ProgramCommand = {
  addressFlag: "url",
  envFlag: "env",
  meta: {
    name: "install",
    description: "Install a server: from a registry, --package, a URL, or a command",
  },
  args: {
    name: { type: "positional", required: true, description: "Name in the registry, or a name of your choice" },
    ...CONTEXT_ARGS,
    version: { type: "string", description: "Version (default: the latest)" },
    "registry-id": { type: "string", description: "Name in the registry, if NAME is a name of your choice" },
    package: { type: "string", description: "npm package, pypi:NAME or oci:IMAGE" },
    url: { type: "string", description: "Address of a remote server, or of a host that has a server card" },
    env: ENV,
    ...TAG_ARGS,
    disabled: { type: "boolean", description: "Add the server without starting it" },
    "dry-run": DRY_RUN,
    yes: YES,
  },
  run({ args, rawArgs }) {
    const split = rawArgs.indexOf("--")
    const [command, ...rest] = split < 0 ? [] : rawArgs.slice(split + 1)
    const tags = tagsOf(rawArgs)
    const wanted: Params = {
      serverName: args.name,
      ...pick(args, { version: "version", "registry-id": "registryId", package: "package", url: "url" }),
      ...(command === undefined ? {} : { command }),
      ...(rest.length === 0 ? {} : { args: rest }),
      ...(tags.length === 0 ? {} : { tags }),
      ...(args.disabled === true ? { enabled: false } : {}),
    }
    return carryOut(args, rawArgs, "mcp_install", wanted, {
      ask: (data) =>
        `${quoted(String(data.serverName))} from ${visible(String(data.source))} would run\n  ${data.command}${formatInherited(data)}\ninstall it?`,
      would: ({ serverName, source, command }) =>
        `would install ${serverName} from ${visible(String(source))}: ${command}`,
      done: (data) => `installed ${data.serverName}: ${statusWord(data)}${formatTools(data)}`,
    })
  },
}

export const update: CommandDef = {
  meta: { name: "update", description: "Update a server that was installed from a registry" },
  args: {
    name: { type: "positional", required: true, description: "Name of the server", valueHint: "server" },
    ...CONTEXT_ARGS,
    version: { type: "string", description: "Version (default: the latest)" },
    env: ENV,
    "dry-run": DRY_RUN,
    yes: YES,
  },
  run: ({ args, rawArgs }) =>
    carryOut(
      args,
      rawArgs,
      "mcp_update",
      { serverName: args.name, ...pick(args, { version: "version" }) },
      {
        ask: (data) =>
          `${formatVersions(data)}${formatBundle(data)} would run\n  ${data.command}${formatInherited(data)}\nupdate it?`,
        would: (data) => `would update ${formatVersions(data)}${formatChanges(data)}`,
        done: (data) =>
          data.updated === true
            ? `updated ${formatVersions(data)}: ${statusWord(data)}${formatTools(data)}${formatChanges(data)}`
            : `${data.serverName} is already at ${data.to}`,
        isNoop: ({ from, to }) => from === to,
      },
    ),
}

export const uninstall: CommandDef = {
  meta: { name: "uninstall", description: "Stop a server and remove it from the configuration, with a backup" },
  args: {
    name: { type: "positional", required: true, description: "Name of the server", valueHint: "server" },
    ...CONTEXT_ARGS,
    yes: YES,
  },
  async run({ args }) {
    const context = openContext(args)
    const name = writtenName(String(args.name), configuredServers(context).keys())
    if (args.yes !== true) {
      if (!isInteractive()) throw usageError("no terminal to ask for confirmation; add --yes to uninstall without it")
      if (!(await promptYesNo(`uninstall ${name}?`))) return 0
    }
    const done = await runTool(context, "mcp_uninstall", { serverName: name })
    warn(done)
    print(args.json === true, done, () => `uninstalled ${done.serverName}; backup: ${done.backup}`)
    return 0
  },
}

// ---

type InstallTexts = {
  ask(plan: Params): string
  would(plan: Params): string
  done(data: Params): string
  /** Whether a plan without values changes nothing. */
  isNoop?(plan: Params): boolean
}

/**
 * Plans with a dry run of the tool, asks for missing values and for confirmation, and executes the plan. Returns the exit
 * code.
 */
async function carryOut(
  args: Readonly<Record<string, unknown>>,
  rawArgs: readonly string[],
  tool: string,
  wanted: Params,
  texts: InstallTexts,
): Promise<number> {
  const context = openContext(args)
  const env: Record<string, string> = {}
  for (const text of repeated(rawArgs, "env", "e")) {
    const [, name, value] = /^([^=]+)=([\s\S]*)$/.exec(text) ?? []
    if (name === undefined || value === undefined) throw usageError("--env must be NAME=value")
    env[name] = value
  }
  const bundles = createBundles({ clock: systemClock, fetch })
  const run = (more: Params, agreed?: string) =>
    runTool(context, tool, { ...wanted, env, ...more }, { bundles, agreed })
  let plan = await run({ dryRun: true })
  const missing = missingOf(plan)
  const needed = missing.map(formatMissing).join(", ")
  if (args["dry-run"] === true) {
    warn(plan)
    print(args.json === true, plan, () => `${texts.would(plan)}${needed === "" ? "" : `\nneeds ${needed}`}`)
    return 0
  }
  for (const one of missing) {
    if (!isInteractive()) throw usageError(`${plan.serverName} needs ${needed}; pass each as --env NAME=value`)
    env[String(one.name)] = await promptLine(`${formatMissing(one)}: `, one.secret === true)
  }
  if (missing.length > 0) {
    plan = await run({ dryRun: true })
    const still = missingOf(plan)
    if (still.length > 0) throw usageError(`${plan.serverName} needs ${still.map(formatMissing).join(", ")}`)
  }
  // Warnings come before the question, because they may change the answer.
  const shown = warn(plan)
  const noop = Object.keys(env).length === 0 && texts.isNoop?.(plan) === true
  if (args.yes !== true && !noop) {
    if (!isInteractive())
      throw usageError(`no terminal to ask for confirmation; add --yes to let svc run: ${plan.command}`)
    if (!(await promptYesNo(texts.ask(plan)))) return 0
  }
  if (!noop) say(`starting ${plan.serverName} …`)
  // The run asks the registry again; the digest ensures that it runs what was shown.
  const data = noop ? plan : await run({}, typeof plan.digest === "string" ? plan.digest : undefined)
  warn(data, shown)
  print(args.json === true, data, () => texts.done(data))
  return 0
}

/** Returns the given flags, renamed to the arguments of the tool. */
function pick(args: Readonly<Record<string, unknown>>, names: Readonly<Record<string, string>>): Params {
  return Object.fromEntries(
    Object.entries(names).flatMap(([flag, name]) => (typeof args[flag] === "string" ? [[name, args[flag]]] : [])),
  )
}

const missingOf = ({ missing }: Params): readonly Params[] => (Array.isArray(missing) ? missing.filter(isObject) : [])
const formatMissing = ({ name, description, choices }: Params): string => {
  const about = [description ?? [], Array.isArray(choices) ? `one of ${choices.join(", ")}` : []].flat()
  return visible(about.length === 0 ? String(name) : `${name} (${about.join("; ")})`)
}
const formatTools = ({ tools }: Params): string => (tools === undefined ? "" : `, ${counted(Number(tools), "tool")}`)
const formatInherited = ({ inherited }: Params): string =>
  inherited === undefined ? "" : `\n  serverDefaults adds: ${inherited}`
const formatBundle = ({ bundle }: Params): string => (bundle === undefined ? "" : ` with ${visible(String(bundle))}`)
const formatVersions = ({ serverName, from, to }: Params): string => {
  const [name, old, next] = [serverName, from, to].map((word) => quoted(String(word)))
  return `${name} from ${old} to ${next}`
}
const formatChanges = ({ changes }: Params): string =>
  (Array.isArray(changes) ? changes.filter(isObject) : [])
    .map(({ key, from, to }) => `\n  ${key}: ${from ?? "nothing"} -> ${to ?? "nothing"}`)
    .join("")

/** Prints the warnings that are not in `shown`; returns all warnings shown so far. */
function warn({ warnings }: Params, shown: readonly unknown[] = []): readonly unknown[] {
  const fresh = (Array.isArray(warnings) ? warnings : []).filter((warning) => !shown.includes(warning))
  for (const warning of fresh) say(visible(`warning: ${warning}`))
  return [...shown, ...fresh]
}
