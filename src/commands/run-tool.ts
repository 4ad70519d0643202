/** Runs one of svc's own tools for a command: in the running instance of the configuration, or in this process if none runs. */
import { isDeepStrictEqual } from "node:util"
import { createReload } from "../agent/reload.ts"
import { openReferences } from "../app/features.ts"
import { openLogging } from "../app/logging.ts"
import { readServeOptions } from "../app/serve-options.ts"
import { openUpstream } from "../app/upstream.ts"
import type { Document } from "../config/document.ts"
import { type HostEnvironment, plan } from "../config/plan.ts"
import type { Launch, Plan, ServerSpec } from "../config/server-spec.ts"
import type { Bundles } from "../features/registry/bundle.ts"
import { openInternalTools } from "../features/tools/internal-tools.ts"
import { TOOLS } from "../features/tools/toolbox.ts"
import { systemClock } from "../lib/clock.ts"
import { ConfigError, RequestError, UnavailableError } from "../lib/errors.ts"
import { watchInterrupts } from "../lib/interrupt.ts"
import { say } from "../lib/output.ts"
import type { LocalConfiguration } from "../serve/local-configuration.ts"
import { createMissing, readTexts } from "../store/documents.ts"
import { recoverTrials } from "../store/transaction.ts"
import { planDocument } from "../template/instance.ts"
import { isObject, type Params } from "../wire/message.ts"

/** State that a command keeps between two calls of a tool: the first returns a plan, the second executes it. */
export type PlannedRun = {
  /** Keeps downloads. */
  readonly bundles: Bundles
  /** The `digest` of the plan that the person has agreed to. */
  readonly agreed?: string | undefined
}

/**
 * Returns the structured result of the tool. Throws a RequestError for an error of the caller, an UnavailableError for any
 * other error of the tool, and Interrupted at a second signal.
 */
export async function runTool(
  context: LocalConfiguration,
  tool: string,
  args: Params,
  run?: PlannedRun,
): Promise<Params> {
  const call = { tool, arguments: args, agreed: run?.agreed }
  const result = (await context.ask("tool", call, TIMEOUT_MS)) ?? (await runHere(context, call, run?.bundles))
  const data = isObject(result) && isObject(result.structuredContent) ? result.structuredContent : {}
  if (!isObject(data.error)) return data
  // The server's own output is often the only hint about the cause.
  for (const line of Array.isArray(data.log) ? data.log.slice(-LOG_LINES) : []) say(`  ${line}`)
  const message = withHint(data.error)
  switch (data.error.code) {
    case "not_found":
    case "conflict":
      throw new RequestError(data.error.code, message, data)
    case "invalid_argument":
      throw new RequestError("invalid_params", message, data)
    default:
      throw new UnavailableError(message)
  }
}

// ---

/** Returns an error's message with the command that helps, instead of the tool that the hint names for clients. */
function withHint({ message, hint }: Params): string {
  // Messages of tools are sentences; messages of commands begin with a lower-case letter.
  const text = String(message).replace(/^(?:An?|No|Nothing|Only|The|There|This)(?= )/, (word) => word.toLowerCase())
  if (!isObject(hint)) return text
  const command = COMMANDS[String(hint.tool)]
  if (command === undefined) return text
  const { serverName } = isObject(hint.args) ? hint.args : {}
  const target = serverName === undefined ? "" : ` ${String(serverName)}`
  return `${text}; \`${command}${target}\` ${hint.does}`
}

/** The commands of the tools that hints name. */
const COMMANDS: Readonly<Record<string, string>> = {
  mcp_list: "svc mcp list",
  mcp_status: "svc mcp status",
  mcp_enable: "svc mcp enable",
  mcp_edit: "svc mcp edit",
}

const LOG_LINES = 10
/** Longer than any server may take to connect. */
const TIMEOUT_MS = 30 * 60_000

/** The control socket's parameters of a call. */
type ToolCall = { readonly tool: string; readonly arguments: Params; readonly agreed: string | undefined }

/** Runs the tool in this process. A tool that is interrupted while it changes files undoes its changes. */
async function runHere(context: LocalConfiguration, call: ToolCall, bundles: Bundles | undefined): Promise<unknown> {
  const writes = TOOLS.some(({ name, annotations }) => name === call.tool && !annotations.readOnlyHint)
  // A tool that only reads creates no files, and has nothing to undo.
  if (!writes) return runOnce(context, call, bundles, new AbortController().signal)
  await createMissing(context.paths, systemClock)
  for (const note of await recoverTrials(context.paths, systemClock)) say(note)
  if (call.arguments.dryRun === true) return runOnce(context, call, bundles, new AbortController().signal)
  const { signal, forced } = watchInterrupts()
  return Promise.race([runOnce(context, call, bundles, signal), forced])
}

/** Builds only the upstream side, starts only the servers that the tool adds or changes, and stops them again. */
async function runOnce(
  { paths, baseWorld: world, document, world: fullWorld }: LocalConfiguration,
  call: ToolCall,
  bundles: Bundles | undefined,
  signal: AbortSignal,
): Promise<unknown> {
  const logging = openLogging({ logLevel: "error", logFormat: "text" }, paths)
  const upstream = await openUpstream(readServeOptions({}, {}, ""), paths, logging)
  const references = openReferences(paths, world, false)
  await references?.load()
  const lookUp = references?.lookUp
  const before = new Map<string, Launch>(
    specsOf(document(), { ...fullWorld(), references: lookUp }).map(({ id, launch }) => [id, launch]),
  )
  const onlyNew = (planned: Plan): Plan => ({
    ...planned,
    specs: planned.specs.filter(({ id, launch }) => !isDeepStrictEqual(before.get(id), launch)),
  })
  const apply = createReload({
    agent: upstream.agent,
    instances: { update: (planned, templates) => upstream.instances.update(onlyNew(planned), templates) },
    log: logging.log,
    paths,
    read: () => readTexts(paths),
    world: { ...world, references: lookUp },
  })
  const reload = async () => {
    await references?.load()
    return apply()
  }
  try {
    const tools = openInternalTools({ ...upstream, ...logging }, paths, world, reload, bundles)
    return await tools.run(call, signal, say)
  } finally {
    references?.close()
    await upstream.agent.close()
    logging.serverLogs.flush()
  }
}

/**
 * Returns the servers and instances of a document; only its servers if a strict template is faulty, because the change may
 * repair it.
 */
function specsOf(document: Document, world: HostEnvironment): readonly ServerSpec[] {
  try {
    return planDocument(document, world).plan.specs
  } catch (error) {
    if (error instanceof ConfigError) return plan(document, world).specs
    throw error
  }
}
