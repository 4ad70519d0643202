/** `mcp_enable` and `mcp_disable`. */
import * as z from "zod"
import { setDisabled, writtenServers } from "../config/edit.ts"
import { applyEdit, configChange, connectOutcome, reloadSchema, resolveServerName, warningsOf } from "./apply-change.ts"
import { commandText, confirm, writtenValues } from "./confirm.ts"
import { serverOf } from "./servers.ts"
import { defineTool, SERVER_NAME, type ToolContext } from "./tool.ts"

const output = z.object({
  serverName: z.string(),
  enabled: z.boolean(),
  changed: z.boolean().describe("False where it was so already"),
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
    const changed = setDisabled(name, disabled)(config) !== config
    const server = writtenServers(config).get(name)?.server ?? {}
    if (changed)
      await confirm(context, ["edits"], {
        what: disabled
          ? `Disable the MCP server ${name}, whose tools every client loses`
          : `Enable the MCP server ${name}: let svc run this and offer its tools to every client`,
        shown: commandText(server, writtenValues(server)),
      })
    const reload = await applyEdit(context, configChange(setDisabled(name, disabled)))
    const outcome = await connectOutcome(context.agent, name)
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
    "Enables a disabled server: the person confirms it, it is started, and its tools appear. Answers how it came up; where it failed, mcp_status with details says why.",
  annotations: { readOnlyHint: false, destructiveHint: false, idempotentHint: true, openWorldHint: false },
  ...toggle(false),
})

export const mcpDisable = defineTool({
  name: "mcp_disable",
  title: "Disable an MCP server",
  description:
    "Stops a server and takes its tools away without removing its configuration, if the person confirms it; mcp_enable undoes it.",
  annotations: { readOnlyHint: false, destructiveHint: true, idempotentHint: true, openWorldHint: false },
  ...toggle(true),
})
