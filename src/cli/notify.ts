/** `svc notify`: whether the people whom svc notifies of problems get its messages. */
import { hostname } from "node:os"
import { dirname } from "node:path"
import { openReferences } from "../app/features.ts"
import { CONTEXT_ARGS, openContext } from "../commands/command-context.ts"
import { ALLOW_COMMANDS } from "../commands/resolved-context.ts"
import { testMessage } from "../features/notify/message.ts"
import { readConfiguredNotify } from "../features/notify/read-targets.ts"
import { sendMessage } from "../features/notify/send.ts"
import { systemSenders } from "../features/notify/system-senders.ts"
import { systemClock } from "../lib/clock.ts"
import type { CommandGroup } from "../lib/command-line.ts"
import { ConfigError, RequestError } from "../lib/errors.ts"
import { print, table } from "../lib/output.ts"
import { randomText } from "../lib/random.ts"

export const notify: CommandGroup = {
  meta: { name: "notify", description: "Notify people of problems" },
  subCommands: {
    test: {
      meta: {
        name: "test",
        description: "Send a test notification to each target of mcp.json; exit with 69 if one does not accept it",
      },
      args: {
        ...CONTEXT_ARGS,
        ...ALLOW_COMMANDS,
      },
      async run({ args }) {
        const { paths, baseWorld, document } = openContext(args)
        const references = openReferences(paths, baseWorld, false)
        try {
          await references?.load()
          const world = { ...baseWorld, references: references?.lookUp }
          const { targets, issues, allowCommands } = readConfiguredNotify(paths, world)
          if (issues.length > 0) throw new ConfigError(issues)
          if (targets.length === 0) throw noTargets(document().value.notify !== undefined, paths.file)
          const senders = systemSenders(
            dirname(paths.file),
            process.env,
            () => allowCommands || args["allow-commands"] === true,
          )
          const message = testMessage(`msg_${randomText(15)}`, { host: hostname() }, systemClock.now())
          const outcomes = await Promise.all(
            targets.map(async (target) => ({
              target: target.label,
              outcome: await sendMessage(target, message, senders, new AbortController().signal),
            })),
          )
          const rows = outcomes.map(({ target, outcome }) =>
            outcome.kind === "sent" ? { target, sent: true } : { target, sent: false, reason: outcome.reason },
          )
          print(args.json === true, rows, () =>
            table(
              ["target", "result"],
              rows.map(({ target, sent, reason }) => [target, sent ? "sent" : (reason ?? "")]),
            ),
          )
          return rows.every(({ sent }) => sent) ? 0 : 69
        } finally {
          references?.close()
        }
      },
    },
  },
}

// ---

/** The error of a file without usable targets. */
const noTargets = (isWritten: boolean, file: string): RequestError =>
  new RequestError(
    "not_found",
    isWritten
      ? "notify in mcp.json is not valid; `svc config check` shows what is wrong"
      : `${file} has no targets; add "notify": [{"url": "https://…"}] at its top level`,
  )
