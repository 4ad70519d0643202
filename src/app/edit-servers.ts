/** Edits mcp.json for a command. A running instance follows the file. */

import type { Edit } from "../config/edit.ts"
import { systemClock } from "../lib/clock.ts"
import { ConfigError, type Issue } from "../lib/errors.ts"
import { createMissing, editConfig, readTexts } from "../store/documents.ts"
import { findIssues, openContext } from "./command-context.ts"
import { print, say } from "./output.ts"

/**
 * Applies `edit`, prints `done` or that nothing changed, and returns the exit code. Throws a ConfigError if the edit gives a
 * key a wrong type; other issues that it introduces are printed as warnings.
 */
export async function editServers(args: Readonly<Record<string, unknown>>, edit: Edit, done: string): Promise<number> {
  const context = openContext(args)
  await createMissing(context.paths, systemClock)
  let introduced: readonly Issue[] = []
  const checked: Edit = (text) => {
    const texts = readTexts(context.paths)
    const issuesOf = (config: string) => findIssues(context, () => ({ ...texts, config: () => config }))
    const changed = edit(text)
    // The same message may be about another server.
    const keyOf = ({ server = "", message }: Issue) => `${server} ${message}`
    const known = new Set(issuesOf(text).map(keyOf))
    // Without file and line: the text that they point into is not written yet.
    introduced = issuesOf(changed).flatMap((issue) => {
      const { code, severity, message } = issue
      return known.has(keyOf(issue)) ? [] : [{ code, severity, message }]
    })
    const wrong = introduced.filter(({ code }) => code === "type")
    if (wrong.length > 0) throw new ConfigError(wrong)
    return changed
  }
  const changed = await editConfig(context.paths, checked, systemClock)
  for (const { message } of introduced) say(`warning: ${message}`)
  print(args.json === true, { changed, file: context.paths.file }, () =>
    changed ? `${done} (${context.paths.file})` : "nothing to change",
  )
  return 0
}
