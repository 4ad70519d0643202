/** `svc mcp`: manages the servers in mcp.json. */
import type { CommandDef } from "citty"
import { CONTEXT_ARGS, notRunning, openContext, repeated } from "../app/command-context.ts"
import { editServers } from "../app/edit-servers.ts"
import { FOLLOW_ARGS, finishChange, START_ARGS } from "../app/follow.ts"
import { say } from "../app/output.ts"
import { parseDocument } from "../config/document.ts"
import { addServer, type Edit, patchServer, removeServer, renameServer, setDisabled } from "../config/edit.ts"
import { type ProgramCommand, usageError } from "../lib/command-line.ts"
import { messageOf } from "../lib/errors.ts"
import { visible } from "../lib/log.ts"
import { isObject, type Params } from "../wire/message.ts"
import { render } from "./mcp-render.ts"
import { list, status } from "./mcp-status.ts"

const NAME = { type: "positional", required: true, description: "Name of the server" } as const

const add: ProgramCommand = {
  addressFlag: "url",
  meta: {
    name: "add",
    description: "Add a server: `svc mcp add NAME -- COMMAND ARGS…`, or `svc mcp add NAME --url URL`",
  },
  args: {
    name: NAME,
    ...CONTEXT_ARGS,
    url: { type: "string", description: "Address of a remote server, or of a host whose server card names it" },
    type: { type: "string", description: "stdio, http, sse or streamableHttp" },
    env: { type: "string", description: "Environment variable, NAME=value; may be repeated" },
    header: { type: "string", description: "HTTP header of a remote server, 'Name: value'; may be repeated" },
    tag: { type: "string", description: "Tag; may be repeated" },
    force: { type: "boolean", description: "Replace an existing server of this name" },
    ...START_ARGS,
  },
  async run({ args, rawArgs }) {
    const split = rawArgs.indexOf("--")
    const [command, ...rest] = split < 0 ? [] : rawArgs.slice(split + 1)
    const { url } = args
    if ((command === undefined) === (typeof url !== "string"))
      throw usageError(
        "give a command after --, or the URL of a remote server: svc mcp add NAME -- COMMAND ARGS…, or svc mcp add NAME --url URL",
      )
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
    // A transport is stated for an address that the person knows.
    const remote = typeof url !== "string" || typeof args.type === "string" ? { url } : await remoteAt(url, headers)
    const allHeaders = { ...remote.headers, ...headers }
    const server: Params = {
      ...(typeof args.type === "string" ? { type: args.type } : {}),
      ...(command === undefined ? remote : { command, ...(rest.length > 0 ? { args: rest } : {}) }),
      ...(Object.keys(env).length > 0 ? { env } : {}),
      ...(Object.keys(allHeaders).length > 0 ? { headers: allHeaders } : {}),
      ...(tags.length > 0 ? { tags } : {}),
    }
    const name = String(args.name)
    return editServers(args, addServer(name, server, args.force === true), `added ${name}`, [name])
  },
}

const edit: CommandDef = {
  meta: { name: "edit", description: "Change a server with a JSON merge patch" },
  args: {
    name: NAME,
    patch: {
      type: "positional",
      required: false,
      description: 'JSON merge patch, such as \'{"requestTimeout": 5000, "cwd": null}\'',
    },
    ...CONTEXT_ARGS,
    rename: { type: "string", description: "New name" },
    ...START_ARGS,
  },
  run({ args }) {
    const patch = typeof args.patch === "string" ? parsePatch(args.patch) : {}
    const { rename } = args
    if (typeof args.patch !== "string" && typeof rename !== "string")
      throw usageError("give a JSON merge patch such as '{\"disabled\": true}', or --rename")
    const name = String(args.name)
    const whole: Edit = (text) => {
      const patched = patchServer(name, patch)(text)
      return typeof rename === "string" ? renameServer(name, rename)(patched) : patched
    }
    const newName = typeof rename === "string" ? rename : name
    return editServers(args, whole, `changed ${name}`, [newName])
  },
}

const enable: CommandDef = {
  meta: { name: "enable", description: "Enable a disabled server" },
  args: { name: NAME, ...CONTEXT_ARGS, ...START_ARGS },
  run({ args }) {
    const name = String(args.name)
    return editServers(args, setDisabled(name, false), `enabled ${name}`, [name])
  },
}

const simple = (name: string, description: string, edit: (server: string) => Edit, done: string): CommandDef => ({
  meta: { name, description },
  args: { name: NAME, ...CONTEXT_ARGS, ...FOLLOW_ARGS },
  run: ({ args }) => editServers(args, edit(String(args.name)), `${done} ${args.name}`),
})

const restart: CommandDef = {
  meta: { name: "restart", description: "Restart one server, or all, immediately" },
  args: {
    name: { type: "positional", required: false, description: "Name of one server (default: all)" },
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

export const mcp: CommandDef = {
  meta: {
    name: "mcp",
    description: "Manage the servers in mcp.json",
  },
  subCommands: {
    list,
    status,
    add,
    edit,
    remove: simple("remove", "Remove a server from the configuration", removeServer, "removed"),
    enable,
    disable: simple("disable", "Disable a server without removing it", (name) => setDisabled(name, true), "disabled"),
    restart,
    render,
    tools: () => import("./mcp-tools.ts").then(({ tools }) => tools),
    install: () => import("./mcp-install.ts").then(({ install }) => install),
    uninstall: () => import("./mcp-install.ts").then(({ uninstall }) => uninstall),
    update: () => import("./mcp-install.ts").then(({ update }) => update),
    search: () => import("./registry.ts").then(({ search }) => search),
  },
}

// ---

type RemoteServer = Params & { readonly headers?: Readonly<Record<string, unknown>> }

/** Returns the remote server at an address or, by its card, at a host or page. Says what a card led to. */
async function remoteAt(url: string, headers: Readonly<Record<string, string>>): Promise<RemoteServer> {
  const { describeFound, findServer, planFound } = await import("../tools/find-server.ts")
  const found = await findServer(url, fetch)
  if (typeof found === "string") return { url: found }
  // A header that the person gives, in whichever case, replaces the card's.
  const given = new Set(Object.keys(headers).map((name) => name.toLowerCase()))
  const remotes = found.card.remotes.map((remote) => ({
    ...remote,
    headers: remote.headers.filter(({ name }) => !given.has(name.toLowerCase())),
  }))
  const { server, missing } = planFound({ ...found, card: { ...found.card, remotes } }, {})
  if (missing.length > 0)
    throw usageError(
      `${describeFound(found)} needs ${missing.map(({ name }) => name).join(", ")}; \`svc mcp install NAME --url ${url}\` asks for it`,
    )
  say(`found ${describeFound(found)}: ${visible(String(server.url))}`)
  return server
}

function parsePatch(text: string): Params {
  try {
    return parseDocument(text, "the patch").value
  } catch (error) {
    throw usageError(messageOf(error))
  }
}
