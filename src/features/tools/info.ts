/** `mcp_info`: shows a server in detail, as installed and as a registry describes it. */
import * as z from "zod"
import { writtenServers } from "../../config/edit.ts"
import { commandText } from "../../config/server-text.ts"
import { RequestError } from "../../lib/errors.ts"
import { RegistryError } from "../registry/client.ts"
import type { RegistryEntry } from "../registry/entry.ts"
import { bundleOf, type Installable, planInstall } from "../registry/install-plan.ts"
import { missingSchema, registryStatus } from "./install-draft.ts"
import { entrySchema, originOf, type ServerOrigin, showEntry } from "./registry-entries.ts"
import { type ServerDetails, serverDetailsSchema, serversOf, valueSchema, valuesOf } from "./servers.ts"
import { defineTool, READS, SERVER_NAME, type ToolContext } from "./tool.ts"

export const mcpInfo = defineTool({
  name: "mcp_info",
  category: "discovery",
  title: "Show an MCP server in detail",
  description:
    "Shows a server in detail: for an installed server, its configuration (secrets hidden) and status; for a server in a registry, its description, its versions, the command that installing it would run, and the values that it needs. Takes the name of an installed server or a name in a registry.",
  annotations: { ...READS, openWorldHint: true },
  input: z.object({
    serverName: SERVER_NAME.describe("The name of an installed server, or a name as mcp_search shows it"),
    version: z.string().min(1).optional().describe("A version in the registry (default latest)"),
  }),
  output: z.object({
    serverName: z.string(),
    installed: z.boolean(),
    server: serverDetailsSchema.optional().describe("The installed server of this name"),
    configuration: z
      .array(valueSchema)
      .optional()
      .describe("Its effective configuration, and where each value comes from"),
    installedVersion: z.string().optional(),
    entry: entrySchema.optional().describe("The registry's entry"),
    versions: z.array(z.string()).describe("The versions in the registry, if it has several"),
    command: z
      .string()
      .optional()
      .describe("The command that mcp_install would run, or the URL that it would connect to"),
    required: z.array(missingSchema).describe("Values that must be given in env to install it"),
    optional: z.array(missingSchema).describe("Values that may be given"),
    warnings: z.array(z.string()),
  }),
  async run({ serverName, version }, context) {
    const { config } = context.editor.read()
    const server = serversOf(context).find(({ name }) => name === serverName)
    const origin = originOf(writtenServers(config).get(serverName)?.server ?? {})
    const { entry, versions, warnings: notes } = await lookUp(context, serverName, { server, origin, version })
    const { plan, warnings } = planOf(context, entry)
    const described = entry === undefined ? undefined : showEntry(entry, config)
    const { instances: _, ...shown } = server ?? { instances: [] }
    const command = plan === undefined ? undefined : commandText(plan.server)
    return {
      data: {
        serverName,
        installed: server !== undefined || described?.installed === true,
        server: server === undefined ? undefined : (shown as Omit<ServerDetails, "instances">),
        configuration: server === undefined ? undefined : valuesOf(context, serverName),
        installedVersion: origin?.version,
        entry: described,
        versions,
        command,
        required: plan?.missing ?? [],
        optional: plan?.optional ?? [],
        warnings: [...notes, ...warnings],
      },
      text: summaryOf(serverName, { server, origin, entry, installedAs: described?.installedAs ?? [], command }),
    }
  },
})

// ---

type Found = {
  readonly entry: RegistryEntry | undefined
  readonly versions: readonly string[]
  readonly warnings: readonly string[]
}

/** Looks up a server in the registries, unless it was installed from another source. */
async function lookUp(
  { registries }: ToolContext,
  name: string,
  {
    server,
    origin,
    version = "latest",
  }: {
    readonly server: ServerDetails | undefined
    readonly origin: ServerOrigin | undefined
    readonly version: string | undefined
  },
): Promise<Found> {
  if (server !== undefined && origin === undefined) return { entry: undefined, versions: [], warnings: [] }
  try {
    // An installed server is compared with its registry, not with a list that may be older.
    const { value: entry, warnings } =
      server === undefined
        ? await registries.findOrKnown(name, version)
        : await registries.find(origin?.name ?? name, version)
    const versions = await registries.versions(entry.name, entry.registry).then(
      ({ value }) => value.map((one) => one.version),
      () => [],
    )
    return { entry, versions, warnings: [...warnings, ...registryStatus(entry)] }
  } catch (error) {
    // Shows an installed server even if no registry answers.
    if (server === undefined || !(error instanceof RegistryError || error instanceof RequestError)) throw error
    return { entry: undefined, versions: [], warnings: [error.message] }
  }
}

/** Plans the installation of an entry, as far as possible without a download. */
function planOf(
  { machine }: ToolContext,
  entry: RegistryEntry | undefined,
): { readonly plan: Installable | undefined; readonly warnings: readonly string[] } {
  if (entry === undefined) return { plan: undefined, warnings: [] }
  const bundle = bundleOf(entry)
  if (bundle !== undefined) {
    const warning = `it is the bundle ${bundle.identifier}; a dry run of its installation shows what it runs and needs`
    return { plan: undefined, warnings: [warning] }
  }
  const plan = planInstall(entry, {}, undefined, machine.has)
  if ("reason" in plan) return { plan: undefined, warnings: [`svc cannot install it: ${plan.reason}`] }
  return { plan, warnings: [] }
}

function summaryOf(
  name: string,
  {
    server,
    origin,
    entry,
    installedAs,
    command,
  }: {
    readonly server: ServerDetails | undefined
    readonly origin: ServerOrigin | undefined
    readonly entry: RegistryEntry | undefined
    readonly installedAs: readonly string[]
    readonly command: string | undefined
  },
): string {
  const lines: string[] = []
  if (server !== undefined)
    lines.push(`${name} is installed${origin === undefined ? "" : ` (${origin.version})`}: ${server.state}`)
  if (entry !== undefined) lines.push(`${entry.name} ${entry.version} (${entry.registry}): ${entry.description}`)
  if (server === undefined && installedAs.length > 0) lines.push(`installed as ${installedAs.join(", ")}`)
  if (server === undefined && command !== undefined) lines.push(`would run: ${command}`)
  return lines.join("\n")
}
