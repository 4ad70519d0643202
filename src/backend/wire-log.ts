/**
 * The messages between svc and the servers that somebody watches with `svc logs --wire`.
 *
 *  1. Nothing is recorded of a server unless a watcher has asked for it, and then only until its request runs out.
 *  2. Messages are masked before they are cut: half a secret would not be recognized.
 */
import type { Clock } from "../lib/clock.ts"
import { cutText } from "../lib/text.ts"

export type WireLogOptions = {
  readonly clock: Clock
  /** Removes secrets from a text. */
  mask(text: string): string
  /** Writes a line to the log of a server. */
  write(server: string, line: string): void
}

/** Records a message: one that svc sent to the server, or one that the server sent. */
export type RecordMessage = (direction: "sent" | "received", frame: Uint8Array | string) => void

export class WireLog {
  /** When the recording of each server ends, milliseconds since the epoch. */
  private readonly ends = new Map<string, number>()

  constructor(private readonly options: WireLogOptions) {}

  /** Records the messages of a server for `ms` milliseconds from now. */
  watch(server: string, ms: number): void {
    this.ends.set(server, this.options.clock.now() + ms)
  }

  /** Returns what records the messages of a server; undefined if nobody watches. */
  recorderOf(server: string): RecordMessage | undefined {
    const end = this.ends.get(server)
    if (end === undefined) return undefined
    const { clock, mask, write } = this.options
    if (clock.now() < end)
      return (direction, frame) => {
        const bytes = typeof frame === "string" ? Buffer.from(frame) : frame
        const text = cutText(mask(Buffer.from(bytes.subarray(0, READ_BYTES)).toString("utf8")), SHOWN_CHARS)
        const rest = bytes.length > SHOWN_CHARS ? ` … (${bytes.length} bytes)` : ""
        write(server, `${WIRE_MARKS[direction]} ${text}${rest}`)
      }
    this.ends.delete(server)
    return undefined
  }
}

// ---

/** The first character of a recorded line. */
const WIRE_MARKS = { sent: "→", received: "←" } as const

/** What is shown of a message. */
const SHOWN_CHARS = 8 * 1024
/** What is masked of it: a secret that is cut at the end is not shown. */
const READ_BYTES = 16 * 1024
