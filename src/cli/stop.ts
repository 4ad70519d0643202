/** `svc stop`: stops the running svc of a configuration, gracefully if possible. */
import type { CommandDef } from "citty"
import { CONTEXT_ARGS, openContext } from "../commands/command-context.ts"
import { type Clock, delay, systemClock } from "../lib/clock.ts"
import { readOptions } from "../lib/command-line.ts"
import { UnavailableError } from "../lib/errors.ts"
import { homeDirectory } from "../lib/home-directory.ts"
import { print } from "../lib/output.ts"
import { instancePid } from "../serve/control-socket.ts"
import { type LocalConfiguration, openConfiguration } from "../serve/local-configuration.ts"
import { isAlive } from "../store/files.ts"
import { listRunning, pathsOfRunning, runningFolder } from "../store/running.ts"

export const stop: CommandDef = {
  meta: { name: "stop", description: "Stop svc: let running calls finish, then stop the servers" },
  args: {
    timeout: { type: "string", description: "How long svc may take before it is killed (default 30s)" },
    all: { type: "boolean", description: "Stop every svc of this user" },
    ...CONTEXT_ARGS,
  },
  async run({ args }) {
    const timeout = readOptions({ timeout: args.timeout }, {}).duration("timeout", 30_000)
    if (args.all !== true) {
      const { outcome, text, pid } = await stopOne(openContext(args, "allowed"), timeout)
      print(args.json === true, { ...(pid === undefined ? {} : { pid }), outcome }, () => text)
      return 0
    }
    const home = homeDirectory()
    const running = listRunning(runningFolder(home, process.env.APPDATA, process.platform))
    const all = await Promise.all(running.map((one) => stopOne(openConfiguration(pathsOfRunning(one, home)), timeout)))
    const stopped = all.filter(({ outcome }) => outcome !== "not running")
    print(args.json === true, { stopped: stopped.map(({ pid, outcome }) => ({ pid, outcome })) }, () =>
      stopped.length === 0 ? "no svc is running" : stopped.map(({ text }) => text).join("\n"),
    )
    return 0
  },
}

// ---

type Stopped = {
  readonly pid: number | undefined
  readonly outcome: "not running" | "stopped" | "killed"
  readonly text: string
}

/** Stops the svc of a configuration. Throws an UnavailableError if it cannot be ended. */
async function stopOne({ paths, ask }: LocalConfiguration, timeout: number): Promise<Stopped> {
  const pid = await instancePid(paths)
  if (pid === undefined) {
    const text = `svc is not running for ${paths.file}; \`svc ps\` lists those that run`
    return { pid, outcome: "not running", text }
  }
  // The process must end, whether svc answers or not.
  const asked = await ask("stop", {}, ANSWER_MS).catch(() => undefined)
  // svc hangs, or is too old to know this method.
  if (asked === undefined && isAlive(pid)) signal(pid, "SIGTERM")
  if (await hasEnded(pid, systemClock, timeout)) {
    return { pid, outcome: "stopped", text: `stopped process ${pid}` }
  }
  // SIGTERM makes an svc that is already stopping end at once.
  for (const name of ["SIGTERM", "SIGKILL"] as const) {
    signal(pid, name)
    if (await hasEnded(pid, systemClock, KILLED_MS)) {
      const text = `process ${pid} did not stop within ${timeout / 1000} s and was ended by ${name}`
      return { pid, outcome: "killed", text }
    }
  }
  throw new UnavailableError(`cannot end process ${pid}; see the log of svc`)
}

const ANSWER_MS = 5000
const KILLED_MS = 5000
const POLL_MS = 25

/** Sends a signal. Throws an UnavailableError if this user may not. Ignores a process that is gone. */
function signal(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name)
  } catch (cause) {
    if (!isAlive(pid)) return
    throw new UnavailableError(`process ${pid} belongs to another user; stop it as that user`, { cause })
  }
}

/**
 * Waits until a process has ended, at most `ms` milliseconds. Polls, because systems do not report the end of a process that
 * is not a child.
 */
async function hasEnded(pid: number, clock: Clock, ms: number): Promise<boolean> {
  const until = clock.now() + ms
  while (isAlive(pid)) {
    if (clock.now() >= until) return false
    await delay(clock, POLL_MS)
  }
  return true
}
