/** The format of mcp.json: one schema gives the types, the errors and the published JSON Schema. spec: Configuration file. */

import * as z from "zod"
import type { Params } from "../wire/message.ts"
import { registriesSchema } from "./registries.ts"
import { REMOTE_TRANSPORTS, type Transport } from "./server-spec.ts"

const milliseconds = z
  .number()
  .min(0)
  .max(2 ** 31 - 1)

/** At least 1: with no time at all every request would fail. */
const timeout = milliseconds.min(1)

const env = z
  .union([z.record(z.string(), z.union([z.string(), z.number(), z.boolean()])), z.array(z.string())], {
    error: "must be an object of names and values, or an array of NAME=value and NAME",
  })
  .describe("Environment variables: an object, or an array of NAME=value and NAME (taken from the parent or .env)")

export const oauthSchema = z.strictObject({
  clientId: z.string().optional().describe("Client ID that svc is registered under"),
  clientSecret: z
    .string()
    .optional()
    .describe("Client secret; use a reference such as ${NAME} rather than the secret itself"),
  scopes: z.array(z.string()).optional().describe("Scopes to request (default: those that the server names)"),
  autoRegister: z
    .boolean()
    .optional()
    .describe("Register dynamically if the authorization server supports it (default true)"),
  redirectUrl: z.string().optional().describe("Redirect URI that the browser returns to"),
  grantType: z
    .enum(["authorization_code", "client_credentials"])
    .optional()
    .describe("client_credentials needs no browser (default authorization_code)"),
  tokenEndpointAuthMethod: z
    .enum(["none", "client_secret_basic", "client_secret_post", "private_key_jwt"])
    .optional()
    .describe("Client authentication at the token endpoint; for private_key_jwt, clientSecret is the key in PEM form"),
})

const shared = {
  env: env.optional(),
  timeout: timeout.optional().describe("Deprecated: use connectionTimeout and requestTimeout"),
  connectionTimeout: timeout.optional().describe("Milliseconds to connect, initialize and list"),
  requestTimeout: timeout.optional().describe("Milliseconds for one request; progress restarts the time"),
  oauth: oauthSchema.optional().describe("OAuth for remote servers"),
  headers: z.record(z.string(), z.string()).optional().describe("HTTP headers for remote servers"),
  inheritParentEnv: z.boolean().optional().describe("Inherit the environment of svc, except SVC_*"),
  envFilter: z
    .array(z.string())
    .optional()
    .describe("Patterns that select inherited variables: NAME, PREFIX_*, !NAME, !PREFIX_*; the last match wins"),
  restartOnExit: z.boolean().optional().describe("Supervise a stdio server: restart it when its connection is lost"),
  maxRestarts: z.number().int().min(0).optional().describe("Maximum consecutive restarts (default 5; 0: unlimited)"),
  restartDelay: milliseconds.optional().describe("Milliseconds before the first restart (default 1000)"),
  toolPinning: z
    .enum(["off", "report", "strict"])
    .optional()
    .describe(
      "When a tool changes after it was first seen: report (default) warns, strict hides it until it is approved, off ignores it",
    ),
  idleTimeout: milliseconds
    .optional()
    .describe(
      'Milliseconds after which an unused process of a session ends (isolation "session"; default 600000; 0: never)',
    ),
  maxProcesses: z
    .number()
    .int()
    .min(1)
    .optional()
    .describe('Maximum concurrent processes of sessions (isolation "session"; default 50)'),
  rateLimit: z.number().int().min(1).optional().describe("Calls per minute"),
}

export const defaultsSchema = z.object(shared)

export const serverSchema = z.object({
  ...shared,
  type: z
    .enum(["stdio", ...REMOTE_TRANSPORTS, "streamable-http", "streamable_http", "streamablehttp"])
    .optional()
    .describe("Default: stdio with a command, http with a url; the last three mean streamableHttp"),
  command: z.string().min(1).optional().describe("Command to run"),
  args: z.array(z.string()).optional().describe("Arguments of the command"),
  cwd: z.string().optional().describe("Working directory, relative to the configuration file"),
  stderr: z
    .union([z.enum(["pipe", "overlapped", "inherit", "ignore"]), z.number().int().min(0)], {
      error: "must be pipe, overlapped, inherit, ignore or the number of a file descriptor",
    })
    .optional()
    .describe("pipe (default) and overlapped write to the log, inherit to the terminal; ignore discards"),
  url: z.string().min(1).optional().describe("Address of a remote server"),
  tags: z.array(z.string()).optional().describe("Tags for routing, presets and access control"),
  protocolVersion: z.enum(["legacy", "2026-07-28", "auto"]).optional().describe("MCP era (default auto)"),
  disabled: z
    .union([z.boolean(), z.string()], { error: "must be true, false or a text" })
    .optional()
    .describe("true keeps the server from starting; in a template, also an expression"),
  disabledTools: z.array(z.string()).optional().describe("Tools to hide"),
  toolDescriptionOverrides: z
    .record(z.string().regex(/\S/, "the name of a tool must not be empty"), z.string().regex(/\S/, "must not be blank"))
    .optional()
    .describe("Tool descriptions to show instead, by the server's own tool name"),
  isolation: z.enum(["shared", "session"]).optional().describe("One process for all clients, or one per session"),
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
    .describe("Registry entry that the server was installed from; written by svc, for updates"),
})

export const templateSettingsSchema = z.object({
  validateOnReload: z.boolean().optional().describe("Check all templates whenever the configuration is loaded"),
  failureMode: z
    .enum(["strict", "graceful"])
    .optional()
    .describe("When a template fails: strict rejects the configuration, graceful (default) leaves that template out"),
  cacheContext: z.boolean().optional().describe("Cache rendered templates by the hash of their context"),
})

export type ServerConfig = z.infer<typeof serverSchema>
export type DefaultsConfig = z.infer<typeof defaultsSchema>
export type TemplateSettings = z.infer<typeof templateSettingsSchema>

/** Returns the JSON Schema (2020-12) of mcp.json, for editors. */
export function jsonSchema(): Params {
  const expression = z.string().regex(/\{\{/)
  const template = serverSchema.extend(
    Object.fromEntries(ENUM_KEYS.map((key) => [key, serverSchema.shape[key].or(expression)])),
  )
  const document = z.object({
    $schema: z.string().optional(),
    serverDefaults: defaultsSchema.optional().describe("Defaults for all servers"),
    mcpServers: z.record(z.string(), serverSchema).optional().describe("Servers by name"),
    mcpTemplates: z.record(z.string(), template).optional().describe("Servers rendered per project and client"),
    templateSettings: templateSettingsSchema.optional().describe("How templates are processed"),
    registries: registriesSchema.optional().describe("Registries to search and install from, in this order"),
  })
  return { title: "svc configuration", ...z.toJSONSchema(document, { target: "draft-2020-12", io: "input" }) } as Params
}

/** Keys that one kind of server alone supports. spec: serverDefaults, merge rules 5 and 6; Server object. */
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

/** Returns the transport of a server, each under one name; undefined with neither type, command nor url. */
export function transportOf(config: Pick<ServerConfig, "type" | "command" | "url">): Transport | undefined {
  switch (config.type) {
    case undefined:
      if (config.command !== undefined) return "stdio"
      return config.url === undefined ? undefined : "http"
    case "streamable-http":
    case "streamable_http":
    case "streamablehttp":
      return "streamableHttp"
    default:
      return config.type
  }
}

/** Keys whose values are a fixed set. In a template the value may be an expression, and is checked when it is rendered. */
export const ENUM_KEYS = ["type", "stderr", "protocolVersion", "isolation", "toolPinning"] as const
