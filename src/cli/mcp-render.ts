/** `svc mcp render`: renders a template for a project, as svc would start it. */
import type { CommandDef } from "citty"
import { findProjectContext, projectDirectory } from "../app/project-context.ts"
import { CONTEXT_ARGS, openContext } from "../commands/command-context.ts"
import { issueAt } from "../config/document.ts"
import { effectiveServer } from "../config/effective.ts"
import { isDisabled } from "../config/plan.ts"
import { readSections } from "../config/sections.ts"
import { systemClock } from "../lib/clock.ts"
import { readOptions } from "../lib/command-line.ts"
import { ConfigError } from "../lib/errors.ts"
import { unknownNameError } from "../lib/nearest.ts"
import { print, say } from "../lib/output.ts"
import { version } from "../lib/version.ts"
import { buildContext } from "../template/context.ts"
import { renderServer } from "../template/instance.ts"
import { type ExpressionCache, isSameForAll } from "../template/render.ts"
import { effectiveTable } from "./mcp-status.ts"

export const render: CommandDef = {
  meta: { name: "render", description: "Show how a template renders for a project" },
  args: {
    name: { type: "positional", required: true, description: "Name of the template", valueHint: "template" },
    ...CONTEXT_ARGS,
    project: {
      type: "string",
      description: "Directory of the project (default: the working directory)",
      valueHint: "directory",
    },
    client: { type: "string", description: "Client application, as NAME or NAME@VERSION" },
    "show-secrets": { type: "boolean", description: "Show secret values" },
  },
  run({ args }) {
    const command = openContext(args)
    const document = command.document()
    const { templates, defaults } = readSections(document)
    const name = String(args.name)
    const template = templates.find((one) => one.name === name)
    if (template === undefined) {
      throw unknownNameError(
        "template",
        name,
        templates.map((one) => one.name),
      )
    }
    if (template.config === undefined) throw new ConfigError(readSections(document).issues)
    const { project } = findProjectContext(projectDirectory(readOptions(args, process.env).text("project")), [], say)
    const context = buildContext({
      ...project,
      transport: { type: "stdio", client: clientOf(readOptions(args, process.env).text("client")) },
      sessionId: "",
      now: systemClock.now(),
      version,
    })
    const cache: ExpressionCache = new Map()
    const rendered = renderServer(name, template.config, context, cache)
    if ("problems" in rendered)
      throw new ConfigError(
        rendered.problems.map((message) => issueAt(document, "error", "template", template.path, message)),
      )
    const showSecrets = args["show-secrets"] === true
    const effective = effectiveServer(rendered.server, "template", defaults, command.world(), showSecrets) ?? []
    const disabled = isDisabled(rendered.server)
    const isFixed = !disabled && isSameForAll(template.config, cache)
    const id = isFixed ? name : `${name}#${rendered.key}`
    const note = isFixed ? " (the same for every client)" : ""
    print(
      args.json === true,
      { name, id, disabled, effective },
      () => `${id}${disabled ? " (disabled for this project)" : note}\n${effectiveTable(effective)}`,
    )
    return 0
  },
}

// ---

/** Splits `NAME@VERSION` at the last at-sign: a scoped name begins with one. */
function clientOf(text: string | undefined): { readonly name?: string; readonly version?: string } {
  if (text === undefined) return {}
  const at = text.lastIndexOf("@")
  return at > 0 ? { name: text.slice(0, at), version: text.slice(at + 1) } : { name: text }
}
