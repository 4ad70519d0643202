/**
 * Stores the large values of an answer while it arrives, for a call with a budget: svc never has the whole answer in memory.
 *
 *  1. Nothing is stored until the answer certainly exceeds its budget. An answer that ends before stays whole.
 *  2. A value is stored as fit-result.ts stores it: a text as UTF-8, binary data as its bytes, structured content as JSON. A
 *     value in a block without a type before it is not stored, because the form depends on the type.
 *  3. If an answer fails, its stored values are dropped.
 */

import type { AnswerStorage, ClientCall } from "../../call/ports.ts"
import { viewFor } from "../../call/ready.ts"
import { toolOf } from "../../catalog/catalog.ts"
import { BackendError, messageOf } from "../../lib/errors.ts"
import { asBuffer, parseFrame } from "../../wire/frame.ts"
import { LargeValues } from "../../wire/large-values.ts"
import { asText, isObject } from "../../wire/message.ts"
import { JsonStringDecoder } from "./json-string.ts"
import { type ResultsPort, resultOwner } from "./result-budget.ts"
import { largestOf, ResultIntake, type TakenValues } from "./result-intake.ts"

/**
 * Returns the storage for the large values of a call's answer; undefined if the answer must be whole: the answer of a tool with an
 * output schema is shortened as a whole, and an answer with a very large budget may fit.
 */
export function storedAnswer(
  call: ClientCall,
  results: ResultsPort,
  server: string,
  budget: number,
): StoredAnswer | undefined {
  const most = budget * BYTES_PER_CHARACTER + ENVELOPE_BYTES
  if (most > MOST_BUFFERED || outputSchemaOf(call) !== undefined) return undefined
  const owner = resultOwner(call.client)
  const store = results.store()
  const take = (encoding: "text" | "base64") => {
    const writer = store.then((opened) => opened.create(owner))
    // A failure is reported by the first write.
    writer.catch(() => undefined)
    return new ResultIntake(writer, encoding)
  }
  return new StoredAnswer(server, most, take, (error) =>
    results.warnOnce(
      `calls with large results fail, because svc cannot store them: ${messageOf(error)}; correct that, or remove the result budget`,
    ),
  )
}

/** Returns the output schema of the tool that a call names, as its client sees it. */
export const outputSchemaOf = (call: ClientCall): unknown =>
  toolOf(viewFor(call), asText(call.request.params?.name))?.outputSchema

export class StoredAnswer implements AnswerStorage {
  private readonly intakes = new Map<string, ResultIntake>()
  private current: { readonly intake: ResultIntake; readonly decoder: JsonStringDecoder | undefined } | undefined
  /** The bytes that have arrived while the answer may still fit. */
  private first: Buffer[] = []
  private firstBytes = 0
  private values: LargeValues | undefined
  private readonly queue: { readonly intake: ResultIntake; readonly bytes: Buffer }[] = []
  private opening: Promise<void> | undefined
  private failure: unknown

  /**
   * `server` names the backend in errors. `most` is the most bytes that an answer within the budget may have. `take` begins to
   * store a value; `onfailure` is called if that fails.
   */
  constructor(
    private readonly server: string,
    private readonly most: number,
    private readonly take: (encoding: "text" | "base64") => ResultIntake,
    private readonly onfailure: (error: unknown) => void = () => undefined,
  ) {}

  push(bytes: Uint8Array): Promise<void> | undefined {
    if (this.values !== undefined) this.values.push(bytes)
    else {
      this.first.push(Buffer.from(bytes))
      this.firstBytes += bytes.length
      if (this.firstBytes <= this.most) return undefined
      this.values = new LargeValues(this)
      for (const part of this.first) this.values.push(part)
      this.first = []
    }
    return this.write()
  }

  end(): Uint8Array {
    return this.values === undefined ? Buffer.concat(this.first) : this.values.end()
  }

  /** Resolves with the stored values; undefined if the answer is whole. Rejects with a BackendError if svc cannot store them. */
  async taken(): Promise<TakenValues | undefined> {
    await this.opening
    const { failure: cause } = this
    if (cause !== undefined)
      throw new BackendError(
        this.server,
        `answered with a large result, but svc ${messageOf(cause)}; ask for less of it`,
        { cause },
      )
    return this.intakes.size === 0 ? undefined : this.intakes
  }

  async hasTaken(): Promise<boolean> {
    return (await this.taken()) !== undefined
  }

  /** Drops what was stored. */
  async abort(): Promise<void> {
    await this.opening
    for (const intake of this.intakes.values()) await intake.abort().catch(() => undefined)
  }

  /** Called when a large value begins. Returns whether it is stored. */
  onvalue(frame: Uint8Array, placeholder: string): boolean {
    const message = parseFrame(frame)
    const result = isObject(message) ? message.result : undefined
    if (!isObject(result)) return false
    const { structuredContent, content } = result
    if (structuredContent === placeholder) {
      this.store(placeholder, "text", undefined)
      return true
    }
    const { text, encoding } = largestOf(Array.isArray(content) ? content.at(-1) : undefined)
    if (text !== placeholder) return false
    this.store(placeholder, encoding, new JsonStringDecoder())
    return true
  }

  /** Called with the bytes of a large value, as they stand in the frame. */
  onbytes(bytes: Uint8Array): void {
    if (this.current === undefined || this.failure !== undefined) return
    const { intake, decoder } = this.current
    const plain = decoder === undefined ? asBuffer(bytes) : decoder.push(bytes)
    // Bytes that must wait for their file are copied: the next ones overwrite them.
    if (this.queue.length > 0 || !intake.isOpen) this.queue.push({ intake, bytes: Buffer.from(plain) })
    else this.attempt(() => intake.pushNow(plain))
  }

  // ---

  private store(placeholder: string, encoding: "text" | "base64", decoder: JsonStringDecoder | undefined): void {
    const intake = this.take(encoding)
    this.intakes.set(placeholder, intake)
    this.current = { intake, decoder }
  }

  /** Writes the bytes that have arrived. Returns a promise only if a file must be opened first, so that little is in memory. */
  private write(): Promise<void> | undefined {
    if (this.opening === undefined) this.drain()
    if (this.queue.length === 0) return undefined
    this.opening ??= this.openFiles()
    return this.opening
  }

  /** Opens the files of the values that have arrived. Never rejects. */
  private async openFiles(): Promise<void> {
    try {
      for (let next = this.queue[0]; next !== undefined; next = this.queue[0]) {
        await next.intake.open()
        this.drain()
      }
    } catch (error) {
      this.fail(error)
    }
    this.opening = undefined
  }

  private drain(): void {
    this.attempt(() => {
      for (let next = this.queue[0]; next?.intake.isOpen === true; next = this.queue[0]) {
        next.intake.pushNow(next.bytes)
        this.queue.shift()
      }
    })
  }

  private attempt(write: () => void): void {
    try {
      write()
    } catch (error) {
      this.fail(error)
    }
  }

  private fail(error: unknown): void {
    if (this.failure === undefined) this.onfailure(error)
    this.failure ??= error
    this.queue.length = 0
  }
}

// ---

/** The most bytes of a character in JSON: an escape. */
const BYTES_PER_CHARACTER = 6
/** The members around a result. */
const ENVELOPE_BYTES = 1024
/** Bytes of an answer that are kept before svc begins to store it. */
const MOST_BUFFERED = 4 * 1024 * 1024
