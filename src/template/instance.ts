/** Template instances: an instance is an ordinary ServerSpec with an id that identifies the rendering. spec: Templates. */
import { type Document, issueAt } from "../config/document.ts"
import { type HostEnvironment, isDisabled, planServer } from "../config/plan.ts"
import { type DefaultsConfig, type ServerConfig, serverSchema, type TemplateSettings } from "../config/schema.ts"
import { type NamedServer, readSections } from "../config/sections.ts"
import type { ServerSpec } from "../config/server-spec.ts"
import { digest } from "../lib/digest.ts"
import { ConfigError, type Issue } from "../lib/errors.ts"
import { schemaProblem } from "../lib/schema-problem.ts"
import type { TemplateContext } from "./context.ts"
import { type ExpressionCache, renderTemplate, validateTemplate } from "./render.ts"

/** The valid templates of a document, with the inputs of their rendering. */
export type Templates = {
  readonly named: readonly { readonly name: string; readonly config: ServerConfig }[]
  readonly settings: Required<TemplateSettings>
  readonly defaults: DefaultsConfig
  readonly world: HostEnvironment
  /** Problems that occur in any context; templates with an error are not in `named`. */
  readonly issues: readonly Issue[]
}

/**
 * Reads the templates `names` of a document; an invalid one has its form in `last`. Throws a ConfigError if one is faulty and
 * `failureMode` is `strict`.
 * spec: templateSettings.
 */
export function readTemplates(
  document: Document,
  names: readonly string[],
  world: HostEnvironment,
  last: ReadonlyMap<string, ServerConfig> = new Map(),
): Templates {
  const { defaults, templates, settings: written } = readSections(document)
  const settings = { ...SETTINGS, ...written }
  const chosen = templates.flatMap((template) =>
    names.includes(template.name) ? [{ ...template, config: template.config ?? last.get(template.name) }] : [],
  )
  const issues = settings.validateOnReload ? templateIssues(document, chosen, new Map()) : []
  const errors = issues.filter(({ severity }) => severity === "error")
  if (settings.failureMode === "strict" && errors.length > 0) throw new ConfigError(errors)
  const faulty = new Set(errors.map(({ server }) => server))
  const named = chosen.flatMap(({ name, config }) =>
    config === undefined || faulty.has(name) ? [] : [{ name, config }],
  )
  return { named, settings, defaults, world, issues }
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
  const parsed = serverSchema.safeParse(rendered.server, { error: schemaProblem })
  return parsed.success
    ? { server: parsed.data, key: instanceKey(rendered.contributed) }
    : { problems: parsed.error.issues.map(({ path, message }) => `template ${name}: ${path.join(".")}: ${message}`) }
}

/** Returns the problems of templates that occur in any context, with their positions. For `validateOnReload`. */
export function templateIssues(document: Document, templates: readonly NamedServer[], cache: ExpressionCache): Issue[] {
  return templates.flatMap(({ name, path, config }) =>
    config === undefined
      ? []
      : validateTemplate(name, config, cache).map(({ path: inner, severity, message }) =>
          issueAt(document, severity, "template", [...path, ...inner], message, name),
        ),
  )
}

// ---

const SETTINGS: Required<TemplateSettings> = { validateOnReload: true, failureMode: "graceful", cacheContext: true }
