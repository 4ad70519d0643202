/** Where a client that was started by a command is: its project, its user and what its `.svcrc` says, followed as they change. */

import { statSync } from "node:fs"
import { resolve } from "node:path"
import type { ServerQuery } from "../catalog/selection.ts"
import { systemClock } from "../lib/clock.ts"
import { usageError } from "../lib/command-line.ts"
import { ConfigError, formatIssue } from "../lib/errors.ts"
import type { ProjectContext } from "../serve/trusted-client.ts"
import { watchFiles } from "../store/watch.ts"
import { findProject, type Project, projectFiles } from "../template/project.ts"
import { parseSvcrc, type Svcrc } from "../template/svcrc.ts"

/** The directory that `--project` names, or the working directory. Throws a RequestError where there is none. */
export function projectDirectory(asked: string | undefined): string {
  const directory = resolve(asked ?? process.cwd())
  if (!isDirectory(directory)) throw usageError(`--project: there is no directory ${directory}`)
  return directory
}

/** What is found at `directory`; `asked` are queries beside those of `.svcrc`. What is wrong is told to `note`. */
export function findProjectContext(
  directory: string,
  asked: readonly ServerQuery[],
  note: (text: string) => void,
): ProjectContext {
  return find(directory, asked, note, {}).context
}

/** Calls `onchange` with what is found anew whenever it is something else. What a `.svcrc` said last holds while it is wrong. */
export function watchProjectContext(
  directory: string,
  asked: readonly ServerQuery[],
  note: (text: string) => void,
  onchange: (context: ProjectContext) => void,
): { close(): void } {
  let last = find(directory, asked, () => undefined, {})
  return watchFiles(projectFiles(directory), systemClock, DEBOUNCE_MS, () => {
    const before = JSON.stringify(last.context)
    last = find(directory, asked, note, last.svcrc)
    if (JSON.stringify(last.context) !== before) onchange(last.context)
  })
}

// ---

const DEBOUNCE_MS = 100

function isDirectory(path: string): boolean {
  try {
    return statSync(path).isDirectory()
  } catch {
    return false
  }
}

type FoundProject = { readonly context: ProjectContext; readonly svcrc: Svcrc }

/** `before` holds where there is a `.svcrc` that cannot be understood: a client must not lose its servers to a comma. */
function find(
  directory: string,
  asked: readonly ServerQuery[],
  note: (text: string) => void,
  before: Svcrc,
): FoundProject {
  const { directory: here, root, branch, user, svcrc: file } = findProject(directory)
  const svcrc = file === undefined ? {} : readSvcrc(file, note, before)
  const { preset, tags, context = {} } = svcrc
  const own: ServerQuery = { ...(preset === undefined ? {} : { preset }), ...(tags === undefined ? {} : { tags }) }
  const queries = [...asked, ...(Object.keys(own).length === 0 ? [] : [own])]
  return { context: { project: { directory: here, root, branch, user, said: context }, queries }, svcrc }
}

function readSvcrc({ file, text }: NonNullable<Project["svcrc"]>, note: (text: string) => void, before: Svcrc): Svcrc {
  if (text === undefined) {
    note(`${file}: cannot be read; it must be a file of this user, of at most 256 KiB`)
    return before
  }
  try {
    const { svcrc, issues } = parseSvcrc(text, file)
    for (const issue of issues) note(formatIssue(issue))
    return svcrc
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    for (const issue of error.issues) note(formatIssue(issue))
    return before
  }
}
