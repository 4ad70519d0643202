/** `svc mcp install`, `update` and `uninstall`: what the tools of the same names do, for a person at a terminal. */
import type { CommandDef } from "citty"
import { CONTEXT_ARGS, openContext, repeated } from "../app/command-context.ts"
import { print, say } from "../app/output.ts"
import { runTool } from "../app/run-tool.ts"
import { systemClock } from "../lib/clock.ts"
import { usageError } from "../lib/command-line.ts"
import { visible } from "../lib/log.ts"
import { isInteractive, promptLine, promptYesNo } from "../lib/prompt.ts"
import { createBundles } from "../registry/bundle.ts"
import { isObject, type Params } from "../wire/message.ts"

const YES = { type: "boolean", alias: "y", description: "Do not ask" } as const
const ENV = { type: "string", description: "NAME=value that the server needs; may be repeated" } as const
const DRY_RUN = { type: "boolean", description: "Only show what would be done" } as const

export const install: CommandDef = {
  meta: {
    name: "install",
    description: "Install a server from a registry, a package, a command behind -- or an address",
  },
  args: {
    name: { type: "positional", required: true, description: "Its name in the registry, or the name it is to have" },
    ...CONTEXT_ARGS,
    version: { type: "string", description: "A version (default latest)" },
    "registry-id": { type: "string", description: "Its name in the registry, where NAME is to be another" },
    package: { type: "string", description: "An npm package, pypi:NAME or oci:IMAGE" },
    url: { type: "string", description: "Address of a remote server" },
    env: ENV,
    tag: { type: "string", description: "A tag; may be repeated" },
    disabled: { type: "boolean", description: "Only write it; do not start it" },
    "dry-run": DRY_RUN,
    yes: YES,
  },
  run({ args, rawArgs }) {
    const split = rawArgs.indexOf("--")
    const [command, ...rest] = split < 0 ? [] : rawArgs.slice(split + 1)
    const tags = repeated(rawArgs, "tag")
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
        `install ${data.serverName} from ${visible(String(data.source))} and let svc run\n  ${data.command}${sayInherited(data)}\n?`,
      would: ({ serverName, source, command }) =>
        `would install ${serverName} from ${visible(String(source))}: ${command}`,
      done: (data) => `installed ${data.serverName}: ${data.status}${sayTools(data)}`,
    })
  },
}

export const update: CommandDef = {
  meta: { name: "update", description: "Update a server that came from a registry, and show what changes" },
  args: {
    name: { type: "positional", required: true, description: "The server's name" },
    ...CONTEXT_ARGS,
    version: { type: "string", description: "A version (default latest)" },
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
          `update ${sayVersions(data)}${sayBundle(data)} and let svc run\n  ${data.command}${sayInherited(data)}\n?`,
        would: (data) => `would update ${sayVersions(data)}${sayChanges(data)}`,
        done: (data) =>
          data.updated === true
            ? `updated ${sayVersions(data)}: ${data.status}${sayTools(data)}${sayChanges(data)}`
            : `${data.serverName} is at ${data.to} already`,
        idle: ({ from, to }) => from === to,
      },
    ),
}

export const uninstall: CommandDef = {
  meta: { name: "uninstall", description: "Stop a server and take it out of the file; a backup is kept" },
  args: { name: { type: "positional", required: true, description: "The server's name" }, ...CONTEXT_ARGS, yes: YES },
  async run({ args }) {
    if (args.yes !== true) {
      if (!isInteractive()) throw usageError("add --yes to uninstall without being asked")
      if (!(await promptYesNo(`uninstall ${args.name}?`))) return 0
    }
    const done = await runTool(openContext(args), "mcp_uninstall", { serverName: args.name })
    warn(done)
    print(args.json === true, done, () => `uninstalled ${done.serverName}; the file before: ${done.backup}`)
    return 0
  },
}

// ---

type InstallTexts = {
  ask(plan: Params): string
  would(plan: Params): string
  done(data: Params): string
  /** Whether a plan comes to nothing. */
  idle?(plan: Params): boolean
}

/** Shows what a tool would do, asks for what is missing and whether to go on, and does it. */
async function carryOut(
  args: Readonly<Record<string, unknown>>,
  rawArgs: readonly string[],
  tool: string,
  wanted: Params,
  sayings: InstallTexts,
): Promise<number> {
  const context = openContext(args)
  const env: Record<string, string> = {}
  for (const text of repeated(rawArgs, "env")) {
    const [, name, value] = /^([^=]+)=([\s\S]*)$/.exec(text) ?? []
    if (name === undefined || value === undefined) throw usageError("--env must be NAME=value")
    env[name] = value
  }
  const bundles = createBundles({ clock: systemClock, fetch })
  const run = (more: Params) => runTool(context, tool, { ...wanted, env, ...more }, bundles)
  let plan = await run({ dryRun: true })
  const missing = missingOf(plan)
  const needed = missing.map(sayMissing).join(", ")
  if (args["dry-run"] === true) {
    warn(plan)
    print(args.json === true, plan, () => `${sayings.would(plan)}${needed === "" ? "" : `\nneeds ${needed}`}`)
    return 0
  }
  for (const one of missing) {
    if (!isInteractive()) throw usageError(`${plan.serverName} needs ${needed}; give each with --env NAME=value`)
    env[String(one.name)] = await promptLine(`${sayMissing(one)}: `, one.secret === true)
  }
  if (missing.length > 0) {
    plan = await run({ dryRun: true })
    const still = missingOf(plan)
    if (still.length > 0) throw usageError(`${plan.serverName} needs ${still.map(sayMissing).join(", ")}`)
  }
  // Before the question: a warning may change the answer.
  const told = warn(plan)
  const idle = sayings.idle?.(plan) === true
  if (args.yes !== true && !idle) {
    if (!isInteractive()) throw usageError(`add --yes to let svc run this: ${plan.command}`)
    if (!(await promptYesNo(sayings.ask(plan)))) return 0
  }
  if (!idle) say(`starting ${plan.serverName} …`)
  const data = idle ? plan : await run({})
  warn(data, told)
  print(args.json === true, data, () => sayings.done(data))
  return 0
}

/** The flags that were given, under their arguments' names. */
function pick(args: Readonly<Record<string, unknown>>, names: Readonly<Record<string, string>>): Params {
  return Object.fromEntries(
    Object.entries(names).flatMap(([flag, name]) => (typeof args[flag] === "string" ? [[name, args[flag]]] : [])),
  )
}

const missingOf = ({ missing }: Params): readonly Params[] => (Array.isArray(missing) ? missing.filter(isObject) : [])
const sayMissing = ({ name, description, choices }: Params): string => {
  const about = [description ?? [], Array.isArray(choices) ? `one of ${choices.join(", ")}` : []].flat()
  return visible(about.length === 0 ? String(name) : `${name} (${about.join("; ")})`)
}
const sayTools = ({ tools }: Params): string => (tools === undefined ? "" : `, ${tools} tools`)
const sayInherited = ({ inherited }: Params): string =>
  inherited === undefined ? "" : `\n  serverDefaults adds: ${inherited}`
const sayBundle = ({ bundle }: Params): string => (bundle === undefined ? "" : ` with ${visible(String(bundle))}`)
const sayVersions = ({ serverName, from, to }: Params): string => visible(`${serverName} from ${from} to ${to}`)
const sayChanges = ({ changes }: Params): string =>
  (Array.isArray(changes) ? changes.filter(isObject) : [])
    .map(({ key, from, to }) => `\n  ${key}: ${from ?? "nothing"} -> ${to ?? "nothing"}`)
    .join("")

/** Says what has not been told yet; gives all that has been. */
function warn({ warnings }: Params, told: readonly unknown[] = []): readonly unknown[] {
  const fresh = (Array.isArray(warnings) ? warnings : []).filter((warning) => !told.includes(warning))
  for (const warning of fresh) say(visible(`warning: ${warning}`))
  return [...told, ...fresh]
}
