/** `svc activity`: shows the last calls of tools that the running svc keeps in memory. */
import type { CommandDef } from "citty"
import { matchesPattern } from "../catalog/tool-settings.ts"
import { CONTEXT_ARGS, notRunning, openContext } from "../commands/command-context.ts"
import type { ShownCall } from "../features/rest/call-records.ts"
import { delay, systemClock } from "../lib/clock.ts"
import { readOptions } from "../lib/command-line.ts"
import { escaped } from "../lib/log.ts"
import { print, table } from "../lib/output.ts"
import { isObject } from "../wire/message.ts"

export const activity: CommandDef = {
  meta: {
    name: "activity",
    description: "Show the last calls of tools: when, by whom, how long, and whether they failed",
  },
  args: {
    follow: { type: "boolean", alias: "f", description: "Keep printing calls as they finish" },
    failed: { type: "boolean", description: "Only calls that failed" },
    slow: { type: "string", description: "Only calls that took at least this long, such as 1s" },
    tool: {
      type: "string",
      description: "Only calls of tools with this name, or that match this pattern, such as github/get_*",
      valueHint: "tool",
    },
    ...CONTEXT_ARGS,
  },
  async run({ args }) {
    const context = openContext(args)
    const isWanted = filterOf(args)
    let last = 0
    /** Returns the calls since the last time, oldest first. */
    const fresh = async (): Promise<readonly ShownCall[]> => {
      const found: ShownCall[] = []
      for (;;) {
        const answer = await context.ask("calls", { after: last })
        if (!isObject(answer)) throw notRunning(context.paths)
        const next = answer.calls as readonly ShownCall[]
        found.push(...next.filter(isWanted))
        if (next.length === 0) return found
        last = next.at(-1)?.id ?? last
      }
    }
    const first = await fresh()
    if (args.follow !== true) {
      print(args.json === true, { calls: first }, () =>
        first.length === 0 ? "no such calls" : table([...COLUMNS], first.map(rowOf)),
      )
      return 0
    }
    for (let calls = first; ; calls = await fresh()) {
      for (const call of calls)
        process.stdout.write(
          `${args.json === true ? escaped(JSON.stringify(call)) : rowOf(call).filter(Boolean).join("  ")}\n`,
        )
      await delay(systemClock, FOLLOW_MS)
    }
  },
}

// ---

/** Returns a time: on a terminal, that of the day. */
const timeText = (time: string): string =>
  process.stdout.isTTY === true ? new Date(time).toTimeString().slice(0, "hh:mm:ss".length) : time

const COLUMNS = ["time", "took", "waited", "at server", "tool", "outcome", "client", "as"] as const

const took = (ms: number): string => (ms < 1000 ? `${ms.toFixed(1)} ms` : `${(ms / 1000).toFixed(2)} s`)

const rowOf = ({ time, ms, waited, atServer, server, tool, outcome, client, principal }: ShownCall): string[] =>
  [
    timeText(time),
    took(ms),
    waited === 0 ? "" : took(waited),
    took(atServer),
    `${server}/${tool}`,
    outcome,
    client,
    principal,
  ].map(escaped)

/** Returns a function that tells whether the flags select a call. Throws a RequestError (usage). */
function filterOf(args: Readonly<Record<string, unknown>>): (call: ShownCall) => boolean {
  const option = readOptions(args, {})
  const least = option.duration("slow", 0)
  const pattern = option.text("tool")
  return ({ ms, server, tool, outcome }) =>
    ms >= least &&
    (args.failed !== true || outcome !== "ok") &&
    (pattern === undefined || [tool, `${server}/${tool}`].some((name) => matchesPattern(name, pattern)))
}

const FOLLOW_MS = 300
