/** `svc mcp`: manages the servers in mcp.json. */
import type { CommandDef } from "citty"
import {
  CONTEXT_ARGS,
  notRunning,
  ONE_SERVER_ARG,
  openContext,
  repeated,
  SCOPE_ARGS,
  SCOPE_NOTE,
} from "../commands/command-context.ts"
import { editServers } from "../commands/edit-servers.ts"
import { FOLLOW_ARGS, finishChange, START_ARGS } from "../commands/follow.ts"
import { type Edit, removeServer, setDisabled } from "../config/edit.ts"
import { systemClock } from "../lib/clock.ts"
import { type CommandGroup, usageError, type VariadicCommand } from "../lib/command-line.ts"
import { print, say } from "../lib/output.ts"
import { watchTrees } from "../store/watch.ts"
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
    watch: {
      type: "string",
      description: "Also restart the server when a file under this path changes, until Ctrl-C; may be repeated",
      valueHint: "path",
    },
    ...CONTEXT_ARGS,
    ...START_ARGS,
  },
  async run({ args, rawArgs }) {
    const context = openContext(args)
    const paths = repeated(rawArgs, "watch")
    if (paths.length > 0 && typeof args.name !== "string")
      throw usageError("--watch restarts one server: svc mcp restart NAME --watch PATH")
    const restartNow = async () => {
      const answer = await context.ask("restart", typeof args.name === "string" ? { name: args.name } : {})
      if (answer === undefined) throw notRunning(context.paths)
      const restarted = isObject(answer) && Array.isArray(answer.restarted) ? answer.restarted.map(String) : []
      const done = restarted.length === 0 ? "no servers to restart" : `restarted ${restarted.join(", ")}`
      return finishChange(context, args, { kind: "command", result: { restarted }, done, servers: restarted })
    }
    if (paths.length === 0) return restartNow()
    const changes = watchTrees(paths, systemClock)
    await restartNow()
    say(`watching ${paths.join(", ")}; press Ctrl-C to stop`)
    for (;;) {
      await changes.next()
      await restartNow()
    }
  },
}

const start: CommandDef = {
  meta: { name: "start", description: "Start a server that is asleep, or that has failed, without waiting for a call" },
  args: { name: NAME, ...CONTEXT_ARGS, ...START_ARGS },
  async run({ args }) {
    const context = openContext(args)
    const answer = await context.ask("wake", { name: String(args.name) }, START_MS)
    if (answer === undefined) throw notRunning(context.paths)
    const started = isObject(answer) && Array.isArray(answer.started) ? answer.started.map(String) : []
    return finishChange(context, args, {
      kind: "command",
      result: { started },
      done: `started ${started.join(", ")}`,
      servers: started,
    })
  },
}

const sleep: CommandDef = {
  meta: { name: "sleep", description: "End the process of a server until a call needs it; its tools stay listed" },
  args: { name: NAME, ...CONTEXT_ARGS },
  async run({ args }) {
    const context = openContext(args)
    const answer = await context.ask("sleep", { name: String(args.name) })
    if (answer === undefined) throw notRunning(context.paths)
    const asleep = isObject(answer) && Array.isArray(answer.asleep) ? answer.asleep.map(String) : []
    print(args.json === true, { asleep }, () => `${asleep.join(", ")} sleeps until a call needs it`)
    return 0
  },
}

/** Longer than most servers take to start; `svc mcp status` shows the others. */
const START_MS = 5 * 60_000

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
    start,
    sleep,
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
    hide: ["tools", "disable"],
    stop: "`svc mcp disable NAME` stops a server until `svc mcp enable NAME`",
    logs: "see `svc logs NAME`",
    login: "see `svc auth login NAME`",
    check: "`svc doctor NAME` checks a server and what it offers",
    lint: "`svc doctor NAME` checks a server and what it offers",
    dev: "`svc mcp restart NAME --watch PATH` restarts a server when its files change, and `svc logs NAME --wire` shows its messages",
    watch: "`svc mcp restart NAME --watch PATH` restarts a server when its files change",
    trace: "`svc logs NAME --wire` shows the messages of a server",
    wire: "`svc logs NAME --wire` shows the messages of a server",
  },
}
