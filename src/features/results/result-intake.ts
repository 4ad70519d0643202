/** Stores one large value of a result, and keeps the parts that the answer shows: its beginning, end and shape. */
import { cutText } from "../../lib/text.ts"
import { sizeOfCharacter } from "../../wire/json-scanner.ts"
import { asText, isObject } from "../../wire/message.ts"
import { TextShape } from "./result-shape.ts"
import type { ResultWriter, StoredResult } from "./result-store.ts"

/** A stored large value, with the parts that the answer shows. */
export type LargeValue = {
  readonly stored: StoredResult
  readonly kind: "json" | "table" | "text" | "binary"
  /** The shape in words. */
  readonly shape: string
  /** The beginning and the end of a text; empty for a binary value. */
  readonly head: string
  readonly tail: string
}

/** The values that were taken out of a result while it arrived, by the placeholders that stand for them in the rest. */
export type TakenValues = ReadonlyMap<string, ResultIntake>

/** Receives a text, or a binary value in base64, in pieces. */
export class ResultIntake {
  private readonly text: TextShape | undefined
  private opened: ResultWriter | undefined
  private finished: Promise<LargeValue> | undefined
  private head: Buffer = Buffer.alloc(0)
  /** The last bytes. */
  private readonly last: Buffer = Buffer.alloc(EDGE_BYTES)
  private lastBytes = 0
  /** Characters of base64 that do not form a complete group yet. */
  private rest = ""

  constructor(
    private readonly writer: Promise<ResultWriter>,
    private readonly encoding: "text" | "base64",
  ) {
    this.text = encoding === "text" ? new TextShape() : undefined
  }

  /** Opens the file, for `pushNow`. Rejects with an UnavailableError. */
  async open(): Promise<void> {
    const writer = await this.writer
    await writer.open()
    this.opened = writer
  }

  /** Whether the file is open. */
  get isOpen(): boolean {
    return this.opened !== undefined
  }

  /** Receives bytes as `push` does, and writes them at once. Throws an UnavailableError. */
  pushNow(bytes: Buffer): void {
    this.opened?.writeNow(this.seen(bytes))
  }

  /** Receives bytes: UTF-8 of a text, or of base64. Rejects with an UnavailableError if they cannot be stored. */
  async push(bytes: Buffer): Promise<void> {
    await (await this.writer).write(this.seen(bytes))
  }

  /** Returns a digest that does not depend on white space; undefined if the value is not JSON. */
  get compactDigest(): string | undefined {
    return this.text?.compactDigest
  }

  /** Completes the value once, or rejects with an UnavailableError. `mimeType` is the type of a binary value. */
  finish(budget: number, mimeType: string | undefined): Promise<LargeValue> {
    this.finished ??= this.complete(budget, mimeType)
    return this.finished
  }

  async abort(): Promise<void> {
    await (await this.writer).abort()
  }

  // ---

  private async complete(budget: number, mimeType: string | undefined): Promise<LargeValue> {
    if (this.rest !== "") await this.push(Buffer.alloc(0))
    if (this.text === undefined) {
      const type = mimeType ?? "application/octet-stream"
      const stored = await (await this.writer).finish({ mimeType: type, isText: false, budget })
      return { stored, kind: "binary", shape: type, head: "", tail: "" }
    }
    const { kind, mimeType: own, shape } = this.text.describe(Math.min(MAX_SHAPE, Math.floor(budget / 8)))
    const stored = await (await this.writer).finish({ mimeType: mimeType ?? own, isText: true, budget })
    return {
      stored,
      kind,
      shape,
      head: textOf(this.head, "start"),
      tail: textOf(this.last.subarray(0, this.lastBytes), "end"),
    }
  }

  /** Returns the bytes to store, after recording their shape and edges. */
  private seen(bytes: Buffer): Buffer {
    const plain = this.encoding === "text" ? bytes : this.decoded(bytes.toString("latin1"))
    this.text?.push(plain)
    if (this.head.length < EDGE_BYTES)
      this.head = Buffer.concat([this.head, plain.subarray(0, EDGE_BYTES - this.head.length)])
    // Shifts the previous last bytes and appends the new ones, without copying all bytes.
    const added = Math.min(plain.length, EDGE_BYTES)
    const kept = Math.min(this.lastBytes, EDGE_BYTES - added)
    this.last.copyWithin(0, this.lastBytes - kept, this.lastBytes)
    plain.copy(this.last, kept, plain.length - added)
    this.lastBytes = kept + added
    return plain
  }

  private decoded(text: string): Buffer {
    const all = this.rest + text.replace(/\s+/g, "")
    const whole = text === "" ? all.length : all.length - (all.length % 4)
    this.rest = all.slice(whole)
    return Buffer.from(all.slice(0, whole), "base64")
  }
}

/** Passes a whole text, or base64, to an intake. */
export async function pushWhole(intake: ResultIntake, text: string): Promise<void> {
  for (let at = 0; at < text.length; ) {
    const piece = cutText(text.slice(at, at + PIECE + 1), PIECE)
    await intake.push(Buffer.from(piece))
    at += piece.length
  }
}

/** Returns the large value of a content block, and what the block is. A block that svc does not know is stored as JSON. */
export function largestOf(block: unknown): {
  readonly encoding: "text" | "base64"
  readonly text: string
  readonly mimeType: string | undefined
  readonly about: string
} {
  const { type, text, data, mimeType, resource } = isObject(block) ? block : {}
  const media = typeof mimeType === "string" ? cutText(mimeType, MAX_MIME_TYPE) : undefined
  if (type === "text" && typeof text === "string")
    return { encoding: "text", text, mimeType: undefined, about: "this text" }
  if ((type === "image" || type === "audio") && typeof data === "string")
    return { encoding: "base64", text: data, mimeType: media, about: `this ${type}` }
  if (type === "resource" && isObject(resource)) {
    const own = typeof resource.mimeType === "string" ? cutText(resource.mimeType, MAX_MIME_TYPE) : undefined
    const about = `the resource ${cutText(asText(resource.uri ?? ""), 200)}`
    if (typeof resource.text === "string") return { encoding: "text", text: resource.text, mimeType: own, about }
    if (typeof resource.blob === "string") return { encoding: "base64", text: resource.blob, mimeType: own, about }
  }
  return {
    encoding: "text",
    text: JSON.stringify(block) ?? "",
    mimeType: "application/json",
    about: "this content block",
  }
}

/** Returns the text of bytes that may begin or end within a character, without the partial character. */
export function textOf(bytes: Buffer, edge: "start" | "end"): string {
  let [start, end] = [0, bytes.length]
  if (edge === "end") while (start < Math.min(4, end) && isContinuation(bytes[start])) start++
  else {
    let lead = end - 1
    while (lead >= Math.max(0, end - 4) && isContinuation(bytes[lead])) lead--
    if (lead >= 0 && lead + sizeOfCharacter(bytes[lead] as number) > end) end = lead
  }
  return bytes.toString("utf8", start, end)
}

/** Whether a byte continues a character of UTF-8. */
export const isContinuation = (byte: number | undefined): boolean => byte !== undefined && (byte & 0xc0) === 0x80

// ---

/** More bytes than an answer shows of a value's beginning or end. */
const EDGE_BYTES = 64 * 1024
const PIECE = 64 * 1024
const MAX_SHAPE = 1500
/** A longer media type says nothing more. */
const MAX_MIME_TYPE = 100
