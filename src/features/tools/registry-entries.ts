/** Converts registry entries for answers, with the servers that are installed from them. */
import * as z from "zod"
import { writtenServers } from "../../config/edit.ts"
import { isObject, type Params } from "../../wire/message.ts"
import type { RegistryEntry } from "../registry/entry.ts"
import { transportsOf, typesOf } from "../registry/registries.ts"
import type { Immutable } from "./tool.ts"

export const entrySchema = z.object({
  name: z.string().describe("The name that mcp_install and mcp_info take"),
  title: z.string().optional(),
  description: z.string(),
  version: z.string(),
  registry: z.string(),
  types: z.array(z.string()).describe("The ways to run it: npm, pypi, oci, mcpb, remote …"),
  transports: z.array(z.string()),
  status: z.string().describe("active, deprecated or deleted"),
  statusMessage: z.string().optional().describe("Why it is not active, and perhaps what replaces it"),
  installed: z.boolean(),
  installedAs: z.array(z.string()).describe("The names of servers that are installed from it"),
  repository: z.string().optional(),
  websiteUrl: z.string().optional(),
  publishedAt: z.string().optional(),
  updatedAt: z.string().optional(),
})

/** Returns an entry for an answer; `config` is the text of mcp.json. */
export function showEntry(entry: RegistryEntry, config: string): Immutable<z.infer<typeof entrySchema>> {
  const { name, title, description, version, registry, status, repository, websiteUrl, publishedAt, updatedAt } = entry
  const installedAs = installedAsOf(entry, config)
  return {
    name,
    title,
    description,
    version,
    registry,
    types: typesOf(entry),
    transports: transportsOf(entry),
    status,
    statusMessage: entry.statusMessage,
    installed: installedAs.length > 0,
    installedAs,
    repository,
    websiteUrl,
    publishedAt,
    updatedAt,
  }
}

/** Returns the servers that were installed from an entry, or that run its package or remote. */
function installedAsOf(entry: RegistryEntry, config: string): string[] {
  const packages = entry.packages.map(({ identifier }) => identifier)
  const urls = entry.remotes.flatMap(({ url }) => url ?? [])
  const runs = (server: Params): boolean =>
    originOf(server)?.name === entry.name ||
    (typeof server.url === "string" && urls.includes(server.url)) ||
    (Array.isArray(server.args) && server.args.some((arg) => packages.some((name) => isPackage(String(arg), name))))
  return [...writtenServers(config)].flatMap(([name, { server }]) => (runs(server) ? [name] : []))
}

/** The registry entry from which a server was installed. */
export type ServerOrigin = {
  readonly registry: string
  readonly name: string
  readonly version: string
  readonly type: string | undefined
  readonly package: string | undefined
  /** The given values of a bundle, in mcp.json's syntax. */
  readonly values: Readonly<Record<string, string>>
}

/** Reads `installedFrom` of a server. Undefined if it was not installed from a registry. */
export function originOf({ installedFrom }: Params): ServerOrigin | undefined {
  if (!isObject(installedFrom)) return undefined
  const { registry, name, version, type, package: spec, values } = installedFrom
  if (typeof registry !== "string" || typeof name !== "string" || typeof version !== "string") return undefined
  return {
    registry,
    name,
    version,
    type: typeof type === "string" ? type : undefined,
    package: typeof spec === "string" ? spec : undefined,
    values: Object.fromEntries(
      Object.entries(isObject(values) ? values : {}).map(([key, value]) => [key, String(value)]),
    ),
  }
}

// ---

/** Whether an argument names a package, with or without a version. */
const isPackage = (arg: string, name: string): boolean =>
  arg === name || arg.startsWith(`${name}@`) || arg.startsWith(`${name}==`)
