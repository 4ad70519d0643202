/**
 * The capture of what a child writes beside its messages: bytes in, lines out, bounded in memory and in lines at any rate.
 *
 *  1. A line is cut at 8 KiB, never inside a character, and marked; what follows up to its end is skipped unread.
 *  2. In ten seconds at most twenty different lines pass. One that comes again is counted and summed up every five
 *     seconds; one too many is dropped, counted and said.
 *  3. A line is redacted before it is cut, so that half a secret cannot slip through, and holds no control characters,
 *     so that a child cannot write into the log as somebody else.
 *
 * spec: Limits, Stderr.
 */
import type { Clock } from "../lib/clock.ts"

export type LineCaptureOptions = {
  readonly clock: Clock
  redact(text: string): string
  /** One line, clean and redacted. */
  emit(line: string): void
}

/** Takes chunks as they come; undefined is the end, after which nothing may follow. */
export type LineCapture = (chunk: Uint8Array | undefined) => void

export const MAX_LINE_BYTES = 8 * 1024
export const MAX_DISTINCT_LINES = 20

export function createLineCapture({ clock, redact, emit }: LineCaptureOptions): LineCapture {
  const held = new Uint8Array(HELD_BYTES)
  let size = 0
  let skipping = false
  let windowEnds = Number.NEGATIVE_INFINITY
  /** The different lines of this window, the last one at the end. */
  let seen: Seen[] = []
  let dropped = 0
  let timer: (() => void) | undefined

  const summarize = () => {
    timer?.()
    timer = undefined
    const last = seen.at(-1)
    for (const line of seen) {
      if (line.repeats === 0 || line.text === "") continue
      const which = line === last ? "last line" : `line "${line.text.slice(0, EXCERPT)}"`
      emit(`${which} repeated ${times(line.repeats)}`)
      line.repeats = 0
    }
    if (dropped > 0)
      emit(
        `${dropped} more ${dropped === 1 ? "line was" : "lines were"} dropped: at most ${MAX_DISTINCT_LINES} different ones pass in ${WINDOW_MS / 1000} s`,
      )
    dropped = 0
  }

  const line = (bytes: Uint8Array) => {
    if (bytes.length === 0) return
    let before: Seen | undefined
    for (const other of seen)
      if (other.bytes.length === bytes.length && other.bytes.equals(bytes)) {
        before = other
        break
      }
    if (before === undefined && seen.length < MAX_DISTINCT_LINES) {
      // What was repeated is said before the next line, where its order still tells something.
      if (seen.at(-1)?.repeats) summarize()
      const text = render(bytes, redact)
      seen.push({ bytes: Buffer.from(bytes), text, repeats: 0 })
      if (text !== "") emit(text)
      return
    }
    if (before === undefined) dropped++
    else before.repeats++
    timer ??= clock.after(SUMMARY_MS, () => {
      timer = undefined
      summarize()
    })
  }

  const hold = (bytes: Uint8Array) => {
    const part = bytes.subarray(0, HELD_BYTES - size)
    held.set(part, size)
    size += part.length
    if (size < HELD_BYTES) return
    line(held)
    size = 0
    skipping = true
  }

  return (chunk) => {
    if (chunk === undefined) {
      line(held.subarray(0, size))
      size = 0
      summarize()
      return
    }
    // Once for a chunk: under a flood, asking for each line would be most of the work.
    const now = clock.now()
    if (now >= windowEnds) {
      summarize()
      seen = []
      windowEnds = now + WINDOW_MS
    }
    let from = 0
    for (let at = chunk.indexOf(LF); at >= 0; at = chunk.indexOf(LF, from)) {
      const part = chunk.subarray(from, at)
      from = at + 1
      if (!skipping && size === 0) line(part.length > HELD_BYTES ? part.subarray(0, HELD_BYTES) : part)
      else {
        if (!skipping) hold(part)
        if (!skipping) line(held.subarray(0, size))
        size = 0
        skipping = false
      }
    }
    if (!skipping && from < chunk.length) hold(chunk.subarray(from))
  }
}

/** The capture as a taker of whole lines. */
export function lineWriter(capture: LineCapture): (line: Uint8Array) => void {
  return (line) => {
    capture(line)
    capture(BREAK)
  }
}

/** Text without what would steer a terminal or forge a line: escape sequences, control and direction characters. */
export function stripControls(text: string): string {
  return text.replace(ESCAPES, "").replace(/\r+$/, "").replaceAll("\r", " ").replace(CONTROLS, "")
}

// ---

const WINDOW_MS = 10_000
const SUMMARY_MS = 5_000

type Seen = { readonly bytes: Buffer; readonly text: string; repeats: number }

const LF = 0x0a
const BREAK = new Uint8Array([LF])
/** More than is shown is held, so that a secret at the cut is seen whole and redacted. */
const HELD_BYTES = MAX_LINE_BYTES + 1024
const EXCERPT = 60
const CUT = " … (cut)"

/** CSI (colours, cursor), OSC and its kin (titles, links) with their text, and the shorter sequences. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
const ESCAPES = /\u001b\[[0-?]*[ -/]*[@-~]|\u001b[\]P^_X][^\u0007\u001b]*(?:\u0007|\u001b\\)?|\u001b[ -/]*[0-~]/g
/** Every control character but the tab, line separators, and what turns the direction of text around. */
const CONTROLS = /[^\P{Cc}\t]|[\u2028\u2029\u202a-\u202e\u2066-\u2069]/gu

const decoder = new TextDecoder()
const encoder = new TextEncoder()

const times = (count: number): string => (count === 1 ? "once" : `${count} times`)

function render(bytes: Uint8Array, redact: (text: string) => string): string {
  const text = redact(stripControls(decoder.decode(bytes)).trimEnd())
  const whole = encoder.encode(text)
  if (bytes.length < HELD_BYTES && whole.length <= MAX_LINE_BYTES) return text
  let end = Math.min(MAX_LINE_BYTES, whole.length)
  while (end > 0 && ((whole[end] ?? 0) & 0xc0) === 0x80) end--
  return decoder.decode(whole.subarray(0, end)) + CUT
}
