/**
 * What an internal tool is: a name, schemas in and out, and a function. Everything that all of them have in common is
 * here: arguments are checked, errors become results with a code, and secrets are taken out of whatever is answered.
 */
import * as z from "zod"
import type { Agent } from "../agent/agent.ts"
import type { Clock } from "../lib/clock.ts"
import { ConfigError, codesOf, publicMessage, RequestError } from "../lib/errors.ts"
import { mapStrings } from "../lib/json.ts"
import { nearest } from "../lib/nearest.ts"
import type { Bundles } from "../registry/bundle.ts"
import type { Machine } from "../registry/bundle-manifest.ts"
import { RegistryError } from "../registry/client.ts"
import type { Registries } from "../registry/registries.ts"
import { isObject, type Params } from "../wire/message.ts"
import type { ConfigEditor } from "./config-editor.ts"
import type { ToolCategory } from "./tool-category.ts"

/** server: Tools, tool annotations. */
export type ToolAnnotations = {
  readonly readOnlyHint: boolean
  readonly destructiveHint: boolean
  readonly idempotentHint: boolean
  readonly openWorldHint: boolean
}

/** Whoever can be asked in the middle of a call. */
export type Person = {
  /** Puts a yes-or-no question. */
  agrees(message: string, yes: string): Promise<boolean>
}

/** What tools work with. `person` is undefined where nobody can be asked. */
export type ToolContext = {
  readonly agent: Agent
  readonly editor: ConfigEditor
  readonly clock: Clock
  readonly registries: Registries
  readonly bundles: Bundles
  readonly machine: Machine
  /** Takes credentials out; paths and addresses stay. */
  maskCredentials(text: string): string
  /** Takes places out too. */
  redactAll(text: string): string
  /** The last lines of a server's log, oldest first. */
  lines(slug: string): readonly string[]
  /** Without a person to ask: false refuses what would run a new command, or change what other clients' models read. */
  readonly trusted: { readonly installs: boolean; readonly edits: boolean }
  readonly person: Person | undefined
  /** The caller has given up. */
  readonly signal: AbortSignal
  /** Says that it goes on: a caller may wait longer then. */
  progress(message: string): void
}

/** What a call has of its own. */
export type ToolCaller = Pick<ToolContext, "person" | "signal" | "progress">

export type ToolFault =
  | "not_found"
  | "invalid_argument"
  | "conflict"
  | "confirmation_required"
  | "declined"
  | "registry_unavailable"
  | "rolled_back"
  | "internal"

/** A tool's failure. `data` stands beside the error in the answer. */
export class ToolError extends Error {
  override readonly name = "ToolError"
  constructor(
    readonly fault: ToolFault,
    message: string,
    readonly data: Params = {},
  ) {
    super(message)
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
  /** Throws what went wrong. */
  run(args: Params, context: ToolContext): Promise<ToolOutput>
}

/** What a tool answers: data that fits its `output`, and the same in a few words. */
export type ToolOutput<T = Params> = { readonly data: T; readonly text: string }

/** server: Tools, `CallToolResult`. */
export type ToolResult = {
  readonly content: readonly { readonly type: "text"; readonly text: string }[]
  readonly structuredContent: Params
  readonly isError?: true
}

/** A tool from its parts: `run` gets arguments that fit `input`. */
export function defineTool<I extends z.ZodObject, O extends z.ZodObject>(
  tool: Omit<InternalTool, "input" | "output" | "run"> & {
    readonly input: I
    readonly output: O
    run(args: z.output<I>, context: ToolContext): ToolOutput<z.input<O>> | Promise<ToolOutput<z.input<O>>>
  },
): InternalTool {
  return {
    ...tool,
    async run(args, context) {
      const { data, text } = await tool.run(check(tool.input, args), context)
      return { data, text }
    },
  }
}

/** Runs a tool. Never rejects: what goes wrong is a result with a code; `onbug` hears what is svc's own fault. */
export async function invokeTool(
  tool: InternalTool,
  args: Params,
  context: ToolContext,
  onbug: (error: unknown) => void,
): Promise<ToolResult> {
  try {
    const { data, text } = await tool.run(args, context)
    // Many clients show the text alone.
    const said = [text, ...list(data.warnings).map((warning) => `warning: ${warning}`)].join("\n")
    return clean({ content: [{ type: "text", text: said }], structuredContent: data }, context)
  } catch (error) {
    const { code, message, data } = toolFailure(error)
    if (code === "internal" && codesOf(error).http === 500) onbug(error)
    // What a server said is often the only reason that there is.
    const said = [message, ...list(data.log).map((line) => `  ${line}`)].join("\n")
    return clean(
      {
        content: [{ type: "text", text: said }],
        structuredContent: { ...data, error: { code, message } },
        isError: true,
      },
      context,
    )
  }
}

/** The code of anything thrown, and what may be told of it. */
export function toolFailure(error: unknown): {
  readonly code: ToolFault
  readonly message: string
  readonly data: Params
} {
  if (error instanceof ToolError) return { code: error.fault, message: error.message, data: error.data }
  if (error instanceof RegistryError) return { code: "registry_unavailable", message: error.message, data: {} }
  return { code: codeOf(error), message: publicMessage(error), data: {} }
}

/** The entry in `tools/list`, as JSON text. */
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

/** The argument that names a server, in all tools. */
export const SERVER_NAME = z.string().min(1).describe("The server's name, as mcp_list shows it")

export const READS: ToolAnnotations = {
  readOnlyHint: true,
  destructiveHint: false,
  idempotentHint: true,
  openWorldHint: false,
}

// ---

/** The arguments as the tool has them. Throws a ToolError that names the member that is wrong, and none of its value. */
function check<I extends z.ZodObject>(input: I, args: Params): z.output<I> {
  const known = Object.keys(input.shape)
  const named: Record<string, unknown> = {}
  for (const [key, value] of Object.entries(args)) {
    const wanted = !known.includes(key) && ALIASES.includes(key) && known.includes("serverName") ? "serverName" : key
    if (!known.includes(wanted)) {
      const near = nearest(key, known)
      throw new ToolError(
        "invalid_argument",
        `There is no argument "${key}"${near === undefined ? `; there are: ${known.join(", ") || "none"}` : `; did you mean "${near}"?`}`,
      )
    }
    // What is not there and what is null are the same to many callers.
    if (value !== null && value !== undefined) named[wanted] ??= value
  }
  const parsed = input.safeParse(named)
  if (parsed.success) return parsed.data
  throw new ToolError(
    "invalid_argument",
    parsed.error.issues
      .map(({ path, message }) => `${path.length === 0 ? "the arguments" : `"${path.join(".")}"`}: ${message}`)
      .join("; "),
  )
}

const list = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : [])

/** Other names under which a server is named. */
const ALIASES = ["name", "server"]

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

/** Secrets are taken out of every text on its way to the client. */
function clean(result: ToolResult, { maskCredentials }: ToolContext): ToolResult {
  return mapStrings(result, maskCredentials) as ToolResult
}

function schemaOf(schema: z.ZodObject): Params {
  const { $schema: _dialect, ...rest } = z.toJSONSchema(schema, { target: "draft-2020-12", io: "input" })
  return rest
}

/** A failure fits the schema too: clients check every structured answer against it. */
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
    code: z.string().describe("not_found, invalid_argument, conflict, rolled_back …"),
    message: z.string().describe("What went wrong and what to do"),
  })
  .describe("Set where the call failed")
