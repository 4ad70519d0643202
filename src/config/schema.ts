/** The format of mcp.json: one schema gives the types, the errors and the published JSON Schema. spec: Configuration file. */

import * as z from "zod"
import { lazy } from "../lib/lazy.ts"
import { visible } from "../lib/log.ts"
import { typeName } from "../lib/schema-problem.ts"
import { isObject, type Params } from "../wire/message.ts"
import { parseResultBudget, RESULT_BUDGET_FORM } from "./result-budget.ts"
import { ENUM_KEYS } from "./server-keys.ts"
import { REMOTE_TRANSPORTS } from "./server-spec.ts"
import { TOOL_LISTINGS } from "./tool-listing.ts"

const milliseconds = lazy(() =>
  z
    .number({ error: ({ input }) => (typeof input === "string" ? millisecondsProblem(input) : undefined) })
    .min(0)
    .max(2 ** 31 - 1),
)

/** At least 1: with 0, every request would fail. */
const timeout = lazy(() => milliseconds().min(1))

export const resultBudgetSchema = lazy(() =>
  z
    .union([z.number(), z.string()], { error: RESULT_BUDGET_FORM })
    .refine((written) => parseResultBudget(written) !== undefined, RESULT_BUDGET_FORM),
)

/** Returns what is wrong with the environment of a server, with the name of the variable. */
function envProblem(env: unknown): string {
  const problem = (name: string, forms: string, value: unknown) =>
    `${name} must be ${forms}, not ${typeName(value) ?? "a number"}`
  const isValue = (value: unknown) => ["string", "number", "boolean"].includes(typeof value)
  if (Array.isArray(env)) {
    const at = env.findIndex((entry) => typeof entry !== "string")
    if (at >= 0) return problem(`entry ${at + 1}`, "a string", env[at])
  }
  const [name, value] = isObject(env) ? (Object.entries(env).find(([, value]) => !isValue(value)) ?? []) : []
  if (name !== undefined) return problem(visible(name), "a string, a number or a boolean", value)
  return "must be an object of names and values, or an array of NAME=value and NAME"
}

const env = lazy(() =>
  z
    .union([z.record(z.string(), z.union([z.string(), z.number(), z.boolean()])), z.array(z.string())], {
      error: ({ input }) => envProblem(input),
    })
    .describe(
      "Environment variables, as an object or as an array of NAME=value and NAME; a bare NAME takes its value from the environment of svc or from .env",
    ),
)

export const oauthSchema = lazy(() =>
  z.strictObject({
    clientId: z.string().optional().describe("Client ID of svc at the authorization server"),
    clientSecret: z
      .string()
      .optional()
      .describe("Client secret; use a reference such as ${NAME} rather than the secret itself"),
    scopes: z.array(z.string()).optional().describe("Scopes to request (default: the scopes that the server requires)"),
    autoRegister: z
      .boolean()
      .optional()
      .describe("Register dynamically if the authorization server supports it (default true)"),
    redirectUrl: z.string().optional().describe("Redirect URI to which the browser returns after the sign-in"),
    grantType: z
      .enum(["authorization_code", "client_credentials", "jwt-bearer", "token-exchange"])
      .optional()
      .describe(
        "authorization_code (default) requires a sign-in with a browser. The other grants do not: client_credentials uses svc's own client, jwt-bearer an assertion from the platform (workload identity), token-exchange the user's ID token (enterprise-managed authorization)",
      ),
    tokenEndpointAuthMethod: z
      .enum(["none", "client_secret_basic", "client_secret_post", "private_key_jwt"])
      .optional()
      .describe(
        "Client authentication at the token endpoint; for private_key_jwt, clientSecret is the private key in PEM format",
      ),
    assertion: z
      .string()
      .optional()
      .describe("For jwt-bearer: the assertion, a JWT for the authorization server; use a reference such as ${NAME}"),
    assertionFile: z
      .string()
      .optional()
      .describe(
        "For jwt-bearer: the file with the assertion, relative to the configuration file; svc reads it for each token request",
      ),
    identityProvider: z
      .string()
      .optional()
      .describe("For token-exchange: issuer URL of the identity provider that exchanges the ID token"),
    identityProviderClientId: z
      .string()
      .optional()
      .describe("For token-exchange: client ID of svc at the identity provider"),
    identityProviderClientSecret: z
      .string()
      .optional()
      .describe("For token-exchange: client secret at the identity provider, if it requires one; use a reference"),
    subjectToken: z
      .string()
      .optional()
      .describe("For token-exchange: the user's ID token of the identity provider; use a reference"),
    subjectTokenFile: z
      .string()
      .optional()
      .describe(
        "For token-exchange: the file with the ID token, relative to the configuration file; svc reads it for each token request",
      ),
    dpopBoundAccessTokens: z
      .boolean()
      .optional()
      .describe(
        "Bind tokens to a key with DPoP (RFC 9449): true requires it, false disables it (default: use it if the server asks for it or supports it)",
      ),
  }),
)

const shared = lazy(() => ({
  env: env().optional(),
  timeout: timeout().optional().describe("Deprecated: sets both connectionTimeout and requestTimeout"),
  connectionTimeout: timeout().optional().describe("Milliseconds allowed for connecting, initializing and listing"),
  requestTimeout: timeout()
    .optional()
    .describe("Milliseconds allowed for one request; a progress notification restarts the timer"),
  unresponsiveTimeout: milliseconds()
    .optional()
    .describe(
      "Milliseconds that requests may wait while the server sends nothing at all; svc then ends its process and treats the server as lost (default 0: never; svc reopens the connection to a remote server after 60000)",
    ),
  oauth: oauthSchema().optional().describe("OAuth for remote servers"),
  headers: z.record(z.string(), z.string()).optional().describe("HTTP headers for remote servers"),
  inheritParentEnv: z
    .boolean()
    .optional()
    .describe(
      "Variables that the server inherits in addition to a safe set (HOME, PATH and the like). true: all except SVC_*, or only those that envFilter includes; false: none; not set: those that envFilter includes",
    ),
  envFilter: z
    .array(z.string())
    .optional()
    .describe(
      "Patterns that include or exclude (!) inherited variables: NAME, PREFIX_*, !NAME, !PREFIX_*; the last match wins",
    ),
  restartOnExit: z
    .boolean()
    .optional()
    .describe("Supervise the server: restart it when it exits or its connection is lost"),
  maxRestarts: z.number().int().min(0).optional().describe("Maximum consecutive restarts (default 5; 0: unlimited)"),
  restartDelay: milliseconds().optional().describe("Milliseconds before the first restart (default 1000)"),
  toolPinning: z
    .enum(["off", "report", "strict"])
    .optional()
    .describe(
      "What svc does when the definition of a tool changes: report (default) warns, strict hides the tool until you approve it, off ignores the change",
    ),
  idleTimeout: milliseconds()
    .optional()
    .describe(
      'Milliseconds without a call after which svc ends the process of a stdio server; the next call starts it again (0: never). With isolation "session", the process of a session (default 600000); otherwise only if it is set',
    ),
  start: z
    .enum(["eager", "lazy"])
    .optional()
    .describe(
      "When svc starts a stdio server: eager (default) at once; lazy when a client needs it, and once before to list what it offers",
    ),
  stateful: z
    .boolean()
    .optional()
    .describe("true: the process keeps state between calls, so svc never ends it for being idle"),
  maxProcesses: z
    .number()
    .int()
    .min(1)
    .optional()
    .describe('With isolation "session": maximum number of concurrent processes (default 50)'),
  rateLimit: z.number().int().min(1).optional().describe("Maximum calls per minute (default: no limit)"),
  resultBudget: resultBudgetSchema()
    .optional()
    .describe(
      'Largest tool result that clients get whole, in characters or as "4000 tokens"; svc stores larger results and answers with a part (0: no limit; default: --result-budget)',
    ),
}))

const searchHint = lazy(() => z.string().regex(/\S/, "must not be blank"))

const toolOverrideSchema = lazy(() =>
  z.strictObject({
    title: z.string().regex(/\S/, "must not be blank").optional().describe("Title for display"),
    annotations: z
      .strictObject({
        readOnlyHint: z.boolean().optional(),
        destructiveHint: z.boolean().optional(),
        idempotentHint: z.boolean().optional(),
        openWorldHint: z.boolean().optional(),
      })
      .optional()
      .describe("Annotations that replace the tool's own ones of the same names"),
    searchHint: searchHint().optional().describe('Search terms for the tool: _meta["anthropic/searchHint"]'),
    alwaysLoad: z
      .boolean()
      .optional()
      .describe('Whether clients load the tool at once rather than on demand: _meta["anthropic/alwaysLoad"]'),
  }),
)

export const defaultsSchema = lazy(() => z.object(shared()))

export const serverSchema = lazy(() =>
  z.object({
    ...shared(),
    type: z
      .enum(["stdio", ...REMOTE_TRANSPORTS, "streamable-http", "streamable_http", "streamablehttp"])
      .optional()
      .describe(
        "Transport (default: stdio with a command, http with a url); the last three values mean streamableHttp",
      ),
    command: z.string().min(1).optional().describe("Command to run"),
    args: z.array(z.string()).optional().describe("Arguments of the command"),
    cwd: z.string().optional().describe("Working directory, relative to the configuration file"),
    stderr: z
      .union([z.enum(["pipe", "overlapped", "inherit", "ignore"]), z.number().int().min(0)], {
        error: "must be pipe, overlapped, inherit, ignore or the number of a file descriptor",
      })
      .optional()
      .describe(
        "Where the stderr of the server goes: to the log (pipe, the default, and overlapped), to the stderr of svc (inherit), to a file descriptor (its number) or nowhere (ignore)",
      ),
    url: z.string().min(1).optional().describe("URL of a remote server"),
    tags: z.array(z.string()).optional().describe("Tags for routing, presets and access control"),
    protocolVersion: z
      .enum(["legacy", "2026-07-28", "auto"])
      .optional()
      .describe("Protocol era: legacy (2025 revisions), 2026-07-28, or auto (default) to detect it"),
    disabled: z
      .union([z.boolean(), z.string()], { error: "must be true, false or a string" })
      .optional()
      .describe("true: do not run the server; in a template, may also be an expression"),
    disabledTools: z
      .array(z.string())
      .optional()
      .describe("Tools to hide, by the server's own tool names or as SERVER_svc_TOOL"),
    toolDescriptionOverrides: z
      .record(
        z.string().regex(/\S/, "the name of a tool must not be empty"),
        z.string().regex(/\S/, "must not be blank"),
      )
      .optional()
      .describe("Replacements for tool descriptions, by the server's own tool names or as SERVER_svc_TOOL"),
    toolOverrides: z
      .record(z.string().regex(/\S/, "the name of a tool must not be empty"), toolOverrideSchema())
      .optional()
      .describe(
        "Replacements for title, annotations, searchHint and alwaysLoad of tools, by the server's own tool names or as SERVER_svc_TOOL",
      ),
    alwaysLoad: z
      .boolean()
      .optional()
      .describe(
        "For clients that load tools on demand: whether to load all tools of the server at once; toolOverrides wins",
      ),
    searchHint: searchHint()
      .optional()
      .describe("For clients that load tools on demand: search terms for the tools of the server; toolOverrides wins"),
    alwaysVisible: z
      .array(z.string())
      .optional()
      .describe(
        "Tools that stay listed in lazy views, by the server's own tool names or as SERVER_svc_TOOL; * matches any characters",
      ),
    isolation: z
      .enum(["shared", "session"])
      .optional()
      .describe("shared (default): one process for all clients; session: one process per client session"),
    replicas: z
      .enum(["all", "one"])
      .optional()
      .describe(
        "With --cluster: all (default): each replica runs the server; one: only one replica at a time runs it, for all of them",
      ),
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
      .describe("Registry entry that the server was installed from; svc writes it, for updates"),
  }),
)

/** The value of `registries`: see registries.ts. */
export const registriesSchema = lazy(() =>
  z.array(
    z.object({
      name: z
        .string()
        .regex(/^[\w.-]+$/, "must be a name of letters, digits, dots and dashes")
        .describe("Name of the registry"),
      url: z
        .url({ protocol: /^https?$/ })
        .describe("URL of the registry, without /v0.1; use a reference such as ${NAME} for what is secret in it"),
      headers: z.record(z.string(), z.string()).optional().describe("HTTP headers, for example for a token: ${NAME}"),
      disabled: z.boolean().optional().describe("true: do not use the registry"),
    }),
  ),
)

/** What svc notifies people of; `on` of a target chooses among them. */
export const ALERT_KINDS = [
  "sign-in",
  "crash-loop",
  "server-down",
  "tools-changed",
  "configuration",
  "token-expiry",
] as const

/** The value of `notify`: see notify.ts. */
export const notifySchema = lazy(() =>
  z
    .array(
      z
        .strictObject({
          url: z
            .string()
            .min(1)
            .optional()
            .describe("Address of a webhook; use a reference such as ${NAME} if it is secret"),
          secret: z
            .string()
            .min(1)
            .optional()
            .describe("Key with which svc signs requests to the webhook (Standard Webhooks); use a reference"),
          headers: z.record(z.string(), z.string()).optional().describe("HTTP headers for the webhook"),
          command: z
            .string()
            .min(1)
            .optional()
            .describe(
              "Command to run instead, if allowCommands is true; it gets the notification on stdin and in SVC_NOTIFY_*",
            ),
          args: z.array(z.string()).optional().describe("Arguments of the command"),
          on: z.array(z.enum(ALERT_KINDS)).min(1).optional().describe("What to notify of (default: everything)"),
          downAfter: timeout()
            .optional()
            .describe("Milliseconds without a server before server-down is sent (default 300000)"),
        })
        .refine(
          ({ url, command }) => (url === undefined) !== (command === undefined),
          "needs a url or a command, and not both",
        ),
    )
    .max(20),
)

const glob = lazy(() => z.string().min(1, "must not be empty").max(1000))

/** A preset of presets.json. */
export const presetSchema = lazy(() =>
  z.object({
    filter: z.string().optional(),
    description: z.string().optional(),
    servers: z.array(glob()).optional(),
    allow: z.array(glob()).optional(),
    deny: z.array(glob()).optional(),
    readOnly: z.boolean().optional(),
    names: z
      .record(
        z.string().regex(/^[^/]+\/[^/]/, 'must be "server/tool"'),
        z.string().regex(/^[A-Za-z0-9_.-]{1,128}$/, "must be 1 to 128 letters, digits, dots, dashes or underscores"),
      )
      .optional(),
    prefix: z
      .string()
      .regex(/^[A-Za-z0-9_.-]{1,64}$/, 'must be "server", "none", or letters, digits, dots, dashes and underscores')
      .optional(),
    separator: z
      .string()
      .regex(/^[A-Za-z0-9_.-]{1,16}$/, "must be letters, digits, dots, dashes or underscores")
      .optional(),
    new: z.enum(["show", "hold"]).optional(),
    approved: z.array(z.string()).optional(),
    groups: z.array(z.string().min(1, "must not be empty")).max(1000).optional(),
    limits: z.record(z.string().regex(/^[^/]+\/[^/]/, 'must be "server/tool"'), z.number().int().min(1)).optional(),
    tools: z.enum(TOOL_LISTINGS).optional(),
    alwaysVisible: z.array(z.string()).optional(),
    resultBudget: resultBudgetSchema().optional(),
  }),
)

export const templateSettingsSchema = lazy(() =>
  z.object({
    validateOnReload: z
      .boolean()
      .optional()
      .describe("Check all templates on each reload; a start always checks them (default true)"),
    failureMode: z
      .enum(["strict", "graceful"])
      .optional()
      .describe(
        "What svc does when a template has an error: strict rejects the configuration, graceful (default) leaves the template out",
      ),
    cacheContext: z.boolean().optional().describe("Cache rendered templates by the hash of their context"),
  }),
)

export type ServerConfig = z.infer<ReturnType<typeof serverSchema>>
export type DefaultsConfig = z.infer<ReturnType<typeof defaultsSchema>>
export type PresetConfig = z.infer<ReturnType<typeof presetSchema>>
export type AlertKind = (typeof ALERT_KINDS)[number]
export type TemplateSettings = z.infer<ReturnType<typeof templateSettingsSchema>>

/** Returns the JSON Schema (2020-12) of mcp.json, for editors. */
export function jsonSchema(): Params {
  const expression = z.string().regex(/\{\{/)
  const template = serverSchema().extend(
    Object.fromEntries(ENUM_KEYS.map((key) => [key, serverSchema().shape[key].or(expression)])),
  )
  const document = z.object({
    $schema: z.string().optional(),
    serverDefaults: defaultsSchema().optional().describe("Defaults for all servers"),
    mcpServers: z.record(z.string(), serverSchema()).optional().describe("Servers by name"),
    mcpTemplates: z.record(z.string(), template).optional().describe("Servers rendered per project and client"),
    templateSettings: templateSettingsSchema().optional().describe("How templates are processed"),
    registries: registriesSchema().optional().describe("Registries to search and install from, in this order"),
    notify: notifySchema().optional().describe("Webhooks and commands that svc tells about problems"),
    allowCommands: z
      .boolean()
      .optional()
      .describe(
        "true: svc may run the commands of ${cmd:…} references and of notify; only in mcp.json of the configuration directory (default false)",
      ),
  })
  return { title: "svc configuration", ...z.toJSONSchema(document, { target: "draft-2020-12", io: "input" }) } as Params
}

// ---

/** The units of TIME_TEXT in milliseconds, in the order of its groups. */
const UNITS_MS = [1, 1000, 60_000, 3_600_000, 86_400_000]
const TIME_TEXT = /^(\d{1,9})\s*(?:(ms|milli[a-z]*)|(s|secs?|seconds?)|(m|mins?|minutes?)|(h|hrs?|hours?)|(d|days?))?$/i

/** Describes the mistake of a time with a unit, which other programs accept: "5 minutes". */
function millisecondsProblem(text: string): string {
  const [whole, number, ...units] = TIME_TEXT.exec(text.trim()) ?? []
  if (whole === undefined) return "must be a number of milliseconds"
  const factor = UNITS_MS[units.findIndex((unit) => unit !== undefined)] ?? 1
  return `must be a number of milliseconds: ${Number(number) * factor}, without quotes`
}
