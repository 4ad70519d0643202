/** Drafts an installation: the server as mcp.json would contain it, and the missing values. Writes nothing. */
import * as z from "zod"
import {
  escapeReferences,
  isReference,
  literals,
  NO_SECRETS,
  placeholder,
  type SecretLocations,
} from "../../config/externalize-secrets.ts"
import { quoted, quotedAddress } from "../../config/server-text.ts"
import { compact } from "../../lib/json.ts"
import { isObject, type Params } from "../../wire/message.ts"
import type { Bundle } from "../registry/bundle.ts"
import { isSensitive } from "../registry/bundle-manifest.ts"
import type { RegistryEntry } from "../registry/entry.ts"
import { deepSecrets, type InputValues, type Installable, type RequestedInput } from "../registry/install-plan.ts"
import { runnerOfType } from "../registry/package-runner.ts"
import { bundleText, planEntry } from "./bundle.ts"
import { type FoundServer, planFound } from "./find-endpoint.ts"
import { type ToolContext, ToolError } from "./tool.ts"

export const missingSchema = z.object({
  name: z.string().describe("The name of the value in env"),
  description: z.string().optional(),
  secret: z.boolean().describe("Whether it is a secret; ask the person for it, and do not invent it"),
  choices: z.array(z.string()).optional(),
  default: z.string().optional(),
})

export type InstallDraft = {
  /** The server's name in mcp.json. */
  readonly name: string
  readonly server: Params
  readonly secrets: SecretLocations
  readonly missing: readonly RequestedInput[]
  readonly optional: readonly RequestedInput[]
  /** The source of the server, in words. */
  readonly source: string
  readonly version: string | undefined
  readonly warnings: readonly string[]
  readonly bundle: Bundle | undefined
}

/**
 * Drafts a server from a registry's entry. `name`: its name in mcp.json, by default the short form of the entry's. Throws a
 * ToolError if the entry cannot be installed.
 */
export function draftEntry(
  context: Pick<ToolContext, "editor" | "machine">,
  entry: RegistryEntry,
  {
    name = shortName(entry.name),
    env = {},
    bundle,
  }: {
    readonly name?: string | undefined
    readonly env?: Readonly<Record<string, string>> | undefined
    readonly bundle?: Bundle | undefined
  },
): InstallDraft {
  const { values, hidden } = withPlaceholders(entry, env, bundle)
  const plan = planEntry(context, name, entry, { values, bundle })
  if ("reason" in plan) throw new ToolError("invalid_argument", `${entry.name} cannot be installed: ${plan.reason}`)
  const unused = unusedNames(entry, plan.server, values, bundle)
  const from = bundle === undefined ? "" : `, ${bundleText(bundle)}`
  return {
    name,
    server: {
      ...withUnused(plan, unused, values),
      installedFrom: originFor(entry, plan, bundle === undefined ? {} : values),
    },
    secrets: { names: plan.secret, hidden },
    missing: plan.missing,
    optional: plan.optional,
    source: `${quoted(entry.name)} ${quoted(entry.version)} in the registry ${registryLabel(entry)}${from}`,
    version: entry.version,
    warnings: [
      ...registryStatus(entry),
      ...(unused.length === 0 ? [] : [`its registry entry does not declare ${unused.join(", ")}`]),
    ],
    bundle,
  }
}

/** Returns `installedFrom` of a server. `values`: the values that an update cannot find in the server itself. */
export const originFor = (entry: RegistryEntry, plan: Installable, values: InputValues): Params =>
  compact({
    registry: entry.registry,
    name: entry.name,
    version: entry.version,
    type: plan.type,
    package: plan.package,
    values: Object.keys(values).length === 0 ? undefined : values,
  })

/** Returns an entry's registry, and the entry's status there unless it is active, for a question. */
export const registryLabel = ({ registry, status }: RegistryEntry): string =>
  status === "active" ? registry : `${registry} (where it is ${status})`

/** Returns a warning about an entry that is not active, with the registry's reason. */
export const registryStatus = ({ name, status, statusMessage = "" }: RegistryEntry): readonly string[] =>
  status === "active" ? [] : [`${name} is ${status} in its registry${statusMessage === "" ? "" : `: ${statusMessage}`}`]

/**
 * Returns given values in mcp.json's syntax. `hidden`: the values that the entry declares secret and that become part of other
 * texts, where no name marks them as secret; `values` has placeholders for them.
 */
export function withPlaceholders(
  entry: RegistryEntry,
  env: Readonly<Record<string, string>>,
  bundle: Bundle | undefined,
): { readonly values: InputValues; readonly hidden: Readonly<Record<string, string>> } {
  const deep = deepSecrets(entry)
  const isSecret = (name: string): boolean =>
    deep.has(name) || (bundle !== undefined && isBundleSecret(name, entry, bundle))
  const hidden = Object.fromEntries(
    Object.entries(env).filter(([name, value]) => isSecret(name) && !isReference(value)),
  )
  const values = Object.fromEntries(
    Object.entries(env).map(([name, value]) => [name, name in hidden ? placeholder(name) : escapeReferences(value)]),
  )
  return { values, hidden }
}

/** Drafts a server that was found by its card. Throws a RequestError for an endpoint to which svc must not connect. */
export function draftFound(name: string, found: FoundServer, env: Readonly<Record<string, string>> = {}): InstallDraft {
  const { card, from } = found
  const { values, hidden } = withPlaceholders(card, env, undefined)
  const plan = planFound(found, values)
  const unused = unusedNames(card, plan.server, values, undefined)
  return {
    name,
    server: plan.server,
    secrets: { names: plan.secret, hidden },
    missing: plan.missing,
    optional: plan.optional,
    source: `the server card ${quoted(card.name)} at ${quotedAddress(from)}`,
    version: card.version,
    warnings: unused.length === 0 ? [] : [`its server card does not declare ${unused.join(", ")}`],
    bundle: undefined,
  }
}

/** A server that no registry describes. */
export type CustomServer = {
  readonly command?: string | undefined
  readonly args?: readonly string[] | undefined
  readonly url?: string | undefined
  readonly package?: string | undefined
  readonly version?: string | undefined
  readonly env?: Readonly<Record<string, string>> | undefined
}

/** Drafts a server from a command, an address or a package. Throws a ToolError unless exactly one of them is given. */
export function draftCustom(name: string, custom: CustomServer): InstallDraft {
  const { command, args = [], url, package: spec, version, env = {} } = custom
  if ([command, url, spec].filter((one) => one !== undefined).length !== 1)
    throw new ToolError(
      "invalid_argument",
      "Give one of command, url and package, not several, or none to install from a registry",
    )
  const hasUnusedVersion = spec === undefined && version !== undefined && version !== "latest"
  const draft = (server: Params, source: string, known?: string): InstallDraft => ({
    name,
    server,
    secrets: NO_SECRETS,
    missing: [],
    optional: [],
    source,
    version: known,
    warnings: hasUnusedVersion ? ["version has no effect on a command or a url"] : [],
    bundle: undefined,
  })
  if (url !== undefined) {
    if (args.length > 0 || Object.keys(env).length > 0)
      throw new ToolError("invalid_argument", "args and env do not apply to a url; give headers in config")
    return draft({ url }, quotedAddress(url))
  }
  const values = Object.keys(env).length > 0 ? literals(env) : undefined
  if (command !== undefined)
    return draft(compact({ command, args: args.length > 0 ? [...args] : undefined, env: values }), "a command")
  const runner = packageCommand(spec ?? "", version, Object.keys(env))
  return draft(compact({ command: runner.command, args: [...runner.args, ...args], env: values }), spec ?? "", version)
}

// ---

/** Returns the server name for a registry's `io.github.someone/something`. */
const shortName = (name: string): string =>
  (name.split("/").at(-1) ?? name)
    .replace(/[^A-Za-z0-9._-]/g, "-")
    .replaceAll("_svc_", "-")
    .replace(/^svc_|_svc$/g, (part) => part.replace("_", "-"))

/** Returns the names of given values that an entry does not declare. */
const unusedNames = (
  entry: RegistryEntry,
  { env, headers }: Params,
  values: InputValues,
  bundle: Bundle | undefined,
): readonly string[] =>
  Object.keys(values).filter(
    (name) =>
      ![env, headers].some((section) => isObject(section) && Object.hasOwn(section, name)) &&
      !declares(entry, name) &&
      !Object.hasOwn(bundle?.manifest.user_config ?? {}, name),
  )

/** Also passes values that the entry does not declare to a command, because entries are often incomplete. */
function withUnused({ server, type }: Installable, unused: readonly string[], values: InputValues): Params {
  if (unused.length === 0 || type === "remote") return server
  const extra = Object.fromEntries(unused.map((name) => [name, values[name] ?? ""]))
  return { ...server, env: { ...(isObject(server.env) ? server.env : {}), ...extra } }
}

/** Whether a bundle's value is secret. mcp.json has only its name, which need not look secret. */
const isBundleSecret = (name: string, { packages }: RegistryEntry, { manifest }: Bundle): boolean =>
  isSensitive(manifest, name) ||
  packages.some(({ environmentVariables }) => environmentVariables.some((one) => one.name === name && one.isSecret))

/** Whether an entry declares a value of this name anywhere. */
const declares = (entry: RegistryEntry, name: string): boolean => JSON.stringify(entry).includes(JSON.stringify(name))

/** Returns the command that runs a package, by default of npm, with its arguments. `names`: the variables that it receives. */
function packageCommand(
  text: string,
  version: string | undefined,
  names: readonly string[],
): { readonly command: string; readonly args: readonly string[] } {
  const [, type = "npm", name = ""] = /^(?:(npm|pypi|oci):)?(.+)$/.exec(text) ?? []
  const pinned = version === undefined || version === "latest" ? "" : version
  const runner = runnerOfType(type)
  if (runner === undefined || !/^[@A-Za-z0-9][\w@./:+=~-]*$/.test(name) || !/^[\w.+~^*-]*$/.test(pinned))
    throw new ToolError("invalid_argument", "package must be the name of an npm package, or pypi:NAME or oci:IMAGE")
  return { command: runner.command, args: runner.args([], runner.spec(name, pinned, undefined), names) }
}
