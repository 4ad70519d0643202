/** `svc serve`: runs the servers of mcp.json and offers them as one MCP server. */
import type { CommandDef } from "citty"
import { findPaths } from "../app/config-paths.ts"
import { readServeOptions, SERVE_OPTIONS, type ServeOptions } from "../app/serve-options.ts"
import { runService } from "../app/service.ts"
import { STARTER_VARIABLE } from "../commands/background.ts"
import { aboutServer, isStarted, outcomeOf } from "../commands/follow.ts"
import { startSvc } from "../commands/start-svc.ts"
import { readOptions, usageError } from "../lib/command-line.ts"
import { codesOf, UnavailableError } from "../lib/errors.ts"
import { facts, isTerminal, print, say } from "../lib/output.ts"
import type { Status } from "../report/status.ts"
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
    if (args.background === true) return serveInBackground(options, paths, rawArgs, configFlags, args)
    if (args.quiet === true || args.wait !== undefined) throw usageError("--quiet and --wait need --background")
    const startedBy = options.demo
      ? "demo"
      : starterOf(process.env[STARTER_VARIABLE] ?? (isTerminal() ? "terminal" : "program"))
    return runService(options, paths, { configFlags, startedBy })
  },
}

// ---

/**
 * Starts svc in the background, and returns when it serves, or with `--wait` when its servers are connected. Rejects as `startSvc` does.
 * Returns 69 if a server is not connected in time.
 */
async function serveInBackground(
  options: ServeOptions,
  paths: Paths,
  words: readonly string[],
  configFlags: readonly string[],
  args: Readonly<Record<string, unknown>>,
): Promise<number> {
  if (options.demo) throw usageError("--demo cannot run in the background: leave out --demo or --background")
  if (options.transport === "stdio")
    throw usageError("svc on stdio belongs to the client that starts it: leave out --background or --transport stdio")
  const wait = readOptions({ wait: args.wait }, {}).duration("wait", 0)
  const serving = words.filter(
    (word, at) => !/^--(?:no-)?(?:background|json|quiet|wait)(?:=|$)/.test(word) && words[at - 1] !== "--wait",
  )
  const { pid, address, log, servers, issues } = await startSvc(paths, serving, "background", options.logFile)
  for (const issue of issues) say(issue)
  const missing = wait === 0 ? [] : await missingAfter(paths, wait)
  if (args.quiet !== true)
    print(args.json === true, { pid, address, log, ...(wait === 0 ? {} : { notConnected: missing }) }, () =>
      facts([
        ["running", `process ${pid}`],
        ["address", address],
        ...(options.loopback || options.externalUrl !== undefined
          ? []
          : [["remote", "clients on other machines need an address: set --external-url"] as const]),
        ["servers", serversText(servers, wait > 0, configFlags)],
        ["log", log],
        ["stop", ["svc stop", ...configFlags].join(" ")],
      ]),
    )
  for (const problem of missing) say(`svc: ${problem}`)
  return missing.length === 0 ? 0 : UNAVAILABLE_EXIT
}

/** Says how the servers of an svc that has just started are, or where to see it. `waited`: whether the others are reported. */
function serversText(count: number, waited: boolean, configFlags: readonly string[]): string {
  if (count === 0) return "none; `svc mcp add` adds one"
  const command = ["svc mcp status", ...configFlags].join(" ")
  return waited ? `${count}; \`${command}\` shows them` : `${count} starting; \`${command}\` shows them`
}

const UNAVAILABLE_EXIT = codesOf(new UnavailableError("")).exit

/** Waits until all servers of the running svc are connected, at most `ms` milliseconds. Returns what is wrong with the others. */
async function missingAfter(paths: Paths, ms: number): Promise<readonly string[]> {
  const status = await callControl(paths, "status", {}, ANSWER_MS)
  const servers = isObject(status) && Array.isArray(status.servers) ? status.servers : []
  const names = servers.map((one) => String(one.id))
  const answer = await callControl(paths, "reload", { names, wait: ms }, ms + ANSWER_MS)
  if (!isObject(answer) || !isObject(answer.status)) throw new UnavailableError("svc does not answer; see its log")
  const now = answer.status as Status
  return [...names, ...Object.keys(now.invalid)]
    .map((name) => outcomeOf(name, now))
    .filter(({ state }) => state !== "disabled" && !isStarted(state))
    .map(aboutServer)
}

const ANSWER_MS = 60_000
