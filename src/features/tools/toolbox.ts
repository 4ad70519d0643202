/** The internal tools that a session offers: their entries in `tools/list`, and a way to call them. */
import type { Params } from "../../wire/message.ts"
import { mcpEdit } from "./edit.ts"
import { mcpDisable, mcpEnable } from "./enable.ts"
import { mcpInfo } from "./info.ts"
import { mcpInstall } from "./install.ts"
import { mcpList } from "./list.ts"
import { mcpRegistryInfo, mcpRegistryList, mcpRegistryStatus } from "./registries.ts"
import { mcpReload } from "./reload.ts"
import { mcpSearch } from "./search.ts"
import { mcpStatus } from "./status.ts"
import {
  type InternalTool,
  invokeTool,
  type ToolCaller,
  type ToolChoice,
  type ToolContext,
  type ToolResult,
  toolEntry,
} from "./tool.ts"

import { mcpUninstall } from "./uninstall.ts"
import { mcpUpdate } from "./update.ts"

/** All tools, in the order in which they are listed. spec: Internal tools. */
export const TOOLS: readonly InternalTool[] = [
  mcpSearch,
  mcpRegistryStatus,
  mcpRegistryInfo,
  mcpRegistryList,
  mcpInfo,
  mcpInstall,
  mcpUninstall,
  mcpUpdate,
  mcpEnable,
  mcpDisable,
  mcpList,
  mcpStatus,
  mcpReload,
  mcpEdit,
]

export type Toolbox = {
  /** JSON texts for `tools/list`. */
  readonly entries: readonly string[]
  readonly names: readonly string[]
  /** Runs a tool; undefined if no tool has this name. */
  call(name: string, args: Params, caller: ToolCaller): Promise<ToolResult> | undefined
}

/** Returns the tools that the choices name. */
export const chooseTools = (choices: readonly ToolChoice[]): readonly InternalTool[] =>
  TOOLS.filter(
    ({ category, annotations }) =>
      choices.includes("all") || choices.includes(category) || (choices.includes("safe") && annotations.readOnlyHint),
  )

/** Returns a toolbox. Calls `onbug` with errors that are bugs of svc. */
export function createToolbox(
  tools: readonly InternalTool[],
  context: Omit<ToolContext, keyof ToolCaller>,
  onbug: (error: unknown) => void,
): Toolbox {
  const byName = new Map(tools.map((tool) => [tool.name, tool]))
  let entries: readonly string[] | undefined
  return {
    get entries() {
      entries ??= tools.map(toolEntry)
      return entries
    },
    names: tools.map(({ name }) => name),
    call(name, args, caller) {
      const tool = byName.get(name)
      return tool === undefined ? undefined : invokeTool(tool, args, { ...context, ...caller }, onbug)
    },
  }
}
