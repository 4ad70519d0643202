/**
 * `mcp_update`: installs another version of a server that came from a registry. The server must connect; otherwise restores the
 * previous state, with the old version running.
 */
import * as z from "zod"
import { writtenServers } from "../../config/edit.ts"
import { writtenValues } from "../../config/written-values.ts"
import { RequestError } from "../../lib/errors.ts"
import type { WrittenDocuments } from "../../store/transaction.ts"
import type { Params } from "../../wire/message.ts"
import { RegistryError } from "../registry/client.ts"
import type { RegistryEntry } from "../registry/entry.ts"
import { applyInstallation, reloadSchema } from "./apply-change.ts"
import { bundleText, openBundle } from "./bundle.ts"
import { confirm } from "./consent.ts"
import { type Audience, audienceOf, commandFor, inheritedText } from "./consent-text.ts"
import { missingSchema, registryStatus } from "./install-draft.ts"
import { digestFor, requireAgreed, resolveServerName } from "./plan-change.ts"
import type { ServerOrigin } from "./registry-entries.ts"
import { changeSchema, changesOf, statusWord } from "./servers.ts"
import { defineTool, SERVER_NAME, type ToolContext, ToolError } from "./tool.ts"
import { planUpdate, updatableOrigin } from "./update-plan.ts"

export const mcpUpdate = defineTool({
  name: "mcp_update",
  category: "installation",
  title: "Update an MCP server",
  description:
    "Updates a server that was installed from a registry, to its latest version or to a given one, and reports what changes. The server keeps its other settings. A person must approve the new command. If the new version does not connect, svc restores the old one. With dryRun, nothing changes.",
  annotations: { readOnlyHint: false, destructiveHint: true, idempotentHint: true, openWorldHint: true },
  input: z.object({
    serverName: SERVER_NAME,
    version: z.string().min(1).default("latest").describe("A version, or latest"),
    env: z.record(z.string(), z.string()).default({}).describe("Values that the new version needs, by name"),
    dryRun: z.boolean().default(false).describe("Only show what would change"),
  }),
  output: z.object({
    serverName: z.string(),
    updated: z.boolean(),
    from: z.string().describe("The version before the update"),
    to: z.string().describe("The version after the update"),
    changes: z.array(changeSchema).describe("The settings that change, with secrets hidden"),
    command: z.string(),
    inherited: z.string().optional().describe("What serverDefaults adds to the command's environment or headers"),
    bundle: z.string().optional().describe("The bundle from which it is installed, with its hash"),
    missing: z.array(missingSchema).describe("Required values that were not given"),
    status: z.string().optional().describe("The server's status, as mcp_status shows it"),
    state: z.string().optional().describe("The status in more detail, as mcp_status shows it"),
    tools: z.number().optional(),
    reload: reloadSchema.optional(),
    warnings: z.array(z.string()),
  }),
  async run({ serverName, version, env, dryRun }, context) {
    const documents = context.editor.read()
    const name = resolveServerName(documents.config, serverName)
    const { server, section } = writtenServers(documents.config).get(name) ?? { server: {}, section: "" }
    const origin = updatableOrigin(name, section, server)
    const { entry, source, warnings: notes } = await findEntry(context, name, origin, version)
    if (entry.version === origin.version && Object.keys(env).length === 0)
      return upToDate(audienceOf(context), { name, version: entry.version, server, documents, warnings: notes })
    const bundle = await openBundle(context, entry, origin.type)
    const installed = await findInstalled(context, origin, source)
    const plan = planUpdate(context, { name, origin, documents, entry, installed, bundle, env })
    const { from, to, missing, command, inherited } = plan
    const warnings = [...notes, ...plan.warnings]
    const about = {
      serverName: name,
      digest: digestFor(context, plan.digest),
      from,
      to,
      bundle: bundle === undefined ? undefined : bundleText(bundle),
      command,
      inherited,
    }
    if (missing.length > 0 && !dryRun)
      throw new ToolError(
        "invalid_argument",
        `Version ${to} of ${name} needs ${missing.map((one) => one.name).join(", ")}; ask the person, and give the values in env`,
        { data: { ...about, updated: false, changes: [], missing, warnings: [] } },
      )
    const changes = missing.length > 0 ? [] : changesOf(context, [name, documents], [name, plan.change(documents)])
    if (dryRun)
      return {
        data: { ...about, updated: false, changes, missing, warnings },
        text: `would update ${name} from ${from} to ${to}: ${command}`,
      }
    requireAgreed(context, plan.digest)
    await confirm(context, ["installs"], plan.question)
    const { status, state, tools, reload, ...result } = await applyInstallation(context, plan)
    return {
      data: {
        ...about,
        updated: true,
        changes,
        missing: [],
        status,
        state,
        tools,
        reload,
        warnings: [...warnings, ...result.warnings],
      },
      text: `updated ${name} from ${from} to ${to}: ${statusWord({ status, state })}`,
    }
  },
})

// ---

/** The registry entry of the new version. `source`: the name of its registry; undefined if that is not configured. */
type FoundEntry = {
  readonly entry: RegistryEntry
  readonly source: string | undefined
  readonly warnings: readonly string[]
}

async function findEntry(
  { registries }: ToolContext,
  name: string,
  origin: ServerOrigin,
  version: string,
): Promise<FoundEntry> {
  const source = registries.sources().find((one) => one.name === origin.registry)?.name
  const { value: entry, warnings } = await registries.find(origin.name, version, source)
  // In another registry, the name may belong to another publisher.
  const moved =
    source === undefined
      ? [
          `the registry ${origin.registry}, from which ${name} was installed, is not configured; this is the entry of ${entry.registry}`,
        ]
      : []
  return { entry, source, warnings: [...warnings, ...registryStatus(entry), ...moved] }
}

/** Returns the entry of the installed version, unless its registry no longer has it. */
async function findInstalled(
  { registries }: ToolContext,
  origin: ServerOrigin,
  source: string | undefined,
): Promise<RegistryEntry | undefined> {
  try {
    return (await registries.find(origin.name, origin.version, source)).value
  } catch (error) {
    if (error instanceof RegistryError || error instanceof RequestError) return undefined
    throw error
  }
}

function upToDate(
  audience: Audience,
  {
    name,
    version,
    server,
    documents,
    warnings,
  }: {
    readonly name: string
    readonly version: string
    readonly server: Params
    readonly documents: WrittenDocuments
    readonly warnings: readonly string[]
  },
) {
  return {
    data: {
      serverName: name,
      updated: false,
      from: version,
      to: version,
      changes: [],
      command: commandFor(audience, { server, kept: writtenValues(server), known: server }),
      inherited: inheritedText(audience, server, documents.config),
      missing: [],
      warnings,
    },
    text: `${name} is already at version ${version}`,
  }
}
