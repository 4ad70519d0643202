/**
 * A backup of everything that a person cannot get back from elsewhere, in one file that a pass phrase protects: the
 * configuration, `.env`, presets, the hashes of tokens, approved tools, sign-ins and the secrets of the keychain.
 */
import { dirname, join } from "node:path"
import * as z from "zod"
import type { Clock } from "../../lib/clock.ts"
import { messageOf, RequestError } from "../../lib/errors.ts"
import { randomText } from "../../lib/random.ts"
import { lockDocuments } from "../../store/documents.ts"
import { makePrivateFolder, readBytes, readRegularFile, replaceFile } from "../../store/files.ts"
import { ownName, type Paths } from "../../store/paths.ts"
import { derivedSealer, type SecretStore } from "../../store/secret-store.ts"

/** What a backup contains. Files are base64; null for one that did not exist. */
export type Backup = z.infer<typeof contentSchema>

/** The files of a backup by their names in it. `tokens` and `pins`: their paths, which other modules know. */
export const backupFiles = (
  { file, dotenv, presets }: Paths,
  { tokens, pins }: { readonly tokens: string; readonly pins: string },
) => ({ "mcp.json": file, ".env": dotenv, "presets.json": presets, "tokens.json": tokens, "tools.json": pins })

/** Reads what is to be saved. Rejects with an UnavailableError if the sign-ins cannot be opened. */
export async function collectBackup(
  files: Readonly<Record<string, string>>,
  signIns: SecretStore,
  secrets: Readonly<Record<string, string>>,
  time: string,
): Promise<Backup> {
  const entries = Object.entries(files).map(([name, path]) => [name, readBytes(path)?.toString("base64") ?? null])
  return { time, files: Object.fromEntries(entries), signIns: { ...(await signIns.read()) }, secrets: { ...secrets } }
}

/** Writes a backup, sealed with a pass phrase. Only its owner can read the file. */
export async function writeBackup(path: string, backup: Backup, passphrase: string): Promise<void> {
  const salt = randomText(16)
  const sealed = (await derivedSealer(passphrase, salt)).seal(JSON.stringify(backup))
  replaceFile(path, `${JSON.stringify({ format: FORMAT, salt, sealed })}\n`, 0o600)
}

/** Opens a backup. Rejects with a RequestError if the file is none, or if the pass phrase is wrong. */
export async function openBackup(path: string, passphrase: string): Promise<Backup> {
  let envelope: z.infer<typeof envelopeSchema>
  try {
    envelope = envelopeSchema.parse(JSON.parse(String(readRegularFile(path))))
  } catch (cause) {
    const why = cause instanceof SyntaxError || cause instanceof z.ZodError ? "is no backup of svc" : messageOf(cause)
    throw new RequestError("invalid_request", `${path} ${why}`, undefined, { cause })
  }
  const text = (await derivedSealer(passphrase, envelope.salt)).open(envelope.sealed)
  if (text === undefined)
    throw new RequestError(
      "invalid_request",
      `${path} cannot be opened: the pass phrase is wrong, or the file is damaged`,
    )
  return contentSchema.parse(JSON.parse(text))
}

/** Returns the names of the files that differ from a backup. */
export const changedFiles = (backup: Backup, files: Readonly<Record<string, string>>): readonly string[] =>
  Object.entries(files).flatMap(([name, path]) =>
    (readBytes(path)?.toString("base64") ?? null) === (backup.files[name] ?? null) || backup.files[name] == null
      ? []
      : [name],
  )

/**
 * Writes the files and sign-ins of a backup. Files that the backup lacks stay. Copies each file that it replaces to a folder of
 * `backups`, and returns the folder; undefined if there was none to copy.
 */
export async function restoreBackup(
  paths: Paths,
  backup: Backup,
  files: Readonly<Record<string, string>>,
  signIns: SecretStore,
  clock: Clock,
): Promise<string | undefined> {
  const folder = join(
    paths.directory,
    "backups",
    `${ownName("restore", paths)}-${new Date(clock.now()).toISOString().replaceAll(":", "-")}`,
  )
  const names = changedFiles(backup, files)
  makePrivateFolder(dirname(paths.file))
  const release = await lockDocuments(paths, clock)
  let kept: string | undefined
  try {
    // All copies first: a failed restore leaves a way back.
    for (const name of names) {
      const now = readBytes(files[name] as string)
      if (now === undefined) continue
      makePrivateFolder(folder)
      replaceFile(join(folder, name), now, 0o600)
      kept = folder
    }
    // mcp.json refers to the other files.
    for (const name of names.toSorted((one, other) => Number(one === "mcp.json") - Number(other === "mcp.json")))
      writeFile(files[name] as string, Buffer.from(backup.files[name] ?? "", "base64"))
  } finally {
    release()
  }
  for (const [name, entry] of Object.entries(backup.signIns)) await signIns.put(name, entry)
  return kept
}

// ---

/** Writes a file that keeps its mode; a new one is its owner's alone. */
function writeFile(path: string, bytes: Uint8Array): void {
  replaceFile(path, bytes, readBytes(path) === undefined ? 0o600 : undefined)
}

const FORMAT = "svc-backup-1"
const envelopeSchema = z.object({ format: z.literal(FORMAT), salt: z.string(), sealed: z.string() })
const contentSchema = z.object({
  /** ISO 8601. */
  time: z.string(),
  files: z.record(z.string(), z.string().nullable()),
  signIns: z.record(z.string(), z.unknown()),
  /** The secrets of the keychain, by name. */
  secrets: z.record(z.string(), z.string()),
})
