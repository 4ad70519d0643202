/**
 * The template language: one string with `{{…}}` expressions. Handlebars parses it; this file checks and evaluates it.
 * Nothing is compiled to code and no function is called, so an expression reaches only the context: no prototype, no
 * function, no environment.
 *
 *   {{name}}                          the value; empty if the context does not set it. Unknown names are an error, and so are
 *                                     names below project.custom that no .svcrc sets
 *   {{#if x}}…{{else if y}}…{{else}}…{{/if}}
 *   (eq a b) (and …) (or …) (not a)   true or false; inside arguments a missing value is just false
 *   {{default a b …}}                 the first value that is not missing or empty, else the last
 *   {{raw a}}                         the value, exempt from render.ts's rules for a project's text
 *
 * spec: Templates.
 */
import { messageOf } from "../lib/errors.ts"
import { lazy } from "../lib/lazy.ts"
import { didYouMean } from "../lib/nearest.ts"
import { counted } from "../lib/text.ts"
import { CONTEXT_NAMES } from "./context.ts"
import type { TemplateContext } from "./context-schema.ts"

/** An expression inside braces. */
type Value =
  | { readonly kind: "literal"; readonly value: string | number | boolean | undefined }
  | { readonly kind: "name"; readonly path: readonly string[] }
  | { readonly kind: "call"; readonly helper: Helper; readonly args: readonly Value[] }

/**
 * The origin of an expression's text: svc itself (or the template says `raw`), a path on this machine, or words that a
 * project, its repository, a user's account or a client chose.
 */
export type Origin = "svc" | "place" | "word"

/** A part of a template's string: literal text, an inserted value, or a block with parts of its own. */
export type Part =
  | { readonly kind: "text"; readonly text: string }
  | { readonly kind: "insert"; readonly value: Value; readonly source: string; readonly origin: Origin }
  | { readonly kind: "if"; readonly test: Value; readonly yes: readonly Part[]; readonly no: readonly Part[] }

/** A problem with an expression. Shows no value. */
export type ExpressionProblem = { readonly expression: string; readonly message: string }

/** A parsed string with its problems, and the names in it, those of arguments included. */
export type Expression = {
  readonly parts: readonly Part[]
  readonly problems: readonly ExpressionProblem[]
  readonly names: readonly string[]
}

/** Parses a string. An expression with a problem must not be evaluated. */
export function parseExpression(text: string): Expression {
  if (text.length > MAX_LENGTH)
    return faulty(inBraces(text), `is longer than ${MAX_LENGTH} characters, the most for a template`)
  try {
    const problems: ExpressionProblem[] = []
    const names: string[] = []
    return { parts: readProgram({ text, problems, names }, handlebars().parse(text)), problems, names }
  } catch (error) {
    return faulty(inBraces(text), `is not a valid template${explain(text, error)}`)
  }
}

/** How literal text and the values of expressions become part of the result. */
export type OutputRules = {
  literalText(text: string): string
  /** Returns the text to insert, or why it is rejected. `before` is the result so far. */
  insertValue(text: string, origin: Origin, before: string): { readonly text: string } | { readonly wrong: string }
}

/** Evaluates parts in a context. Returns `before` with their text after it. Adds missing and rejected values to `problems`. */
export function evaluate(
  parts: readonly Part[],
  context: TemplateContext,
  rules: OutputRules,
  problems: ExpressionProblem[],
  before: string = "",
): string {
  let text = before
  for (const part of parts)
    switch (part.kind) {
      case "text":
        text += rules.literalText(part.text)
        break
      case "if":
        text = evaluate(isTrue(evaluated(part.test, context)) ? part.yes : part.no, context, rules, problems, text)
        break
      case "insert": {
        const inserted = insert(evaluated(part.value, context), (value) => rules.insertValue(value, part.origin, text))
        if ("text" in inserted) text += inserted.text
        else problems.push(problemAt(part.source, inserted.wrong))
      }
    }
  return text
}

/** Yields all parts, including those inside blocks. */
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

/** Loads Handlebars at the first template: that takes 2 ms. */
const handlebars = lazy(() => require("handlebars") as typeof import("handlebars"))

type Node = hbs.AST.Node
type Helper = keyof typeof HELPERS

/** Longer than any configured string needs to be; also bounds the depth of blocks. */
const MAX_LENGTH = 16 * 1024
const MAX_EXCERPT = 80

/** The minimum and maximum number of arguments of each helper. */
const HELPERS = {
  eq: [2, 2],
  and: [1, Number.POSITIVE_INFINITY],
  or: [1, Number.POSITIVE_INFINITY],
  not: [1, 1],
  default: [2, Number.POSITIVE_INFINITY],
  raw: [1, 1],
} as const

const isHelper = (name: string): name is Helper => Object.hasOwn(HELPERS, name)

const faulty = (expression: string, message: string): Expression => ({
  parts: [],
  problems: [problemAt(expression, message)],
  names: [],
})

const problemAt = (expression: string, message: string): ExpressionProblem => ({
  expression: expression.length > MAX_EXCERPT ? `${expression.slice(0, MAX_EXCERPT - 1)}…` : expression,
  message,
})

function evaluated(value: Value, context: TemplateContext): unknown {
  switch (value.kind) {
    case "literal":
      return value.value
    case "name":
      return value.path.reduce<unknown>(member, context) ?? (isKnown(value.path.join(".")) ? "" : undefined)
    case "call": {
      const args = value.args.map((inner) => evaluated(inner, context))
      switch (value.helper) {
        case "eq":
          return args[0] === args[1]
        case "and":
          return args.every(isTrue)
        case "or":
          return args.some(isTrue)
        case "not":
          return !isTrue(args[0])
        case "default":
          return args.find((one) => one !== undefined && one !== null && one !== "") ?? args.at(-1)
        case "raw":
          return args[0]
      }
    }
  }
}

/** Whether a name exists in every context, set or not. */
const isKnown = (name: string): boolean => CONTEXT_NAMES.includes(name)

/** Returns an own enumerable member: no prototype, no length. */
function member(value: unknown, key: string): unknown {
  return typeof value === "object" && value !== null && Object.prototype.propertyIsEnumerable.call(value, key)
    ? (value as Record<string, unknown>)[key]
    : undefined
}

/** Whether a value is true for Handlebars' `if`. */
const isTrue = (value: unknown): boolean => Boolean(value) && !(Array.isArray(value) && value.length === 0)

function originOf(value: Value): Origin {
  switch (value.kind) {
    case "literal":
      return "svc"
    case "name": {
      const name = value.path.join(".")
      if (SVC_NAMES.has(name)) return "svc"
      return PLACE_NAMES.has(name) ? "place" : "word"
    }
    case "call": {
      // The other helpers return true or false.
      if (value.helper !== "default") return "svc"
      const origins = value.args.map(originOf)
      return (["word", "place"] as const).find((origin) => origins.includes(origin)) ?? "svc"
    }
  }
}

/** Names with values that svc itself sets. */
const SVC_NAMES: ReadonlySet<string> = new Set([
  "transport.type",
  "context.timestamp",
  "context.sessionId",
  "context.version",
])
const PLACE_NAMES: ReadonlySet<string> = new Set(["project.path", "context.path", "user.home"])

/** Inserts a value as text; rejects missing values, objects and lists. */
function insert(
  value: unknown,
  rule: (text: string) => ReturnType<OutputRules["insertValue"]>,
): ReturnType<OutputRules["insertValue"]> {
  switch (typeof value) {
    case "string":
      return rule(value)
    case "number":
    case "boolean":
      return rule(String(value))
    default:
      return {
        wrong:
          value === undefined || value === null ? "has no value here: set it in .svcrc" : "is not a string or a number",
      }
  }
}

/** The text that is being read, and the problems and names found so far. */
type ExpressionSource = { readonly text: string; readonly problems: ExpressionProblem[]; readonly names: string[] }

/** Converts a Handlebars program into parts. Anything outside of the language becomes a problem. */
function readProgram(source: ExpressionSource, program: hbs.AST.Program | undefined): Part[] {
  return (program?.body ?? []).flatMap((node) => readStatement(source, node))
}

function readStatement(source: ExpressionSource, node: Node): Part[] {
  if (is<hbs.AST.ContentStatement>(node, "ContentStatement")) return [{ kind: "text", text: node.value }]
  if (node.type === "CommentStatement") return []
  if (is<hbs.AST.BlockStatement>(node, "BlockStatement")) return readBlock(source, node)
  if (is<hbs.AST.MustacheStatement>(node, "MustacheStatement")) {
    const value = node.params.length > 0 || node.hash ? readCall(source, node) : readName(source, node, node.path)
    return value === undefined
      ? []
      : [{ kind: "insert", value, source: sourceOf(source, node), origin: originOf(value) }]
  }
  refuse(source, node, REFUSED[node.type] ?? "is not part of the template language")
  return []
}

function readBlock(source: ExpressionSource, node: hbs.AST.BlockStatement): Part[] {
  const name = String(node.path.original)
  const hasBlockParams = [node.program, node.inverse].some((program) => program?.blockParams?.length)
  const [param] = node.params
  let test: Value | undefined
  if (name !== "if") {
    const hint = isHelper(name) ? `: write {{#if (${name} …)}}` : ""
    refuse(source, node, `${name} cannot be a block; the only block is {{#if …}}${hint}`)
  } else if (param === undefined || node.params.length > 1 || node.hash || hasBlockParams)
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
    return refuse(
      source,
      node,
      `${name} takes ${least === most ? "exactly" : "at least"} ${counted(least, "argument")}, and no name=value`,
    )
  const args: Value[] = []
  for (const param of node.params) {
    const value = readArgument(source, param)
    if (value === undefined) return undefined
    args.push(value)
  }
  return { kind: "call", helper: name, args }
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
  return readName(source, node, node)
}

/** Reads a name. `around` is the node that messages show. */
function readName(source: ExpressionSource, around: Node, node: Node): Value | undefined {
  // The text of `this.x`, `../x`, `@root.x` and `a/b` differs from their parts.
  if (!is<hbs.AST.PathExpression>(node, "PathExpression") || node.original !== node.parts.join("."))
    return refuse(source, around, `is not a name such as ${CONTEXT_NAMES[0]}`)
  const name = node.original
  if (!isKnown(name) && !name.startsWith("project.custom."))
    return refuse(source, around, `there is no variable ${name}${didYouMean(name, CONTEXT_NAMES)}`)
  source.names.push(name)
  return { kind: "name", path: node.parts }
}

function refuse(source: ExpressionSource, node: Node, message: string): undefined {
  source.problems.push(problemAt(sourceOf(source, node), message))
}

/** Returns the text of a node; of a block, only its opening tag, because the text inside may be secret. */
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

/** Narrows a node by its `type`. */
const is = <T extends Node>(node: Node, type: T["type"]): node is T => node.type === type

/** Returns the expressions of a text without the text around them, which may be secret. */
const inBraces = (text: string): string => text.match(/\{\{[^{}]*\}\}+/g)?.join("…") ?? "{{…"

/** Explains an error of the parser. Returns the end of a message. */
function explain(text: string, error: unknown): string {
  const message = messageOf(error)
  const mismatch = /^(\S+) doesn't match (\S+)/.exec(message)
  if (mismatch !== null) return `: {{#${mismatch[1]}}} is closed by {{/${mismatch[2]}}}`
  if (/\{{3}|\}{3}/.test(text)) return ": three braces in a row are one token; put a space between them"
  if (/got 'EOF'/.test(message))
    return /OPEN_ENDBLOCK/.test(message) ? ": a block is not closed" : ": it ends too early"
  return ""
}
