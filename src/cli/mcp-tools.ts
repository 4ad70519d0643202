/** `svc mcp tools`: lists, hides, shows and approves the tools of a server. */
import type { CommandDef } from "citty"
import { CONTEXT_ARGS, type CommandContext, notRunning, openContext } from "../app/command-context.ts"
import { editServers } from "../app/edit-servers.ts"
import { FOLLOW_ARGS } from "../app/follow.ts"
import { print, say, table } from "../app/output.ts"
import {
  hidesEveryTool,
  namesOf,
  type ToolRow,
  toolRows,
  toolState,
  unknownOverrides,
  unknownOverridesText,
} from "../catalog/tool-settings.ts"
import { setToolDisabled, writtenName, writtenServers } from "../config/edit.ts"
import { slugOf, type ToolOverride } from "../config/server-spec.ts"
import { usageError } from "../lib/command-line.ts"
import { messageOf, RequestError, UnavailableError } from "../lib/errors.ts"
import { visible } from "../lib/log.ts"
import { isInteractive, promptYesNo } from "../lib/prompt.ts"
import { readTexts } from "../store/documents.ts"
import { pinnedTools, toolPinsFile } from "../store/tool-pins.ts"
import { isObject } from "../wire/message.ts"

const SERVER = { type: "positional", required: true, description: "Name of the server", valueHint: "server" } as const

const TOOL_ARGS = {
  server: SERVER,
  tool: {
    type: "positional",
    required: true,
    description: "The server's own name of the tool",
    valueHint: "tool",
  },
  ...CONTEXT_ARGS,
} as const

export const tools: CommandDef = {
  meta: { name: "tools", description: "List, hide, show and approve the tools of a server" },
  subCommands: {
    list: {
      meta: { name: "list", description: "List the tools of a server" },
      args: { server: SERVER, ...CONTEXT_ARGS, disabled: { type: "boolean", description: "Only hidden tools" } },
      async run({ args }) {
        const found = await findTools(openContext(args), String(args.server))
        const { tools, unknownOverrides = [], offline } = found
        const shown = tools.filter((tool) => args.disabled !== true || tool.disabled)
        // The file holds all hidden tools; of the others it is not known whether these are all.
        if (offline !== undefined && args.disabled !== true) {
          if (tools.length === 0) throw offline
          const isSeen = found.hidesEveryTool !== undefined
          say(`${messageOf(offline)}; these are the ${isSeen ? "tools that svc has seen" : "hidden tools in the file"}`)
        }
        if (unknownOverrides.length > 0) say(`warning: ${unknownOverridesText(unknownOverrides)}`)
        print(args.json === true, shown, () =>
          table(
            ["tool", "state", "description"],
            shown.map((tool) => [tool.name, toolState(tool), firstLine(tool.description)]),
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
        ...FOLLOW_ARGS,
      },
      run: ({ args }) => switchTool(args, true),
    },
    enable: {
      meta: { name: "enable", description: "Show a hidden tool again" },
      args: { ...TOOL_ARGS, ...FOLLOW_ARGS },
      run: ({ args }) => switchTool(args, false),
    },
    approve: {
      meta: { name: "approve", description: "Approve changed tools" },
      args: {
        server: SERVER,
        tool: {
          type: "positional",
          required: false,
          description: "Name of one tool (default: all changed tools)",
          valueHint: "tool",
        },
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

/** What is known of a server's tools: from the running svc, or from the file and the tools that svc has seen. */
type FoundTools = {
  readonly tools: readonly ToolRow[]
  readonly unknownOverrides?: readonly string[]
  /** Whether hiding one more tool would leave the server without any; undefined if its tools are not known. */
  readonly hidesEveryTool?: boolean | undefined
  /** Why no running svc could answer; undefined if one did. */
  readonly offline?: Error
}

/** Finds the tools of a server. `more`: a tool that is to be hidden too. Throws a RequestError for an unknown server. */
async function findTools(context: CommandContext, given: string, more?: string): Promise<FoundTools> {
  const hiddenThen = () => [
    ...writtenSettings(context, given).tuning.disabledTools,
    ...(more === undefined ? [] : [more]),
  ]
  let offline: Error = notRunning(context.paths)
  try {
    const answer = await context.ask("tools", {
      name: given,
      ...(more === undefined ? {} : { disabledTools: hiddenThen() }),
    })
    if (isObject(answer) && Array.isArray(answer.tools)) return answer as FoundTools
  } catch (error) {
    if (!(error instanceof UnavailableError || error instanceof RequestError)) throw error
    offline = error
  }
  const spec = writtenSettings(context, given)
  const seen = pinnedTools(toolPinsFile(context.paths), spec.name).map((name) => ({ name }))
  const tools = seen.length === 0 ? undefined : seen
  return {
    tools: toolRows(spec, tools, () => false),
    unknownOverrides: unknownOverrides(spec, tools),
    hidesEveryTool: tools && hidesEveryTool([{ spec, published: { listing: { tools } } }], hiddenThen()),
    offline,
  }
}

/** Returns a server's name in the file, and its settings there that name tools. Expressions of a template are left out. */
function writtenSettings(context: CommandContext, given: string) {
  const servers = writtenServers(readTexts(context.paths).config() ?? "")
  const name = writtenName(given, servers.keys())
  const { disabledTools, toolDescriptionOverrides, toolOverrides } = servers.get(name)?.server ?? {}
  const membersOf = (value: unknown) => Object.entries(isObject(value) ? value : {})
  const texts = membersOf(toolDescriptionOverrides).map(([tool, text]) => [tool, String(text)])
  const others = membersOf(toolOverrides).flatMap(([tool, override]) =>
    isObject(override) ? [[tool, override as ToolOverride]] : [],
  )
  const names = Array.isArray(disabledTools) ? disabledTools.map(String) : []
  return {
    name,
    slug: slugOf(name),
    tuning: {
      disabledTools: names.filter((tool) => !tool.includes("{{")),
      toolDescriptionOverrides: Object.fromEntries(texts),
      toolOverrides: Object.fromEntries(others),
    },
  }
}

/** Hides or shows a tool. Asks before it hides the last one. */
async function switchTool(args: Readonly<Record<string, unknown>>, disabled: boolean): Promise<number> {
  const context = openContext(args)
  const tool = String(args.tool)
  const { name, slug } = writtenSettings(context, String(args.server))
  const { tools: rows, hidesEveryTool: isLast, offline } = await findTools(context, name, tool)
  const isKnown = rows.some(
    (one) => !(disabled && one.gone === true) && namesOf({ name, slug }, one.name).includes(tool),
  )
  if (isLast !== undefined && !isKnown)
    say(
      offline === undefined
        ? `warning: ${name} offers no tool named ${tool} now`
        : `warning: svc has seen no tool named ${tool} of ${name}`,
    )
  if (disabled && args.yes !== true) {
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
