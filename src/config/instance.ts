/** Instances of templates: an instance is an ordinary spec, whose id says which rendering it is. spec: Templates. */
import type { Issue } from "../lib/errors.ts"
import type { Context } from "./context.ts"
import type { Document } from "./document.ts"
import { isDisabled, planServer, type World } from "./plan.ts"
import { type DefaultsConfig, type Named, type ServerConfig, serverSchema } from "./schema.ts"
import type { Spec } from "./spec.ts"
import { type ExpressionCache, renderTemplate, validateTemplate } from "./template.ts"

/** What a template comes to in a context. Problems name no values. */
export type Instance =
  | { readonly kind: "spec"; readonly spec: Spec }
  | { readonly kind: "disabled" }
  | { readonly kind: "wrong"; readonly problems: readonly string[] }

/** A template for one context, with the id `name#key`. References to the environment are resolved last. */
export function planInstance(
  name: string,
  template: ServerConfig,
  context: Context,
  defaults: DefaultsConfig,
  world: World,
  cache: ExpressionCache,
): Instance {
  const rendered = renderTemplate(name, template, context, cache)
  if ("problems" in rendered) return { kind: "wrong", problems: rendered.problems.map(({ message }) => message) }
  const parsed = serverSchema.safeParse(rendered.server)
  if (!parsed.success)
    return {
      kind: "wrong",
      problems: parsed.error.issues.map(({ path, message }) => `template ${name}: ${path.join(".")}: ${message}`),
    }
  if (isDisabled(parsed.data)) return { kind: "disabled" }
  const planned = planServer(`${name}#${rendered.key}`, name, parsed.data, defaults, world)
  return "spec" in planned
    ? { kind: "spec", spec: planned.spec }
    : { kind: "wrong", problems: planned.problems.map((problem) => `template ${name}: ${problem}`) }
}

/** What is wrong with templates in whatever context, with its place: for `validateOnReload`. */
export function templateIssues(document: Document, templates: readonly Named[], cache: ExpressionCache): Issue[] {
  return templates.flatMap(({ name, path, config }) =>
    config === undefined
      ? []
      : validateTemplate(name, config, cache).map(({ path: inner, severity, message }) => {
          const at = [...path, ...inner]
          const place = { path: at, file: document.file, ...document.locate(at) }
          return { code: "template", severity, message, server: name, ...place }
        }),
  )
}
