/**
 * Captures the output of a child beside its messages, and decides which lines are logged.
 *
 *  1. A line of stderr is logged at level info as `stderr: …`; a line of stdout that is not a message at level warn.
 *  2. A line is cut at 8 KiB, never inside a character, and marked; the rest of the line is skipped.
 *  3. At most twenty distinct lines pass in ten seconds. Repeats are counted and summarized every five seconds; further
 *     lines are dropped, counted and reported.
 *  4. A line is redacted before it is cut, so that half a secret cannot pass, and control characters are removed, so that a
 *     child cannot forge a line of the log.
 *  5. When the child exits, a recent line of stderr explains why: exit-reason.ts.
 *
 * spec: Limits, Stderr.
 */
import type { Clock } from "../lib/clock.ts"
import type { Log } from "../lib/log.ts"
import { counted, times } from "../lib/text.ts"
import { ExitReason } from "./exit-reason.ts"

/** Receives a child's output beside its messages. */
export type ChildOutput = {
  /** Takes a chunk of stderr. */
  onstderr(chunk: Uint8Array): void
  /** Takes the end of stderr, after which no chunk follows. */
  onstderrend(): void
  /** Takes a line of stdout that cannot be a message. */
  onstdoutnoise(line: Uint8Array): void
  /** Returns the line of stderr that explains an exit now, if there is one. */
  exitReason(): string | undefined
}

/** Logs a child's output under its server's name. */
export class ChildOutputLogger implements ChildOutput {
  private readonly stderr: LineCapture
  private readonly stdout: LineCapture
  private readonly reason: ExitReason

  constructor(
    clock: Clock,
    private readonly log: Log,
    private readonly server: string,
    redact: (text: string) => string,
  ) {
    this.reason = new ExitReason(clock)
    this.stderr = new LineCapture({ clock, redact, emit: (line) => this.logStderr(line) })
    this.stdout = new LineCapture({
      clock,
      redact,
      emit: (line) => log.warn(`printed text on stdout that is not MCP (logs belong on stderr): ${line}`, { server }),
    })
  }

  onstderr(chunk: Uint8Array): void {
    this.stderr.push(chunk)
  }

  onstderrend(): void {
    this.stderr.end()
  }

  onstdoutnoise(line: Uint8Array): void {
    this.stdout.pushLine(line)
  }

  exitReason(): string | undefined {
    return this.reason.reason()
  }

  private logStderr(line: string): void {
    this.reason.observe(line)
    this.log.info(`stderr: ${line}`, { server: this.server })
  }
}

export type LineCaptureOptions = {
  readonly clock: Clock
  redact(text: string): string
  /** Receives one line, clean and redacted. */
  emit(line: string): void
  /** The limit of a line in bytes. */
  readonly limit?: number
}

export const MAX_LINE_BYTES = 8 * 1024
const MAX_DISTINCT_LINES = 20

/** Turns bytes into lines by rules 2 to 4, bounded in memory and in lines at any rate. */
export class LineCapture {
  /** The start of a line that has not ended. */
  private readonly held: Uint8Array
  private size = 0
  /** Whether the rest of the current line is skipped. */
  private skipping = false
  private windowEnds = Number.NEGATIVE_INFINITY
  /** The distinct lines of this window, the newest at the end. */
  private distinct: DistinctLine[] = []
  private dropped = 0
  private cancelSummary: (() => void) | undefined

  constructor(private readonly options: LineCaptureOptions) {
    this.held = new Uint8Array((options.limit ?? MAX_LINE_BYTES) + CUT_MARGIN_BYTES)
  }

  push(chunk: Uint8Array): void {
    this.openWindow()
    let from = 0
    for (let at = chunk.indexOf(LF); at >= 0; at = chunk.indexOf(LF, from)) {
      this.endLine(chunk.subarray(from, at))
      from = at + 1
    }
    if (!this.skipping && from < chunk.length) this.hold(chunk.subarray(from))
  }

  /** Takes one whole line, without its break. */
  pushLine(line: Uint8Array): void {
    this.push(line)
    this.endLine(EMPTY)
  }

  /** Emits the rest. Nothing may follow. */
  end(): void {
    this.takeLine(this.held.subarray(0, this.size))
    this.size = 0
    this.summarize()
  }

  // ---

  /** Reads the clock only once per chunk: in a flood, reading it for each line would be most of the work. */
  private openWindow(): void {
    const now = this.options.clock.now()
    if (now < this.windowEnds) return
    this.summarize()
    this.distinct = []
    this.windowEnds = now + WINDOW_MS
  }

  private endLine(part: Uint8Array): void {
    if (!this.skipping && this.size === 0) {
      this.takeLine(part.subarray(0, this.held.length))
      return
    }
    if (!this.skipping) this.hold(part)
    if (!this.skipping) this.takeLine(this.held.subarray(0, this.size))
    this.size = 0
    this.skipping = false
  }

  private hold(bytes: Uint8Array): void {
    const part = bytes.subarray(0, this.held.length - this.size)
    this.held.set(part, this.size)
    this.size += part.length
    if (this.size < this.held.length) return
    this.takeLine(this.held)
    this.size = 0
    this.skipping = true
  }

  private takeLine(bytes: Uint8Array): void {
    if (bytes.length === 0) return
    const known = this.findDistinct(bytes)
    if (known !== undefined) known.repeats++
    else if (this.distinct.length < MAX_DISTINCT_LINES) {
      this.takeDistinct(bytes)
      return
    } else this.dropped++
    this.cancelSummary ??= this.options.clock.after(SUMMARY_MS, () => {
      this.cancelSummary = undefined
      this.summarize()
    })
  }

  private findDistinct(bytes: Uint8Array): DistinctLine | undefined {
    for (const line of this.distinct) if (line.bytes.length === bytes.length && line.bytes.equals(bytes)) return line
    return undefined
  }

  private takeDistinct(bytes: Uint8Array): void {
    // Repeats of the last line are reported before the next line, in the order they came.
    if (this.distinct.at(-1)?.repeats) this.summarize()
    const text = render(bytes, this.held.length, this.options.redact)
    this.distinct.push({ bytes: Buffer.from(bytes), text, repeats: 0 })
    if (text !== "") this.options.emit(text)
  }

  private summarize(): void {
    const { emit } = this.options
    this.cancelSummary?.()
    this.cancelSummary = undefined
    const last = this.distinct.at(-1)
    for (const line of this.distinct) {
      if (line.repeats === 0 || line.text === "") continue
      const name = line === last ? "last line" : `line "${line.text.slice(0, EXCERPT)}"`
      emit(`${name} repeated ${times(line.repeats)}`)
      line.repeats = 0
    }
    if (this.dropped > 0)
      emit(
        `dropped ${counted(this.dropped, "more line")}: at most ${MAX_DISTINCT_LINES} distinct lines pass in ${WINDOW_MS / 1000} s`,
      )
    this.dropped = 0
  }
}

/** Removes escape sequences, control and direction characters, which could control a terminal or forge a line. */
export function stripControls(text: string): string {
  const line = text.replace(ESCAPES, "")
  let end = line.length
  while (line[end - 1] === "\r") end--
  return line.slice(0, end).replaceAll("\r", " ").replace(CONTROLS, "")
}

// ---

const WINDOW_MS = 10_000
const SUMMARY_MS = 5_000

type DistinctLine = { readonly bytes: Buffer; readonly text: string; repeats: number }

const LF = 0x0a
const EMPTY = new Uint8Array()
/** Bytes that are held beyond the limit, so that a secret at the cut is still recognized. */
const CUT_MARGIN_BYTES = 1024
const EXCERPT = 60
const CUT = " … (cut)"

/** CSI (colours, cursor), OSC and similar sequences (titles, links) with their text, and the shorter sequences. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: the pattern matches control characters
const ESCAPES = /\u001b\[[0-?]*[ -/]*[@-~]|\u001b[\]P^_X][^\u0007\u001b]*(?:\u0007|\u001b\\)?|\u001b[ -/]*[0-~]/g
/** Control characters except the tab, line separators, and characters that change the direction of text. */
const CONTROLS = /[^\P{Cc}\t]|[\u2028\u2029\u202a-\u202e\u2066-\u2069]/gu

const decoder = new TextDecoder()
const encoder = new TextEncoder()

/** Returns a line for the log: without controls, redacted, and cut. A line of `held` bytes may have been longer. */
function render(bytes: Uint8Array, held: number, redact: (text: string) => string): string {
  const text = redact(stripControls(decoder.decode(bytes)).trimEnd())
  const whole = encoder.encode(text)
  const limit = held - CUT_MARGIN_BYTES
  const isWhole = bytes.length < held
  if (isWhole && whole.length <= limit) return text
  // Redaction may have moved the end of the held bytes, which may be half a secret, before the limit.
  let end = Math.min(limit, isWhole ? whole.length : Math.max(0, whole.length - CUT_MARGIN_BYTES))
  while (end > 0 && ((whole[end] ?? 0) & 0xc0) === 0x80) end--
  return decoder.decode(whole.subarray(0, end)) + CUT
}
