/**
 * Sends a large answer of a backend to the client while it arrives.
 *
 *  1. The large values of the result pass unchanged (wire/large-values.ts). The rest of the frame is rendered like any answer that
 *     is not relayed as bytes, with placeholders for the values: once when a value begins, to send the part before it, and once at
 *     the end.
 *  2. A part that was sent cannot be changed. If the end of the frame would change it, the answer fails. To prevent that, all
 *     members stay where they are written (wire/member-marks.ts).
 *  3. An answer that fails is broken off: the client sees an error, and never a shorter answer.
 */
import type { AnswerTaker } from "../backend/pending-requests.ts"
import type { Answer } from "../call/answer.ts"
import type { AnswerBody } from "../call/client.ts"
import { BackendError } from "../lib/errors.ts"
import { parseFrame, textOf } from "../wire/frame.ts"
import { LargeValues } from "../wire/large-values.ts"
import { markMembers, withoutMarks } from "../wire/member-marks.ts"
import { isObject, type Params, type Response } from "../wire/message.ts"

export class StreamedAnswer implements AnswerTaker {
  private readonly values = new LargeValues(this)
  private body: AnswerBody | undefined
  /** The parts of the answer's text that were sent, each before a large value. */
  private readonly parts: string[] = []
  private sent = 0
  private waiting: Promise<void> | undefined

  /**
   * `server` names the backend in errors. `render` turns a backend's message into the client's answer, if that is final. `open`
   * begins the response.
   */
  constructor(
    private readonly server: string,
    private readonly render: (message: Response) => Answer | undefined,
    private readonly open: () => AnswerBody | undefined,
  ) {}

  /** Takes the beginning of the frame. Returns whether the answer is sent while it arrives. */
  begin(head: Uint8Array): boolean {
    this.values.push(head)
    return this.isOpen
  }

  /** Whether a part of the answer was sent: then the client can receive no other answer. */
  get isOpen(): boolean {
    return this.body !== undefined
  }

  push(bytes: Uint8Array): Promise<void> | undefined {
    this.waiting = undefined
    this.values.push(bytes)
    return this.waiting
  }

  end(): Uint8Array {
    return markMembers(this.values.end(), this.values.secret)
  }

  /** Sends the rest of the answer, and returns its outcome and size. Throws a BackendError if it contradicts the parts before. */
  complete(answer: Answer): Answer {
    const parts = this.partsOf(answer)
    if (parts?.length !== this.parts.length + 1 || !this.isContinued(parts))
      throw new BackendError(this.server, "answered with a large result that contradicts itself at its end")
    this.write(parts.at(-1) ?? "")
    this.body?.end()
    return { frame: "", outcome: answer.outcome, sent: this.sent }
  }

  /** Called when a large value begins. Returns whether its bytes are sent as they arrive. */
  onvalue(frame: Uint8Array): boolean {
    const message = parseFrame(markMembers(frame, this.values.secret))
    if (!isObject(message) || !isObject(message.result) || !hasKnownType(message.result)) return false
    const answer = this.render(message as Response)
    if (answer === undefined) return false
    const parts = this.partsOf(answer)
    const part = parts?.[this.parts.length]
    if (part === undefined || parts?.length !== this.parts.length + 2 || !this.isContinued(parts)) return false
    this.body ??= this.open()
    if (this.body === undefined) return false
    this.write(part)
    this.parts.push(part)
    return true
  }

  /** Called with the bytes of a large value. */
  onbytes(bytes: Uint8Array): void {
    this.write(bytes)
  }

  // ---

  /** Splits the text of an answer at its large values. Returns undefined if it lacks some of them. */
  private partsOf({ frame }: Answer): readonly string[] | undefined {
    return this.values.split(withoutMarks(textOf(frame), this.values.secret))
  }

  private isContinued(parts: readonly string[]): boolean {
    return this.parts.every((part, at) => part === parts[at])
  }

  private write(part: Uint8Array | string): void {
    this.sent += typeof part === "string" ? Buffer.byteLength(part) : part.length
    this.waiting = this.body?.write(part) ?? this.waiting
  }
}

// ---

/** Whether the last block of a result's content, which may be incomplete, already has its type, which decides what is renamed. */
function hasKnownType({ content }: Params): boolean {
  const last: unknown = Array.isArray(content) ? content.at(-1) : undefined
  return last === undefined || (isObject(last) && typeof last.type === "string")
}
