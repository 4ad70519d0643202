/** `svc logs`: recent output of the servers and what svc logged about them, from the files in the configuration directory. */
import { existsSync, readdirSync } from "node:fs"
import { join } from "node:path"
import type { CommandDef } from "citty"
import { CONTEXT_ARGS, openContext } from "../app/command-context.ts"
import { slugOf } from "../config/plan.ts"
import { delay, systemClock } from "../lib/clock.ts"
import { readOptions } from "../lib/command-line.ts"
import { RequestError } from "../lib/errors.ts"
import { escaped } from "../lib/log.ts"
import { didYouMean } from "../lib/nearest.ts"
import { formatLine, type LogLine, openLogFiles } from "../store/server-logs.ts"

export const logs: CommandDef = {
  meta: { name: "logs", description: "Show what the servers wrote to stderr, and what svc logged about them" },
  args: {
    name: { type: "positional", required: false, description: "Name of one server (default: all)" },
    ...CONTEXT_ARGS,
    follow: { type: "boolean", alias: "f", description: "Keep printing new lines" },
    since: { type: "string", description: "Show only lines from the last period of this length, such as 10m" },
  },
  async run({ args }) {
    const context = openContext(args)
    const folder = join(context.paths.directory, "logs")
    const known = () =>
      existsSync(folder) ? readdirSync(folder).flatMap((name) => /^(.+)\.log$/.exec(name)?.[1] ?? []) : []
    const wanted = typeof args.name === "string" ? slugOf(args.name) : undefined
    await context.ask("flush")
    if (wanted !== undefined && !known().includes(wanted)) {
      throw new RequestError(
        "not_found",
        `there is no log of a server named ${args.name}${didYouMean(wanted, known())}`,
      )
    }
    const since = typeof args.since === "string" ? systemClock.now() - readOptions(args, {}).duration("since", 0) : 0
    const read = openLogFiles(folder)
    const show = (line: LogLine) => {
      const text = wanted === undefined ? formatLine({ ...line, text: `${line.slug}: ${line.text}` }) : formatLine(line)
      process.stdout.write(
        `${args.json === true ? escaped(JSON.stringify({ ...line, at: new Date(line.at).toISOString() })) : text}\n`,
      )
    }
    for (;;) {
      const fresh = (wanted === undefined ? known() : [wanted]).flatMap((slug) => read(slug))
      for (const line of fresh.filter(({ at }) => at >= since).sort((a, b) => a.at - b.at)) show(line)
      if (args.follow !== true) break
      await delay(systemClock, FOLLOW_MS)
      await context.ask("flush")
    }
    return 0
  },
}

// ---

const FOLLOW_MS = 300
