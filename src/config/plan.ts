/**
 * Plans what runs, from the documents and the environment. Substitution happens here, before plans are compared: an edit of
 * `.env` replaces exactly the backends whose resolved values changed.
 */

import { posix, win32 } from "node:path"
import type { Issue } from "../lib/errors.ts"
import { mapStrings } from "../lib/json.ts"
import { visible } from "../lib/log.ts"
import { createRedactor } from "../lib/redact.ts"
import { isSecretName } from "../lib/secret-names.ts"
import { isObject } from "../wire/message.ts"
import { headerCredentials, urlCredentials } from "./credentials.ts"
import { applyDefaults } from "./defaults.ts"
import { type Document, issueAt, type Path } from "./document.ts"
import { CONTROL } from "./dotenv.ts"
import { childEnvironment, type EnvironmentSources, idleFilterReason, lookUpVariable, schemeOf } from "./environment.ts"
import { keysIn, keyText } from "./found-keys.ts"
import { isSecretSetting, settingsProblems } from "./oauth-settings.ts"
import { type OwnService, selfProblem } from "./own-service.ts"
import { parseResultBudget } from "./result-budget.ts"
import type { DefaultsConfig, ServerConfig } from "./schema.ts"
import { type NamedServer, readSections } from "./sections.ts"
import { SUBSTITUTED_KEYS, transportOf } from "./server-keys.ts"
import {
  type IdleServer,
  type Launch,
  type OAuthSettings,
  type Plan,
  type RemoteTransportType,
  SEPARATOR,
  type ServerSpec,
  slugOf,
  type Tuning,
} from "./server-spec.ts"
import { foreignReferences, substitute } from "./substitution.ts"

/** The inputs of a plan besides the documents. */
export type HostEnvironment = EnvironmentSources & {
  readonly home: string
  /** The folder of the configuration file. */
  readonly folder: string
  /** How servers sleep whose configuration does not say it. */
  readonly sleep?: { readonly lazy: boolean; readonly idleTimeout: number | undefined } | undefined
  /** This svc, which must not serve itself; undefined to skip the check. */
  readonly own?: OwnService | undefined
}

/** A planned server, or the problems that prevent it. Problems never show values. */
export type Planned =
  | { readonly spec: ServerSpec }
  | {
      readonly problems: readonly string[]
      /** The values that must not be shown although the server does not run. */
      readonly secrets: readonly string[]
    }

/** The last valid form of each entry, by name. */
export type LastValid = {
  readonly servers: ReadonlyMap<string, ServerSpec>
  readonly templates: ReadonlyMap<string, ServerConfig>
}

/**
 * Plans a document, without template instances. A faulty entry becomes an issue. It keeps its form in `last`, unless it is
 * disabled or a variable is not set. Throws a ConfigError if a section that all servers share is faulty.
 * spec: Configuration file.
 */
export function plan(document: Document, world: HostEnvironment, last: LastValid = NOTHING): Plan {
  const { defaults, servers, templates, issues: found } = readSections(document)
  const issues: Issue[] = [...found]
  const specs: ServerSpec[] = []
  const disabled: string[] = []
  const rendered: string[] = []
  const idleSecrets: string[] = []
  const slugs = new Map<string, string>()
  const alike = new Map<string, string>()
  const reject = ({ name, path }: NamedServer, code: string, message: string) =>
    issues.push(issueAt(document, "error", code, path, `${name} is not loaded: ${message}`, name))
  /** Claims the slug of a name. Returns whether it was free: the first server gets it. */
  const claim = (named: NamedServer): boolean => {
    const slug = slugOf(named.name)
    const owner = slugs.get(slug)
    if (owner === undefined) {
      slugs.set(slug, named.name)
      // A dot in a name becomes a hyphen.
      const other = alike.get(slug.replaceAll("_", "-"))
      alike.set(slug.replaceAll("_", "-"), named.name)
      if (other !== undefined && `${other}${named.name}`.includes(".")) {
        const message = `the names of the tools of "${other}" and "${named.name}" differ only in - and _; rename one of them`
        issues.push(issueAt(document, "warning", "name", named.path, message, named.name))
      }
    } else
      reject(named, "name", `"${owner}" and "${named.name}" would give their tools the same names; rename one of them`)
    return owner === undefined
  }
  /** Returns the last valid form of a faulty entry, with a warning, or undefined if the entry is left out. */
  const keep = <T>({ name, path: [section = "", key = ""], config }: NamedServer, forms: ReadonlyMap<string, T>) => {
    const form = forms.get(name)
    const entries = document.value[section]
    const written = config ?? (isObject(entries) ? entries[key] : undefined)
    if (form === undefined || (isObject(written) && isDisabled(written))) return undefined
    const message = `${name} keeps running in its last valid form`
    issues.push(issueAt(document, "warning", "last_valid", [section, key], message, name))
    return form
  }
  /** Adds to the issue of a faulty entry that its server is not loaded: the issue itself names only a key. */
  const leaveOut = ({ name }: NamedServer) => {
    const at = issues.findIndex(({ server, severity }) => server === name && severity === "error")
    const issue = issues[at]
    if (issue !== undefined) issues[at] = { ...issue, message: `${name} is not loaded: ${issue.message}` }
  }
  // The values of references are not needed: their sources may ask a person.
  const closed = { ...world, references: undefined }
  issues.push(...settingWarnings(document, [...templates, ...servers], defaults, world))
  for (const template of templates) {
    const { name } = template
    const config = template.config ?? keep(template, last.templates)
    if (config === undefined) {
      leaveOut(template)
      continue
    }
    // The type may be an expression; command and url show the transport.
    const { type: _expression, ...typeless } = config
    const written = secretsOf(planServer(name, name, typeless, defaults, isDisabled(config) ? closed : world))
    idleSecrets.push(...written.filter((secret) => !EXPRESSION.test(secret)))
    const problem = nameProblem(name)
    if (problem !== undefined) reject(template, "server", problem)
    else if (isDisabled(config)) disabled.push(name)
    else if (config.replicas === "one")
      reject(
        template,
        "server",
        'each replica runs its own instances of a template; remove "replicas": "one", or move the server to mcpServers',
      )
    else if (claim(template)) rendered.push(name)
  }
  // A template shadows a server of the same name, even if the template is disabled or faulty.
  const templated = new Set(templates.map(({ name }) => name))
  for (const server of servers) {
    const { name, config } = server
    if (templated.has(name)) continue
    if (config === undefined) {
      const kept = keep(server, last.servers)
      if (kept === undefined) leaveOut(server)
      else if (claim(server)) specs.push(kept)
      continue
    }
    const planned = planServer(name, name, config, defaults, isDisabled(config) ? closed : world)
    if (isDisabled(config)) disabled.push(name)
    else if ("problems" in planned) {
      const kept = planned.problems.some(isUnset) ? undefined : keep(server, last.servers)
      for (const problem of planned.problems)
        if (kept === undefined) reject(server, "server", problem)
        else issues.push(issueAt(document, "error", "server", server.path, `${name}: ${problem}`, name))
      if (kept !== undefined && claim(server)) specs.push(kept)
    } else if (claim(server)) {
      specs.push(planned.spec)
      continue
    }
    idleSecrets.push(...secretsOf(planned))
  }
  const running = new Set([...specs.map(({ name }) => name), ...rendered])
  const unclaimed = [...templates, ...servers.filter(({ name }) => !templated.has(name))].filter(
    // If another server has the slug, a name with it refers to that server.
    ({ name }) => !running.has(name) && !slugs.has(slugOf(name)),
  )
  const idle = unclaimed.flatMap((entry) => idleServerOf(document, entry, disabled.includes(entry.name), issues) ?? [])
  return { specs, templates: rendered, disabled, idle, issues, idleSecrets }
}

/** Whether the message of a problem or an issue says that a variable, or the answer to a question of VS Code, is not set. */
export const isUnset = (message: string): boolean => message.endsWith(UNSET) || message.endsWith(ASKED)

/** Plans one server under an id; a template must be rendered already. */
export function planServer(
  id: string,
  name: string,
  written: ServerConfig,
  defaults: DefaultsConfig,
  world: HostEnvironment,
): Planned {
  const transport = transportOf(written)
  if (transport === undefined) return { problems: ["it needs a command or a url"], secrets: [] }
  const problem = nameProblem(name)
  if (problem !== undefined) return { problems: [problem], secrets: [] }
  const { config } = applyDefaults(written, defaults, transport)
  const problems: string[] = []
  const { args, env } = config
  // Keys that stand as they are; the others are found below, once references are replaced.
  const secrets = new Set(keysIn({ args, env }).map((key) => keyText({ args, env }, key)))
  const lookUp = (variable: string): string | undefined => {
    const found = lookUpVariable(variable, world)?.value
    if (found !== undefined && !isReadable(variable, found)) secrets.add(found)
    return found
  }
  const resolved = (reference: string, where: string): string => {
    const found = world.references?.(reference)
    if (found === undefined) return `\${${reference}}`
    if ("value" in found) secrets.add(found.value)
    else problems.push(`${where} refers to \${${reference}}, ${found.problem}`)
    return "value" in found ? found.value : ""
  }
  const own = isObject(config.env) ? config.env : {}
  /** Looks up a name in the server's own `env`; within it, only if it is set nowhere else. `open`: the names that are being looked up. */
  const lookUpOwn = (name: string, where: string, open: readonly string[]): string | undefined => {
    const written = Object.hasOwn(own, name) && !open.includes(name) ? own[name] : undefined
    if (written === undefined) return undefined
    const { text, missing } = substitute(String(written), (inner) => lookUpAny(inner, where, [...open, name]))
    return missing.length > 0 ? undefined : text
  }
  const lookUpAny = (name: string, where: string, open: readonly string[]): string | undefined => {
    if (schemeOf(name) !== undefined) return resolved(name, where)
    return open.length > 0
      ? (lookUp(name) ?? lookUpOwn(name, where, open))
      : (lookUpOwn(name, where, open) ?? lookUp(name))
  }
  const resolve: Resolve = (text, where, refused = NUL) => {
    const variable = where.startsWith("env.") ? [where.slice(4)] : []
    const { text: value, missing } = substitute(text, (name) => lookUpAny(name, where, variable))
    for (const name of missing) problems.push(`${where} refers to ${name}${VS_CODE.test(name) ? ASKED : UNSET}`)
    for (const secret of urlCredentials(value)) secrets.add(secret)
    const found = refused.exec(value)?.[0]
    if (found !== undefined)
      problems.push(
        found > "\xff"
          ? `${where} contains a character outside Latin-1, which no header can contain: write it as the server expects, for example percent-encoded`
          : `${where} contains a control character that is not allowed there`,
      )
    return value
  }
  const launch =
    transport === "stdio"
      ? planChild(config, world, resolve, problems, secrets)
      : planRemote(transport, config, world, resolve, problems, secrets)
  if (config.replicas === "one" && config.isolation === "session")
    problems.push(
      '"replicas": "one" needs one process for all clients, and "isolation": "session" starts one for each; remove one of the two keys',
    )
  const self =
    launch === undefined || world.own === undefined ? undefined : selfProblem(launch, world.own, world.folder)
  if (self !== undefined) problems.push(self)
  const known = [...secrets].filter((secret) => secret.length >= MIN_SECRET)
  if (problems.length > 0 || launch === undefined) return { problems: [...new Set(problems)], secrets: known }
  return {
    spec: {
      id,
      name,
      slug: slugOf(name),
      launch,
      tuning: planTuning(config, transport, world.sleep),
      secrets: known,
    },
  }
}

/** Returns what is wrong with a server's name, or undefined. */
export function nameProblem(name: string): string | undefined {
  if (name === "" || name.includes(SEPARATOR)) return `its name must not be empty or contain "${SEPARATOR}"`
  // The names of its tools would read like those of another server: "a_svc_svc_x" is the tool "svc_x" of "a".
  if (name.endsWith("_svc") || name.startsWith("svc_")) return 'its name must not end in "_svc" or begin with "svc_"'
  // Two names that look the same must be the same.
  if (visible(name) !== name) return "its name must not contain invisible, blank or control characters"
  // Paths of URLs drop these segments.
  return /^\.{1,2}$/.test(name) ? "its name must not be . or .." : undefined
}

/** Whether a server is disabled, by a boolean or by a string. choice: `disabled` as a rendered string. */
export function isDisabled({ disabled }: { readonly disabled?: unknown }): boolean {
  return typeof disabled === "string" ? /^(true|1|yes|on)$/i.test(disabled.trim()) : disabled === true
}

/** Variables from which programs take options or code: their values decide what runs. */
export const OPTION_NAME =
  /(?:^|_|RUBY|PERL5)OPT(?:S|IONS)?$|FLAGS$|_ARGS$|_COMMAND$|ASKPASS$|PRELOAD$|STARTUP$|EDITOR$|PAGER$|KEYRING_PROVIDER$|_SOCK$|^GIT_CONFIG_|^(?:LD|DYLD)_|^(?:BASH_)?ENV$/i

/** Returns the built-in values of the settings that a server does not set, to show to users. */
export function builtInSettings(
  config: ServerConfig,
  transport: Launch["transport"],
): Readonly<Record<string, unknown>> {
  const { connectionTimeout, requestTimeout, restart, isolation, idleTimeout, maxProcesses, toolPinning } = planTuning(
    config,
    transport,
  )
  const supervised = {
    restartOnExit: restart.kind === "supervised",
    maxRestarts: restart.limit,
    restartDelay: restart.delay,
  }
  return {
    protocolVersion: "auto",
    connectionTimeout,
    requestTimeout,
    ...(transport === "stdio" ? { ...supervised, stderr: "pipe", isolation } : {}),
    ...(isolation === "session" ? { idleTimeout, maxProcesses } : {}),
    toolPinning,
  }
}

// ---

/** Returns warnings about text that only looks like a reference, and settings that have no effect: `timeout` beside a default that wins, filters that let nothing in, and patterns that are not used as such. */
function settingWarnings(
  document: Document,
  entries: readonly NamedServer[],
  defaults: DefaultsConfig,
  world: HostEnvironment,
): readonly Issue[] {
  const issues: Issue[] = []
  const warnIdleFilter = (config: Inheriting, path: Path, name?: string) => {
    const { inheritParentEnv, envFilter = [] } = config
    const reason = idleFilterReason({ ...world, inheritParentEnv, envFilter })
    if (reason === undefined) return
    issues.push(issueAt(document, "warning", "idle_filter", [...path, "envFilter"], reason, name))
  }
  const warnShortTimes = (settings: DefaultsConfig = {}, path: Path, name?: string) => {
    for (const key of ["timeout", "connectionTimeout", "requestTimeout", "idleTimeout"] as const) {
      const time = settings[key]
      if (typeof time !== "number" || time >= SHORT_MS || time === 0) continue
      const effect =
        key === "idleTimeout" ? ": svc would end the process after almost every call" : ", which few servers meet"
      const message = `${key} is ${time} milliseconds${effect}; for ${time} seconds, write ${time * 1000}`
      issues.push(issueAt(document, "warning", "timeout", [...path, key], message, name))
    }
  }
  warnShortTimes(defaults, ["serverDefaults"])
  // Defaults that only exclude, or match nothing, may be useful to servers with patterns of their own.
  if (defaults.inheritParentEnv === false) warnIdleFilter(defaults, ["serverDefaults"])
  for (const { name, config, path } of entries) {
    for (const key of SUBSTITUTED_KEYS)
      mapStrings(config?.[key as keyof ServerConfig], (text, within) => {
        for (const foreign of foreignReferences(text)) {
          const place = `${key}${within.map((part) => (typeof part === "number" ? `[${part}]` : `.${part}`)).join("")}`
          const shown = foreign === "${" ? `"\${" is` : `"${visible(foreign.slice(0, 60))}" is`
          const message = `${place}: ${shown} no reference, and reaches the server as written; write \${NAME} or \${NAME:-default} for a variable, and $\${ for the text itself`
          issues.push(issueAt(document, "warning", "reference", [...path, key, ...within], message, name))
        }
        return text
      })
    warnShortTimes(config, path, name)
    // One is enough: the list may be long.
    const at = config?.disabledTools?.findIndex((tool) => tool.includes("*")) ?? -1
    if (at >= 0) {
      const shown = visible(config?.disabledTools?.[at]?.slice(0, 100) ?? "")
      const message = `disabledTools[${at}]: "${shown}" is not a pattern here, and hides only a tool of exactly this name; \`svc mcp tools disable ${visible(name)} '${shown}'\` hides the tools that match now, and \`deny\` of a preset takes patterns`
      issues.push(issueAt(document, "warning", "pattern", [...path, "disabledTools", at], message, name))
    }
    for (const key of ["connectionTimeout", "requestTimeout"] as const) {
      if (config?.timeout === undefined || config[key] !== undefined || defaults[key] === undefined) continue
      const message = `timeout has no effect as ${key}: serverDefaults.${key} wins; write ${key} here`
      issues.push(issueAt(document, "warning", "timeout", [...path, "timeout"], message, name))
    }
    if (config?.envFilter === undefined || transportOf(config) !== "stdio" || isDisabled(config)) continue
    const { config: effective } = applyDefaults(config, defaults, "stdio")
    // An expression of a template is not known before it is rendered.
    if (effective.envFilter?.some((pattern) => pattern.includes("{{")) !== true) warnIdleFilter(effective, path, name)
  }
  return issues
}

/** Returns an entry that does not run, with the reason from its issues; undefined if its tags cannot be read. */
function idleServerOf(
  document: Document,
  entry: NamedServer,
  isOff: boolean,
  issues: readonly Issue[],
): IdleServer | undefined {
  const { name } = entry
  const slug = slugOf(name)
  const tags = tagsOf(document, entry)
  if (tags === undefined) return undefined
  if (isOff) return { name, slug, tags, state: "disabled", reason: "is disabled in svc" }
  const message = issues.find((one) => one.server === name && one.severity === "error")?.message ?? ""
  const reason = message.startsWith(`${name} is `) ? message.slice(name.length + 1) : "is not loaded"
  return { name, slug, tags, state: "invalid", reason }
}

/** Returns the tags of an entry, which may be faulty elsewhere; undefined if they cannot be read. */
function tagsOf({ value }: Document, { path: [section = "", key = ""] }: NamedServer): readonly string[] | undefined {
  const entries = value[section]
  const written = isObject(entries) ? entries[key] : undefined
  const tags = isObject(written) ? (written.tags ?? []) : undefined
  const isReadable = Array.isArray(tags) && tags.every((tag) => typeof tag === "string" && !tag.includes("{{"))
  return isReadable ? tags : undefined
}

/** Variables with values that are not secret: they are parts of paths that must stay readable. */
const PLAIN = ["HOME", "USERPROFILE", "APPDATA", "LOCALAPPDATA", "USER", "LOGNAME", "USERNAME", "PWD", "PATH", "TMPDIR"]

/** Whether the value of a variable may be shown: that of a plain variable, or the path of a folder or a file. */
const isReadable = (name: string, value: string): boolean =>
  PLAIN.includes(name) ||
  (!isSecretName(name) &&
    (posix.isAbsolute(value) || /^[a-z]:[\\/]/i.test(value)) &&
    value.split(/[\\/]/).every((part) => createRedactor([]).maskCredentials(part) === part))

/** Returns the values of a server that must not be shown, whether it can run or not. */
const secretsOf = (planned: Planned): readonly string[] => ("spec" in planned ? planned.spec : planned).secrets

const NOTHING: LastValid = { servers: new Map(), templates: new Map() }

/** Ends a problem that stops even a running server: the variable may have been removed on purpose. */
const UNSET = ", which is not set in the environment or in .env"
/** References that VS Code replaces by an answer or by the result of a command. No variable can have such a name. */
const VS_CODE = /^(?:input|command):/
const ASKED = ", which only VS Code knows; write a variable such as ${API_KEY} instead, and set it in .env"

/** The settings of a server, or of the defaults, that decide what a child inherits. */
type Inheriting = Pick<DefaultsConfig, "inheritParentEnv" | "envFilter">

/** Substitutes references. `where` is for messages; `refused` matches characters that are not allowed. */
type Resolve = (text: string, where: string, refused?: RegExp) => string

const NUL = /\0/
const BREAKS = /[\0\r\n]/
/** Characters outside of a field value (RFC 9110, 5.5). */
const NOT_IN_HEADER = /[^\t\x20-\x7e\x80-\xff]/

const MIN_SECRET = 6
/** A text that is only an expression is not secret, and occurs in many texts. */
const EXPRESSION = /^\{\{[^{}]*\}\}$/
/** Times below this are seconds in most other applications. */
const SHORT_MS = 1000
/**
 * Default connection timeouts. `npx`, `uvx` and `docker` download packages at the first start, and twenty of them at once
 * slow each other down. Ending a download halfway would waste it, and no other server waits for it.
 */
const CONNECTION_MS = { stdio: 5 * 60_000, remote: 15_000 }
const REQUEST_MS = 60_000
const MAX_RESTARTS = 5
const RESTART_MS = 1000
/** Most clients never end their sessions: dedicated processes that they abandon must end. */
const IDLE_MS = 10 * 60_000
const MAX_PROCESSES = 50

function planChild(
  config: ServerConfig,
  world: HostEnvironment,
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
    // biome-ignore lint/suspicious/noControlCharactersInRegex: the pattern matches them
    if (!/^[^=\u0000\s]+$/.test(name)) problems.push("env has an invalid variable name")
    if (isSecretName(name)) secrets.add(value)
    declared[name] = value
  }
  if (Array.isArray(config.env)) {
    for (const entry of config.env) {
      const at = entry.indexOf("=")
      if (at >= 0) declare(entry.slice(0, at), resolve(entry.slice(at + 1), "env", CONTROL))
      else {
        const found = lookUpVariable(entry, world)
        if (found === undefined) problems.push(`env names ${entry}${UNSET}`)
        else {
          if (!isReadable(entry, found.value)) secrets.add(found.value)
          declare(entry, found.value)
        }
      }
    }
  } else
    for (const [name, value] of Object.entries(config.env ?? {}))
      declare(name, resolve(String(value), `env.${name}`, CONTROL))
  const cwd = config.cwd === undefined ? undefined : absolute(resolve(config.cwd, "cwd"), world)
  const env = childEnvironment({
    platform: world.platform,
    parent: world.parent,
    dotenv: world.dotenv,
    inheritParentEnv: config.inheritParentEnv,
    envFilter: config.envFilter ?? [],
    declared,
  })
  for (const [name, value] of Object.entries(env))
    if (
      !Object.hasOwn(declared, name) &&
      (isSecretName(name) || (lookUpVariable(name, world)?.from === ".env" && !isReadable(name, value)))
    )
      secrets.add(value)
  const command = expandHome(resolve(config.command, "command"), world)
  const args = (config.args ?? []).map((arg, index) => resolve(arg, `args[${index}]`))
  // The default of a reference is a secret where a value would be one.
  const started = { command, args, env: declared }
  for (const key of keysIn(started)) secrets.add(keyText(started, key))
  return {
    transport: "stdio",
    command,
    args,
    cwd,
    env,
    stderr: config.stderr ?? "pipe",
    mode: config.protocolVersion ?? "auto",
  }
}

function planRemote(
  transport: RemoteTransportType,
  config: ServerConfig,
  world: HostEnvironment,
  resolve: Resolve,
  problems: string[],
  secrets: Set<string>,
): Launch | undefined {
  if (config.url === undefined) {
    problems.push("a remote server needs a url")
    return undefined
  }
  const url = resolve(config.url, "url", BREAKS)
  const parsed = URL.canParse(url) ? new URL(url) : undefined
  if (parsed === undefined || (parsed.protocol !== "http:" && parsed.protocol !== "https:"))
    problems.push("url must be an http or https address")
  // The path of an address may have one, too.
  for (const key of keysIn({ url }).map((found) => keyText({ url }, found)))
    if (![...secrets].some((secret) => key.includes(secret))) secrets.add(key)
  const headers: Record<string, string> = {}
  for (const [name, value] of Object.entries(config.headers ?? {})) {
    if (!/^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/.test(name)) problems.push("headers has an invalid header name")
    const resolved = resolve(value, `headers.${name}`, NOT_IN_HEADER)
    for (const secret of headerCredentials(resolved)) secrets.add(secret)
    headers[name.toLowerCase()] = resolved
  }
  const { oauth } = config
  const settings: Record<string, unknown> = {}
  for (const [key, value] of Object.entries(oauth ?? {})) {
    // A private key has line breaks.
    const refused = key === "clientSecret" ? NUL : BREAKS
    if (typeof value === "string") {
      const resolved = resolve(value, `oauth.${key}`, refused)
      if (isSecretSetting(key)) secrets.add(resolved)
      settings[key] = key.endsWith("File") ? absolute(resolved, world) : resolved
    } else settings[key] = Array.isArray(value) ? value.map((scope) => resolve(scope, `oauth.${key}`, refused)) : value
  }
  problems.push(...settingsProblems(settings as OAuthSettings))
  return {
    transport,
    url,
    headers,
    oauth: oauth === undefined ? undefined : (settings as OAuthSettings),
    mode: config.protocolVersion ?? "auto",
  }
}

function planTuning(config: ServerConfig, transport: Launch["transport"], sleep?: HostEnvironment["sleep"]): Tuning {
  const stdio = transport === "stdio"
  // A process of one session ends with it.
  const maySleep = stdio && config.isolation !== "session"
  const sleepAfter = config.idleTimeout ?? sleep?.idleTimeout ?? 0
  return {
    tags: config.tags ?? [],
    disabledTools: config.disabledTools ?? [],
    toolDescriptionOverrides: config.toolDescriptionOverrides ?? {},
    ...(config.toolOverrides === undefined ? {} : { toolOverrides: config.toolOverrides }),
    ...(config.alwaysLoad === undefined ? {} : { alwaysLoad: config.alwaysLoad }),
    ...(config.searchHint === undefined ? {} : { searchHint: config.searchHint }),
    alwaysVisible: config.alwaysVisible ?? [],
    connectionTimeout:
      config.connectionTimeout ?? config.timeout ?? (stdio ? CONNECTION_MS.stdio : CONNECTION_MS.remote),
    requestTimeout: config.requestTimeout ?? config.timeout ?? REQUEST_MS,
    ...(config.unresponsiveTimeout ? { unresponsiveTimeout: config.unresponsiveTimeout } : {}),
    restart: {
      kind: restartKind(config, transport),
      limit: config.maxRestarts ?? MAX_RESTARTS,
      delay: config.restartDelay ?? RESTART_MS,
    },
    isolation: config.isolation ?? "shared",
    ...(config.replicas === "one" ? { replicas: "one" as const } : {}),
    idleTimeout: config.idleTimeout ?? IDLE_MS,
    ...(maySleep && (config.start ?? (sleep?.lazy === true ? "lazy" : "eager")) === "lazy"
      ? { lazy: true as const }
      : {}),
    ...(maySleep && sleepAfter > 0 && config.stateful !== true ? { sleepAfter } : {}),
    maxProcesses: config.maxProcesses ?? MAX_PROCESSES,
    ...(config.rateLimit === undefined ? {} : { rateLimit: config.rateLimit }),
    ...(config.resultBudget === undefined ? {} : { resultBudget: parseResultBudget(config.resultBudget) }),
    toolPinning: config.toolPinning ?? "report",
  }
}

function restartKind(config: ServerConfig, transport: Launch["transport"]): Tuning["restart"]["kind"] {
  if (transport !== "stdio") return "reconnect"
  return config.restartOnExit === true ? "supervised" : "never"
}

function expandHome(path: string, { home, platform }: HostEnvironment): string {
  if (path === "~") return home
  return path.startsWith("~/") || (platform === "win32" && path.startsWith("~\\"))
    ? pathsOf(platform).join(home, path.slice(2))
    : path
}

function absolute(path: string, world: HostEnvironment): string {
  const expanded = expandHome(path, world)
  const { isAbsolute, join } = pathsOf(world.platform)
  return isAbsolute(expanded) ? expanded : join(world.folder, expanded)
}

const pathsOf = (platform: string) => (platform === "win32" ? win32 : posix)
