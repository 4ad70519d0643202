/** What an installation comes to before it is written: the server as it would stand in mcp.json, and what is still missing. */
import type { Params } from "../wire/message.ts"
import { isObject } from "../wire/message.ts"
import { literal } from "./shelter.ts"
import { ToolError } from "./tool.ts"

/** A value that only the person can give. */
export type Missing = {
  readonly name: string
  readonly description?: string
  readonly secret: boolean
  readonly choices?: readonly string[]
}

export type Draft = {
  /** In mcp.json. */
  readonly name: string
  readonly server: Params
  /** Names in `env` and `headers` that are secret though they do not look so. */
  readonly secret: ReadonlySet<string>
  readonly missing: readonly Missing[]
  /** Where it comes from, in words. */
  readonly source: string
  readonly version?: string
  readonly warnings: readonly string[]
}

/** What a caller gives of a server that no registry knows. */
export type Custom = {
  readonly command?: string | undefined
  readonly args?: readonly string[] | undefined
  readonly url?: string | undefined
  readonly package?: string | undefined
  readonly version?: string | undefined
  readonly env?: Readonly<Record<string, string>> | undefined
}

/** A server from a command, an address or a package. Throws a ToolError where it is not exactly one of them. */
export function draftCustom(name: string, custom: Custom): Draft {
  const { command, args = [], url, package: from, version, env = {} } = custom
  if ([command, url, from].filter((one) => one !== undefined).length !== 1)
    throw new ToolError("invalid_argument", "Give one of command, url and package, or none to install from a registry")
  const values = Object.fromEntries(Object.entries(env).map(([key, value]) => [key, literal(value)]))
  const withEnv = Object.keys(values).length > 0 ? { env: values } : {}
  const base = { name, secret: new Set<string>(), missing: [], warnings: [] }
  if (url !== undefined) {
    if (args.length > 0 || Object.keys(env).length > 0)
      throw new ToolError("invalid_argument", "A url has no args and no env; put headers into config")
    return { ...base, server: { url }, source: url }
  }
  if (command !== undefined)
    return {
      ...base,
      server: { command, ...(args.length > 0 ? { args: [...args] } : {}), ...withEnv },
      source: "a command",
    }
  const run = runnerOf(from ?? "", version)
  return {
    ...base,
    server: { command: run.command, args: [...run.args, ...args], ...withEnv },
    source: from ?? "",
    ...(version === undefined ? {} : { version }),
  }
}

/** A JSON merge patch (RFC 7396) on an object. */
export function merged(target: Params, patch: Params): Params {
  const result: Record<string, unknown> = { ...target }
  for (const [key, value] of Object.entries(patch)) {
    const old = result[key]
    if (value === null) delete result[key]
    else result[key] = isObject(value) ? merged(isObject(old) ? old : {}, value) : value
  }
  return result
}

// ---

/** How a package is run: npm's where nothing else is said. */
function runnerOf(text: string, version: string | undefined): { command: string; args: readonly string[] } {
  const [, kind = "npm", name = ""] = /^(?:(npm|pypi|oci):)?(.+)$/.exec(text) ?? []
  const pinned = version === undefined || version === "latest" ? undefined : version
  if (!/^[@A-Za-z0-9][\w@./:+=~-]*$/.test(name) || (pinned !== undefined && !/^[\w.+~^*-]+$/.test(pinned)))
    throw new ToolError("invalid_argument", "package must be a package's name: npm's, or with pypi: or oci: before it")
  switch (kind) {
    case "pypi":
      return { command: "uvx", args: [pinned === undefined ? name : `${name}==${pinned}`] }
    case "oci":
      return { command: "docker", args: ["run", "-i", "--rm", pinned === undefined ? name : `${name}:${pinned}`] }
    default:
      return { command: "npx", args: ["-y", pinned === undefined ? name : `${name}@${pinned}`] }
  }
}
