/**
 * `svc uninstall`: removes this program and what it has added to the system, after showing what it removes.
 *
 *  1. The files of clients get their own servers back first: afterwards, no command could undo the changes of `svc connect`.
 *  2. What exists only in the configuration directory is moved, never removed.
 *  3. A file of a client that cannot be restored stays as it is, with its backup; the exit code says so.
 */
import { existsSync } from "node:fs"
import { join } from "node:path"
import type { CommandDef } from "citty"
import { openContext } from "../commands/command-context.ts"
import {
  type FileUndo,
  keptCopy,
  placeOf,
  planUndo,
  planUndoOfAll,
  undo,
} from "../features/connect/client-connection.ts"
import { CLIENTS, clientRow } from "../features/connect/clients.ts"
import { readBackup } from "../features/connect/connections.ts"
import type { ForeignServer } from "../features/connect/import.ts"
import { findPrecious, isLink, placeForPrecious, purge } from "../features/system/purge.ts"
import { checkWritable, previousOf } from "../features/system/upgrade.ts"
import { systemClock } from "../lib/clock.ts"
import { usageError } from "../lib/command-line.ts"
import { messageOf, UnavailableError } from "../lib/errors.ts"
import { homeDirectory } from "../lib/home-directory.ts"
import { print, say } from "../lib/output.ts"
import { instancePid } from "../serve/control-socket.ts"
import type { LocalConfiguration } from "../serve/local-configuration.ts"
import { readText, realTarget, removeAll } from "../store/files.ts"
import { standardDirectory } from "../store/paths.ts"
import { listRunning, pathsOfRunning, runningFolder } from "../store/running.ts"
import { revokeTokens, tokenIn } from "./client-token.ts"
import { CHANGE_ARGS, confirmChanges, installedServices, removalLines, removeService } from "./service.ts"
import { ownProgram } from "./upgrade.ts"

const { system: _system, ...ASK_ARGS } = CHANGE_ARGS

export const uninstall: CommandDef = {
  meta: { name: "uninstall", description: "Remove svc itself, and restore the files of connected clients" },
  args: {
    server: { type: "positional", required: false, description: "Not used: `svc mcp uninstall NAME` removes a server" },
    purge: {
      type: "boolean",
      description:
        "Also remove the default configuration directory; what exists only there moves to a folder in the home directory",
    },
    ...ASK_ARGS,
    json: { type: "boolean", description: "Print JSON" },
  },
  async run({ args }) {
    if (args.server !== undefined)
      throw usageError(`svc uninstall removes svc itself; \`svc mcp uninstall ${args.server}\` removes a server`)
    const program = ownProgram("uninstall")
    checkWritable(program)
    const home = homeDirectory()
    const { APPDATA: appData } = process.env
    const services = installedServices()
    // Removing a service stops it, so services do not count as running.
    const others = listRunning(runningFolder(home, appData, process.platform)).filter(
      ({ startedBy }) => startedBy !== "service",
    )
    const pids = await Promise.all(others.map((one) => instancePid(pathsOfRunning(one, home))))
    const running = pids.filter((pid) => pid !== undefined)
    if (running.length > 0) {
      const refusal = `svc is running (${running.map((pid) => `process ${pid}`).join(", ")}); stop it with \`svc stop\` first`
      if (args["dry-run"] !== true) throw new UnavailableError(refusal)
      say(refusal)
    }
    const directory = standardDirectory({ platform: process.platform, home, appData })
    const undos = undosOf(directory)
    const precious = args.purge === true ? findPrecious(directory) : []
    const place = precious.length === 0 ? undefined : placeForPrecious(home, systemClock)
    const files = [previousOf(program), ...completionsIn(home), program].filter((path) => existsSync(path))
    const lines = [
      ...undos.flatMap(undoLines),
      ...services.flatMap(removalLines),
      ...files.map((file) => `remove ${file}`),
      ...(place === undefined ? [] : [`move ${precious.join(", ")} from ${directory} to ${place}`]),
      args.purge === true ? `remove ${directory}, ${purgedOf(directory)}` : `keep ${directory}`,
    ]
    const removed = [...services.map(({ file }) => file), ...files, ...(args.purge === true ? [directory] : [])]
    const report = (changed: boolean, left: readonly FileUndo[], notes: readonly string[]) => {
      if (args.json !== true) return
      const restored = undos.filter(({ changes }) => changes.length > 0).map(({ file }) => file)
      const notRestored = left.map(({ file, problem = "", backup }) => ({ file, problem, ...(backup && { backup }) }))
      const more = { ...(notes.length > 0 && { notes }), ...(place && { movedTo: place }) }
      print(true, { changed, removed, restored, notRestored, ...more }, () => "")
    }
    if (!(await confirmChanges(args, lines, "uninstall svc"))) {
      report(
        false,
        undos.filter(({ problem }) => problem !== undefined),
        [],
      )
      return 0
    }
    const left: FileUndo[] = []
    const copies: Copy[] = []
    for (const one of undos) {
      const unrestored = await restore(one, (copy) => copies.push(copy))
      if (unrestored !== undefined) left.push(unrestored)
    }
    for (const definition of services) await removeService(definition)
    const isMoved = args.purge === true && purge(directory, place ?? placeForPrecious(home, systemClock)).length > 0
    removeAll(files)
    const stays = files.filter((file) => existsSync(file))
    // Windows does not remove a running program.
    if (stays.length > 0) throw new UnavailableError(`cannot remove ${stays.join(", ")}; remove it by hand`)
    const moved = (path: string) =>
      place !== undefined && isMoved && path.startsWith(join(directory, "/"))
        ? join(place, path.slice(directory.length))
        : path
    const kept = left.map((one) => (one.backup === undefined ? one : { ...one, backup: moved(one.backup) }))
    const notes = copies.flatMap(({ file, path }) =>
      keptCopy({ keeps: moved(path) }).map((note) => `${shown(file)}: ${note}`),
    )
    report(true, kept, notes)
    say("svc is uninstalled")
    if (isMoved) say(`your configuration and backups are in ${place}`)
    if (args.json !== true) for (const note of notes) say(note)
    for (const one of kept) say(`${one.isGone ? "" : "warning: "}${leftText(one)}`)
    return left.some(({ isGone }) => !isGone) ? 69 : 0
  },
}

// ---

type Undo = FileUndo & { readonly context: LocalConfiguration }

/** Plans the undo of the changes of clients' files: of those that the default directory lists, and the chosen one. */
function undosOf(directory: string): readonly Undo[] {
  const contexts = [openContext({ "config-dir": directory }, "allowed"), openContext({}, "allowed")]
  return contexts
    .filter(({ paths }, at) => at === 0 || paths.directory !== contexts[0]?.paths.directory)
    .flatMap((context) => planUndoOfAll(context.paths).map((one) => ({ ...one, context })))
}

/** A copy that stays of a file, because it has comments that the file does not get back. */
type Copy = { readonly file: string; readonly path: string }

/**
 * Restores a file of a client, as far as possible, and revokes the tokens that it loses. `onkeep` receives copies that stay.
 * Resolves with what is left undone.
 */
async function restore(one: Undo, onkeep: (copy: Copy) => void): Promise<FileUndo | undefined> {
  const { context, changes, now, after, problem } = one
  try {
    for (const change of changes) {
      const plan = planUndo(change, readText(change.file))
      await undo(context.paths, [change], plan)
      if (plan.keeps !== undefined) onkeep({ file: change.file, path: plan.keeps })
    }
    const kept = tokensIn(after)
    const lost = tokensIn(now).filter((token) => !kept.includes(token))
    await revokeTokens(context, {}, lost)
    return problem === undefined ? undefined : one
  } catch (error) {
    const backup = changes.findLast((change) => readBackup(change) !== undefined)?.backup
    return { ...one, problem: messageOf(error), backup: one.backup ?? backup ?? undefined }
  }
}

/** Says what of a configuration directory a purge removes. */
const purgedOf = (directory: string): string =>
  isLink(directory)
    ? `which is a link: ${realTarget(directory)} stays as it is`
    : "with its sign-ins, sessions, results and logs"

const tokensIn = (servers: readonly ForeignServer[]): readonly string[] =>
  servers.flatMap(({ server }) => tokenIn(server) ?? [])

const titleOf = (client: string): string => {
  const known = CLIENTS.find((one) => one === client)
  return known === undefined ? client : clientRow(known).title
}

/** Returns a file with the path that links lead to, whichever project it is in. */
const shown = (file: string): string => placeOf({ file, scope: "user" })

/** Returns lines that announce the undo of a file. */
function undoLines(one: FileUndo): readonly string[] {
  const { client, file, changes, now, after, problem } = one
  const without = (all: readonly ForeignServer[], others: readonly ForeignServer[]) =>
    all.filter(({ name }) => !others.some((other) => other.name === name)).map(({ name }) => name)
  const [lost, back] = [without(now, after), without(after, now)]
  const effects = [
    ...(lost.length === 0 ? [] : [`without ${lost.join(", ")}`]),
    ...(back.length === 0 ? [] : [`with ${back.join(", ")} again`]),
  ]
  return [
    ...(changes.length === 0
      ? []
      : [`restore ${shown(file)} (${titleOf(client)}): ${effects.join(", ") || "as it was"}`]),
    ...(problem === undefined ? [] : [leftText(one)]),
  ]
}

/** Says what stays of the changes of a file, and where its backup is. */
const leftText = ({ client, file, problem, backup, isGone }: FileUndo): string => {
  const copy = backup === undefined ? "" : `; as it was before svc, it is in ${backup}`
  return isGone
    ? `${titleOf(client)}: ${problem}${copy}`
    : `${titleOf(client)} still refers to svc in ${shown(file)}, which cannot be restored: ${problem}${copy}`
}

/** The files that users create by the instructions of `svc completion`. */
const completionsIn = (home: string): readonly string[] => [
  join(home, ".config", "fish", "completions", "svc.fish"),
  join(home, ".local", "share", "bash-completion", "completions", "svc"),
]
