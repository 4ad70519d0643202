/** `presets.json`: named filters over tags. choice: Configuration, `{presets: {name: {filter, description?}}}`. */
import { ConfigError, type Issue, RequestError } from "../lib/errors.ts"
import { unknownNameError } from "../lib/nearest.ts"
import { schemaProblem } from "../lib/schema-problem.ts"
import { isObject } from "../wire/message.ts"
import { type Document, issueAt, type Path, parseDocument, unknownKeys } from "./document.ts"
import { type Edit, setAt } from "./edit.ts"
import { schemas } from "./lazy-schema.ts"
import { parseResultBudget, type ResultBudget } from "./result-budget.ts"
import type { PresetConfig } from "./schema.ts"
import { formatFilterProblem, parseFilter, type TagFilter } from "./tag-filter.ts"
import type { ToolListing } from "./tool-listing.ts"

export type Preset = {
  /** The expression as written. */
  readonly text: string
  readonly filter: TagFilter
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
    const { filter: text, description, tools, alwaysVisible, resultBudget: written } = parsed.data
    const resultBudget = written === undefined ? undefined : parseResultBudget(written)
    const read = parseFilter(text)
    if ("problem" in read) {
      const message = `preset ${name} is not loaded: ${formatFilterProblem("its filter", read.problem)}`
      issues.push(issueAt(document, "error", "filter", [...path, "filter"], message))
    } else presets.set(name, { text, filter: read.filter, description, tools, alwaysVisible, resultBudget })
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
    checkFilter(preset.filter)
    return setAt(text, ["presets", name], preset, FILE)
  }

/** Changes the given members of a preset; an empty description removes it. Throws a RequestError. */
export const editPreset =
  (
    name: string,
    patch: {
      readonly filter?: string | undefined
      readonly description?: string | undefined
      readonly tools?: ToolListing | undefined
      readonly resultBudget?: string | undefined
    },
  ): Edit =>
  (text) => {
    checkExists(text, name)
    let changed = text
    if (patch.filter !== undefined) {
      checkFilter(patch.filter)
      changed = setAt(changed, ["presets", name, "filter"], patch.filter, FILE)
    }
    if (patch.tools !== undefined) changed = setAt(changed, ["presets", name, "tools"], patch.tools, FILE)
    if (patch.resultBudget !== undefined)
      changed = setAt(changed, ["presets", name, "resultBudget"], patch.resultBudget, FILE)
    if (patch.description !== undefined)
      changed = setAt(changed, ["presets", name, "description"], patch.description || undefined, FILE)
    return changed
  }

/** Removes a preset. Throws a RequestError if there is none of this name. */
export const deletePreset =
  (name: string): Edit =>
  (text) => {
    checkExists(text, name)
    return setAt(text, ["presets", name], undefined, FILE)
  }

// ---

const FILE = "presets.json"
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
