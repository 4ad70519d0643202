/** What an installation comes to before it is written: the server as it would stand in mcp.json, and what is still missing. */
import * as z from "zod"
import type { Bundle } from "../registry/bundle.ts"
import { isSensitive } from "../registry/bundle-manifest.ts"
import type { RegistryEntry } from "../registry/entry.ts"
import { deepSecrets, type InputValues, type Installable, type RequestedInput } from "../registry/install-plan.ts"
import { isObject, type Params } from "../wire/message.ts"
import { planEntry, sayBundle } from "./bundle.ts"
import {
  escapeReferences,
  isReference,
  literals,
  NO_SECRETS,
  placeholder,
  type SecretLocations,
} from "./externalize-secrets.ts"
import { type ToolContext, ToolError } from "./tool.ts"

export const missingSchema = z.object({
  name: z.string().describe("The name to give it under in env"),
  description: z.string().optional(),
  secret: z.boolean().describe("Ask the person for it; do not make it up"),
  choices: z.array(z.string()).optional(),
  default: z.string().optional(),
})

/** A wanted value in an answer. */
export const showWanted = ({ choices, ...wanted }: RequestedInput): z.infer<typeof missingSchema> => ({
  ...wanted,
  ...(choices === undefined ? {} : { choices: [...choices] }),
})

export type InstallDraft = {
  /** In mcp.json. */
  readonly name: string
  readonly server: Params
  readonly secrets: SecretLocations
  readonly missing: readonly RequestedInput[]
  readonly optional: readonly RequestedInput[]
  /** Where it comes from, in words. */
  readonly source: string
  readonly version?: string
  readonly warnings: readonly string[]
  readonly bundle?: Bundle
}

/** A server from a registry's entry. `given` is its own name where it is not to be the entry's. Throws a ToolError. */
export function draftEntry(
  context: Pick<ToolContext, "editor" | "machine">,
  entry: RegistryEntry,
  given: string | undefined,
  {
    env = {},
    bundle,
  }: { readonly env?: Readonly<Record<string, string>> | undefined; readonly bundle?: Bundle | undefined },
): InstallDraft {
  const name = given ?? shortName(entry.name)
  const { values, hidden } = withPlaceholders(entry, env, bundle)
  const plan = planEntry(context, name, entry, { values, bundle })
  if ("reason" in plan) throw new ToolError("invalid_argument", `${entry.name} cannot be installed: ${plan.reason}`)
  const { server, secret, missing, optional } = plan
  const unused = Object.keys(values).filter(
    (name) =>
      ![server.env, server.headers].some((section) => isObject(section) && Object.hasOwn(section, name)) &&
      !declares(entry, name) &&
      !Object.hasOwn(bundle?.manifest.user_config ?? {}, name),
  )
  // A value that its entry does not declare is given to a command all the same: entries are often incomplete.
  const extra = Object.fromEntries(unused.map((name) => [name, values[name] ?? ""]))
  const whole =
    unused.length === 0 || plan.type === "remote"
      ? server
      : { ...server, env: { ...(isObject(server.env) ? server.env : {}), ...extra } }
  return {
    name,
    server: { ...whole, installedFrom: originFor(entry, plan, bundle === undefined ? {} : values) },
    secrets: { names: secret, hidden },
    missing,
    optional,
    source: `${entry.name} ${entry.version} in the registry ${registryLabel(entry)}${bundle === undefined ? "" : `, ${sayBundle(bundle)}`}`,
    version: entry.version,
    warnings: [
      ...registryStatus(entry),
      ...(unused.length === 0 ? [] : [`its registry entry knows no ${unused.join(", ")}`]),
    ],
    ...(bundle === undefined ? {} : { bundle }),
  }
}

/** What mcp.json says of where a server came from. `values` are kept where a later version cannot find them in its arguments. */
export const originFor = (entry: RegistryEntry, plan: Installable, values: InputValues): Params => ({
  registry: entry.registry,
  name: entry.name,
  version: entry.version,
  type: plan.type,
  ...(plan.package === undefined ? {} : { package: plan.package }),
  ...(Object.keys(values).length === 0 ? {} : { values }),
})

/** The registry that an entry is of, and what that thinks of it, for a question. */
export const registryLabel = ({ registry, status }: RegistryEntry): string =>
  status === "active" ? registry : `${registry} (where it is ${status})`

/** The same as a warning, where there is need of one. */
export const registryStatus = ({ name, status }: RegistryEntry): readonly string[] =>
  status === "active" ? [] : [`${name} is ${status} in its registry`]

/** The values for a plan, in mcp.json's syntax: those that are secret where no name says so as placeholders. */
export function withPlaceholders(
  entry: RegistryEntry,
  env: Readonly<Record<string, string>>,
  bundle?: Bundle,
): { readonly values: InputValues; readonly hidden: Readonly<Record<string, string>> } {
  const deep = deepSecrets(entry)
  const isSecret = (name: string): boolean =>
    deep.has(name) || (bundle !== undefined && isSecretOf(name, entry, bundle))
  const hidden = Object.fromEntries(
    Object.entries(env).filter(([name, value]) => isSecret(name) && !isReference(value)),
  )
  const values = Object.fromEntries(
    Object.entries(env).map(([name, value]) => [name, name in hidden ? placeholder(name) : escapeReferences(value)]),
  )
  return { values, hidden }
}

/** What a server is called that a registry calls `io.github.someone/something`. */
export const shortName = (name: string): string =>
  (name.split("/").at(-1) ?? name).replace(/[^A-Za-z0-9._-]/g, "-").replaceAll("_svc_", "-")

/** What a caller gives of a server that no registry knows. */
export type CustomServer = {
  readonly command?: string | undefined
  readonly args?: readonly string[] | undefined
  readonly url?: string | undefined
  readonly package?: string | undefined
  readonly version?: string | undefined
  readonly env?: Readonly<Record<string, string>> | undefined
}

/** A server from a command, an address or a package. Throws a ToolError where it is not exactly one of them. */
export function draftCustom(name: string, custom: CustomServer): InstallDraft {
  const { command, args = [], url, package: from, version, env = {} } = custom
  if ([command, url, from].filter((one) => one !== undefined).length !== 1)
    throw new ToolError("invalid_argument", "Give one of command, url and package, or none to install from a registry")
  const values = literals(env)
  const withEnv = Object.keys(values).length > 0 ? { env: values } : {}
  const base = { name, secrets: NO_SECRETS, missing: [], optional: [], warnings: [] }
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

/** What is given for a bundle is kept under its name alone, so that names must say what is secret. */
const isSecretOf = (name: string, { packages }: RegistryEntry, { manifest }: Bundle): boolean =>
  isSensitive(manifest, name) ||
  packages.some(({ environmentVariables }) => environmentVariables.some((one) => one.name === name && one.isSecret))

/** Whether an entry asks for a value under this name anywhere. */
const declares = (entry: RegistryEntry, name: string): boolean => JSON.stringify(entry).includes(JSON.stringify(name))

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
