/** Edits mcp.json for a command, and waits until a running instance has applied the edit. */
import type { Edit } from "../config/edit.ts"
import { plan } from "../config/plan.ts"
import { systemClock } from "../lib/clock.ts"
import { ConfigError, type Issue } from "../lib/errors.ts"
import { createMissing, editConfig, readTexts } from "../store/documents.ts"
import { commandProblem, dryReload, openContext, variableFix } from "./command-context.ts"
import { finishChange } from "./follow.ts"
import { say } from "./output.ts"

/**
 * Applies `edit`, prints `done` with the outcome for `servers`, or that nothing changed, and returns the exit code. Throws a
 * ConfigError and writes nothing if the edit gives a key a wrong type or would make every reload fail. Prints other issues
 * that the edit introduces, and commands of `servers` that are not found, as warnings.
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
  const checked: Edit = (text) => {
    const texts = readTexts(context.paths)
    const reloaded = (config: string) => dryReload(context, () => ({ ...texts, config: () => config }))
    const changed = edit(text)
    // Two servers may have the same message.
    const keyOf = ({ server = "", message }: Issue) => `${server} ${message}`
    const [before, after] = [reloaded(text), reloaded(changed)]
    const known = new Set(before.issues.map(keyOf))
    // File and line are left out: the text to which they refer is not written yet.
    introduced = after.issues.flatMap((issue) => {
      const { code, severity, message, server } = issue
      return known.has(keyOf(issue)) ? [] : [{ code, severity, message, ...(server !== undefined && { server }) }]
    })
    const isRefused = before.applied !== undefined && after.applied === undefined
    const wrong = introduced.filter(({ code }) => isRefused || code === "type")
    // The edit is refused, so the running server stays loaded as it is.
    const refusalOf = ({ server, message, ...issue }: Issue) => ({
      ...issue,
      message: server === undefined ? message : message.replace(`${server} is not loaded: `, ""),
    })
    if (wrong.length > 0) throw new ConfigError(wrong.map(refusalOf))
    return changed
  }
  const changed = await editConfig(context.paths, checked, systemClock)
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
