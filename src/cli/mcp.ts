/** `svc mcp`: manages the servers in mcp.json. */
import type { CommandDef } from "citty"
import {
  CONTEXT_ARGS,
  notRunning,
  ONE_SERVER_ARG,
  openContext,
  SCOPE_ARGS,
  SCOPE_NOTE,
} from "../commands/command-context.ts"
import { editServers } from "../commands/edit-servers.ts"
import { FOLLOW_ARGS, finishChange, START_ARGS } from "../commands/follow.ts"
import { type Edit, removeServer, setDisabled } from "../config/edit.ts"
import type { CommandGroup, VariadicCommand } from "../lib/command-line.ts"
import { say } from "../lib/output.ts"
import { isObject } from "../wire/message.ts"
import { list, status } from "./mcp-status.ts"

const NAME = { type: "positional", required: true, description: "Name of the server", valueHint: "server" } as const

const enable: CommandDef = {
  meta: { name: "enable", description: "Enable a disabled server" },
  args: { name: NAME, ...CONTEXT_ARGS, ...START_ARGS },
  run({ args }) {
    const name = String(args.name)
    return editServers(args, setDisabled(name, false), `enabled ${name}`, [name])
  },
}

const disable: CommandDef = {
  meta: { name: "disable", description: "Disable a server without removing it" },
  args: { name: NAME, ...CONTEXT_ARGS, ...FOLLOW_ARGS },
  run({ args }) {
    const name = String(args.name)
    return editServers(args, setDisabled(name, true), `disabled ${name}`)
  },
}

const remove: VariadicCommand = {
  rest: "NAME",
  meta: { name: "remove", description: "Remove servers from the configuration" },
  args: { name: NAME, ...CONTEXT_ARGS, ...SCOPE_ARGS, ...FOLLOW_ARGS },
  run({ args }) {
    if (args.scope !== undefined) say(SCOPE_NOTE)
    const names = args._
    const all: Edit = (text) => names.reduce((changed, name) => removeServer(name)(changed), text)
    return editServers(args, all, `removed ${names.join(", ")}`)
  },
}

const restart: CommandDef = {
  meta: { name: "restart", description: "Restart one server, or all, immediately" },
  args: {
    ...ONE_SERVER_ARG,
    ...CONTEXT_ARGS,
    ...START_ARGS,
  },
  async run({ args }) {
    const context = openContext(args)
    const answer = await context.ask("restart", typeof args.name === "string" ? { name: args.name } : {})
    if (answer === undefined) throw notRunning(context.paths)
    const restarted = isObject(answer) && Array.isArray(answer.restarted) ? answer.restarted.map(String) : []
    const done = restarted.length === 0 ? "no servers to restart" : `restarted ${restarted.join(", ")}`
    return finishChange(context, args, { result: { restarted }, done, servers: restarted })
  },
}

export const mcp: CommandGroup = {
  meta: {
    name: "mcp",
    description: "Manage the servers in mcp.json",
  },
  subCommands: {
    list,
    status,
    add: () => import("./mcp-add.ts").then(({ add }) => add),
    "add-json": () => import("./mcp-add-json.ts").then(({ addJson }) => addJson),
    edit: () => import("./mcp-add.ts").then(({ edit }) => edit),
    remove,
    enable,
    disable,
    restart,
    render: () => import("./mcp-render.ts").then(({ render }) => render),
    tools: () => import("./mcp-tools.ts").then(({ tools }) => tools),
    install: () => import("./mcp-install.ts").then(({ install }) => install),
    uninstall: () => import("./mcp-install.ts").then(({ uninstall }) => uninstall),
    update: () => import("./mcp-install.ts").then(({ update }) => update),
    search: () => import("./registry.ts").then(({ search }) => search),
  },
  aliases: {
    ls: ["list"],
    get: ["status", "--verbose"],
    show: ["status", "--verbose"],
    rm: ["remove"],
    delete: ["remove"],
    start: "`svc mcp enable NAME` starts a disabled server, and `svc mcp restart NAME` a failed one",
    stop: "`svc mcp disable NAME` stops a server until `svc mcp enable NAME`",
    logs: "see `svc logs NAME`",
    login: "see `svc auth login NAME`",
  },
}
