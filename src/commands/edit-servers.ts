/** Edits mcp.json for a command, and waits until a running instance has applied the edit. */
import type { Edit } from "../config/edit.ts"
import { plan } from "../config/plan.ts"
import { systemClock } from "../lib/clock.ts"
import { ConfigError, type Issue } from "../lib/errors.ts"
import { say } from "../lib/output.ts"
import { commandProblem, variableFix } from "../serve/local-configuration.ts"
import { createMissing } from "../store/documents.ts"
import { changeDocuments } from "../store/transaction.ts"
import { judgeEdit } from "../template/edit-judgement.ts"
import { openContext } from "./command-context.ts"
import { finishChange } from "./follow.ts"

/**
 * Applies `edit`, prints `done` with the outcome for `servers`, or that nothing changed, and returns the exit code. Throws a
 * ConfigError and writes nothing if the edit is refused (`judgeEdit`). Prints other issues that the edit introduces, and commands of `servers` that are not found, as warnings.
 */
export async function editServers(
  args: Readonly<Record<string, unknown>>,
  edit: Edit,
  done: string,
  servers: readonly string[] = [],
): Promise<number> {
  const context = openContext(args)
  await createMissing(context.paths, systemClock)
  let introduced: readonly Issue[] = []
  const { before, after, keep } = await changeDocuments(
    context.paths,
    (written) => {
      const next = { ...written, config: edit(written.config) }
      const { refused, warnings } = judgeEdit(written, next, context.worldOf)
      if (refused.length > 0) throw new ConfigError(refused)
      introduced = warnings
      return next
    },
    systemClock,
  )
  keep()
  const changed = after.config !== before.config
  const { file } = context.paths
  const result = { changed, file }
  if (!changed) return finishChange(context, args, { result, done: "nothing to change" })
  const written = servers.length === 0 ? [] : plan(context.document(), context.world()).specs
  const missing = written.flatMap((spec) => (servers.includes(spec.name) ? (commandProblem(spec) ?? []) : []))
  const warnings = [...introduced.map(({ message }) => message), ...missing]
  const code = await finishChange(context, args, { result, done, file, servers, warnings })
  const fixes = introduced.flatMap(({ message }) => variableFix(message, context.paths) ?? [])
  for (const fix of new Set(fixes)) say(fix)
  return code
}
