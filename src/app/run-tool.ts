/**
 * Runs one of svc's own tools for a command: in the instance that serves the configuration, or here where none does. Here,
 * only what the tool changes is started, to see that it works, and stopped again.
 */
import { isDeepStrictEqual } from "node:util"
import { createReload } from "../agent/reload.ts"
import { plan } from "../config/plan.ts"
import type { Launch, Plan } from "../config/server-spec.ts"
import { systemClock } from "../lib/clock.ts"
import { RequestError, UnavailableError } from "../lib/errors.ts"
import { interruptSignal } from "../lib/prompt.ts"
import type { Bundles } from "../registry/bundle.ts"
import { createMissing, readTexts } from "../store/documents.ts"
import { recover } from "../store/transaction.ts"
import { TOOLS } from "../tools/toolbox.ts"
import { isObject, type Params } from "../wire/message.ts"
import type { CommandContext } from "./command-context.ts"
import { openInternalTools } from "./internal-tools.ts"
import { say } from "./output.ts"
import { createRuntime } from "./runtime.ts"
import { readSettings } from "./settings.ts"

/**
 * What the tool answers; `bundles` remembers from one call to the next. Throws what it failed with: a RequestError for the
 * caller's part, else an UnavailableError.
 */
export async function runTool(context: CommandContext, tool: string, args: Params, bundles?: Bundles): Promise<Params> {
  const result =
    (await context.ask("tool", { tool, arguments: args }, LONG_MS)) ??
    (await runWithoutInstance(context, tool, args, bundles))
  const data = isObject(result) && isObject(result.structuredContent) ? result.structuredContent : {}
  if (!isObject(data.error)) return data
  // What a server said is often the only reason that there is.
  for (const line of Array.isArray(data.log) ? data.log.slice(-LOG_LINES) : []) say(`  ${line}`)
  const message = asCommands(String(data.error.message))
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

/** svc's own tools, as a person at a terminal calls them. */
const asCommands = (text: string): string =>
  text.replace(/(?<![\w-])mcp_(list|status|enable|disable|edit|update)(?![\w-])/g, "`svc mcp $1`")

const LOG_LINES = 10
/** Longer than any server may take to connect. */
const LONG_MS = 30 * 60_000

async function runWithoutInstance(
  context: CommandContext,
  tool: string,
  args: Params,
  bundles: Bundles | undefined,
): Promise<unknown> {
  const { paths } = context
  // Who only asks makes no files.
  const writes = TOOLS.some(({ name, annotations }) => name === tool && !annotations.readOnlyHint)
  if (writes) {
    await createMissing(paths, systemClock)
    for (const said of await recover(paths, systemClock)) say(said)
  }
  const settings = readSettings({ transport: "stdio", "log-level": "error" }, {}, "")
  const runtime = await createRuntime(settings, paths)
  const world = context.baseWorld
  const before = new Map<string, Launch>(
    plan(context.document(), context.world()).specs.map(({ id, launch }) => [id, launch]),
  )
  const onlyNew = (planned: Plan): Plan => ({
    ...planned,
    specs: planned.specs.filter(({ id, launch }) => !isDeepStrictEqual(before.get(id), launch)),
  })
  const reload = createReload({
    agent: runtime.agent,
    instances: { update: (planned, templates) => runtime.instances.update(onlyNew(planned), templates) },
    log: runtime.log,
    paths,
    read: () => readTexts(paths),
    world,
  })
  // What has nothing to take back ends at once.
  const gone = writes && args.dryRun !== true ? interruptSignal() : new AbortController().signal
  try {
    return await openInternalTools(runtime, settings, paths, world, reload, bundles).run(
      { tool, arguments: args },
      gone,
      say,
    )
  } finally {
    await runtime.agent.close()
    runtime.serverLogs.flush()
  }
}
