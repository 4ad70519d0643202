/** `mcp_info`: a server in detail, as it is installed and as a registry describes it. */
import * as z from "zod"
import { writtenServers } from "../config/edit.ts"
import { RequestError } from "../lib/errors.ts"
import { RegistryError } from "../registry/client.ts"
import type { RegistryEntry } from "../registry/entry.ts"
import { bundleOf, planInstall } from "../registry/install-plan.ts"
import type { RegistryResult } from "../registry/registries.ts"
import { commandText } from "./confirm.ts"
import { missingSchema, showWanted } from "./install-draft.ts"
import { entrySchema, originOf, showEntry } from "./registry-entries.ts"
import { serverDetailsSchema, serversOf, valueSchema, valuesOf } from "./servers.ts"
import { defineTool, READS, SERVER_NAME } from "./tool.ts"

export const mcpInfo = defineTool({
  name: "mcp_info",
  category: "discovery",
  title: "Show an MCP server in detail",
  description:
    "Shows a server in detail: where it is installed, its configuration (secrets hidden) and status; and from the registry its description, versions, what it would run, and which values it needs. Takes the name of an installed server or a name in a registry.",
  annotations: { ...READS, openWorldHint: true },
  input: z.object({
    serverName: SERVER_NAME.describe("The name of an installed server, or a name as mcp_search shows it"),
    version: z.string().min(1).optional().describe("A version in the registry (default latest)"),
  }),
  output: z.object({
    serverName: z.string(),
    installed: z.boolean(),
    server: serverDetailsSchema.optional().describe("The installed server of this name"),
    configuration: z.array(valueSchema).optional().describe("What it is started with and where each value comes from"),
    installedVersion: z.string().optional(),
    entry: entrySchema.optional().describe("What the registry says"),
    versions: z.array(z.string()).describe("Versions in the registry, where it has several"),
    command: z.string().optional().describe("What mcp_install would run or connect to"),
    required: z.array(missingSchema).describe("Values that must be given in env to install it"),
    optional: z.array(missingSchema).describe("Values that may be given"),
    warnings: z.array(z.string()),
  }),
  async run({ serverName, version }, context) {
    const { editor, registries, machine } = context
    const { config } = editor.read()
    const server = serversOf(context).find(({ name }) => name === serverName)
    const origin = originOf(writtenServers(config).get(serverName)?.server ?? {})
    const wanted = origin?.name ?? serverName
    const warnings: string[] = []
    let found: RegistryResult<RegistryEntry> | undefined
    if (server === undefined || origin !== undefined)
      try {
        found = await registries.find(wanted, version ?? "latest")
      } catch (error) {
        // What is installed is shown whether a registry answers or not.
        if (server === undefined || !(error instanceof RegistryError || error instanceof RequestError)) throw error
        warnings.push(error.message)
      }
    warnings.push(...(found?.warnings ?? []))
    const entry = found?.value
    const versions =
      entry === undefined
        ? []
        : await registries.versions(entry.name, entry.registry).then(
            ({ value }) => value,
            () => [],
          )
    const bundle = entry === undefined ? undefined : bundleOf(entry)
    if (bundle !== undefined)
      warnings.push(`it is the bundle ${bundle.identifier}: a dry run of its installation shows what it runs and needs`)
    const plan =
      entry === undefined || bundle !== undefined ? undefined : planInstall(entry, {}, undefined, machine.has)
    if (plan !== undefined && "reason" in plan) warnings.push(`svc cannot install it: ${plan.reason}`)
    const can = plan !== undefined && "server" in plan ? plan : undefined
    const described = entry === undefined ? undefined : showEntry(entry, config)
    const { installedAs = [] } = described ?? {}
    const { instances: _, ...shown } = server ?? { instances: [] }
    return {
      data: {
        serverName,
        installed: server !== undefined || installedAs.length > 0,
        ...(server === undefined
          ? {}
          : { server: shown as z.infer<typeof serverDetailsSchema>, configuration: valuesOf(context, serverName) }),
        ...(origin === undefined ? {} : { installedVersion: origin.version }),
        ...(described === undefined ? {} : { entry: described }),
        versions: versions.map((one) => one.version),
        ...(can === undefined ? {} : { command: commandText(can.server) }),
        required: (can?.missing ?? []).map(showWanted),
        optional: (can?.optional ?? []).map(showWanted),
        warnings,
      },
      text: [
        ...(server === undefined
          ? []
          : [`${serverName} is installed${origin === undefined ? "" : ` (${origin.version})`}: ${server.state}`]),
        ...(entry === undefined ? [] : [`${entry.name} ${entry.version} (${entry.registry}): ${entry.description}`]),
        ...(server === undefined && installedAs.length > 0 ? [`installed as ${installedAs.join(", ")}`] : []),
        ...(can === undefined || server !== undefined ? [] : [`would run: ${commandText(can.server)}`]),
      ].join("\n"),
    }
  },
})
