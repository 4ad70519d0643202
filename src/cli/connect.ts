/**
 * `svc connect`: writes svc into the configuration of an MCP client.
 *
 *  1. It shows the change and asks for confirmation; with `--yes` it does not ask, with `--dry-run` it changes nothing.
 *  2. It keeps a backup of the file, and `--undo` restores it.
 *  3. It does not change a file that it cannot read.
 */

import { existsSync, statSync } from "node:fs"
import { CLIENT_ARGS, configuredOptions } from "../commands/client-commands.ts"
import { openContext } from "../commands/command-context.ts"
import { secretsOf } from "../config/written-values.ts"
import {
  agreed,
  type ClientDocument,
  type ClientTarget,
  clientHost,
  formatEdits,
  linkOf,
  ownEntries,
  ownOrDeadEntries,
  placeOf,
  readTarget,
  targetOf,
  writeEdits,
} from "../features/connect/client-connection.ts"
import { type ClientEdit, valueIn } from "../features/connect/client-edit.ts"
import { endpointOf, needsToken, selectionOf, svcAddresses } from "../features/connect/client-endpoint.ts"
import {
  CLIENTS,
  type ClientEndpoint,
  type ClientName,
  clientEntry,
  clientFiles,
  clientRow,
  entryPath,
} from "../features/connect/clients.ts"
import { readConnections } from "../features/connect/connections.ts"
import { type ForeignServer, listEdits, presetsIn, servedEntries } from "../features/connect/import.ts"
import { readOptions, usageError, type VariadicCommand } from "../lib/command-line.ts"
import { ConfigError, codesOf, messageOf, RequestError, UnavailableError } from "../lib/errors.ts"
import { homeDirectory } from "../lib/home-directory.ts"
import { print, say, stdoutLook, table } from "../lib/output.ts"
import { wrap } from "../lib/table.ts"
import { counted, shortPath } from "../lib/text.ts"
import { type LocalConfiguration, runningUrl } from "../serve/local-configuration.ts"
import { readTexts } from "../store/documents.ts"
import type { Paths } from "../store/paths.ts"
import type { WrittenDocuments } from "../store/transaction.ts"
import { clientTokenName, createClientToken, isAccepted, revokeTokens, tokenIn } from "./client-token.ts"
import { undoLast } from "./disconnect.ts"

export const connect: VariadicCommand = {
  rest: "CLIENT",
  meta: { name: "connect", description: "Connect MCP clients to svc: write svc into the configuration of each" },
  args: {
    ...CLIENT_ARGS,
    all: { type: "boolean", description: "Connect every client that has a configuration file on this machine" },
    list: { type: "boolean", description: "List the clients, their files, and whether they are connected" },
    replace: { type: "boolean", description: "Remove the client's own entries for servers that svc serves" },
    preset: { type: "string", description: "Offer only the servers of this preset" },
    tags: { type: "string", description: "Offer only servers with one of these tags, comma-separated" },
    "tag-filter": { type: "string", description: 'Offer only servers whose tags match, such as "web and not slow"' },
    tools: { type: "string", description: "search: offer only svc's search tools, instead of all tools" },
    stdio: {
      type: "boolean",
      description:
        "Let the client start `svc proxy`, which starts svc (default unless svc is a service or has an external URL; --no-stdio writes an address)",
    },
    url: {
      type: "string",
      description: "Address of svc, for example on another machine",
    },
    token: {
      type: "boolean",
      description: "Create a token for the client (default: if svc requires one; --no-token: never)",
    },
  },
  async run({ args }) {
    const context = openContext(args)
    if (args.list === true) return listClients(context, args.json === true)
    const found = args.all === true ? presentClients() : args._
    if (args.all === true && found.length === 0)
      throw new RequestError(
        "not_found",
        "found no configuration file of a known client; name one, or `svc connect --list`",
      )
    if (found.length < 2) return connectOne(context, { ...args, client: found[0] ?? args.client })
    if (args.json === true) throw usageError("--json shows one client: name one")
    let worst = 0
    for (const client of found) {
      try {
        worst = Math.max(worst, await connectOne(context, { ...args, client }))
      } catch (error) {
        // A file that cannot be written must not keep the other clients apart.
        if (!(error instanceof RequestError || error instanceof UnavailableError || error instanceof ConfigError))
          throw error
        say(`svc: ${client}: ${messageOf(error)}`)
        worst = Math.max(worst, codesOf(error).exit)
      }
    }
    return worst
  },
}

// ---

/** Returns the clients whose user's file is there. */
export const presentClients = (): readonly ClientName[] =>
  CLIENTS.filter((client) => {
    const [{ file }] = clientFiles(client, clientHost())
    return existsSync(file)
  })

/** Connects one client, or undoes the last change of its file. Returns the exit code. */
async function connectOne(context: LocalConfiguration, args: Readonly<Record<string, unknown>>): Promise<number> {
  const target = targetOf(args)
  if (args.undo === true) return undoLast(context, target, args)
  const prepared = await prepareConnection(context, target, args)
  const { diff, notes, planned } = prepared
  const { endpoint, name, replaced, kept, wantsToken } = planned
  const about = {
    client: target.client,
    scope: target.scope,
    file: target.file,
    target: linkOf(target)?.target,
    name,
    ...(endpoint.kind === "http" ? { url: endpoint.url } : { command: [endpoint.command, ...endpoint.args] }),
    replaced: replaced.map((entry) => entry.name),
    token: wantsToken,
  }
  const title = clientRow(target.client).title
  // Before the change: a file that is written may be a link no more.
  const place = placeOf(target)
  if (diff === "") {
    print(args.json === true, { ...about, changed: false }, () => `${title} is already connected (${place})`)
    return 0
  }
  if (!(await agreed(args, target, diff, notes, `connect ${title} to svc?`))) {
    if (args.json === true) print(true, { ...about, changed: false, diff }, () => "")
    return 0
  }
  const backup = await makeConnection(context, prepared, args)
  print(args.json === true, { ...about, changed: true, backup }, () =>
    [
      `connected ${title}: ${name} in ${place}`,
      ...(replaced.length === 0 ? [] : [`removed ${replaced.map((entry) => entry.name).join(", ")}, which svc serves`]),
      ...(kept.length === 0
        ? []
        : [`kept ${kept.map((entry) => entry.name).join(", ")}, which the client starts itself`]),
      ...(backup === null ? [] : [`backup: ${backup}`]),
      `undo: svc connect ${target.client}${target.scope === "user" ? "" : " --scope project"} --undo`,
      ...(clientRow(target.client).next === undefined ? [] : [`next: ${clientRow(target.client).next}`]),
    ].join("\n"),
  )
  // A client with a command in its entry starts svc itself.
  if (endpoint.kind === "http" && args.url === undefined && (await runningUrl(context)) === undefined)
    say(
      `svc is not running, so the client cannot reach it yet: start it with \`svc serve --background\`, or let the client start it: svc connect ${target.client} --stdio`,
    )
  return 0
}

/** A change of a client's file that connects the client, and how to show it. The diff is empty if nothing changes. */
export type PreparedConnection = {
  readonly target: ClientTarget
  readonly planned: PlannedConnection
  readonly diff: string
  readonly notes: readonly string[]
}

/**
 * Prepares the change of a client's file. `documents`: the texts of mcp.json and `.env` that decide which servers svc serves
 * (default: the files). Throws as `planConnection` does.
 */
export async function prepareConnection(
  context: LocalConfiguration,
  target: ClientTarget,
  args: Readonly<Record<string, unknown>>,
  documents?: WrittenDocuments,
): Promise<PreparedConnection> {
  const planned = await planConnection(context, target, args, documents)
  const { found, token, wantsToken } = planned
  const isNew = wantsToken && token === undefined
  const diff = formatEdits(found?.text ?? "", target.file, editsOf(target, planned, isNew ? NEW_TOKEN : token), [
    ...secretsOf(found?.entries ?? []),
    ...(token === undefined ? [] : [token]),
  ])
  const created = `svc creates a token named ${clientTokenName(context, target.client)} and writes it into the file${readersOf(target.file)}`
  const notes = [
    ...(isNew ? [created] : []),
    ...(isUnused(planned) ? ["svc revokes its token, which the command does not need"] : []),
  ]
  return { target, planned, diff, notes }
}

/** Makes a prepared change, and creates the client's token if it needs one. Returns the path of the backup, null if there was no file. */
export async function makeConnection(
  context: LocalConfiguration,
  { target, planned }: PreparedConnection,
  args: Readonly<Record<string, unknown>>,
): Promise<string | null> {
  const { token, wantsToken } = planned
  const isNew = wantsToken && token === undefined
  const written = isNew ? await createClientToken(context, target.client, args) : token
  const command = written === undefined ? clientCommand(target, planned) : undefined
  const backup = await writeEdits(context.paths, target, editsOf(target, planned, written), () =>
    runClientCommand(command),
  )
  if (token !== undefined && isUnused(planned)) await revokeTokens(context, args, [token])
  return backup
}

/** Whether the entry had a token and will have a command, which needs none. */
const isUnused = ({ token, wantsToken }: PlannedConnection): boolean => token !== undefined && !wantsToken

/** Placeholder in the shown change for a token that does not exist yet. */
const NEW_TOKEN = "(a new token)"
/** How long a command of a client may take. */
const COMMAND_MS = 20_000

type PlannedConnection = {
  readonly endpoint: ClientEndpoint
  /** The name of the entry. */
  readonly name: string
  /** The client's document; undefined if there is no file. */
  readonly found: ClientDocument | undefined
  /** The client's own entries that are removed. */
  readonly replaced: readonly ForeignServer[]
  /** The client's own entries that would be removed if svc served them. */
  readonly kept: readonly ForeignServer[]
  /** The token that the entry already has. */
  readonly token: string | undefined
  readonly wantsToken: boolean
}

/** Plans the entry of a client. Throws a RequestError, or a ConfigError if the client's file is malformed. */
async function planConnection(
  context: LocalConfiguration,
  target: ClientTarget,
  args: Readonly<Record<string, unknown>>,
  documents?: WrittenDocuments,
): Promise<PlannedConnection> {
  const selection = selectionOf(context, args)
  const endpoint = await endpointOf(context, target, args, selection, configuredOptions)
  const found = readTarget(target)
  const entries = found?.entries ?? []
  const addresses = endpoint.kind === "http" ? [endpoint.url] : await svcAddresses(context, configuredOptions)
  const name = await entryName(context.paths, target, args, entries, addresses)
  const config = documents?.config ?? readTexts(context.paths).config() ?? ""
  const world = documents === undefined ? context.world() : context.worldOf(documents.dotenv)
  const replaced = args.replace === true ? servedEntries(entries, config, world, selection.includes) : []
  const kept =
    args.replace === true
      ? entries.filter((one) => one.name !== name && one.server.disabled !== true && !replaced.includes(one))
      : []
  const old = tokenIn(valueIn(found?.value, entryPath(target.client, name, found?.value)))
  const token = old !== undefined && isAccepted(context, old) ? old : undefined
  const wantsToken =
    endpoint.kind === "http" &&
    (token !== undefined || (await needsToken(context, endpoint.url, args, configuredOptions)))
  if (wantsToken && target.scope === "project")
    throw usageError(
      `svc requires a token, and ${target.file} is shared with the project: use --scope user, or --stdio, which needs none`,
    )
  return { endpoint, name, found, replaced, kept, token, wantsToken }
}

/** Returns the edits that connect a client, with the given token. */
const editsOf = (
  { client }: ClientTarget,
  { endpoint, name, found, replaced }: PlannedConnection,
  token: string | undefined,
): readonly ClientEdit[] => [
  { path: entryPath(client, name, found?.value), value: clientEntry(client, withToken(endpoint, token)) },
  ...replaced.map(({ path }): ClientEdit => ({ path, value: undefined })),
  ...listEdits(found?.value, [name], true),
]

/**
 * Returns the name of the entry: the given name, the name of an existing entry of svc (one that works before one that leads
 * nowhere), or `svc`. Throws a RequestError if another server has it.
 */
async function entryName(
  paths: Paths,
  target: ClientTarget,
  args: Readonly<Record<string, unknown>>,
  all: readonly ForeignServer[],
  addresses: readonly string[],
): Promise<string> {
  const entries = all.filter(({ project }) => project === undefined)
  const own = await ownOrDeadEntries(paths, target, entries, addresses)
  const [working] = ownEntries(paths, target, entries, addresses)
  const name = readOptions(args, {}).text("name") ?? (working ?? own[0])?.name ?? "svc"
  const isTaken = entries.some((entry) => entry.name === name) && !own.some((entry) => entry.name === name)
  if (isTaken)
    throw new RequestError(
      "conflict",
      `${target.file} has another server named ${name}; choose another name with \`svc connect ${target.client}${target.scope === "user" ? "" : " --scope project"} --name NAME\`, or remove that server first`,
    )
  return name
}

const withToken = (endpoint: ClientEndpoint, token: string | undefined): ClientEndpoint =>
  endpoint.kind === "stdio" || token === undefined
    ? endpoint
    : { ...endpoint, headers: { Authorization: `Bearer ${token}` } }

/** Returns a warning if other users of this machine can read a file; otherwise an empty text. */
function readersOf(file: string): string {
  const facts = statSync(file, { throwIfNoEntry: false })
  const isOpen = process.platform !== "win32" && facts !== undefined && (facts.mode & 0o044) !== 0
  return isOpen ? ", which other users of this machine can read: consider chmod 600" : ""
}

/**
 * Returns the client's own command that adds the entry. The command rewrites the whole file; returns undefined if comments or
 * formatting would be lost.
 */
function clientCommand(
  { client, scope }: ClientTarget,
  { endpoint, name, found }: PlannedConnection,
): readonly string[] | undefined {
  const isPlain = found === undefined || found.text.trim() === JSON.stringify(found.value, null, 2)
  if (!isPlain || valueIn(found?.value, entryPath(client, name, found?.value)) !== undefined) return undefined
  return clientRow(client).adds?.(name, endpoint, scope)
}

/** Runs a client's own command that adds a server. Ignores its outcome: svc then writes what the file lacks. */
async function runClientCommand(command: readonly string[] | undefined): Promise<void> {
  const [name, ...rest] = command ?? []
  const { env } = process
  const program = name === undefined ? null : Bun.which(name, { PATH: env.PATH ?? "" })
  if (program === null) return
  try {
    const child = Bun.spawn({
      cmd: [program, ...rest],
      env,
      stdin: "ignore",
      stdout: "ignore",
      stderr: "ignore",
      timeout: COMMAND_MS,
      killSignal: "SIGKILL",
    })
    await child.exited
  } catch (error) {
    say(`cannot run ${name}: ${messageOf(error)}; svc writes its file instead`)
  }
}

async function listClients(context: LocalConfiguration, asJson: boolean): Promise<number> {
  const addresses = await svcAddresses(context, configuredOptions)
  const changed = new Set(readConnections(context.paths).map(({ file }) => file))
  const rows = CLIENTS.flatMap((client) =>
    clientFiles(client, clientHost()).map((file) => {
      const target: ClientTarget = { ...file, client }
      const { state, name, preset } = stateOf(context, target, addresses)
      return {
        client,
        title: clientRow(client).title,
        scope: file.scope,
        file: file.file,
        state,
        ...(name === undefined ? {} : { name }),
        ...(preset === undefined ? {} : { preset }),
        ...(changed.has(file.file) ? { undo: true } : {}),
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
              ["client", { title: "state", fit: "wrap" }, "scope", { title: "file", fit: "path" }],
              // In the home directory, a file may be both the user's and the project's.
              there
                .filter(
                  ({ client, file }, at) => at === there.findIndex((one) => one.client === client && one.file === file),
                )
                .map((row) => [row.client, row.state, row.scope, shortPath(row.file, homeDirectory())]),
            ),
          ]),
      ...(others.length === 0
        ? []
        : [
            "",
            wrap(
              `also supported, but without a configuration file on this machine: ${others.join(", ")}`,
              stdoutLook(),
            ),
          ]),
    ].join("\n"),
  )
  return 0
}

function stateOf(
  context: LocalConfiguration,
  target: ClientTarget,
  addresses: readonly string[],
): { readonly state: string; readonly name?: string; readonly preset?: string | undefined } {
  try {
    const found = readTarget(target)
    if (found === undefined) return { state: "no file" }
    const { entries } = found
    const [own] = ownEntries(context.paths, target, entries, addresses)
    if (own !== undefined) return { state: "connected", name: own.name, preset: presetIn(own) }
    // An entry of this name may be one for an svc that is gone; `svc connect` would replace it.
    const other = entries.find(({ name }) => name === "svc")
    return {
      preset: other && presetIn(other),
      state: entries.length === 0 ? "not connected" : `not connected, ${counted(entries.length, "server")} of its own`,
    }
  } catch (error) {
    return { state: `unreadable: ${messageOf(error)}` }
  }
}

/** Returns the presets that an entry for svc selects, separated by commas; undefined if it selects none. */
const presetIn = ({ server }: ForeignServer): string | undefined => presetsIn(server).join(",") || undefined
