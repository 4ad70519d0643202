/** Template instances: an instance is an ordinary ServerSpec with an id that identifies the rendering. spec: Templates. */
import { type Document, issueAt, type Path } from "../config/document.ts"
import { schemas } from "../config/lazy-schema.ts"
import { type HostEnvironment, isDisabled, isUnset, type LastValid, plan, planServer } from "../config/plan.ts"
import type { DefaultsConfig, ServerConfig, TemplateSettings } from "../config/schema.ts"
import { type NamedServer, readSections } from "../config/sections.ts"
import type { Plan, ServerSpec } from "../config/server-spec.ts"
import { digest } from "../lib/digest.ts"
import { ConfigError, type Issue } from "../lib/errors.ts"
import { schemaProblem } from "../lib/schema-problem.ts"
import { version } from "../lib/version.ts"
import { isObject, type Params } from "../wire/message.ts"
import { buildContext } from "./context.ts"
import type { TemplateContext } from "./context-schema.ts"
import { type ExpressionCache, isSameForAll, renderTemplate, validateTemplate } from "./render.ts"

type NamedTemplate = { readonly name: string; readonly config: ServerConfig }

/** The valid templates of a document, with the inputs of their rendering. */
export type Templates = {
  /** The names of all templates, in the order of the file. */
  readonly order: readonly string[]
  readonly named: readonly NamedTemplate[]
  /** Templates that render the same for every client, each with its spec, which runs like a server, under the template's name. */
  readonly fixed: readonly (NamedTemplate & { readonly spec: ServerSpec })[]
  readonly settings: Required<TemplateSettings>
  /** Problems that occur in any context; templates with an error are not in `named`. */
  readonly issues: readonly Issue[]
  /** Renders and plans a template for one context. */
  plan(template: NamedTemplate, context: TemplateContext, cache: ExpressionCache): Instance
}

/**
 * Plans a document with its templates. `last` is the previous load; undefined at the first one. Throws a ConfigError if a
 * section that all servers share is faulty, or a template while `failureMode` is `strict`.
 */
export function planDocument(
  document: Document,
  world: HostEnvironment,
  last?: LastValid,
): { readonly plan: Plan; readonly templates: Templates } {
  const switched = withSwitches(document)
  const planned = plan(switched.document, world, last)
  const templates = readTemplates(document, planned.templates, world, last?.templates)
  return {
    plan: {
      ...planned,
      specs: [...planned.specs, ...templates.fixed.map(({ spec }) => spec)],
      templates: templates.named.map(({ name }) => name),
      issues: [...planned.issues, ...switched.issues, ...templates.issues],
    },
    templates,
  }
}

/**
 * Renders the expressions in `disabled` of the servers of `mcpServers`, which have no client. A server whose expression needs one
 * is disabled, with an issue: to run it would be the opposite of what it may say. spec: Server object.
 */
function withSwitches(document: Document): { readonly document: Document; readonly issues: readonly Issue[] } {
  const issues: Issue[] = []
  const cache: ExpressionCache = new Map()
  const rendered = (name: string, disabled: string, path: Path): string | true => {
    const found = renderedSwitch(name, disabled, cache)
    if ("text" in found) return found.text
    issues.push(issueAt(document, "error", "disabled", path, `${name} does not run: ${found.problem}`, name))
    return true
  }
  const value = { ...document.value }
  for (const section of ["mcpServers", "servers"]) {
    const servers = value[section]
    if (!isObject(servers)) continue
    value[section] = Object.fromEntries(
      Object.entries(servers).map(([name, server]) => {
        if (!isObject(server) || !isExpression(server.disabled)) return [name, server]
        return [name, { ...server, disabled: rendered(name, server.disabled, [section, name, "disabled"]) }]
      }),
    )
  }
  return { document: { ...document, value }, issues }
}

/**
 * Whether an entry of mcp.json is disabled. An expression in `mcpServers` is rendered, as when the file is loaded; a template is
 * disabled for all clients only by a plain value.
 */
export function isSwitchedOff(name: string, section: string, server: Params): boolean {
  const { disabled } = server
  if (section === "mcpTemplates" || !isExpression(disabled)) return isDisabled(server)
  const found = renderedSwitch(name, disabled, new Map())
  return !("text" in found) || isDisabled({ disabled: found.text })
}

/**
 * Reads the templates `names` of a document; an invalid template keeps its form in `last`. Checks all templates at the first
 * load, and at later loads unless `validateOnReload` is false. Throws a ConfigError if a template is faulty and `failureMode` is
 * `strict`. spec: templateSettings.
 */
export function readTemplates(
  document: Document,
  names: readonly string[],
  world: HostEnvironment,
  last?: ReadonlyMap<string, ServerConfig>,
): Templates {
  const { defaults, templates, settings: written } = readSections(document)
  const settings = { ...SETTINGS, ...written }
  const chosen = templates.flatMap((template) =>
    names.includes(template.name) ? [{ ...template, config: template.config ?? last?.get(template.name) }] : [],
  )
  const cache: ExpressionCache = new Map()
  const found = settings.validateOnReload || last === undefined ? templateIssues(document, chosen, cache) : []
  if (settings.failureMode === "strict" && found.length > 0) throw new ConfigError(found)
  const faulty = new Set(found.map(({ server }) => server))
  const issues = [...found]
  const named: NamedTemplate[] = []
  const fixed: (NamedTemplate & { readonly spec: ServerSpec })[] = []
  for (const { name, path, config } of chosen) {
    if (config === undefined || faulty.has(name)) continue
    const instance = isSameForAll(config, cache)
      ? planInstance(name, config, NO_CONTEXT, defaults, world, cache)
      : undefined
    if (instance?.kind === "spec") fixed.push({ name, config, spec: { ...instance.spec, id: name } })
    else if (instance?.kind === "wrong")
      issues.push(...instance.problems.map((message) => issueAt(document, "error", "template", path, message, name)))
    else {
      named.push({ name, config })
      issues.push(
        ...valueProblems(name, config, defaults, world).map((problem) =>
          issueAt(document, "warning", "template", path, `template ${name} cannot start for clients: ${problem}`, name),
        ),
      )
    }
  }
  return {
    order: names,
    named,
    fixed,
    settings,
    issues,
    plan: ({ name, config }, context, cache) => planInstance(name, config, context, defaults, world, cache),
  }
}

/** The result of planning a template for a context. Problems show no values. */
export type Instance =
  | { readonly kind: "spec"; readonly spec: ServerSpec }
  | { readonly kind: "disabled" }
  | { readonly kind: "wrong"; readonly problems: readonly string[] }

/** Renders and plans a template for one context, with the id `name#key`. Resolves references to the environment last. */
export function planInstance(
  name: string,
  template: ServerConfig,
  context: TemplateContext,
  defaults: DefaultsConfig,
  world: HostEnvironment,
  cache: ExpressionCache,
): Instance {
  const rendered = renderServer(name, template, context, cache)
  if ("problems" in rendered) return { kind: "wrong", problems: rendered.problems }
  if (isDisabled(rendered.server)) return { kind: "disabled" }
  const planned = planServer(`${name}#${rendered.key}`, name, rendered.server, defaults, world)
  return "spec" in planned
    ? { kind: "spec", spec: planned.spec }
    : { kind: "wrong", problems: planned.problems.map((problem) => `template ${name}: ${problem}`) }
}

/**
 * Returns the identity of an instance of a template: a digest of its rendered expressions. Contexts with equal renderings have
 * the same key and share an instance. Other edits of the template keep the key, so that a running instance can be compared
 * with its new definition.
 */
export const instanceKey = (contributed: readonly string[]): string => digest([...contributed].sort().join())

/** Renders a template for a context; references to the environment stay unresolved. */
export function renderServer(
  name: string,
  template: ServerConfig,
  context: TemplateContext,
  cache: ExpressionCache,
): { readonly server: ServerConfig; readonly key: string } | { readonly problems: readonly string[] } {
  const rendered = renderTemplate(name, template, context, cache)
  if ("problems" in rendered) return { problems: rendered.problems.map(({ message }) => message) }
  const parsed = schemas().serverSchema().safeParse(rendered.server, { error: schemaProblem })
  return parsed.success
    ? { server: parsed.data, key: instanceKey(rendered.contributed) }
    : { problems: parsed.error.issues.map(({ path, message }) => `template ${name}: ${path.join(".")}: ${message}`) }
}

/** Returns the problems of templates that occur in any context, with their positions. For `validateOnReload`. */
export function templateIssues(document: Document, templates: readonly NamedServer[], cache: ExpressionCache): Issue[] {
  return templates.flatMap(({ name, path, config }) =>
    config === undefined
      ? []
      : validateTemplate(name, config, cache).map(({ path: inner, message }) =>
          issueAt(document, "error", "template", [...path, ...inner], message, name),
        ),
  )
}

// ---

/**
 * Returns which references of a template have no value. They may stand in an expression that renders them for some clients only,
 * so the template stays loaded.
 */
function valueProblems(
  name: string,
  { type: _expression, ...config }: ServerConfig,
  defaults: DefaultsConfig,
  world: HostEnvironment,
): readonly string[] {
  const planned = planServer(name, name, config, defaults, world)
  return "spec" in planned ? [] : planned.problems.filter((problem) => isUnset(problem) || problem.includes(REFERENCE))
}

/** In the problem of a reference to the keychain, a file or a command. */
const REFERENCE = " refers to ${"

const isExpression = (disabled: unknown): disabled is string => typeof disabled === "string" && disabled.includes("{{")

/** Renders the expression in `disabled` of a server without a client, or returns why it cannot be rendered. */
function renderedSwitch(
  name: string,
  disabled: string,
  cache: ExpressionCache,
): { readonly text: string } | { readonly problem: string } {
  const template = { disabled }
  const [problem] = validateTemplate(name, template, cache)
  // The issue names the server, which is no template.
  if (problem !== undefined) return { problem: problem.message.replace(`template ${name}: `, "") }
  if (!isSameForAll(template, cache))
    return { problem: "its disabled depends on the client; write true or false, or move the server to mcpTemplates" }
  const found = renderTemplate(name, template, NO_CONTEXT, cache)
  return "problems" in found ? { problem: found.problems[0]?.message ?? "" } : { text: String(found.server.disabled) }
}

const SETTINGS: Required<TemplateSettings> = { validateOnReload: true, failureMode: "graceful", cacheContext: true }

/** For templates whose rendering depends on svc alone. */
const NO_CONTEXT = buildContext({
  directory: "/",
  root: "/",
  branch: undefined,
  user: { username: "", home: "/" },
  said: {},
  transport: { type: "http", client: {} },
  sessionId: "",
  now: 0,
  version,
})
