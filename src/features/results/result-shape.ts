/**
 * Determines the shape of a large result while its bytes pass: the keys, types and lengths of JSON, the columns and rows of a
 * table, the lines of a text. Memory does not grow with the result.
 */
import { incrementalSha256 } from "../../lib/digest.ts"
import { counted, cutText } from "../../lib/text.ts"

/** Determines the shape of a text from its bytes. */
export class TextShape {
  private readonly json = new JsonShape()
  private table: TableShape | undefined
  private isStarted = false
  private lineFeeds = 0
  private last = 0

  push(bytes: Buffer): void {
    if (bytes.length === 0) return
    if (!this.isStarted) this.table = tableIn(bytes)
    this.isStarted = true
    this.json.push(bytes)
    this.table?.push(bytes)
    for (let at = bytes.indexOf(LF); at >= 0; at = bytes.indexOf(LF, at + 1)) this.lineFeeds++
    this.last = bytes[bytes.length - 1] ?? 0
  }

  /** Returns the kind of the text, its media type, and a description of its shape with at most `length` characters. */
  describe(length: number): {
    readonly kind: "json" | "table" | "text"
    readonly mimeType: string
    readonly shape: string
  } {
    const lines = this.lineFeeds + (this.last === LF ? 0 : 1)
    const json = this.json.describe(length)
    if (json !== undefined) return { kind: "json", mimeType: "application/json", shape: json }
    const table = this.table?.describe(length)
    if (table !== undefined) return { kind: "table", mimeType: "text/csv", shape: table }
    return { kind: "text", mimeType: "text/plain", shape: counted(lines, "line") }
  }

  /** Returns a digest that does not depend on white space; undefined if the text is not JSON. */
  get compactDigest(): string | undefined {
    return this.json.compactDigest
  }
}

// ---

const LF = 0x0a
const QUOTE = 0x22
const BACKSLASH = 0x5c

/** The facts about the values at one place of a JSON text. */
class Seen {
  readonly types = new Set<string>()
  members: Map<string, Seen> | undefined
  isMore = false
  items: Seen | undefined
  /** Elements of an array: the fewest and the most. */
  least = Number.POSITIVE_INFINITY
  most = 0
  /** Bytes of a string, as written. */
  longest = 0
}

/** An open object or array. `seen` is undefined if nothing more is recorded. */
type Frame = { readonly isObject: boolean; readonly seen: Seen | undefined; count: number; name: Seen | undefined }

/** Deeper values are counted, but not described. */
const MAX_LEVELS = 8
const MAX_MEMBERS = 60
const MAX_NAME = 80
/** The deepest nesting of JSON that svc accepts. */
const MAX_OPEN = 512

class JsonShape {
  private readonly root = new Seen()
  private readonly open: Frame[] = []
  private readonly hash = incrementalSha256()
  private state: "value" | "string" | "literal" | "done" | "invalid" = "value"
  private isName = false
  private isEscaped = false
  private length = 0
  private readonly name = Buffer.alloc(MAX_NAME)

  push(bytes: Buffer): void {
    if (this.state === "invalid") return
    const compact = Buffer.allocUnsafe(bytes.length)
    let kept = 0
    for (let at = 0; at < bytes.length; at++) {
      const byte = bytes[at] as number
      if (this.state === "string") {
        compact[kept++] = byte
        if (this.isEscaped) this.isEscaped = false
        else if (byte === BACKSLASH) this.isEscaped = true
        else if (byte === QUOTE) {
          this.endString()
          continue
        }
        if (this.isName && this.length < MAX_NAME) this.name[this.length] = byte
        this.length++
        continue
      }
      if (byte === 0x20 || byte === LF || byte === 0x0d || byte === 0x09) {
        if (this.state === "literal") this.state = "value"
        continue
      }
      compact[kept++] = byte
      if (!this.take(byte)) {
        this.state = "invalid"
        return
      }
    }
    this.hash.update(compact.subarray(0, kept))
  }

  get compactDigest(): string | undefined {
    return this.isWhole ? this.hash.copy().digest("hex") : undefined
  }

  describe(length: number): string | undefined {
    if (!this.isWhole || !(this.root.types.has("object") || this.root.types.has("array"))) return undefined
    // The deepest description that fits.
    for (let levels = MAX_LEVELS; levels > 1; levels--) {
      const text = print(this.root, levels)
      if (text.length <= length) return text
    }
    return cutText(print(this.root, 1), length)
  }

  // ---

  private get isWhole(): boolean {
    return this.open.length === 0 && this.root.types.size > 0 && this.state === "done"
  }

  /** Handles a byte outside of strings. Returns false if the text is not JSON. */
  private take(byte: number): boolean {
    if (this.state === "done") return false
    const top = this.open.at(-1)
    switch (byte) {
      case 0x7b: // {
      case 0x5b: {
        // [
        const isObject = byte === 0x7b
        const seen = this.place(isObject ? "object" : "array")
        if (this.open.length >= MAX_OPEN) return false
        this.open.push({ isObject, seen: this.open.length < MAX_LEVELS ? seen : undefined, count: 0, name: undefined })
        this.isName = isObject
        this.state = "value"
        return true
      }
      case 0x7d: // }
      case 0x5d: {
        // ]
        if (top === undefined || top.isObject !== (byte === 0x7d)) return false
        this.open.pop()
        if (top.seen !== undefined && !top.isObject) {
          top.seen.least = Math.min(top.seen.least, top.count)
          top.seen.most = Math.max(top.seen.most, top.count)
        }
        this.ended()
        return true
      }
      case 0x2c: // ,
        if (top === undefined) return false
        this.isName = top.isObject
        this.state = "value"
        return true
      case 0x3a: // :
        if (top?.isObject !== true) return false
        this.isName = false
        return true
      case QUOTE:
        this.state = "string"
        this.length = 0
        return true
      default: {
        if (this.state === "literal") return true
        const type = LITERALS.get(byte)
        if (type === undefined || this.isName) return false
        this.place(type)
        this.ended()
        if (this.open.length > 0) this.state = "literal"
        return true
      }
    }
  }

  private endString(): void {
    this.state = "value"
    const top = this.open.at(-1)
    if (this.isName && top !== undefined) {
      this.isName = false
      top.name = top.seen && memberOf(top.seen, this.name.toString("latin1", 0, Math.min(this.length, MAX_NAME)))
      return
    }
    const seen = this.place("string")
    if (seen !== undefined) seen.longest = Math.max(seen.longest, this.length)
    this.ended()
  }

  /** Records a value of a type at the current place. */
  private place(type: string): Seen | undefined {
    const top = this.open.at(-1)
    if (top === undefined) {
      this.root.types.add(type)
      return this.root
    }
    top.count++
    let seen: Seen | undefined
    if (top.isObject) seen = top.name
    else if (top.seen !== undefined) {
      top.seen.items ??= new Seen()
      seen = top.seen.items
    }
    seen?.types.add(type)
    return seen
  }

  private ended(): void {
    this.state = this.open.length === 0 ? "done" : "value"
  }
}

const LITERALS: ReadonlyMap<number, string> = new Map([
  ...[..."-0123456789"].map((digit) => [digit.charCodeAt(0), "number"] as const),
  [0x74, "boolean"],
  [0x66, "boolean"],
  [0x6e, "null"],
])

function memberOf(seen: Seen, written: string): Seen | undefined {
  seen.members ??= new Map()
  const known = seen.members.get(written)
  if (known !== undefined) return known
  if (seen.members.size >= MAX_MEMBERS) {
    seen.isMore = true
    return undefined
  }
  const made = new Seen()
  seen.members.set(written, made)
  return made
}

/** Writes a shape: `{items: [120000 × {id: number, name: string}]}`. */
function print(seen: Seen, levels: number): string {
  const parts = [...seen.types].map((type) => {
    if (type === "object") return printObject(seen, levels)
    if (type === "string") return seen.longest > LONG_STRING ? `string (up to ${seen.longest} bytes)` : "string"
    if (type !== "array") return type
    const count = seen.least === seen.most ? `${seen.most}` : `${seen.least}–${seen.most}`
    return seen.items === undefined || levels <= 1
      ? `[${count} elements]`
      : `[${count} × ${print(seen.items, levels - 1)}]`
  })
  return parts.length === 0 ? "value" : parts.join(" | ")
}

const LONG_STRING = 200

function printObject({ members = new Map(), isMore }: Seen, levels: number): string {
  if (members.size === 0) return "{}"
  if (levels <= 1) return `{${counted(members.size, "key")}${isMore ? " or more" : ""}}`
  const shown = [...members].map(([written, seen]) => {
    const name = Buffer.from(written, "latin1").toString()
    return `${/^[\w-]+$/.test(name) ? name : `"${name}"`}: ${print(seen, levels - 1)}`
  })
  return `{${shown.join(", ")}${isMore ? ", …" : ""}}`
}

/** Rows and columns of a table with delimiters, as CSV. From: RFC 4180. */
class TableShape {
  private rows = 0
  private isQuoted = false
  private isEmptyRow = true
  constructor(private readonly columns: readonly string[]) {}

  push(bytes: Buffer): void {
    for (let at = 0; at < bytes.length; at++) {
      const byte = bytes[at]
      if (byte === QUOTE) this.isQuoted = !this.isQuoted
      if (byte !== LF || this.isQuoted) this.isEmptyRow &&= byte === LF || byte === 0x0d
      else {
        if (!this.isEmptyRow) this.rows++
        this.isEmptyRow = true
      }
    }
  }

  describe(length: number): string {
    const rows = this.rows + (this.isEmptyRow ? 0 : 1) - 1
    return cutText(
      `table of ${counted(rows, "row")} and ${counted(this.columns.length, "column")}: ${this.columns.join(", ")}`,
      length,
    )
  }
}

/** The number of first lines that must have the same number of cells. */
const SAMPLE_LINES = 10
/** Fewer lines with the same number of commas may be prose. */
const MIN_LINES = 4
const MAX_COLUMN_NAME = 60

/** Returns the table at the beginning of a text; undefined if its first lines are not a table. */
function tableIn(head: Buffer): TableShape | undefined {
  const lines = head
    .toString("utf8", 0, 65_536)
    .split(/\r?\n/)
    .slice(0, SAMPLE_LINES + 1)
  const sample = lines.slice(0, -1).filter((line) => line !== "")
  if (sample.length < MIN_LINES) return undefined
  for (const delimiter of [",", "\t", ";", "|"]) {
    const [header = [], ...rows] = sample.map((line) => cellsOf(line, delimiter))
    // A cell that other lines repeat is not the name of a column.
    const isHeader = header.every((cell, at) => cell !== "" && rows.every((row) => row[at] !== cell))
    if (header.length > 1 && isHeader && rows.every(({ length }) => length === header.length))
      return new TableShape(header.map((cell) => cutText(cell, MAX_COLUMN_NAME)))
  }
  return undefined
}

const cellsOf = (line: string, delimiter: string): readonly string[] =>
  (
    line.match(
      delimiter === ","
        ? /("(?:[^"]|"")*"|[^,]*)(?:,|$)/g
        : new RegExp(`[^${RegExp.escape(delimiter)}]*(?:${RegExp.escape(delimiter)}|$)`, "g"),
    ) ?? []
  )
    .slice(0, -1)
    .map((cell) => cell.replace(delimiter, "").replace(/^"|"$/g, "").trim())
