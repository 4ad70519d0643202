/**
 * Parts of a stored result: a range of bytes, lines, the values at a JSONPath, the matches of a regular expression.
 *
 *  1. A part has at most `room` characters, and its note says what comes next.
 *  2. Text and values are the stored bytes, not rewritten.
 *  3. Clients choose the work: RE2 does not backtrack, a path is followed in one walk (json-path.ts), and paths that could
 *     multiply the work are refused. A long read yields to other requests at each step that may take long, and ends after a time
 *     limit.
 */
import { type Clock, delay } from "../../lib/clock.ts"
import { RequestError } from "../../lib/errors.ts"
import { numberOf } from "../../lib/json.ts"
import { stepsOf } from "../../lib/steps.ts"
import { cutText } from "../../lib/text.ts"
import { skipSpace } from "../../wire/grammar.ts"
import { JsonScanner } from "../../wire/json-scanner.ts"
import type { Params } from "../../wire/message.ts"
import { type FoundValue, findPath, type PathMatches } from "./json-path.ts"
import { isContinuation, textOf } from "./result-intake.ts"
import { CHUNK_BYTES, type ResultReader } from "./result-store.ts"

/** The part that was read, and a note for the reader: its position, and how to continue. */
export type ResultPart =
  | { readonly text: string; readonly note: string }
  | { readonly blob: Buffer; readonly note: string }

/** The ways to select a part; a call uses one of them. */
const WAYS = ["range", "lines", "path", "grep"] as const

/** The context of a long read: the clock, and the client's cancellation. */
type Work = { readonly clock: Clock; readonly signal: AbortSignal }

/** Reads the part that `args` select, by default the beginning. Rejects with a RequestError if it cannot be read. */
export async function readPart(reader: ResultReader, args: Params, room: number, work: Work): Promise<ResultPart> {
  const given = WAYS.filter((way) => args[way] !== undefined && args[way] !== null && args[way] !== "")
  const [way = "range", other] = given
  if (other !== undefined) throw invalid(`give one of ${WAYS.join(", ")}, and not ${given.join(" and ")}`)
  const written = String(args[way] ?? "0-")
  const limit = wholeNumber(args.limit, "limit")
  if (way === "range") return readRange(reader, written, limit, room)
  if (!reader.about.isText) throw invalid(`the result is ${reader.about.mimeType}, not text: read it with range`)
  switch (way) {
    case "lines":
      return readLines(reader, written, limit, room)
    case "path":
      return readPath(reader, written, { limit, room, pace: new Pace(work) })
    case "grep": {
      const context = wholeNumber(args.context, "context") ?? DEFAULT_CONTEXT
      const options = { limit, room, context: Math.min(context, MAX_CONTEXT) }
      return grep(reader, written, options, new Pace(work))
    }
  }
}

// ---

const DEFAULT_CONTEXT = 2
const MAX_CONTEXT = 20
const DEFAULT_MATCHES = 20
const MAX_MATCHES = 200
const LF = 0x0a

const invalid = (message: string): RequestError => new RequestError("invalid_params", message)

function wholeNumber(value: unknown, name: string): number | undefined {
  if (value === undefined || value === null) return undefined
  const number = typeof value === "string" ? Number(value) : numberOf(value)
  if (number === undefined || !Number.isInteger(number) || number < 0)
    throw invalid(`${name} must be a whole number, such as 20`)
  return number
}

/** The time limit of a read. */
const MAX_WORK_MS = 30_000
/** How long a read works before it yields to other requests. */
const TURN_MS = 20

/** Limits the time of a long read, and yields to other requests. */
class Pace {
  private end: number
  private next: number

  constructor(private readonly work: Work) {
    const now = work.clock.now()
    this.end = now + MAX_WORK_MS
    this.next = now + TURN_MS
  }

  /** Lowers the time limit to `ms` from now on. */
  endWithin(ms: number): void {
    this.end = Math.min(this.end, this.work.clock.now() + ms)
  }

  /** Yields to other requests if due. Resolves with whether the time limit is reached. Rejects if the read was cancelled. */
  async isOver(): Promise<boolean> {
    const { clock, signal } = this.work
    if (clock.now() >= this.next) await delay(clock, 0, signal)
    else if (!signal.aborted) return false
    if (signal.aborted) throw invalid("the read was cancelled")
    this.next = clock.now() + TURN_MS
    return clock.now() >= this.end
  }
}

/** The longest range or lines that svc reads, in characters. */
const MAX_SPAN = 100

/** Parses `5`, `5-9`, `5-` or `-9` (the last 9) for `count` items, numbered from `first`. Both ends are included. */
function readSpan(written: string, name: string, first: number, count: number): readonly [number, number] {
  const [, from = "", dash = "", to = ""] =
    written.length > MAX_SPAN ? [] : (/^(\d{1,15})?\s*(?:(-)\s*(\d{1,15})?)?$/.exec(written.trim()) ?? [])
  const last = first + count - 1
  if (from === "" && Number(to) === 0)
    throw invalid(`${name} must be like "100-150", "100-" or "-20", not ${cutText(written, 60)}`)
  if (from === "") return [Math.max(first, last - Number(to) + 1), last]
  const open = dash === "" ? Number(from) : last
  const end = to === "" ? open : Number(to)
  if (Number(from) > Math.max(last, first) || Number(from) < first || end < Number(from))
    throw invalid(`${name} ${cutText(written, 60)} is outside of the result, which has ${first} to ${last}`)
  return [Number(from), Math.min(end, last)]
}

// --- bytes

async function readRange(
  reader: ResultReader,
  written: string,
  limit: number | undefined,
  room: number,
): Promise<ResultPart> {
  const { size, isText } = reader.about
  if (size === 0) return { text: "", note: "the result is empty" }
  const [from, to] = readSpan(written, "range", 0, size)
  const end = Math.min(to + 1, limit === undefined ? size : from + Math.max(1, limit))
  if (!isText) {
    const blob = await reader.read(from, Math.min(end, from + Math.max(3, Math.floor(room / 4) * 3)))
    return { blob, note: positionNote(from, from + blob.length, size) }
  }
  const { text, start, stop } = await readText(reader, from, end, room)
  return { text, note: positionNote(start, stop, size) }
}

/** Reads whole characters of a range of bytes: at least one, and at most `room`. */
async function readText(
  reader: ResultReader,
  from: number,
  end: number,
  room: number,
): Promise<{ readonly text: string; readonly start: number; readonly stop: number }> {
  const bytes = await reader.read(Math.max(0, from - 3), Math.min(end, from + room * 4) + 4)
  let start = Math.min(from, 3)
  while (start > 0 && isContinuation(bytes[start])) start--
  let stop = Math.min(Math.min(from, 3) + end - from, bytes.length)
  // A range that ends within its only character includes the whole character.
  if (textOf(bytes.subarray(start, stop), "start") === "") while (isContinuation(bytes[stop])) stop++
  const text = cutText(textOf(bytes.subarray(start, stop), "start"), room)
  const begin = from - Math.min(from, 3) + start
  return { text, start: begin, stop: begin + Buffer.byteLength(text) }
}

const positionNote = (start: number, stop: number, size: number): string =>
  `bytes ${start}-${stop - 1} of ${size}${stop < size ? `; next: range "${stop}-"` : ", the end"}`

// --- lines

async function readLines(
  reader: ResultReader,
  written: string,
  limit: number | undefined,
  room: number,
): Promise<ResultPart> {
  const { size, lineFeeds } = reader.about
  const feeds = lineFeeds.reduce((sum, count) => sum + count, 0)
  const endsWithFeed = size > 0 && (await reader.read(size - 1, size))[0] === LF
  const count = feeds + (endsWithFeed || size === 0 ? 0 : 1)
  if (count === 0) return { text: "", note: "the result is empty" }
  const [first, to] = readSpan(written, "lines", 1, count)
  const last = limit === undefined ? to : Math.min(to, first + Math.max(1, limit) - 1)
  const from = await offsetOfLine(reader, first)
  const end = last === count ? size : await offsetOfLine(reader, last + 1)
  const { text, stop } = await readText(reader, from, end, room)
  const whole = text.lastIndexOf("\n") + 1
  if (stop === end) {
    const next = last < count ? `; next: lines "${last + 1}-"` : ", the end"
    return { text, note: `lines ${first}-${last} of ${count}${next}` }
  }
  if (whole === 0) return { text, note: `line ${first} of ${count} is cut: the rest is range "${stop}-${end - 1}"` }
  const shown = text.slice(0, whole)
  const lines = shown.split("\n").length - 1
  return { text: shown, note: `lines ${first}-${first + lines - 1} of ${count}; next: lines "${first + lines}-"` }
}

/** Returns the offset of the first byte of a line, by its number from 1. */
async function offsetOfLine(reader: ResultReader, line: number): Promise<number> {
  let left = line - 1
  if (left === 0) return 0
  let chunk = 0
  for (const feeds of reader.about.lineFeeds) {
    if (left <= feeds) break
    left -= feeds
    chunk++
  }
  const bytes = await reader.read(chunk * CHUNK_BYTES, (chunk + 1) * CHUNK_BYTES)
  let at = -1
  while (left-- > 0) at = bytes.indexOf(LF, at + 1)
  return chunk * CHUNK_BYTES + at + 1
}

// --- JSONPath

/** The largest text that svc reads by a path, in bytes: it is in memory as a whole. */
const MAX_PATH_TEXT = 64 * 1024 * 1024

async function readPath(
  reader: ResultReader,
  path: string,
  { limit, room, pace }: { readonly limit: number | undefined; readonly room: number; readonly pace: Pace },
): Promise<ResultPart> {
  const { size } = reader.about
  if (size > MAX_PATH_TEXT)
    throw invalid(`the result is too large for a path (${size} bytes): use grep, lines or range`)
  refuseCostly(path)
  const { JSONPathEnvironment, JSONPathNode } = await import("json-p3")
  const environment = new JSONPathEnvironment()
  // These functions use regular expressions that backtrack.
  for (const name of ["match", "search"]) environment.functionRegister.delete(name)
  if (await pace.isOver()) throw invalid(`path: ${tooLong()}`)
  const bytes = await reader.read(0, size)
  await checkJson(bytes, pace)
  let found: PathMatches
  try {
    const { segments } = environment.compile(path)
    if (segments.some(({ selectors }) => selectors.some((selector) => unquoted(String(selector)).includes(".."))))
      throw new Error("a filter may have no ..")
    const turn = stepsOf(TURN_STEPS)
    const most = Math.min(limit ?? DEFAULT_MATCHES, MAX_MATCHES)
    const walk = findPath(bytes, skipSpace(bytes, 0), segments, {
      most,
      counted: MAX_COUNTED,
      Node: JSONPathNode,
      turn,
    })
    for (let next = walk.next(); ; next = walk.next()) {
      if (next.done === true) {
        found = next.value
        break
      }
      turn.left = TURN_STEPS
      if (await pace.isOver()) throw new Error(tooLong())
    }
  } catch (cause) {
    throw invalid(`path: ${cutText(cause instanceof Error ? cause.message : String(cause), 200)}`)
  }
  const { kept, total } = found
  const pathOf = ({ location }: FoundValue) => new JSONPathNode(null, [...location], null).path
  if (total === 0) return { text: "", note: `nothing is at ${cutText(path, 200)}` }
  const count = total > MAX_COUNTED ? `more than ${MAX_COUNTED}` : `${total}`
  const [only] = kept
  if (total === 1 && only !== undefined) {
    const { text, stop } = await readText(reader, only.start, only.end, room)
    const rest = stop < only.end ? `; cut: the rest is range "${stop}-${only.end - 1}"` : ""
    return { text, note: `bytes ${only.start}-${only.end - 1}: ${pathOf(only)}${rest}` }
  }
  const lines: string[] = []
  let used = 0
  const each = Math.max(60, Math.floor(room / kept.length) - 40)
  for (const value of kept) {
    const { start, end } = value
    const whole = textOf(bytes.subarray(start, Math.min(end, start + each * 4)), "start")
    const shown = cutText(whole, each)
    const cut = Buffer.byteLength(shown) < end - start ? `… (bytes ${start}-${end - 1})` : ""
    const line = `${cutText(pathOf(value), 200)}: ${shown}${cut}`
    used += line.length + 1
    if (used > room && lines.length > 0) break
    lines.push(line)
  }
  return {
    text: lines.join("\n"),
    note: `${lines.length} of ${count} values${total > lines.length ? "; narrow the path for others" : ""}`,
  }
}

/** Further values are not counted. */
const MAX_COUNTED = 100_000
const MAX_PATH = 500
/** Steps of a path between two checks of the time, of about a byte each. */
const TURN_STEPS = 128 * 1024
/** Bytes of a text that are checked between two checks of the time. */
const CHECKED_BYTES = 128 * 1024
/** The longest name, number or white space of a text that is read by a path, in bytes. */
const MAX_TOKEN = 1024 * 1024
const NUL = Buffer.alloc(1)

/** Rejects with a RequestError if the bytes are not one JSON value. */
async function checkJson(bytes: Buffer, pace: Pace): Promise<void> {
  const scanner = new JsonScanner()
  let rest: Buffer = Buffer.alloc(0)
  for (let at = 0; at < bytes.length; at += CHECKED_BYTES) {
    if (await pace.isOver()) throw invalid(`path: ${tooLong()}`)
    try {
      const piece = Buffer.concat([rest, bytes.subarray(at, at + CHECKED_BYTES), NUL])
      rest = piece.subarray(scanner.scan(piece, 0, 0), -1)
    } catch {
      throw notJson()
    }
    if (rest.length > MAX_TOKEN || (scanner.isAfterValue && scanner.depth === 0)) break
  }
  if (scanner.depth > 0 || !scanner.isAfterValue || bytes.length - scanner.taken > MAX_TOKEN) throw notJson()
  if (skipSpace(bytes, scanner.taken) < bytes.length) throw notJson()
}

const tooLong = () => `it took more than ${MAX_WORK_MS / 1000} s: narrow the path, or use grep`

const notJson = (): RequestError => invalid("the result is not JSON: use grep, lines or range")

/** Returns a path with its quoted texts emptied. */
const unquoted = (path: string): string => path.replace(/"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'/g, "''")

/** Throws a RequestError for a path that may need more than a few passes over the result. */
function refuseCostly(path: string): void {
  if (path.length > MAX_PATH) throw invalid(`path must have ${MAX_PATH} characters at most`)
  const bare = unquoted(path)
  const count = (pattern: RegExp) => bare.match(pattern)?.length ?? 0
  if (count(/\.\./g) > 1 || count(/\?/g) > 2 || count(/\$/g) > 1 || count(/,/g) > 8)
    throw invalid("path may have one .., two filters, one $ and eight commas at most")
}

// --- regular expressions

type GrepOptions = {
  readonly limit: number | undefined
  readonly room: number
  readonly context: number
}

/** A longer line is searched in pieces, and shown around its matches. */
const LONG_LINE = 2000
/** Bytes that are searched at once: the time grows with the expression, so that fewer are for a long one. */
const PIECE_BYTES = 8 * 1024
const SHORT_PIECE_BYTES = 1280
/** Bytes of a piece times instructions of the expression. */
const PIECE_WORK = 400_000
/** Bytes that two pieces of a long line share: a longer match across them may be missed. */
const OVERLAP = 1024
const AROUND = 150
const MAX_PATTERN = 1000
const MAX_PROGRAM = 500
/** How long matches in long lines are counted that are not shown: an expression that may match nothing matches everywhere. */
const COUNT_MS = 2000

type CompiledPattern = {
  /** The number of instructions, all of which a character may execute. */
  programSize(): number
  test(text: string): boolean
  matcher(text: string): { find(): boolean; start(): number; end(): number }
}

async function grep(reader: ResultReader, written: string, options: GrepOptions, pace: Pace): Promise<ResultPart> {
  if (written.length > MAX_PATTERN) throw invalid(`grep must have ${MAX_PATTERN} characters at most`)
  const { RE2JS } = await import("re2js")
  let pattern: CompiledPattern
  try {
    pattern = RE2JS.compile(written)
  } catch (cause) {
    throw invalid(`grep is no valid regular expression (RE2 syntax): ${cause instanceof Error ? cause.message : ""}`)
  }
  const instructions = pattern.programSize()
  if (instructions > MAX_PROGRAM) throw invalid("grep repeats too much: write fewer or smaller {counts}")
  const pieceBytes = Math.min(PIECE_BYTES, Math.max(SHORT_PIECE_BYTES, Math.floor(PIECE_WORK / instructions)))
  const hits = new Hits(pattern, options, pace)
  const { size } = reader.about
  let carry: Buffer = Buffer.alloc(0)
  for (let at = 0; at < size; at += CHUNK_BYTES) {
    const chunk = await reader.read(at, at + CHUNK_BYTES)
    for (let within = 0; within < chunk.length; within += pieceBytes) {
      const place = at + within
      if (await hits.isOver()) return hits.part(written, place, size)
      const piece = chunk.subarray(within, within + pieceBytes)
      const bytes = carry.length === 0 ? piece : Buffer.concat([carry, piece])
      const offset = place - carry.length
      const end = bytes.lastIndexOf(LF) + 1
      if (end > 0) await hits.lines(bytes.subarray(0, end), offset)
      carry = bytes.subarray(end)
      // A line that has not ended yet.
      if (carry.length >= pieceBytes) {
        const until = startOfCharacter(carry, carry.length - OVERLAP)
        await hits.piece(carry, offset + end, until)
        // Keeps the preceding character, so that the next piece does not match as the beginning of the line.
        carry = carry.subarray(startOfCharacter(carry, until - 1))
      }
    }
  }
  if (carry.length > 0) await hits.last(carry, size - carry.length)
  return hits.part(written, size, size)
}

/** Returns the index at which the UTF-8 character of a byte begins. */
function startOfCharacter(bytes: Buffer, at: number): number {
  let start = at
  while (start > 0 && isContinuation(bytes[start])) start--
  return start
}

/** Represents the rest of a line after a piece, so that `$` does not match there. */
const REST = "\uffff"

class Hits {
  private readonly shown: string[] = []
  private readonly before: string[] = []
  private used = 0
  private line = 1
  private after = 0
  private total = 0
  private listed = 0
  private lastShown = 0
  /** Whether the beginning of the line was searched as a piece. */
  private isWithin = false
  private isFull = false
  private isStopped = false

  constructor(
    private readonly pattern: CompiledPattern,
    private readonly options: GrepOptions,
    private readonly pace: Pace,
  ) {}

  /** Yields to other requests if due. Resolves with whether the search ends, because of its time or its matches. */
  async isOver(): Promise<boolean> {
    this.isStopped ||= this.total > MAX_COUNTED || (await this.pace.isOver())
    return this.isStopped
  }

  /** Searches whole lines with their ends; `offset` is the position of the first byte. */
  async lines(bytes: Buffer, offset: number): Promise<void> {
    const texts = bytes.toString("utf8", 0, bytes.length - 1).split("\n")
    let at = offset
    for (const raw of texts) {
      const text = raw.endsWith("\r") ? raw.slice(0, -1) : raw
      // Only long lines need their offsets.
      if (text.length <= LONG_LINE && !this.isWithin) this.short(text)
      else {
        await this.long(text, at, Number.POSITIVE_INFINITY)
        this.before.length = 0
      }
      this.isWithin = false
      at += raw.length > 0 ? Buffer.byteLength(raw) + 1 : 1
      this.line++
    }
  }

  /** Searches a piece of a line that continues; matches that begin after `until` belong to the next piece. */
  async piece(bytes: Buffer, offset: number, until: number): Promise<void> {
    await this.long(`${bytes.toString()}${REST}`, offset, until)
    this.isWithin = true
  }

  /** Searches the last line, which has no line feed. */
  async last(bytes: Buffer, offset: number): Promise<void> {
    const text = bytes.toString()
    if (text.length <= LONG_LINE && !this.isWithin) this.short(text)
    else await this.long(text, offset, Number.POSITIVE_INFINITY)
  }

  /** Returns the matches in the bytes before `at`, all that were searched. */
  part(pattern: string, at: number, size: number): ResultPart {
    const isCounting = !this.canList()
    const end = this.isStopped && !isCounting ? `; stopped after ${MAX_WORK_MS / 1000} s at byte ${at} of ${size}` : ""
    if (this.total === 0) return { text: "", note: `no match for ${cutText(pattern, 200)}${end}` }
    const most = this.isStopped && isCounting ? `more than ${this.total - 1}` : `${this.total}`
    const what = this.total === 1 ? "1 match" : `${most} matches`
    const rest =
      this.listed < this.total ? `${this.listed} of ${what} shown; use a narrower expression for others` : what
    return { text: this.shown.join("\n"), note: `${rest}${end}; read around a match with lines or range` }
  }

  // ---

  private get most(): number {
    return Math.min(this.options.limit ?? DEFAULT_MATCHES, MAX_MATCHES)
  }

  private short(text: string): void {
    const { context } = this.options
    if (this.pattern.test(text)) {
      this.total++
      if (this.canList()) {
        const first = this.line - this.before.length
        if (this.lastShown > 0 && first > this.lastShown + 1) this.show("--")
        for (const [at, line] of this.before.entries()) this.show(`${first + at}- ${line}`)
        this.listed += this.show(`${this.line}: ${text}`) ? 1 : 0
        this.lastShown = this.line
        this.after = context
        this.before.length = 0
        return
      }
    }
    if (this.after > 0) {
      this.after--
      this.show(`${this.line}- ${text}`)
      this.lastShown = this.line
    } else if (context > 0) {
      this.before.push(text)
      if (this.before.length > context) this.before.shift()
    }
  }

  private async long(text: string, offset: number, until: number): Promise<void> {
    const matcher = this.pattern.matcher(text)
    // The offset in bytes of a place in the text, counted from the place before it.
    let [at, bytes] = [0, offset]
    while (!(await this.isOver()) && matcher.find()) {
      const [start, end] = [matcher.start(), matcher.end()]
      bytes += Buffer.byteLength(text.slice(at, start))
      at = start
      if (bytes - offset >= until) break
      // The match began in the previous piece.
      if (start === 0 && this.isWithin) continue
      this.total++
      if (this.canList()) {
        const around = text.slice(Math.max(0, start - AROUND), Math.min(text.length, end + AROUND)).replace(REST, "")
        this.listed += this.show(`${this.line} (byte ${bytes}): …${cutText(around, LONG_LINE)}…`) ? 1 : 0
      } else this.pace.endWithin(COUNT_MS)
    }
  }

  private canList(): boolean {
    return !this.isFull && this.listed < this.most
  }

  /** Adds a line if it fits. */
  private show(line: string): boolean {
    if (this.isFull) return false
    const shown = this.shown.length === 0 ? cutText(line, this.options.room) : line
    this.used += shown.length + 1
    this.isFull = this.used > this.options.room && this.shown.length > 0
    if (!this.isFull) this.shown.push(shown)
    return !this.isFull
  }
}
