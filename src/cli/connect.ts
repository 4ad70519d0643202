/**
 * `svc connect` and `svc disconnect`: write svc into the configuration of an MCP client, and take it out again.
 *
 *  1. They show what would change and ask; `--yes` does not ask, `--dry-run` changes nothing.
 *  2. The file as it was is kept, and `--undo` restores it.
 *  3. A file that cannot be read is left alone.
 */
import { statSync } from "node:fs"
import type { CommandDef } from "citty"
import {
  type ClientTarget,
  formatChange,
  formatEdits,
  lastConnection,
  planUndo,
  readTarget,
  undo,
  writeEdits,
} from "../app/client-connection.ts"
import { CONTEXT_ARGS, type CommandContext, openContext } from "../app/command-context.ts"
import { followChange } from "../app/follow.ts"
import { print, say, table } from "../app/output.ts"
import { ownCommand } from "../app/own-command.ts"
import { readServeOptions } from "../app/serve-options.ts"
import { readQuery, selectServers } from "../catalog/selection.ts"
import { type ClientEdit, valueIn } from "../config/client-edit.ts"
import {
  CLIENTS,
  type ClientEndpoint,
  type ClientHost,
  type ClientName,
  clientEntry,
  clientFiles,
  clientRow,
  entryPath,
} from "../config/clients.ts"
import { parseDocument } from "../config/document.ts"
import { isSvc, readForeignServers, servedEntries } from "../config/import.ts"
import { readPresets } from "../config/presets.ts"
import { systemClock } from "../lib/clock.ts"
import { readOptions, usageError } from "../lib/command-line.ts"
import { messageOf, RequestError } from "../lib/errors.ts"
import { counted, visible } from "../lib/log.ts"
import { unknownNameError } from "../lib/nearest.ts"
import { isInteractive, promptYesNo } from "../lib/prompt.ts"
import { createToken, findToken } from "../store/client-tokens.ts"
import { readConnections } from "../store/connections.ts"
import { readTexts } from "../store/documents.ts"
import { pathsOf } from "../store/paths.ts"
import { homeDirectory } from "../template/project.ts"
import { writtenValues } from "../tools/consent-text.ts"
import { isObject, type Params } from "../wire/message.ts"
import { changeTokens, tokensOf } from "./auth-token.ts"

const CLIENT = {
  type: "positional",
  required: false,
  description: `Client: ${CLIENTS.join(", ")}`,
  valueHint: CLIENTS.join("|"),
} as const

const COMMON = {
  ...CONTEXT_ARGS,
  scope: {
    type: "string",
    description: "Which file of the client: user or project (default user)",
    valueHint: "user|project",
  },
  name: { type: "string", description: "Name of the entry in the client (default svc)" },
  "dry-run": { type: "boolean", description: "Only show what would change" },
  undo: { type: "boolean", description: "Undo the last change of the client's file" },
  yes: { type: "boolean", alias: "y", description: "Do not ask for confirmation" },
} as const

export const connect: CommandDef = {
  meta: { name: "connect", description: "Connect an MCP client to svc: write svc into the client's configuration" },
  args: {
    client: CLIENT,
    ...COMMON,
    list: { type: "boolean", description: "List the clients, their files, and whether they are connected" },
    replace: { type: "boolean", description: "Remove the client's own entries for servers that svc serves" },
    preset: { type: "string", description: "Offer only the servers of this preset" },
    tags: { type: "string", description: "Offer only servers with one of these tags, comma-separated" },
    "tag-filter": { type: "string", description: 'Offer only servers whose tags match, such as "web and not slow"' },
    tools: { type: "string", description: "search: offer only svc's search tools, instead of all tools" },
    stdio: { type: "boolean", description: "Let the client start `svc proxy` instead of connecting to an address" },
    url: {
      type: "string",
      description: "Address of svc (default: the address of the running svc, or the default address)",
    },
    token: {
      type: "boolean",
      description: "Create a token for the client (default: if svc requires one; --no-token: never)",
    },
  },
  async run({ args }) {
    const context = openContext(args)
    if (args.list === true) return listClients(context, args.json === true)
    const target = targetOf(args)
    if (args.undo === true) return undoLast(context, target, args)
    const selection = selectionOf(context, args)
    const endpoint = await endpointOf(context, target, args, selection)
    const found = readTarget(target)
    const entries = found === undefined ? [] : readForeignServers(found.text, target.file)
    const address = endpoint.kind === "http" ? endpoint.url : await addressOf(context)
    const name = entryName(context, target, args, entries, address)
    const path = entryPath(target.client, name)
    const config = readTexts(context.paths).config() ?? ""
    const replaced = args.replace === true ? servedEntries(entries, config, context.world(), selection.includes) : []
    const removals = replaced.map((entry): ClientEdit => ({ path: entry.path, value: undefined }))
    const old = tokenIn(valueIn(found?.value, path)) ?? ""
    const known = findToken(old, tokensOf(context), systemClock.now()) === undefined ? undefined : old
    const kept = known !== undefined
    const wantsToken = endpoint.kind === "http" && (kept || (await needsToken(context, endpoint.url, args)))
    if (wantsToken && target.scope === "project")
      throw usageError(
        `svc requires a token, and ${target.file} is shared with the project: use --scope user, or --stdio, which needs none`,
      )
    const editsWith = (token: string | undefined): readonly ClientEdit[] => [
      { path, value: clientEntry(target.client, withToken(endpoint, token)) },
      ...removals,
    ]
    const secrets = entries.flatMap(({ server }) => secretsOf(server))
    const isNew = wantsToken && !kept
    const shown = editsWith(isNew ? NEW_TOKEN : known)
    const diff = formatEdits(found?.text ?? "", target.file, shown, [
      ...secrets,
      ...(known === undefined ? [] : [known]),
    ])
    const about = {
      client: target.client,
      scope: target.scope,
      file: target.file,
      name,
      ...(endpoint.kind === "http" ? { url: endpoint.url } : { command: [endpoint.command, ...endpoint.args] }),
      replaced: replaced.map((entry) => entry.name),
      token: wantsToken,
    }
    const title = clientRow(target.client).title
    if (diff === "") {
      print(args.json === true, { ...about, changed: false }, () => `${title} is connected already (${target.file})`)
      return 0
    }
    const notes = isNew
      ? [`a token named ${target.client} is created and written into the file${readersOf(target.file)}`]
      : []
    if (!(await agreed(args, target, diff, notes, `connect ${title} to svc?`))) {
      if (args.json === true) print(true, { ...about, changed: false, diff }, () => "")
      return 0
    }
    const token = isNew ? await createClientToken(context, target.client, args) : known
    const edits = editsWith(token)
    // It rewrites the file, so it runs only where neither comments nor formatting can be lost.
    const own =
      token === undefined && (found === undefined || isPlain(found)) && valueIn(found?.value, path) === undefined
    const command = own ? clientRow(target.client).adds?.(name, endpoint, target.scope) : undefined
    const backup = await writeEdits(context.paths, target, edits, () => runClientCommand(command))
    print(args.json === true, { ...about, changed: true, backup }, () =>
      [
        `connected ${title}: ${name} in ${target.file}`,
        ...(replaced.length === 0
          ? []
          : [`removed ${replaced.map((entry) => entry.name).join(", ")}, which svc serves`]),
        ...(backup === null ? [] : [`backup: ${backup}`]),
        `undo: svc connect ${target.client}${target.scope === "user" ? "" : " --scope project"} --undo`,
        ...(clientRow(target.client).next === undefined ? [] : [`next: ${clientRow(target.client).next}`]),
      ].join("\n"),
    )
    return 0
  },
}

export const disconnect: CommandDef = {
  meta: { name: "disconnect", description: "Disconnect an MCP client: remove svc from the client's configuration" },
  args: { client: { ...CLIENT, required: true }, ...COMMON },
  async run({ args }) {
    const context = openContext(args)
    const target = targetOf(args)
    if (args.undo === true) return undoLast(context, target, args)
    const found = readTarget(target)
    const entries = found === undefined ? [] : readForeignServers(found.text, target.file)
    const address = await addressOf(context)
    const written = writtenBySvc(context, target)
    const own = entries.filter(
      (entry) =>
        (args.name === undefined || entry.name === args.name) &&
        (isSvc(entry.server, address) || written.has(JSON.stringify(entry.path))),
    )
    const { title } = clientRow(target.client)
    const about = {
      client: target.client,
      scope: target.scope,
      file: target.file,
      removed: own.map(({ name }) => name),
    }
    if (own.length === 0 || found === undefined) {
      print(args.json === true, { ...about, changed: false }, () => `${title} is not connected to svc (${target.file})`)
      return 0
    }
    const edits = own.map(({ path }): ClientEdit => ({ path, value: undefined }))
    const secrets = entries.flatMap(({ server }) => secretsOf(server))
    const tokens = own.flatMap(({ path }) => tokenIn(valueIn(found.value, path)) ?? [])
    const diff = formatEdits(found.text, target.file, edits, secrets)
    const notes = tokens.length === 0 ? [] : ["its token is revoked"]
    if (!(await agreed(args, target, diff, notes, `disconnect ${title} from svc?`))) {
      if (args.json === true) print(true, { ...about, changed: false, diff }, () => "")
      return 0
    }
    const backup = await writeEdits(context.paths, target, edits, async () => undefined)
    await revokeTokens(context, args, tokens)
    print(args.json === true, { ...about, changed: true, backup }, () =>
      [`disconnected ${title} (${target.file})`, ...(backup === null ? [] : [`backup: ${backup}`])].join("\n"),
    )
    return 0
  },
}

// ---

/** Stands in the shown change for a token that does not exist yet. */
const NEW_TOKEN = "(a new token)"
/** How long a command of a client may take. */
const COMMAND_MS = 20_000
const PROBE_MS = 3000

const host = (): ClientHost => ({
  platform: process.platform,
  home: homeDirectory(),
  cwd: process.cwd(),
  env: process.env,
})

function targetOf(args: Readonly<Record<string, unknown>>): ClientTarget {
  if (typeof args.client !== "string") throw usageError("CLIENT is missing; `svc connect --list` lists the clients")
  const client = CLIENTS.find((one) => one === args.client)
  if (client === undefined) throw unknownNameError("client", args.client, CLIENTS)
  const scope = readOptions(args, {}).choice("scope", ["user", "project"], "user")
  const file = clientFiles(client, host()).find((one) => one.scope === scope)
  if (file === undefined) throw usageError(`${clientRow(client).title} has no file for a project; leave --scope out`)
  return { ...file, client }
}

/** Asks for consent to a change. False: it is not made. Throws a RequestError (usage) if there is no terminal to ask at. */
async function agreed(
  args: Readonly<Record<string, unknown>>,
  { file }: ClientTarget,
  diff: string,
  notes: readonly string[],
  question: string,
): Promise<boolean> {
  const text = [visible(file), ...diff.split("\n").map(visible), ...notes].join("\n")
  if (args["dry-run"] === true) {
    if (args.json !== true) print(false, undefined, () => text)
    return false
  }
  if (args.yes === true) {
    if (args.json !== true) say(text)
    return true
  }
  if (!isInteractive())
    throw usageError("no terminal to ask for confirmation; add --yes, or --dry-run to see the change")
  say(text)
  return promptYesNo(question)
}

type ClientSelection = { readonly parameters: URLSearchParams; includes(tags: readonly string[]): boolean }

/** Returns what the client is to see. Throws a RequestError for an unknown preset or an invalid expression. */
function selectionOf({ paths }: CommandContext, args: Readonly<Record<string, unknown>>): ClientSelection {
  const option = readOptions(args, {})
  const parameters = new URLSearchParams()
  for (const name of ["preset", "tags", "tag-filter"]) {
    const value = option.text(name)
    if (value !== undefined) parameters.set(name, value)
  }
  if (option.text("tools") !== undefined) parameters.set("tools", option.choice("tools", ["search"], "search"))
  const { presets } = readPresets(parseDocument(readTexts(paths).presets() ?? "{}", paths.presets))
  const { includes } = selectServers([readQuery(parameters)], presets)
  return { parameters, includes }
}

/** Returns the address at which clients of this machine reach svc: the running one's, else the configured one. */
async function addressOf({ ask }: CommandContext): Promise<string> {
  const status = await ask("status").catch(() => undefined)
  if (isObject(status) && typeof status.url === "string") return status.url
  const { address, tls, externalUrl } = readServeOptions({}, process.env, process.platform)
  if (externalUrl !== undefined) return `${externalUrl}/`
  if ("unix" in address) return `unix:${address.unix}`
  const name = address.hostname.includes(":") ? `[${address.hostname}]` : address.hostname
  return `${tls === undefined ? "http" : "https"}://${name}:${address.port === 0 ? 3050 : address.port}/`
}

/** Returns how the client reaches svc: by an address, unless the client cannot, svc has none, or `--stdio` is given. */
async function endpointOf(
  context: CommandContext,
  { client, scope }: ClientTarget,
  args: Readonly<Record<string, unknown>>,
  { parameters }: ClientSelection,
): Promise<ClientEndpoint> {
  const given = readOptions(args, {}).text("url")
  const takesAddress = clientRow(client).http !== undefined
  if (given !== undefined && (args.stdio === true || !takesAddress))
    throw usageError(
      takesAddress ? "--url and --stdio exclude each other" : `${clientRow(client).title} takes no address`,
    )
  const address = given ?? (await addressOf(context))
  const isHttp = URL.canParse(address) && /^https?:/.test(address)
  if (given !== undefined && !isHttp) throw usageError(`--url must be an http or https address, not ${given}`)
  if (args.stdio === true || !takesAddress || !isHttp) {
    const words = [...configFlags(context), ...[...parameters].flatMap(([name, value]) => [`--${name}`, value])]
    // A project's file is shared: the path of this machine's svc means nothing on another.
    const [command, ...rest] =
      scope === "project" ? ["svc", "proxy", "--start", ...words] : ownCommand("proxy", "--start", ...words)
    return { kind: "stdio", command, args: rest }
  }
  const url = new URL(address)
  if (url.hostname === "0.0.0.0" || url.hostname === "[::]") url.hostname = "127.0.0.1"
  if (url.pathname === "/") url.pathname = "/mcp"
  for (const [name, value] of parameters) url.searchParams.set(name, value)
  return { kind: "http", url: url.href, headers: {} }
}

/** Returns the flags that name this configuration, if it is not the default one. */
function configFlags({ paths: { directory, file } }: CommandContext): readonly string[] {
  const { platform, env } = process
  const standard = { platform, home: homeDirectory(), appData: env.APPDATA, cwd: process.cwd() }
  const usual = pathsOf({ ...standard, config: undefined, directory: undefined }).directory
  const own = pathsOf({ ...standard, config: undefined, directory }).file
  return [...(directory === usual ? [] : ["--config-dir", directory]), ...(file === own ? [] : ["--config", file])]
}

/** The places in a client's file that svc has written, as JSON. */
const writtenBySvc = ({ paths }: CommandContext, { file }: ClientTarget): ReadonlySet<string> =>
  new Set(
    readConnections(paths)
      .filter((one) => one.file === file)
      .flatMap(({ places }) => places.flatMap(({ path, digest }) => (digest === null ? [] : [JSON.stringify(path)]))),
  )

type Entries = ReturnType<typeof readForeignServers>

/** Returns the name of the entry: the given one, that of svc's entry, or svc. Throws a RequestError if another server has it. */
function entryName(
  context: CommandContext,
  target: ClientTarget,
  args: Readonly<Record<string, unknown>>,
  entries: Entries,
  address: string,
): string {
  const written = writtenBySvc(context, target)
  const own = entries.filter(
    ({ path, project, server }) =>
      project === undefined && (isSvc(server, address) || written.has(JSON.stringify(path))),
  )
  const name = readOptions(args, {}).text("name") ?? own[0]?.name ?? "svc"
  const taken = entries.some((entry) => entry.project === undefined && entry.name === name)
  if (taken && !own.some((entry) => entry.name === name))
    throw new RequestError(
      "conflict",
      `${target.file} has another server named ${name}; choose another name with --name, or remove it first`,
    )
  return name
}

/** Whether the svc at an address requires a token of its own: it refuses a request without one, and names no issuer. */
async function needsToken(
  { ask }: CommandContext,
  url: string,
  args: Readonly<Record<string, unknown>>,
): Promise<boolean> {
  if (typeof args.token === "boolean") return args.token
  // A token of this configuration means nothing to another svc.
  if (args.url !== undefined) return false
  const running = (await ask("status").catch(() => undefined)) !== undefined
  const response = running
    ? await fetch(url, { headers: { accept: "text/event-stream" }, signal: AbortSignal.timeout(PROBE_MS) }).catch(
        () => undefined,
      )
    : undefined
  await response?.body?.cancel().catch(() => undefined)
  if (response !== undefined)
    return response.status === 401 && !/resource_metadata/.test(response.headers.get("www-authenticate") ?? "")
  const { auth, authIssuer } = readServeOptions({}, process.env, process.platform)
  return auth && authIssuer === undefined
}

const withToken = (endpoint: ClientEndpoint, token: string | undefined): ClientEndpoint =>
  endpoint.kind === "stdio" || token === undefined
    ? endpoint
    : { ...endpoint, headers: { Authorization: `Bearer ${token}` } }

/** Warns of a file that other users of this machine can read; empty for any other. */
function readersOf(file: string): string {
  const facts = statSync(file, { throwIfNoEntry: false })
  const isOpen = process.platform !== "win32" && facts !== undefined && (facts.mode & 0o044) !== 0
  return isOpen ? ", which other users of this machine can read: consider chmod 600" : ""
}

/** Returns the token of svc in an entry of a client. */
const tokenIn = (entry: unknown): string | undefined =>
  /Bearer (svc_[0-9a-f]{12}_[\w-]{43})/.exec(JSON.stringify(entry) ?? "")?.[1]

async function createClientToken(
  context: CommandContext,
  name: ClientName,
  args: Readonly<Record<string, unknown>>,
): Promise<string> {
  // A client may be connected twice, as in two scopes. Names are unique.
  const taken = new Set([...tokensOf(context).values()].map((one) => one.name))
  let unique: string = name
  for (let number = 2; taken.has(unique); number++) unique = `${name}-${number}`
  const { token, text } = createToken(unique, { now: systemClock.now() })
  await changeTokens(context, (tokens) => new Map([...tokens, [token.id, token]]))
  await followChange(context, args, `created token ${token.id}`)
  return text
}

/** Revokes the tokens that a client no longer has. */
async function revokeTokens(
  context: CommandContext,
  args: Readonly<Record<string, unknown>>,
  texts: readonly string[],
): Promise<void> {
  const ids = new Set(texts.map((text) => text.split("_")[1]))
  if (ids.size === 0) return
  await changeTokens(context, (tokens) => new Map([...tokens].filter(([id]) => !ids.has(id))))
  await followChange(context, args, `revoked ${counted(ids.size, "token")}`)
}

/** Whether a text is JSON just as programs print it. */
const isPlain = ({ text, value }: { readonly text: string; readonly value: Params }): boolean =>
  text.trim() === JSON.stringify(value, null, 2)

const secretsOf = (server: Params): readonly string[] =>
  ["env", "headers"].flatMap((section) => {
    const written = writtenValues(server)[section]
    return isObject(written) ? Object.values(written).map(String) : []
  })

/** Runs a client's own command that adds a server. Whatever comes of it: the file tells, and what is missing is written. */
async function runClientCommand(command: readonly string[] | undefined): Promise<void> {
  const [name, ...rest] = command ?? []
  const program = name === undefined ? null : Bun.which(name)
  if (program === null) return
  try {
    const child = Bun.spawn({
      cmd: [program, ...rest],
      stdin: "ignore",
      stdout: "ignore",
      stderr: "ignore",
      timeout: COMMAND_MS,
      killSignal: "SIGKILL",
    })
    await child.exited
  } catch (error) {
    say(`${name} could not be run: ${messageOf(error)}; its file is written instead`)
  }
}

async function undoLast(
  context: CommandContext,
  target: ClientTarget,
  args: Readonly<Record<string, unknown>>,
): Promise<number> {
  const connection = lastConnection(context.paths, target)
  const plan = planUndo(connection)
  const entries = readForeignServers(plan.now, target.file)
  const restored = plan.before === undefined ? undefined : String(Buffer.from(plan.before as string))
  const before = restored === undefined ? [] : readForeignServers(restored, target.file)
  const masked = [...entries, ...before].flatMap(({ server }) => secretsOf(server))
  const diff = formatChange(plan.now, restored ?? "", masked)
  const about = { client: target.client, scope: target.scope, file: target.file }
  const { title } = clientRow(target.client)
  const notes = plan.before === undefined ? ["the file did not exist before: it is removed"] : []
  if (!(await agreed(args, target, diff, notes, `undo the last change of ${title}?`))) {
    if (args.json === true) print(true, { ...about, changed: false, diff }, () => "")
    return 0
  }
  await undo(context.paths, connection, plan)
  const kept = connection.places.flatMap(({ path }) => tokenIn(valueIn(readTarget(target)?.value, path)) ?? [])
  const had = entries.flatMap(({ server }) => tokenIn(server) ?? [])
  await revokeTokens(
    context,
    args,
    had.filter((token) => !kept.includes(token)),
  )
  const known = tokensOf(context)
  const isRevoked = kept.some((token) => findToken(token, known, systemClock.now()) === undefined)
  print(args.json === true, { ...about, changed: true }, () =>
    [
      `restored ${target.file}`,
      ...(isRevoked ? [`its token was revoked: run \`svc connect ${target.client}\` for a new one`] : []),
    ].join("\n"),
  )
  return 0
}

async function listClients(context: CommandContext, asJson: boolean): Promise<number> {
  const address = await addressOf(context)
  const rows = CLIENTS.flatMap((client) =>
    clientFiles(client, host()).map((file) => {
      const target: ClientTarget = { ...file, client }
      const { state, name } = stateOf(context, target, address)
      return {
        client,
        title: clientRow(client).title,
        scope: file.scope,
        file: file.file,
        state,
        ...(name === undefined ? {} : { name }),
      }
    }),
  )
  const there = rows.filter(({ state }) => state !== "no file")
  const others = CLIENTS.filter((client) => !there.some((row) => row.client === client))
  print(asJson, rows, () =>
    [
      ...(there.length === 0
        ? ["found no configuration file of a known client"]
        : [
            table(
              ["client", "state", "scope", "file"],
              there.map((row) => [row.client, row.state, row.scope, row.file]),
            ),
          ]),
      ...(others.length === 0
        ? []
        : ["", `also supported, but without a configuration file on this machine: ${others.join(", ")}`]),
    ].join("\n"),
  )
  return 0
}

function stateOf(
  context: CommandContext,
  target: ClientTarget,
  address: string,
): { readonly state: string; readonly name?: string } {
  try {
    const found = readTarget(target)
    if (found === undefined) return { state: "no file" }
    const written = writtenBySvc(context, target)
    const entries = readForeignServers(found.text, target.file)
    const own = entries.find(({ path, server }) => isSvc(server, address) || written.has(JSON.stringify(path)))
    if (own !== undefined) return { state: "connected", name: own.name }
    return {
      state: entries.length === 0 ? "not connected" : `not connected, ${counted(entries.length, "server")} of its own`,
    }
  } catch (error) {
    return { state: `unreadable: ${messageOf(error)}` }
  }
}
