/** `svc mcp tools`: lists, hides, shows and approves the tools of a server. */
import type { CommandDef } from "citty"
import { firstSentence, oneLine } from "../catalog/signature.ts"
import {
  hidesEveryTool,
  type ToolRow,
  toolRows,
  toolState,
  unknownOverrides,
  unknownOverridesText,
} from "../catalog/tool-settings.ts"
import { CONTEXT_ARGS, notRunning, openContext } from "../commands/command-context.ts"
import { editServers } from "../commands/edit-servers.ts"
import { FOLLOW_ARGS } from "../commands/follow.ts"
import { type Edit, patchServer, removeServer, setToolDisabled, writtenName } from "../config/edit.ts"
import { slugOf, type ToolOverride, toolNames } from "../config/server-spec.ts"
import { type CommandGroup, usageError, type VariadicCommand } from "../lib/command-line.ts"
import { messageOf, RequestError, UnavailableError } from "../lib/errors.ts"
import { visible } from "../lib/log.ts"
import { print, say, table } from "../lib/output.ts"
import { isInteractive, promptYesNo } from "../lib/prompt.ts"
import { runningServers } from "../report/servers.ts"
import { configuredServers, type LocalConfiguration, statusIfAnswered } from "../serve/local-configuration.ts"
import { pinnedTools, toolPinsFile } from "../store/tool-pins.ts"
import { isObject, type Params } from "../wire/message.ts"
import { chosenTools } from "./chosen-tools.ts"
import { approve } from "./mcp-tools-approve.ts"

const SERVER = { type: "positional", required: true, description: "Name of the server", valueHint: "server" } as const

const TOOL_ARGS = {
  server: { ...SERVER, description: "Name of the server, or `server/tool`" },
  tool: {
    type: "positional",
    required: false,
    description: "The server's own name of the tool; * matches any characters",
    valueHint: "tool",
  },
  ...CONTEXT_ARGS,
} as const

export const tools: CommandDef = {
  meta: { name: "tools", description: "List, hide, show and approve the tools of a server" },
  subCommands: {
    list: {
      meta: { name: "list", description: "List the tools of one server, or of all" },
      args: {
        server: { ...SERVER, required: false, description: "Name of one server (default: all)" },
        ...CONTEXT_ARGS,
        disabled: { type: "boolean", description: "Only hidden tools" },
      },
      async run({ args }) {
        if (typeof args.server !== "string") return listAll(openContext(args), args)
        const found = await findTools(openContext(args), args.server)
        const { tools, unknownOverrides = [], offline } = found
        const shown = tools.filter((tool) => args.disabled !== true || tool.disabled)
        // The file names all hidden tools, but not all others.
        if (offline !== undefined && args.disabled !== true) {
          if (tools.length === 0) throw offline
          const isSeen = found.hidesEveryTool !== undefined
          say(`${messageOf(offline)}; these are the ${isSeen ? "tools that svc has seen" : "hidden tools in the file"}`)
        }
        if (unknownOverrides.length > 0) say(`warning: ${unknownOverridesText(unknownOverrides)}`)
        print(args.json === true, shown, () =>
          shown.length === 0
            ? `${args.server} ${args.disabled === true ? "has no hidden tools" : "offers no tools"}`
            : table(
                ["tool", "state", "description"],
                shown.map((tool) => [tool.name, toolState(tool), sentence(tool.description)]),
              ),
        )
        return 0
      },
    },
    disable: {
      rest: "TOOL",
      meta: { name: "disable", description: "Hide tools from clients" },
      args: {
        ...TOOL_ARGS,
        yes: { type: "boolean", alias: "y", description: "Do not ask before hiding the last tool" },
        ...FOLLOW_ARGS,
      },
      run: ({ args }) => switchTools(args, args._, true),
    } as VariadicCommand,
    enable: {
      rest: "TOOL",
      meta: { name: "enable", description: "Show hidden tools again" },
      args: { ...TOOL_ARGS, ...FOLLOW_ARGS },
      run: ({ args }) => switchTools(args, args._, false),
    } as VariadicCommand,
    describe: {
      meta: { name: "describe", description: "Give a tool another description" },
      args: {
        server: { ...SERVER, description: "Name of the server, or `server/tool`" },
        tool: { type: "positional", required: true, description: "The tool", valueHint: "tool" },
        text: { type: "positional", required: false, description: "The description; empty: the server's own again" },
        ...CONTEXT_ARGS,
        ...FOLLOW_ARGS,
      },
      async run({ args }) {
        const context = openContext(args)
        const isServer = configuredServers(context).has(String(args.server))
        if (isServer && args.text === undefined)
          throw usageError(`TEXT is missing: give the new description, or "" to restore the server's own`)
        // `server/tool` is one word.
        const words = [args.server, args.tool, ...(args.text === undefined ? [] : [args.text])].map(String)
        const text = words.pop()
        const { server, tools } = await chosen(context, words)
        const described = Object.fromEntries(tools.map((tool) => [tool, text === "" ? null : text]))
        const edit = patchServer(server, { toolDescriptionOverrides: described })
        return editServers(args, edit, `described ${tools.join(", ")} of ${server}`)
      },
    },
    approve,
  } as Record<string, CommandDef>,
  aliases: { hide: ["disable"], show: ["enable"] },
} as CommandGroup

/** Returns the tools that words name. */
const chosen = (context: LocalConfiguration, words: readonly string[]) =>
  chosenTools(words, [...configuredServers(context).keys()], async (server) =>
    (await findTools(context, server)).tools.map(({ name }) => name),
  )

/**
 * Asks before a patch of a server leaves it without a tool that clients can call. Returns whether to go on. Throws a RequestError
 * (usage) if there is no terminal to ask at.
 */
export async function confirmsHiding(
  context: LocalConfiguration,
  given: string,
  { disabledTools }: Params,
): Promise<boolean> {
  if (!Array.isArray(disabledTools) || disabledTools.length === 0) return true
  const { name, tuning } = writtenSettings(context, given)
  const hidden = disabledTools.map(String)
  if (hidden.every((tool) => tuning.disabledTools.includes(tool))) return true
  if ((await findTools(context, name, hidden)).hidesEveryTool !== true) return true
  if (!isInteractive()) throw usageError(`this hides every tool that ${name} offers; add --yes to hide them`)
  return promptYesNo(`${visible(`this hides every tool that ${name} offers`)}; hide them?`)
}

/**
 * Adds servers as `editServers` does. Asks before a replaced server is left without a tool that clients can call; the tools of a new
 * one are known only when it runs, so it is removed again if it is not wanted so. Throws a RequestError (usage) if there is no
 * terminal to ask at. Returns the exit code.
 */
export async function addServers(
  args: Readonly<Record<string, unknown>>,
  edit: Edit,
  servers: readonly { readonly name: string; readonly server: Params }[],
): Promise<number> {
  const context = openContext(args)
  const names = servers.map(({ name }) => name)
  const known = configuredServers(context)
  const asks = args.yes !== true
  for (const { name, server } of servers)
    if (asks && args.force === true && known.has(name) && !(await confirmsHiding(context, name, server))) return 0
  const code = await editServers(args, edit, `added ${names.join(", ")}`, names)
  const hiding = servers.filter(({ name, server }) => asks && !known.has(name) && server.disabledTools !== undefined)
  for (const { name } of hiding) {
    const { tools, offline } = await findTools(context, name)
    if (offline !== undefined || tools.length === 0 || !tools.every(({ disabled }) => disabled)) continue
    const shown = visible(`this hides every tool that ${name} offers`)
    if (isInteractive() && (await promptYesNo(`${shown}; keep the server?`))) continue
    await editServers(args, removeServer(name), `removed ${name}`)
    if (!isInteractive()) throw usageError(`${shown}; add --yes to hide them`)
  }
  return code
}

// ---

/** The known tools of a server: from the running svc, or from the file and the tools that svc has seen. */
type FoundTools = {
  readonly tools: readonly ToolRow[]
  readonly unknownOverrides?: readonly string[]
  /** Whether the server would offer no tool after the change; undefined if its tools are not known. */
  readonly hidesEveryTool?: boolean | undefined
  /** Why no running svc could answer; undefined if one did. */
  readonly offline?: Error
}

/** Prints the tools of all servers. Throws the reason if no tools are known because no running svc could answer. */
async function listAll(context: LocalConfiguration, args: Readonly<Record<string, unknown>>): Promise<number> {
  const status = await statusIfAnswered(context)
  // The file does not name the server of the demo.
  const names = status?.demo ? [...runningServers(status).keys()] : [...configuredServers(context).keys()]
  const found = await Promise.all(names.map(async (server) => ({ server, ...(await findTools(context, server)) })))
  const shown = found.flatMap(({ server, tools }) =>
    tools.filter((tool) => args.disabled !== true || tool.disabled).map((tool) => ({ server, ...tool })),
  )
  const reasons = found.flatMap(({ offline }) => (offline === undefined ? [] : [offline]))
  if (shown.length === 0 && reasons[0] !== undefined && args.disabled !== true) throw reasons[0]
  for (const reason of new Set(reasons.map(messageOf))) say(`${reason}; only the tools that svc has seen are shown`)
  print(args.json === true, shown, () => {
    if (names.length === 0) return "no servers yet; add one with `svc mcp add`"
    if (shown.length === 0) return args.disabled === true ? "no tools are hidden" : "no server offers tools"
    return table(
      ["server", "tool", "state", "description"],
      shown.map((tool) => [tool.server, tool.name, toolState(tool), sentence(tool.description)]),
    )
  })
  return 0
}

/** Finds the tools of a server. `hidden`: all tools that would be hidden. Throws a RequestError for an unknown server. */
async function findTools(context: LocalConfiguration, given: string, hidden?: readonly string[]): Promise<FoundTools> {
  let offline: Error = notRunning(context.paths)
  try {
    const answer = await context.ask("tools", {
      name: given,
      ...(hidden === undefined ? {} : { disabledTools: hidden }),
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
    hidesEveryTool: tools && hidesEveryTool([{ spec, listing: { tools } }], hidden ?? spec.tuning.disabledTools),
    offline,
  }
}

/** Returns a server's name in the file, and its settings there that name tools. Leaves out expressions of a template. */
function writtenSettings(context: LocalConfiguration, given: string) {
  const servers = configuredServers(context)
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

/** Hides or shows tools. Asks before it hides the last one. */
async function switchTools(
  args: Readonly<Record<string, unknown>>,
  words: readonly string[],
  disabled: boolean,
): Promise<number> {
  const context = openContext(args)
  const { server, tools: wanted } = await chosen(context, words)
  const { name, slug, tuning } = writtenSettings(context, server)
  const found = await findTools(context, name, [...tuning.disabledTools, ...wanted])
  const { tools: rows, hidesEveryTool: isLast, offline } = found
  const listed = wanted.join(", ")
  for (const tool of wanted) {
    const isKnown = rows.some(
      (one) => !(disabled && one.gone === true) && toolNames({ name, slug }, one.name).includes(tool),
    )
    if (isLast !== undefined && !isKnown)
      say(
        offline === undefined
          ? `warning: ${name} offers no tool named ${tool} now`
          : `warning: svc has seen no tool named ${tool} of ${name}`,
      )
  }
  if (disabled && args.yes !== true) {
    const [is, last, them] = wanted.length === 1 ? ["is", "the last tool", "it"] : ["are", "the last tools", "them"]
    if (isLast === undefined)
      say(
        `warning: the tools of ${name} are not known, so svc cannot tell whether ${listed} ${is} ${last.replace("tool", "one")} that it offers`,
      )
    if (isLast === true) {
      if (!isInteractive()) throw usageError(`${listed} ${is} ${last} that ${name} offers; add --yes to hide ${them}`)
      if (!(await promptYesNo(`${visible(`${listed} ${is} ${last} that ${name} offers`)}; hide ${them}?`))) return 0
    }
  }
  const edit: Edit = (text) => wanted.reduce((changed, tool) => setToolDisabled(name, tool, disabled)(changed), text)
  return editServers(args, edit, `${disabled ? "disabled" : "enabled"} ${listed} of ${name}`)
}

/** The same length as in `svc search`: a table has no room for whole descriptions. */
const DESCRIPTION_TOKENS = 60
const sentence = (text: unknown): string => oneLine(firstSentence(String(text ?? "")), DESCRIPTION_TOKENS)
