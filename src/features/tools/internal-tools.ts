/** svc's own tools: offered to clients if `--internal-tools` names them, and always to svc's own commands. */
import { join } from "node:path"
import { isDeepStrictEqual } from "node:util"
import type { ReloadResult } from "../../agent/reload.ts"
import { parseDocument } from "../../config/document.ts"
import type { HostEnvironment } from "../../config/plan.ts"
import { readRegistries, registrySecrets } from "../../config/registries.ts"
import { systemClock } from "../../lib/clock.ts"
import { RequestError } from "../../lib/errors.ts"
import type { Redactor } from "../../lib/redact.ts"
import type { Paths } from "../../store/paths.ts"
import type { ServerLogs } from "../../store/server-logs.ts"
import { isObject, type Params } from "../../wire/message.ts"
import { type Bundles, createBundles } from "../registry/bundle.ts"
import { createRegistryCache } from "../registry/cache.ts"
import { ConfiguredRegistries } from "../registry/registries.ts"
import { type ConfigEditor, createConfigEditor } from "./config-editor.ts"
import type { ToolCaller, ToolChoice, ToolContext, ToolResult } from "./tool.ts"
import { chooseTools, createToolbox, TOOLS, type Toolbox } from "./toolbox.ts"

export type InternalTools = {
  /** Edits the documents as the tools do. */
  readonly editor: ConfigEditor
  /** Returns the tools that `choices` name, for clients. */
  offer(choices: readonly ToolChoice[], preapproved: ToolContext["preapproved"]): Toolbox
  /** Runs a tool for a command, after its user has approved it at the terminal. `signal` aborts when the command has ended. */
  run(params: Params, signal: AbortSignal, progress?: ToolCaller["progress"]): Promise<ToolResult>
  /** Resolves when no change is waiting for its outcome. */
  idle(): Promise<void>
}

/** The parts of svc that the tools use. */
type InternalToolsDeps = Pick<ToolContext, "agent"> & {
  readonly serverLogs: Pick<ServerLogs, "read">
  /** Returns a redactor that knows the current secrets. */
  redactor(): Redactor
  /** Adds sources of secrets for the redactor. */
  followSecrets(sources: readonly (() => readonly string[])[]): void
  onbug(error: unknown): void
}

export function openInternalTools(
  { agent, serverLogs, redactor, followSecrets, onbug }: InternalToolsDeps,
  paths: Paths,
  world: Omit<HostEnvironment, "dotenv">,
  reload: () => Promise<ReloadResult>,
  bundles: Bundles = createBundles({ clock: systemClock, fetch }),
): InternalTools {
  const editor = createConfigEditor({ paths, clock: systemClock, world, reload })
  // The secrets of the registries that were read last: their answers may repeat these.
  let secrets: readonly string[] = []
  followSecrets([() => secrets])
  const registries = new ConfiguredRegistries(
    () => {
      const { config, dotenv } = editor.read()
      const sources = readRegistries(parseDocument(config, paths.file), editor.world(dotenv))
      const found = sources.flatMap(registrySecrets)
      if (!isDeepStrictEqual(found, secrets)) secrets = found
      return sources
    },
    { clock: systemClock, cache: createRegistryCache(join(paths.directory, "registries")), fetch },
  )
  const context: Omit<ToolContext, keyof ToolCaller | "preapproved"> = {
    agent,
    clock: systemClock,
    editor,
    registries,
    bundles,
    fetch,
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
  // The terminal shows the whole command before it runs, so only known secrets are masked: text that looks like a secret
  // may be code.
  const own = createToolbox(
    TOOLS,
    { ...context, maskCredentials: (text) => redactor().maskKnown(text), preapproved: { installs: true, edits: true } },
    onbug,
  )
  return {
    editor,
    offer: (choices, preapproved) => createToolbox(chooseTools(choices), { ...context, preapproved }, onbug),
    idle: () => editor.exclusive(() => Promise.resolve()),
    run({ tool, arguments: args, agreed }, signal, progress = () => undefined) {
      const terminal = { agreed: typeof agreed === "string" ? agreed : undefined }
      const caller: ToolCaller = { person: undefined, terminal, signal, progress }
      const running = own.call(String(tool), isObject(args) ? args : {}, caller)
      if (running === undefined) throw new RequestError("unknown_method", `this svc has no tool ${String(tool)}`)
      return running
    },
  }
}

// ---

const LOG_LINES = 20
