/**
 * The template language: one string with `{{…}}` in it. Handlebars reads it; what may stand in it is checked here, and it
 * is evaluated here, over data. Nothing is compiled to code and nothing is ever called, so an expression can reach the
 * context and nothing else: no prototype, no function, no environment.
 *
 *   {{name}}                          the value; one that is missing is an error
 *   {{#if x}}…{{else if y}}…{{else}}…{{/if}}
 *   (eq a b) (and …) (or …) (not a)   true or false; inside arguments a missing value is just false
 *   {{default a b …}}                 the first that is there and not empty, or else the last
 *   {{raw a}}                         the value, also where the rules of render.ts keep a project's text out
 *
 * spec: Templates.
 */
import Handlebars from "handlebars"
import { messageOf } from "../lib/errors.ts"
import { didYouMean } from "../lib/nearest.ts"
import { CONTEXT_NAMES, type TemplateContext } from "./context.ts"

export type Value =
  | { readonly kind: "literal"; readonly value: string | number | boolean | undefined }
  | { readonly kind: "name"; readonly path: readonly string[] }
  | { readonly kind: "call"; readonly helper: Helper; readonly of: readonly Value[] }

/**
 * Where the text of an expression comes from: svc itself (or the template says `raw`), a place on this machine, or words
 * that a project, its repository, a user's account or a client chose.
 */
export type Origin = "svc" | "place" | "word"

export type Part =
  | { readonly kind: "text"; readonly text: string }
  | { readonly kind: "put"; readonly value: Value; readonly source: string; readonly origin: Origin }
  | { readonly kind: "if"; readonly test: Value; readonly yes: readonly Part[]; readonly no: readonly Part[] }

/** What is wrong with an expression. Names no value. */
export type ExpressionProblem = {
  readonly expression: string
  readonly message: string
  readonly severity: "error" | "warning"
}

export type Expression = { readonly parts: readonly Part[]; readonly flaws: readonly ExpressionProblem[] }

/** A string as an expression. Where a flaw is an error, it must not be evaluated. */
export function parseExpression(text: string): Expression {
  if (text.length > MAX_LENGTH)
    return {
      parts: [],
      flaws: [problemAt(inBraces(text), `is longer than ${MAX_LENGTH} characters, the most for a template`)],
    }
  try {
    const flaws: ExpressionProblem[] = []
    return { parts: readProgram({ text, flaws }, Handlebars.parse(text)), flaws }
  } catch (error) {
    return { parts: [], flaws: [problemAt(inBraces(text), `cannot be read as a template${saying(text, error)}`)] }
  }
}

/** How pieces of text become part of the result: the template's own, and what an expression puts out. */
export type OutputRules = {
  literalText(text: string): string
  /** The text, or what is wrong with it. `before` is what stands before it already. */
  insertValue(text: string, origin: Origin, before: string): { readonly text: string } | { readonly wrong: string }
}

/** The text of parts in a context, behind `before`. What is missing, or refused by a pen, is added to `flaws`. */
export function evaluate(
  parts: readonly Part[],
  context: TemplateContext,
  rules: OutputRules,
  flaws: ExpressionProblem[],
  before: string = "",
): string {
  let text = before
  for (const part of parts)
    switch (part.kind) {
      case "text":
        text += rules.literalText(part.text)
        break
      case "if":
        text = evaluate(isTrue(evaluated(part.test, context)) ? part.yes : part.no, context, rules, flaws, text)
        break
      case "put": {
        const put = insert(evaluated(part.value, context), (shown) => rules.insertValue(shown, part.origin, text))
        if ("text" in put) text += put.text
        else flaws.push(problemAt(part.source, put.wrong))
      }
    }
  return text
}

/** All parts, those inside of blocks too. */
export function* everyPart(parts: readonly Part[]): Generator<Part> {
  for (const part of parts) {
    yield part
    if (part.kind === "if") {
      yield* everyPart(part.yes)
      yield* everyPart(part.no)
    }
  }
}

// ---

type Node = hbs.AST.Node
type Helper = keyof typeof HELPERS

/** More than a configured string can need; bounds the depth of blocks. */
const MAX_LENGTH = 16 * 1024
const MOST_SHOWN = 80

/** How many arguments each takes. */
const HELPERS = {
  eq: [2, 2],
  and: [1, Number.POSITIVE_INFINITY],
  or: [1, Number.POSITIVE_INFINITY],
  not: [1, 1],
  default: [2, Number.POSITIVE_INFINITY],
  raw: [1, 1],
} as const

const isHelper = (name: string): name is Helper => Object.hasOwn(HELPERS, name)

const problemAt = (expression: string, message: string): ExpressionProblem => ({
  expression: expression.length > MOST_SHOWN ? `${expression.slice(0, MOST_SHOWN - 1)}…` : expression,
  message,
  severity: "error",
})

function evaluated(value: Value, context: TemplateContext): unknown {
  switch (value.kind) {
    case "literal":
      return value.value
    case "name":
      return value.path.reduce<unknown>(member, context)
    case "call": {
      const of = value.of.map((inner) => evaluated(inner, context))
      switch (value.helper) {
        case "eq":
          return of[0] === of[1]
        case "and":
          return of.every(isTrue)
        case "or":
          return of.some(isTrue)
        case "not":
          return !isTrue(of[0])
        case "default":
          return of.find((one) => one !== undefined && one !== null && one !== "") ?? of.at(-1)
        case "raw":
          return of[0]
      }
    }
  }
}

/** Only what an object itself has, and shows: no prototype, no length. */
function member(value: unknown, key: string): unknown {
  return typeof value === "object" && value !== null && Object.prototype.propertyIsEnumerable.call(value, key)
    ? (value as Record<string, unknown>)[key]
    : undefined
}

/** As `if` of handlebars has it. */
const isTrue = (value: unknown): boolean => Boolean(value) && !(Array.isArray(value) && value.length === 0)

function originOf(value: Value): Origin {
  switch (value.kind) {
    case "literal":
      return "svc"
    case "name": {
      const name = value.path.join(".")
      if (OWN_NAMES.has(name)) return "svc"
      return PLACE_NAMES.has(name) ? "place" : "word"
    }
    case "call": {
      // The others put out true or false.
      if (value.helper !== "default") return "svc"
      const origins = value.of.map(originOf)
      return (["word", "place"] as const).find((origin) => origins.includes(origin)) ?? "svc"
    }
  }
}

/** What svc itself makes. */
const OWN_NAMES: ReadonlySet<string> = new Set([
  "transport.type",
  "context.timestamp",
  "context.sessionId",
  "context.version",
])
const PLACE_NAMES: ReadonlySet<string> = new Set(["project.path", "context.path", "user.home"])

function insert(
  value: unknown,
  put: (text: string) => ReturnType<OutputRules["insertValue"]>,
): ReturnType<OutputRules["insertValue"]> {
  switch (typeof value) {
    case "string":
      return put(value)
    case "number":
    case "boolean":
      return put(String(value))
    default:
      return { wrong: value === undefined || value === null ? "has no value here" : "is not a text or a number" }
  }
}

/** What is being read, and what was found wrong in it. */
type ExpressionSource = { readonly text: string; readonly flaws: ExpressionProblem[] }

/** What handlebars read, as parts. What is not in the language becomes a flaw. */
function readProgram(source: ExpressionSource, program: hbs.AST.Program | undefined): Part[] {
  return (program?.body ?? []).flatMap((node) => readStatement(source, node))
}

function readStatement(source: ExpressionSource, node: Node): Part[] {
  if (is<hbs.AST.ContentStatement>(node, "ContentStatement")) return [{ kind: "text", text: node.value }]
  if (node.type === "CommentStatement") return []
  if (is<hbs.AST.BlockStatement>(node, "BlockStatement")) return readBlock(source, node)
  if (is<hbs.AST.MustacheStatement>(node, "MustacheStatement")) {
    const value =
      node.params.length > 0 || node.hash ? readCall(source, node) : readName(source, node, node.path, "error")
    return value === undefined ? [] : [{ kind: "put", value, source: sourceOf(source, node), origin: originOf(value) }]
  }
  refuse(source, node, REFUSED[node.type] ?? "is not part of the template language")
  return []
}

function readBlock(source: ExpressionSource, node: hbs.AST.BlockStatement): Part[] {
  const name = String(node.path.original)
  const named = [node.program, node.inverse].some((program) => program?.blockParams?.length)
  const [param] = node.params
  let test: Value | undefined
  if (name !== "if") {
    const instead = isHelper(name) ? `: write {{#if (${name} …)}}` : ""
    refuse(source, node, `${name} cannot be a block, only if can${instead}`)
  } else if (param === undefined || node.params.length > 1 || node.hash || named)
    refuse(source, node, "if takes exactly one argument")
  else test = readArgument(source, param)
  const yes = readProgram(source, node.program)
  const no = readProgram(source, node.inverse)
  return test === undefined ? [] : [{ kind: "if", test, yes, no }]
}

function readCall(
  source: ExpressionSource,
  node: hbs.AST.MustacheStatement | hbs.AST.SubExpression,
): Value | undefined {
  const name = is<hbs.AST.PathExpression>(node.path, "PathExpression") ? node.path.original : ""
  if (!isHelper(name))
    return refuse(source, node, `there is no helper ${name}${didYouMean(name, Object.keys(HELPERS))}`)
  const [least, most] = HELPERS[name]
  if (node.params.length < least || node.params.length > most || node.hash)
    return refuse(source, node, `${name} takes ${least === most ? "exactly" : "at least"} ${least}, and no name=value`)
  const of: Value[] = []
  for (const param of node.params) {
    const value = readArgument(source, param)
    if (value === undefined) return undefined
    of.push(value)
  }
  return { kind: "call", helper: name, of }
}

function readArgument(source: ExpressionSource, node: Node): Value | undefined {
  if (is<hbs.AST.SubExpression>(node, "SubExpression")) return readCall(source, node)
  if (
    is<hbs.AST.StringLiteral>(node, "StringLiteral") ||
    is<hbs.AST.NumberLiteral>(node, "NumberLiteral") ||
    is<hbs.AST.BooleanLiteral>(node, "BooleanLiteral")
  )
    return { kind: "literal", value: node.value }
  if (node.type === "UndefinedLiteral" || node.type === "NullLiteral") return { kind: "literal", value: undefined }
  return readName(source, node, node, "warning")
}

/** `severity` is that of a name that no context has. `around` is shown. */
function readName(
  source: ExpressionSource,
  around: Node,
  node: Node,
  severity: ExpressionProblem["severity"],
): Value | undefined {
  // `this.x`, `../x`, `@root.x` and `a/b` are spelled unlike their parts.
  if (!is<hbs.AST.PathExpression>(node, "PathExpression") || node.original !== node.parts.join("."))
    return refuse(source, around, `is not a name such as ${CONTEXT_NAMES[0]}`)
  const name = node.original
  if (!CONTEXT_NAMES.includes(name) && !name.startsWith("project.custom.")) {
    const message = `there is no ${name}${didYouMean(name, CONTEXT_NAMES)}`
    source.flaws.push({ ...problemAt(sourceOf(source, around), message), severity })
  }
  return { kind: "name", path: node.parts }
}

function refuse(source: ExpressionSource, node: Node, message: string): undefined {
  source.flaws.push(problemAt(sourceOf(source, node), message))
}

/** The text of a node; of a block its opening. What stands between blocks may be secret. */
function sourceOf(source: ExpressionSource, { loc: { start, end } }: Node): string {
  const lines = source.text.split(/\r\n?|\n/).slice(start.line - 1, end.line)
  lines.push((lines.pop() ?? "").slice(0, end.column))
  const text = [(lines.shift() ?? "").slice(start.column), ...lines].join("\n")
  return /^.*?\}\}+/s.exec(text)?.[0] ?? text
}

const REFUSED: Readonly<Record<string, string>> = {
  PartialStatement: "there are no partials",
  PartialBlockStatement: "there are no partials",
  Decorator: "there are no decorators",
  DecoratorBlock: "there are no inline partials",
}

/** Handlebars says the kind of a node by its `type`. */
const is = <T extends Node>(node: Node, type: T["type"]): node is T => node.type === type

/** What stands in braces, and nothing around it: that may be secret. */
const inBraces = (text: string): string => text.match(/\{\{[^{}]*\}\}+/g)?.join("…") ?? "{{…"

/** What the parser's message says, in words. */
function saying(text: string, error: unknown): string {
  const message = messageOf(error)
  const mismatch = /^(\S+) doesn't match (\S+)/.exec(message)
  if (mismatch !== null) return `: {{#${mismatch[1]}}} is closed by {{/${mismatch[2]}}}`
  if (/\{{3}|\}{3}/.test(text)) return ": three braces in a row are read as one; put a space between them"
  if (/got 'EOF'/.test(message))
    return /OPEN_ENDBLOCK/.test(message) ? ": a block is not closed" : ": it ends too early"
  return ""
}
