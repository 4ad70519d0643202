/**
 * From the documents and the environment to what is to run. Substitution happens here, before anything is compared: an
 * edit of `.env` replaces exactly the backends whose resolved values moved.
 */
import { isAbsolute, join } from "node:path"
import type { Issue } from "../lib/errors.ts"
import { applyDefaults } from "./defaults.ts"
import type { Document } from "./document.ts"
import { childEnvironment, type Environment } from "./environ.ts"
import { type DefaultsConfig, readSections, type ServerConfig, transportOf } from "./schema.ts"
import { type Launch, type OAuthSettings, type Plan, SEPARATOR, type Spec, type Tuning } from "./spec.ts"
import { substitute } from "./substitute.ts"

/** The surroundings of a plan. */
export type World = {
  readonly parent: Environment
  readonly dotenv: Environment
  readonly platform: string
  readonly home: string
  /** The folder of the configuration file. */
  readonly folder: string
}

/** One server as it is to run, or what is wrong with it. Messages name no values. */
export type Planned = { readonly spec: Spec } | { readonly problems: readonly string[] }

/** The plan of a document. Throws a ConfigError where what all servers share is wrong. spec: Configuration file. */
export function plan(document: Document, world: World): Plan {
  const { defaults, servers, templates, issues: found } = readSections(document)
  const issues: Issue[] = [...found]
  const specs: Spec[] = []
  const disabled: string[] = []
  const slugs = new Map<string, string>()
  const templated = new Set(templates.map(({ name }) => name))
  for (const { name, path, config } of servers) {
    if (config === undefined || templated.has(name)) continue
    const leave = (code: string, message: string) =>
      issues.push({
        code,
        severity: "error",
        message: `${name} is left out: ${message}`,
        path,
        server: name,
        file: document.file,
        ...document.locate(path),
      })
    if (isDisabled(config)) {
      disabled.push(name)
      continue
    }
    const planned = planServer(name, name, config, defaults, world)
    if ("problems" in planned) {
      for (const problem of planned.problems) leave("server", problem)
      continue
    }
    const taken = slugs.get(planned.spec.slug)
    if (taken !== undefined) {
      leave("name", `its name falls together with "${taken}" in tool names; rename one of them`)
      continue
    }
    slugs.set(planned.spec.slug, name)
    specs.push(planned.spec)
  }
  return { specs, disabled, issues }
}

/** Plans one server, already rendered, under an id. */
export function planServer(
  id: string,
  name: string,
  written: ServerConfig,
  defaults: DefaultsConfig,
  world: World,
): Planned {
  const transport = transportOf(written)
  if (transport === undefined) return { problems: ["it needs a command or a url"] }
  if (name === "" || name.includes(SEPARATOR))
    return { problems: [`its name must not be empty or contain "${SEPARATOR}"`] }
  const { config } = applyDefaults(written, defaults, transport)
  const problems: string[] = []
  const secrets = new Set<string>()
  const resolve = (text: string, where: string): string => {
    const {
      text: value,
      missing,
      values,
    } = substitute(text, (variable) => world.parent[variable] ?? world.dotenv[variable])
    for (const variable of missing)
      problems.push(`${where} refers to ${variable}, which is set neither in the environment nor in .env`)
    for (const secret of values) secrets.add(secret)
    // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
    if (/[\u0000\r\n]/.test(value) && where !== "env")
      problems.push(`${where} has a line break or a NUL character in it`)
    return value
  }
  const launch =
    transport === "stdio"
      ? planChild(config, world, resolve, problems, secrets)
      : planRemote(transport, config, resolve, problems, secrets)
  if (problems.length > 0 || launch === undefined) return { problems: [...new Set(problems)] }
  return {
    spec: {
      id,
      name,
      slug: slugOf(name),
      launch,
      tuning: planTuning(config, transport),
      secrets: [...secrets].filter((secret) => secret.length >= MIN_SECRET),
    },
  }
}

/** A server's name in tool names and URLs. */
export const slugOf = (name: string): string => name.replace(/[^A-Za-z0-9._-]/g, "-")

/** choice: `disabled` as a rendered string. */
export function isDisabled({ disabled }: ServerConfig): boolean {
  return typeof disabled === "string" ? /^(true|1|yes|on)$/i.test(disabled.trim()) : disabled === true
}

/** Values of names like these are secret even when they are written out. */
export const SECRET_NAME = /(key|token|secret|passw|credential|auth|cookie|session|private|dsn|connection_?string)/i

// ---

type Resolve = (text: string, where: string) => string

const MIN_SECRET = 6
/** `npx` and `uvx` fetch a package at the first start. */
const CONNECTION_MS = { stdio: 60_000, remote: 15_000 }
const REQUEST_MS = 60_000
const MAX_RESTARTS = 5
const RESTART_MS = 1000

function planChild(
  config: ServerConfig,
  world: World,
  resolve: Resolve,
  problems: string[],
  secrets: Set<string>,
): Launch | undefined {
  if (config.command === undefined) {
    problems.push("a stdio server needs a command")
    return undefined
  }
  const declared: Record<string, string> = {}
  const declare = (name: string, value: string) => {
    // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
    if (!/^[^=\u0000\s]+$/.test(name)) problems.push("env has a name that no environment can have")
    if (value.includes("\0")) problems.push(`env.${name} has a NUL character in it`)
    if (SECRET_NAME.test(name)) secrets.add(value)
    declared[name] = value
  }
  if (Array.isArray(config.env)) {
    for (const entry of config.env) {
      const at = entry.indexOf("=")
      if (at >= 0) declare(entry.slice(0, at), resolve(entry.slice(at + 1), "env"))
      else {
        const value = world.parent[entry] ?? world.dotenv[entry]
        if (value === undefined)
          problems.push(`env names ${entry}, which is set neither in the environment nor in .env`)
        else {
          secrets.add(value)
          declare(entry, value)
        }
      }
    }
  } else for (const [name, value] of Object.entries(config.env ?? {})) declare(name, resolve(String(value), "env"))
  const cwd = config.cwd === undefined ? undefined : absolute(resolve(config.cwd, "cwd"), world)
  return {
    transport: "stdio",
    command: expandHome(resolve(config.command, "command"), world),
    args: (config.args ?? []).map((arg, index) => resolve(arg, `args[${index}]`)),
    cwd,
    env: childEnvironment({
      platform: world.platform,
      parent: world.parent,
      dotenv: world.dotenv,
      inheritParentEnv: config.inheritParentEnv ?? false,
      envFilter: config.envFilter ?? [],
      declared,
    }),
    stderr: config.stderr ?? "pipe",
    mode: config.protocolVersion ?? "auto",
  }
}

function planRemote(
  transport: "http" | "sse" | "streamableHttp",
  config: ServerConfig,
  resolve: Resolve,
  problems: string[],
  secrets: Set<string>,
): Launch | undefined {
  if (config.url === undefined) {
    problems.push("a remote server needs a url")
    return undefined
  }
  const url = resolve(config.url, "url")
  const parsed = URL.canParse(url) ? new URL(url) : undefined
  if (parsed === undefined || (parsed.protocol !== "http:" && parsed.protocol !== "https:"))
    problems.push("url must be an http or https address")
  if (parsed !== undefined && parsed.password !== "") secrets.add(decodeURIComponent(parsed.password))
  const headers: Record<string, string> = {}
  for (const [name, value] of Object.entries(config.headers ?? {})) {
    if (!/^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/.test(name)) problems.push("headers has a name that no HTTP header can have")
    const resolved = resolve(value, `headers.${name}`)
    secrets.add(resolved)
    headers[name.toLowerCase()] = resolved
  }
  const { oauth } = config
  const settings: Record<string, unknown> = {}
  for (const [key, value] of Object.entries(oauth ?? {}))
    settings[key] =
      typeof value === "string"
        ? resolve(value, `oauth.${key}`)
        : Array.isArray(value)
          ? value.map((scope) => resolve(scope, `oauth.${key}`))
          : value
  if (typeof settings.clientSecret === "string") secrets.add(settings.clientSecret)
  return {
    transport,
    url,
    headers,
    oauth: oauth === undefined ? undefined : (settings as OAuthSettings),
    mode: config.protocolVersion ?? "auto",
  }
}

function planTuning(config: ServerConfig, transport: Launch["transport"]): Tuning {
  const stdio = transport === "stdio"
  return {
    tags: config.tags ?? [],
    disabledTools: config.disabledTools ?? [],
    toolDescriptionOverrides: config.toolDescriptionOverrides ?? {},
    connectionTimeout:
      config.connectionTimeout ?? config.timeout ?? (stdio ? CONNECTION_MS.stdio : CONNECTION_MS.remote),
    requestTimeout: config.requestTimeout ?? config.timeout ?? REQUEST_MS,
    restart: {
      kind: !stdio ? "reconnect" : config.restartOnExit === true ? "supervised" : "never",
      limit: config.maxRestarts ?? MAX_RESTARTS,
      delay: config.restartDelay ?? RESTART_MS,
    },
    isolation: config.isolation ?? "shared",
  }
}

function expandHome(path: string, { home }: World): string {
  return path === "~" ? home : path.startsWith("~/") ? join(home, path.slice(2)) : path
}

function absolute(path: string, world: World): string {
  const expanded = expandHome(path, world)
  return isAbsolute(expanded) ? expanded : join(world.folder, expanded)
}
