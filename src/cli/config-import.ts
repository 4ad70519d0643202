/**
 * `svc config import`: imports the servers of other applications.
 *
 *  1. It shows everything that would run and asks for confirmation. It hides secrets in servers from the user's own client
 *     files. It shows servers from other files in full, because code may hide in them.
 *  2. It never overwrites a server. It skips a server that svc already has, and adds a number to a name that is in use.
 *  3. It imports the servers of a project only with `--project`: the project's repository controls its files, and svc would offer
 *     the servers in every project.
 */

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
import { commandText, hidesSecrets, settingsOf } from "../config/server-text.ts"
import { writtenValues } from "../config/written-values.ts"
import { svcAddresses } from "../features/connect/client-endpoint.ts"
import { CLIENTS, clientRow } from "../features/connect/clients.ts"
import {
  findServers,
  type ImportRow,
  inputsOf,
  inputVariable,
  isOfProject,
  projectOf,
  type ServerPlace,
  withVariables,
} from "../features/connect/found-servers.ts"
import type { ForeignServer } from "../features/connect/import.ts"
import { systemClock } from "../lib/clock.ts"
import { usageError } from "../lib/command-line.ts"
import { visible } from "../lib/log.ts"
import { unknownNameError } from "../lib/nearest.ts"
import { say, table } from "../lib/output.ts"
import { isInteractive, promptLine, promptYesNo } from "../lib/prompt.ts"
import type { LocalConfiguration } from "../serve/local-configuration.ts"
import { createMissing } from "../store/documents.ts"
import { changeDocuments, type WrittenDocuments } from "../store/transaction.ts"
import type { Params } from "../wire/message.ts"

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
    const found = await findServers(
      context,
      args.from,
      args.project === true,
      await svcAddresses(context, configuredOptions),
      (text) => {
        skipped.push(text)
        say(`skipped: ${text}`)
      },
    )
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
  if (unknown !== undefined) throw unknownNameError("server to import", unknown, known)
  return names.length === 0 ? rows : rows.filter(({ name }) => names.includes(name))
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

function noteOf(row: ImportRow): string {
  const { outcome, notes, server } = row
  // Beside the project, in a narrow column.
  if (isOfProject(row)) return "skipped: see --project"
  if (outcome.kind === "skipped") return `skipped: ${outcome.why}`
  if (outcome.kind === "same") return outcome.why
  return [...notes, ...inputsOf(server).map((id) => `needs ${id}`)].join("; ")
}

/** Whether a file is the user's own file of a client, so that its secrets are the user's. */
const isOwn = ({ client, scope }: ServerPlace): boolean => client !== undefined && scope === "user"

/** Describes the origin of a server. */
const formatSource = ({ file, client, scope }: ServerPlace): string =>
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
