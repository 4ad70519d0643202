/**
 * The one door: whatever wants a lasting change edits the file, and this makes what runs equal to it. A broken document
 * keeps the last good plan, a broken `.env` the last good environment, broken presets the last good ones; all are
 * remembered and shown.
 */
import { parseDocument } from "../config/document.ts"
import { parseDotenv } from "../config/dotenv.ts"
import type { Environment } from "../config/environment.ts"
import { plan, type World } from "../config/plan.ts"
import { readPresets } from "../config/presets.ts"
import { ConfigError, formatIssue, type Issue } from "../lib/errors.ts"
import type { Log } from "../lib/log.ts"
import type { DocumentTexts } from "../store/documents.ts"
import type { Paths } from "../store/paths.ts"
import { readTemplates } from "../template/instance.ts"
import type { Agent, Applied } from "./agent.ts"
import type { Instances } from "./instances.ts"

export type ReloadDeps = {
  readonly agent: Pick<Agent, "setPresets" | "refuse">
  readonly instances: Pick<Instances, "update">
  readonly log: Log
  /** Where the documents are, for messages. */
  readonly paths: Paths
  /** Their texts at this moment. */
  read(): DocumentTexts
  readonly world: Omit<World, "dotenv">
}

/** What a reload did; `issues` are all that is wrong now. */
export type ReloadResult = { readonly applied: Applied | undefined; readonly issues: readonly Issue[] }

/** Gives the function that reloads. It is synchronous, so two reloads never overlap. */
export function createReload({ agent, instances, log, paths, read, world }: ReloadDeps): () => ReloadResult {
  let dotenv: Environment = {}
  let presets = ""
  let reported = ""
  let loaded = false
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
      // Each of the small documents is refused alone.
      const attempt = (read: () => void) => {
        try {
          read()
        } catch (error) {
          if (!(error instanceof ConfigError)) throw error
          issues.push(...error.issues)
        }
      }
      attempt(() => {
        dotenv = parseDotenv(texts.dotenv ?? "", paths.dotenv)
      })
      attempt(() => {
        const read = readPresets(parseDocument(texts.presets ?? "{}", paths.presets))
        issues.push(...read.issues)
        if (presets !== (texts.presets ?? "")) agent.setPresets(read.presets)
        presets = texts.presets ?? ""
      })
      // To start with, an empty file or none is an empty document; later it is one that is being written or moved.
      if (loaded && (texts.config ?? "").trim() === "")
        throw new ConfigError([
          {
            code: "json",
            severity: "error",
            file: paths.file,
            line: 1,
            column: 1,
            message: `${texts.config === undefined ? "the file is gone" : "not valid JSON: the file is empty"}; {} stops all servers`,
          },
        ])
      const document = parseDocument(texts.config ?? "", paths.file)
      const surroundings = { ...world, dotenv }
      const planned = plan(document, surroundings)
      const templates = readTemplates(document, planned.templates, surroundings)
      const whole = {
        ...planned,
        templates: templates.named.map(({ name }) => name),
        issues: [...issues, ...planned.issues, ...templates.issues],
      }
      const applied = instances.update(whole, templates)
      loaded = true
      report(whole.issues)
      return { applied, issues: whole.issues }
    } catch (error) {
      const found: readonly Issue[] =
        error instanceof ConfigError
          ? error.issues
          : [
              {
                code: "read",
                severity: "error",
                message: error instanceof Error ? error.message : String(error),
                file: paths.file,
              },
            ]
      const all = [...issues, ...found]
      agent.refuse(all)
      report(all)
      return { applied: undefined, issues: all }
    }
  }
}
