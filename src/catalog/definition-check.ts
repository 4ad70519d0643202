/**
 * Checks what a backend says about itself and its tools, prompts and resources, once, when it arrives. Clients on the official
 * SDKs refuse a whole list, or the whole handshake, because of one member that they do not understand: through svc, one entry
 * of one server would cost a client the entries of all servers.
 *
 *  1. Repairs what can only mean one thing: a null member is absent, an empty list in place of an object is an empty object, the
 *     type of arguments is `object`.
 *  2. An optional member of another type is left out. An entry without a usable required member is left out.
 *  3. An output schema that clients cannot compile is left out: the tool works without it.
 *  4. A number beyond the range of doubles is left out where clients read it as infinite and refuse it.
 *  5. Everything else stays the same object, with unknown members.
 *
 * Nothing is compiled. The work is linear in the entry, and bounded for schemas.
 */
import { JsonNumber, numberOf } from "../lib/json.ts"
import { cutText } from "../lib/text.ts"
import type { Era } from "../wire/era.ts"
import { isObject, type Params } from "../wire/message.ts"
import type { DefinitionIssue, ListingEntry, ListMethod } from "./listing.ts"
import { checkSchema, joined, withMembers } from "./schema-check.ts"

/** An entry after its check; undefined if it is left out. `steps` is the work done, in members and values. */
export type CheckedEntry = {
  readonly entry: ListingEntry | undefined
  readonly issues: readonly DefinitionIssue[]
  readonly steps: number
}

/** Checks an entry of a list of a backend of `era`; `place` counts the entries from 1. */
export function checkEntry(method: ListMethod, era: Era, entry: unknown, place: number): CheckedEntry {
  const { kind, key, rule } = ENTRIES[method]
  const given = isObject(entry) ? entry[key] : undefined
  const notes = new Notes(kind, cutText(typeof given === "string" ? given : `no. ${place}`, MAX_NAME), era)
  if (!isObject(entry)) notes.add("", "is not an object: left out")
  else if (typeof given !== "string")
    notes.add(key, `${given === undefined ? "is missing" : "is not a string"}: the ${kind} is left out`)
  const checked = typeof given === "string" ? rule(entry, "", notes) : undefined
  return { entry: isObject(checked) ? checked : undefined, issues: notes.issues, steps: notes.steps }
}

/** What a backend states of itself. */
export type Handshake = {
  readonly serverInfo: Params
  readonly capabilities: Params
  readonly instructions: string | undefined
  /** The unknown members of the result, and `_meta`. */
  readonly members: Params | undefined
}

/** Checks the handshake of a server. Missing objects become empty ones. */
export function checkHandshake(
  server: string,
  { serverInfo, capabilities, instructions, members }: Readonly<Record<keyof Handshake, unknown>>,
): Handshake & { readonly handshakeIssues: readonly DefinitionIssue[] } {
  const notes = new Notes("server", server, "legacy")
  const checked = (value: unknown, rule: Rule, path: string) =>
    value === undefined ? undefined : optional(value, rule, path, notes)
  const checkedObject = (value: unknown, rule: Rule, path: string) => {
    const found = inRange(checked(value, rule, path), path, notes)
    return isObject(found) ? found : undefined
  }
  const said = checked(instructions, text, "instructions")
  return {
    serverInfo: checkedObject(serverInfo, SERVER_INFO, "serverInfo") ?? {},
    capabilities: checkedObject(capabilities, CAPABILITIES, "capabilities") ?? {},
    instructions: typeof said === "string" ? said : undefined,
    members: checkedObject(members, RESULT_MEMBERS, ""),
    handshakeIssues: notes.issues,
  }
}

/** Checks the members beside a list. */
export const checkResultMembers = (members: Params): Params => {
  const checked = RESULT_MEMBERS(members, "", new Notes("server", "", "legacy"))
  return isObject(checked) ? checked : {}
}

/**
 * Returns a tool of a modern backend as legacy clients accept it: without an output schema that is not one of an object, and
 * with objects in place of `true` and `false` as schemas of properties.
 */
export function legacyTool<T extends Params>(tool: T): T {
  const notes = new Notes("tool", "", "legacy")
  const { inputSchema, outputSchema } = tool
  const input = isObject(inputSchema) ? withObjects(inputSchema, "", notes) : inputSchema
  const output =
    !isObject(outputSchema) || outputSchema.type !== "object" ? undefined : withObjects(outputSchema, "", notes)
  if (input === inputSchema && output === outputSchema) return tool
  return withMembers(
    tool,
    new Map([
      ["inputSchema", input],
      ["outputSchema", output],
    ]),
  ) as T
}

/**
 * Returns the issues of a server as texts, similar ones in one text, entries that are left out first: `tools a, b, c and 2
 * more: title is null: left out`.
 */
export function definitionTexts(issues: readonly DefinitionIssue[]): readonly string[] {
  const groups = new Map<string, { readonly kind: string; readonly text: string; readonly names: Set<string> }>()
  const isWhole = ({ kind, member, reason }: DefinitionIssue) =>
    member === "" || reason.endsWith(`the ${kind} is left out`)
  for (const { kind, name, member, reason } of [...issues.filter(isWhole), ...issues.filter((one) => !isWhole(one))]) {
    const text = `${member === "" ? "" : `${member} `}${reason}`
    const key = JSON.stringify([kind, text])
    const group = groups.get(key) ?? { kind, text, names: new Set<string>() }
    groups.set(key, group)
    group.names.add(name)
  }
  const texts = [...groups.values()].map(({ kind, text, names }) => {
    if (kind === "server") return text
    const shown = [...names].slice(0, MAX_NAMED).join(", ")
    const more = names.size - MAX_NAMED
    return `${kind}${names.size === 1 ? "" : "s"} ${shown}${more > 0 ? ` and ${more} more` : ""}: ${text}`
  })
  const more = texts.length - MAX_TEXTS
  return more > 0 ? [...texts.slice(0, MAX_TEXTS), `${more} more findings in its definitions`] : texts
}

// ---

/** Characters of a name. */
const MAX_NAME = 100
/** The most issues that svc keeps of an entry. */
const MAX_ISSUES = 20
/** The most names in one text. */
const MAX_NAMED = 3
/** The most texts about one server. */
const MAX_TEXTS = 10

/** Collects the issues of one entry. */
class Notes {
  steps = 0
  readonly issues: DefinitionIssue[] = []
  constructor(
    readonly kind: DefinitionIssue["kind"],
    readonly name: string,
    readonly era: Era,
  ) {}

  add(member: string, reason: string): void {
    const { kind, name } = this
    if (this.issues.length < MAX_ISSUES) this.issues.push({ kind, name, member, reason })
  }
}

/** Returns a value as it may stand at `path`: itself, a repaired one, or undefined to leave it out. Never gets null. */
type Rule = (value: unknown, path: string, notes: Notes) => unknown

/** Applies a rule to an optional member. */
function optional(value: unknown, rule: Rule, path: string, notes: Notes): unknown {
  notes.steps++
  if (value !== null) return rule(value, path, notes)
  notes.add(path, "is null: left out")
  return undefined
}

/** Leaves out a value for which `holds` is false. */
const only =
  (holds: (value: unknown) => boolean, what: string): Rule =>
  (value, path, notes) => {
    if (holds(value)) return value
    notes.add(path, `is not ${what}: left out`)
    return undefined
  }

const text = only((value) => typeof value === "string", "a string")
const flag = only((value) => typeof value === "boolean", "true or false")
const number = only((value) => Number.isFinite(numberOf(value)), "a number")
const oneOf = (...words: readonly string[]): Rule =>
  only((value) => words.some((word) => word === value), words.join(" or "))

const isEmptyList = (value: unknown): boolean => Array.isArray(value) && value.length === 0
const isEmptyObject = (value: unknown): boolean => isObject(value) && Object.keys(value).length === 0

/** Checks an object with these optional members; other members stay. */
const object =
  (members: Readonly<Record<string, Rule>> = {}): Rule =>
  (value, path, notes) => {
    if (isEmptyList(value)) {
      notes.add(path, "is an empty list: read as an empty object")
      return {}
    }
    if (!isObject(value)) {
      notes.add(path, "is not an object: left out")
      return undefined
    }
    return changed(value, Object.keys(members), (key, member) => {
      const rule = members[key]
      return rule === undefined ? member : optional(member, rule, joined(path, key), notes)
    })
  }

/** Checks an object whose members all have the same rule. */
const recordOf =
  (rule: Rule): Rule =>
  (value, path, notes) => {
    const checked = object()(value, path, notes)
    if (!isObject(checked)) return undefined
    return changed(checked, Object.keys(checked), (key, member) => optional(member, rule, joined(path, key), notes))
  }

/** Returns an object with other values for some of its members; the object itself if nothing changes. */
function changed(value: Params, keys: readonly string[], change: (key: string, member: unknown) => unknown): Params {
  const changes = new Map<string, unknown>()
  for (const key of keys) {
    if (!Object.hasOwn(value, key)) continue
    const now = change(key, value[key])
    if (now !== value[key]) changes.set(key, now)
  }
  return changes.size === 0 ? value : withMembers(value, changes)
}

/** Checks a list: leaves out items that the rule leaves out. */
const listOf =
  (rule: Rule): Rule =>
  (value, path, notes) => {
    if (isEmptyObject(value)) {
      notes.add(path, "is an empty object: read as an empty list")
      return []
    }
    if (!Array.isArray(value)) {
      notes.add(path, "is not a list: left out")
      return undefined
    }
    const items = value.map((item: unknown, at) => optional(item, rule, joined(path, at), notes))
    return items.every((item, at) => item === value[at]) ? value : items.filter((item) => item !== undefined)
  }

/** Checks an item that needs a text in `key`. */
const withText =
  (key: string, rule: Rule): Rule =>
  (value, path, notes) => {
    if (isObject(value) && typeof value[key] === "string") return rule(value, path, notes)
    notes.add(path, `has no ${key}: left out`)
    return undefined
  }

/** Whether a value contains a number that is infinite as a double. SDK 2 takes no such number for JSON. */
function isEndless(value: unknown, notes: Notes): boolean {
  notes.steps++
  if (typeof value === "number" || value instanceof JsonNumber) return !Number.isFinite(numberOf(value))
  if (typeof value !== "object" || value === null) return false
  for (const item of Object.values(value)) if (isEndless(item, notes)) return true
  return false
}

/** Returns a value without its members and items that are infinite numbers; the value itself if it has none. */
const inRange = (value: unknown, path: string, notes: Notes): unknown =>
  isEndless(value, notes) ? withoutEndless(value, path, notes) : value

function withoutEndless(value: unknown, path: string, notes: Notes): unknown {
  notes.steps++
  if (Array.isArray(value)) {
    const items = value.map((item: unknown, at) => withoutEndless(item, joined(path, at), notes))
    return items.filter((item) => item !== undefined)
  }
  if (isObject(value))
    return changed(value, Object.keys(value), (key, member) => withoutEndless(member, joined(path, key), notes))
  if (Number.isFinite(numberOf(value) ?? 0)) return value
  notes.add(path, "is a number that is too large: left out")
  return undefined
}

const META = object()
const ICONS = listOf(withText("src", object({ mimeType: text, sizes: listOf(text), theme: oneOf("light", "dark") })))
const ANNOTATIONS = object({
  audience: only(
    (value) => Array.isArray(value) && value.every((one) => one === "user" || one === "assistant"),
    "a list of user and assistant",
  ),
  priority: only((value) => Number(numberOf(value)) >= 0 && Number(numberOf(value)) <= 1, "a number from 0 to 1"),
  lastModified: only((value) => typeof value === "string" && TIMESTAMP.test(value), "a time in ISO 8601"),
})
/** Of the texts that JavaScript's `Date` reads, the SDKs accept this form. */
const TIMESTAMP = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?:Z|[+-]\d{2}:\d{2})$/

/** The members that all entries may have. */
const BASE = { title: text, description: text, icons: ICONS, _meta: META }

const TOOL_MEMBERS = object({
  ...BASE,
  annotations: object({
    title: text,
    readOnlyHint: flag,
    destructiveHint: flag,
    idempotentHint: flag,
    openWorldHint: flag,
  }),
  execution: object({ taskSupport: oneOf("required", "optional", "forbidden") }),
})

const TOOL: Rule = (value, path, notes) => {
  const checked = TOOL_MEMBERS(value, path, notes)
  if (!isObject(checked)) return undefined
  const input = inputSchema(checked.inputSchema, notes)
  if (input === undefined) return undefined
  const output =
    checked.outputSchema === undefined ? undefined : optional(checked.outputSchema, outputSchema, "outputSchema", notes)
  if (input === checked.inputSchema && output === checked.outputSchema) return checked
  return "inputSchema" in checked
    ? withMembers(
        checked,
        new Map([
          ["inputSchema", input],
          ["outputSchema", output],
        ]),
      )
    : { ...withMembers(checked, new Map([["outputSchema", output]])), inputSchema: input }
}

const PROMPT = object({
  ...BASE,
  arguments: listOf(withText("name", object({ title: text, description: text, required: flag }))),
})

/** Gives a resource without a name the name that clients would show for it. */
const named =
  (key: string, rule: Rule): Rule =>
  (value, path, notes) => {
    if (!isObject(value) || typeof value.name === "string") return rule(value, path, notes)
    notes.add(
      "name",
      `${value.name === undefined ? "is missing" : "is not a string"}: the ${key === "uri" ? "URI" : "template"} is used as the name`,
    )
    return rule({ ...value, name: value[key] }, path, notes)
  }

const RESOURCE = object({ ...BASE, mimeType: text, size: number, annotations: ANNOTATIONS })

const ENTRIES: Readonly<
  Record<ListMethod, { readonly kind: DefinitionIssue["kind"]; readonly key: string; readonly rule: Rule }>
> = {
  "tools/list": { kind: "tool", key: "name", rule: TOOL },
  "prompts/list": { kind: "prompt", key: "name", rule: PROMPT },
  "resources/list": { kind: "resource", key: "uri", rule: named("uri", RESOURCE) },
  "resources/templates/list": {
    kind: "resource template",
    key: "uriTemplate",
    rule: named("uriTemplate", object({ ...BASE, mimeType: text, annotations: ANNOTATIONS })),
  },
}

/** A capability: some servers write `true` for an object without members, and `false` for none. */
const capability =
  (rule: Rule): Rule =>
  (value, path, notes) => {
    if (typeof value !== "boolean") return rule(value, path, notes)
    notes.add(path, value ? "is true: read as an empty object" : "is false: left out")
    return value ? {} : undefined
  }
const CAPABILITIES = object({
  experimental: recordOf(object()),
  logging: capability(object()),
  completions: capability(object()),
  prompts: capability(object({ listChanged: flag })),
  resources: capability(object({ subscribe: flag, listChanged: flag })),
  tools: capability(object({ listChanged: flag })),
  tasks: object({
    list: capability(object()),
    cancel: capability(object()),
    requests: object({ tools: object({ call: capability(object()) }) }),
  }),
  extensions: recordOf(object()),
})
const SERVER_INFO = object({
  name: text,
  version: text,
  title: text,
  websiteUrl: text,
  description: text,
  icons: ICONS,
})
const RESULT_MEMBERS = object({
  _meta: object({
    progressToken: only((value) => typeof value === "string" || Number.isSafeInteger(numberOf(value)), "a token"),
    "io.modelcontextprotocol/related-task": withText("taskId", object()),
  }),
})

/** Returns the schema of a tool's arguments, which are always an object; undefined if the tool is of no use. */
function inputSchema(value: unknown, notes: Notes): Params | undefined {
  const path = "inputSchema"
  if (value === undefined || value === null || value === true || isEmptyList(value)) {
    const what = value === undefined ? "is missing" : `is ${value === null ? "null" : "empty"}`
    notes.add(path, `${what}: read as any arguments`)
    return { type: "object" }
  }
  if (!isObject(value)) {
    notes.add(path, "is not a schema: the tool is left out")
    return undefined
  }
  const typed = withObjectType(value, path, notes)
  if (typed === undefined) {
    notes.add(joined(path, "type"), "is not object: the tool is left out")
    return undefined
  }
  const usable = withObjects(
    changed(typed, ["required", "$schema"], (key, member) => {
      if (member === null) return member
      return key === "required"
        ? listOf(text)(member, joined(path, key), notes)
        : text(member, joined(path, key), notes)
    }),
    path,
    notes,
  )
  const { schema, repairs, problem, steps } = checkSchema(usable, false)
  notes.steps += steps
  for (const repair of repairs) notes.add(joined(path, repair.path), repair.reason)
  if (problem?.isMalformed === true)
    notes.add(joined(path, problem.path), `${problem.reason}: kept, but model APIs may refuse it`)
  return schema
}

/** Returns the schema of a tool's structured results; undefined if clients cannot use it. */
function outputSchema(value: unknown, path: string, notes: Notes): Params | undefined {
  const leaveOut = (at: string, reason: string) => {
    notes.add(at, `${reason}: ${path} is left out`)
    return undefined
  }
  // A schema that says nothing would still oblige the server to return structured results.
  if (isEmptyList(value) || isEmptyObject(value) || value === true) return leaveOut(path, "is empty")
  if (!isObject(value)) return leaveOut(path, "is not a schema")
  const typed = notes.era === "modern" ? value : withObjectType(value, path, notes)
  if (typed === undefined) return leaveOut(joined(path, "type"), "is not object")
  const usable = notes.era === "modern" ? typed : withObjects(typed, path, notes)
  const { schema, repairs, problem, steps } = checkSchema(usable, true)
  notes.steps += steps
  if (problem !== undefined) return leaveOut(problem.path === "" ? path : joined(path, problem.path), problem.reason)
  for (const repair of repairs) notes.add(joined(path, repair.path), repair.reason)
  return schema
}

/** Returns a schema with the type `object`, if that is what it says or leaves open; else undefined. */
function withObjectType(schema: Params, path: string, notes: Notes): Params | undefined {
  const { type } = schema
  if (type === "object") return schema
  const isOpen =
    type === undefined || type === null || (Array.isArray(type) && (type.length === 0 || type.includes("object")))
  if (!isOpen && !(typeof type === "string" && type.toLowerCase() === "object")) return undefined
  notes.add(joined(path, "type"), `${type === undefined ? "is missing" : "is not the word object"}: read as object`)
  return "type" in schema ? withMembers(schema, new Map([["type", "object"]])) : { type: "object", ...schema }
}

/** Returns the schema of an object whose properties all have objects as schemas: SDK 1 accepts nothing else. */
function withObjects(schema: Params, path: string, notes: Notes): Params {
  const { properties } = schema
  if (properties === undefined || properties === null || isEmptyList(properties)) return schema
  const at = joined(path, "properties")
  if (!isObject(properties)) {
    notes.add(at, "is not an object: left out")
    return withMembers(schema, new Map([["properties", undefined]]))
  }
  const checked = changed(properties, Object.keys(properties), (key, property) => {
    notes.steps++
    if (isObject(property)) return inRange(property, joined(at, key), notes)
    const isFalse = property === false
    if (notes.era === "legacy" || typeof property !== "boolean")
      notes.add(
        joined(at, key),
        `${typeof property === "boolean" ? `is ${property}` : "is not a schema"}: read as ${isFalse ? "a schema that nothing matches" : "any value"}`,
      )
    else return property
    return isFalse ? { not: {} } : {}
  })
  return checked === properties ? schema : withMembers(schema, new Map([["properties", checked]]))
}
