/**
 * Finds the values at a JSONPath (RFC 9535) in JSON text, without parsing the text as a whole.
 *
 *  1. One walk over the bytes follows all segments of the path at once, and skips what none of them can select.
 *  2. Memory grows with the values that are kept, not with the text. Only a value that a filter tests is parsed.
 *  3. The walk yields often, so that the caller can stop it, and let others work.
 */
import type { JSONPathNode, JSONPathQuery } from "json-p3"
import { canStep, type Steps } from "../../lib/steps.ts"
import { endOfName, endOfString, skipSpace } from "../../wire/grammar.ts"

/** A value that a path selects: its byte range, and its location. */
export type FoundValue = {
  readonly start: number
  readonly end: number
  readonly location: readonly (string | number)[]
}

/** What a path selects: the first values in its order, and the number of all. */
export type PathMatches = { readonly kept: readonly FoundValue[]; readonly total: number }

/**
 * Finds the values that `segments` select in the value at `root`, which must be valid JSON. Keeps the first `most`, and stops
 * after more than `counted`. Yields after `turn` steps of about a byte each; the caller gives it new ones. Throws an Error for a
 * value that is too large for a filter. `Node` is the class of json-p3, which is loaded with the first path.
 */
export function* findPath(
  bytes: Buffer,
  root: number,
  segments: JSONPathQuery["segments"],
  { most, counted, Node, turn }: PathWalk,
): Generator<undefined, PathMatches> {
  const steps = segments.map((segment): Step => {
    const selectors = segment.selectors.map((selector) => selectorOf(selector, Node))
    return {
      isDescendant: String(segment).startsWith(".."),
      selectors,
      isFromEnd: selectors.some(({ isFromEnd }) => isFromEnd === true),
    }
  })
  const matches = new Matches(bytes, most)
  const frames: Frame[] = []
  let at = root
  let states: readonly State[] = [{ segment: 0, order: undefined }]
  for (;;) {
    // A value begins at `at`, and `states` apply to it.
    if (!canStep(turn, STEPS_OF_VALUE * (1 + states.length))) yield
    const found = states
      .filter(({ segment }) => segment === steps.length)
      .map(({ order }) => matches.add(at, frames, order))
    if (matches.total > counted) return matches.result()
    const inner = states.filter(({ segment }) => segment < steps.length)
    const first = inner.length === 0 ? undefined : firstIn(bytes, at)
    if (first === undefined) {
      at = yield* endOf(bytes, at, turn)
      for (const one of found) one.end = at
    } else {
      const isArray = bytes[at] === OPEN_BRACKET
      const isCounted = isArray && inner.some(({ segment }) => steps[segment]?.isFromEnd === true)
      const length = isCounted ? yield* countElements(bytes, first, turn) : 0
      frames.push(new Frame(isArray, at, length, inner, found))
      at = first
    }
    // Ends the containers that end here.
    let frame = frames.at(-1)
    while (first === undefined && frame !== undefined) {
      frame.leave(bytes, at, matches)
      at = skipSpace(bytes, at)
      if (bytes[at] === COMMA) {
        at = skipSpace(bytes, at + 1)
        break
      }
      at++
      for (const one of frame.found) one.end = at
      frames.pop()
      frame = frames.at(-1)
    }
    if (frame === undefined) return matches.result()
    at = frame.enter(bytes, at, matches)
    states = yield* statesOf(bytes, frame, steps, turn)
  }
}

type PathWalk = {
  readonly most: number
  readonly counted: number
  readonly Node: typeof JSONPathNode
  readonly turn: Steps
}

// ---

/** Steps of a value and of each of its states; a byte that is skipped takes one. */
const STEPS_OF_VALUE = 16
/** Steps of a byte of a value that a filter tests. */
const STEPS_OF_TEST = 8
/** The largest value that a filter tests, in bytes. */
const MAX_TESTED = 64 * 1024

const QUOTE = 0x22
const COMMA = 0x2c
const OPEN_BRACKET = 0x5b
const BACKSLASH = 0x5c
const CLOSE_BRACKET = 0x5d
const OPEN_BRACE = 0x7b
const CLOSE_BRACE = 0x7d
const SPACE = 0x20

/** The place of a value in the order of a path: by segment, the selector and the position that it selects. */
type Order = { readonly before: Order; readonly at: readonly number[] } | undefined

/** The segments from `segment` on apply to a value. */
type State = { readonly segment: number; readonly order: Order }

type Step = {
  readonly isDescendant: boolean
  readonly selectors: readonly WalkedSelector[]
  readonly isFromEnd: boolean
}

/** A selector, as the walk uses it. */
type WalkedSelector = {
  /** Whether it needs the number of elements. */
  readonly isFromEnd?: boolean
  /** Tests a value by a filter. */
  readonly test?: (value: unknown) => boolean
  /** Returns the position of the open value of a container among those that it selects; undefined if it does not select it. */
  readonly positionOf: (frame: Frame, bytes: Buffer) => number | undefined
}

/** A match; a container gets its end when it has ended. */
type Match = {
  readonly start: number
  end: number
  readonly location: readonly (string | number)[]
  order: readonly number[]
}

/** An open container, and its open value. */
class Frame {
  /** The index of the open value, its offset, and the offsets of its name with quotes. */
  index = -1
  value = 0
  private name = 0
  private nameEnd = 0
  private read: string | undefined
  private matchesBefore = 0
  /** The members that contain matches. */
  private readonly matched = new Map<string, { readonly count: number; readonly start: number; readonly end: number }>()

  constructor(
    readonly isArray: boolean,
    readonly start: number,
    /** The number of elements, if a selector needs it. */
    readonly length: number,
    readonly states: readonly State[],
    /** The matches that are this container. */
    readonly found: readonly Match[],
  ) {}

  /** Opens the next entry, which begins at an offset. Returns the offset of its value. */
  enter(bytes: Buffer, at: number, matches: Matches): number {
    this.index++
    this.read = undefined
    if (!this.isArray) {
      this.name = at
      this.nameEnd = endOfString(bytes, at)
      // Of repeated members the last one counts, as in JSON.parse.
      const repeated = this.matched.size === 0 ? undefined : this.matched.get(this.nameIn(bytes))
      if (repeated !== undefined) matches.withdraw(repeated)
    }
    this.value = this.isArray ? at : endOfName(bytes, at)
    this.matchesBefore = matches.total
    return this.value
  }

  /** Ends the open value. */
  leave(bytes: Buffer, end: number, matches: Matches): void {
    const count = matches.total - this.matchesBefore
    if (count > 0 && !this.isArray) this.matched.set(this.nameIn(bytes), { count, start: this.value, end })
  }

  /** Returns the name of the open value. */
  nameIn(bytes: Buffer): string {
    this.read ??= JSON.parse(bytes.toString("utf8", this.name, this.nameEnd)) as string
    return this.read
  }

  /** Whether the open value has a name, whose bytes are given. Reads the name only if it has escapes. */
  isNamed(name: string, written: Buffer, bytes: Buffer): boolean {
    const [from, to] = [this.name + 1, this.nameEnd - 1]
    // Escapes are longer than what they stand for.
    if (to - from < written.length) return false
    if (to - from === written.length) return bytes.compare(written, 0, written.length, from, to) === 0
    return bytes.subarray(from, to).includes(BACKSLASH) && this.nameIn(bytes) === name
  }
}

/** The matches: the number of all, and the first ones in the order of the path. */
class Matches {
  total = 0
  private kept: Match[] = []

  constructor(
    private readonly bytes: Buffer,
    private readonly most: number,
  ) {}

  /** Adds a value in open containers. */
  add(start: number, frames: readonly Frame[], last: Order): Match {
    this.total++
    const order: number[] = []
    for (let one = last; one !== undefined; one = one.before) order.push(...one.at.toReversed())
    order.reverse()
    const place = this.kept.findLastIndex((one) => !isBefore(order, one.order)) + 1
    const isKept = place < this.most
    const location = isKept ? frames.map((one) => (one.isArray ? one.index : one.nameIn(this.bytes))) : []
    const match: Match = { start, end: start, location, order }
    if (isKept) this.kept.splice(place, 0, match)
    if (this.kept.length > this.most) this.kept.pop()
    return match
  }

  /** Removes the matches in a byte range, and some from the number of all. */
  withdraw({ count, start, end }: { readonly count: number; readonly start: number; readonly end: number }): void {
    this.total -= count
    this.kept = this.kept.filter((one) => one.start < start || one.start >= end)
  }

  result(): PathMatches {
    return { kept: this.kept, total: this.total }
  }
}

function isBefore(one: readonly number[], other: readonly number[]): boolean {
  const at = one.findIndex((number, index) => number !== other[index])
  return at >= 0 && (one[at] as number) < (other[at] ?? -1)
}

/** Returns the states of the open value of a container. */
function* statesOf(
  bytes: Buffer,
  frame: Frame,
  steps: readonly Step[],
  turn: Steps,
): Generator<undefined, readonly State[]> {
  const states: State[] = []
  let tested: { readonly value: unknown } | undefined
  for (const state of frame.states) {
    const step = steps[state.segment]
    if (step === undefined) continue
    canStep(turn, STEPS_OF_VALUE * step.selectors.length)
    if (step.isDescendant) states.push(state)
    const before: Order = step.isDescendant ? { before: state.order, at: [frame.start] } : state.order
    for (const [which, { test, positionOf }] of step.selectors.entries()) {
      const position = positionOf(frame, bytes)
      if (position === undefined) continue
      if (test !== undefined) {
        tested ??= { value: parseTested(bytes, frame.value, yield* endOf(bytes, frame.value, turn), turn) }
        if (!test(tested.value)) continue
      }
      states.push({ segment: state.segment + 1, order: { before, at: [which, position] } })
    }
  }
  return states
}

function parseTested(bytes: Buffer, start: number, end: number, turn: Steps): unknown {
  if (end - start > MAX_TESTED)
    throw new Error(
      `a filter tests values of ${MAX_TESTED} bytes at most, and that at bytes ${start}-${end - 1} is larger: select it by its name or index`,
    )
  canStep(turn, STEPS_OF_TEST * (end - start))
  return JSON.parse(bytes.toString("utf8", start, end))
}

type Selector = JSONPathQuery["segments"][number]["selectors"][number]

/** Returns a selector of json-p3 as the walk uses it. Throws an Error for one that RFC 9535 does not have. */
function selectorOf(selector: Selector, Node: typeof JSONPathNode): WalkedSelector {
  if (String(selector) === "*") return { positionOf: ({ index }) => index }
  if ("expression" in selector) {
    const test = (value: unknown) => {
      const around = [value] as ConstructorParameters<typeof JSONPathNode>[0]
      return selector.lazyResolve(new Node(around, [], around)).next().done !== true
    }
    return { test, positionOf: ({ index }) => index }
  }
  if ("name" in selector && typeof selector.name === "string") {
    const { name } = selector
    const written = Buffer.from(name)
    return { positionOf: (frame, bytes) => (!frame.isArray && frame.isNamed(name, written, bytes) ? 0 : undefined) }
  }
  if ("index" in selector && typeof selector.index === "number") {
    const wanted = selector.index
    return {
      isFromEnd: wanted < 0,
      positionOf: ({ isArray, index, length }) =>
        isArray && index === (wanted < 0 ? length + wanted : wanted) ? 0 : undefined,
    }
  }
  if ("step" in selector) {
    const slice = selector as Slice
    return {
      isFromEnd: [slice.start, slice.stop, slice.step].some((number) => number !== undefined && number < 0),
      positionOf: ({ isArray, index, length }) => (isArray ? positionInSlice(index, slice, length) : undefined),
    }
  }
  throw new Error(`${String(selector)} is not in RFC 9535`)
}

type Slice = { readonly start?: number; readonly stop?: number; readonly step?: number }

/** Returns the position of an element in a slice, or undefined. RFC 9535: 2.3.4, Array Slice Selector. */
function positionInSlice(index: number, { start, stop, step = 1 }: Slice, length: number): number | undefined {
  const [least, most] = step > 0 ? [0, Number.POSITIVE_INFINITY] : [-1, length - 1]
  const normal = (number: number) => Math.min(Math.max(number < 0 ? number + length : number, least), most)
  const begin = step > 0 ? least : most
  const first = start === undefined ? begin : normal(start)
  const last = stop === undefined ? undefined : normal(stop)
  const isWithin = step > 0 ? index >= first && index < (last ?? most) : index <= first && index > (last ?? least)
  const position = (index - first) / step
  return isWithin && Number.isInteger(position) ? position : undefined
}

/** Returns the offset of the first entry of the container at an offset; undefined for an empty one, and for another value. */
function firstIn(bytes: Buffer, at: number): number | undefined {
  const byte = bytes[at]
  if (byte !== OPEN_BRACE && byte !== OPEN_BRACKET) return undefined
  const first = skipSpace(bytes, at + 1)
  return bytes[first] === CLOSE_BRACE || bytes[first] === CLOSE_BRACKET ? undefined : first
}

/** Counts the elements of an array by its first one. */
function* countElements(bytes: Buffer, first: number, turn: Steps): Generator<undefined, number> {
  for (let [at, count] = [first, 1]; ; count++) {
    at = skipSpace(bytes, yield* endOf(bytes, at, turn))
    if (bytes[at] !== COMMA) return count
    at = skipSpace(bytes, at + 1)
  }
}

/** Returns the offset after the value at an offset, which must be valid JSON. */
function* endOf(bytes: Buffer, from: number, turn: Steps): Generator<undefined, number> {
  let at = from
  let counted = from
  let depth = 0
  let isInString = false
  for (;;) {
    const limit = Math.min(bytes.length, at + Math.max(turn.left, 1))
    for (; at < limit; at++) {
      const byte = bytes[at] as number
      if (isInString) {
        if (byte === BACKSLASH) at++
        else if (byte === QUOTE) {
          isInString = false
          if (depth === 0) return spent(at + 1)
        }
      } else if (byte === QUOTE) isInString = true
      else if (byte === OPEN_BRACE || byte === OPEN_BRACKET) depth++
      else if (byte === CLOSE_BRACE || byte === CLOSE_BRACKET) {
        // The end of the container around a number or a literal.
        if (depth === 0) return spent(at)
        if (--depth === 0) return spent(at + 1)
      } else if (depth === 0 && (byte === COMMA || byte <= SPACE)) return spent(at)
    }
    if (at >= bytes.length) return spent(bytes.length)
    spent(at)
    yield
  }
  function spent(end: number): number {
    canStep(turn, end - counted)
    counted = end
    return end
  }
}
