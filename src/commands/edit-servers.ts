/** Edits mcp.json for a command, and waits until a running instance has applied the edit. */
import { addServer, type Edit, writtenServers } from "../config/edit.ts"
import { newKeyPlaces, openKeyWarnings, withoutNewKeys } from "../config/externalize-secrets.ts"
import { plan } from "../config/plan.ts"
import { systemClock } from "../lib/clock.ts"
import { ConfigError, type Issue, RequestError } from "../lib/errors.ts"
import { say } from "../lib/output.ts"
import { isInteractive, promptYesNo } from "../lib/prompt.ts"
import { commandProblem, variableFix } from "../serve/local-configuration.ts"
import { createMissing, readTexts } from "../store/documents.ts"
import { changeDocuments } from "../store/transaction.ts"
import { judgeEdit } from "../template/edit-judgement.ts"
import type { Params } from "../wire/message.ts"
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
  // Names the file if it is not a document: an edit knows only the text.
  context.document()
  let introduced: readonly Issue[] = []
  const text = readTexts(context.paths).config() ?? "{}"
  const open = newKeyPlaces(text, edit(text), servers)
  const moves = open.length > 0 && (args.yes === true || (isInteractive() && (await offerMove(open))))
  const { before, after, keep } = await changeDocuments(
    context.paths,
    (written) => {
      const edited = { ...written, config: edit(written.config) }
      const next = moves ? withoutNewKeys(written, edited, servers, context.worldOf, context.paths.dotenv) : edited
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
  const result = { changed, file, ...(moves ? { moved: open } : {}) }
  if (!changed) return finishChange(context, args, { result, done: "nothing to change" })
  const specs = servers.length === 0 ? [] : plan(context.document(), context.world()).specs
  const missing = specs.flatMap((spec) => (servers.includes(spec.name) ? (commandProblem(spec) ?? []) : []))
  const inClear = openKeyWarnings(before.config, after.config, servers)
  const warnings = [...inClear, ...introduced.map(({ message }) => message), ...missing]
  const code = await finishChange(context, args, { result, done, file, servers, warnings })
  const fixes = introduced.flatMap(({ message }) => variableFix(message, context.paths) ?? [])
  for (const fix of new Set(fixes)) say(fix)
  return code
}

/** Adds a server as `addServer` does; a refusal names the command that changes the existing one. */
export const addNewServer =
  (name: string, server: Params, replace: boolean, isTemplate = false): Edit =>
  (text) => {
    if (!replace && writtenServers(text).has(name))
      throw new RequestError("conflict", `there is already a server named ${name}; \`svc mcp edit ${name}\` changes it`)
    return addServer(name, server, replace, isTemplate)(text)
  }

// ---

const offerMove = (places: readonly string[]): Promise<boolean> => {
  for (const place of places) say(`${place} looks like a key: •••`)
  return promptYesNo("move to .env, and write a reference in mcp.json?")
}
