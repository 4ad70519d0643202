/**
 * Renders a template, a server object, for one context. spec: Templates.
 *
 *  1. Every string value is rendered, once; keys, numbers and booleans stay as written.
 *  2. The environment belongs to the operator: a `$NAME` reference works only if all of it is the template's own text. A `$`
 *     from a context stays literal, so that a context can form no reference, environment name or filter.
 *  3. Text of a context with a line break or a NUL, which could split an argument or a header, is rejected.
 *  4. The operator decides what runs: unless the template says `{{raw …}}`, text of a context must not begin an option
 *     (`-…`), be program text (`sh -c`, `node -e`; program-words.ts), be the program, package or script of a launcher (`npx`,
 *     `docker run`; launch-words.ts), be part of a variable that holds options, code or search paths (`NODE_OPTIONS`, `PATH`),
 *     begin the working directory, or precede the path of a url. The repository chooses `.svcrc`, branch, folder names and git's
 *     user; the client chooses `transport.client`. A cloned repository must not run code. choice: Configuration.
 */
import type { Path } from "../config/document.ts"
import { launchWords } from "../config/launch-words.ts"
import { OPTION_NAME } from "../config/plan.ts"
import { programWords } from "../config/program-words.ts"
import { partsOf } from "../config/substitution.ts"
import { mapStrings } from "../lib/json.ts"
import type { Params } from "../wire/message.ts"
import type { TemplateContext } from "./context-schema.ts"
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
  /** One sentence with template, property and expression. Shows no value. */
  readonly message: string
}

/** A rendered server, or the problems that prevent it. */
export type Rendered =
  | {
      readonly server: Params
      /** The texts with expressions, each with its path, as JSON: the parts of the server that depend on the context. */
      readonly contributed: readonly string[]
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
    // Only the operator wrote a text without an expression.
    if (!hasExpression(text)) return text
    const expression = expressionOf(text, cache)
    const found = problemsOf(expression, path)
    const rendered = found.length > 0 ? "" : evaluate(expression.parts, context, outputRulesOf(path), found)
    const nameOnly =
      isEnvEntry(path) && !rendered.includes("=") ? [...everyPart(expression.parts)].find(isInsertion) : undefined
    if (found.length === 0 && nameOnly !== undefined)
      found.push({
        expression: nameOnly.source,
        message: "must be the value of an entry NAME=value",
      })
    problems.push(...found.map((one) => problem(name, path, one)))
    contributed.push(JSON.stringify([path, rendered]))
    return rendered
  })
  if (problems.length === 0) problems.push(...programProblems(name, template, shapeOf(template, context, cache), cache))
  return problems.length > 0 ? { problems } : { server: server as Params, contributed }
}

/** Returns the problems of a template that occur in any context. */
export function validateTemplate(name: string, template: Params, cache: ExpressionCache): readonly TemplateProblem[] {
  const problems: TemplateProblem[] = []
  mapStrings(template, (text, path) => {
    if (hasExpression(text))
      problems.push(...problemsOf(expressionOf(text, cache), path).map((found) => problem(name, path, found)))
    return text
  })
  return [...problems, ...programProblems(name, template, template, cache)]
}

/**
 * Whether a template renders the same for every client at any time, because its expressions refer only to the version of svc.
 * svc offers such a template without a context.
 */
export function isSameForAll(template: Params, cache: ExpressionCache): boolean {
  let same = true
  mapStrings(template, (text) => {
    if (!hasExpression(text)) return text
    const { names, problems } = expressionOf(text, cache)
    same &&= problems.length === 0 && names.every((name) => name === "context.version")
    return text
  })
  return same
}

// ---

/** The use of a string: sent to a process or a server, selecting variables, or read by svc alone. */
type Field = "launch" | "filter" | "label"

/** Other keys are `launch`: an unknown key must not bypass the rules. */
const FIELDS: Readonly<Record<string, Field>> = {
  alwaysVisible: "label",
  disabled: "label",
  disabledTools: "label",
  envFilter: "filter",
  searchHint: "label",
  tags: "label",
  toolDescriptionOverrides: "label",
  toolOverrides: "label",
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
      partsOf(text)
        .map((part) => {
          if (part.kind === "text") return part.text.replaceAll("$", "$$$$")
          if (part.kind === "dollar") return "$$"
          return part.text.startsWith("${") ? part.text : `\${${part.name}}`
        })
        .join(""),
    insertValue: (text) =>
      // biome-ignore lint/suspicious/noControlCharactersInRegex: the pattern matches them
      /[\u0000\r\n]/.test(text)
        ? { wrong: "has a line break or a NUL character in its value" }
        : { text: text.replaceAll("$", "$$$$") },
  },
  filter: { literalText: (text) => text, insertValue: unchanged },
  label: { literalText: (text) => text, insertValue: unchanged },
}

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
      if (origin === "word" && (isFirst || /[\\/]$/.test(before) || /[\\/]/.test(text))) return CHOOSES
      return isFirst && DASH.test(text) ? OPTION : undefined
    case "args": {
      if (isFirst && DASH.test(text)) return OPTION
      if (/^[\s-]+$/.test(before) && !isFirst) return NAMES_OPTION
      // `env NAME=…`, `docker run -e NAME=…`
      const variable = /^(?:-e|--env=)?([A-Z_][A-Z0-9_]*|npm_config_\w*)=/.exec(before)?.[1]
      return variable === undefined ? undefined : variableRejection(variable, origin)
    }
    case "cwd":
      return isFirst && origin === "word" ? WORKS : undefined
    case "env":
      return variableRejection(typeof index === "number" ? before.replace(/=.*/s, "") : String(index), origin)
    case "url":
    case "serverUrl":
    case "httpUrl":
      return isAfterAuthority(before) ? undefined : CONNECTS
  }
  return undefined
}

/** Returns why text of a context must not be in a variable, or undefined. A `_PATH` that no loader searches may hold a directory. */
function variableRejection(name: string, origin: Origin): string | undefined {
  if (PLAIN_VARIABLE.test(name)) return undefined
  if (OPTION_NAME.test(name) || READ_BY_RUNTIMES.test(name) || SEARCHED.test(name)) return OPTIONS
  return /_PATH$/i.test(name) && origin === "word" ? OPTIONS : undefined
}

/** Variables that match the patterns below but hold neither options nor code. */
const PLAIN_VARIABLE = /^(?:NODE_ENV|GIT_BRANCH)$/i
/** Families of variables that package managers, runtimes, loaders and git read. */
const READ_BY_RUNTIMES =
  /^(?:npm_|uv_|pip_|git_|node_|bun_|deno_|yarn_|pnpm_|python|perl|ruby|gem_|bundle_|lua_|php|_?java_|dotnet_|nuget_|cor_|coreclr_|cargo_|rustc?_|go(?:root|bin|env|toolchain)$|docker_|ld_|dyld_|bash_|xdg_|ssl_|curl_|openssl_)/i
/** Names of variables that hold programs, search paths, proxies, certificates and the like. */
const SEARCHED =
  /(?:^|[^_])path$|(?:library|plugins?|modules?|libs?|bin|exe|executable|load|include)_path$|(?:proxy|home|hooks?|wrapper|shell|browser|library|libs?|pathext|certs?|bundle|executable|binary|loader)$|^(?:ps4|ifs|zdotdir|comspec|systemroot|appdata)$/i

/** Whether the scheme, the host and the port of a url are complete, so that what follows is its path, query or fragment. */
function isAfterAuthority(before: string): boolean {
  // A reference is the operator's text. URL parsers accept any number of slashes and backslashes after the scheme of http.
  const rest = partsOf(before.trimStart())
    .map((part) => (part.kind === "text" ? part.text : "r"))
    .join("")
    .replace(/^[^/?#\\]*:[/\\]*/, "")
  return /^[^/?#\\]+[/?#\\]/.test(rest)
}

const ALLOW = "{{raw …}} allows it"
const OPTION = `has a value that begins with - and would be an option: put text before it; ${ALLOW}`
const NAMES_OPTION = `must not choose the name of an option; ${ALLOW}`
const OPTIONS = `must not be in a variable that holds options or code; ${ALLOW}`
const CHOOSES = `must not choose the program: only a folder can begin a command; ${ALLOW}`
const CONNECTS = `must not choose the host: it may only follow the host, in the path; ${ALLOW}`
const WORKS = `must not choose the working directory: begin with text or with project.path; ${ALLOW}`
const MOUNTS = `must not choose a folder of this machine: only project.path, context.path and user.home may; ${ALLOW}`
const LAUNCHES = `must not choose what the command runs: pass it after the program, or in env; ${ALLOW}`
const PROGRAM = `would be program text: pass it as an argument after the program, or in env; ${ALLOW}`

/** Dashes of every kind: PowerShell accepts several, and old Windows programs convert the others. */
const DASH = /^[\p{Pd}\u00ad\u2212]/u

/** Returns the command of a template as a context shapes it, with `x` in place of what the context inserts. */
function shapeOf({ command, args }: Params, context: TemplateContext, cache: ExpressionCache): Params {
  const rules: OutputRules = {
    literalText: (text) => text,
    insertValue: (text, origin) => ({ text: origin === "svc" ? text : "x" }),
  }
  return mapStrings({ command, args }, (text) =>
    hasExpression(text) ? evaluate(expressionOf(text, cache).parts, context, rules, []) : text,
  ) as Params
}

/**
 * Returns problems of expressions in words that choose what runs. The words are those of the template as a context shapes
 * it, or of the template itself to validate it.
 */
function programProblems(
  name: string,
  template: Params,
  { command, args }: Params,
  cache: ExpressionCache,
): readonly TemplateProblem[] {
  const words = [command, ...(Array.isArray(args) ? args : [])].map(String)
  const program = programWords(words)
  const launch = launchWords(words)
  const messageOf = (at: number, origin: Origin): string | undefined => {
    if (program.has(at)) return PROGRAM
    if (launch.get(at) === "program") return LAUNCHES
    // A container or git may be given a folder that no word chooses.
    return origin === "word" ? MOUNTS : undefined
  }
  return [...new Set([...program, ...launch.keys()])].flatMap((at) => {
    const path = at === 0 ? ["command"] : ["args", at - 1]
    const text = at === 0 ? template.command : [template.args].flat()[at - 1]
    if (typeof text !== "string" || !hasExpression(text)) return []
    return [...everyPart(expressionOf(text, cache).parts)].flatMap((part) => {
      if (part.kind !== "insert" || part.origin === "svc") return []
      const message = messageOf(at, part.origin)
      return message === undefined ? [] : [problem(name, path, { expression: part.source, message })]
    })
  })
}

/** Returns the problems that need no context. */
function problemsOf({ parts, problems }: Expression, path: Path): ExpressionProblem[] {
  const field = fieldOf(path)
  const found = [...problems]
  for (const { part, before } of everyInsertion(parts)) {
    if (part.origin === "svc") continue
    // Rejected in any context if it is rejected after each text that can precede it.
    const [message, ...others] = before.map((text) => rejection(path, "", part.origin, text))
    if (message !== undefined && !others.includes(undefined)) found.push({ expression: part.source, message })
  }
  for (const part of everyPart(parts)) {
    if (part.kind === "text" && field === "launch") {
      const text = part.text.replaceAll("$$", "")
      const open = /\$\{\w*/.exec(text.slice(text.lastIndexOf("}") + 1))?.[0]
      if (open !== undefined)
        found.push({
          expression: `${open}…`,
          message: "an expression must not be inside a ${…} reference",
        })
    }
    if (part.kind === "insert" && field === "filter")
      found.push({
        expression: part.source,
        message: "a context must not choose the inherited variables; use {{#if}} around fixed text",
      })
  }
  return found
}

type Insertion = Extract<Part, { readonly kind: "insert" }>

/**
 * Returns all expressions that insert text, each with up to MAX_BEFORE texts that can precede it: one for each branch of the
 * blocks before it, with `x` in place of inserted text.
 */
function everyInsertion(
  parts: readonly Part[],
): readonly { readonly part: Insertion; readonly before: readonly string[] }[] {
  const insertions: { part: Insertion; before: readonly string[] }[] = []
  const walk = (inner: readonly Part[], start: readonly string[]): readonly string[] => {
    let before = start
    for (const part of inner)
      switch (part.kind) {
        case "text":
          before = before.map((text) => text + part.text)
          break
        case "insert":
          insertions.push({ part, before })
          before = before.map((text) => `${text}x`)
          break
        case "if":
          before = [...new Set([...walk(part.yes, before), ...walk(part.no, before)])].slice(0, MAX_BEFORE)
      }
    return before
  }
  walk(parts, [""])
  return insertions
}

const MAX_BEFORE = 4

/** Whether a path is an entry of `env` in array form, where a name alone inherits that variable. */
const isEnvEntry = ([key, index]: Path): boolean => key === "env" && typeof index === "number"

const isInsertion = (part: Part) => part.kind === "insert"

const hasExpression = (text: string): boolean => text.includes("{{")

function expressionOf(text: string, cache: ExpressionCache): Expression {
  const known = cache.get(text)
  if (known !== undefined) return known
  const expression = parseExpression(text)
  cache.set(text, expression)
  return expression
}

function problem(name: string, path: Path, { expression, message }: ExpressionProblem): TemplateProblem {
  const where = path
    .map((key) => (typeof key === "number" ? `[${key}]` : `.${key}`))
    .join("")
    .replace(/^\./, "")
  return { path, expression, message: `template ${name}: ${where}: ${expression}: ${message}` }
}
