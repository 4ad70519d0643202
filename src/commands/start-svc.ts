/** Starts svc for a command, and waits until it serves. */
import { delay, systemClock } from "../lib/clock.ts"
import { ConfigError, codesOf, UnavailableError } from "../lib/errors.ts"
import { callControl } from "../serve/control-socket.ts"
import type { Paths } from "../store/paths.ts"
import type { Starter } from "../store/running.ts"
import { isObject } from "../wire/message.ts"
import { startInBackground } from "./background.ts"

/** An svc that was started. */
export type StartedSvc = {
  readonly pid: number
  readonly address: string
  /** The file of its log. */
  readonly log: string
  /** The number of its servers. */
  readonly servers: number
  /** What is wrong in its configuration. */
  readonly issues: readonly string[]
  /** Stops it. Resolves when its process has ended. */
  end(): Promise<void>
}

/**
 * Starts `svc serve` with these arguments. If it does not start, rejects with an UnavailableError with the reason. If it cannot load the
 * configuration, stops it and rejects with a ConfigError.
 */
export async function startSvc(
  paths: Paths,
  words: readonly string[],
  startedBy: Starter,
  logFile?: string,
): Promise<StartedSvc> {
  const child = startInBackground(paths, words, { startedBy, logFile })
  let failure: Awaited<typeof child.failed> | undefined
  void child.failed.then((found) => {
    failure = found
  })
  const until = systemClock.now() + READY_MS
  for (;;) {
    // svc answers once the configuration is loaded.
    const answer = await callControl(paths, "reload", {}, READY_MS).catch(() => undefined)
    const status = isObject(answer) && isObject(answer.status) ? answer.status : undefined
    if (status?.pid === child.pid) {
      const issues = Array.isArray(status.issues) ? status.issues.map(String) : []
      if (status.loaded === false) {
        await child.end()
        throw notLoaded(issues)
      }
      return {
        pid: child.pid,
        address: String(status.endpoint ?? status.url),
        log: child.log,
        servers: Array.isArray(status.servers) ? status.servers.length : 0,
        issues,
        end: child.end,
      }
    }
    if (failure?.code === CONFIG_EXIT) throw notLoaded([failure.reason])
    if (failure !== undefined)
      throw new UnavailableError(
        / already (?:runs|serves) /.test(failure.reason) ? failure.reason : `svc did not start: ${failure.reason}`,
      )
    if (systemClock.now() > until) {
      await child.end()
      throw new UnavailableError(
        `svc was not ready after ${READY_MS / 1000} s and was stopped; see its log ${child.log}`,
      )
    }
    await delay(systemClock, POLL_MS)
  }
}

// ---

const READY_MS = 60_000
const POLL_MS = 20
const CONFIG_EXIT = codesOf(new ConfigError([])).exit

const notLoaded = (issues: readonly string[]): ConfigError =>
  new ConfigError(
    issues.map((issue) => ({ code: "document", severity: "error", message: `svc did not start: ${issue}` })),
  )
