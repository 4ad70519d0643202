/** Edits mcp.json for a command, and waits until a running instance has applied the edit. */
import { parseDocument } from "../config/document.ts"
import { addVariables } from "../config/dotenv.ts"
import { addServer, type Edit, writtenServers } from "../config/edit.ts"
import { keyPlaces, keysOf, moveKeys } from "../config/externalize-secrets.ts"
import { keysIn, keyText } from "../config/found-keys.ts"
import { plan } from "../config/plan.ts"
import { systemClock } from "../lib/clock.ts"
import { ConfigError, type Issue, RequestError } from "../lib/errors.ts"
import { say } from "../lib/output.ts"
import { isInteractive, promptYesNo } from "../lib/prompt.ts"
import { commandProblem, type LocalConfiguration, variableFix } from "../serve/local-configuration.ts"
import { createMissing, readTexts } from "../store/documents.ts"
import { changeDocuments, type WrittenDocuments } from "../store/transaction.ts"
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
  const open = newKeys(readTexts(context.paths).config() ?? "{}", edit, servers)
  const moves = open.length > 0 && (args.yes === true || (isInteractive() && (await offerMove(open))))
  const { before, after, keep } = await changeDocuments(
    context.paths,
    (written) => {
      const edited = { ...written, config: edit(written.config) }
      const next = moves ? withoutKeys(edited, servers, context) : edited
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
  const written = servers.length === 0 ? [] : plan(context.document(), context.world()).specs
  const missing = written.flatMap((spec) => (servers.includes(spec.name) ? (commandProblem(spec) ?? []) : []))
  const inClear = open.map(
    (place) => `${place} looks like a key, and mcp.json has it in clear; \`svc secret import\` moves it to .env`,
  )
  const warnings = [...(moves ? [] : inClear), ...introduced.map(({ message }) => message), ...missing]
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

/** Returns the settings of `servers` that look like keys after an edit, if it adds a key, or another copy of one. */
function newKeys(text: string, edit: Edit, servers: readonly string[]): readonly string[] {
  const before = keyCounts(text)
  const edited = edit(text)
  const after = keyCounts(edited)
  return [...writtenServers(edited)].flatMap(([name, { server }]) =>
    servers.includes(name) &&
    keysIn(server).some((key) => {
      const value = keyText(server, key)
      return (after.get(value) ?? 0) > (before.get(value) ?? 0)
    })
      ? keyPlaces(name, server)
      : [],
  )
}

/** Returns how often each key stands in mcp.json. */
function keyCounts(text: string): ReadonlyMap<string, number> {
  const counts = new Map<string, number>()
  for (const key of keysOf(parseDocument(text, "mcp.json"))) counts.set(key, (counts.get(key) ?? 0) + 1)
  return counts
}

const offerMove = (places: readonly string[]): Promise<boolean> => {
  for (const place of places) say(`${place} looks like a key: •••`)
  return promptYesNo("move to .env, and write a reference in mcp.json?")
}

/** Moves keys to `.env`. */
function withoutKeys(
  { config, dotenv }: WrittenDocuments,
  servers: readonly string[],
  { paths, worldOf }: LocalConfiguration,
): WrittenDocuments {
  const moved = moveKeys(config, servers, worldOf(dotenv))
  return { config: moved.config, dotenv: addVariables(dotenv, moved.variables, paths.dotenv) }
}
