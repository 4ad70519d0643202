/** `svc mcp install`, `uninstall`: what the tools of the same names do, for a person at a terminal. */
import type { CommandDef } from "citty"
import { isObject, type Params } from "../wire/message.ts"
import { agrees, answer, canAsk } from "./ask.ts"
import { runTool } from "./bench.ts"
import { usage } from "./command.ts"
import { print, say } from "./output.ts"
import { PLACE_ARGS, placeOf, repeated } from "./place.ts"

const YES = { type: "boolean", alias: "y", description: "Do not ask" } as const
const DRY_RUN = { type: "boolean", description: "Only show what would be done" } as const

export const install: CommandDef = {
  meta: {
    name: "install",
    description: "Install a server from a registry, a package, a command behind -- or an address",
  },
  args: {
    name: { type: "positional", required: true, description: "Its name in the registry, or the name it is to have" },
    ...PLACE_ARGS,
    version: { type: "string", description: "A version (default latest)" },
    "registry-id": { type: "string", description: "Its name in the registry, where NAME is to be another" },
    package: { type: "string", description: "An npm package, pypi:NAME or oci:IMAGE" },
    url: { type: "string", description: "Address of a remote server" },
    env: { type: "string", description: "NAME=value that the server needs; may be repeated" },
    tag: { type: "string", description: "A tag; may be repeated" },
    disabled: { type: "boolean", description: "Only write it; do not start it" },
    "dry-run": DRY_RUN,
    yes: YES,
  },
  async run({ args, rawArgs }) {
    const place = placeOf(args)
    const split = rawArgs.indexOf("--")
    const [command, ...rest] = split < 0 ? [] : rawArgs.slice(split + 1)
    const env: Record<string, string> = {}
    for (const text of repeated(rawArgs, "env")) {
      const [, name, value] = /^([^=]+)=([\s\S]*)$/.exec(text) ?? []
      if (name === undefined || value === undefined) throw usage("--env must be NAME=value")
      env[name] = value
    }
    const tags = repeated(rawArgs, "tag")
    const wanted: Params = {
      serverName: args.name,
      ...pick(args, { version: "version", "registry-id": "registryId", package: "package", url: "url" }),
      ...(command === undefined ? {} : { command }),
      ...(rest.length === 0 ? {} : { args: rest }),
      ...(tags.length === 0 ? {} : { tags }),
      ...(args.disabled === true ? { enabled: false } : {}),
    }
    let plan = await runTool(place, "mcp_install", { ...wanted, env, dryRun: true })
    const missing = Array.isArray(plan.missing) ? plan.missing.filter(isObject) : []
    if (args["dry-run"] === true) return show(args, plan)
    for (const { name, description, secret } of missing) {
      if (!canAsk())
        throw usage(`${args.name} needs ${missing.map(sayMissing).join(", ")}; give each with --env NAME=value`)
      const about = description === undefined ? "" : ` (${description})`
      env[String(name)] = await answer(`${name}${about}: `, secret === true)
    }
    if (missing.length > 0) plan = await runTool(place, "mcp_install", { ...wanted, env, dryRun: true })
    if (args.yes !== true) {
      if (!canAsk()) throw usage(`add --yes to let svc run this: ${plan.command}`)
      if (!(await agrees(`install ${plan.serverName} from ${plan.source} and let svc run\n  ${plan.command}\n?`)))
        return 0
    }
    say(`starting ${plan.serverName} …`)
    return show(args, await runTool(place, "mcp_install", { ...wanted, env }))
  },
}

export const uninstall: CommandDef = {
  meta: { name: "uninstall", description: "Stop a server and take it out of the file; a backup is kept" },
  args: { name: { type: "positional", required: true, description: "The server's name" }, ...PLACE_ARGS, yes: YES },
  async run({ args }) {
    if (args.yes !== true) {
      if (!canAsk()) throw usage("add --yes to uninstall without being asked")
      if (!(await agrees(`uninstall ${args.name}?`))) return 0
    }
    const done = await runTool(placeOf(args), "mcp_uninstall", { serverName: args.name })
    warn(done)
    print(args.json === true, done, () => `uninstalled ${done.serverName}; the file before: ${done.backup}`)
    return 0
  },
}

// ---

/** The flags that were given, under their arguments' names. */
function pick(args: Readonly<Record<string, unknown>>, names: Readonly<Record<string, string>>): Params {
  return Object.fromEntries(
    Object.entries(names).flatMap(([flag, name]) => (typeof args[flag] === "string" ? [[name, args[flag]]] : [])),
  )
}

const sayMissing = ({ name, description }: Params): string =>
  description === undefined ? String(name) : `${name} (${description})`

function warn({ warnings }: Params): void {
  for (const warning of Array.isArray(warnings) ? warnings : []) say(`warning: ${warning}`)
}

function show(args: Readonly<Record<string, unknown>>, data: Params): number {
  warn(data)
  print(args.json === true, data, () => {
    if (data.installed !== true) {
      const missing = Array.isArray(data.missing) ? data.missing.filter(isObject).map(sayMissing) : []
      return `would install ${data.serverName} from ${data.source}: ${data.command}${missing.length === 0 ? "" : `\nneeds ${missing.join(", ")}`}`
    }
    return `installed ${data.serverName}: ${data.status}${data.tools === undefined ? "" : `, ${data.tools} tools`}`
  })
  return 0
}
