/** `mcp_edit`: changes a server by a JSON merge patch, checked before it is written. */
import * as z from "zod"
import { isHidden } from "../catalog/catalog.ts"
import { patchServer, renameServer, writtenServers } from "../config/edit.ts"
import { visible } from "../lib/log.ts"
import { isSecretName } from "../lib/secret-names.ts"
import type { WrittenDocuments } from "../store/transaction.ts"
import { isObject, type Params } from "../wire/message.ts"
import {
  applyEdit,
  connectOutcome,
  reloadSchema,
  resolveServerName,
  unchanged,
  validateChange,
  warningsOf,
} from "./apply-change.ts"
import { type Consent, changedKeys, changedSettings, commandText, confirm, writtenValues } from "./confirm.ts"
import { changeSchema, changesOf, listed } from "./servers.ts"
import { defineTool, SERVER_NAME, type ToolContext, ToolError } from "./tool.ts"

export const mcpEdit = defineTool({
  name: "mcp_edit",
  category: "management",
  title: "Edit an MCP server's configuration",
  description:
    'Changes a server\'s configuration by a JSON merge patch (RFC 7396): members replace, null removes, objects merge, arrays are replaced whole. For example {"requestTimeout": 60000, "disabledTools": ["write_file"], "env": {"OLD": null}}. What is not valid is refused before anything is written. Try it with dryRun first to see what would change. The person confirms what changes what runs, or what other clients are offered. Put secrets into .env and refer to them as ${NAME}.',
  annotations: { readOnlyHint: false, destructiveHint: true, idempotentHint: true, openWorldHint: false },
  input: z.object({
    serverName: SERVER_NAME,
    patch: z.record(z.string(), z.unknown()).default({}).describe("The merge patch; null removes a member"),
    newName: z.string().min(1).optional().describe("A new name for the server"),
    confirmZeroTools: z
      .boolean()
      .default(false)
      .describe("true lets the edit hide the last tool that the server offers"),
    dryRun: z.boolean().default(false).describe("Only show what would change"),
  }),
  output: z.object({
    serverName: z.string().describe("Its name after the edit"),
    changes: z.array(changeSchema).describe("What it is started with that changes, secrets hidden"),
    dryRun: z.boolean(),
    status: z.string().optional().describe("How the server is after the edit"),
    reload: reloadSchema.optional(),
    warnings: z.array(z.string()),
  }),
  async run({ serverName, patch, newName, confirmZeroTools, dryRun }, context) {
    if (Object.keys(patch).length === 0 && newName === undefined)
      throw new ToolError("invalid_argument", "Give a patch or a newName: there is nothing to change")
    const { editor, agent } = context
    const before = editor.read()
    const name = resolveServerName(before.config, serverName)
    const after = newName ?? name
    const server = writtenServers(before.config).get(name)?.server ?? {}
    const warnings: string[] = []
    const change = (written: WrittenDocuments): WrittenDocuments => {
      unchanged(written, name, server)
      const patched = patchServer(name, patch)(written.config)
      const changed = { ...written, config: newName === undefined ? patched : renameServer(name, newName)(patched) }
      warnings.splice(0, warnings.length, ...validateChange(context, written, changed), ...openSecrets(patch))
      return changed
    }
    const planned = change(before)
    const changes = changesOf(context, [name, before], [after, planned])
    const next = writtenServers(planned.config).get(after)?.server ?? {}
    if (!confirmZeroTools && hidesAll(context, name, next)) {
      const said = `${name} would offer no tool any more: give confirmZeroTools: true if that is meant`
      if (!dryRun) throw new ToolError("confirmation_required", said)
      warnings.push(said)
    }
    if (dryRun)
      return {
        data: { serverName: after, changes, dryRun, warnings },
        text: `would change ${listed(changes.map(({ key }) => key))}${newName === undefined ? "" : `; new name ${newName}`}`,
      }
    const [consent, ...more] = consentsTo(changedKeys(server, next), after !== name)
    if (consent !== undefined)
      await confirm(context, [consent, ...more], {
        what: `Change the MCP server ${name}${consent === "installs" ? " and let svc run this" : ", as every client sees it"}`,
        shown: [
          commandText(next, writtenValues(next)),
          ...(after === name ? [] : [`name: ${visible(name)} -> ${visible(after)}`]),
          ...changedSettings(server, next),
        ].join("\n"),
      })
    const reload = await applyEdit(context, change)
    const outcome = await connectOutcome(agent, after)
    warnings.push(...warningsOf(after, outcome))
    return {
      data: { serverName: after, changes, dryRun, status: outcome.kind, reload, warnings },
      text: `changed ${after}: ${listed(changes.map(({ key }) => key))}`,
    }
  },
})

// ---

/** What an assistant may change alone. All else decides what runs, where it connects, or what it gets to see. */
const HARMLESS: ReadonlySet<string> = new Set([
  "timeout",
  "connectionTimeout",
  "requestTimeout",
  "restartOnExit",
  "maxRestarts",
  "restartDelay",
  "isolation",
  "idleTimeout",
  "maxProcesses",
  "rateLimit",
  "protocolVersion",
])

/** What every client's model reads from then on: which tools there are, under which names, and what they say. */
const OFFERED: ReadonlySet<string> = new Set([
  "tags",
  "disabled",
  "disabledTools",
  "toolDescriptionOverrides",
  "toolPinning",
])

/** What a person has to agree to where these settings change. */
function consentsTo(keys: readonly string[], renamed: boolean): readonly Consent[] {
  const installs = keys.some((key) => !HARMLESS.has(key) && !OFFERED.has(key))
  const edits = renamed || keys.some((key) => OFFERED.has(key))
  return [...(installs ? ["installs" as const] : []), ...(edits ? ["edits" as const] : [])]
}

/** Whether a server that offers tools now would offer none. */
function hidesAll({ agent }: ToolContext, name: string, { disabledTools }: Params): boolean {
  const hidden = Array.isArray(disabledTools) ? disabledTools.map(String) : []
  return agent.find(name).some(({ spec, published }) => {
    const tools = (published?.listing.tools ?? []).filter((tool) => !isHidden(spec, tool.name))
    const next = { ...spec, tuning: { ...spec.tuning, disabledTools: hidden } }
    return tools.length > 0 && tools.every((tool) => isHidden(next, tool.name))
  })
}

/** What is said of secrets that a patch writes out. */
const openSecrets = ({ env, headers }: Params): readonly string[] =>
  [env, headers].flatMap((section) =>
    Object.entries(isObject(section) ? section : {}).flatMap(([name, value]) =>
      typeof value === "string" && isSecretName(name) && !value.includes("$") && value !== ""
        ? [`${name} stands in mcp.json as it is: keep it in .env, and refer to it`]
        : [],
    ),
  )
