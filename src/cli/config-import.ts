/**
 * `svc config import`: imports the servers of other applications.
 *
 *  1. It shows everything that would run and asks for confirmation. It hides secrets in servers from the user's own client
 *     files. It shows servers from other files in full, because code may hide in them.
 *  2. It never overwrites a server. It skips a server that svc already has, and adds a number to a name that is in use.
 *  3. It imports the servers of a project only with `--project`: the project's repository controls its files, and svc would offer
 *     the servers in every project.
 */

import { existsSync, readdirSync, readFileSync } from "node:fs"
import { dirname, isAbsolute, join, resolve } from "node:path"
import type { CommandDef } from "citty"
import { configuredOptions } from "../commands/client-commands.ts"
import { CONTEXT_ARGS, openContext, repeated } from "../commands/command-context.ts"
import { finishChange, START_ARGS, type WrittenChange } from "../commands/follow.ts"
import { addVariables } from "../config/dotenv.ts"
import { addServer } from "../config/edit.ts"
import { lookUpVariable } from "../config/environment.ts"
import { externalizeSecrets, NO_SECRETS } from "../config/externalize-secrets.ts"
import { withoutKeys } from "../config/found-keys.ts"
import { slugOf } from "../config/server-spec.ts"
import { writtenValues } from "../config/written-values.ts"
import { clientHost } from "../features/connect/client-connection.ts"
import { readClientDocument } from "../features/connect/client-edit.ts"
import { svcAddresses } from "../features/connect/client-endpoint.ts"
import { CLIENTS, type ClientFile, type ClientName, clientFiles, clientRow } from "../features/connect/clients.ts"
import { type ForeignServer, isSameServer, isSvc, placed, readForeignServers } from "../features/connect/import.ts"
import { commandText, hidesSecrets, settingsOf } from "../features/tools/consent-text.ts"
import { isLoopback } from "../lib/address.ts"
import { systemClock } from "../lib/clock.ts"
import { usageError } from "../lib/command-line.ts"
import { ConfigError, messageOf, RequestError } from "../lib/errors.ts"
import { homeDirectory } from "../lib/home-directory.ts"
import { isSameValue, mapStrings } from "../lib/json.ts"
import { visible } from "../lib/log.ts"
import { unknownNameError } from "../lib/nearest.ts"
import { say, table } from "../lib/output.ts"
import { isInteractive, promptLine, promptYesNo } from "../lib/prompt.ts"
import { shortPath } from "../lib/text.ts"
import { configuredServers, type LocalConfiguration } from "../serve/local-configuration.ts"
import { createMissing } from "../store/documents.ts"
import { decodeText, readRegularFile } from "../store/files.ts"
import { changeDocuments, type WrittenDocuments } from "../store/transaction.ts"
import { isObject, type Params } from "../wire/message.ts"

export const importServers: CommandDef = {
  meta: { name: "import", description: "Import servers from other MCP clients or a file" },
  args: {
    from: {
      type: "positional",
      required: false,
      description: `Client (${CLIENTS.join(", ")}) or file (default: all clients)`,
      valueHint: "path",
    },
    ...CONTEXT_ARGS,
    ...START_ARGS,
    project: {
      type: "boolean",
      description:
        "Also import the servers of projects (.mcp.json, .vscode/mcp.json …); svc then offers them in every project",
    },
    only: {
      type: "string",
      description: "Import only the server of this name in the list; may be repeated (default: all)",
    },
    yes: { type: "boolean", alias: "y", description: "Do not ask for confirmation" },
    "dry-run": { type: "boolean", description: "Only show what would be imported" },
  },
  async run({ args, rawArgs }) {
    const context = openContext(args)
    const { paths } = context
    const skipped: string[] = []
    const found = await findServers(context, args.from, args.project === true, (text) => {
      skipped.push(text)
      say(`skipped: ${text}`)
    })
    const rows = chosenOf(found, repeated(rawArgs, "only"))
    const added = rows.filter(({ outcome }) => outcome.kind === "added")
    const asks = args.yes !== true && args["dry-run"] !== true && isInteractive()
    if (args.json !== true) {
      if (rows.length === 0) {
        say("no servers found")
        return 0
      }
      // The question shows the servers that it would add, in full.
      const shown = asks ? rows.filter((row) => !added.includes(row)) : rows
      if (shown.length > 0)
        process.stdout.write(
          `${table(
            [
              "name",
              { title: "starts", fit: "words" },
              "from",
              { title: "project", fit: "path" },
              { title: "note", fit: "wrap" },
            ],
            shown.map((row) => [row.name, summary(row), row.from.client ?? row.from.file, projectOf(row), noteOf(row)]),
          )}\n`,
        )
    }
    if (args.json !== true && rows.some(isOfProject))
      say("--project also imports the servers that belong to projects; svc then offers them in every project")
    const willAdd = added.length > 0 && args["dry-run"] !== true && (args.yes === true || (await confirm(added)))
    if (willAdd) {
      await createMissing(paths, systemClock)
      const ready = await askInputs(context, added)
      const change = await changeDocuments(paths, (written) => withServers(context, ready, written), systemClock)
      change.keep()
    }
    const names = added.map(({ name }) => name)
    const change: WrittenChange = {
      result: {
        added: willAdd ? names : [],
        skipped,
        found: rows.map(({ name, server, from, folder, outcome, notes }) => ({
          name,
          file: from.file,
          ...(from.client === undefined ? {} : { application: from.client, title: clientRow(from.client).title }),
          project: from.scope === "project",
          ...(folder === undefined ? {} : { projectFolder: folder }),
          command: hiddenText(server),
          added: willAdd && outcome.kind === "added",
          notes,
          ...(outcome.kind === "skipped" ? { problem: outcome.why } : {}),
          ...(outcome.kind === "same" ? { same: true } : {}),
        })),
      },
      done: willAdd ? `imported ${names.join(", ")}` : notImported(names, args["dry-run"] === true),
      ...(willAdd ? { file: paths.file, servers: names } : {}),
    }
    const code = await finishChange(context, willAdd ? args : { ...args, wait: false }, change)
    if (args.json !== true && args["dry-run"] !== true) offerReplacement(rows, willAdd)
    return code
  },
}

// ---

/** The origin of servers. `client`: undefined if the file is not of a known client. */
type From = ClientFile & {
  readonly client: ClientName | undefined
  /** The project of a project's file. */
  readonly folder?: string
  /** The servers of the file that the client keeps switched off elsewhere. */
  readonly off?: readonly string[]
}
type Found = ForeignServer & {
  readonly from: From
  readonly isTemplate: boolean
  /** The folder of the only project in which the client offers the server. */
  readonly folder: string | undefined
}
/** What the import does with a found server. `same`: svc already has it. `because`: it is svc itself, belongs to a project, or has a problem. */
type Outcome =
  | { readonly kind: "added" }
  | { readonly kind: "same"; readonly why: string }
  | { readonly kind: "skipped"; readonly because: "itself" | "project" | "problem"; readonly why: string }
export type ImportRow = Found & { readonly outcome: Outcome }

/** Returns the message of an import that has written nothing. */
function notImported(names: readonly string[], isDryRun: boolean): string {
  if (!isDryRun) return "nothing imported"
  if (names.length === 0) return "there is nothing to import"
  return `would import ${names.join(", ")}; \`svc config import\` shows them in full and asks before it imports them`
}

/** Returns the servers with these names, or all if no name is given. Throws a RequestError for a name that none has. */
function chosenOf(rows: readonly ImportRow[], names: readonly string[]): readonly ImportRow[] {
  const known = rows.map(({ name }) => name)
  const unknown = names.find((name) => !known.includes(name))
  if (unknown !== undefined) throw unknownNameError("server", unknown, known)
  return names.length === 0 ? rows : rows.filter(({ name }) => names.includes(name))
}

/** Decides what the import does with each server, and under which name: different servers with the same name get a number. */
async function compare(
  context: LocalConfiguration,
  found: readonly Found[],
  addresses: readonly string[],
  withProject: boolean,
): Promise<readonly ImportRow[]> {
  const world = context.world()
  const known = new Map([...configuredServers(context)].map(([name, { server }]) => [name, server]))
  const rows: ImportRow[] = []
  for (const row of found) {
    const isSame = ([name, other]: readonly [string, Params]) => {
      const server = withVariables(row.server, name)
      return isSameServer(server, other, world) || isSameValue(server, other)
    }
    const same = [...known].find(isSame)?.[0]
    const isOwn = isSvc(row.server, addresses) || (await answersAsSvc(row.server))
    // Slugs, not names: "a b" and "a/b" would give their tools the same names.
    const name = freeName(row.name, new Set([...known.keys()].map(slugOf)))
    if (isOwn) rows.push({ ...row, outcome: { kind: "skipped", because: "itself", why: "it is svc itself" } })
    else if (row.problem !== undefined)
      rows.push({ ...row, outcome: { kind: "skipped", because: "problem", why: row.problem } })
    else if (same !== undefined) rows.push({ ...row, outcome: { kind: "same", why: `same as ${same}` } })
    else if (row.project !== undefined && !withProject)
      rows.push({ ...row, outcome: { kind: "skipped", because: "project", why: ofProject(row) } })
    else {
      const differs = name === row.name ? [] : [`named ${name}, because it differs from the other ${row.name}`]
      const widens = row.folder === undefined ? [] : ["svc offers it in every project"]
      rows.push({ ...row, name, notes: [...row.notes, ...differs, ...widens], outcome: { kind: "added" } })
      known.set(name, row.server)
    }
  }
  return rows
}

/** Why svc does not import the server of a project. */
const ofProject = (row: Found): string =>
  `it belongs to ${projectOf(row)}; \`svc config import --project\` imports it for every project`

const isOfProject = (row: ImportRow): boolean => row.outcome.kind === "skipped" && row.outcome.because === "project"

/** Returns `name`, with a number if its slug is taken. */
function freeName(name: string, taken: ReadonlySet<string>): string {
  if (!taken.has(slugOf(name))) return name
  for (let count = 2; ; count++) if (!taken.has(slugOf(`${name}-${count}`))) return `${name}-${count}`
}

/** Whether the server is on this machine, and svc answers at its address: another svc may listen on another port. */
async function answersAsSvc({ url }: Params): Promise<boolean> {
  if (typeof url !== "string" || !URL.canParse(url) || !isLoopback(new URL(url).hostname)) return false
  try {
    const response = await fetch(new URL("/health", url), { signal: AbortSignal.timeout(PROBE_MS), redirect: "manual" })
    const body: unknown = await response.json()
    return (
      isObject(body) && isObject(body.configuration) && "authEnabled" in body.configuration && isObject(body.servers)
    )
  } catch {
    return false
  }
}

/**
 * Finds the servers of a client or file, or of all clients, and decides what an import does with each. `onskip` receives why one of
 * many files cannot be read.
 */
export async function findServers(
  context: LocalConfiguration,
  from: unknown,
  withProject: boolean,
  onskip: (text: string) => void = (text) => say(`skipped: ${text}`),
): Promise<readonly ImportRow[]> {
  const found = sources(from, withProject).flatMap((source) =>
    serversIn(source.file, from === undefined ? onskip : undefined).map((one): Found => {
      const folder = one.project ?? source.folder
      const { server: written, isTemplate, note } = placed(one.server, folder, existsSync)
      const server = source.off?.includes(one.name) ? { ...written, disabled: true } : written
      const notes = note === undefined ? one.notes : [...one.notes, note]
      return { ...one, server, isTemplate, notes, from: source, folder }
    }),
  )
  return compare(context, found, await svcAddresses(context, configuredOptions), withProject)
}

/** A server to write, and the variables that it needs in addition to its secrets. */
export type ReadyServer = Pick<ImportRow, "name" | "server" | "isTemplate"> & {
  readonly variables: Readonly<Record<string, string>>
}

/** Asks for the values of `${input:…}` that no variable has yet. Without a terminal, names the variables to set. */
export async function askInputs(
  context: LocalConfiguration,
  rows: readonly ImportRow[],
): Promise<readonly ReadyServer[]> {
  const world = context.world()
  const answers = new Map<string, string>()
  const ready: ReadyServer[] = []
  for (const { name, server, from, isTemplate } of rows) {
    const variables: Record<string, string> = {}
    for (const id of inputsOf(server)) {
      const variable = inputVariable(name, id)
      if (lookUpVariable(variable, world) !== undefined) continue
      const key = `${from.file} ${id}`
      if (isInteractive() && !answers.has(key))
        answers.set(key, await promptLine(`${visible(name)} needs ${visible(id)}: `, true))
      const answer = answers.get(key) ?? ""
      if (answer !== "") variables[variable] = answer
      else say(`warning: ${name} needs ${variable}: set it in .env or in the environment`)
    }
    ready.push({ name, server: withVariables(server, name), isTemplate, variables })
  }
  return ready
}

/** Inputs of VS Code, which asks for their values when it starts a server. */
const INPUT = /\$\{input:([^{}]*)\}/g
const inputsOf = (server: Params): readonly string[] => [
  ...new Set([...JSON.stringify(server).matchAll(INPUT)].map(([, id = ""]) => id)),
]

/** Returns the variable that replaces an input of a server. */
const inputVariable = (server: string, id: string): string =>
  `${slugOf(server)}_${id}`
    .replace(/\W/g, "_")
    .replace(/^(?=\d)/, "_")
    .toUpperCase()

const withVariables = (server: Params, name: string): Params =>
  mapStrings(server, (text) => text.replace(INPUT, (_, id: string) => `\${${inputVariable(name, id)}}`)) as Params

/** Writes servers to mcp.json, and their secrets to `.env`. */
export function withServers(
  { paths, worldOf }: LocalConfiguration,
  servers: readonly ReadyServer[],
  written: WrittenDocuments,
): WrittenDocuments {
  return servers.reduce(({ config, dotenv }, { name, server, isTemplate, variables: inputs }) => {
    const world = worldOf(dotenv)
    const { server: safe, variables } = externalizeSecrets(server, slugOf(name).toUpperCase(), NO_SECRETS, world)
    const all = { ...variables, ...inputs }
    const isNew = Object.keys(all).length > 0
    return {
      config: addServer(name, safe, false, isTemplate)(config),
      dotenv: isNew ? addVariables(dotenv, all, paths.dotenv) : dotenv,
    }
  }, written)
}

/** Lists the clients that still start the servers themselves, and the commands that change that. */
function offerReplacement(rows: readonly ImportRow[], added: boolean): void {
  const served = rows.filter(({ outcome }) => outcome.kind === "same" || (added && outcome.kind === "added"))
  const commands = new Set(
    served.flatMap(({ from: { client, scope, folder } }) => {
      if (client === undefined) return []
      const command = `svc connect ${client}${scope === "user" ? "" : " --scope project"} --replace`
      return [folder === undefined || folder === process.cwd() ? command : `${command}   (in ${visible(folder)})`]
    }),
  )
  if (commands.size > 0)
    say(
      [
        "some clients still start the servers themselves; these commands make them use svc instead:",
        ...[...commands].map((one) => `  ${one}`),
      ].join("\n"),
    )
}

const PROBE_MS = 1000
const MAX_PROJECTS = 500
/** Matches the paths of a process's own open files. */
const STREAM = /^\/(?:dev\/(?:stdin|fd\/\d+)|proc\/self\/fd\/\d+)$/

/** Returns the shortened path of the project to which a server belongs; empty if it belongs to none. */
function projectOf({ folder = "" }: Found): string {
  return shortPath(folder, homeDirectory())
}

function noteOf(row: ImportRow): string {
  const { outcome, notes, server } = row
  // Beside the project, in a narrow column.
  if (isOfProject(row)) return "skipped: see --project"
  if (outcome.kind === "skipped") return `skipped: ${outcome.why}`
  if (outcome.kind === "same") return outcome.why
  return [...notes, ...inputsOf(server).map((id) => `needs ${id}`)].join("; ")
}

/** Returns the existing files to read. Skips the files of the project, with a message, unless `withProject`. */
function sources(from: unknown, withProject: boolean): readonly From[] {
  const known = CLIENTS.flatMap((application) =>
    clientFiles(application, clientHost()).map(
      (source): From => ({
        ...source,
        client: application,
        ...(source.scope === "project" ? { folder: process.cwd() } : {}),
      }),
    ),
  )
  const all = [...known.flatMap(projectFiles), ...known, ...known.flatMap(otherFiles)]
  const application = CLIENTS.find((one) => one === from)
  if (typeof from === "string" && application === undefined) {
    const file = resolve(from)
    if (!existsSync(file))
      throw new RequestError("not_found", `${file} does not exist; give a file or one of ${CLIENTS.join(", ")}`)
    return [all.find((one) => one.file === file) ?? { file, scope: "user", client: undefined }]
  }
  const wanted = all.filter((one) => application === undefined || one.client === application)
  // In the home directory, a file may be both the user's and the project's; editions of a client share a project's file.
  const there = wanted
    .toSorted((one, other) => Number(one.scope === "project") - Number(other.scope === "project"))
    .filter(({ file }, at, sorted) => sorted.findIndex((one) => one.file === file) === at && existsSync(file))
  const skipped = withProject ? [] : there.filter(({ scope }) => scope === "project")
  if (skipped.length > 0)
    say(
      `not read: ${skipped.map(({ file }) => visible(file)).join(", ")} (from the repositories of projects); --project also imports them`,
    )
  if (application !== undefined && there.length === 0)
    throw new RequestError("not_found", `${[...new Set(wanted.map(({ file }) => file))].join(" or ")} does not exist`)
  return there.filter((one) => !skipped.includes(one))
}

/** Returns the other files in which a client keeps servers, beside the one that `svc connect` writes. */
function otherFiles(own: From): readonly From[] {
  const beside = (...names: readonly string[]) => names.map((file): From => ({ ...own, file }))
  if (own.client === "opencode") return own.file.endsWith("c") ? [] : beside(`${own.file}c`)
  // Before they had a file of their own, servers were in the settings.
  if (own.client === "vscode" || own.client === "vscode-insiders")
    return beside(join(dirname(own.file), "settings.json"))
  if (own.client !== "continue") return []
  const servers = dirname(own.file)
  const names = existsSync(servers) ? readdirSync(servers).filter((name) => /\.(?:json|ya?ml)$/.test(name)) : []
  return beside(
    ...["config.yaml", "config.json"].map((name) => join(dirname(servers), name)),
    ...names.slice(0, MAX_PROJECTS).map((name) => join(servers, name)),
  ).filter(({ file }) => file !== own.file)
}

/** The lists in which Claude Code keeps the servers that are off in a project. */
const DISABLED = ["disabledMcpServers", "disabledMcpjsonServers"] as const
const textsOf = (value: unknown): readonly string[] =>
  Array.isArray(value) ? value.filter((one) => typeof one === "string") : []

/** Returns the `.mcp.json` files of the projects in the user's file of Claude Code: it stores its scope `project` there. */
function projectFiles(own: From): readonly From[] {
  if (own.client !== "claude-code" || own.scope !== "user") return []
  try {
    const { projects } = readClientDocument(decodeText(readRegularFile(own.file)), own.file)
    return Object.entries(isObject(projects) ? projects : {})
      .filter(([folder]) => isAbsolute(folder))
      .slice(0, MAX_PROJECTS)
      .map(([folder, settings]) => ({
        file: join(folder, ".mcp.json"),
        scope: "project",
        client: own.client,
        folder,
        off: isObject(settings) ? DISABLED.flatMap((key) => textsOf(settings[key])) : [],
      }))
  } catch {
    // A missing or malformed file is reported when its servers are read.
    return []
  }
}

/** Returns the servers in a file. If it cannot be read, throws a ConfigError, or gives the reason to `onskip` and returns none. */
function serversIn(file: string, onskip: ((text: string) => void) | undefined): readonly ForeignServer[] {
  try {
    // A shell passes the output of another command as such a path.
    const bytes = STREAM.test(file) ? readFileSync(file) : readRegularFile(file)
    return readForeignServers(decodeText(bytes), file)
  } catch (cause) {
    const wrong =
      cause instanceof ConfigError
        ? cause
        : new ConfigError([{ code: "read", severity: "error", file, message: messageOf(cause) }], { cause })
    if (onskip === undefined) throw wrong
    onskip(wrong.message)
    return []
  }
}

/** Whether a file is the user's own file of a client, so that its secrets are the user's. */
const isOwn = ({ client, scope }: From): boolean => client !== undefined && scope === "user"

/** Describes the origin of a server. */
const formatSource = ({ file, client, scope }: From): string =>
  [...(client === undefined ? [] : [client]), ...(scope === "project" ? ["a project's repository"] : []), file].join(
    ", ",
  )

/** Returns the command for the table, without secrets. */
function summary({ server }: ForeignServer): string {
  return hiddenText(server)
}

/** Returns the command of a server, without what looks like a key. */
function hiddenText(server: Params): string {
  const masked = withoutKeys(server)
  return commandText(masked, hidesSecrets(writtenValues(masked)))
}

/** Returns everything that would run and be set, for the confirmation; without secrets if they are the user's. */
export function describeServer(row: ImportRow, hidden = isOwn(row.from)): string {
  const { name, server, from } = row
  const [note, project] = [noteOf(row), row.folder === undefined ? "" : `, for ${projectOf(row)}`]
  const lines = [
    hidden ? hiddenText(server) : commandText(server),
    ...settingsOf(server),
    ...(note === "" ? [] : [note]),
  ]
  return [visible(`${name}, from ${formatSource(from)}${project}:`), ...lines.map((line) => `  ${line}`)].join("\n")
}

/** Asks for confirmation. Throws a RequestError (usage) if there is no terminal. */
function confirm(added: readonly ImportRow[]): Promise<boolean> {
  if (!isInteractive()) throw usageError("no terminal to ask for confirmation; add --yes to import without it")
  const shown = added.map((row) => describeServer(row)).join("\n")
  return promptYesNo(
    `${shown}\nimport ${added.length === 1 ? "it" : `these ${added.length}`} and let svc run exactly this?`,
  )
}
