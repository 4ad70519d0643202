/** `svc mcp tools`: lists, hides, shows and approves the tools of a server. */
import type { CommandDef } from "citty"
import { CONTEXT_ARGS, type CommandContext, notRunning, openContext } from "../app/command-context.ts"
import { editServers } from "../app/edit-servers.ts"
import { print, say, table } from "../app/output.ts"
import { setToolDisabled, writtenName, writtenServers } from "../config/edit.ts"
import { slugOf } from "../config/plan.ts"
import { SEPARATOR } from "../config/server-spec.ts"
import { usageError } from "../lib/command-line.ts"
import { visible } from "../lib/log.ts"
import { isInteractive, promptYesNo } from "../lib/prompt.ts"
import { readTexts } from "../store/documents.ts"
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
          (await context.ask("tools", { name })) ?? (args.disabled === true ? hiddenInFile(context, name) : undefined)
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

function hiddenInFile(context: CommandContext, given: string): Params {
  const servers = writtenServers(readTexts(context.paths).config ?? "")
  const { disabledTools } = servers.get(writtenName(given, servers.keys()))?.server ?? {}
  return { tools: Array.isArray(disabledTools) ? disabledTools.map((name) => ({ name, disabled: true })) : [] }
}

/** Hides or shows a tool. Asks before it hides the last one of a running server. */
async function switchTool(args: Readonly<Record<string, unknown>>, disabled: boolean): Promise<number> {
  const name = String(args.server)
  const tool = String(args.tool)
  const local = tool.replace(`${slugOf(name)}${SEPARATOR}`, "")
  const isMeant = (other: string) => other === tool || other === local
  const answer = await openContext(args)
    .ask("tools", { name })
    .catch(() => undefined)
  if (answer !== undefined && !toolsIn(answer).some((one) => isMeant(String(one.name))))
    say(`warning: ${name} offers no tool named ${tool} now`)
  const offered = toolsIn(answer).flatMap((one) => (one.disabled === true ? [] : [String(one.name)]))
  if (disabled && offered.length === 1 && offered.every(isMeant) && args.yes !== true) {
    if (!isInteractive()) throw usageError(`${tool} is the last tool that ${name} offers; add --yes to hide it`)
    if (!(await promptYesNo(`${visible(`${tool} is the last tool that ${name} offers`)}; hide it?`))) return 0
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
