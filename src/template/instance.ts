/** Instances of templates: an instance is an ordinary spec, whose id says which rendering it is. spec: Templates. */

import { type Document, issueAt } from "../config/document.ts"
import { isDisabled, planServer, type World } from "../config/plan.ts"
import { type DefaultsConfig, type ServerConfig, serverSchema, type TemplateSettings } from "../config/schema.ts"
import { type NamedServer, readSections } from "../config/sections.ts"
import type { ServerSpec } from "../config/server-spec.ts"
import { ConfigError, type Issue } from "../lib/errors.ts"
import type { TemplateContext } from "./context.ts"
import { type ExpressionCache, renderTemplate, validateTemplate } from "./render.ts"

/** The templates of a document with what they are rendered with. */
export type Templates = {
  readonly named: readonly { readonly name: string; readonly config: ServerConfig }[]
  readonly settings: Required<TemplateSettings>
  readonly defaults: DefaultsConfig
  readonly world: World
  /** What is wrong with them in whatever context; those with an error are not in `named`. */
  readonly issues: readonly Issue[]
}

/**
 * The templates of a document that are called `names`. Throws a ConfigError where one is wrong and the document says
 * `strict`. spec: templateSettings.
 */
export function readTemplates(document: Document, names: readonly string[], world: World): Templates {
  const { defaults, templates, settings: written } = readSections(document)
  const settings = { ...SETTINGS, ...written }
  const wanted = templates.filter(({ name }) => names.includes(name))
  const issues = settings.validateOnReload ? templateIssues(document, wanted, new Map()) : []
  const errors = issues.filter(({ severity }) => severity === "error")
  if (settings.failureMode === "strict" && errors.length > 0) throw new ConfigError(errors)
  const wrong = new Set(errors.map(({ server }) => server))
  const named = wanted.flatMap(({ name, config }) =>
    config === undefined || wrong.has(name) ? [] : [{ name, config }],
  )
  return { named, settings, defaults, world, issues }
}

/** What a template comes to in a context. Problems name no values. */
export type Instance =
  | { readonly kind: "spec"; readonly spec: ServerSpec }
  | { readonly kind: "disabled" }
  | { readonly kind: "wrong"; readonly problems: readonly string[] }

/** A template for one context, with the id `name#key`. References to the environment are resolved last. */
export function planInstance(
  name: string,
  template: ServerConfig,
  context: TemplateContext,
  defaults: DefaultsConfig,
  world: World,
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

/** The server that a template comes to in a context, references to the environment still in it. */
export function renderServer(
  name: string,
  template: ServerConfig,
  context: TemplateContext,
  cache: ExpressionCache,
): { readonly server: ServerConfig; readonly key: string } | { readonly problems: readonly string[] } {
  const rendered = renderTemplate(name, template, context, cache)
  if ("problems" in rendered) return { problems: rendered.problems.map(({ message }) => message) }
  const parsed = serverSchema.safeParse(rendered.server)
  return parsed.success
    ? { server: parsed.data, key: rendered.key }
    : { problems: parsed.error.issues.map(({ path, message }) => `template ${name}: ${path.join(".")}: ${message}`) }
}

/** What is wrong with templates in whatever context, with its place: for `validateOnReload`. */
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
