/**
 * `svc config import`: takes over the servers of other applications. Shows everything that would run first, asks, and never
 * overwrites a name. The files of a project are its repository's word, and read only with `--project`.
 */
import { existsSync, readFileSync } from "node:fs"
import { resolve } from "node:path"
import type { CommandDef } from "citty"
import { CONTEXT_ARGS, openContext } from "../app/command-context.ts"
import { print, say, table } from "../app/output.ts"
import { addServer, type Edit, writtenServers } from "../config/edit.ts"
import {
  APPLICATIONS,
  type Application,
  type ForeignServer,
  filesOf,
  isSvc,
  readForeignServers,
  type Source,
} from "../config/import.ts"
import { slugOf } from "../config/plan.ts"
import { systemClock } from "../lib/clock.ts"
import { usageError } from "../lib/command-line.ts"
import { ConfigError, messageOf, RequestError } from "../lib/errors.ts"
import { visible } from "../lib/log.ts"
import { isInteractive, promptYesNo } from "../lib/prompt.ts"
import { createMissing, editConfig, readTexts } from "../store/documents.ts"
import { homeDirectory } from "../template/project.ts"
import { commandText, settingsOf, writtenValues } from "../tools/confirm.ts"
import { isObject } from "../wire/message.ts"

export const importServers: CommandDef = {
  meta: { name: "import", description: `Take over servers from ${APPLICATIONS.join(", ")} or a file` },
  args: {
    from: { type: "positional", required: false, description: "An application or a file (default all applications)" },
    ...CONTEXT_ARGS,
    project: { type: "boolean", description: "Read the working directory's files too (.mcp.json, .vscode/mcp.json …)" },
    yes: { type: "boolean", alias: "y", description: "Do not ask" },
    "dry-run": { type: "boolean", description: "Only show what would be added" },
  },
  async run({ args }) {
    const { paths, ask } = openContext(args)
    const status = await ask("status").catch(() => undefined)
    const address = isObject(status) && typeof status.url === "string" ? status.url : "http://127.0.0.1:3050/"
    const files = sources(args.from, args.project === true)
    // Names that fall together in those of tools are one name.
    const taken = new Set([...writtenServers(readTexts(paths).config ?? "").keys()].map(slugOf))
    const rows = files.flatMap((source): readonly Row[] =>
      serversIn(source.file, args.from === undefined).map((found) => {
        const problem =
          found.problem ??
          (isSvc(found.server, address)
            ? "it is svc itself"
            : taken.has(slugOf(found.name))
              ? "there is one of this name already"
              : undefined)
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
            sayFrom(row.from),
            row.problem === undefined ? row.notes.join("; ") : `left out: ${row.problem}`,
          ]),
        )}\n`,
      )
    }
    // What nobody is asked about is an overview: secrets in it are hidden.
    if (args["dry-run"] === true && args.json !== true)
      process.stdout.write(added.map((row) => `\n${full(row, true)}\n`).join(""))
    const willAdd = added.length > 0 && args["dry-run"] !== true && (args.yes === true || (await confirm(added)))
    if (willAdd) {
      await createMissing(paths, systemClock)
      const all: Edit = (text) => added.reduce((changed, { name, server }) => addServer(name, server)(changed), text)
      await editConfig(paths, all, systemClock)
    }
    const names = added.map(({ name }) => name)
    print(
      args.json === true,
      {
        added: willAdd ? names : [],
        found: rows.map(({ name, server, from, problem, notes }) => ({
          name,
          file: from.file,
          ...(from.application === undefined ? {} : { application: from.application }),
          project: from.owner === "project",
          command: commandText(server, writtenValues(server)),
          added: willAdd && problem === undefined,
          notes,
          ...(problem === undefined ? {} : { problem }),
        })),
      },
      () => (willAdd ? `added ${names.join(", ")} (${paths.file})` : "nothing was added"),
    )
    return 0
  },
}

// ---

/** Where servers come from: of a file that is no application's, `application` is undefined. */
type From = Source & { readonly application: Application | undefined }
type Row = ForeignServer & { readonly from: From }

/** The files to read, those that are there. A project's are left out, and told, unless they are asked for. */
function sources(from: unknown, withProject: boolean): readonly From[] {
  const around = { platform: process.platform, home: homeDirectory(), appData: process.env.APPDATA, cwd: process.cwd() }
  const all = APPLICATIONS.flatMap((application) =>
    filesOf(application, around).map((source): From => ({ ...source, application })),
  )
  // In the home directory one file may be both.
  const known = all.filter(
    (one) => one.owner === "user" || !all.some(({ file, owner }) => file === one.file && owner === "user"),
  )
  const application = APPLICATIONS.find((one): one is Application => one === from)
  if (typeof from === "string" && application === undefined) {
    const file = resolve(from)
    if (!existsSync(file))
      throw new RequestError("not_found", `There is no ${file}; the applications are ${APPLICATIONS.join(", ")}`)
    return [known.find((one) => one.file === file) ?? { file, owner: "user", application }]
  }
  const wanted = known.filter((one) => application === undefined || one.application === application)
  const there = wanted.filter(({ file }) => existsSync(file))
  const left = withProject ? [] : there.filter(({ owner }) => owner === "project")
  if (left.length > 0)
    say(
      `not read: ${left.map(({ file }) => visible(file)).join(", ")} (${left.length} of this project); --project takes over what its repository brings, too`,
    )
  if (application !== undefined && there.length === 0)
    throw new RequestError("not_found", `There is no ${wanted.map(({ file }) => file).join(" or ")}`)
  return there.filter((one) => !left.includes(one))
}

/** The servers in a file. What cannot be read is said where others are read too; else it throws a ConfigError. */
function serversIn(file: string, oneOfMany: boolean): readonly ForeignServer[] {
  try {
    return readForeignServers(readFileSync(file, "utf8"), file, (text) => Bun.TOML.parse(text), process.cwd())
  } catch (cause) {
    const wrong =
      cause instanceof ConfigError
        ? cause
        : new ConfigError([{ code: "read", severity: "error", file, message: messageOf(cause) }], { cause })
    if (!oneOfMany) throw wrong
    say(`left out: ${wrong.message}`)
    return []
  }
}

/** Whose a file is. */
const sayFrom = ({ file, application, owner }: From): string =>
  [
    ...(application === undefined ? [] : [application]),
    ...(owner === "project" ? ["this project's repository"] : []),
    file,
  ].join(", ")

/** For the table: what is agreed to is shown whole. */
function summary({ server }: ForeignServer): string {
  const text = commandText(server, writtenValues(server))
  return text.length > 60 ? `${text.slice(0, 57)}…` : text
}

/** All that would run and be set. */
function full({ name, server, from }: Row, hidden: boolean): string {
  const lines = [commandText(server, hidden ? writtenValues(server) : {}), ...settingsOf(server)]
  return [visible(`${name}, from ${sayFrom(from)}:`), ...lines.map((line) => `  ${line}`)].join("\n")
}

/** Throws a RequestError (usage) where there is nobody to ask. */
function confirm(added: readonly Row[]): Promise<boolean> {
  if (!isInteractive()) throw usageError("add --yes to import without being asked")
  const shown = added.map((row) => full(row, false)).join("\n")
  return promptYesNo(
    `${shown}\nadd ${added.length === 1 ? "it" : `these ${added.length}`}, and let svc run exactly this?`,
  )
}
