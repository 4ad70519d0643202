/**
 * The changes of client files by `svc connect`, in `connections.json` of the configuration directory, so that they can be
 * undone. The original files are in `backups/clients`.
 */
import { existsSync, lstatSync, unlinkSync } from "node:fs"
import { basename, join } from "node:path"
import * as z from "zod"
import type { Clock } from "../../lib/clock.ts"
import { incrementalSha256 } from "../../lib/digest.ts"
import { messageOf, UnavailableError } from "../../lib/errors.ts"
import { editConnections, temporariesOf } from "../../store/documents.ts"
import { findTemporaries, makePrivateFolder, readRegularFile, readText, replaceFile } from "../../store/files.ts"
import type { Paths } from "../../store/paths.ts"

/** One change of a client's file. Digests are SHA-256, hexadecimal. */
export type ClientConnection = z.infer<typeof connectionSchema>

/** Returns the changes, oldest first. Throws an UnavailableError if the file is malformed. */
export function readConnections(paths: Pick<Paths, "directory">): readonly ClientConnection[] {
  const file = connectionsFile(paths)
  return parse(readText(file) ?? '{"connections":[]}', file)
}

/**
 * Adds a change. Drops the oldest beyond 50, with their backups, but never the first change of a file: its backup is the
 * user's own file.
 */
export async function addConnection(paths: Paths, connection: ClientConnection, clock: Clock): Promise<void> {
  await change(
    paths,
    (before) => {
      const all = [...before, connection]
      const isFirst = ({ file }: ClientConnection, at: number) => all.findIndex((one) => one.file === file) === at
      const droppable = all.filter((one, at) => !isFirst(one, at) && one !== connection)
      const dropped = new Set(droppable.slice(0, Math.max(0, all.length - KEPT)))
      return all.filter((one) => !dropped.has(one))
    },
    clock,
  )
}

/** Replaces what is recorded of a change. */
export async function replaceConnection(paths: Paths, connection: ClientConnection, clock: Clock): Promise<void> {
  await change(paths, (all) => all.map((one) => (isSame(one, connection) ? connection : one)), clock)
}

/** Removes changes, and their backups except the one that is `kept`. */
export async function removeConnections(
  paths: Paths,
  connections: readonly ConnectionId[],
  clock: Clock,
  kept?: string,
): Promise<void> {
  const isGone = (one: ClientConnection) => connections.some((other) => isSame(one, other))
  await change(paths, (all) => all.filter((one) => !isGone(one)), clock, kept)
}

/**
 * Returns the temporary files that killed processes of svc have left: beside the files of clients that svc has changed and
 * `others`, whose change was undone since, and beside their backups. They are copies of these files. `now` is in milliseconds
 * since the epoch.
 */
export function findClientTemporaries(paths: Paths, now: number, others: readonly string[] = []): readonly string[] {
  const isAbandoned = (path: string) => {
    const found = lstatSync(path, { throwIfNoEntry: false })
    return found?.isFile() === true && now - found.mtimeMs > ABANDONED_MS
  }
  const beside = [...new Set([...changedFiles(paths), ...others])].flatMap((file) => {
    try {
      return temporariesOf(file)
    } catch {
      // Its folder cannot be read any more.
      return []
    }
  })
  return [...beside, ...findTemporaries(backupFolder(paths), (name) => name !== "")].filter(isAbandoned)
}

/** Copies the file of a client to `backups/clients`, byte for byte. Returns what is recorded of the copy. */
export function backUpClientFile(
  paths: Paths,
  client: string,
  file: string,
  clock: Clock,
): Pick<ClientConnection, "backup" | "backupDigest"> {
  if (!existsSync(file)) return { backup: null }
  const folder = backupFolder(paths)
  makePrivateFolder(folder)
  const nameAt = (time: number) =>
    join(folder, `${client}-${new Date(time).toISOString().replaceAll(":", "-")}-${basename(file)}`)
  let time = clock.now()
  while (existsSync(nameAt(time))) time++
  const bytes = readRegularFile(file)
  replaceFile(nameAt(time), bytes, 0o600)
  return { backup: nameAt(time), backupDigest: digestOf(bytes) }
}

/** Returns the copy of the original file; undefined if there is none, or if it cannot be read or has been changed since. */
export function readBackup({ backup, backupDigest }: ClientConnection): Buffer | undefined {
  if (backup === null) return undefined
  try {
    const bytes = readRegularFile(backup)
    return backupDigest === undefined || backupDigest === digestOf(bytes) ? bytes : undefined
  } catch {
    return undefined
  }
}

// ---

const digestOf = (bytes: Uint8Array): string => incrementalSha256().update(bytes).digest("hex")

const KEPT = 50
/** Writing a file takes less. */
const ABANDONED_MS = 60_000

type ConnectionId = Pick<ClientConnection, "file" | "time">

const isSame = (one: ConnectionId, other: ConnectionId): boolean => one.file === other.file && one.time === other.time

const backupFolder = ({ directory }: Paths): string => join(directory, "backups", "clients")

/** Returns the files that svc has changed; none if the list is malformed. */
function changedFiles(paths: Paths): ReadonlySet<string> {
  try {
    return new Set(readConnections(paths).map(({ file }) => file))
  } catch {
    return new Set()
  }
}

const connectionSchema = z.object({
  client: z.string(),
  scope: z.enum(["user", "project"]),
  file: z.string(),
  /** ISO 8601. */
  time: z.string(),
  /** The path of the copy of the original file; null if there was no file. */
  backup: z.string().nullable(),
  /** The digest of the copy; absent if an earlier release made it. */
  backupDigest: z.string().optional(),
  /** The digest of the file as svc left it; empty if the client has written other values, too. */
  digest: z.string(),
  /** The changed values: the digest of each as svc left it, null for a removed value. */
  places: z.array(z.object({ path: z.array(z.union([z.string(), z.number()])), digest: z.string().nullable() })),
})
const fileSchema = z.object({ connections: z.array(connectionSchema) })

const connectionsFile = ({ directory }: Pick<Paths, "directory">): string => join(directory, "connections.json")

function parse(text: string, file: string): readonly ClientConnection[] {
  try {
    return fileSchema.parse(JSON.parse(text)).connections
  } catch (cause) {
    throw new UnavailableError(
      `${file} cannot be read: ${messageOf(cause)}; remove it (svc then cannot undo earlier connections)`,
      { cause },
    )
  }
}

async function change(
  paths: Paths,
  edit: (all: readonly ClientConnection[]) => readonly ClientConnection[],
  clock: Clock,
  kept?: string,
): Promise<void> {
  const file = connectionsFile(paths)
  let dropped: readonly ClientConnection[] = []
  await editConnections(
    paths,
    file,
    (text) => {
      const before = parse(text, file)
      const after = edit(before)
      dropped = before.filter(({ backup }) => !after.some((kept) => kept.backup === backup))
      return `${JSON.stringify({ connections: after }, null, 2)}\n`
    },
    clock,
  )
  for (const { backup } of dropped) if (backup !== null && backup !== kept && existsSync(backup)) unlinkSync(backup)
}
