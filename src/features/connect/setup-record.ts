/**
 * What `svc setup` has changed, in `setup.json` of the configuration directory, so that `svc setup --undo` takes all of it back.
 *
 *  1. The files of clients are restored first: no server of the person is then only in a file that the undo removes.
 *  2. A file that nobody has changed since gets its former bytes. From a file that was edited since, only the servers and
 *     variables of the setup are removed, and servers that were edited stay.
 */
import { existsSync } from "node:fs"
import { dirname, join } from "node:path"
import * as z from "zod"
import { withoutVariable } from "../../config/dotenv.ts"
import { removeServer, writtenServers } from "../../config/edit.ts"
import type { Clock } from "../../lib/clock.ts"
import { sha256 } from "../../lib/digest.ts"
import { messageOf, UnavailableError } from "../../lib/errors.ts"
import { isSameValue } from "../../lib/json.ts"
import { contentionError, lockDocuments, SCHEMA_FILE } from "../../store/documents.ts"
import { makePrivateFolder, readBytes, readText, removeAll, replaceFile, replaceState } from "../../store/files.ts"
import { ownName, type Paths } from "../../store/paths.ts"
import { readDocuments, type WrittenDocuments } from "../../store/transaction.ts"
import { asOneChange, keptCopy, planUndoOrAdvise, undo } from "./client-connection.ts"
import { readConnections, removeConnections } from "./connections.ts"

/** One run of `svc setup`. */
export type SetupRecord = z.infer<typeof recordSchema>

/** Returns the runs, oldest first. Throws an UnavailableError if the file is malformed. */
export function readSetups(paths: Paths): readonly SetupRecord[] {
  const file = recordFile(paths)
  try {
    return z.array(recordSchema).parse(JSON.parse(readText(file) ?? "[]"))
  } catch (cause) {
    throw new UnavailableError(`${file} cannot be read: ${messageOf(cause)}`, { cause })
  }
}

/** Records a run before its first change. `time`: ISO 8601. */
export function addSetup(
  paths: Paths,
  clients: readonly string[],
  after: WrittenDocuments,
  names: { readonly servers: readonly string[]; readonly variables: readonly string[] },
  time: string,
): void {
  const written = [...writtenServers(after.config)].filter(([name]) => names.servers.includes(name))
  const record: SetupRecord = {
    time,
    clients: [...clients],
    before: { config: bytesOf(paths.file), dotenv: bytesOf(paths.dotenv) },
    after: { config: sha256(after.config, "hex"), dotenv: sha256(after.dotenv, "hex") },
    servers: Object.fromEntries(written.map(([name, { server }]) => [name, server])),
    variables: [...names.variables],
  }
  write(paths, [...readSetups(paths), record])
}

/** What an undo has done. */
export type SetupUndo = {
  /** The files of clients that were restored. */
  readonly restored: readonly string[]
  readonly removed: readonly string[]
  /** Servers that stay in mcp.json because they were edited since. */
  readonly kept: readonly string[]
  /** What else to say of the restored files. */
  readonly notes: readonly string[]
  /** Why files of clients could not be restored: then all servers stay. */
  readonly problems: readonly string[]
}

/** Takes one run back, and forgets it if nothing is left to do. */
export async function undoSetup(paths: Paths, record: SetupRecord, clock: Clock): Promise<SetupUndo> {
  const restored: string[] = []
  const problems: string[] = []
  const notes: string[] = []
  for (const file of record.clients) {
    const [first, ...later] = readConnections(paths).filter((one) => one.file === file && one.time >= record.time)
    if (first === undefined) continue
    try {
      const text = readText(file)
      // A file that did not exist before, and that the person has removed, is as it was.
      if (text === undefined && first.backup === null) {
        await removeConnections(paths, [first, ...later], clock)
        continue
      }
      const plan = planUndoOrAdvise(asOneChange([first, ...later]), text)
      await undo(paths, [first, ...later], plan)
      notes.push(...keptCopy(plan).map((note) => `${file}: ${note}`))
      restored.push(file)
    } catch (error) {
      problems.push(messageOf(error))
    }
  }
  if (problems.length > 0) return { restored, removed: [], kept: [], notes, problems }
  const release = await lockDocuments(paths, clock)
  try {
    const now = readDocuments(paths)
    const written = writtenServers(now.config)
    const isSame = (name: string) => isSameValue(written.get(name)?.server, record.servers[name])
    const names = Object.keys(record.servers).filter((name) => written.has(name))
    const [removed, kept] = [names.filter(isSame), names.filter((name) => !isSame(name))]
    restore(paths.file, record.before.config, sha256(now.config, "hex") === record.after.config, () =>
      removed.reduce((text, name) => removeServer(name)(text), now.config),
    )
    // A server that stays needs its variables.
    const isDotenvOurs = sha256(now.dotenv, "hex") === record.after.dotenv
    restore(paths.dotenv, record.before.dotenv, isDotenvOurs && kept.length === 0, () =>
      kept.length > 0
        ? now.dotenv
        : record.variables.reduce((text, name) => withoutVariable(text, name, paths.dotenv), now.dotenv),
    )
    if (!existsSync(paths.file)) removeAll([join(dirname(paths.file), SCHEMA_FILE)])
    write(
      paths,
      readSetups(paths).filter(({ time }) => time !== record.time),
    )
    return { restored, removed, kept, notes, problems }
  } finally {
    release()
  }
}

// ---

const recordFile = (paths: Paths): string => join(paths.directory, `${ownName("setup", paths)}.json`)

function write(paths: Paths, records: readonly SetupRecord[]): void {
  if (records.length === 0) removeAll([recordFile(paths)])
  else {
    makePrivateFolder(paths.directory)
    replaceState(recordFile(paths), `${JSON.stringify(records)}\n`)
  }
}

const bytesOf = (file: string): string | null => readBytes(file)?.toString("base64") ?? null

/** Writes the former bytes if the file is as the setup left it (null: removes it), otherwise the text that `edited` returns. */
function restore(file: string, former: string | null, isOurs: boolean, edited: () => string): void {
  const before = readText(file)
  if (isOurs && former === null) {
    removeAll([file])
    return
  }
  const wanted = isOurs ? Buffer.from(former ?? "", "base64") : edited()
  if (wanted === before || before === undefined) return
  if (!replaceFile(file, wanted, undefined, () => readText(file) === before)) throw contentionError(file)
}

const textsSchema = <T extends z.ZodType>(text: T) => z.object({ config: text, dotenv: text })
const recordSchema = z.object({
  /** ISO 8601. */
  time: z.string(),
  /** The files of clients. */
  clients: z.array(z.string()),
  /** The bytes before, base64; null for a file that did not exist. */
  before: textsSchema(z.string().nullable()),
  /** The digests after: SHA-256, hexadecimal. */
  after: textsSchema(z.string()),
  /** The servers that were added, as they were written. */
  servers: z.record(z.string(), z.record(z.string(), z.unknown())),
  /** The variables that were added. */
  variables: z.array(z.string()),
})
