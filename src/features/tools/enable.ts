/** `mcp_enable` and `mcp_disable`. */
import * as z from "zod"
import { setDisabled } from "../../config/edit.ts"
import { quoted, settingsOf } from "../../config/server-text.ts"
import { writtenValues } from "../../config/written-values.ts"
import { applyEdit, reloadSchema, warningsOf } from "./apply-change.ts"
import { confirm, STARTING } from "./consent.ts"
import { questionOn } from "./consent-text.ts"
import { configChange, requireUnchanged, resolveServerName, writtenServer } from "./plan-change.ts"
import { serverOf } from "./servers.ts"
import { defineTool, SERVER_NAME, type ToolContext } from "./tool.ts"

const output = z.object({
  serverName: z.string(),
  enabled: z.boolean(),
  changed: z.boolean().describe("False if the server was already in this state"),
  status: z.string(),
  reload: reloadSchema,
  warnings: z.array(z.string()),
})

const toggle = (disabled: boolean) => ({
  category: "management" as const,
  input: z.object({ serverName: SERVER_NAME }),
  output,
  async run({ serverName }: { serverName: string }, context: ToolContext) {
    const documents = context.editor.read()
    const { config } = documents
    const name = resolveServerName(config, serverName)
    const edit = setDisabled(name, disabled)
    const changed = edit(config) !== config
    const server = writtenServer(edit(config), name)
    const kept = writtenValues(server)
    if (changed && disabled) {
      const what = `Disable the MCP server ${quoted(name)}, and take its tools from every client`
      await confirm(context, ["edits"], questionOn(what, { server, kept }))
    } else if (changed) {
      const what = `Enable the MCP server ${quoted(name)}: let svc run this and offer its tools to every client`
      // Starting the server needs the same consents as its installation.
      await confirm(context, STARTING, questionOn(what, { server, kept, config, lines: settingsOf(server) }))
    }
    const { outcome, reload } = await applyEdit(context, name, (written) => {
      if (changed) requireUnchanged(written, documents, name)
      return configChange(edit)(written)
    })
    const { status, state } = serverOf(context, name)
    return {
      data: { serverName: name, enabled: !disabled, changed, status, reload, warnings: warningsOf(name, outcome) },
      text: `${name} is ${disabled ? "disabled" : `enabled: ${state}`}`,
    }
  },
})

export const mcpEnable = defineTool({
  name: "mcp_enable",
  title: "Enable an MCP server",
  description:
    "Enables a disabled server once a person has approved it: starts the server and offers its tools. Reports whether the server connected; if it failed, mcp_status with details says why.",
  annotations: { readOnlyHint: false, destructiveHint: false, idempotentHint: true, openWorldHint: false },
  ...toggle(false),
})

export const mcpDisable = defineTool({
  name: "mcp_disable",
  title: "Disable an MCP server",
  description:
    "Stops a server and withdraws its tools, once a person has approved it. Keeps its configuration; mcp_enable starts it again.",
  annotations: { readOnlyHint: false, destructiveHint: true, idempotentHint: true, openWorldHint: false },
  ...toggle(true),
})
