/** `svc uninstall`: removes this program and what it has added to the system, after showing what it removes. */
import { existsSync, rmSync } from "node:fs"
import { join } from "node:path"
import type { CommandDef } from "citty"
import { print, say } from "../app/output.ts"
import { checkWritable, previousOf } from "../app/upgrade.ts"
import { usageError } from "../lib/command-line.ts"
import { UnavailableError } from "../lib/errors.ts"
import { homeDirectory } from "../lib/home-directory.ts"
import { instancePid } from "../serve/control-socket.ts"
import { removeAll } from "../store/files.ts"
import { standardDirectory } from "../store/paths.ts"
import { listRunning, pathsOfRunning, runningFolder } from "../store/running.ts"
import { CHANGE_ARGS, confirmChanges, installedServices, removalLines, removeService } from "./service.ts"
import { ownProgram } from "./upgrade.ts"

const { system: _system, ...ASK_ARGS } = CHANGE_ARGS

export const uninstall: CommandDef = {
  meta: { name: "uninstall", description: "Remove svc itself; the configuration stays unless --purge is given" },
  args: {
    server: { type: "positional", required: false, description: "Not used: `svc mcp uninstall NAME` removes a server" },
    purge: {
      type: "boolean",
      description: "Also remove the default configuration directory, with its tokens and backups",
    },
    ...ASK_ARGS,
    json: { type: "boolean", description: "Print JSON" },
  },
  async run({ args }) {
    if (args.server !== undefined)
      throw usageError(`svc uninstall removes svc itself; \`svc mcp uninstall ${args.server}\` removes a server`)
    const program = ownProgram("uninstall")
    checkWritable(program)
    const home = homeDirectory()
    const { APPDATA: appData } = process.env
    const services = installedServices()
    // Removing a service stops it, so services do not count as running.
    const others = listRunning(runningFolder(home, appData, process.platform)).filter(
      ({ startedBy }) => startedBy !== "service",
    )
    const pids = await Promise.all(others.map((one) => instancePid(pathsOfRunning(one, home))))
    const running = pids.filter((pid) => pid !== undefined)
    if (running.length > 0) {
      const refusal = `svc is running (${running.map((pid) => `process ${pid}`).join(", ")}); stop it with \`svc stop\` first`
      if (args["dry-run"] !== true) throw new UnavailableError(refusal)
      say(refusal)
    }
    const directory = standardDirectory({ platform: process.platform, home, appData })
    const files = [previousOf(program), ...completionsIn(home), program].filter((path) => existsSync(path))
    const lines = [
      ...services.flatMap(removalLines),
      ...files.map((file) => `remove ${file}`),
      args.purge === true
        ? `remove ${directory}, with the configuration, tokens, backups and logs`
        : `keep ${directory}`,
    ]
    const removed = [...services.map(({ file }) => file), ...files, ...(args.purge === true ? [directory] : [])]
    const report = (changed: boolean) => {
      if (args.json === true) print(true, { changed, removed }, () => "")
    }
    if (!(await confirmChanges(args, lines, "uninstall svc"))) {
      report(false)
      return 0
    }
    for (const definition of services) await removeService(definition)
    if (args.purge === true) rmSync(directory, { recursive: true, force: true })
    removeAll(files)
    const left = files.filter((file) => existsSync(file))
    // Windows does not remove a running program.
    if (left.length > 0) throw new UnavailableError(`cannot remove ${left.join(", ")}; remove it by hand`)
    report(true)
    say("svc is uninstalled; clients that `svc connect` has connected still refer to it")
    return 0
  },
}

// ---

/** The files that users create by the instructions of `svc completion`. */
const completionsIn = (home: string): readonly string[] => [
  join(home, ".config", "fish", "completions", "svc.fish"),
  join(home, ".local", "share", "bash-completion", "completions", "svc"),
]
