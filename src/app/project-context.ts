/** Finds the project of a client that starts svc as a command (its directory, user and `.svcrc`), and watches it for changes. */

import { statSync } from "node:fs"
import { resolve } from "node:path"
import type { ServerQuery } from "../catalog/selection.ts"
import { systemClock } from "../lib/clock.ts"
import { usageError } from "../lib/command-line.ts"
import { ConfigError, formatIssue } from "../lib/errors.ts"
import type { ProjectContext } from "../serve/trusted-client.ts"
import { watchFiles } from "../store/watch.ts"
import { findProject, type Project, projectFiles } from "../template/project.ts"
import { type ParsedSvcrc, parseSvcrc } from "../template/svcrc.ts"

/** Returns the directory that `--project` names, or the working directory. Throws a RequestError if it does not exist. */
export function projectDirectory(given: string | undefined): string {
  const directory = resolve(given ?? process.cwd())
  if (!isDirectory(directory)) throw usageError(`--project: ${directory} is not a directory`)
  return directory
}

/** Returns the context of `directory`, with `queries` in addition to those of `.svcrc`. Reports issues to `note`. */
export function findProjectContext(
  directory: string,
  queries: readonly ServerQuery[],
  note: (text: string) => void,
): ProjectContext {
  return find(directory, queries, note, NO_SVCRC).context
}

/** Calls `onchange` whenever the context has changed. While `.svcrc` is invalid, its last valid content stays in use. */
export function watchProjectContext(
  directory: string,
  queries: readonly ServerQuery[],
  note: (text: string) => void,
  onchange: (context: ProjectContext) => void,
): { close(): void } {
  let last = find(directory, queries, () => undefined, NO_SVCRC)
  return watchFiles(projectFiles(directory), systemClock, () => {
    const before = JSON.stringify(last.context)
    last = find(directory, queries, note, last.found)
    if (JSON.stringify(last.context) !== before) onchange(last.context)
  })
}

// ---

function isDirectory(path: string): boolean {
  try {
    return statSync(path).isDirectory()
  } catch {
    return false
  }
}

type FoundSvcrc = Omit<ParsedSvcrc, "issues">
type FoundProject = { readonly context: ProjectContext; readonly found: FoundSvcrc }

const NO_SVCRC: FoundSvcrc = { svcrc: {} }

/** Falls back to `before` while `.svcrc` is invalid: a client must not lose its servers to a typing error. */
function find(
  directory: string,
  queries: readonly ServerQuery[],
  note: (text: string) => void,
  before: FoundSvcrc,
): FoundProject {
  const { directory: here, root, branch, user, svcrc: file } = findProject(directory)
  const found = file === undefined ? NO_SVCRC : readSvcrc(file, note, before)
  const { presetAt } = found
  const { preset, tags, tools, context = {} } = found.svcrc
  const ofProject: ServerQuery = {
    ...(preset === undefined ? {} : { preset, presetAt }),
    ...(tags === undefined ? {} : { tags }),
    ...(tools === undefined ? {} : { tools }),
  }
  const all = [...queries, ...(Object.keys(ofProject).length === 0 ? [] : [ofProject])]
  return { context: { project: { directory: here, root, branch, user, said: context }, queries: all }, found }
}

function readSvcrc(
  { file, text }: NonNullable<Project["svcrc"]>,
  note: (text: string) => void,
  before: FoundSvcrc,
): FoundSvcrc {
  if (text === undefined) {
    note(`${file}: cannot be read; it must belong to this user and have at most 256 KiB`)
    return before
  }
  try {
    const { issues, ...found } = parseSvcrc(text, file)
    for (const issue of issues) note(formatIssue(issue))
    return found
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    for (const issue of error.issues) note(formatIssue(issue))
    return before
  }
}
