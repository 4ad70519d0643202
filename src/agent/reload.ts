/**
 * Applies the configuration files to the running svc. Every lasting change edits a file and takes effect by a reload. If a
 * file is broken, its last valid content stays in effect: the plan, the environment of `.env`, or the presets. The issues of
 * all files are recorded and shown.
 */
import { type Document, parseDocument } from "../config/document.ts"
import { parseDotenv } from "../config/dotenv.ts"
import type { Environment } from "../config/environment.ts"
import { readNotifyTargets } from "../config/notify.ts"
import type { HostEnvironment, LastValid } from "../config/plan.ts"
import { readPresets } from "../config/presets.ts"
import { readRegistries } from "../config/registries.ts"
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
export function createReload(deps: ReloadDeps): () => ReloadResult {
  const reload = new Reload(deps)
  return () => reload.run()
}

// ---

class Reload {
  /** The last valid content of each file. */
  private dotenv: Environment = {}
  private presets = ""
  private plan: LastValid | undefined
  /** The issues that were logged last. */
  private logged = ""

  constructor(private readonly deps: ReloadDeps) {}

  run(): ReloadResult {
    const { agent, paths, read } = this.deps
    const issues: Issue[] = []
    try {
      const texts = read()
      // A broken or unreadable `.env` or presets.json is refused alone.
      issues.push(...issuesIn(paths.dotenv, () => this.readDotenv(texts)))
      issues.push(...issuesIn(paths.presets, () => this.readPresets(texts)))
      const { applied, found } = this.update(texts.config(), issues)
      this.log(found)
      return { applied, issues: found }
    } catch (error) {
      const all = [...issues, ...issuesOf(error, paths.file)]
      agent.refuse(all)
      this.log(all)
      return { applied: undefined, issues: all }
    }
  }

  // ---

  private readDotenv(texts: DocumentTexts): readonly Issue[] {
    const { paths } = this.deps
    this.dotenv = parseDotenv(texts.dotenv() ?? "", paths.dotenv)
    return []
  }

  private readPresets(texts: DocumentTexts): readonly Issue[] {
    const { agent, paths } = this.deps
    const text = texts.presets()
    const { presets, issues } = readPresets(parseDocument(text ?? "{}", paths.presets))
    if (this.presets !== (text ?? "")) agent.setPresets(presets)
    this.presets = text ?? ""
    return issues
  }

  /** Applies the text of the configuration. Throws a ConfigError if it cannot be used. */
  private update(text: string | undefined, before: readonly Issue[]) {
    const { instances, paths, world } = this.deps
    // At the start, a missing file is an empty document. Later, an editor may be about to put a new file in its place.
    if (text === undefined ? this.plan !== undefined : text.trim() === "") throw emptyDocument(text, paths.file)
    const document = parseDocument(text ?? "", paths.file)
    const sources = { ...world, dotenv: this.dotenv }
    const { plan, templates } = planDocument(document, sources, this.plan)
    const notify = readNotifyTargets(document, sources)
    const found = [...before, ...plan.issues, ...notify.issues, ...registryIssues(document, sources)]
    const applied = instances.update({ ...plan, issues: found }, templates)
    this.plan = {
      servers: new Map(plan.specs.map((spec) => [spec.name, spec])),
      templates: new Map([...templates.named, ...templates.fixed].map(({ name, config }) => [name, config])),
    }
    return { applied, found }
  }

  private log(issues: readonly Issue[]): void {
    const text = issues.map(formatIssue).join("\n")
    if (text === this.logged) return
    this.logged = text
    for (const issue of issues) this.deps.log[issue.severity === "error" ? "error" : "warn"](formatIssue(issue))
  }
}

/** Reads a file; returns its issues. */
function issuesIn(file: string, load: () => readonly Issue[]): readonly Issue[] {
  try {
    return load()
  } catch (error) {
    if (!(error instanceof ConfigError || error instanceof UnavailableError)) throw error
    return issuesOf(error, file)
  }
}

/** Returns why the registries of a document cannot be used. A reference whose value is not known here is no reason. */
const registryIssues = (document: Document, sources: HostEnvironment): readonly Issue[] =>
  issuesIn(document.file, () => {
    const references = (name: string) => sources.references?.(name) ?? { value: "" }
    readRegistries(document, { ...sources, references })
    return []
  })

function emptyDocument(text: string | undefined, file: string): ConfigError {
  const what = text === undefined ? "the file is gone" : "not valid JSON: the file is empty"
  const message = `${what}; write {} for a configuration without servers`
  return new ConfigError([{ code: "json", severity: "error", file, line: 1, column: 1, message }])
}

/** Returns the issues of a document that could not be read or planned. */
const issuesOf = (error: unknown, file: string): readonly Issue[] =>
  error instanceof ConfigError ? error.issues : [{ code: "read", severity: "error", message: messageOf(error), file }]
