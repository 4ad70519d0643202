/**
 * Checks the JSON Schemas of tools by their structure, without compiling them, in linear time.
 *
 * Clients on the official SDKs compile the output schemas of all tools: SDK 1 when it lists them, where one that cannot be
 * compiled costs the client the whole list, and SDK 2 before a call. `problem` covers what makes a compiler throw: keywords of
 * a wrong type, references without a target, expressions that are none. A schema may be sound and have a problem here, if one
 * SDK does not support it.
 */
import { numberOf } from "../lib/json.ts"
import { isObject, type Params } from "../wire/message.ts"

export type CheckedSchema = {
  /** The schema with its repairs; the given object if there are none. */
  readonly schema: Params
  readonly repairs: readonly SchemaNote[]
  /** Why clients cannot use the schema. */
  readonly problem: SchemaProblem | undefined
  /** The work done, in keywords and values. */
  readonly steps: number
}

/** A place in a schema, such as `properties.a.items`, and what is wrong there, as the end of a sentence. */
type SchemaNote = { readonly path: string; readonly reason: string }
type SchemaProblem = SchemaNote & {
  /** Whether JSON Schema itself forbids it; else only a client's implementation does. */
  readonly isMalformed: boolean
}

/**
 * Repairs what has one meaning (a keyword that is null is absent, an empty list for an object is an empty object) and finds the
 * first problem. With `forClients`, also leaves out keywords that JSON Schema ignores and SDK 1 refuses.
 */
export function checkSchema(schema: Params, forClients: boolean): CheckedSchema {
  const walk = new Walk(forClients)
  const checked = walk.schema(schema, "", 0) as Params
  if (walk.problem === undefined) walk.resolve(checked)
  return { schema: checked, repairs: walk.repairs, problem: walk.problem, steps: walk.steps }
}

/** Returns the path of a member: `properties.a`. Cuts long names. */
export const joined = (path: string, key: string | number): string =>
  path.length > MAX_PATH ? path : `${path === "" ? "" : `${path}.`}${String(key).slice(0, MAX_PATH)}`

// ---

/** The most keywords and values of a schema that svc looks at. */
const MAX_STEPS = 20_000
/** The most levels of schemas within each other. */
const MAX_DEPTH = 100
/** The most references from one schema to the next, without a schema between them. */
const MAX_HOPS = 20
/** The most keywords of all targets of references together: compilers copy small targets to each reference. */
const MAX_COPIED = 50_000
/** Characters of an expression. */
const MAX_PATTERN = 10_000
/** Characters of a path before it is no longer extended. */
const MAX_PATH = 100
const MAX_REPAIRS = 20

const TYPES: readonly unknown[] = ["string", "number", "integer", "boolean", "object", "array", "null"]

/** The dialects that the SDKs compile. */
const DIALECT = /^https?:\/\/json-schema\.org\/(?:draft\/(?:2020-12|2019-09)|draft-0[67])\/schema#?$/
/** The dialects whose `items` may be a list. */
const LISTED_ITEMS = /\/(?:2019-09|draft-0[67])\//

type Kind =
  | "schema"
  | "schemas"
  | "items"
  | "map"
  | "patterns"
  | "dependencies"
  | "lists"
  | "number"
  | "flag"
  | "text"
  | "texts"
  | "expression"
  | "reference"
  | "anchor"
  | "identifier"
  | "dialect"
  | "type"
  | "enum"
  | "note"
  | "unsupported"

const KEYWORDS: ReadonlyMap<string, Kind> = new Map<string, Kind>([
  ["additionalProperties", "schema"],
  ["propertyNames", "schema"],
  ["contains", "schema"],
  ["not", "schema"],
  ["if", "schema"],
  ["then", "schema"],
  ["else", "schema"],
  ["unevaluatedItems", "schema"],
  ["unevaluatedProperties", "schema"],
  ["additionalItems", "schema"],
  ["items", "items"],
  ["allOf", "schemas"],
  ["anyOf", "schemas"],
  ["oneOf", "schemas"],
  ["prefixItems", "schemas"],
  ["properties", "map"],
  ["$defs", "map"],
  ["definitions", "map"],
  ["dependentSchemas", "map"],
  ["patternProperties", "patterns"],
  ["dependencies", "dependencies"],
  ["dependentRequired", "lists"],
  ["minimum", "number"],
  ["maximum", "number"],
  ["exclusiveMinimum", "number"],
  ["exclusiveMaximum", "number"],
  ["multipleOf", "number"],
  ["minLength", "number"],
  ["maxLength", "number"],
  ["minItems", "number"],
  ["maxItems", "number"],
  ["minContains", "number"],
  ["maxContains", "number"],
  ["minProperties", "number"],
  ["maxProperties", "number"],
  ["uniqueItems", "flag"],
  ["format", "text"],
  ["required", "texts"],
  ["pattern", "expression"],
  ["$ref", "reference"],
  ["$dynamicRef", "reference"],
  ["$recursiveRef", "reference"],
  ["$anchor", "anchor"],
  ["$dynamicAnchor", "anchor"],
  ["$recursiveAnchor", "flag"],
  ["$id", "identifier"],
  ["$schema", "dialect"],
  ["type", "type"],
  ["enum", "enum"],
  ["title", "note"],
  ["description", "note"],
  ["$comment", "note"],
  ["deprecated", "note"],
  ["readOnly", "note"],
  ["writeOnly", "note"],
  ["examples", "note"],
  ["contentEncoding", "note"],
  ["contentMediaType", "note"],
  // Keywords of older drafts and of other systems: JSON Schema ignores them.
  ["id", "unsupported"],
  ["nullable", "unsupported"],
  ["$async", "unsupported"],
])

/** Keywords whose values are data, in which nothing is a schema. */
const DATA: ReadonlySet<string> = new Set(["const", "default", "example", "examples"])

type Reference = { readonly ref: string; readonly path: string }

/** One pass over a schema. */
class Walk {
  steps = 0
  problem: SchemaProblem | undefined
  readonly repairs: SchemaNote[] = []
  private readonly references: Reference[] = []
  private readonly anchors = new Set<string>()
  /** The steps of each schema, with those below it. */
  private readonly sizes = new WeakMap<object, number>()
  private readonly withReference = new WeakSet<object>()
  private root: string | undefined
  private hasListedItems = false

  constructor(private readonly forClients: boolean) {}

  /** Returns a schema with its repairs: an object or a boolean. */
  schema(value: unknown, path: string, depth: number): unknown {
    if (typeof value === "boolean") return value
    if (value === null || (Array.isArray(value) && value.length === 0)) {
      this.repair(path, `${value === null ? "is null" : "is an empty list"}: read as an empty schema`)
      return {}
    }
    if (!isObject(value)) {
      this.fail(path, "is not a schema")
      return value
    }
    if (depth > MAX_DEPTH) {
      this.exceed(path, `is nested more than ${MAX_DEPTH} schemas deep`)
      return value
    }
    if (depth === 0 && typeof value.$schema === "string") this.hasListedItems = LISTED_ITEMS.test(value.$schema)
    const before = this.steps
    const checked = this.members(value, (key, member) => this.keyword(value, key, member, path, depth))
    this.sizes.set(checked, this.steps - before + 1)
    return checked
  }

  /** Finds references without a target, in the schema after its repairs. */
  resolve(root: Params): void {
    let copied = 0
    for (const { ref, path } of this.references) {
      let next: string | undefined = ref
      for (let hop = 0; next !== undefined; hop++) {
        if (hop > MAX_HOPS) {
          this.fail(path, "refers to a schema that refers on, without an end")
          return
        }
        const target: unknown = this.target(root, next)
        if (target === undefined) {
          this.fail(path, `refers to ${quoted(next)}, which the schema does not contain`)
          return
        }
        if (hop === 0 && isObject(target) && !this.withReference.has(target)) copied += this.sizes.get(target) ?? 0
        next = isObject(target) && target !== root && typeof target.$ref === "string" ? target.$ref : undefined
      }
      if (copied > MAX_COPIED) {
        this.refuse(path, "repeats large schemas too often")
        return
      }
    }
  }

  // ---

  private repair(path: string, reason: string): void {
    if (this.repairs.length < MAX_REPAIRS) this.repairs.push({ path, reason })
  }

  private fail(path: string, reason: string): void {
    this.problem ??= { path, reason, isMalformed: true }
  }

  /** Records what only the implementations of clients refuse. */
  private refuse(path: string, reason: string): void {
    if (this.forClients) this.exceed(path, reason)
  }

  private exceed(path: string, reason: string): void {
    this.problem ??= { path, reason, isMalformed: false }
  }

  /** Returns the object with each member as `change` returns it; undefined leaves it out. Keeps the object if nothing changes. */
  private members(value: Params, change: (key: string, member: unknown) => unknown): Params {
    let changed: Map<string, unknown> | undefined
    for (const key of Object.keys(value)) {
      if (this.isSpent()) break
      const member = value[key]
      const now = change(key, member)
      if (now === member) continue
      changed ??= new Map()
      changed.set(key, now)
    }
    return changed === undefined ? value : withMembers(value, changed)
  }

  private isSpent(): boolean {
    if (++this.steps > MAX_STEPS) this.exceed("", "is too large to be checked")
    return this.steps > MAX_STEPS || (this.forClients && this.problem !== undefined)
  }

  private keyword(schema: Params, key: string, value: unknown, parent: string, depth: number): unknown {
    const kind = KEYWORDS.get(key)
    const path = joined(parent, key)
    if (kind === undefined) {
      if (!DATA.has(key) && isObject(value)) this.unknown(value, path, depth)
      return value
    }
    if (value === null) {
      this.repair(path, "is null: left out")
      return undefined
    }
    switch (kind) {
      case "note":
        return value
      case "schema":
        return this.schema(value, path, depth + 1)
      case "items":
        if (!Array.isArray(value) || value.length === 0) return this.schema(value, path, depth + 1)
        if (!this.hasListedItems) this.fail(path, "is a list, which its dialect does not allow")
        return this.list(value, path, depth)
      case "schemas":
        if (Array.isArray(value)) return this.list(value, path, depth)
        break
      case "map":
        return this.map(value, path, (item, at) => this.schema(item, at, depth + 1))
      case "patterns":
        return this.map(value, path, (item, at, name) => {
          this.expression(name, at)
          return this.schema(item, at, depth + 1)
        })
      case "dependencies":
        return this.map(value, path, (item, at) =>
          Array.isArray(item) ? this.texts(item, at) : this.schema(item, at, depth + 1),
        )
      case "lists":
        return this.map(value, path, (item, at) => this.texts(item, at))
      case "number":
        if (Number.isFinite(numberOf(value))) return value
        break
      case "flag":
        if (typeof value === "boolean") return value
        break
      case "text":
        if (typeof value === "string") return value
        break
      case "texts":
        if (isObject(value) && Object.keys(value).length === 0) {
          this.repair(path, "is an empty object: read as an empty list")
          return []
        }
        return this.texts(value, path)
      case "expression":
        this.expression(value, path)
        return value
      case "reference":
        this.withReference.add(schema)
        if (typeof value !== "string") break
        // Validators follow a dynamic reference when they run.
        if (key === "$ref") this.references.push({ ref: value, path })
        else if (!value.startsWith("#")) this.refuse(path, `refers to ${quoted(value)}, outside of the schema`)
        return value
      case "anchor":
        if (typeof value !== "string" || !/^[A-Za-z_][-\w.]*$/.test(value)) break
        if (this.anchors.has(value)) this.fail(path, "names two schemas alike")
        this.anchors.add(value)
        return value
      case "identifier":
        // Compilers keep the ids of all schemas in one table, where those of two tools can be in each other's way.
        if (depth > 0)
          this.refuse(path, "stands in a part of the schema, which clients mix up with those of other tools")
        if (typeof value !== "string" || !/^[A-Za-z][-\w.:/~]*$/.test(value)) break
        this.root = value
        return value
      case "dialect":
        if (typeof value !== "string") break
        if (depth === 0 && !DIALECT.test(value)) this.refuse(path, "names a dialect that clients do not support")
        return value
      case "type":
        if (TYPES.includes(value)) return value
        if (Array.isArray(value) && value.length > 0 && value.every((one) => TYPES.includes(one))) return value
        break
      case "enum":
        if (Array.isArray(value) && value.length > 0) return value
        break
      case "unsupported":
        if (!this.forClients || (key === "nullable" && typeof value === "boolean" && allowsNullable(schema, value)))
          return value
        this.repair(path, "is no keyword of JSON Schema, and clients refuse it: left out")
        return undefined
    }
    this.fail(path, WRONG[kind])
    return value
  }

  /** Checks an unknown keyword: compilers look for ids in it. */
  private unknown(value: Params, path: string, depth: number): void {
    if (depth > MAX_DEPTH) {
      this.exceed(path, `is nested more than ${MAX_DEPTH} objects deep`)
      return
    }
    for (const key of Object.keys(value)) {
      if (this.isSpent()) return
      const member = value[key]
      if (["$id", "$anchor", "$dynamicAnchor"].includes(key) && typeof member === "string")
        this.refuse(joined(path, key), "stands in an unknown keyword")
      for (const inner of Array.isArray(member) ? member : [member])
        if (isObject(inner) && !this.isSpent()) this.unknown(inner, joined(path, key), depth + 1)
    }
  }

  private list(value: readonly unknown[], path: string, depth: number): unknown {
    let changed: unknown[] | undefined
    for (const [at, item] of value.entries()) {
      if (this.isSpent()) break
      // An empty schema in place of the item would allow everything.
      if (!isObject(item) && typeof item !== "boolean") this.fail(joined(path, at), "is not a schema")
      const now = isObject(item) ? this.schema(item, joined(path, at), depth + 1) : item
      if (now === item) continue
      changed ??= [...value]
      changed[at] = now
    }
    return changed ?? value
  }

  private map(value: unknown, path: string, check: (item: unknown, at: string, name: string) => unknown): unknown {
    if (Array.isArray(value) && value.length === 0) {
      this.repair(path, "is an empty list: read as an empty object")
      return {}
    }
    if (isObject(value)) return this.members(value, (name, item) => check(item, joined(path, name), name))
    this.fail(path, WRONG.map)
    return value
  }

  private texts(value: unknown, path: string): unknown {
    if (!Array.isArray(value)) this.fail(path, WRONG.texts)
    else
      for (const item of value) {
        if (this.isSpent()) break
        if (typeof item !== "string") this.fail(path, WRONG.texts)
      }
    return value
  }

  private expression(value: unknown, path: string): void {
    if (typeof value !== "string") this.fail(path, WRONG.expression)
    else if (value.length > MAX_PATTERN || !isExpression(value))
      this.refuse(path, "is an expression that clients cannot compile")
  }

  /** Returns the schema that a reference names; undefined if there is none. */
  private target(root: Params, ref: string): unknown {
    const own = this.root
    const local = own !== undefined && ref.startsWith(own) ? ref.slice(own.length) : ref
    if (local === "" || local === "#") return root
    if (!local.startsWith("#")) return undefined
    if (!local.startsWith("#/")) return this.anchors.has(local.slice(1)) ? true : undefined
    let target: unknown = root
    for (const part of local.slice(2).split("/")) {
      this.steps++
      const key = unescaped(part)
      const here: unknown = target
      if (key === undefined) return undefined
      if (Array.isArray(here)) target = /^\d+$/.test(key) ? (here as unknown[])[Number(key)] : undefined
      else target = isObject(here) && Object.hasOwn(here, key) ? here[key] : undefined
    }
    return isObject(target) || typeof target === "boolean" ? target : undefined
  }
}

const WRONG: Readonly<Record<Exclude<Kind, "note" | "unsupported">, string>> = {
  schema: "is not a schema",
  schemas: "is not a list of schemas",
  items: "is not a schema",
  map: "is not an object of schemas",
  patterns: "is not an object of schemas",
  dependencies: "is not an object",
  lists: "is not an object of lists",
  number: "is not a number",
  flag: "is neither true nor false",
  text: "is not a text",
  texts: "is not a list of texts",
  expression: "is not an expression",
  reference: "is not a reference",
  anchor: "is not a name",
  identifier: "is not an id",
  dialect: "is not a text",
  type: "names no type of JSON",
  enum: "is not a list of values",
}

/** SDK 1 takes `nullable` beside a type that does not contradict it. */
function allowsNullable({ type }: Params, value: boolean): boolean {
  const types = Array.isArray(type) ? type : [type]
  return type !== undefined && type !== null && (value || !types.includes("null"))
}

function isExpression(text: string): boolean {
  try {
    return new RegExp(text, "u") instanceof RegExp
  } catch {
    return false
  }
}

/** Returns the name in a part of a JSON pointer in a URI; undefined if it is malformed. */
function unescaped(part: string): string | undefined {
  try {
    return decodeURIComponent(part).replaceAll("~1", "/").replaceAll("~0", "~")
  } catch {
    return undefined
  }
}

const quoted = (text: string): string => JSON.stringify(text.length > MAX_PATH ? `${text.slice(0, MAX_PATH)}…` : text)

/** Returns an object with other values for some members, in the same order; undefined leaves a member out. */
export const withMembers = (value: Params, changed: ReadonlyMap<string, unknown>): Params =>
  // `fromEntries` defines members, so that one called `__proto__` stays a member.
  Object.fromEntries(
    Object.entries(value).flatMap(([key, member]) => {
      const now = changed.has(key) ? changed.get(key) : member
      return now === undefined ? [] : [[key, now]]
    }),
  )
