/** `mcp_registry_list`, `mcp_registry_status` and `mcp_registry_info`: show the registries of servers. */
import * as z from "zod"
import { redactedUrl } from "../../config/registries.ts"
import { REGISTRY } from "./search.ts"
import { listText } from "./servers.ts"
import { defineTool, READS } from "./tool.ts"

const registrySchema = z.object({ name: z.string(), url: z.string() })
const healthSchema = registrySchema.extend({
  available: z.boolean(),
  latencyMs: z.number().optional().describe("How long it took to answer"),
  error: z.string().optional(),
})

export const mcpRegistryList = defineTool({
  name: "mcp_registry_list",
  category: "discovery",
  title: "List the registries",
  description: "Lists the MCP registries that svc searches, in order. `registries` in mcp.json configures them.",
  annotations: READS,
  input: z.object({}),
  output: z.object({ registries: z.array(registrySchema) }),
  run(_, { registries }) {
    const all = registries.sources().map((source) => ({ name: source.name, url: redactedUrl(source) }))
    return { data: { registries: all }, text: listText(all.map(({ name, url }) => `${name} (${url})`)) }
  },
})

export const mcpRegistryStatus = defineTool({
  name: "mcp_registry_status",
  category: "discovery",
  title: "Check the registries",
  description:
    "Checks whether each registry answers, and how quickly. Use this tool if mcp_search or mcp_install fails.",
  annotations: { ...READS, openWorldHint: true },
  input: z.object({ registry: REGISTRY.optional() }),
  output: z.object({ registries: z.array(healthSchema) }),
  async run({ registry }, { registries }) {
    const all = await registries.status(registry)
    return {
      data: { registries: all },
      text: listText(
        all.map(({ name, available, latencyMs, error }) =>
          available ? `${name}: answers in ${latencyMs} ms` : String(error),
        ),
      ),
    }
  },
})

export const mcpRegistryInfo = defineTool({
  name: "mcp_registry_info",
  category: "discovery",
  title: "Show a registry",
  description: "Shows one registry in detail: its address, whether it answers, and how many servers svc finds in it.",
  annotations: { ...READS, openWorldHint: true },
  input: z.object({ registry: REGISTRY.optional().describe("The registry's name; by default the first one") }),
  // In the output of a tool, `error` means that the tool failed.
  output: healthSchema.omit({ error: true }).extend({
    servers: z.number().optional().describe("The number of servers that svc finds in it, 1000 at most"),
    examples: z.array(z.string()).describe("Names of some of its servers"),
    warnings: z.array(z.string()).describe("Warnings, such as why the registry does not answer"),
  }),
  async run({ registry }, { registries }) {
    const name = registry ?? registries.sources()[0]?.name
    const [health] = await registries.status(name)
    if (health === undefined || !health.available) {
      const { name = "", url = "", error = "no registry is configured" } = health ?? {}
      return { data: { name, url, available: false, examples: [], warnings: [error] }, text: error }
    }
    const { value, warnings } = await registries.search({ query: "", registry: name, limit: SHOWN })
    return {
      data: {
        ...health,
        servers: value.total,
        examples: value.entries.map((entry) => entry.name),
        warnings,
      },
      text: `${health.name} (${health.url}) answers in ${health.latencyMs} ms; ${value.total} servers`,
    }
  },
})

// ---

const SHOWN = 10
