/** `svc mcp tools approve`: shows what has changed in the definitions of tools, and approves them. */
import type { CommandDef } from "citty"
import { CONTEXT_ARGS, notRunning, openContext } from "../commands/command-context.ts"
import type { DiffLine } from "../lib/line-diff.ts"
import { print, say, stderrLook, stdoutLook } from "../lib/output.ts"
import { isInteractive, promptYesNo } from "../lib/prompt.ts"
import { type Look, paint } from "../lib/terminal.ts"
import { counted } from "../lib/text.ts"
import type { Approval } from "../report/approvals.ts"
import type { LocalConfiguration } from "../serve/local-configuration.ts"
import { isObject } from "../wire/message.ts"

export const approve: CommandDef = {
  meta: { name: "approve", description: "Show what has changed in tools, and approve it" },
  args: {
    server: { type: "positional", required: true, description: "Name of the server", valueHint: "server" },
    tool: {
      type: "positional",
      required: false,
      description: "Name of one tool (default: all changed tools)",
      valueHint: "tool",
    },
    ...CONTEXT_ARGS,
    "dry-run": { type: "boolean", description: "Only show what has changed" },
    yes: { type: "boolean", alias: "y", description: "Do not ask for confirmation at a terminal" },
  },
  async run({ args }) {
    const context = openContext(args)
    const changes = await findChanges(context, String(args.server), args.tool)
    if (args["dry-run"] === true) {
      const text = () => changes.map((change) => describe(change, stdoutLook())).join("\n\n") || "no changed tools"
      print(args.json === true, changes, text)
      return 0
    }
    if (args.json !== true && changes.length > 0) {
      say(changes.map((change) => describe(change, stderrLook())).join("\n\n"))
      const question = `approve ${counted(changes.length, "changed tool")} of ${args.server}?`
      if (args.yes !== true && isInteractive() && !(await promptYesNo(question))) return 0
    }
    // Approves what was shown, not changes that came later.
    const shown = new Map(changes.map(({ tool, hash }) => [`${tool} ${hash}`, { tool, hash }]))
    const approved: string[] = []
    for (const one of shown.values()) {
      const answer = await context.ask("approve", { name: args.server, ...one })
      if (isObject(answer) && Array.isArray(answer.approved)) approved.push(...answer.approved.map(String))
    }
    print(
      args.json === true,
      { server: changes[0]?.server ?? String(args.server), approved: [...new Set(approved)] },
      () => (approved.length === 0 ? "no changed tools to approve" : `approved ${[...new Set(approved)].join(", ")}`),
    )
    return 0
  },
}

// ---

/** Lines around a difference. */
const CONTEXT = 2

/** Returns the changes of one tool, or of all tools of a server, which come in several answers. */
async function findChanges(context: LocalConfiguration, server: string, tool: unknown): Promise<readonly Approval[]> {
  const changes: Approval[] = []
  for (let from: unknown = 0; from !== undefined; ) {
    const answer = await context.ask("approvals", { name: server, tool, from })
    if (!isObject(answer) || !Array.isArray(answer.approvals)) throw notRunning(context.paths)
    changes.push(...(answer.approvals as readonly Approval[]))
    from = answer.next
  }
  return changes
}

function describe({ server, instance, tool, held, before, diff }: Approval, look: Look): string {
  const notes = [
    held ? "held until you approve it" : "clients already see the new definition",
    ...(before === undefined ? ["svc has not stored the previous text, so it shows all lines as new"] : []),
  ]
  return [
    `${paint(`${instance ?? server}: ${tool}`, "strong", look)} (${notes.join("; ")})`,
    ...shorten(diff).map((line) => paintLine(line, look)),
  ].join("\n")
}

function paintLine(line: DiffLine | undefined, look: Look): string {
  switch (line?.kind) {
    case undefined:
      return "  …"
    case "same":
      return `  ${line.text}`
    case "removed":
      return paint(`- ${line.text}`, "bad", look)
    case "added":
      return paint(`+ ${line.text}`, "good", look)
  }
}

/** Returns the lines near a difference; undefined stands for omitted lines. */
function shorten(lines: readonly DiffLine[]): readonly (DiffLine | undefined)[] {
  const isNear = (at: number) =>
    lines.slice(Math.max(0, at - CONTEXT), at + CONTEXT + 1).some(({ kind }) => kind !== "same")
  return lines.flatMap((line, at) => {
    if (isNear(at)) return [line]
    return at > 0 && isNear(at - 1) ? [undefined] : []
  })
}
