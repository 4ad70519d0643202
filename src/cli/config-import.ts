/**
 * `svc config import`: imports the servers of other applications.
 *
 *  1. It shows everything that would run, in full, and asks for confirmation.
 *  2. It never overwrites a server.
 *  3. It reads the files of a project, which its repository controls, with `--project` alone.
 */
import { existsSync, readFileSync } from "node:fs"
import { resolve } from "node:path"
import type { CommandDef } from "citty"
import { CONTEXT_ARGS, defaultAddress, openContext } from "../app/command-context.ts"
import { finishChange, START_ARGS, type WrittenChange } from "../app/follow.ts"
import { say, table } from "../app/output.ts"
import { CLIENTS, type ClientFile, type ClientName, clientFiles } from "../config/clients.ts"
import { addServer, type Edit, writtenServers } from "../config/edit.ts"
import { type ForeignServer, isSvc, readForeignServers } from "../config/import.ts"
import { slugOf } from "../config/plan.ts"
import { systemClock } from "../lib/clock.ts"
import { usageError } from "../lib/command-line.ts"
import { ConfigError, messageOf, RequestError } from "../lib/errors.ts"
import { visible } from "../lib/log.ts"
import { isInteractive, promptYesNo } from "../lib/prompt.ts"
import { createMissing, editConfig, readTexts } from "../store/documents.ts"
import { homeDirectory } from "../template/project.ts"
import { commandText, hidesSecrets, settingsOf, writtenValues } from "../tools/consent-text.ts"
import { isObject } from "../wire/message.ts"

export const importServers: CommandDef = {
  meta: { name: "import", description: `Import servers from ${CLIENTS.join(", ")} or a file` },
  args: {
    from: { type: "positional", required: false, description: "Application or file (default: all applications)" },
    ...CONTEXT_ARGS,
    ...START_ARGS,
    project: {
      type: "boolean",
      description: "Read the files of the working directory, too (.mcp.json, .vscode/mcp.json …)",
    },
    yes: { type: "boolean", alias: "y", description: "Do not ask for confirmation" },
    "dry-run": { type: "boolean", description: "Only show what would be imported" },
  },
  async run({ args }) {
    const context = openContext(args)
    const { paths, ask } = context
    const status = await ask("status").catch(() => undefined)
    const address = isObject(status) && typeof status.url === "string" ? status.url : defaultAddress()
    const files = sources(args.from, args.project === true)
    // Slugs, not names: "a b" and "a/b" would give their tools the same names.
    const taken = new Set([...writtenServers(readTexts(paths).config() ?? "").keys()].map(slugOf))
    const rows = files.flatMap((source): readonly Row[] =>
      serversIn(source.file, args.from === undefined).map((found) => {
        const problem = found.problem ?? conflictOf(found, taken, address)
        if (problem === undefined) taken.add(slugOf(found.name))
        return { ...found, from: source, problem }
      }),
    )
    const added = rows.filter(({ problem }) => problem === undefined)
    if (args.json !== true) {
      if (rows.length === 0) {
        say("no servers found")
        return 0
      }
      process.stdout.write(
        `${table(
          ["name", "starts", "from", "note"],
          rows.map((row) => [
            row.name,
            summary(row),
            formatSource(row.from),
            row.problem === undefined ? row.notes.join("; ") : `skipped: ${row.problem}`,
          ]),
        )}\n`,
      )
    }
    // A dry run needs no confirmation, so it hides secrets.
    if (args["dry-run"] === true && args.json !== true)
      process.stdout.write(added.map((row) => `\n${full(row, true)}\n`).join(""))
    const willAdd = added.length > 0 && args["dry-run"] !== true && (args.yes === true || (await confirm(added)))
    if (willAdd) {
      await createMissing(paths, systemClock)
      const all: Edit = (text) => added.reduce((changed, { name, server }) => addServer(name, server)(changed), text)
      await editConfig(paths, all, systemClock)
    }
    const names = added.map(({ name }) => name)
    const change: WrittenChange = {
      result: {
        added: willAdd ? names : [],
        found: rows.map(({ name, server, from, problem, notes }) => ({
          name,
          file: from.file,
          ...(from.application === undefined ? {} : { application: from.application }),
          project: from.scope === "project",
          command: commandText(server, hidesSecrets(writtenValues(server))),
          added: willAdd && problem === undefined,
          notes,
          ...(problem === undefined ? {} : { problem }),
        })),
      },
      done: willAdd ? `imported ${names.join(", ")}` : "nothing imported",
      ...(willAdd ? { file: paths.file, servers: names } : {}),
    }
    return finishChange(context, willAdd ? args : { ...args, wait: false }, change)
  },
}

// ---

/** Why a server cannot be imported beside those that are there. */
function conflictOf({ name, server }: ForeignServer, taken: ReadonlySet<string>, address: string): string | undefined {
  if (isSvc(server, address)) return "it is svc itself"
  return taken.has(slugOf(name)) ? "a server of this name exists" : undefined
}

/** The origin of servers; `application` is undefined for a file of no known application. */
type From = ClientFile & { readonly application: ClientName | undefined }
type Row = ForeignServer & { readonly from: From }

/** Returns the existing files to read. Skips the files of the project, with a message, unless `withProject`. */
function sources(from: unknown, withProject: boolean): readonly From[] {
  const around = { platform: process.platform, home: homeDirectory(), cwd: process.cwd(), env: process.env }
  const all = CLIENTS.flatMap((application) =>
    clientFiles(application, around).map((source): From => ({ ...source, application })),
  )
  // In the home directory a file may be the user's and the project's.
  const known = all.filter(
    (one) => one.scope === "user" || !all.some(({ file, scope }) => file === one.file && scope === "user"),
  )
  const application = CLIENTS.find((one) => one === from)
  if (typeof from === "string" && application === undefined) {
    const file = resolve(from)
    if (!existsSync(file))
      throw new RequestError("not_found", `${file} does not exist; give a file or one of ${CLIENTS.join(", ")}`)
    return [known.find((one) => one.file === file) ?? { file, scope: "user", application }]
  }
  const wanted = known.filter((one) => application === undefined || one.application === application)
  const there = wanted.filter(({ file }) => existsSync(file))
  const left = withProject ? [] : there.filter(({ scope }) => scope === "project")
  if (left.length > 0)
    say(
      `not read: ${left.map(({ file }) => visible(file)).join(", ")} (from this project's repository); --project imports them, too`,
    )
  if (application !== undefined && there.length === 0)
    throw new RequestError("not_found", `${wanted.map(({ file }) => file).join(" or ")} does not exist`)
  return there.filter((one) => !left.includes(one))
}

/** Returns the servers in a file. Throws a ConfigError if it cannot be read; for one file of many, prints the error and returns none. */
function serversIn(file: string, oneOfMany: boolean): readonly ForeignServer[] {
  try {
    return readForeignServers(readFileSync(file, "utf8"), file)
  } catch (cause) {
    const wrong =
      cause instanceof ConfigError
        ? cause
        : new ConfigError([{ code: "read", severity: "error", file, message: messageOf(cause) }], { cause })
    if (!oneOfMany) throw wrong
    say(`skipped: ${wrong.message}`)
    return []
  }
}

/** Describes the origin of a server. */
const formatSource = ({ file, application, scope }: From): string =>
  [
    ...(application === undefined ? [] : [application]),
    ...(scope === "project" ? ["this project's repository"] : []),
    file,
  ].join(", ")

/** The command, cut for the table; the confirmation shows it whole. */
function summary({ server }: ForeignServer): string {
  const text = commandText(server, hidesSecrets(writtenValues(server)))
  return text.length > 60 ? `${text.slice(0, 57)}…` : text
}

/** Everything that would run and be set. */
function full({ name, server, from }: Row, hidden: boolean): string {
  const lines = [commandText(server, hidesSecrets(hidden ? writtenValues(server) : {})), ...settingsOf(server)]
  return [visible(`${name}, from ${formatSource(from)}:`), ...lines.map((line) => `  ${line}`)].join("\n")
}

/** Asks for confirmation. Throws a RequestError (usage) if there is no terminal. */
function confirm(added: readonly Row[]): Promise<boolean> {
  if (!isInteractive()) throw usageError("add --yes to import without confirmation")
  const shown = added.map((row) => full(row, false)).join("\n")
  return promptYesNo(
    `${shown}\nimport ${added.length === 1 ? "it" : `these ${added.length}`} and let svc run exactly this?`,
  )
}
