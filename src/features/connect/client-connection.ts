/** Changes the configuration files of clients: plans and shows a change, writes it with a backup, and undoes it. */
import { existsSync, mkdirSync, unlinkSync } from "node:fs"
import { dirname, isAbsolute, join, relative } from "node:path"
import type { Path } from "../../config/document.ts"
import { formatChange } from "../../config/document-diff.ts"
import { systemClock } from "../../lib/clock.ts"
import { readOptions, usageError } from "../../lib/command-line.ts"
import { sha256 } from "../../lib/digest.ts"
import { messageOf, RequestError } from "../../lib/errors.ts"
import { homeDirectory } from "../../lib/home-directory.ts"
import { canonical, isSameValue } from "../../lib/json.ts"
import { visible } from "../../lib/log.ts"
import { didYouMean } from "../../lib/nearest.ts"
import { print, say } from "../../lib/output.ts"
import { isInteractive, promptYesNo } from "../../lib/prompt.ts"
import { contentionError } from "../../store/documents.ts"
import { decodeText, linkTarget, readText, realTarget, removeAll, replaceFile } from "../../store/files.ts"
import type { Paths } from "../../store/paths.ts"
import type { Params } from "../../wire/message.ts"
import { type ClientEdit, editClientDocument, readClientDocument, revertEdits, valueIn } from "./client-edit.ts"
import { CLIENTS, type ClientFile, type ClientHost, type ClientName, clientFiles, clientRow } from "./clients.ts"
import {
  addConnection,
  backUpClientFile,
  type ClientConnection,
  findClientTemporaries,
  readBackup,
  readConnections,
  removeConnections,
  replaceConnection,
} from "./connections.ts"
import { deadAddress } from "./dead-address.ts"
import { directoryIn, type ForeignServer, isSvc, presetsIn, readForeignServers } from "./import.ts"

/** A file of a client. */
export type ClientTarget = ClientFile & { readonly client: ClientName }

/** The document of a client. */
export type ClientDocument = {
  readonly text: string
  readonly value: Params
  readonly entries: readonly ForeignServer[]
}

/** Returns this machine, for `clientFiles`. */
export const clientHost = (): ClientHost => ({
  platform: process.platform,
  home: homeDirectory(),
  cwd: process.cwd(),
  env: process.env,
  exists: existsSync,
})

/** Returns the file that `CLIENT` and `--scope` name. Throws a RequestError (usage). */
export function targetOf(args: Readonly<Record<string, unknown>>): ClientTarget {
  if (typeof args.client !== "string") throw usageError("CLIENT is missing; `svc connect --list` lists the clients")
  const client = CLIENTS.find((one) => one === args.client)
  if (client === undefined) {
    const meant = MEANT_BY[args.client.toLowerCase()]
    const hint = meant === undefined ? didYouMean(args.client, CLIENTS) : `; did you mean ${meant}?`
    throw new RequestError(
      "not_found",
      `no client is named ${args.client}${hint || "; `svc connect --list` lists the clients"}`,
    )
  }
  const scope = readOptions(args, {}).choice("scope", ["user", "project"], "user")
  const file = clientFiles(client, clientHost()).find((one) => one.scope === scope)
  if (file === undefined) throw usageError(`${clientRow(client).title} has no file for a project; leave --scope out`)
  return { ...file, client }
}

/**
 * Returns the path to which svc writes a file if links lead there from another one: a repository may contain links to files
 * outside of it. `outside`: whether the path is not in the project.
 */
export function linkOf({ file, scope }: Pick<ClientTarget, "file" | "scope">): ClientLink | undefined {
  const root = scope === "project" ? process.cwd() : homeDirectory()
  const base = isWithin(root, file) ? root : dirname(file)
  const [target, place] = [realTarget(file), realTarget(base)]
  if (target === join(place, relative(base, file))) return undefined
  return { target, outside: scope === "project" && !isWithin(place, target) }
}
export type ClientLink = { readonly target: string; readonly outside: boolean }

/** Returns a file of a client for people: with the path that links lead to. */
export function placeOf(about: Pick<ClientTarget, "file" | "scope">): string {
  const link = linkOf(about)
  if (link === undefined) return visible(about.file)
  return `${visible(about.file)}, a link to ${visible(link.target)}${link.outside ? " outside of the project" : ""}`
}

/**
 * Reads the document of a client and the servers in it; undefined if there is no file. Throws a ConfigError with line and
 * column if it is malformed.
 */
export function readTarget({ file }: ClientTarget): ClientDocument | undefined {
  const text = readText(file)
  if (text === undefined) return undefined
  return { text, value: readClientDocument(text, file), entries: readForeignServers(text, file) }
}

/** Returns the entries that point to svc at one of `addresses`, or that svc has written. */
export function ownEntries(
  paths: Paths,
  { file }: ClientTarget,
  entries: readonly ForeignServer[],
  addresses: readonly string[],
): readonly ForeignServer[] {
  const written = new Set(
    readConnections(paths)
      .filter((one) => one.file === file)
      .flatMap(({ places }) => places.flatMap(({ path, digest }) => (digest === null ? [] : [JSON.stringify(path)]))),
  )
  return entries.filter(({ path, server }) => isSvc(server, addresses) || written.has(JSON.stringify(path)))
}

/** Returns the files in which a client's entry for svc selects a preset of this configuration. */
export function filesWithPreset(paths: Paths, preset: string, addresses: readonly string[]): readonly ClientTarget[] {
  const known = CLIENTS.flatMap((client) => clientFiles(client, clientHost()).map((file) => ({ ...file, client })))
  // Projects other than this one.
  const changed = readConnections(paths).flatMap(({ client: name, scope, file }) => {
    const client = CLIENTS.find((one) => one === name)
    return client === undefined ? [] : [{ client, scope, file }]
  })
  const all = [...known, ...changed]
  return all
    .filter(({ file }, at) => at === all.findIndex((one) => one.file === file))
    .filter((target) => {
      try {
        const own = ownEntries(paths, target, readTarget(target)?.entries ?? [], addresses)
        return own.some(({ server }) => presetsIn(server).includes(preset) && isOfDirectory(server, paths.directory))
      } catch {
        // The client reports its malformed file itself.
        return false
      }
    })
}

/** Returns the entries as `ownEntries` does, and those that lead to where svc no longer is: the doctor says to correct them. */
export async function ownOrDeadEntries(
  paths: Paths,
  target: ClientTarget,
  entries: readonly ForeignServer[],
  addresses: readonly string[],
): Promise<readonly ForeignServer[]> {
  const own = ownEntries(paths, target, entries, addresses)
  const dead = await Promise.all(entries.map((entry) => deadAddress(entry)))
  return entries.filter((entry, at) => own.includes(entry) || dead[at] !== undefined)
}

/**
 * Shows a change and asks for consent. Returns false if it must not be made. Throws a RequestError (usage) without a
 * terminal.
 */
export async function agreed(
  args: Readonly<Record<string, unknown>>,
  target: ClientTarget,
  diff: string,
  notes: readonly string[],
  question: string,
): Promise<boolean> {
  return agreedText(args, [placeOf(target), ...diff.split("\n").map(visible), ...notes].join("\n"), question)
}

/** Shows a text that says what would change, and asks for consent, as `agreed` does. */
export async function agreedText(
  args: Readonly<Record<string, unknown>>,
  text: string,
  question: string,
): Promise<boolean> {
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

/** Returns the differences that the edits make, in the format of `formatChange`; empty if nothing changes. */
export const formatEdits = (
  text: string,
  file: string,
  edits: readonly ClientEdit[],
  secrets: readonly string[],
): string => formatChange(text, editClientDocument(text, file, edits), secrets)

/**
 * Backs up a client's file, writes the edits to it, and records them for an undo. `add` runs the client's own command first;
 * edits that it has not made are then written to the file. Returns the path of the backup, null if there was no file. Throws
 * a RequestError (conflict) if the file changes meanwhile.
 */
export async function writeEdits(
  paths: Paths,
  { client, scope, file }: ClientTarget,
  edits: readonly ClientEdit[],
  add: () => Promise<void>,
): Promise<string | null> {
  removeAll(findClientTemporaries(paths, systemClock.now()))
  const before = readText(file)
  const wantedText = editClientDocument(before ?? "", file, edits)
  const time = new Date(systemClock.now()).toISOString()
  const copy = backUpClientFile(paths, client, file, systemClock)
  const { backup } = copy
  const about = { client, scope, file, time, ...copy }
  // Before the file is written, so that the change can be undone also if svc is killed now.
  const wanted = readClientDocument(wantedText, file)
  try {
    const digest = sha256(wantedText, "hex")
    await addConnection(paths, { ...about, digest, places: placesIn(wanted, edits) }, systemClock)
  } catch (error) {
    if (backup !== null) removeAll([backup])
    throw error
  }
  let after: string
  try {
    await add()
    const current = readText(file)
    after = editClientDocument(current ?? "", file, edits)
    mkdirSync(dirname(linkTarget(file)), { recursive: true })
    const mode = before === undefined && current === undefined ? NEW_MODE[scope] : undefined
    if (after !== current && !replaceFile(file, after, mode, () => readText(file) === current))
      throw contentionError(file)
  } catch (error) {
    if (readText(file) === before) await removeConnections(paths, [about], systemClock).catch(() => undefined)
    throw error
  }
  const written = readClientDocument(after, file)
  const places = placesIn(written, edits)
  // A client's own command may have written more than the edits: then an undo must not restore the whole file.
  const digest = isSameValue(written, wanted) ? sha256(after, "hex") : ""
  // If the disk is full now, the values can still be undone, but not byte for byte.
  await replaceConnection(paths, { ...about, digest, places }, systemClock).catch(() => undefined)
  return backup
}

/** Returns the newest change of a file that can be undone. Throws a RequestError (not_found). */
export function lastConnection(paths: Paths, { client, file }: ClientTarget): ClientConnection {
  const found = readConnections(paths).findLast((one) => one.client === client && one.file === file)
  if (found !== undefined) return found
  throw new RequestError("not_found", `svc has made no change of ${file} that it could undo`)
}

/** What an undo writes. */
type PlannedUndo = {
  /** The text of the file now. */
  readonly now: string
  /** What it becomes; undefined if there was no file. */
  readonly before: string | Uint8Array | undefined
  /** The copy of the file, if it stays after the undo: it has comments that the file does not get back. */
  readonly keeps: string | undefined
}

/**
 * Plans the undo of a change. If nothing else has changed the file, the plan restores its earlier bytes (undefined: no file),
 * otherwise only the earlier values that svc replaced. `now` is the text of the file. Throws a RequestError (conflict) if one
 * of the values or the backup has been edited since.
 */
export function planUndo(change: ClientConnection, now: string | undefined): PlannedUndo {
  const { file, backup, digest, places } = change
  const bytes = readBackup(change)
  if (now === undefined) throw new RequestError("conflict", `${file} is gone, so there is nothing to undo`)
  if (backup !== null && bytes === undefined)
    throw new RequestError(
      "conflict",
      `the backup ${backup} ${existsSync(backup) ? "cannot be read, or has been changed" : "is gone"}; edit ${file} by hand, or use \`svc disconnect\``,
    )
  const copy = bytes === undefined ? undefined : decodeText(bytes)
  if (sha256(now, "hex") === digest || now === copy) return { now, before: bytes, keeps: undefined }
  const left = (path: Path, value: unknown) =>
    places.some((place) => isSameValue(place.path, path) && place.digest === digestOf(value))
  const paths = places.map(({ path }) => path)
  const { text, isWhole } = revertEdits(copy, now, file, paths, left)
  return { now, before: text, keeps: isWhole ? undefined : (backup ?? undefined) }
}

/** Plans the undo of a change as `planUndo` does. The error also says what to do, and where the copy of the file is. */
export function planUndoOrAdvise(change: ClientConnection, now: string | undefined): PlannedUndo {
  try {
    return planUndo(change, now)
  } catch (error) {
    if (!(error instanceof RequestError) || readBackup(change) === undefined) throw error
    const copy = copyText(change.backup)
    const advice = now === undefined ? `; ${copy}: copy it back, and undo again` : `, and undo again; ${copy}`
    throw new RequestError(error.fault, `${error.message}${advice}`, undefined, { cause: error })
  }
}

const copyText = (backup: string | null): string => `its earlier version is still in ${backup}`

/** Returns the texts that say which copy of a file stays after an undo. */
export const keptCopy = ({ keeps }: Pick<PlannedUndo, "keeps">): readonly string[] =>
  keeps === undefined
    ? []
    : [`the file was edited since, so the client's own entries are back without their comments; ${copyText(keeps)}`]

/** Returns the text of a file after a planned undo; undefined if there is none then. */
export const restoredText = ({ before }: PlannedUndo): string | undefined =>
  before instanceof Uint8Array ? decodeText(Buffer.from(before)) : before

/**
 * Returns several changes of a file, oldest first, as one. The undo of the last alone may not be possible, or connect a client
 * again that was disconnected.
 */
export function asOneChange(changes: readonly [ClientConnection, ...ClientConnection[]]): ClientConnection {
  const [first] = changes
  const isUnbroken = changes.every((change, at) => {
    const next = changes[at + 1]
    const copy = next === undefined ? undefined : readBackup(next)
    return next === undefined || (copy !== undefined && sha256(decodeText(copy), "hex") === change.digest)
  })
  const digest = isUnbroken ? (changes.at(-1)?.digest ?? "") : ""
  // Of each place, the last change says what svc left there.
  const places = new Map(changes.flatMap(({ places }) => places.map((place) => [JSON.stringify(place.path), place])))
  return { ...first, digest, places: [...places.values()] }
}

/** Carries out a planned undo of changes of a file, and forgets them. */
export async function undo(
  paths: Paths,
  changes: readonly [ClientConnection, ...ClientConnection[]],
  { now, before, keeps }: PlannedUndo,
): Promise<void> {
  const [{ file }] = changes
  removeAll(findClientTemporaries(paths, systemClock.now()))
  const isCurrent = () => readText(file) === now
  if (before === undefined) {
    if (!isCurrent()) throw contentionError(file)
    // Removes the target of a symbolic link only: before the change, the link had no target.
    unlinkSync(linkTarget(file))
  } else if (!replaceFile(file, before, undefined, isCurrent)) throw contentionError(file)
  await removeConnections(paths, changes, systemClock, keeps)
}

/** The undo of all changes that svc has made of a file. */
export type FileUndo = {
  readonly client: string
  readonly file: string
  /** The changes that can be undone, newest first. */
  readonly changes: readonly ClientConnection[]
  /** The servers in the file now, and after the undo. */
  readonly now: readonly ForeignServer[]
  readonly after: readonly ForeignServer[]
  /** Why the other changes cannot be undone; undefined if there are none. */
  readonly problem: string | undefined
  /** The copy of the file from before the first of these, if there was a file. */
  readonly backup: string | undefined
  /** Whether the file does not exist any more. */
  readonly isGone: boolean
}

/** Plans the undo of all changes of all files. Throws an UnavailableError if the list of changes is malformed. */
export function planUndoOfAll(paths: Paths): readonly FileUndo[] {
  const byFile = Map.groupBy(readConnections(paths), ({ file }) => file)
  return [...byFile].map(([file, all]) => {
    const changes: ClientConnection[] = []
    const entriesOf = (text: string | undefined) => (text === undefined ? [] : readForeignServers(text, file))
    const about = { client: all[0]?.client ?? "", file, changes }
    const backupOf = (left: readonly ClientConnection[]) =>
      left.find((change) => readBackup(change) !== undefined)?.backup ?? undefined
    let now: readonly ForeignServer[] = []
    let after = now
    let text: string | undefined
    try {
      text = readText(file)
      if (text === undefined)
        return { ...about, now: [], after: [], problem: `${file} is gone`, backup: backupOf(all), isGone: true }
      now = entriesOf(text)
      after = now
      for (const change of all.toReversed()) {
        const restored = restoredText(planUndo(change, text))
        after = entriesOf(restored)
        text = restored
        changes.push(change)
        if (text === undefined) break
      }
    } catch (error) {
      const left = all.slice(0, all.length - changes.length)
      return { ...about, now, after, problem: messageOf(error), backup: backupOf(left), isGone: false }
    }
    return { ...about, now, after, problem: undefined, backup: undefined, isGone: false }
  })
}

// ---

/** Whether an entry for svc, whose address is that of this svc if it has one, is of the configuration in a directory. */
const isOfDirectory = (server: Params, directory: string): boolean =>
  typeof server.url === "string" || directoryIn(server, { ...clientHost(), appData: process.env.APPDATA }) === directory

/** Returns the places of edits in a document after them. A list is one place: the indices of its members do not last. */
function placesIn(document: Params, edits: readonly ClientEdit[]): ClientConnection["places"] {
  const places = edits.map(({ path }) => {
    const list = path.findIndex((key) => typeof key === "number")
    const place = list < 0 ? [...path] : path.slice(0, list)
    return { path: place, digest: digestOf(valueIn(document, place)) }
  })
  return places.filter(({ path }, at) => at === places.findIndex((one) => isSameValue(one.path, path)))
}

function isWithin(folder: string, path: string): boolean {
  const way = relative(folder, path)
  return way !== "" && way.split(/[\\/]/)[0] !== ".." && !isAbsolute(way)
}

/** Clients by the names of their programs, which are too different for a spelling suggestion. */
const MEANT_BY: Readonly<Record<string, ClientName | undefined>> = {
  claude: "claude-code",
  code: "vscode",
  "visual-studio-code": "vscode",
}
/** A user's file may contain keys; a project's file is shared. */
const NEW_MODE = { user: 0o600, project: 0o644 } as const

const digestOf = (value: unknown): string | null => (value === undefined ? null : sha256(canonical(value), "hex"))
