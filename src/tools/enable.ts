/** `mcp_enable` and `mcp_disable`. */
import * as z from "zod"
import { setDisabled } from "../config/edit.ts"
import { applyEdit, reloadSchema, warningsOf } from "./apply-change.ts"
import { confirm, questionOn, quoted, writtenValues } from "./confirm.ts"
import { configChange, resolveServerName, writtenServer } from "./plan-change.ts"
import { serverOf } from "./servers.ts"
import { defineTool, SERVER_NAME, type ToolContext } from "./tool.ts"

const output = z.object({
  serverName: z.string(),
  enabled: z.boolean(),
  changed: z.boolean().describe("False if it was so already"),
  status: z.string(),
  reload: reloadSchema,
  warnings: z.array(z.string()),
})

const toggle = (disabled: boolean) => ({
  category: "management" as const,
  input: z.object({ serverName: SERVER_NAME }),
  output,
  async run({ serverName }: { serverName: string }, context: ToolContext) {
    const { config } = context.editor.read()
    const name = resolveServerName(config, serverName)
    const edit = setDisabled(name, disabled)
    const changed = edit(config) !== config
    const server = writtenServer(config, name)
    const kept = writtenValues(server)
    if (changed)
      await confirm(
        context,
        ["edits"],
        disabled
          ? questionOn(`Disable the MCP server ${quoted(name)}, and take its tools from every client`, { server, kept })
          : questionOn(`Enable the MCP server ${quoted(name)}: let svc run this and offer its tools to every client`, {
              server,
              kept,
              config,
            }),
      )
    const { outcome, reload } = await applyEdit(context, name, configChange(edit))
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
    "Enables a disabled server, after the person has confirmed it: the server is started and its tools are offered. Reports whether it connected; if it failed, mcp_status with details says why.",
  annotations: { readOnlyHint: false, destructiveHint: false, idempotentHint: true, openWorldHint: false },
  ...toggle(false),
})

export const mcpDisable = defineTool({
  name: "mcp_disable",
  title: "Disable an MCP server",
  description:
    "Stops a server and removes its tools, after the person has confirmed it. Its configuration stays; mcp_enable undoes it.",
  annotations: { readOnlyHint: false, destructiveHint: true, idempotentHint: true, openWorldHint: false },
  ...toggle(true),
})
