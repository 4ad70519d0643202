/** `svc backup` and `svc restore`: everything of a configuration in one file that a pass phrase protects. */
import { existsSync } from "node:fs"
import { resolve } from "node:path"
import type { CommandDef } from "citty"
import { CONTEXT_ARGS, openContext } from "../commands/command-context.ts"
import { storedNames, storeSecret } from "../features/secrets/secret-store.ts"
import { KEYCHAIN_SERVICE } from "../features/secrets/system-sources.ts"
import {
  type Backup,
  backupFiles,
  changedFiles,
  collectBackup,
  openBackup,
  restoreBackup,
  writeBackup,
} from "../features/system/backup.ts"
import { systemClock } from "../lib/clock.ts"
import { usageError } from "../lib/command-line.ts"
import { messageOf, RequestError } from "../lib/errors.ts"
import { visible } from "../lib/log.ts"
import { print, say } from "../lib/output.ts"
import { isInteractive, promptLine, promptYesNo } from "../lib/prompt.ts"
import { counted } from "../lib/text.ts"
import { instancePid } from "../serve/control-socket.ts"
import { type Paths, tokensFile } from "../store/paths.ts"
import { openSecrets } from "../store/secret-store.ts"
import { toolPinsFile } from "../store/tool-pins.ts"

const FILE = { type: "positional", description: "The file of the backup", valueHint: "file" } as const

export const backup: CommandDef = {
  meta: {
    name: "backup",
    description: "Save the configuration, secrets, tokens and sign-ins in one encrypted file",
  },
  args: {
    file: FILE,
    force: { type: "boolean", description: "Replace the file if it exists" },
    ...CONTEXT_ARGS,
  },
  async run({ args }) {
    const { paths } = openContext(args)
    const file = resolve(String(args.file))
    if (existsSync(file) && args.force !== true)
      throw new RequestError("conflict", `${file} exists already; add --force to replace it`)
    const passphrase = await passphraseFor("new")
    const { secrets, missing } = await keychainSecrets(paths)
    const time = new Date(systemClock.now()).toISOString()
    const content = await collectBackup(filesOf(paths), openSecrets(paths), secrets, time)
    await writeBackup(file, content, passphrase)
    for (const name of missing)
      say(`warning: the keychain does not return the secret ${name}, which is not in the backup`)
    print(args.json === true, { file, ...summaryOf(content), missing }, () => `saved ${linesOf(content)} in ${file}`)
    return 0
  },
}

export const restore: CommandDef = {
  meta: { name: "restore", description: "Restore what `svc backup` has saved" },
  args: {
    file: FILE,
    yes: { type: "boolean", alias: "y", description: "Do not ask for confirmation" },
    "dry-run": { type: "boolean", description: "Only show what would change" },
    ...CONTEXT_ARGS,
  },
  async run({ args }) {
    const { paths } = openContext(args, "allowed")
    const file = resolve(String(args.file))
    if (!existsSync(file)) throw new RequestError("not_found", `${file} does not exist`)
    const isDry = args["dry-run"] === true
    if (!isDry && (await instancePid(paths)) !== undefined)
      throw new RequestError(
        "conflict",
        "svc is running and would use both the old and the new state; run `svc stop` first",
      )
    const content = await openBackup(file, await passphraseFor("known"))
    const files = filesOf(paths)
    const changed = changedFiles(content, files)
    const text = [
      `the backup of ${content.time} contains ${linesOf(content)}; this would replace:`,
      ...changed.map((name) => `  ${visible(files[name as keyof typeof files])}`),
      ...Object.keys(content.signIns).map((name) => `  the sign-in ${visible(name)}`),
      ...Object.keys(content.secrets).map((name) => `  the secret ${visible(name)} in the keychain`),
    ].join("\n")
    const about = { file, ...summaryOf(content), changed }
    if (isDry || !(await isAgreed(args.yes === true, text))) {
      print(args.json === true, { ...about, restored: false }, () => (isDry ? text : "nothing restored"))
      return 0
    }
    const kept = await restoreBackup(paths, content, files, openSecrets(paths), systemClock)
    for (const [name, value] of Object.entries(content.secrets)) await storeSecret(Bun.secrets, paths, name, value)
    print(args.json === true, { ...about, restored: true, ...(kept === undefined ? {} : { kept }) }, () =>
      [
        `restored ${linesOf(content)}`,
        ...(kept === undefined ? [] : [`the files that were there before are in ${kept}`]),
      ].join("\n"),
    )
    return 0
  },
}

// ---

/** The pass phrase for commands without a terminal. */
const VARIABLE = "SVC_BACKUP_PASSPHRASE"
const MIN_CHARS = 8

const filesOf = (paths: Paths) => backupFiles(paths, { tokens: tokensFile(paths), pins: toolPinsFile(paths) })

/** Returns the pass phrase from the environment, or asks for it: a new one twice. Throws a RequestError (usage). */
async function passphraseFor(kind: "new" | "known"): Promise<string> {
  const given = process.env[VARIABLE]
  if (given === undefined && !isInteractive())
    throw usageError(`no terminal to ask for the pass phrase; set ${VARIABLE}`)
  const passphrase = given ?? (await promptLine("pass phrase of the backup: ", true))
  if (kind === "known") return passphrase
  if (passphrase.length < MIN_CHARS) throw usageError(`the pass phrase needs at least ${MIN_CHARS} characters`)
  if (given === undefined && (await promptLine("again: ", true)) !== passphrase)
    throw usageError("the pass phrases differ; nothing was written")
  return passphrase
}

async function isAgreed(yes: boolean, text: string): Promise<boolean> {
  if (yes) return true
  if (!isInteractive())
    throw usageError("no terminal to ask for confirmation; add --yes, or --dry-run to see the change")
  say(text)
  return promptYesNo("restore it?")
}

/** Returns the secrets that svc has stored in the keychain, and the names of those that it does not return. */
async function keychainSecrets(
  paths: Paths,
): Promise<{ readonly secrets: Readonly<Record<string, string>>; readonly missing: readonly string[] }> {
  const secrets: Record<string, string> = {}
  const missing: string[] = []
  for (const name of storedNames(paths)) {
    const value = await Bun.secrets.get({ service: KEYCHAIN_SERVICE, name }).catch((error: unknown) => {
      say(`warning: ${messageOf(error)}`)
      return null
    })
    if (value === null) missing.push(name)
    else secrets[name] = value
  }
  return { secrets, missing }
}

const summaryOf = ({ time, files, signIns, secrets }: Backup) => ({
  time,
  files: Object.keys(files).filter((name) => files[name] !== null),
  signIns: Object.keys(signIns),
  secrets: Object.keys(secrets),
})

function linesOf(content: Backup): string {
  const { files, signIns, secrets } = summaryOf(content)
  return [
    files.join(", "),
    ...(signIns.length === 0 ? [] : [counted(signIns.length, "sign-in")]),
    ...(secrets.length === 0 ? [] : [counted(secrets.length, "secret")]),
  ].join(", ")
}
