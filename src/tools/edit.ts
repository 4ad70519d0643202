/** `mcp_edit`: changes a server by a JSON merge patch, checked before it is written. */
import * as z from "zod"
import { patchServer, renameServer, writtenServers } from "../config/edit.ts"
import type { Written } from "../config/transaction.ts"
import { isSecretName } from "../lib/secret-names.ts"
import { isObject, type Params } from "../wire/message.ts"
import { confirm } from "./confirm.ts"
import { changeSchema, changesOf, listed } from "./servers.ts"
import { define, SERVER_NAME, ToolError } from "./tool.ts"
import { edit, judge, outcomeOf, reloadSchema, warningsOf, writtenName } from "./transact.ts"

export const mcpEdit = define({
  name: "mcp_edit",
  category: "management",
  title: "Edit an MCP server's configuration",
  description:
    'Changes a server\'s configuration by a JSON merge patch (RFC 7396): members replace, null removes, objects merge, arrays are replaced whole. For example {"requestTimeout": 60000, "disabledTools": ["write_file"], "env": {"OLD": null}}. What is not valid is refused before anything is written. Try it with dryRun first to see what would change. Put secrets into .env and refer to them as ${NAME}.',
  annotations: { readOnlyHint: false, destructiveHint: true, idempotentHint: true, openWorldHint: false },
  input: z.object({
    serverName: SERVER_NAME,
    patch: z.record(z.string(), z.unknown()).default({}).describe("The merge patch; null removes a member"),
    newName: z.string().min(1).optional().describe("A new name for the server"),
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
  async run({ serverName, patch, newName, dryRun }, context) {
    if (Object.keys(patch).length === 0 && newName === undefined)
      throw new ToolError("invalid_argument", "Give a patch or a newName: there is nothing to change")
    const { door, agent } = context
    const before = door.read()
    const name = writtenName(before.config, serverName)
    const after = newName ?? name
    const warnings: string[] = []
    const change = (written: Written): Written => {
      const patched = patchServer(name, patch)(written.config)
      const changed = { ...written, config: newName === undefined ? patched : renameServer(name, newName)(patched) }
      warnings.splice(0, warnings.length, ...judge(context, written, changed), ...openSecrets(patch))
      return changed
    }
    const planned = change(before)
    const changes = changesOf(context, [name, before], [after, planned])
    if (dryRun)
      return {
        data: { serverName: after, changes, dryRun, warnings },
        text: `would change ${listed(changes.map(({ key }) => key))}${newName === undefined ? "" : `; new name ${newName}`}`,
      }
    const { server } = writtenServers(planned.config).get(after) ?? { server: {} }
    if (matters(patch)) await confirm(context, `Change how the MCP server ${name} is started`, server)
    const reload = await edit(context, change)
    const outcome = await outcomeOf(agent, after)
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
  "tags",
  "disabled",
  "disabledTools",
  "toolDescriptionOverrides",
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

/** What is said of secrets that a patch writes out. */
const openSecrets = ({ env, headers }: Params): readonly string[] =>
  [env, headers].flatMap((section) =>
    Object.entries(isObject(section) ? section : {}).flatMap(([name, value]) =>
      typeof value === "string" && isSecretName(name) && !value.includes("$") && value !== ""
        ? [`${name} stands in mcp.json as it is: keep it in .env, and refer to it`]
        : [],
    ),
  )

/** Whether a person has to agree to a patch. */
const matters = (patch: Params): boolean => Object.keys(patch).some((key) => !HARMLESS.has(key))
