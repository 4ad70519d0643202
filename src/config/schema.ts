/** The format of mcp.json: one schema gives the types, the errors and the published JSON Schema. spec: Configuration file. */
import * as z from "zod"
import type { Params } from "../wire/message.ts"
import { registriesSchema } from "./registries.ts"

const milliseconds = z
  .number()
  .min(0)
  .max(2 ** 31 - 1)

/** No time at all would fail whatever is asked. */
const timeout = milliseconds.min(1)

const env = z
  .union([z.record(z.string(), z.union([z.string(), z.number(), z.boolean()])), z.array(z.string())], {
    error: "must be an object of names and values, or an array of NAME=value and NAME",
  })
  .describe("Environment variables: an object, or an array of NAME=value and NAME (taken from the parent or .env)")

export const oauthSchema = z.strictObject({
  clientId: z.string().optional().describe("The client that svc is registered as"),
  clientSecret: z.string().optional().describe("Its secret; better a reference such as ${NAME} than the secret itself"),
  scopes: z.array(z.string()).optional().describe("What to ask for (default what the server names)"),
  autoRegister: z
    .boolean()
    .optional()
    .describe("Register with the authorization server where it allows (default true)"),
  redirectUrl: z.string().optional().describe("Where the authorization server sends the browser back to"),
  grantType: z
    .enum(["authorization_code", "client_credentials"])
    .optional()
    .describe("client_credentials needs no browser (default authorization_code)"),
  tokenEndpointAuthMethod: z
    .enum(["none", "client_secret_basic", "client_secret_post", "private_key_jwt"])
    .optional()
    .describe("How the client shows who it is; for private_key_jwt clientSecret is the key in PEM form"),
})

const shared = {
  env: env.optional(),
  timeout: timeout.optional().describe("Deprecated: use connectionTimeout and requestTimeout"),
  connectionTimeout: timeout.optional().describe("Milliseconds to connect, initialize and list"),
  requestTimeout: timeout.optional().describe("Milliseconds for one request; progress starts it anew"),
  oauth: oauthSchema.optional().describe("OAuth for remote servers"),
  headers: z.record(z.string(), z.string()).optional().describe("HTTP headers for remote servers"),
  inheritParentEnv: z.boolean().optional().describe("Let the environment of svc in, but for SVC_*"),
  envFilter: z
    .array(z.string())
    .optional()
    .describe("NAME, PREFIX_*, !NAME, !PREFIX_* over inherited variables; the last match wins"),
  restartOnExit: z.boolean().optional().describe("Supervise a stdio server and restart it when it is lost"),
  maxRestarts: z.number().int().min(0).optional().describe("Most consecutive restarts (default 5; 0 is unlimited)"),
  restartDelay: milliseconds.optional().describe("Milliseconds before the first restart (default 1000)"),
  toolPinning: z
    .enum(["off", "report", "strict"])
    .optional()
    .describe(
      "A tool that has changed since it was first seen: report (default), strict hides it until it is approved, off",
    ),
  idleTimeout: milliseconds
    .optional()
    .describe(
      'Milliseconds after which a session\'s own process (isolation "session") ends unused (default 600000; 0: never)',
    ),
  maxProcesses: z
    .number()
    .int()
    .min(1)
    .optional()
    .describe('Most processes at once that sessions have of their own (isolation "session"; default 50)'),
  rateLimit: z.number().int().min(1).optional().describe("Calls per minute"),
}

export const defaultsSchema = z.object(shared)

export const serverSchema = z.object({
  ...shared,
  type: z
    .enum(["stdio", "http", "sse", "streamableHttp", "streamable-http", "streamable_http", "streamablehttp"])
    .optional()
    .describe("stdio when there is a command, http when there is a url; the last three mean streamableHttp"),
  command: z.string().min(1).optional().describe("Command to run"),
  args: z.array(z.string()).optional().describe("Its arguments"),
  cwd: z.string().optional().describe("Working directory; relative to the configuration file"),
  stderr: z
    .union([z.enum(["pipe", "overlapped", "inherit", "ignore"]), z.number().int().min(0)], {
      error: "must be pipe, overlapped, inherit, ignore or the number of a file descriptor",
    })
    .optional()
    .describe("pipe (default) and overlapped go to the log; inherit to the terminal; ignore nowhere"),
  url: z.string().min(1).optional().describe("Address of a remote server"),
  tags: z.array(z.string()).optional().describe("For routing, presets and access"),
  protocolVersion: z.enum(["legacy", "2026-07-28", "auto"]).optional().describe("MCP era (default auto)"),
  disabled: z
    .union([z.boolean(), z.string()], { error: "must be true, false or a text" })
    .optional()
    .describe("true keeps the server from starting; in a template also a text that is rendered"),
  disabledTools: z.array(z.string()).optional().describe("Tools that are hidden"),
  toolDescriptionOverrides: z
    .record(z.string().regex(/\S/, "the name of a tool must not be empty"), z.string().regex(/\S/, "must not be blank"))
    .optional()
    .describe("Descriptions by the server's own tool name"),
  isolation: z.enum(["shared", "session"]).optional().describe("One process for all clients, or one for each session"),
  installedFrom: z
    .object({
      registry: z.string(),
      name: z.string(),
      version: z.string(),
      type: z.string().optional(),
      package: z.string().optional(),
      values: z.record(z.string(), z.string()).optional(),
    })
    .optional()
    .describe("The registry's entry that it was installed from; written by svc, for updates"),
})

export const templateSettingsSchema = z.object({
  validateOnReload: z.boolean().optional().describe("Check all templates when the configuration is read again"),
  failureMode: z
    .enum(["strict", "graceful"])
    .optional()
    .describe("A template that fails: strict refuses the configuration, graceful (default) leaves that one out"),
  cacheContext: z.boolean().optional().describe("Keep rendered templates by the hash of their context"),
})

export type ServerConfig = z.infer<typeof serverSchema>
export type DefaultsConfig = z.infer<typeof defaultsSchema>
export type TemplateSettings = z.infer<typeof templateSettingsSchema>

/** The whole document, for editors. JSON Schema 2020-12. */
export function jsonSchema(): Params {
  const expression = z.string().regex(/\{\{/)
  const template = serverSchema.extend(
    Object.fromEntries(ENUM_KEYS.map((key) => [key, serverSchema.shape[key].or(expression)])),
  )
  const document = z.object({
    $schema: z.string().optional(),
    serverDefaults: defaultsSchema.optional().describe("Defaults for all servers"),
    mcpServers: z.record(z.string(), serverSchema).optional().describe("Servers by name"),
    mcpTemplates: z.record(z.string(), template).optional().describe("Servers rendered for each project and client"),
    templateSettings: templateSettingsSchema.optional().describe("How templates are processed"),
    registries: registriesSchema.optional().describe("Where servers are searched and installed from, in this order"),
  })
  return { title: "svc configuration", ...z.toJSONSchema(document, { target: "draft-2020-12", io: "input" }) } as Params
}

/** What means something to one kind of server alone. spec: serverDefaults, merge rules 5 and 6; Server object. */
export const STDIO_ONLY = [
  "command",
  "args",
  "cwd",
  "env",
  "inheritParentEnv",
  "envFilter",
  "stderr",
  "restartOnExit",
  "maxRestarts",
  "restartDelay",
] as const
export const REMOTE_ONLY = ["url", "headers", "oauth"] as const

/** The one name of each transport. */
export function transportOf(config: ServerConfig): "stdio" | "http" | "sse" | "streamableHttp" | undefined {
  switch (config.type) {
    case undefined:
      return config.command !== undefined ? "stdio" : config.url !== undefined ? "http" : undefined
    case "streamable-http":
    case "streamable_http":
    case "streamablehttp":
      return "streamableHttp"
    default:
      return config.type
  }
}

/** Keys whose value is one of some words: in a template it may be one only when it is rendered, and is checked then. */
export const ENUM_KEYS = ["type", "stderr", "protocolVersion", "isolation", "toolPinning"] as const
