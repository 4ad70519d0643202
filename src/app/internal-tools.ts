/** svc's own tools in a running instance: offered to clients where they are switched on, and to its own commands always. */
import { join } from "node:path"
import type { ReloadResult } from "../agent/reload.ts"
import { parseDocument } from "../config/document.ts"
import type { World } from "../config/plan.ts"
import { readRegistries } from "../config/registries.ts"
import { systemClock } from "../lib/clock.ts"
import { RequestError } from "../lib/errors.ts"
import { type Bundles, createBundles } from "../registry/bundle.ts"
import { createRegistryCache } from "../registry/cache.ts"
import { createRegistries } from "../registry/registries.ts"
import type { Paths } from "../store/paths.ts"
import { createConfigEditor } from "../tools/config-editor.ts"
import type { ToolCaller, ToolContext, ToolResult } from "../tools/tool.ts"
import { chooseTools, createToolbox, TOOLS } from "../tools/toolbox.ts"
import { isObject, type Params } from "../wire/message.ts"
import type { Runtime } from "./runtime.ts"
import type { Settings } from "./settings.ts"

export type InternalTools = {
  /** Runs a tool for a command: its user has agreed to what it does, and waits until `gone`. */
  run(params: Params, gone: AbortSignal, progress?: ToolCaller["progress"]): Promise<ToolResult>
  /** Resolves when no change waits for a server any more. */
  idle(): Promise<void>
}

/** Offers the tools that are switched on. */
export function openInternalTools(
  { agent, mcp, serverLogs, redactor }: Runtime,
  {
    internalTools,
    confirmInstalls,
    confirmEdits,
  }: Pick<Settings, "internalTools" | "confirmInstalls" | "confirmEdits">,
  paths: Paths,
  world: Omit<World, "dotenv">,
  reload: () => ReloadResult,
  bundles: Bundles = createBundles({ clock: systemClock, fetch }),
): InternalTools {
  const editor = createConfigEditor({ paths, clock: systemClock, world, reload })
  const registries = createRegistries(
    () => {
      const { config, dotenv } = editor.read()
      return readRegistries(parseDocument(config, paths.file), editor.world(dotenv))
    },
    { clock: systemClock, cache: createRegistryCache(join(paths.directory, "registries")), fetch },
  )
  const context: Omit<ToolContext, keyof ToolCaller | "trusted"> = {
    agent,
    clock: systemClock,
    editor,
    registries,
    bundles,
    machine: {
      platform: world.platform,
      home: world.home,
      has: (command) => Bun.which(command, { PATH: world.parent.PATH ?? "" }) !== null,
    },
    maskCredentials: (text) => redactor().maskCredentials(text),
    redactAll: (text) => redactor().redactAll(text),
    lines: (slug) =>
      serverLogs
        .read(slug)
        .slice(-LOG_LINES)
        .map(({ text }) => text),
  }
  if (internalTools.length > 0)
    mcp.gateway.toolbox = createToolbox(
      chooseTools(internalTools),
      { ...context, trusted: { installs: !confirmInstalls, edits: !confirmEdits } },
      mcp.onbug,
    )
  // Who is asked at a terminal must see the command as it is: what looks like a secret in it may be code.
  const own = createToolbox(
    TOOLS,
    { ...context, maskCredentials: (text) => redactor().maskKnown(text), trusted: { installs: true, edits: true } },
    mcp.onbug,
  )
  return {
    idle: () => editor.exclusive(() => Promise.resolve()),
    run({ tool, arguments: args }, gone, progress = () => undefined) {
      const caller: ToolCaller = { person: undefined, signal: gone, progress }
      const running = own.call(String(tool), isObject(args) ? args : {}, caller)
      if (running === undefined) throw new RequestError("unknown_method", `This svc has no tool ${String(tool)}`)
      return running
    },
  }
}

// ---

const LOG_LINES = 20
