/** Starts `svc serve` so that it outlives the command that starts it. */
import { closeSync, constants, openSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { ownCommand } from "../lib/own-command.ts"
import { makePrivateFolder } from "../store/files.ts"
import { ownName, type Paths } from "../store/paths.ts"
import type { Starter } from "../store/running.ts"

/** The variable that tells a started svc what has started it. */
export const STARTER_VARIABLE = "SVC_STARTED_BY"

export type BackgroundSvc = {
  readonly pid: number
  /** The file of its log. */
  readonly log: string
  /** Resolves with the exit code and the reason if svc ends with an error while this process runs. */
  readonly failed: Promise<{ readonly code: number; readonly reason: string }>
  /** Stops svc. Resolves when its process has ended. */
  end(): Promise<void>
}

/** Starts `svc serve` with these arguments. Throws an UnavailableError if the configuration directory cannot be written. */
export function startInBackground(
  paths: Paths,
  words: readonly string[],
  {
    startedBy,
    logFile,
    cwd,
  }: { readonly startedBy: Starter; readonly logFile?: string | undefined; readonly cwd?: string },
): BackgroundSvc {
  makePrivateFolder(paths.directory)
  // Outside logs/: a server may be named start or svc.
  const [errors, log] = ["start", "svc"].map((name) => join(paths.directory, `${ownName(name, paths)}.log`)) as [
    string,
    string,
  ]
  // Opened for appending, because several proxies may start svc at once, and none may overwrite the running svc's lines.
  const stderr = openSync(
    errors,
    constants.O_WRONLY | constants.O_CREAT | constants.O_TRUNC | constants.O_APPEND,
    0o600,
  )
  const child = Bun.spawn({
    // svc may run for months: it logs to a file that it rotates, and stderr receives only the reason for its end.
    cmd: [...ownCommand("serve", ...words, ...(logFile === undefined ? ["--log-file", log] : []))],
    env: { ...process.env, [STARTER_VARIABLE]: startedBy },
    ...(cwd === undefined ? {} : { cwd }),
    stdin: "ignore",
    stdout: "ignore",
    stderr,
    // In a process group of its own: a signal that ends this command must not end svc.
    detached: true,
  })
  child.unref()
  closeSync(stderr)
  return {
    pid: child.pid,
    log: logFile ?? log,
    failed: new Promise((resolve) => {
      void child.exited.then((code) => {
        if (code === 0) return
        const reason = reasonIn(readFileSync(errors, "utf8"))
        resolve({ code, reason: reason || `it exited with code ${code}; its log is ${logFile ?? log}` })
      })
    }),
    async end() {
      child.kill()
      await child.exited
    },
  }
}

// ---

/** The most error lines to show: a configuration may have many problems. */
const MAX_LINES = 3

/** Returns the error with which a command ended, from its stderr, on one line; empty if it wrote nothing. */
function reasonIn(stderr: string): string {
  const lines = stderr.trim().split("\n")
  const first = lines.findIndex((line) => line.startsWith("svc: "))
  if (first < 0) return lines.at(-1) ?? ""
  return lines
    .slice(first, first + MAX_LINES)
    .join("; ")
    .replace("svc: ", "")
}
