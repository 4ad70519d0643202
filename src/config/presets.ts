/** `presets.json`: named views of the catalog. choice: Configuration, `{presets: {name: {filter?, servers?, allow?, …}}}`. */
import { ConfigError, type Issue, RequestError } from "../lib/errors.ts"
import { unknownNameError } from "../lib/nearest.ts"
import { schemaProblem } from "../lib/schema-problem.ts"
import { isObject } from "../wire/message.ts"
import { type Document, issueAt, type Path, parseDocument, unknownKeys } from "./document.ts"
import { type Edit, setAt } from "./edit.ts"
import { schemas } from "./lazy-schema.ts"
import { parseResultBudget, type ResultBudget } from "./result-budget.ts"
import type { PresetConfig } from "./schema.ts"
import { allOf, formatFilterProblem, parseFilter, type TagFilter } from "./tag-filter.ts"
import type { ToolListing } from "./tool-listing.ts"

export type Preset = {
  /** The expression over tags as written; empty for all servers. */
  readonly text: string
  readonly filter: TagFilter
  /** Names or globs of servers; undefined for all. */
  readonly servers?: readonly string[] | undefined
  /** Globs over `server/tool`, `server/prompt:NAME` and `server/resource:URI`; undefined for all. */
  readonly allow?: readonly string[] | undefined
  /** Such globs of what is left out; they win. */
  readonly deny?: readonly string[] | undefined
  /** Whether only tools that are marked read-only are included. */
  readonly readOnly?: boolean | undefined
  /** New names of tools, by `server/tool`. */
  readonly names?: Readonly<Record<string, string>> | undefined
  /** What stands before the names of tools and prompts: `server`, `none`, or a text. */
  readonly prefix?: string | undefined
  readonly separator?: string | undefined
  /** `hold`: only tools in `approved` are included. */
  readonly new?: "show" | "hold" | undefined
  /** Tools, as `server/tool`. */
  readonly approved?: ReadonlySet<string> | undefined
  /** The most calls per minute of a credential, by globs over `server/tool`; each tool counts on its own. */
  readonly limits?: Readonly<Record<string, number>> | undefined
  /** The groups of an issuer whose members are bound to this preset. */
  readonly groups?: readonly string[] | undefined
  readonly description: string | undefined
  readonly tools?: ToolListing | undefined
  /** Names and patterns of tools that a lazy view lists too. */
  readonly alwaysVisible?: readonly string[] | undefined
  readonly resultBudget?: ResultBudget | undefined
}

/** The valid presets of a document by name, and the issues of the others. */
export type Presets = { readonly presets: ReadonlyMap<string, Preset>; readonly issues: readonly Issue[] }

/**
 * Reads the presets of a document. An invalid preset becomes an issue with its position. Throws a ConfigError if `presets`
 * is not an object.
 */
export function readPresets(document: Document): Presets {
  const issues: Issue[] = [...document.issues]
  issues.push(...unknownKeys(document, document.value, ["$schema", "presets"], []))
  const written = document.value.presets ?? {}
  if (!isObject(written))
    throw new ConfigError([
      issueAt(document, "error", "type", ["presets"], "presets must be an object of presets by name"),
    ])
  const presets = new Map<string, Preset>()
  for (const [name, value] of Object.entries(written)) {
    const path = ["presets", name]
    const parsed = schemas().presetSchema().safeParse(value, { error: schemaProblem })
    if (!parsed.success) {
      for (const problem of parsed.error.issues) {
        const at = [...path, ...(problem.path as Path)]
        const where = at.slice(2).map((key) => `${String(key)}: `)
        const message = `preset ${name} is not loaded: ${where.join("")}${problem.message}`
        issues.push(issueAt(document, "error", "type", at, message))
      }
      continue
    }
    issues.push(...unknownKeys(document, value, Object.keys(schemas().presetSchema().shape), path))
    const { filter: text = "", resultBudget: written, approved: names, ...rest } = parsed.data
    const approved = names === undefined ? {} : { approved: new Set(names) }
    const resultBudget = written === undefined ? undefined : parseResultBudget(written)
    if (text === "" && !SELECTING.some((key) => rest[key] !== undefined)) {
      const message = `preset ${name} is not loaded: it selects nothing; write "filter", "servers", "allow", "deny", "readOnly", "new", "limits", "names" or "prefix"`
      issues.push(issueAt(document, "error", "type", path, message))
      continue
    }
    const read = text === "" ? { filter: allOf([]) } : parseFilter(text)
    if ("problem" in read) {
      const message = `preset ${name} is not loaded: ${formatFilterProblem("its filter", read.problem)}`
      issues.push(issueAt(document, "error", "filter", [...path, "filter"], message))
    } else
      presets.set(name, {
        ...rest,
        ...approved,
        text,
        filter: read.filter,
        description: rest.description,
        resultBudget,
      })
  }
  return { presets, issues }
}

/** Adds a preset. Throws a RequestError if the name is taken or does not fit in a URL, or if the filter is invalid. */
export const createPreset =
  (name: string, preset: PresetConfig): Edit =>
  (text) => {
    if (!NAME.test(name))
      throw new RequestError(
        "invalid_params",
        "The name of a preset must be 1 to 64 letters, digits, dots, dashes or underscores",
      )
    if (writtenIn(text).includes(name)) throw new RequestError("conflict", `there is already a preset named ${name}`)
    if (preset.filter !== undefined) checkFilter(preset.filter)
    return checked(setAt(text, ["presets", name], preset, FILE), name)
  }

/** Changes the given members of a preset; null, or an empty text or list, removes one. Throws a RequestError. */
export const editPreset =
  (name: string, patch: { readonly [Key in keyof PresetConfig]?: PresetConfig[Key] | null | undefined }): Edit =>
  (text) => {
    checkExists(text, name)
    if (typeof patch.filter === "string" && patch.filter !== "") checkFilter(patch.filter)
    const changed = Object.entries(patch).reduce(
      (before, [key, value]) =>
        value === undefined
          ? before
          : setAt(before, ["presets", name, key], isEmptyMember(value) ? undefined : value, FILE),
      text,
    )
    return checked(changed, name)
  }

/** Removes a preset. Throws a RequestError if there is none of this name. */
export const deletePreset =
  (name: string): Edit =>
  (text) => {
    checkExists(text, name)
    return setAt(text, ["presets", name], undefined, FILE)
  }

/** Whether a member of a preset has no value: null, or an empty text, list or object. */
export const isEmptyMember = (value: unknown): boolean =>
  value === null || value === "" || (typeof value === "object" && Object.keys(value).length === 0)

// ---

const FILE = "presets.json"
/** The members of which a preset needs one. */
const SELECTING = ["servers", "allow", "deny", "readOnly", "new", "limits", "names", "prefix"] as const

/** Returns a text whose preset of this name is valid. Throws a RequestError with the problem. */
function checked(text: string, name: string): string {
  const { presets, issues } = readPresets(parseDocument(text, FILE))
  const problem = issues.find(({ path }) => path?.[1] === name)
  if (presets.has(name) || problem === undefined) return text
  throw new RequestError("invalid_params", problem.message.replace(`preset ${name} is not loaded: `, ""))
}

const NAME = /^[\w.-]{1,64}$/

function writtenIn(text: string): readonly string[] {
  const { presets } = parseDocument(text, FILE).value
  return isObject(presets) ? Object.keys(presets) : []
}

function checkExists(text: string, name: string): void {
  const names = writtenIn(text)
  if (names.includes(name)) return
  throw unknownNameError("preset", name, names)
}

function checkFilter(text: string): void {
  const parsed = parseFilter(text)
  if ("problem" in parsed) throw new RequestError("invalid_params", formatFilterProblem("the filter", parsed.problem))
}
