/** `svc mcp tools`: lists, hides, shows and approves the tools of a server. */
import type { CommandDef } from "citty"
import { CONTEXT_ARGS, type CommandContext, notRunning, openContext } from "../app/command-context.ts"
import { editServers } from "../app/edit-servers.ts"
import { print, say, table } from "../app/output.ts"
import { hidesEveryTool } from "../catalog/hidden-tools.ts"
import { setToolDisabled, writtenName, writtenServers } from "../config/edit.ts"
import { slugOf } from "../config/plan.ts"
import { SEPARATOR } from "../config/server-spec.ts"
import { usageError } from "../lib/command-line.ts"
import { visible } from "../lib/log.ts"
import { isInteractive, promptYesNo } from "../lib/prompt.ts"
import { readTexts } from "../store/documents.ts"
import { pinnedTools, toolPinsFile } from "../store/tool-pins.ts"
import { isObject, type Params } from "../wire/message.ts"

const SERVER = { type: "positional", required: true, description: "Name of the server" } as const

const TOOL_ARGS = {
  server: SERVER,
  tool: { type: "positional", required: true, description: "Name of the tool, as the server has it" },
  ...CONTEXT_ARGS,
} as const

export const tools: CommandDef = {
  meta: { name: "tools", description: "List, hide, show and approve the tools of a server" },
  subCommands: {
    list: {
      meta: { name: "list", description: "List the tools of a server" },
      args: { server: SERVER, ...CONTEXT_ARGS, disabled: { type: "boolean", description: "Only hidden tools" } },
      async run({ args }) {
        const context = openContext(args)
        const name = String(args.server)
        // The file holds the hidden tools; the others are known to a running server alone.
        const answer =
          (await context.ask("tools", { name })) ??
          (args.disabled === true
            ? { tools: hiddenInFile(context, name).disabledTools.map((tool) => ({ name: tool, disabled: true })) }
            : undefined)
        if (answer === undefined) throw notRunning(context.paths)
        const shown = toolsIn(answer).filter((tool) => args.disabled !== true || tool.disabled === true)
        print(args.json === true, shown, () =>
          table(
            ["tool", "state", "description"],
            shown.map((tool) => [String(tool.name), stateOf(tool), firstLine(tool.description)]),
          ),
        )
        return 0
      },
    },
    disable: {
      meta: { name: "disable", description: "Hide a tool from clients" },
      args: {
        ...TOOL_ARGS,
        yes: { type: "boolean", alias: "y", description: "Do not ask before hiding the last tool" },
      },
      run: ({ args }) => switchTool(args, true),
    },
    enable: {
      meta: { name: "enable", description: "Show a hidden tool again" },
      args: TOOL_ARGS,
      run: ({ args }) => switchTool(args, false),
    },
    approve: {
      meta: { name: "approve", description: "Approve changed tools" },
      args: {
        server: SERVER,
        tool: { type: "positional", required: false, description: "Name of one tool (default: all changed tools)" },
        ...CONTEXT_ARGS,
      },
      async run({ args }) {
        const context = openContext(args)
        const tool = typeof args.tool === "string" ? args.tool : undefined
        const answer = await context.ask("approve", { name: args.server, ...(tool === undefined ? {} : { tool }) })
        if (!isObject(answer) || !Array.isArray(answer.approved)) throw notRunning(context.paths)
        const { approved } = answer
        print(args.json === true, answer, () =>
          approved.length === 0 ? "no changed tools to approve" : `approved ${approved.join(", ")}`,
        )
        return 0
      },
    },
  } as Record<string, CommandDef>,
}

// ---

const toolsIn = (answer: unknown): readonly Params[] =>
  isObject(answer) && Array.isArray(answer.tools) ? answer.tools.filter(isObject) : []

function stateOf({ disabled, held }: Params): string {
  if (disabled === true) return "disabled"
  return held === true ? "changed, not approved" : ""
}

/** Returns a server's name in the file and the tools that the file hides. */
function hiddenInFile(context: CommandContext, given: string): { name: string; disabledTools: readonly string[] } {
  const servers = writtenServers(readTexts(context.paths).config() ?? "")
  const name = writtenName(given, servers.keys())
  const { disabledTools } = servers.get(name)?.server ?? {}
  return { name, disabledTools: Array.isArray(disabledTools) ? disabledTools.map(String) : [] }
}

/**
 * Whether hiding a tool would leave a server without an enabled tool, by the tools that svc listed last; undefined if it never
 * listed any. For a server that does not run.
 */
function hidesLastKnownTool(context: CommandContext, given: string, tool: string): boolean | undefined {
  const { name, disabledTools } = hiddenInFile(context, given)
  const tools = pinnedTools(toolPinsFile(context.paths), name).map((one) => ({ name: one }))
  if (tools.length === 0) return undefined
  const spec = { name, slug: slugOf(name), tuning: { disabledTools } }
  return hidesEveryTool([{ spec, published: { listing: { tools } } }], [...disabledTools, tool])
}

/** Hides or shows a tool. Asks before it hides the last one. */
async function switchTool(args: Readonly<Record<string, unknown>>, disabled: boolean): Promise<number> {
  const name = String(args.server)
  const tool = String(args.tool)
  const local = tool.replace(`${slugOf(name)}${SEPARATOR}`, "")
  const isMeant = (other: string) => other === tool || other === local
  const context = openContext(args)
  const answer = await context
    .ask("tools", { name, disabledTools: [...hiddenInFile(context, name).disabledTools, tool] })
    .catch(() => undefined)
  if (answer !== undefined && !toolsIn(answer).some((one) => isMeant(String(one.name))))
    say(`warning: ${name} offers no tool named ${tool} now`)
  if (disabled && args.yes !== true) {
    const isLast = isObject(answer) ? answer.hidesEveryTool === true : hidesLastKnownTool(context, name, tool)
    if (isLast === undefined)
      say(
        `warning: the tools of ${name} are not known, so svc cannot tell whether ${tool} is the last one that it offers`,
      )
    if (isLast === true) {
      if (!isInteractive()) throw usageError(`${tool} is the last tool that ${name} offers; add --yes to hide it`)
      if (!(await promptYesNo(`${visible(`${tool} is the last tool that ${name} offers`)}; hide it?`))) return 0
    }
  }
  return editServers(
    args,
    setToolDisabled(name, tool, disabled),
    `${disabled ? "disabled" : "enabled"} ${tool} of ${name}`,
  )
}

const firstLine = (text: unknown): string =>
  String(text ?? "")
    .split("\n", 1)[0]
    ?.slice(0, 100) ?? ""
