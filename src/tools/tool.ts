/**
 * Defines what an internal tool is: a name, schemas in and out, and a function. What all tools share is here: arguments are
 * checked, errors become results with a code, and secrets are taken out of every answer.
 */
import * as z from "zod"
import type { Agent } from "../agent/agent.ts"
import type { Clock } from "../lib/clock.ts"
import { ConfigError, isBug, publicMessage, RequestError } from "../lib/errors.ts"
import { mapStrings } from "../lib/json.ts"
import { nearest } from "../lib/nearest.ts"
import { schemaProblem } from "../lib/schema-problem.ts"
import type { Bundles } from "../registry/bundle.ts"
import type { Machine } from "../registry/bundle-manifest.ts"
import { RegistryError } from "../registry/client.ts"
import type { Registries } from "../registry/registries.ts"
import { isObject, type Params } from "../wire/message.ts"
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

/** A person at a terminal, who is shown the answer to a dry run before the tool runs. */
type Terminal = {
  /** The `digest` of that answer; undefined if there was none. */
  readonly agreed: string | undefined
}

/** What tools work with. */
export type ToolContext = {
  readonly agent: Agent
  readonly editor: ConfigEditor
  readonly clock: Clock
  readonly registries: Registries
  readonly bundles: Bundles
  readonly machine: Machine
  /** Requests documents of addresses that a caller gave. */
  readonly fetch: (url: string, init: RequestInit) => Promise<Response>
  /** Masks credentials in a text; paths and addresses stay. */
  maskCredentials(text: string): string
  /** Masks credentials, paths and addresses. */
  redactAll(text: string): string
  /** Returns the last lines of a server's log, oldest first. */
  lines(slug: string): readonly string[]
  /** What the operator has agreed to in advance: to run new commands, and to change what other clients' models read. */
  readonly preapproved: { readonly installs: boolean; readonly edits: boolean }
  /** Undefined if the caller cannot ask a person. */
  readonly person: Person | undefined
  /** Set if a person at a terminal is the caller: a command of svc. */
  readonly terminal: Terminal | undefined
  /** Aborted when the caller gives up. */
  readonly signal: AbortSignal
  /** Reports progress, which resets the timeout of many callers. */
  progress(message: string): void
}

/** The part of the context that each call has of its own. */
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
 * The tool that helps after a failure, as data: a client reads the tool's name, a terminal the command of the same name.
 * `does` says what it does, in a few words that follow the name.
 */
export type ToolHint = { readonly tool: string; readonly args: Params; readonly does: string }

/** A tool's failure. `data` stands beside the error in the answer. The message names no tool: `hint` does. */
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

/** What a tool answers: data that fits its `output`, and a summary of it. Members that are undefined are left out. */
export type ToolOutput<T = Params> = { readonly data: T; readonly text: string }

/** server: Tools, `CallToolResult`. */
export type ToolResult = {
  readonly content: readonly { readonly type: "text"; readonly text: string }[]
  readonly structuredContent: Params
  readonly isError?: true
}

/** Makes a tool; `run` gets arguments that fit `input`. */
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

/** Runs a tool. Never rejects: a failure is a result with a code. `onbug` is called with errors of svc's own. */
export async function invokeTool(
  tool: InternalTool,
  args: Params,
  context: ToolContext,
  onbug: (error: unknown) => void,
): Promise<ToolResult> {
  try {
    const { data, text } = await tool.run(args, context)
    // Many clients show the text only.
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

/** Returns the code of anything thrown, and the message that a caller may see. */
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

/** Returns the arguments as the tool declares them. Throws a ToolError that names the wrong member and no value. */
function check<I extends z.ZodObject>(input: I, args: Params): z.output<I> {
  const known = Object.keys(input.shape)
  const named: Record<string, unknown> = {}
  for (const [key, value] of Object.entries(args)) {
    const member = memberOf(key, known)
    // Many callers write null for an argument that is absent.
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

/** Returns the declared member that an argument means. Throws a ToolError if there is none. */
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
 * Masks secrets in every text of a result, and drops members that are undefined. A terminal's question is made of the
 * members in `ASKED`: a value that is known from elsewhere must not hide a part of what the person agrees to.
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

/** Allows failures beside the tool's output: clients check every structured answer against this schema. */
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
    message: z.string().describe("What went wrong and what to do"),
    hint: z
      .object({ tool: z.string(), args: z.record(z.string(), z.unknown()), does: z.string() })
      .optional()
      .describe("A tool that helps, with its arguments"),
  })
  .describe("Set if the call failed")
