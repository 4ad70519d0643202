/** Where a client that was started by a command is: its project, its user and what its `.svcrc` says, followed as they change. */

import type { Query } from "../catalog/select.ts"
import { findProject, projectFiles } from "../config/project.ts"
import { watchFiles } from "../config/store.ts"
import { parseSvcrc, type Svcrc } from "../config/svcrc.ts"
import { systemClock } from "../lib/clock.ts"
import { ConfigError, formatIssue } from "../lib/errors.ts"
import type { Surroundings } from "../serve/member.ts"

/** What is found at `directory`; `asked` are queries beside those of `.svcrc`. What is wrong is told to `note`. */
export function findSurroundings(
  directory: string,
  asked: readonly Query[],
  note: (text: string) => void,
): Surroundings {
  const { directory: here, root, branch, user, svcrc } = findProject(directory)
  const { preset, tags, context = {} } = svcrc === undefined ? {} : readSvcrc(svcrc, note)
  const own: Query = { ...(preset === undefined ? {} : { preset }), ...(tags === undefined ? {} : { tags }) }
  return {
    project: { directory: here, root, branch, user, said: context },
    queries: [...asked, ...(Object.keys(own).length === 0 ? [] : [own])],
  }
}

/** Calls `onchange` with what is found anew whenever it is something else. */
export function followSurroundings(
  directory: string,
  asked: readonly Query[],
  note: (text: string) => void,
  onchange: (surroundings: Surroundings) => void,
): { close(): void } {
  let seen = JSON.stringify(findSurroundings(directory, asked, () => undefined))
  return watchFiles(projectFiles(directory), systemClock, DEBOUNCE_MS, () => {
    const found = findSurroundings(directory, asked, note)
    const text = JSON.stringify(found)
    if (text === seen) return
    seen = text
    onchange(found)
  })
}

// ---

const DEBOUNCE_MS = 100

/** A file that is wrong counts as empty: the client must not lose its servers to a comma. */
function readSvcrc({ file, text }: { file: string; text: string }, note: (text: string) => void): Svcrc {
  try {
    const { svcrc, issues } = parseSvcrc(text, file)
    for (const issue of issues) note(formatIssue(issue))
    return svcrc
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    for (const issue of error.issues) note(formatIssue(issue))
    return {}
  }
}
