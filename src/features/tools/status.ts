/** `mcp_status`: shows the status of one server, or of all. */
import * as z from "zod"
import { hiddenNote, unknownOverridesText } from "../../catalog/tool-settings.ts"
import { slugOf } from "../../config/server-spec.ts"
import { counted } from "../../lib/text.ts"
import {
  listText,
  runningOf,
  type ServerDetails,
  serverDetailsSchema,
  serverOf,
  serversOf,
  valueSchema,
  valuesOf,
} from "./servers.ts"
import { defineTool, READS, SERVER_NAME } from "./tool.ts"

export const instanceSchema = z.object({
  id: z.string(),
  status: z.string(),
  state: z.string(),
  healthy: z
    .boolean()
    .describe("Whether the server is connected and answers pings, and no request has failed in transport recently"),
  pid: z.number().optional(),
  asleep: z.literal(true).optional().describe("It has no process until a call needs it"),
  memory: z
    .number()
    .optional()
    .describe("Bytes of resident memory of its processes; only from commands, where the system tells"),
  cpu: z
    .number()
    .optional()
    .describe("Milliseconds of processor time of its processes; only from commands, where the system tells"),
  since: z.string().optional().describe("When the server connected, or began to start"),
  attempt: z.number().optional().describe("Consecutive failed attempts"),
  nextRetryAt: z.string().optional(),
  restarts: z.number(),
  protocolVersion: z.string().optional(),
  era: z.string().optional(),
  tools: z.number().optional().describe("Number of tools that clients see"),
  hiddenTools: z.number().optional().describe("Number of tools hidden from clients"),
  prompts: z.number().optional(),
  resources: z.number().optional(),
  empty: z.literal(true).optional().describe("The server is connected but offers no tools, prompts or resources"),
  characters: z
    .object({ tools: z.number(), instructions: z.number() })
    .optional()
    .describe(
      "Characters that the server adds to the context of a client: by its list of tools, and by its instructions",
    ),
  warnings: z
    .array(z.string())
    .optional()
    .describe(
      "Definitions that svc repaired or left out, and descriptions, names and schemas that clients cut or refuse, in sentences",
    ),
  definitions: z
    .array(z.object({ kind: z.string(), name: z.string(), member: z.string(), reason: z.string() }))
    .optional()
    .describe("What svc repaired and left out of the server's handshake and lists, so that clients accept the rest"),
  protocolErrors: z
    .array(z.string())
    .optional()
    .describe("What the running server sends that is not MCP: text on stdout, and its first invalid message"),
  unknownOverrides: z
    .array(z.string())
    .optional()
    .describe("Names in toolDescriptionOverrides and toolOverrides that match no tool of the server"),
  issues: z.array(z.string()).optional().describe("Why the server is degraded: failed lists, unanswered pings"),
  changedTools: z.array(z.string()).optional().describe("Tools whose definition has changed since svc first saw them"),
  suspiciousTools: z.array(z.string()).optional().describe("Tools whose descriptions contain invisible characters"),
  lastError: z.string().optional().describe("Why the server is not healthy"),
  lastPing: z
    .string()
    .optional()
    .describe(
      "When svc last pinged the server, whether or not it answered; svc pings servers that have sent nothing for 30 s",
    ),
  projects: z
    .array(z.string())
    .optional()
    .describe("Directories of the projects for which an instance of a template runs; only `svc mcp status` shows them"),
  authorizationUrl: z.string().optional().describe("URL at which a person can authorize svc"),
})

export const mcpStatus = defineTool({
  name: "mcp_status",
  category: "management",
  title: "Show the status of MCP servers",
  description:
    "Shows the status and health of one server, or of all: process, restarts, last error, and what it offers. With details: also its effective configuration (secrets hidden) and the last lines of its log; use details to find out why a server fails.",
  annotations: READS,
  input: z.object({
    serverName: SERVER_NAME.optional().describe("Name of one server (default: all)"),
    details: z.boolean().default(false).describe("Adds the effective configuration and the last lines of the log"),
  }),
  output: z.object({
    servers: z.array(
      serverDetailsSchema.extend({
        instances: z
          .array(instanceSchema)
          .describe("The server's processes or connections: one, or one for each instance of a template"),
        configuration: z.array(valueSchema).optional(),
        log: z.array(z.string()).optional(),
      }),
    ),
    loaded: z.boolean().describe("False until the configuration has been read for the first time"),
    issues: z.array(z.string()).describe("Problems of the configuration"),
    warnings: z.array(z.string()),
  }),
  run({ serverName, details }, context) {
    const chosen = serverName === undefined ? serversOf(context) : [serverOf(context, serverName)]
    const { issues, loaded } = runningOf(context)
    const servers = chosen.map((server) => ({
      ...server,
      instances: server.instances.map(({ name: _name, type: _type, tags: _tags, ...instance }) => instance),
      ...(details ? { configuration: valuesOf(context, server.name), log: context.lines(slugOf(server.name)) } : {}),
    }))
    return {
      data: { servers, loaded, issues, warnings: chosen.flatMap(warningsAbout) },
      text: listText(chosen.map(statusText)),
    }
  },
})

// ---

function statusText({ name, status, state, healthy, tools, hiddenTools, lastError }: ServerDetails): string {
  const health = status === "connected" && healthy === false ? ", unhealthy" : ""
  const count = tools === undefined ? "" : `, ${counted(tools, "tool")}${hiddenNote(hiddenTools)}`
  return `${name}: ${state}${health}${count}${lastError === undefined ? "" : ` (${lastError})`}`
}

function warningsAbout({ name, instances }: ServerDetails): readonly string[] {
  const toolsOf = (key: "changedTools" | "suspiciousTools" | "unknownOverrides") => [
    ...new Set(instances.flatMap((instance) => instance[key] ?? [])),
  ]
  const [changed, suspicious] = [toolsOf("changedTools"), toolsOf("suspiciousTools")]
  const unknown = toolsOf("unknownOverrides")
  const warnings = instances.flatMap(({ status, lastError, issues = [] }) => {
    const failure = status === "connected" && lastError !== undefined ? [lastError] : []
    return [...new Set([...issues, ...failure])].map((problem) => `${name}: ${problem}`)
  })
  if (instances.some(({ empty }) => empty === true))
    warnings.unshift(`${name} is connected but offers no tools, prompts or resources`)
  warnings.push(...new Set(instances.flatMap((instance) => (instance.warnings ?? []).map((one) => `${name}: ${one}`))))
  if (unknown.length > 0) warnings.push(`${name}: ${unknownOverridesText(unknown)}`)
  if (changed.length > 0)
    warnings.push(`tools of ${name} have changed since they were first seen: ${changed.join(", ")}`)
  if (suspicious.length > 0)
    warnings.push(`descriptions of tools of ${name} contain invisible characters: ${suspicious.join(", ")}`)
  return warnings
}
