/**
 * A template server object, rendered for one context. spec: Templates.
 *
 *  1. Every string value is rendered, once; keys, numbers and booleans stay as they are.
 *  2. The environment belongs to the operator: a `$NAME` reference counts only where it stands whole in the template's own
 *     text. A `$` of a context's stays a `$`, and no reference, environment name or filter can be put together from one.
 *  3. Text of a context that would break a line, an argument list or a header is refused.
 *  4. What runs belongs to the operator too: unless the template says `{{raw …}}`, text of a context does not begin an
 *     option (`-…`), is no program text (`sh -c`, `node -e`; interpreter.ts), stands in no variable that holds options or
 *     code (`NODE_OPTIONS`), and chooses neither the program nor the host. `.svcrc`, branch, folder names and git's user
 *     are a repository's words, `transport.client` is a client's; a cloned repository must not be a program that runs.
 *     choice: Configuration.
 */

import type { Path } from "../config/document.ts"
import { programWords } from "../config/interpreter.ts"
import { OPTION_NAME } from "../config/plan.ts"
import { digest } from "../lib/digest.ts"
import { mapStrings } from "../lib/json.ts"
import { isObject, type Params } from "../wire/message.ts"
import type { TemplateContext } from "./context.ts"
import {
  type Expression,
  type ExpressionProblem,
  evaluate,
  everyPart,
  type Origin,
  type OutputRules,
  type Part,
  parseExpression,
} from "./expression.ts"

/** Parsed strings by their text. The caller's, so that it lives as long as a configuration. */
export type ExpressionCache = Map<string, Expression>

export type TemplateProblem = {
  /** Where in the template. */
  readonly path: Path
  readonly expression: string
  readonly severity: "error" | "warning"
  /** One sentence with template, property and expression. Names no value. */
  readonly message: string
}

export type Rendered =
  | {
      readonly server: Params
      /**
       * Stands for what the context contributed: the same for contexts that render the same, which share one instance.
       * An edit of anything else in the template keeps it, so that what runs can be compared with what is wanted.
       */
      readonly key: string
    }
  | { readonly problems: readonly TemplateProblem[] }

/** The template `name` in a context. */
export function renderTemplate(
  name: string,
  template: Params,
  context: TemplateContext,
  cache: ExpressionCache,
): Rendered {
  const problems: TemplateProblem[] = []
  const contributed: string[] = []
  const server = mapStrings(template, (text, path) => {
    // Text without an expression is the operator's alone.
    if (!hasExpression(text)) return text
    const expression = expressionOf(text, cache)
    const flaws = flawsOf(expression, path).filter(({ severity }) => severity === "error")
    const rendered = flaws.length > 0 ? "" : evaluate(expression.parts, context, outputRulesOf(path), flaws)
    const naming =
      isEnvEntry(path) && !rendered.includes("=") ? [...everyPart(expression.parts)].find(isPut) : undefined
    if (flaws.length === 0 && naming !== undefined)
      flaws.push({ expression: naming.source, message: "must stand after a name and =", severity: "error" })
    problems.push(...flaws.map((flaw) => problem(name, path, flaw)))
    contributed.push(JSON.stringify([path, rendered]))
    return rendered
  })
  if (problems.length === 0) problems.push(...programProblems(name, template, server, cache))
  return problems.length > 0 ? { problems } : { server: server as Params, key: digest(contributed.sort().join()) }
}

/** What is wrong with a template whatever the context. Warnings are names that no context has. */
export function validateTemplate(name: string, template: Params, cache: ExpressionCache): readonly TemplateProblem[] {
  const problems: TemplateProblem[] = []
  mapStrings(template, (text, path) => {
    if (hasExpression(text))
      problems.push(...flawsOf(expressionOf(text, cache), path).map((flaw) => problem(name, path, flaw)))
    return text
  })
  return [...problems, ...programProblems(name, template, template, cache)]
}

// ---

/** What becomes of a string: it goes to a process or a server, it chooses variables, or svc alone reads it. */
type Field = "launch" | "filter" | "label"

/** All others are `launch`: an unknown key must not be a way around the rules. */
const FIELDS: Readonly<Record<string, Field>> = {
  disabled: "label",
  disabledTools: "label",
  envFilter: "filter",
  tags: "label",
  toolDescriptionOverrides: "label",
}

function fieldOf([key]: Path): Field {
  const name = String(key)
  return Object.hasOwn(FIELDS, name) ? (FIELDS[name] as Field) : "launch"
}

const asItIs = (text: string) => ({ text })

const OUTPUT_RULES: Readonly<Record<Field, OutputRules>> = {
  launch: {
    // In braces, so that what follows does not lengthen the name; a `$` that begins no reference is one character.
    literalText: (text) =>
      text.replace(REFERENCE, (whole, name: string | undefined) =>
        name !== undefined ? `\${${name}}` : whole === "$" ? "$$" : whole,
      ),
    insertValue: (text) =>
      // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
      /[\u0000\r\n]/.test(text)
        ? { wrong: "has a line break or a NUL character in its value" }
        : { text: text.replaceAll("$", "$$$$") },
  },
  filter: { literalText: (text) => text, insertValue: asItIs },
  label: { literalText: (text) => text, insertValue: asItIs },
}

/** `$$`, `${NAME}` and `${NAME:-…}` whole; `$NAME` with its name; any other `$`. As substitute.ts reads them. */
const REFERENCE = /\$(?:\$|\{[A-Za-z_][A-Za-z0-9_]*(?::-[^}]*)?\}|([A-Za-z_][A-Za-z0-9_]*))?/g

/** The pens of a field, with rule 4 where it holds. */
function outputRulesOf(path: Path): OutputRules {
  const { literalText, insertValue } = OUTPUT_RULES[fieldOf(path)]
  return {
    literalText,
    insertValue(text, origin, before) {
      const wrong = origin === "svc" ? undefined : ruledOut(path, text, origin, before)
      return wrong === undefined ? insertValue(text, origin, before) : { wrong }
    },
  }
}

/** Why text of a context cannot stand where it would come to stand. */
function ruledOut([key, index]: Path, text: string, origin: Origin, before: string): string | undefined {
  const isFirst = before.trim() === ""
  switch (key) {
    case "command":
      if (origin === "word" && (isFirst || /[\\/]/.test(text))) return CHOOSES
      return isFirst && DASH.test(text) ? OPTION : undefined
    case "args":
      return isFirst && DASH.test(text) ? OPTION : undefined
    case "env":
      return OPTION_NAME.test(typeof index === "number" ? before.replace(/=.*/s, "") : String(index))
        ? OPTIONS
        : undefined
    case "url":
    case "serverUrl":
    case "httpUrl":
      return isFirst && origin === "word" ? CONNECTS : undefined
  }
  return undefined
}

const ALLOW = "{{raw …}} allows it"
const OPTION = `begins with - in its value, and would be an option: put text before it; ${ALLOW}`
const OPTIONS = `cannot stand in a variable that holds options or code; ${ALLOW}`
const CHOOSES = `cannot choose what is run: only a folder can begin a command; ${ALLOW}`
const CONNECTS = `cannot choose where svc connects: put text before it; ${ALLOW}`
const PROGRAM = `is program text here: hand it over as an argument behind the program or in env; ${ALLOW}`

/** Dashes of every kind: PowerShell takes several for its own, and old Windows programs turn the rest into one. */
const DASH = /^[\p{Pd}\u00ad\u2212]/u

/** Expressions in program text, once it is known (`server`), or as far as the template itself says (`template`). */
function programProblems(
  name: string,
  template: Params,
  server: unknown,
  cache: ExpressionCache,
): readonly TemplateProblem[] {
  const { command, args } = isObject(server) ? server : {}
  const words = [command, ...(Array.isArray(args) ? args : [])].map(String)
  return [...programWords(words)].flatMap((at) => {
    const path = at === 0 ? ["command"] : ["args", at - 1]
    const text = at === 0 ? template.command : Array.isArray(template.args) ? template.args[at - 1] : undefined
    if (typeof text !== "string" || !hasExpression(text)) return []
    return [...everyPart(expressionOf(text, cache).parts)].flatMap((part) =>
      part.kind === "put" && part.origin !== "svc"
        ? [problem(name, path, { expression: part.source, message: PROGRAM, severity: "error" })]
        : [],
    )
  })
}

/** The flaws that need no context. */
function flawsOf({ parts, flaws }: Expression, path: Path): ExpressionProblem[] {
  const field = fieldOf(path)
  const found = [...flaws]
  for (const [index, part] of [...everyPart(parts)].entries()) {
    if (part.kind !== "put" || part.origin === "svc") continue
    // What stands first whatever the context; what stands in a variable whatever comes before it.
    if (index > 0 && path[0] !== "env") continue
    const message = ruledOut(path, "", part.origin, "")
    if (message !== undefined) found.push({ expression: part.source, message, severity: "error" })
  }
  for (const part of everyPart(parts)) {
    if (part.kind === "text" && field === "launch") {
      const open = /(\$\{\w*)[^}]*$/.exec(part.text.replaceAll("$$", ""))?.[1]
      if (open !== undefined)
        found.push({
          expression: `${open}…`,
          message: "an expression cannot stand inside of a ${…} reference",
          severity: "error",
        })
    }
    if (part.kind === "put" && field === "filter")
      found.push({
        expression: part.source,
        message: "a context cannot choose which variables are inherited; use {{#if}} around fixed text",
        severity: "error",
      })
  }
  return found
}

/** An entry of `env` in array form; one that is a name alone takes that variable's value. */
const isEnvEntry = ([key, index]: Path): boolean => key === "env" && typeof index === "number"

const isPut = (part: Part) => part.kind === "put"

const hasExpression = (text: string): boolean => text.includes("{{")

function expressionOf(text: string, cache: ExpressionCache): Expression {
  const known = cache.get(text)
  if (known !== undefined) return known
  const expression = parseExpression(text)
  cache.set(text, expression)
  return expression
}

function problem(name: string, path: Path, { expression, message, severity }: ExpressionProblem): TemplateProblem {
  const where = path
    .map((key, index) => (typeof key === "number" ? `[${key}]` : index === 0 ? key : `.${key}`))
    .join("")
  return { path, expression, severity, message: `template ${name}: ${where}: ${expression}: ${message}` }
}
