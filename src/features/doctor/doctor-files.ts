/** The checks of `svc doctor` that look at files: permissions, and leftovers of ended processes. */
import { accessSync, chmodSync, constants, existsSync, lstatSync, readFileSync, statSync } from "node:fs"
import { join } from "node:path"
import { isSecretName } from "../../lib/secret-names.ts"
import type { Finding, Installation } from "../../serve/doctor-check.ts"
import { configuredSecrets } from "../../serve/local-configuration.ts"
import { findTemporaries, isAlive, readFolder, readState, removeAll } from "../../store/files.ts"
import { forgetRunning, listRunning, runningFolder } from "../../store/running.ts"

/** Finds files of svc that others can read, and folders that svc cannot write to. */
export function checkPermissions({ context }: Installation): readonly Finding[] {
  const { directory, file, dotenv } = context.paths
  const findings: Finding[] = []
  if (lstatSync(directory, { throwIfNoEntry: false })?.isFile() === true)
    return [
      {
        check: "permissions",
        severity: "error",
        subject: directory,
        what: `${directory} is a file; svc needs a folder there`,
        why: "svc keeps its configuration and its state in it",
        fix: "move the file, or choose a folder with --config-dir",
      },
    ]
  for (const path of [directory, file])
    if (existsSync(path) && !isWritable(path))
      findings.push({
        check: "permissions",
        severity: "error",
        subject: path,
        what: `${path} is not writable`,
        why: "svc stores its state there, and its commands edit the file",
        fix: "make it writable for your user, or choose another folder with --config-dir",
      })
  // Windows has no modes.
  if (process.platform === "win32") return findings
  const secrets = join(directory, "secrets")
  const known = configuredSecrets(context)
  const files = [
    ...[file, dotenv].filter((path) => hasSecrets(path, known)),
    join(directory, "tokens.json"),
    secrets,
    ...readFolder(secrets).map((name) => join(secrets, name)),
    ...readFolder(directory).flatMap((name) =>
      /^(?:control|sessions)\b.*\.(?:json|sqlite)$/.test(name) ? [join(directory, name)] : [],
    ),
  ]
  for (const path of files) {
    const found = lstatSync(path, { throwIfNoEntry: false })
    if (found === undefined || found.isSymbolicLink() || (found.mode & 0o077) === 0) continue
    const mode = found.isDirectory() ? 0o700 : 0o600
    findings.push({
      check: "permissions",
      severity: path.startsWith(secrets) ? "error" : "warning",
      subject: path,
      what: `${path} can be read by others (mode ${(found.mode & 0o777).toString(8)})`,
      why: "it contains secrets or data that svc trusts",
      fix: `chmod ${mode.toString(8)} ${path}`,
      repair: () => chmodSync(path, mode),
    })
  }
  return findings
}

/** Finds files of processes that have ended, and of configurations that are no longer used. */
export function checkLeftovers({ context, live, clock }: Installation): readonly Finding[] {
  const { directory } = context.paths
  const findings: Finding[] = []
  const report = (what: string, files: readonly string[], why: string) => {
    if (files.length > 0)
      findings.push({
        check: "leftovers",
        severity: "warning",
        subject: directory,
        what: `${what}: ${files.join(", ")}`,
        why,
        fix: "svc doctor --fix",
        repair: () => removeAll(files),
      })
  }
  const isOld = (path: string, ms: number) => {
    const found = lstatSync(path, { throwIfNoEntry: false })
    return found !== undefined && clock.now() - found.mtimeMs > ms
  }
  // A process may still be writing a newer file.
  const folders = ["", "secrets", "registries", "running", "backups"].map((name) => join(directory, name))
  const temporaries = folders
    .flatMap((folder) => findTemporaries(folder, (name) => name !== ""))
    .filter((path) => isOld(path, DAY_MS))
  report("temporary files of killed processes", temporaries, "no process reads them any longer")
  const lost = readFolder(directory).flatMap((name) =>
    /^control.*\.json$/.test(name) && isLost(join(directory, name)) ? [join(directory, name)] : [],
  )
  if (live === undefined)
    report(
      "files of a killed svc",
      lost
        .flatMap((file) => [file, file.replace(/\.json$/, ".sock"), file.replace(/\.json$/, "-lines.sock")])
        .filter(existsSync),
      "commands mistake them for a running svc and wait for it",
    )
  const unused = readFolder(directory).flatMap((name) => {
    const path = join(directory, name)
    return /^(?:eras|logins|sessions)-[0-9a-f]{8}\.(?:json|sqlite)$/.test(name) && isOld(path, UNUSED_MS) ? [path] : []
  })
  report("state of configurations that no svc has used for a month", unused, "svc collects it again when needed")
  const folder = runningFolder(context.baseWorld.home, process.env.APPDATA, process.platform)
  const gone = listRunning(folder).filter(({ pid }) => !isAlive(pid))
  if (gone.length > 0)
    findings.push({
      check: "leftovers",
      severity: "warning",
      subject: folder,
      what: `${gone.length === 1 ? "an ended svc process is" : `${gone.length} ended svc processes are`} still listed as running`,
      why: "`svc ps` and `svc stop` look for them",
      fix: "svc doctor --fix",
      repair: () => {
        for (const one of gone) forgetRunning(folder, one)
      },
    })
  return findings
}

// ---

const DAY_MS = 86_400_000
/** How long the state of an unused configuration is kept. */
const UNUSED_MS = 30 * DAY_MS

/** Whether a file contains one of these secrets, or assigns a literal value to a secret name. */
function hasSecrets(path: string, known: readonly string[]): boolean {
  const text = statSync(path, { throwIfNoEntry: false })?.isFile() === true ? readFileSync(path, "utf8") : ""
  return (
    known.some((secret) => text.includes(secret) || text.includes(JSON.stringify(secret).slice(1, -1))) ||
    [...text.matchAll(/(?<![\w-])([\w-]{1,200})["']?\s*[:=]\s*["']?(?!\w+ (?:\$|\{\{))\w/g)].some(([, name = ""]) =>
      isSecretName(name),
    )
  )
}

function isWritable(path: string): boolean {
  try {
    accessSync(path, constants.W_OK)
    return true
  } catch {
    return false
  }
}

/** Whether an endpoint file belongs to a process that has ended. */
function isLost(file: string): boolean {
  const pid = readState(file)?.pid
  return typeof pid === "number" && !isAlive(pid)
}
