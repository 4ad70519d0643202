/** The check of `svc doctor` that looks at the `.svcrc` of the project in the working directory. */
import { findProjectContext, projectDirectory } from "../app/project-context.ts"
import { type ServerQuery, selectServers } from "../catalog/selection.ts"
import { parseDocument } from "../config/document.ts"
import { readPresets } from "../config/presets.ts"
import { ConfigError, RequestError } from "../lib/errors.ts"
import type { DoctorCheck, Finding } from "../serve/doctor-check.ts"
import type { LocalConfiguration } from "../serve/local-configuration.ts"
import { readTexts } from "../store/documents.ts"
import { findProject } from "../template/project.ts"

export const projectCheck: DoctorCheck = {
  id: "project",
  subject: "the project",
  run({ context }) {
    const directory = projectDirectory(undefined)
    const file = findProject(directory).svcrc?.file
    if (file === undefined) return []
    const ignored: string[] = []
    const { queries } = findProjectContext(directory, [], (text) => ignored.push(text))
    const refusal = refusalOf(queries, context)
    return [
      ...ignored.map((what) => finding(file, "warning", what, "svc ignores this part of the file")),
      ...(refusal === undefined ? [] : [finding(file, "error", refusal, "a client of this project gets no servers")]),
    ]
  },
}

// ---

const finding = (subject: string, severity: Finding["severity"], what: string, why: string): Finding => ({
  check: "project",
  severity,
  subject,
  what,
  why,
  fix: `correct ${subject}`,
})

/** Returns why svc refuses the selection of a project; undefined if it does not, or the presets cannot be read. */
function refusalOf(queries: readonly ServerQuery[], { paths }: LocalConfiguration): string | undefined {
  try {
    selectServers(queries, readPresets(parseDocument(readTexts(paths).presets() ?? "{}", paths.presets)).presets)
    return undefined
  } catch (error) {
    if (error instanceof RequestError) return error.message
    // The check of the configuration reports it.
    if (error instanceof ConfigError) return undefined
    throw error
  }
}
