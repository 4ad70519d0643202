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
 * Repairs what can only mean one thing (a null keyword is absent, an empty list for an object is an empty object) and finds the
 * first problem. With `forClients`, also leaves out keywords that JSON Schema ignores and SDK 1 refuses.
 */
export function checkSchema(schema: Params, forClients: boolean): CheckedSchema {
  const walk = new Walk(forClients)
  const checked = walk.schema(schema, 0) as Params
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
/** The steps that a property of Unicode in an expression counts for. */
const PROPERTY_STEPS = 100
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
  /** The place of the walk. */
  private readonly path: (string | number)[] = []
  private root: string | undefined
  private hasListedItems = false

  constructor(private readonly forClients: boolean) {}

  /** Returns a schema with its repairs: an object or a boolean. */
  schema(value: unknown, depth: number): unknown {
    if (typeof value === "boolean") return value
    if (value === null || (Array.isArray(value) && value.length === 0)) {
      this.repair(`${value === null ? "is null" : "is an empty list"}: read as an empty schema`)
      return {}
    }
    if (!isObject(value)) {
      this.fail("is not a schema")
      return value
    }
    if (depth > MAX_DEPTH) {
      this.exceed(`is nested more than ${MAX_DEPTH} schemas deep`)
      return value
    }
    if (depth === 0 && typeof value.$schema === "string") this.hasListedItems = LISTED_ITEMS.test(value.$schema)
    return this.members(value, (key, member) => this.keyword(value, key, member, depth))
  }

  /** Finds references without a target, in the schema after its repairs. */
  resolve(root: Params): void {
    const sizes = new Map<unknown, number>()
    let copied = 0
    for (const { ref, path } of this.references) {
      const refuse = (reason: string, isMalformed = true) => {
        this.problem ??= { path, reason, isMalformed }
      }
      let next: string | undefined = ref
      for (let hop = 0; next !== undefined; hop++) {
        if (hop > MAX_HOPS) {
          refuse("refers to itself through other references")
          return
        }
        const target: unknown = this.target(root, next)
        if (target === undefined) {
          refuse(`refers to ${quoted(next)}, which the schema does not contain`)
          return
        }
        if (hop === 0 && this.forClients) copied += this.copiedSize(target, sizes)
        next = isObject(target) && target !== root && typeof target.$ref === "string" ? target.$ref : undefined
      }
      if (copied > MAX_COPIED || this.steps > MAX_COPIED + MAX_STEPS) {
        refuse("repeats large schemas too often", false)
        return
      }
    }
  }

  // ---

  private repair(reason: string): void {
    if (this.repairs.length < MAX_REPAIRS) this.repairs.push({ path: pathText(this.path), reason })
  }

  private fail(reason: string): void {
    this.problem ??= { path: pathText(this.path), reason, isMalformed: true }
  }

  /** Records what only the implementations of clients refuse. */
  private refuse(reason: string): void {
    if (this.forClients) this.exceed(reason)
  }

  private exceed(reason: string): void {
    this.problem ??= { path: pathText(this.path), reason, isMalformed: false }
  }

  /** Returns the object with each member as `change` returns it; undefined leaves it out. Keeps the object if nothing changes. */
  private members(value: Params, change: (key: string, member: unknown) => unknown): Params {
    let changed: Map<string, unknown> | undefined
    for (const key of Object.keys(value)) {
      if (this.isSpent()) break
      const member = value[key]
      this.path.push(key)
      const now = change(key, member)
      this.path.pop()
      if (now === member) continue
      changed ??= new Map()
      changed.set(key, now)
    }
    return changed === undefined ? value : withMembers(value, changed)
  }

  private isSpent(): boolean {
    if (++this.steps > MAX_STEPS)
      this.problem ??= { path: "", reason: "is too large to be checked", isMalformed: false }
    return this.steps > MAX_STEPS || (this.forClients && this.problem !== undefined)
  }

  private keyword(schema: Params, key: string, value: unknown, depth: number): unknown {
    const kind = KEYWORDS.get(key)
    if (kind === undefined) {
      if (!DATA.has(key) && isObject(value)) this.unknown(value, depth)
      return value
    }
    if (value === null) {
      this.repair("is null: left out")
      return undefined
    }
    switch (kind) {
      case "note":
        return value
      case "schema":
        return this.schema(value, depth + 1)
      case "items":
        if (!Array.isArray(value) || value.length === 0) return this.schema(value, depth + 1)
        if (!this.hasListedItems) this.fail("is a list, which its dialect does not allow")
        return this.list(value, depth)
      case "schemas":
        if (Array.isArray(value)) return this.list(value, depth)
        break
      case "map":
        return this.map(value, (item) => this.schema(item, depth + 1))
      case "patterns":
        return this.map(value, (item, name) => {
          this.expression(name)
          return this.schema(item, depth + 1)
        })
      case "dependencies":
        return this.map(value, (item) => (Array.isArray(item) ? this.texts(item) : this.schema(item, depth + 1)))
      case "lists":
        return this.map(value, (item) => this.texts(item))
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
          this.repair("is an empty object: read as an empty list")
          return []
        }
        return this.texts(value)
      case "expression":
        this.expression(value)
        return value
      case "reference":
        if (typeof value !== "string") break
        // Validators follow a dynamic reference when they run.
        if (key === "$ref") this.references.push({ ref: value, path: pathText(this.path) })
        else if (!value.startsWith("#")) this.refuse(`refers to ${quoted(value)}, outside of the schema`)
        return value
      case "anchor":
        if (typeof value !== "string" || !/^[A-Za-z_][-\w.]*$/.test(value)) break
        if (this.anchors.has(value)) this.fail("gives two schemas the same name")
        this.anchors.add(value)
        return value
      case "identifier":
        // Compilers keep the ids of all schemas in one table, where those of two tools can be in each other's way.
        if (depth > 0) this.refuse("is an id inside the schema, which clients confuse with ids of other tools")
        if (typeof value !== "string" || !/^[A-Za-z][-\w.:/~]*$/.test(value)) break
        this.root = value
        return value
      case "dialect":
        if (typeof value !== "string") break
        if (depth === 0 && !DIALECT.test(value)) this.refuse("names a dialect that clients do not support")
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
        this.repair("is no keyword of JSON Schema, and clients refuse it: left out")
        return undefined
    }
    this.fail(WRONG[kind])
    return value
  }

  /** Checks an unknown keyword: compilers look for ids in it. */
  private unknown(value: Params, depth: number): void {
    if (depth > MAX_DEPTH) {
      this.exceed(`is nested more than ${MAX_DEPTH} objects deep`)
      return
    }
    for (const key of Object.keys(value)) {
      if (this.isSpent()) return
      const member = value[key]
      if (["$id", "$anchor", "$dynamicAnchor"].includes(key) && typeof member === "string")
        this.refuse("is inside an unknown keyword")
      for (const inner of Array.isArray(member) ? member : [member])
        if (isObject(inner) && !this.isSpent()) this.unknown(inner, depth + 1)
    }
  }

  private list(value: readonly unknown[], depth: number): unknown {
    let changed: unknown[] | undefined
    for (const [at, item] of value.entries()) {
      if (this.isSpent()) break
      // An empty schema in place of the item would allow everything.
      this.path.push(at)
      if (!isObject(item) && typeof item !== "boolean") this.fail("is not a schema")
      const now = isObject(item) ? this.schema(item, depth + 1) : item
      this.path.pop()
      if (now === item) continue
      changed ??= [...value]
      changed[at] = now
    }
    return changed ?? value
  }

  private map(value: unknown, check: (item: unknown, name: string) => unknown): unknown {
    if (Array.isArray(value) && value.length === 0) {
      this.repair("is an empty list: read as an empty object")
      return {}
    }
    if (isObject(value)) return this.members(value, (name, item) => check(item, name))
    this.fail(WRONG.map)
    return value
  }

  private texts(value: unknown): unknown {
    if (!Array.isArray(value)) this.fail(WRONG.texts)
    else
      for (const item of value) {
        if (this.isSpent()) break
        if (typeof item !== "string") this.fail(WRONG.texts)
      }
    return value
  }

  private expression(value: unknown): void {
    if (typeof value !== "string") {
      this.fail(WRONG.expression)
      return
    }
    if (!this.forClients) return
    // The engine builds a set of characters for each property of Unicode.
    this.steps += Math.ceil(value.length / 10) + (value.split(/\\p/i).length - 1) * PROPERTY_STEPS
    if (this.isSpent()) return
    if (value.length > MAX_PATTERN || !isExpression(value)) this.refuse("is an expression that clients cannot compile")
  }

  /** Returns the keywords that compilers copy to a reference, which they do for a schema without references. */
  private copiedSize(schema: unknown, known: Map<unknown, number>): number {
    const found = known.get(schema)
    if (found !== undefined) return found
    let size = 0
    const count = (value: unknown): boolean => {
      if (typeof value !== "object" || value === null || size > MAX_COPIED) return true
      size++
      this.steps++
      if (isObject(value) && ("$ref" in value || "$dynamicRef" in value)) return false
      return Object.values(value).every(count)
    }
    const copied = count(schema) ? size : 0
    known.set(schema, copied)
    return copied
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
  text: "is not a string",
  texts: "is not a list of strings",
  expression: "is not an expression",
  reference: "is not a reference",
  anchor: "is not a name",
  identifier: "is not an id",
  dialect: "is not a string",
  type: "is not a type of JSON Schema",
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

const pathText = (path: readonly (string | number)[]): string => path.reduce<string>(joined, "")

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
