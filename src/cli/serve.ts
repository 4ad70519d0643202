/** `svc serve`: runs the servers of mcp.json and offers them as one MCP server. */
import type { CommandDef } from "citty"
import { findPaths } from "../app/config-paths.ts"
import { readServeOptions, SERVE_OPTIONS, type ServeOptions } from "../app/serve-options.ts"
import { runService } from "../app/service.ts"
import { STARTER_VARIABLE, startInBackground } from "../features/system/background.ts"
import { delay, systemClock } from "../lib/clock.ts"
import { readOptions, usageError } from "../lib/command-line.ts"
import { ConfigError, codesOf, UnavailableError } from "../lib/errors.ts"
import { facts, isTerminal, print, say } from "../lib/output.ts"
import { callControl } from "../serve/control-socket.ts"
import type { Paths } from "../store/paths.ts"
import { starterOf } from "../store/running.ts"
import { isObject } from "../wire/message.ts"

export const serve: CommandDef = {
  meta: { name: "serve", description: "Run the servers of mcp.json and offer them as one MCP server" },
  args: SERVE_OPTIONS,
  run({ args, rawArgs }) {
    const options = readServeOptions(args, process.env, process.platform)
    if (options.demo && args.config !== undefined)
      throw usageError("--demo does not use a configuration; leave out --demo or --config")
    if (args.json === true && args.background !== true)
      throw usageError("--json needs --background; --log-format json prints the log as JSON")
    const mayCreate = readOptions(args, process.env).flag("init")
    const configFlags = (["config", "config-dir"] as const).flatMap((flag) => {
      const value = args[flag]
      return typeof value === "string" ? [`--${flag}`, value] : []
    })
    const paths = findPaths(args, mayCreate ? "allowed" : "refused")
    if (args.background === true) return serveInBackground(options, paths, rawArgs, configFlags, args.json === true)
    const startedBy = options.demo
      ? "demo"
      : starterOf(process.env[STARTER_VARIABLE] ?? (isTerminal() ? "terminal" : "program"))
    return runService(options, paths, { configFlags, startedBy })
  },
}

// ---

const READY_MS = 60_000
const POLL_MS = 50
const CONFIG_EXIT = codesOf(new ConfigError([])).exit

const notLoaded = (issues: readonly string[]): ConfigError =>
  new ConfigError(
    issues.map((issue) => ({ code: "document", severity: "error", message: `svc did not start: ${issue}` })),
  )

/**
 * Starts svc in the background, and returns when it serves. If it does not start, rejects with an UnavailableError with the
 * reason. If it cannot load the configuration, stops it and rejects with a ConfigError.
 */
async function serveInBackground(
  options: ServeOptions,
  paths: Paths,
  words: readonly string[],
  configFlags: readonly string[],
  asJson: boolean,
): Promise<number> {
  if (options.demo) throw usageError("--demo cannot run in the background: leave out --demo or --background")
  if (options.transport === "stdio")
    throw usageError("svc on stdio belongs to the client that starts it: leave out --background or --transport stdio")
  const serving = words.filter((word) => !/^--(?:no-)?(?:background|json)(?:=|$)/.test(word))
  const child = startInBackground(paths, serving, { startedBy: "background", logFile: options.logFile })
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
      for (const issue of issues) say(issue)
      const address = String(status.endpoint ?? status.url)
      print(asJson, { pid: child.pid, address, log: child.log }, () =>
        facts([
          ["running", `process ${child.pid}`],
          ["address", address],
          ["log", child.log],
          ["stop", ["svc stop", ...configFlags].join(" ")],
        ]),
      )
      return 0
    }
    if (failure?.code === CONFIG_EXIT) throw notLoaded([failure.reason])
    if (failure !== undefined) throw new UnavailableError(`svc did not start: ${failure.reason}`)
    if (systemClock.now() > until) {
      await child.end()
      throw new UnavailableError(
        `svc was not ready after ${READY_MS / 1000} s and was stopped; see its log ${child.log}`,
      )
    }
    await delay(systemClock, POLL_MS)
  }
}
