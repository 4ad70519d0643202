/** `mcp_search`: searches the registries for servers, best match first. */
import * as z from "zod"
import { entrySchema, showEntry } from "./registry-entries.ts"
import { listText } from "./servers.ts"
import { defineTool, READS } from "./tool.ts"

export const REGISTRY = z.string().min(1).describe("One registry by its name, as mcp_registry_list shows it")

export const mcpSearch = defineTool({
  name: "mcp_search",
  category: "discovery",
  title: "Search for MCP servers",
  description:
    "Searches the MCP registries for servers by words in name, title and description, best match first, and shows which are installed. If no registry can be reached, it searches well-known servers that svc knows, and says so. mcp_info shows a server and the values that it needs; mcp_install installs it.",
  annotations: { ...READS, openWorldHint: true },
  input: z.object({
    query: z.string().default("").describe("What the server should do, in a few words; empty lists all servers"),
    registry: REGISTRY.optional(),
    type: z.enum(["npm", "pypi", "oci", "nuget", "mcpb", "remote"]).optional().describe("Only servers of this type"),
    transport: z.enum(["stdio", "streamable-http", "sse"]).optional().describe("Only servers with this transport"),
    limit: z.number().int().min(1).max(100).default(20).describe("Maximum number of servers in one response"),
    cursor: z.string().optional().describe("nextCursor of the previous response, for the next page"),
  }),
  output: z.object({
    servers: z.array(entrySchema),
    total: z.number().describe("The number of servers that match"),
    nextCursor: z.string().optional().describe("Set if there are more servers"),
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
        nextCursor: value.nextCursor,
        warnings,
      },
      text: `${servers.length} of ${value.total} servers: ${listText(
        servers.map(({ name, version, installed, status, statusMessage = "" }) => {
          const notes = [
            ...(installed ? ["installed"] : []),
            ...(status === "active" ? [] : [statusMessage === "" ? status : `${status}: ${statusMessage}`]),
          ]
          return `${name} ${version}${notes.length === 0 ? "" : ` (${notes.join("; ")})`}`
        }),
      )}`,
    }
  },
})
