/** `mcp_status`: how a server is, or all of them. */
import * as z from "zod"
import { slugOf } from "../config/plan.ts"
import { listed, runningOf, serverDetailsSchema, serverOf, serversOf, valueSchema, valuesOf } from "./servers.ts"
import { defineTool, READS, SERVER_NAME } from "./tool.ts"

const instanceSchema = z.object({
  id: z.string(),
  status: z.string(),
  state: z.string(),
  pid: z.number().optional(),
  since: z.string().optional().describe("When it was connected, or began to start"),
  attempt: z.number().optional().describe("Failed attempts in a row"),
  nextRetryAt: z.string().optional(),
  restarts: z.number(),
  protocolVersion: z.string().optional(),
  era: z.string().optional(),
  tools: z.number().optional(),
  prompts: z.number().optional(),
  resources: z.number().optional(),
  empty: z.literal(true).optional().describe("It is connected but offers nothing at all"),
  issues: z.array(z.string()).readonly().optional().describe("Why it is degraded: lists that fail, unanswered pings"),
  changedTools: z.array(z.string()).readonly().optional().describe("Tools that are not what they were when first seen"),
  suspiciousTools: z
    .array(z.string())
    .readonly()
    .optional()
    .describe("Tools described with characters that nobody sees"),
  lastError: z.string().optional(),
  authorizationUrl: z.string().optional().describe("Where a person must go to authorize svc"),
})

export const mcpStatus = defineTool({
  name: "mcp_status",
  category: "management",
  title: "Show the status of MCP servers",
  description:
    "Shows how one server is, or all of them: status, process, restarts, last error, and what it offers. With details also what it is started with (secrets hidden) and the last lines of its log: use that to find out why a server fails.",
  annotations: READS,
  input: z.object({
    serverName: SERVER_NAME.optional().describe("One server; without it all of them"),
    details: z.boolean().default(false).describe("Also its effective configuration and the last lines of its log"),
  }),
  output: z.object({
    servers: z.array(
      serverDetailsSchema.extend({
        instances: z
          .array(instanceSchema)
          .describe("What runs of it: one process or connection, or one for each instance"),
        configuration: z.array(valueSchema).optional(),
        log: z.array(z.string()).optional(),
      }),
    ),
    loaded: z.boolean().describe("False while the configuration has never been read"),
    issues: z.array(z.string()).describe("What is wrong with the configuration"),
    warnings: z.array(z.string()),
  }),
  run({ serverName, details }, context) {
    const chosen = serverName === undefined ? serversOf(context) : [serverOf(context, serverName)]
    const { issues, loaded } = runningOf(context)
    const servers = chosen.map((server) => ({
      ...server,
      instances: server.instances.map(({ name: _name, type: _type, tags: _tags, ...instance }) => instance),
      ...(details
        ? { configuration: valuesOf(context, server.name), log: [...context.lines(slugOf(server.name))] }
        : {}),
    }))
    const warnings = servers.flatMap(({ name, instances }) => {
      const of = (key: "changedTools" | "suspiciousTools") => [...new Set(instances.flatMap((one) => one[key] ?? []))]
      const [changed, suspicious] = [of("changedTools"), of("suspiciousTools")]
      return [
        ...(instances.some(({ empty }) => empty === true) ? [`${name} is connected but offers nothing at all`] : []),
        ...instances.flatMap(({ issues = [] }) => issues.map((issue) => `${name}: ${issue}`)),
        ...(changed.length > 0
          ? [`tools of ${name} are not what they were when first seen: ${changed.join(", ")}`]
          : []),
        ...(suspicious.length > 0
          ? [`tools of ${name} are described with characters that nobody sees: ${suspicious.join(", ")}`]
          : []),
      ]
    })
    return {
      data: { servers, loaded, issues: [...issues], warnings },
      text: listed(
        servers.map(
          ({ name, state, tools, lastError }) =>
            `${name}: ${state}${tools === undefined ? "" : `, ${tools} tools`}${lastError === undefined ? "" : ` (${lastError})`}`,
        ),
      ),
    }
  },
})
