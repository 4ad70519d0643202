/** `mcp_reload`: reads the configuration again, or restarts a server. */
import * as z from "zod"
import { connectOutcome, reloadReport, reloadSchema, warningsOf } from "./apply-change.ts"
import { listed, serverOf } from "./servers.ts"
import { defineTool, SERVER_NAME, ToolError } from "./tool.ts"

export const mcpReload = defineTool({
  name: "mcp_reload",
  category: "management",
  title: "Reload the configuration or restart a server",
  description:
    "With serverName: restarts that server at once and answers how it came up; use it for a server that hangs or has crashed too often. Without: reads mcp.json and .env again and answers what changed.",
  annotations: { readOnlyHint: false, destructiveHint: true, idempotentHint: true, openWorldHint: false },
  input: z.object({
    serverName: SERVER_NAME.optional().describe("The server to restart; without it the file is read again"),
  }),
  output: z.object({
    restarted: z.array(z.string()).describe("What was restarted, by id"),
    reload: reloadSchema.optional().describe("What reading the file again did"),
    warnings: z.array(z.string()),
  }),
  async run({ serverName }, context) {
    const { agent, editor } = context
    if (serverName === undefined) {
      const reload = reloadReport(editor.reload())
      const { added, removed, replaced, retuned } = reload
      return {
        data: {
          restarted: [],
          reload,
          warnings: reload.applied ? [] : ["the configuration is broken: the last good one still runs"],
        },
        text: reload.applied
          ? `reloaded: added ${listed(added)}; removed ${listed(removed)}; replaced ${listed(replaced)}; retuned ${listed(retuned)}`
          : `not reloaded: ${reload.issues.join("; ")}`,
      }
    }
    const server = serverOf(context, serverName)
    if (server.instances.length === 0)
      throw new ToolError(
        "conflict",
        `${server.name} does not run (${server.state})${server.enabled ? "; mcp_status says why" : "; mcp_enable starts it"}`,
      )
    const ids = server.instances.map(({ id }) => id)
    for (const id of ids) {
      const backend = agent.backend(id)
      if (backend !== undefined) agent.restart(backend)
    }
    const outcomes = await Promise.all(ids.map(async (id) => [id, await connectOutcome(agent, id)] as const))
    return {
      data: { restarted: ids, warnings: outcomes.flatMap(([id, outcome]) => warningsOf(id, outcome)) },
      text: outcomes.map(([id, { kind }]) => `${id} was restarted: ${kind}`).join("; "),
    }
  },
})
