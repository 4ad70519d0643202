/**
 * Renders a template, a server object, for one context. spec: Templates.
 *
 *  1. Every string value is rendered, once; keys, numbers and booleans stay as written.
 *  2. The environment belongs to the operator: a `$NAME` reference works only if all of it is the template's own text. A `$`
 *     from a context stays literal, so that a context can form no reference, environment name or filter.
 *  3. Text of a context with a line break or a NUL, which could split an argument or a header, is rejected.
 *  4. The operator decides what runs: unless the template says `{{raw …}}`, text of a context must not begin an option
 *     (`-…`), be program text (`sh -c`, `node -e`; interpreter.ts), be part of a variable that holds options or code
 *     (`NODE_OPTIONS`), or choose the program or the host. The repository chooses `.svcrc`, branch, folder names and git's
 *     user; the client chooses `transport.client`. A cloned repository must not run code. choice: Configuration.
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

/** Parsed strings by their text. The caller owns the cache, which lives as long as a configuration. */
export type ExpressionCache = Map<string, Expression>

/** A problem of a template. */
export type TemplateProblem = {
  /** The path in the template. */
  readonly path: Path
  readonly expression: string
  readonly severity: "error" | "warning"
  /** One sentence with template, property and expression. Shows no value. */
  readonly message: string
}

/** A rendered server, or the problems that prevent it. */
export type Rendered =
  | {
      readonly server: Params
      /**
       * A digest of the rendered expressions. Contexts with equal renderings have the same key and share an instance. Other
       * edits of the template keep the key, so that a running instance can be compared with its new definition.
       */
      readonly key: string
    }
  | { readonly problems: readonly TemplateProblem[] }

/** Renders the template `name` in a context. */
export function renderTemplate(
  name: string,
  template: Params,
  context: TemplateContext,
  cache: ExpressionCache,
): Rendered {
  const problems: TemplateProblem[] = []
  const contributed: string[] = []
  const server = mapStrings(template, (text, path) => {
    // Text without an expression comes from the operator alone.
    if (!hasExpression(text)) return text
    const expression = expressionOf(text, cache)
    const found = problemsOf(expression, path).filter(({ severity }) => severity === "error")
    const rendered = found.length > 0 ? "" : evaluate(expression.parts, context, outputRulesOf(path), found)
    const nameOnly =
      isEnvEntry(path) && !rendered.includes("=") ? [...everyPart(expression.parts)].find(isPut) : undefined
    if (found.length === 0 && nameOnly !== undefined)
      found.push({
        expression: nameOnly.source,
        message: "must be the value of an entry NAME=value",
        severity: "error",
      })
    problems.push(...found.map((one) => problem(name, path, one)))
    contributed.push(JSON.stringify([path, rendered]))
    return rendered
  })
  if (problems.length === 0) problems.push(...programProblems(name, template, server, cache))
  return problems.length > 0 ? { problems } : { server: server as Params, key: digest(contributed.sort().join()) }
}

/** Returns the problems of a template that occur in any context. Warnings are names that no context has. */
export function validateTemplate(name: string, template: Params, cache: ExpressionCache): readonly TemplateProblem[] {
  const problems: TemplateProblem[] = []
  mapStrings(template, (text, path) => {
    if (hasExpression(text))
      problems.push(...problemsOf(expressionOf(text, cache), path).map((found) => problem(name, path, found)))
    return text
  })
  return [...problems, ...programProblems(name, template, template, cache)]
}

// ---

/** The use of a string: sent to a process or a server, selecting variables, or read by svc alone. */
type Field = "launch" | "filter" | "label"

/** Other keys are `launch`: an unknown key must not bypass the rules. */
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

const unchanged = (text: string) => ({ text })

const OUTPUT_RULES: Readonly<Record<Field, OutputRules>> = {
  launch: {
    // Puts names in braces, so that the text that follows cannot extend them; escapes any other `$`.
    literalText: (text) =>
      text.replace(REFERENCE, (whole, name: string | undefined) => {
        if (name !== undefined) return `\${${name}}`
        return whole === "$" ? "$$" : whole
      }),
    insertValue: (text) =>
      // biome-ignore lint/suspicious/noControlCharactersInRegex: the pattern matches them
      /[\u0000\r\n]/.test(text)
        ? { wrong: "has a line break or a NUL character in its value" }
        : { text: text.replaceAll("$", "$$$$") },
  },
  filter: { literalText: (text) => text, insertValue: unchanged },
  label: { literalText: (text) => text, insertValue: unchanged },
}

/** Matches `$$`, `${NAME}`, `${NAME:-…}`, `$NAME` (with its name) and any other `$`, as substitution.ts does. */
const REFERENCE = /\$(?:\$|\{[A-Za-z_][A-Za-z0-9_]*(?::-[^}]*)?\}|([A-Za-z_][A-Za-z0-9_]*))?/g

/** Returns the output rules of a field, including rule 4. */
function outputRulesOf(path: Path): OutputRules {
  const { literalText, insertValue } = OUTPUT_RULES[fieldOf(path)]
  return {
    literalText,
    insertValue(text, origin, before) {
      const wrong = origin === "svc" ? undefined : rejection(path, text, origin, before)
      return wrong === undefined ? insertValue(text, origin, before) : { wrong }
    },
  }
}

/** Returns why rule 4 rejects text of a context at its place, or undefined. */
function rejection([key, index]: Path, text: string, origin: Origin, before: string): string | undefined {
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
const OPTION = `has a value that begins with - and would be an option: put text before it; ${ALLOW}`
const OPTIONS = `must not be in a variable that holds options or code; ${ALLOW}`
const CHOOSES = `must not choose the program: only a folder can begin a command; ${ALLOW}`
const CONNECTS = `must not choose the host: put text before it; ${ALLOW}`
const PROGRAM = `would be program text: pass it as an argument after the program, or in env; ${ALLOW}`

/** Dashes of every kind: PowerShell accepts several, and old Windows programs convert the others. */
const DASH = /^[\p{Pd}\u00ad\u2212]/u

/** Returns problems of expressions in program text. `server` is the rendered template, or the template itself to validate it. */
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
    const text = at === 0 ? template.command : [template.args].flat()[at - 1]
    if (typeof text !== "string" || !hasExpression(text)) return []
    return [...everyPart(expressionOf(text, cache).parts)].flatMap((part) =>
      part.kind === "put" && part.origin !== "svc"
        ? [problem(name, path, { expression: part.source, message: PROGRAM, severity: "error" })]
        : [],
    )
  })
}

/** Returns the problems that need no context. */
function problemsOf({ parts, problems }: Expression, path: Path): ExpressionProblem[] {
  const field = fieldOf(path)
  const found = [...problems]
  for (const [index, part] of [...everyPart(parts)].entries()) {
    if (part.kind !== "put" || part.origin === "svc") continue
    // Only the first part is certainly first; a part of a variable matters wherever it is.
    if (index > 0 && path[0] !== "env") continue
    const message = rejection(path, "", part.origin, "")
    if (message !== undefined) found.push({ expression: part.source, message, severity: "error" })
  }
  for (const part of everyPart(parts)) {
    if (part.kind === "text" && field === "launch") {
      const open = /(\$\{\w*)[^}]*$/.exec(part.text.replaceAll("$$", ""))?.[1]
      if (open !== undefined)
        found.push({
          expression: `${open}…`,
          message: "an expression must not be inside a ${…} reference",
          severity: "error",
        })
    }
    if (part.kind === "put" && field === "filter")
      found.push({
        expression: part.source,
        message: "a context must not choose the inherited variables; use {{#if}} around fixed text",
        severity: "error",
      })
  }
  return found
}

/** Whether a path is an entry of `env` in array form, where a name alone inherits that variable. */
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
    .map((key) => (typeof key === "number" ? `[${key}]` : `.${key}`))
    .join("")
    .replace(/^\./, "")
  return { path, expression, severity, message: `template ${name}: ${where}: ${expression}: ${message}` }
}
