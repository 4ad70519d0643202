/** `mcp_reload`: reads the configuration again, or restarts a server. */

import * as z from "zod"
import { elsewhereText } from "../../config/server-spec.ts"
import { connectOutcome, reloadReport, reloadSchema, warningsOf } from "./apply-change.ts"
import { listText, serverOf } from "./servers.ts"
import { defineTool, SERVER_NAME, type ToolContext, ToolError } from "./tool.ts"

export const mcpReload = defineTool({
  name: "mcp_reload",
  category: "management",
  title: "Reload the configuration or restart a server",
  description:
    "With serverName: restarts that server immediately and reports whether it connected; use this for a server that hangs or that svc no longer restarts. Without serverName: reloads mcp.json and .env and reports what changed.",
  annotations: { readOnlyHint: false, destructiveHint: true, idempotentHint: true, openWorldHint: false },
  input: z.object({
    serverName: SERVER_NAME.optional().describe("The server to restart; without it, svc reloads the configuration"),
  }),
  output: z.object({
    restarted: z.array(z.string()).describe("The ids of the restarted servers and instances"),
    reload: reloadSchema.optional().describe("The result of the reload"),
    warnings: z.array(z.string()),
  }),
  run: ({ serverName }, context) => (serverName === undefined ? reload(context) : restart(context, serverName)),
})

// ---

async function reload({ editor }: ToolContext) {
  const report = reloadReport(await editor.reload())
  const { added, removed, replaced, retuned } = report
  if (!report.applied)
    return {
      data: { restarted: [], reload: report, warnings: ["the configuration is broken; the last valid one still runs"] },
      text: `not reloaded: ${report.issues.join("; ")}`,
    }
  return {
    data: { restarted: [], reload: report, warnings: [] },
    text: `reloaded: added ${listText(added)}; removed ${listText(removed)}; replaced ${listText(replaced)}; retuned ${listText(retuned)}`,
  }
}

/** Restarts a server, or all instances of a template. Throws a ToolError (conflict) if the server is not meant to run. */
async function restart(context: ToolContext, serverName: string) {
  const { agent } = context
  const { name, state, enabled, instances } = serverOf(context, serverName)
  if (instances.length === 0) {
    const [tool, does] = enabled ? ["mcp_status", "shows why"] : ["mcp_enable", "starts it"]
    throw new ToolError("conflict", `${name} is not running (${state})`, {
      hint: { tool, args: { serverName: name }, does },
    })
  }
  const ids = instances.map(({ id }) => id)
  for (const id of ids) {
    const backend = agent.backend(id)
    const elsewhere = backend && elsewhereText(backend.spec, "restart")
    if (elsewhere !== undefined) throw new ToolError("conflict", elsewhere)
    if (backend !== undefined) agent.restart(backend)
  }
  const outcomes = await Promise.all(ids.map(async (id) => [id, await connectOutcome(agent, id)] as const))
  return {
    data: { restarted: ids, warnings: outcomes.flatMap(([id, outcome]) => warningsOf(id, outcome)) },
    text: outcomes.map(([id, { kind }]) => `${id} was restarted: ${kind}`).join("; "),
  }
}
