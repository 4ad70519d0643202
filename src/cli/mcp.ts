/** `svc mcp`: the servers of mcp.json. What changes edits the file; a running instance follows it. */
import type { CommandDef } from "citty"
import {
  CONTEXT_ARGS,
  type CommandContext,
  findIssues,
  notRunning,
  openContext,
  repeated,
} from "../app/command-context.ts"
import { print, say, table } from "../app/output.ts"
import { parseDocument } from "../config/document.ts"
import {
  addServer,
  type Edit,
  patchServer,
  removeServer,
  renameServer,
  setDisabled,
  setToolDisabled,
  writtenName,
  writtenServers,
} from "../config/edit.ts"
import { slugOf } from "../config/plan.ts"
import { SEPARATOR } from "../config/server-spec.ts"
import { systemClock } from "../lib/clock.ts"
import { usageError } from "../lib/command-line.ts"
import { ConfigError, type Issue } from "../lib/errors.ts"
import { visible } from "../lib/log.ts"
import { isInteractive, promptYesNo } from "../lib/prompt.ts"
import { createMissing, editConfig, readTexts } from "../store/documents.ts"
import { isObject, type Params } from "../wire/message.ts"
import { render } from "./mcp-render.ts"
import { list, status } from "./mcp-status.ts"

const NAME = { type: "positional", required: true, description: "The server's name" } as const

const add: CommandDef = {
  meta: { name: "add", description: "Add a server: `svc mcp add NAME -- COMMAND ARGS…`, or with --url" },
  args: {
    name: NAME,
    ...CONTEXT_ARGS,
    url: { type: "string", description: "Address of a remote server" },
    type: { type: "string", description: "stdio, http, sse or streamableHttp" },
    env: { type: "string", description: "NAME=value, for the server's environment; may be repeated" },
    header: { type: "string", description: "Name: value, for a remote server; may be repeated" },
    tag: { type: "string", description: "A tag; may be repeated" },
    force: { type: "boolean", description: "Replace a server of the same name" },
  },
  async run({ args, rawArgs }) {
    const split = rawArgs.indexOf("--")
    const [command, ...rest] = split < 0 ? [] : rawArgs.slice(split + 1)
    const { url } = args
    if ((command === undefined) === (typeof url !== "string"))
      throw usageError("give either --url or a command behind --")
    const pairs = (flag: string, separator: RegExp) =>
      Object.fromEntries(
        repeated(rawArgs, flag).map((text) => {
          const found = separator.exec(text)
          if (found === null) throw usageError(`--${flag} must be ${flag === "env" ? "NAME=value" : '"Name: value"'}`)
          return [found[1] ?? "", found[2] ?? ""]
        }),
      )
    const env = pairs("env", /^([^=]+)=([\s\S]*)$/)
    const headers = pairs("header", /^([^:=]+)[:=]\s*([\s\S]*)$/)
    const tags = repeated(rawArgs, "tag")
    const server: Params = {
      ...(typeof args.type === "string" ? { type: args.type } : {}),
      ...(command === undefined ? { url } : { command, ...(rest.length > 0 ? { args: rest } : {}) }),
      ...(Object.keys(env).length > 0 ? { env } : {}),
      ...(Object.keys(headers).length > 0 ? { headers } : {}),
      ...(tags.length > 0 ? { tags } : {}),
    }
    return change(args, addServer(String(args.name), server, args.force === true), `added ${args.name}`)
  },
}

const edit: CommandDef = {
  meta: { name: "edit", description: "Change a server by a JSON merge patch" },
  args: {
    name: NAME,
    patch: { type: "positional", required: false, description: 'For example \'{"timeout": 5000, "cwd": null}\'' },
    ...CONTEXT_ARGS,
    rename: { type: "string", description: "A new name" },
  },
  run({ args }) {
    const patch = typeof args.patch === "string" ? parsePatch(args.patch) : {}
    const { rename } = args
    if (typeof args.patch !== "string" && typeof rename !== "string") throw usageError("give a patch, or --rename")
    const name = String(args.name)
    const whole: Edit = (text) => {
      const patched = patchServer(name, patch)(text)
      return typeof rename === "string" ? renameServer(name, rename)(patched) : patched
    }
    return change(args, whole, `changed ${name}`)
  },
}

const simple = (name: string, description: string, edit: (server: string) => Edit, done: string): CommandDef => ({
  meta: { name, description },
  args: { name: NAME, ...CONTEXT_ARGS },
  run: ({ args }) => change(args, edit(String(args.name)), `${done} ${args.name}`),
})

const restart: CommandDef = {
  meta: { name: "restart", description: "Restart a server at once, or all of them" },
  args: { name: { type: "positional", required: false, description: "One server" }, ...CONTEXT_ARGS },
  async run({ args }) {
    const context = openContext(args)
    const answer = await context.ask("restart", typeof args.name === "string" ? { name: args.name } : {})
    if (answer === undefined) throw notRunning(context.paths)
    const restarted = isObject(answer) && Array.isArray(answer.restarted) ? answer.restarted.map(String) : []
    print(args.json === true, { restarted }, () =>
      restarted.length === 0 ? "there is nothing to restart" : `restarted ${restarted.join(", ")}`,
    )
    return 0
  },
}

const TOOL_ARGS = {
  server: NAME,
  tool: { type: "positional", required: true, description: "The tool's own name" },
  ...CONTEXT_ARGS,
} as const

const tools: CommandDef = {
  meta: { name: "tools", description: "List, hide and show the tools of a server" },
  subCommands: {
    list: {
      meta: { name: "list", description: "List the tools of a server" },
      args: { server: NAME, ...CONTEXT_ARGS, disabled: { type: "boolean", description: "Only those that are hidden" } },
      async run({ args }) {
        const context = openContext(args)
        const name = String(args.server)
        // What is hidden stands in the file; the rest only a running server knows.
        const answer =
          (await context.ask("tools", { name })) ?? (args.disabled === true ? hiddenInFile(context, name) : undefined)
        if (answer === undefined) throw notRunning(context.paths)
        const all = isObject(answer) && Array.isArray(answer.tools) ? answer.tools.filter(isObject) : []
        const shown = all.filter((tool) => args.disabled !== true || tool.disabled === true)
        print(args.json === true, shown, () =>
          table(
            ["tool", "", "description"],
            shown.map((tool) => [
              String(tool.name),
              tool.disabled === true ? "disabled" : tool.held === true ? "changed, not approved" : "",
              firstLine(tool.description),
            ]),
          ),
        )
        return 0
      },
    },
    disable: {
      meta: { name: "disable", description: "Hide a tool" },
      args: {
        ...TOOL_ARGS,
        yes: { type: "boolean", alias: "y", description: "Do not ask before the last one is hidden" },
      },
      run: ({ args }) => switchTool(args, true),
    },
    enable: {
      meta: { name: "enable", description: "Show a hidden tool again" },
      args: TOOL_ARGS,
      run: ({ args }) => switchTool(args, false),
    },
    approve: {
      meta: { name: "approve", description: "Take tools that have changed for what they should be" },
      args: {
        server: NAME,
        tool: { type: "positional", required: false, description: "One tool (default all that have changed)" },
        ...CONTEXT_ARGS,
      },
      async run({ args }) {
        const context = openContext(args)
        const tool = typeof args.tool === "string" ? args.tool : undefined
        const answer = await context.ask("approve", { name: args.server, ...(tool === undefined ? {} : { tool }) })
        if (!isObject(answer) || !Array.isArray(answer.approved)) throw notRunning(context.paths)
        const { approved } = answer
        print(args.json === true, answer, () =>
          approved.length === 0 ? "no tool has changed" : `approved ${approved.join(", ")}`,
        )
        return 0
      },
    },
  } as Record<string, CommandDef>,
}

export const mcp: CommandDef = {
  meta: {
    name: "mcp",
    description:
      "The servers: list, status, add, edit, remove, enable, disable, restart, render, tools, install, uninstall, update, search",
  },
  subCommands: {
    list,
    status,
    add,
    edit,
    remove: simple("remove", "Take a server out of the file", removeServer, "removed"),
    enable: simple("enable", "Enable a disabled server", (name) => setDisabled(name, false), "enabled"),
    disable: simple("disable", "Disable a server without removing it", (name) => setDisabled(name, true), "disabled"),
    restart,
    render,
    tools,
    install: () => import("./mcp-install.ts").then(({ install }) => install),
    uninstall: () => import("./mcp-install.ts").then(({ uninstall }) => uninstall),
    update: () => import("./mcp-install.ts").then(({ update }) => update),
    search: () => import("./registry.ts").then(({ search }) => search),
  },
}

// ---

/** Edits the file and says so. What has a wrong form is refused; what else the edit leaves wrong is said. */
async function change(args: Readonly<Record<string, unknown>>, edit: Edit, done: string): Promise<number> {
  const context = openContext(args)
  await createMissing(context.paths, systemClock)
  let fresh: readonly Issue[] = []
  const judged: Edit = (text) => {
    const texts = readTexts(context.paths)
    const issuesOf = (config: string) => findIssues(context, () => ({ ...texts, config }))
    const changed = edit(text)
    const known = new Set(issuesOf(text).map(({ message }) => message))
    // Where they stand is said of a text that is not there yet.
    fresh = issuesOf(changed).flatMap(({ code, severity, message }) =>
      known.has(message) ? [] : [{ code, severity, message }],
    )
    const wrong = fresh.filter(({ code }) => code === "type")
    if (wrong.length > 0) throw new ConfigError(wrong)
    return changed
  }
  const changed = await editConfig(context.paths, judged, systemClock)
  for (const { message } of fresh) say(`warning: ${message}`)
  print(args.json === true, { changed, file: context.paths.file }, () =>
    changed ? `${done} (${context.paths.file})` : "nothing to change",
  )
  return 0
}

function hiddenInFile(context: CommandContext, given: string): Params {
  const servers = writtenServers(readTexts(context.paths).config ?? "")
  const { disabledTools } = servers.get(writtenName(given, servers.keys()))?.server ?? {}
  return { tools: Array.isArray(disabledTools) ? disabledTools.map((name) => ({ name, disabled: true })) : [] }
}

async function switchTool(args: Readonly<Record<string, unknown>>, disabled: boolean): Promise<number> {
  const name = String(args.server)
  const tool = String(args.tool)
  const answer = await openContext(args)
    .ask("tools", { name })
    .catch(() => undefined)
  const tools = isObject(answer) && Array.isArray(answer.tools) ? answer.tools.filter(isObject) : undefined
  const known = tools?.map((one) => String(one.name))
  const local = tool.replace(`${slugOf(name)}${SEPARATOR}`, "")
  if (known !== undefined && !known.includes(tool) && !known.includes(local))
    say(`warning: ${name} has no tool ${tool} at the moment`)
  const offered = tools?.filter((one) => one.disabled !== true).map((one) => String(one.name)) ?? []
  const isLast = offered.length === 1 && (offered[0] === tool || offered[0] === local)
  if (disabled && isLast && args.yes !== true) {
    if (!isInteractive()) throw usageError(`${tool} is the last tool that ${name} offers; add --yes to hide it`)
    if (!(await promptYesNo(`${visible(`${tool} is the last tool that ${name} offers`)}; hide it?`))) return 0
  }
  return change(args, setToolDisabled(name, tool, disabled), `${disabled ? "disabled" : "enabled"} ${tool} of ${name}`)
}

function parsePatch(text: string): Params {
  try {
    return parseDocument(text, "the patch").value
  } catch (error) {
    throw usageError(error instanceof Error ? error.message : "the patch is not JSON")
  }
}

const firstLine = (text: unknown): string =>
  String(text ?? "")
    .split("\n", 1)[0]
    ?.slice(0, 100) ?? ""
