/** `mcp_list`: lists the servers with their status. */
import * as z from "zod"
import { listText, type ServerDetails, serverDetailsSchema, serversOf } from "./servers.ts"
import { defineTool, READS } from "./tool.ts"

const FILTERS = {
  all: () => true,
  enabled: ({ enabled }: ServerDetails) => enabled,
  disabled: ({ enabled }: ServerDetails) => !enabled,
  connected: ({ status }: ServerDetails) => status === "connected",
  error: ({ status }: ServerDetails) => status === "error",
}

export const mcpList = defineTool({
  name: "mcp_list",
  category: "management",
  title: "List MCP servers",
  description:
    "Lists the MCP servers that svc manages: whether each is enabled, its status, its tags and how many tools it offers. Call this tool first: the other mcp_* tools take the names that it shows.",
  annotations: READS,
  input: z.object({
    filter: z
      .enum(["all", "enabled", "disabled", "connected", "error"])
      .default("all")
      .describe("Which servers: all, enabled, disabled, connected, or in error"),
    tags: z.array(z.string()).optional().describe("Only servers with one of these tags"),
  }),
  output: z.object({
    servers: z.array(serverDetailsSchema),
    total: z.number().describe("The number of servers without the filter"),
  }),
  run({ filter, tags }, context) {
    const all = serversOf(context)
    const servers = all
      .filter((server) => FILTERS[filter](server) && (tags?.some((tag) => server.tags.includes(tag)) ?? true))
      .map(({ instances: _, ...server }) => server)
    return {
      data: { servers, total: all.length },
      text: `${servers.length} of ${all.length} servers: ${listText(servers.map(({ name, state }) => `${name} (${state})`))}`,
    }
  },
})
