/** `mcp_search`: servers in the registries, the most fitting first. */
import * as z from "zod"
import { entrySchema, showEntry } from "./registry-entries.ts"
import { listed } from "./servers.ts"
import { defineTool, READS } from "./tool.ts"

export const REGISTRY = z.string().min(1).describe("One registry by its name, as mcp_registry_list shows it")

export const mcpSearch = defineTool({
  name: "mcp_search",
  category: "discovery",
  title: "Search for MCP servers",
  description:
    "Searches the MCP registries for servers by words over name, title and description, the most fitting first, and says which are installed. mcp_info shows one in detail with what it needs; mcp_install installs it.",
  annotations: { ...READS, openWorldHint: true },
  input: z.object({
    query: z.string().default("").describe("What the server is to do, in a few words; empty lists what there is"),
    registry: REGISTRY.optional(),
    type: z.enum(["npm", "pypi", "oci", "nuget", "mcpb", "remote"]).optional().describe("Only servers that are run so"),
    transport: z.enum(["stdio", "streamable-http", "sse"]).optional().describe("Only servers with this transport"),
    limit: z.number().int().min(1).max(100).default(20).describe("How many at most"),
    cursor: z.string().optional().describe("nextCursor of the answer before, for more"),
  }),
  output: z.object({
    servers: z.array(entrySchema),
    total: z.number().describe("How many fit"),
    nextCursor: z.string().optional().describe("Set where there are more"),
    warnings: z.array(z.string()),
  }),
  async run(query, { registries, editor }) {
    const { value, warnings } = await registries.search(query)
    const { config } = editor.read()
    const servers = value.entries.map((entry) => showEntry(entry, config))
    return {
      data: {
        servers,
        total: value.total,
        ...(value.nextCursor === undefined ? {} : { nextCursor: value.nextCursor }),
        warnings: [...warnings],
      },
      text: `${servers.length} of ${value.total} servers: ${listed(
        servers.map(({ name, version, installed }) => `${name} ${version}${installed ? " (installed)" : ""}`),
      )}`,
    }
  },
})
