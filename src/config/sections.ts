/** Reads the sections of mcp.json: typed values, and issues for invalid and unknown parts. */
import type * as z from "zod"
import { ConfigError, type Issue } from "../lib/errors.ts"
import { lazy } from "../lib/lazy.ts"
import { nearest } from "../lib/nearest.ts"
import { schemaProblem } from "../lib/schema-problem.ts"
import { isObject, type Params } from "../wire/message.ts"
import { type Document, issueAt, type Path, unknownKeys } from "./document.ts"
import { schemas } from "./lazy-schema.ts"
import { isPlainServer } from "./plain-server.ts"
import type { DefaultsConfig, ServerConfig, TemplateSettings } from "./schema.ts"
import { ENUM_KEYS, REMOTE_ONLY, STDIO_ONLY, transportOf } from "./server-keys.ts"

/** The sections of a document, under their own names. `servers` is what VS Code calls `mcpServers`. */
export type Sections = {
  readonly defaults: DefaultsConfig
  readonly servers: readonly NamedServer[]
  readonly templates: readonly NamedServer[]
  readonly settings: TemplateSettings
  readonly issues: readonly Issue[]
}

/** A server of a section; `config` is undefined if it is invalid. */
export type NamedServer = { readonly name: string; readonly path: Path; readonly config: ServerConfig | undefined }

/**
 * Reads the sections of a document. An invalid server becomes an issue; throws a ConfigError if a section that all servers
 * share is invalid.
 */
export function readSections(document: Document): Sections {
  const { value } = document
  const issues: Issue[] = [...document.issues, ...unknownKeys(document, value, TOP_LEVEL, [])]
  const warn = (code: string, path: Path, message: string, server?: string) =>
    issues.push(issueAt(document, "warning", code, path, message, server))
  const issueOf = (problem: Problem, at: Path, server?: string): Issue => {
    const path = [...at, ...(problem.path as Path)]
    return issueAt(document, "error", "type", path, explain(problem, path), server)
  }

  // A faulty registry or target of notifications must not stop the servers.
  for (const key of ["registries", "notify"] as const)
    if (value[key] !== undefined)
      for (const problem of schemas()[`${key}Schema`]().safeParse(value[key], { error: schemaProblem }).error?.issues ??
        [])
        issues.push(issueOf(problem, [key]))

  if (value.allowCommands !== undefined && typeof value.allowCommands !== "boolean")
    issues.push(issueAt(document, "error", "type", ["allowCommands"], "allowCommands must be true or false"))

  /** Reads a section; a document without it needs no schema. */
  const section = <T extends object>(
    key: string,
    schemaOf: (all: Schemas) => z.ZodObject,
  ): T | Record<never, never> => {
    const raw = value[key] ?? undefined
    if (raw === undefined) return {}
    const schema = schemaOf(schemas())
    const parsed = schema.safeParse(raw, { error: schemaProblem })
    if (!parsed.success) throw new ConfigError(parsed.error.issues.map((problem) => issueOf(problem, [key])))
    warnUnknown(raw, schema, [key])
    return parsed.data as T
  }
  const warnUnknown = (raw: unknown, schema: z.ZodObject, path: Path, server?: string) =>
    issues.push(...unknownKeys(document, without(raw, IGNORED_KEYS), Object.keys(schema.shape), path, server))
  const withIdleWarnings = (config: ServerConfig, path: Path, name: string): ServerConfig => {
    for (const key of idleKeys(config)) warn("idle_key", [...path, key], idleMessage(key, config), name)
    return config
  }
  /**
   * Leaves out members of `oauth` that other applications write, with a warning. One that resembles a member of svc stays, and is
   * an error: it may be a misspelt secret.
   */
  const withKnownOAuth = (server: Params, path: Path, name: string): Params => {
    const { oauth } = server
    if (!isObject(oauth)) return server
    const known = Object.keys(schemas().oauthSchema().shape)
    const foreign = Object.entries(oauth).filter(([key]) => !known.includes(key) && nearest(key, known) === undefined)
    if (foreign.length === 0) return server
    const found = Object.fromEntries(foreign)
    issues.push(...unknownKeys(document, found, known, [...path, "oauth"], name))
    return { ...server, oauth: without(oauth, Object.keys(found)) }
  }
  /** Leaves out members named `__proto__`, which no map of svc can hold, with a warning. */
  const withPlainNames = (server: Params, path: Path, name: string): Params => {
    const odd = Object.entries(server).filter(([, part]) => isObject(part) && Object.hasOwn(part, "__proto__"))
    if (odd.length === 0) return server
    for (const [key] of odd) warn("name", [...path, key], `${key}: svc ignores the name "__proto__"`, name)
    return { ...server, ...Object.fromEntries(odd.map(([key, part]) => [key, without(part, ["__proto__"])])) }
  }
  const named = (key: string): NamedServer[] => {
    const raw = value[key]
    if (raw === undefined) return []
    if (!isObject(raw))
      throw new ConfigError([issueAt(document, "error", "type", [key], `${key} must be an object of servers by name`)])
    return Object.entries(raw).map(([name, server]) => {
      const path = [key, name]
      const renamed = isObject(server)
        ? withPlainNames(withKnownOAuth(withAliases(server), path, name), path, name)
        : server
      const plain = without(renamed, IGNORED_KEYS)
      if (isPlainServer(plain)) return { name, path, config: withIdleWarnings(plain, path, name) }
      const { serverSchema } = schemas()
      // Checked when the template is rendered.
      const expressions = key === "mcpTemplates" ? expressionsIn(renamed) : {}
      const parsed = serverSchema().safeParse(without(renamed, Object.keys(expressions)), { error: schemaProblem })
      warnUnknown(renamed, serverSchema(), path, name)
      if (parsed.success)
        return { name, path, config: { ...withIdleWarnings(parsed.data, path, name), ...expressions } }
      issues.push(...parsed.error.issues.map((problem) => issueOf(problem, path, name)))
      return { name, path, config: undefined }
    })
  }
  const servers = named("mcpServers")
  for (const { name, path, config } of servers)
    if (typeof config?.disabled === "string" && !SWITCH.test(config.disabled.trim()) && !config.disabled.includes("{{"))
      warn(
        "disabled",
        [...path, "disabled"],
        "disabled is neither true nor false: the server runs; write true or false",
        name,
      )
  const names = new Set(servers.map(({ name }) => name))
  for (const server of named("servers")) {
    if (!names.has(server.name)) servers.push(server)
    else warn("duplicate_name", server.path, `${server.name} is also in mcpServers, which wins`)
  }
  return {
    defaults: section<DefaultsConfig>("serverDefaults", ({ defaultsSchema }) => defaultsSchema()),
    settings: section<TemplateSettings>("templateSettings", ({ templateSettingsSchema }) => templateSettingsSchema()),
    servers,
    templates: named("mcpTemplates"),
    issues,
  }
}

/** Keys that other applications write into the same format and that svc ignores silently. */
export const IGNORED_KEYS: readonly string[] = [
  "$schema",
  "description",
  "name",
  "alwaysAllow",
  "autoApprove",
  "disabledReason",
]

/** Renames the keys that other applications use for `url`. */
export function withAliases(server: Params): Params {
  if (server.url !== undefined) return server
  const { serverUrl, httpUrl, ...rest } = server
  const url = serverUrl ?? httpUrl
  return url === undefined ? server : { ...rest, url }
}

/** Whether svc connects to the url of a server as written, and does not run its command. Follows the rule of `plan`. */
export function isRemote(server: Params): boolean {
  const { type, command, url } = withAliases(server)
  const parsed = TARGET().safeParse({ type, command, url })
  // A template's type may be an expression: its command may run.
  if (!parsed.success) return command === undefined
  const transport = transportOf(parsed.data)
  return transport !== undefined && transport !== "stdio"
}

// ---

const TARGET = lazy(() => schemas().serverSchema().pick({ type: true, command: true, url: true }))

const TOP_LEVEL = [
  "$schema",
  "serverDefaults",
  "mcpServers",
  "servers",
  "mcpTemplates",
  "templateSettings",
  "inputs",
  "registries",
  "notify",
  "allowCommands",
]

/** Returns the keys that have no effect with the server's transport, except those with empty values. */
function idleKeys(config: ServerConfig): readonly string[] {
  const transport = transportOf(config)
  if (transport === undefined) return []
  return (transport === "stdio" ? REMOTE_ONLY : STDIO_ONLY).filter((key) => {
    const value = config[key]
    return typeof value === "object" ? Object.keys(value).length > 0 : value !== undefined && value !== false
  })
}

function idleMessage(key: string, { command, url }: ServerConfig): string {
  if ((key === "command" || key === "url") && command !== undefined && url !== undefined)
    return `${key} is ignored: this server has both a command and a url, and only the ${key === "url" ? "command" : "url"} is used; remove one of them`
  return `${key} has no effect on this kind of server and is ignored`
}

/** Returns the members of a template with enumerated keys that are expressions. */
function expressionsIn(template: unknown): Partial<ServerConfig> {
  if (!isObject(template)) return {}
  const found = ENUM_KEYS.filter((key) => typeof template[key] === "string" && template[key].includes("{{"))
  return Object.fromEntries(found.map((key) => [key, template[key]]))
}

const without = (server: unknown, keys: readonly string[]): unknown =>
  isObject(server) ? Object.fromEntries(Object.entries(server).filter(([key]) => !keys.includes(key))) : server

/** The valid strings for `disabled` outside of templates. */
const SWITCH = /^(?:true|1|yes|on|false|0|no|off|)$/i

type Schemas = ReturnType<typeof schemas>

type Problem = z.core.$ZodIssue

/** Describes a problem without the value, which may be a secret. */
function explain(problem: Problem, path: Path): string {
  const where = path.join(".")
  if (problem.code === "unrecognized_keys") {
    const [key = ""] = problem.keys
    const near = nearest(key, Object.keys(schemas().oauthSchema().shape))
    return `${where}: unknown key "${key}"${near === undefined ? "" : `; did you mean "${near}"?`}`
  }
  if (problem.code === "invalid_key") return `${where}: ${problem.issues.map(({ message }) => message).join("; ")}`
  return `${where}: ${problem.message}`
}
