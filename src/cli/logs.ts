/** `svc logs`: shows recent output of the servers and what svc logged about them, from files in the configuration directory. */
import { existsSync, readdirSync } from "node:fs"
import type { CommandDef } from "citty"
import { CONTEXT_ARGS, notRunning, ONE_SERVER_ARG, openContext } from "../commands/command-context.ts"
import { slugOf } from "../config/server-spec.ts"
import { delay, systemClock } from "../lib/clock.ts"
import { readOptions, usageError } from "../lib/command-line.ts"
import { RequestError } from "../lib/errors.ts"
import { homeDirectory } from "../lib/home-directory.ts"
import { escaped, LOG_LEVELS, lineHead } from "../lib/log.ts"
import { orKnown } from "../lib/nearest.ts"
import { say, stdoutLook } from "../lib/output.ts"
import { wrap } from "../lib/table.ts"
import type { LocalConfiguration } from "../serve/local-configuration.ts"
import { logsFolder } from "../store/paths.ts"
import { listRunning, runningFolder } from "../store/running.ts"
import { type LogLine, openLogFiles } from "../store/server-logs.ts"

export const logs: CommandDef = {
  meta: { name: "logs", description: "Show what the servers wrote to stderr, and what svc logged about them" },
  args: {
    ...ONE_SERVER_ARG,
    ...CONTEXT_ARGS,
    follow: { type: "boolean", alias: "f", description: "Keep printing new lines" },
    lines: { type: "string", alias: ["n", "tail"], description: "Number of lines to show, from the end" },
    since: {
      type: "string",
      description: "Show only lines that are newer than this, such as 10m, or since svc was started: start",
    },
    level: {
      type: "string",
      description: "Least severe level to show: debug, info, warn or error (default debug)",
      valueHint: "debug|info|warn|error",
    },
    wire: {
      type: "boolean",
      description: "Print the messages between svc and the server NAME as they come, until Ctrl-C",
    },
    grep: { type: "string", description: "Show only lines that contain this text; case is ignored" },
  },
  async run({ args }) {
    const context = openContext(args)
    const folder = logsFolder(context.paths)
    const known = () =>
      existsSync(folder)
        ? readdirSync(folder)
            .flatMap((name) => /^(.+)\.log$/.exec(name)?.[1] ?? [])
            .sort()
        : []
    const wanted = typeof args.name === "string" ? slugOf(args.name) : undefined
    if (args.wire === true) await watchWire(context, args.name)
    const isShown = lineFilter(args.since === "start" ? { ...args, since: await sinceStart(context) } : args)
    const last = args.wire === true ? 0 : readOptions(args, {}).integer("lines", Number.POSITIVE_INFINITY, 0, 1_000_000)
    await context.ask("flush")
    if (wanted !== undefined && args.wire !== true && !known().includes(wanted)) {
      throw new RequestError(
        "not_found",
        `there is no log of a server named ${args.name}${orKnown("log", wanted, known())}`,
      )
    }
    const read = openLogFiles(folder)
    const look = process.stdout.isTTY === true ? stdoutLook() : undefined
    const shown = (line: string) => (look === undefined ? line : wrap(line, stdoutLook()))
    const show = (line: LogLine) => {
      const text = wanted === undefined ? `${line.slug}: ${line.text}` : line.text
      process.stdout.write(
        args.json === true
          ? `${escaped(JSON.stringify(jsonLine(line)))}\n`
          : `${shown(`${lineHead(line.at, line.level, look)} ${text}`)}\n`,
      )
    }
    const fresh = () =>
      (wanted === undefined ? known() : [wanted])
        .flatMap((slug) => read(slug))
        .filter(isShown)
        .sort((a, b) => a.at - b.at)
    const first = fresh()
    for (const line of first.slice(Math.max(0, first.length - last))) show(line)
    if (first.length === 0 && args.wire !== true)
      say(known().length === 0 ? "no server has a log yet" : "no matching lines")
    for (let round = 1; args.follow === true || args.wire === true; round++) {
      await delay(systemClock, FOLLOW_MS)
      if (args.wire === true && round % RENEW_ROUNDS === 0) await context.ask("wire", { name: args.name })
      await context.ask("flush")
      for (const line of fresh()) show(line)
    }
    return 0
  },
}

// ---

/** Asks the running svc to record the messages of a server. Throws a typed error if none runs, or no server is named. */
async function watchWire(context: LocalConfiguration, name: unknown): Promise<void> {
  if (typeof name !== "string") throw usageError("--wire shows the messages of one server: svc logs NAME --wire")
  if ((await context.ask("wire", { name })) === undefined) throw notRunning(context.paths)
  say(`→ to ${name}, ← from ${name}; run \`svc mcp restart ${name}\` to see the handshake`)
}

/** Returns how long the running svc has been up, as `--since` takes it. Throws an UnavailableError if none runs. */
async function sinceStart({ paths }: LocalConfiguration): Promise<string> {
  const home = homeDirectory()
  const running = listRunning(runningFolder(home, process.env.APPDATA, process.platform))
  const own = running.find(({ file }) => file === paths.file)
  if (own === undefined) throw notRunning(paths)
  return `${systemClock.now() - Date.parse(own.startedAt)}ms`
}

/** Returns a line as `svc serve --log-format json` writes it. */
const jsonLine = ({ at, level, slug, text }: LogLine) => ({
  time: new Date(at).toISOString(),
  level,
  message: text,
  server: slug,
})

/** Returns a function that tells whether the flags select a line. */
function lineFilter(args: Readonly<Record<string, unknown>>): (line: LogLine) => boolean {
  const option = readOptions(args, {})
  const since = typeof args.since === "string" ? systemClock.now() - option.duration("since", 0) : 0
  const least = LOG_LEVELS.indexOf(option.choice("level", LOG_LEVELS, "debug"))
  const text = option.text("grep")?.toLowerCase() ?? ""
  return (line) => line.at >= since && LOG_LEVELS.indexOf(line.level) >= least && line.text.toLowerCase().includes(text)
}

const FOLLOW_MS = 300
/** A request to record messages lasts 30 s. */
const RENEW_ROUNDS = 30
