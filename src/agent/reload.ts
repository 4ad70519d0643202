/**
 * Applies the configuration files to the running svc. Every lasting change edits a file and takes effect by a reload. If a
 * file is broken, its last valid content stays in effect: the plan, the environment of `.env`, or the presets. The issues of
 * all files are recorded and shown.
 */
import { parseDocument } from "../config/document.ts"
import { parseDotenv } from "../config/dotenv.ts"
import type { Environment } from "../config/environment.ts"
import type { HostEnvironment, LastValid } from "../config/plan.ts"
import { readPresets } from "../config/presets.ts"
import { ConfigError, formatIssue, type Issue, messageOf, UnavailableError } from "../lib/errors.ts"
import type { Log } from "../lib/log.ts"
import type { DocumentTexts } from "../store/documents.ts"
import type { Paths } from "../store/paths.ts"
import { planDocument } from "../template/instance.ts"
import type { Agent, Applied } from "./agent.ts"
import type { Instances } from "./instances.ts"

export type ReloadDeps = {
  readonly agent: Pick<Agent, "setPresets" | "refuse">
  readonly instances: Pick<Instances, "update">
  readonly log: Log
  /** The documents' paths, for messages. */
  readonly paths: Paths
  /** Returns a reader of the documents. */
  read(): DocumentTexts
  readonly world: Omit<HostEnvironment, "dotenv">
}

/** What a reload changed; undefined if the document was refused. `issues`: everything that is wrong now. */
export type ReloadResult = { readonly applied: Applied | undefined; readonly issues: readonly Issue[] }

/** Returns the function that reloads. It is synchronous, so that two reloads never overlap. */
export function createReload({ agent, instances, log, paths, read, world }: ReloadDeps): () => ReloadResult {
  let dotenv: Environment = {}
  let presets = ""
  let reported = ""
  let last: LastValid | undefined
  const report = (issues: readonly Issue[]) => {
    const text = issues.map(formatIssue).join("\n")
    if (text === reported) return
    reported = text
    for (const issue of issues) log[issue.severity === "error" ? "error" : "warn"](formatIssue(issue))
  }
  return () => {
    const issues: Issue[] = []
    try {
      const texts = read()
      // A broken or unreadable `.env` or presets.json is refused alone.
      const attempt = (file: string, load: () => void) => {
        try {
          load()
        } catch (error) {
          if (!(error instanceof ConfigError || error instanceof UnavailableError)) throw error
          issues.push(...issuesOf(error, file))
        }
      }
      attempt(paths.dotenv, () => {
        dotenv = parseDotenv(texts.dotenv() ?? "", paths.dotenv)
      })
      attempt(paths.presets, () => {
        const text = texts.presets()
        const loaded = readPresets(parseDocument(text ?? "{}", paths.presets))
        issues.push(...loaded.issues)
        if (presets !== (text ?? "")) agent.setPresets(loaded.presets)
        presets = text ?? ""
      })
      const text = texts.config()
      // At the start, a missing file is an empty document. Later, an editor may be about to put a new file in its place.
      if (text === undefined ? last !== undefined : text.trim() === "") throw emptyDocument(text, paths.file)
      const document = parseDocument(text ?? "", paths.file)
      const { plan: planned, templates } = planDocument(document, { ...world, dotenv }, last)
      const whole = { ...planned, issues: [...issues, ...planned.issues] }
      const applied = instances.update(whole, templates)
      last = {
        servers: new Map(planned.specs.map((spec) => [spec.name, spec])),
        templates: new Map([...templates.named, ...templates.fixed].map(({ name, config }) => [name, config])),
      }
      report(whole.issues)
      return { applied, issues: whole.issues }
    } catch (error) {
      const all = [...issues, ...issuesOf(error, paths.file)]
      agent.refuse(all)
      report(all)
      return { applied: undefined, issues: all }
    }
  }
}

// ---

function emptyDocument(text: string | undefined, file: string): ConfigError {
  const what = text === undefined ? "the file is gone" : "not valid JSON: the file is empty"
  const message = `${what}; write {} for a configuration without servers`
  return new ConfigError([{ code: "json", severity: "error", file, line: 1, column: 1, message }])
}

/** Returns the issues of a document that could not be read or planned. */
const issuesOf = (error: unknown, file: string): readonly Issue[] =>
  error instanceof ConfigError ? error.issues : [{ code: "read", severity: "error", message: messageOf(error), file }]
