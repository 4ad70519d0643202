/**
 * Defines an internal tool: a name, schemas of its input and output, and a function. Also the parts that all tools share: checks
 * arguments, converts errors into results with a code, and masks secrets in every answer.
 */
import * as z from "zod"
import type { Agent } from "../../agent/agent.ts"
import type { Clock } from "../../lib/clock.ts"
import { ConfigError, isBug, publicMessage, RequestError } from "../../lib/errors.ts"
import { mapStrings } from "../../lib/json.ts"
import { nearest } from "../../lib/nearest.ts"
import { schemaProblem } from "../../lib/schema-problem.ts"
import { isObject, type Params } from "../../wire/message.ts"
import type { Bundles } from "../registry/bundle.ts"
import type { Machine } from "../registry/bundle-manifest.ts"
import { RegistryError } from "../registry/client.ts"
import type { Registries } from "../registry/registries.ts"
import type { ConfigEditor } from "./config-editor.ts"

/** server: Tools, tool annotations. */
export type ToolAnnotations = {
  readonly readOnlyHint: boolean
  readonly destructiveHint: boolean
  readonly idempotentHint: boolean
  readonly openWorldHint: boolean
}

/** A group of tools, as `--internal-tools` names it. */
type ToolCategory = "discovery" | "installation" | "management"

/** A category, `safe` for the tools that change nothing, or `all`. */
export type ToolChoice = ToolCategory | "safe" | "all"

/** A person at the client, for questions during a call. */
export type Person = {
  /** Asks a yes-or-no question; `yes` is the label of the consent. */
  agrees(message: string, yes: string): Promise<boolean>
}

/** A person at a terminal, who sees the answer to a dry run before the tool runs. */
type Terminal = {
  /** The `digest` of that answer; undefined if there was none. */
  readonly agreed: string | undefined
}

/** The parts of svc and of a call that tools use. */
export type ToolContext = {
  readonly agent: Agent
  readonly editor: ConfigEditor
  readonly clock: Clock
  readonly registries: Registries
  readonly bundles: Bundles
  readonly machine: Machine
  /** Requests documents at addresses that a caller gave. */
  readonly fetch: (url: string, init: RequestInit) => Promise<Response>
  /** Masks credentials in a text; paths and addresses stay. */
  maskCredentials(text: string): string
  /** Masks credentials, paths and addresses. */
  redactAll(text: string): string
  /** Returns the last lines of a server's log, oldest first. */
  lines(slug: string): readonly string[]
  /** The consents that the operator has given in advance: to run new commands, and to change what other clients' models read. */
  readonly preapproved: { readonly installs: boolean; readonly edits: boolean }
  /** Undefined if the caller cannot ask a person. */
  readonly person: Person | undefined
  /** Set if the caller is a person at a terminal, through a command of svc. */
  readonly terminal: Terminal | undefined
  /** Aborted when the caller cancels. */
  readonly signal: AbortSignal
  /** Reports progress, which resets the timeout of many callers. */
  progress(message: string): void
}

/** The part of the context that belongs to one call. */
export type ToolCaller = Pick<ToolContext, "person" | "terminal" | "signal" | "progress">

/** The codes of failures. choice: Internal tools. */
export const TOOL_FAULTS = [
  "not_found",
  "invalid_argument",
  "conflict",
  "confirmation_required",
  "declined",
  "registry_unavailable",
  "rolled_back",
  "internal",
] as const
export type ToolFault = (typeof TOOL_FAULTS)[number]

/**
 * The tool that helps after a failure, as data: a client shows the tool's name, a terminal the corresponding command. `does`
 * continues a sentence that begins with the name.
 */
export type ToolHint = { readonly tool: string; readonly args: Params; readonly does: string }

/** A tool's failure. The answer contains `data` next to the error. `hint` names a tool, the message does not. */
export class ToolError extends Error {
  override readonly name = "ToolError"
  readonly hint: ToolHint | undefined
  readonly data: Params
  constructor(
    readonly fault: ToolFault,
    message: string,
    { hint, data = {} }: { readonly hint?: ToolHint; readonly data?: Params } = {},
  ) {
    super(message)
    this.hint = hint
    this.data = data
  }
}

export type InternalTool = {
  readonly name: string
  readonly category: ToolCategory
  readonly title: string
  readonly description: string
  readonly annotations: ToolAnnotations
  readonly input: z.ZodObject
  readonly output: z.ZodObject
  /** Rejects with a ToolError, or with the error of a part that it uses. */
  run(args: Params, context: ToolContext): Promise<ToolOutput>
}

/** The answer of a tool: data that fits its `output`, and a summary. Undefined members are left out. */
export type ToolOutput<T = Params> = { readonly data: T; readonly text: string }

/** server: Tools, `CallToolResult`. */
export type ToolResult = {
  readonly content: readonly { readonly type: "text"; readonly text: string }[]
  readonly structuredContent: Params
  readonly isError?: true
}

/** Returns a tool. `run` receives arguments that fit `input`. */
export function defineTool<I extends z.ZodObject, O extends z.ZodObject>(
  tool: Omit<InternalTool, "input" | "output" | "run"> & {
    readonly input: I
    readonly output: O
    run(
      args: z.output<I>,
      context: ToolContext,
    ): ToolOutput<Immutable<z.input<O>>> | Promise<ToolOutput<Immutable<z.input<O>>>>
  },
): InternalTool {
  return {
    ...tool,
    async run(args, context) {
      const { data, text } = await tool.run(check(tool.input, args), context)
      return { data: data as Params, text }
    },
  }
}

/** Runs a tool. Never rejects: a failure is a result with a code. Calls `onbug` with errors that are bugs of svc. */
export async function invokeTool(
  tool: InternalTool,
  args: Params,
  context: ToolContext,
  onbug: (error: unknown) => void,
): Promise<ToolResult> {
  try {
    requireModest(args)
    const { data, text } = await tool.run(args, context)
    // Many clients show only the text.
    const lines = [text, ...listOf(data.warnings).map((warning) => `warning: ${warning}`)]
    return clean({ content: [{ type: "text", text: lines.join("\n") }], structuredContent: data }, context)
  } catch (error) {
    const { code, message, hint, data } = toolFailure(error)
    if (code === "internal" && isBug(error)) onbug(error)
    // The server's log is often the only explanation.
    const lines = [
      hint === undefined ? message : `${message}; ${hint.tool} ${hint.does}`,
      ...listOf(data.log).map((line) => `  ${line}`),
    ]
    const structuredContent = { ...data, error: { code, message, hint } }
    return clean({ content: [{ type: "text", text: lines.join("\n") }], structuredContent, isError: true }, context)
  }
}

/** Throws a ToolError (invalid_argument) for arguments, or a body, that are too large for a change. */
export function requireModest(args: Params): void {
  let [values, characters] = [0, 0]
  const count = (value: unknown): void => {
    values++
    if (typeof value === "string") characters += value.length
    if (values > MAX_VALUES || characters > MAX_CHARACTERS)
      throw new ToolError(
        "invalid_argument",
        `The input has more than ${MAX_VALUES} values, or ${MAX_CHARACTERS / 1024} KiB of text; make the change in several steps, or edit mcp.json`,
      )
    if (typeof value !== "object" || value === null) return
    for (const [key, member] of Object.entries(value)) {
      characters += key.length
      count(member)
    }
  }
  count(args)
}

/** Returns a tool's entry in `tools/list`, as JSON text. */
export function toolEntry({ name, title, description, annotations, input, output }: InternalTool): string {
  return JSON.stringify({
    name,
    title,
    description,
    inputSchema: schemaOf(input),
    outputSchema: outputSchemaOf(output),
    annotations: { title, ...annotations },
  })
}

/** A deeply read-only value. */
export type Immutable<T> = T extends readonly (infer E)[]
  ? readonly Immutable<E>[]
  : T extends object
    ? { readonly [K in keyof T]: Immutable<T[K]> }
    : T

/** The argument that names a server, in every tool. */
export const SERVER_NAME = z.string().min(1).describe("The server's name, as mcp_list shows it")

export const READS: ToolAnnotations = {
  readOnlyHint: true,
  destructiveHint: false,
  idempotentHint: true,
  openWorldHint: false,
}

// ---

/** The most values in the input of a change, and characters in their texts: an edit is checked and shown in one turn. */
const MAX_VALUES = 2000
const MAX_CHARACTERS = 256 * 1024

/** Returns the code of an error, and the message that a caller may see. */
function toolFailure(error: unknown): {
  readonly code: ToolFault
  readonly message: string
  readonly hint: ToolHint | undefined
  readonly data: Params
} {
  if (error instanceof ToolError) {
    const { fault: code, message, hint, data } = error
    return { code, message, hint, data }
  }
  const code = error instanceof RegistryError ? "registry_unavailable" : codeOf(error)
  const message = error instanceof RegistryError ? error.message : publicMessage(error)
  return { code, message, hint: undefined, data: {} }
}

/** Returns the arguments, parsed by the tool's schema. Throws a ToolError that names the wrong members, but no values. */
function check<I extends z.ZodObject>(input: I, args: Params): z.output<I> {
  const known = Object.keys(input.shape)
  const named: Record<string, unknown> = {}
  for (const [key, value] of Object.entries(args)) {
    const member = memberOf(key, known)
    // Many callers write null for an absent argument.
    if (value !== null && value !== undefined) named[member] ??= value
  }
  const parsed = input.safeParse(named, { error: schemaProblem })
  if (parsed.success) return parsed.data
  throw new ToolError(
    "invalid_argument",
    parsed.error.issues
      .map(({ path, message }) => `${path.length === 0 ? "the arguments" : `"${path.join(".")}"`}: ${message}`)
      .join("; "),
  )
}

/** Returns the declared member for an argument's name. Throws a ToolError if there is none. */
function memberOf(key: string, known: readonly string[]): string {
  if (known.includes(key)) return key
  if (SERVER_NAME_ALIASES.includes(key) && known.includes("serverName")) return "serverName"
  const near = nearest(key, known)
  const help = near === undefined ? `the arguments are: ${known.join(", ") || "none"}` : `did you mean "${near}"?`
  throw new ToolError("invalid_argument", `There is no argument "${key}"; ${help}`)
}

const listOf = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : [])

/** choice: Internal tools, arguments. */
const SERVER_NAME_ALIASES = ["name", "server"]

function codeOf(error: unknown): ToolFault {
  if (error instanceof ConfigError) return "invalid_argument"
  if (!(error instanceof RequestError)) return "internal"
  switch (error.fault) {
    case "not_found":
      return "not_found"
    case "conflict":
    case "too_many":
      return "conflict"
    default:
      return "invalid_argument"
  }
}

/**
 * Masks secrets in every text of a result, and drops undefined members. At a terminal, does not mask the members in `ASKED`, from
 * which the question is built: a known secret must not hide a part of what the person agrees to.
 */
function clean(result: ToolResult, { maskCredentials, terminal }: ToolContext): ToolResult {
  const mask = (text: string, path: readonly (string | number)[]): string =>
    terminal !== undefined && ASKED.has(path.join(".")) ? text : maskCredentials(text)
  return mapStrings(result, mask) as ToolResult
}

const ASKED: ReadonlySet<string> = new Set([
  "structuredContent.command",
  "structuredContent.inherited",
  "structuredContent.digest",
])

function schemaOf(schema: z.ZodObject): Params {
  const { $schema: _dialect, ...rest } = z.toJSONSchema(schema, { target: "draft-2020-12", io: "input" })
  return rest
}

/** Returns a schema that also allows failures: clients check every structured answer against it. */
function outputSchemaOf(output: z.ZodObject): Params {
  const { required, properties, ...rest } = schemaOf(output)
  return {
    ...rest,
    properties: { ...(isObject(properties) ? properties : {}), error: schemaOf(ERROR) },
    anyOf: [{ required: required ?? [] }, { required: ["error"] }],
  }
}

const ERROR = z
  .object({
    code: z.enum(TOOL_FAULTS),
    message: z.string().describe("The problem, and what to do"),
    hint: z
      .object({ tool: z.string(), args: z.record(z.string(), z.unknown()), does: z.string() })
      .optional()
      .describe("A tool that helps, with its arguments"),
  })
  .describe("Set if the call failed")
