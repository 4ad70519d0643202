/** Registry entries as tools show them, and whether one is installed. */
import * as z from "zod"
import { writtenServers } from "../config/edit.ts"
import type { RegistryEntry } from "../registry/entry.ts"
import { transportsOf, typesOf } from "../registry/registries.ts"
import { isObject, type Params } from "../wire/message.ts"

export const entrySchema = z.object({
  name: z.string().describe("The name that mcp_install and mcp_info take"),
  title: z.string().optional(),
  description: z.string(),
  version: z.string(),
  registry: z.string(),
  types: z.array(z.string()).describe("How it can be run: npm, pypi, oci … or remote"),
  transports: z.array(z.string()),
  status: z.string().describe("active, deprecated or deleted"),
  installed: z.boolean(),
  installedAs: z.array(z.string()).describe("The names of servers that are this one already"),
  repository: z.string().optional(),
  websiteUrl: z.string().optional(),
  publishedAt: z.string().optional(),
  updatedAt: z.string().optional(),
})

/** An entry in an answer; `config` is the text of mcp.json. */
export function showEntry(entry: RegistryEntry, config: string): z.infer<typeof entrySchema> {
  const { name, title, description, version, registry, status, repository, websiteUrl, publishedAt, updatedAt } = entry
  const installedAs = installedAsOf(entry, config)
  return {
    name,
    ...(title === undefined ? {} : { title }),
    description,
    version,
    registry,
    types: [...typesOf(entry)],
    transports: [...transportsOf(entry)],
    status,
    installed: installedAs.length > 0,
    installedAs,
    ...(repository === undefined ? {} : { repository }),
    ...(websiteUrl === undefined ? {} : { websiteUrl }),
    ...(publishedAt === undefined ? {} : { publishedAt }),
    ...(updatedAt === undefined ? {} : { updatedAt }),
  }
}

/** The servers that were installed from an entry, or that run its package or remote. */
export function installedAsOf(entry: RegistryEntry, config: string): string[] {
  const packages = entry.packages.map(({ identifier }) => identifier)
  const urls = entry.remotes.flatMap(({ url }) => url ?? [])
  const runs = (server: Params): boolean =>
    originOf(server)?.name === entry.name ||
    (typeof server.url === "string" && urls.includes(server.url)) ||
    (Array.isArray(server.args) && server.args.some((arg) => packages.some((name) => isPackage(String(arg), name))))
  return [...writtenServers(config)].flatMap(([name, { server }]) => (runs(server) ? [name] : []))
}

/** Where a server says that it was installed from. */
export function originOf({ installedFrom }: Params):
  | {
      readonly registry: string
      readonly name: string
      readonly version: string
      readonly type?: string
      readonly package?: string
      /** What was given for a bundle, as it stands in mcp.json. */
      readonly values?: Readonly<Record<string, string>>
    }
  | undefined {
  if (!isObject(installedFrom)) return undefined
  const { registry, name, version, type, package: spec, values } = installedFrom
  if (typeof registry !== "string" || typeof name !== "string" || typeof version !== "string") return undefined
  return {
    registry,
    name,
    version,
    ...(typeof type === "string" ? { type } : {}),
    ...(typeof spec === "string" ? { package: spec } : {}),
    ...(isObject(values)
      ? { values: Object.fromEntries(Object.entries(values).map(([key, value]) => [key, String(value)])) }
      : {}),
  }
}

// ---

/** Whether an argument names a package, with a version or without. */
const isPackage = (arg: string, name: string): boolean =>
  arg === name || arg.startsWith(`${name}@`) || arg.startsWith(`${name}==`)
