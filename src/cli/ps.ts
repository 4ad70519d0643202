/** `svc ps`: lists the svc processes of this user, for all configurations. */
import { basename, dirname } from "node:path"
import type { CommandDef } from "citty"
import { systemClock } from "../lib/clock.ts"
import { homeDirectory } from "../lib/home-directory.ts"
import { ago, print, table } from "../lib/output.ts"
import { memoryText, usageOf } from "../lib/process-usage.ts"
import { shortPath } from "../lib/text.ts"
import { callControl } from "../serve/control-socket.ts"
import {
  forgetRunning,
  listRunning,
  pathsOfRunning,
  type RunningSvc,
  runningFolder,
  type Starter,
} from "../store/running.ts"
import { isObject } from "../wire/message.ts"

export const ps: CommandDef = {
  meta: { name: "ps", description: "List the svc processes of this user" },
  args: { json: { type: "boolean", description: "Print JSON" } },
  async run({ args }) {
    const folder = runningFolder(homeDirectory(), process.env.APPDATA, process.platform)
    const examined = (await Promise.all(listRunning(folder).map((one) => examine(folder, one)))).flat()
    const usage = usageOf(examined.map(({ pid }) => pid))
    const found = examined.map((one) => ({ ...one, ...usage.get(one.pid) }))
    const [now, home] = [systemClock.now(), homeDirectory()]
    print(args.json === true, { running: found }, () =>
      found.length === 0
        ? "no svc is running; `svc serve --background` starts one"
        : table(
            // Last, because it is the widest.
            ["pid", ADDRESS, "up", "ready", "memory", "started by", { title: "config", fit: "path" }],
            found.map(({ pid, file, address, startedAt, servers, startedBy, memory }) => [
              String(pid),
              address ?? "does not answer",
              ago(now - Date.parse(startedAt)),
              servers === undefined ? "" : `${servers.ready} of ${servers.total}`,
              memory === undefined ? "" : memoryText(memory),
              STARTER_TEXTS[startedBy],
              // The demo uses the control socket of a configuration, but does not read the configuration.
              startedBy === "demo" ? "none" : configurationOf(file, home),
            ]),
          ),
    )
    return 0
  },
}

// ---

const ANSWER_MS = 2000

const ADDRESS = { title: "address", fit: "whole" } as const

/** Returns what distinguishes a configuration: its file, or its folder if the file has the usual name. */
const configurationOf = (file: string, home: string): string =>
  shortPath(basename(file) === "mcp.json" ? dirname(file) : file, home)

const STARTER_TEXTS: Readonly<Record<Starter, string>> = {
  terminal: "terminal",
  background: "background",
  proxy: "svc proxy",
  service: "svc service",
  program: "a program",
  demo: "demo",
}

type ExaminedSvc = RunningSvc & {
  readonly version?: string
  /** The address for clients; undefined if the svc does not answer. */
  readonly address?: string
  readonly servers?: { readonly total: number; readonly ready: number }
}

/** Asks a listed svc for its state. If it no longer runs, returns nothing and removes it from the list. */
async function examine(folder: string, running: RunningSvc): Promise<readonly ExaminedSvc[]> {
  const paths = pathsOfRunning(running, homeDirectory())
  // An svc that does not answer still runs; undefined means that it does not run.
  const status = await callControl(paths, "status", {}, ANSWER_MS).catch(() => ({}))
  if (!isObject(status) || (status.pid !== undefined && status.pid !== running.pid)) {
    forgetRunning(folder, running)
    return []
  }
  const { url, endpoint, version, servers, unowned } = status
  if (typeof url !== "string" || !Array.isArray(servers)) return [running]
  const total = servers.length + (isObject(unowned) ? Object.keys(unowned).length : 0)
  const ready = servers.filter((one) => isObject(one) && one.status === "connected").length
  const address = typeof endpoint === "string" ? endpoint : url
  return [{ ...running, version: String(version), address, servers: { total, ready } }]
}
