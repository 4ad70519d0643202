/**
 * Answers a tool call with a part of a result that exceeds its budget, and stores the whole result. Loaded by the first such
 * result. choice: Large results.
 *
 *  1. svc stores what the tool sent: a text as UTF-8, an image as its bytes, structured content as JSON. If all blocks become one
 *     text, values that are already stored are put back into it.
 *  2. The answer says what was left out and how to read it, and links to it. It stays within the budget.
 *  3. An error stays an error, with the beginning of its message.
 *  4. Structured content that repeats a text is not sent, unless the tool has an output schema. Then it is shortened so that it
 *     still matches the schema; if that fails, the result stays whole.
 *  5. A result that cannot be stored stays whole.
 */

import type { Answer } from "../../call/answer.ts"
import type { ClientCall, Target } from "../../call/ports.ts"
import { viewFor } from "../../call/ready.ts"
import { BackendError, messageOf, UnavailableError } from "../../lib/errors.ts"
import { JsonNumber, parseExact } from "../../lib/json.ts"
import { counted, cutText } from "../../lib/text.ts"
import { textOf } from "../../wire/frame.ts"
import { isObject, type Params } from "../../wire/message.ts"
import { offersReading, READ_RESULT, type ResultsPort, resultOwner, resultUri } from "./result-budget.ts"
import { shortened } from "./result-cut.ts"
import {
  textOf as edgeOf,
  type LargeValue,
  largestOf,
  pushWhole,
  ResultIntake,
  type TakenValues,
} from "./result-intake.ts"
import type { ResultStore } from "./result-store.ts"
import { outputSchemaOf } from "./stored-answer.ts"

/**
 * Returns the answer of a tool call with at most `budget` characters; the same answer if it fits, is not a complete result, or
 * cannot be shortened. `taken` has its values that are already stored: if svc cannot complete such an answer, rejects with a
 * BackendError.
 */
export async function fitResult(
  answer: Answer,
  call: ClientCall,
  results: ResultsPort,
  { spec }: Pick<Target, "spec">,
  tool: string,
  budget: number,
  taken: TakenValues = NONE_TAKEN,
): Promise<Answer> {
  const text = textOf(answer.frame)
  // A repeated member may have replaced a value that was stored.
  const values = new Map([...taken].filter(([placeholder]) => text.includes(placeholder)))
  const isWhole = values.size === 0
  const parsed: unknown = parseExact(text)
  const message = isObject(parsed) ? parsed : {}
  const { result } = message
  const isFinished = isObject(result) && !isUnfinished(result)
  if (isWhole && (!isFinished || charactersOf(result, budget) <= budget)) return answer
  let fitting: Fitting | undefined
  try {
    fitting = new Fitting(call, results, await results.store(), tool, budget, values)
    const fitted = isFinished ? await fitting.fit(result) : undefined
    if (fitted === undefined) {
      if (isFinished)
        results.warnOnce(
          `results of ${tool} of ${spec.name} exceed the budget of ${budget} characters and pass whole: its output schema, or a member besides the content, does not allow a part of them`,
        )
      return isWhole ? answer : { frame: await fitting.restore(text, result), outcome: answer.outcome }
    }
    const frame = JSON.stringify({ ...message, result: fitted })
    if ([...values.keys()].some((placeholder) => frame.includes(placeholder)))
      throw new BackendError(spec.name, "answered with a large result that contradicts itself at its end")
    results.sizes.recordCut(spec.id, tool)
    return { frame, outcome: answer.outcome }
  } catch (error) {
    if (!(error instanceof UnavailableError)) throw error
    if (!isWhole) throw new BackendError(spec.name, `answered with a large result, but svc ${error.message}`)
    results.warnOnce(`large results pass whole, because svc cannot store them: ${messageOf(error)}`)
    return answer
  } finally {
    await fitting?.close()
  }
}

// ---

const NONE_TAKEN: TakenValues = new Map()

/** Characters that are reserved for the note about a stored value. */
const NOTE_CHARS = 1000
/** Bytes of a stored value that are read at once: whole groups of base64. */
const PIECE_BYTES = 3 * 64 * 1024
/** Blocks that are shorter stay in the answer: the note about a stored one would be longer. */
const SMALL_CHARS = NOTE_CHARS

/** A part of the answer that is shown for a stored value. */
type Shown = {
  readonly value: LargeValue
  readonly about: string
  /** The part of it that the answer has, if that is not its beginning and its end. */
  readonly more?: string
}

/** Structured content to be stored; `taken` if it is already stored. `isShown`: the answer has a part of it. */
type Structured = { readonly whole: unknown; readonly taken: ResultIntake | undefined; readonly isShown: boolean }

/** The work on one result. */
class Fitting {
  private readonly intakes: ResultIntake[] = []
  private readonly owner: string
  private readonly isReadable: boolean

  constructor(
    private readonly call: ClientCall,
    results: ResultsPort,
    private readonly store: ResultStore,
    private readonly tool: string,
    private readonly budget: number,
    private readonly values: TakenValues,
  ) {
    const { client } = call
    this.owner = resultOwner(client)
    this.isReadable = offersReading(client.scope, viewFor(call), results)
  }

  /** Resolves with the shortened result; with undefined if it must stay whole. Rejects with an UnavailableError. */
  async fit(result: Params): Promise<Params | undefined> {
    const { structuredContent, content, ...rest } = result
    const blocks = await this.withSmallValues(Array.isArray(content) ? content : [])
    const isError = result.isError === true
    const taken = this.takenFor(structuredContent)
    const isSmall = taken === undefined && charactersOf(structuredContent, SMALL_CHARS) <= SMALL_CHARS
    const promised = isSmall || isError ? undefined : outputSchemaOf(this.call)
    const structured =
      promised === undefined ? undefined : shortened(structuredContent, promised, Math.floor(this.budget / 3))
    if (promised !== undefined && structured === undefined) return undefined
    const shown = isSmall ? structuredContent : structured
    const left = this.budget - charactersOf(rest, this.budget) - charactersOf(shown, this.budget)
    // Members that svc does not know would leave too little room for the content.
    if (left < this.budget / 2) return undefined
    const stored = isSmall ? undefined : { whole: structuredContent, taken, isShown: structured !== undefined }
    const fitted = { ...rest, content: await this.contentOf(blocks, stored, left) }
    return shown === undefined ? fitted : { ...fitted, structuredContent: shown }
  }

  /** Resolves with the text of an answer with its stored values put back, and removes them from the store. */
  async restore(text: string, result: unknown): Promise<string> {
    const structured = isObject(result) ? this.takenFor(result.structuredContent) : undefined
    const pieces: string[] = []
    for await (const piece of this.withValues(text, structured)) pieces.push(piece)
    return pieces.join("")
  }

  /** Drops the values whose storage was not completed. */
  async close(): Promise<void> {
    for (const intake of [...this.intakes, ...this.values.values()]) await intake.abort()
  }

  // ---

  /** Returns the intake that has already stored a value, if any. */
  private takenFor(value: unknown): ResultIntake | undefined {
    return typeof value === "string" && this.values.size > 0 ? this.values.get(value) : undefined
  }

  /** Resolves with the blocks; values that are stored, although the answer may show them whole, are put back. */
  private async withSmallValues(blocks: readonly unknown[]): Promise<readonly unknown[]> {
    if (this.values.size === 0) return blocks
    const whole: unknown[] = []
    for (const block of blocks) {
      const { text, mimeType } = largestOf(block)
      const value = await this.takenFor(text)?.finish(this.budget, mimeType)
      const isSmall = value !== undefined && value.stored.size <= this.budget
      whole.push(isSmall ? parseExact(await this.restore(JSON.stringify(block), undefined)) : block)
    }
    return whole
  }

  /** Yields a JSON text with the stored values in place of their placeholders, and removes the values from the store. */
  private async *withValues(text: string, structured: ResultIntake | undefined): AsyncGenerator<string> {
    const places = [...this.values]
      .map(([placeholder, intake]) => ({
        at: text.indexOf(`"${placeholder}"`),
        length: placeholder.length + 2,
        intake,
      }))
      .filter(({ at }) => at >= 0)
      .sort((one, other) => one.at - other.at)
    let from = 0
    for (const { at, length, intake } of places) {
      const isJson = intake === structured
      yield text.slice(from, at) + (isJson ? "" : '"')
      for await (const plain of this.piecesOf(intake)) yield isJson ? plain : JSON.stringify(plain).slice(1, -1)
      if (!isJson) yield '"'
      from = at + length
    }
    yield text.slice(from)
  }

  /** Yields a stored value as the tool sent it, a text or base64, in pieces, and removes it from the store. */
  private async *piecesOf(intake: ResultIntake): AsyncGenerator<string> {
    const { stored, kind } = await intake.finish(this.budget, undefined)
    const decoder = new TextDecoder("utf-8", { ignoreBOM: true })
    const reader = await this.store.open(stored.id, this.owner)
    if (reader === undefined)
      throw new UnavailableError("cannot find the stored part of the result; call the tool again")
    try {
      for (let at = 0; at < stored.size; at += PIECE_BYTES) {
        const bytes = await reader.read(at, at + PIECE_BYTES)
        yield kind === "binary" ? bytes.toString("base64") : decoder.decode(bytes, { stream: true })
      }
    } finally {
      await reader.close()
      this.store.remove(stored.id)
    }
  }

  private async contentOf(
    blocks: readonly unknown[],
    structured: Structured | undefined,
    left: number,
  ): Promise<readonly unknown[]> {
    const taken = new Map<unknown, ResultIntake>()
    for (const block of blocks) {
      const value = this.takenFor(largestOf(block).text)
      if (value !== undefined) taken.set(block, value)
    }
    const large = new Set(blocks.filter((block) => taken.has(block) || charactersOf(block, SMALL_CHARS) > SMALL_CHARS))
    const smallCharacters = blocks.reduce<number>(
      (sum, block) => sum + (large.has(block) ? 0 : charactersOf(block, left)),
      0,
    )
    if (
      smallCharacters > left / 3 ||
      large.size * NOTE_CHARS > left * 0.8 ||
      (large.size === 0 && structured === undefined)
    )
      return this.storeBlocks(blocks, new Set(taken.keys()), structured, left)
    let characters = smallCharacters
    /** Returns how many characters of each stored text the answer shows. */
    const share = (isStored: boolean): number => {
      const texts = large.size + (isStored && structured?.isShown === false ? 1 : 0)
      return Math.floor((left - characters - (isStored ? NOTE_CHARS : 0)) / Math.max(1, texts) - NOTE_CHARS)
    }
    // Blocks that are not longer than the shown part of a stored one stay in the answer, the shortest first.
    for (const { block, length } of [...large]
      .map((block) => ({ block, length: charactersOf(block, left) }))
      .sort((one, other) => one.length - other.length)) {
      if (taken.has(block) || length > share(structured !== undefined) + NOTE_CHARS) continue
      large.delete(block)
      characters += length
    }
    for (const block of large) {
      const { encoding, text } = largestOf(block)
      if (!taken.has(block)) taken.set(block, await this.take(encoding, text))
    }
    const own = structured && (await this.takeStructured(structured, [...taken.values()]))
    const each = share(own !== undefined)
    const shown: unknown[] = []
    for (const block of blocks) {
      const intake = taken.get(block)
      if (intake === undefined) shown.push(block)
      else {
        const { mimeType, about } = largestOf(block)
        shown.push(...this.show({ value: await intake.finish(this.budget, mimeType), about }, each))
      }
    }
    if (own !== undefined) {
      const value = await own.finish(this.budget, "application/json")
      shown.push(...this.show({ value, about: "the structured content" }, structured?.isShown ? 0 : each))
    }
    return shown
  }

  /** Stores all blocks as one JSON text, and shows as many of the first ones as fit, up to the first of the `taken` ones. */
  private async storeBlocks(
    blocks: readonly unknown[],
    taken: ReadonlySet<unknown>,
    structured: Structured | undefined,
    left: number,
  ): Promise<readonly unknown[]> {
    const more = structured === undefined ? {} : { structuredContent: structured.whole }
    const whole = { content: blocks, ...more }
    const intake = this.begin("text")
    for await (const piece of this.withValues(JSON.stringify(whole), structured?.taken)) await pushWhole(intake, piece)
    const value = await intake.finish(this.budget, "application/json")
    const first: unknown[] = []
    let used = 0
    for (const block of blocks) {
      used += charactersOf(block, left)
      if (taken.has(block) || used > (left - NOTE_CHARS) * 0.6) break
      first.push(block)
    }
    const about = `all ${counted(blocks.length, "content block")}`
    const shown = first.length === 0 ? {} : { more: `of which the first ${counted(first.length, "block")} follow` }
    const [note, ...links] = this.show({ value, about, ...shown }, first.length === 0 ? left - NOTE_CHARS : 0)
    return [note, ...first, ...links]
  }

  /** Stores structured content; resolves with undefined if one of the texts is the same JSON. */
  private async takeStructured(
    { whole, taken }: Structured,
    texts: readonly ResultIntake[],
  ): Promise<ResultIntake | undefined> {
    const intake = taken ?? (await this.take("text", JSON.stringify(whole)))
    const { compactDigest } = intake
    if (!texts.some((text) => text.compactDigest !== undefined && text.compactDigest === compactDigest)) return intake
    await intake.abort()
    return undefined
  }

  private async take(encoding: "text" | "base64", text: string): Promise<ResultIntake> {
    const intake = this.begin(encoding)
    await pushWhole(intake, text)
    return intake
  }

  private begin(encoding: "text" | "base64"): ResultIntake {
    const intake = new ResultIntake(Promise.resolve(this.store.create(this.owner)), encoding)
    this.intakes.push(intake)
    return intake
  }

  /** Returns the blocks that replace a stored value: a note, `characters` of its beginning and end, and a link. */
  private show({ value, about, more }: Shown, characters: number): readonly unknown[] {
    const { stored, kind, shape, head, tail } = value
    const { id, size, sha256, mimeType } = stored
    const uri = resultUri(id)
    const isText = kind !== "binary" && characters > 0
    const start = isText ? cutText(head, size <= characters ? size : Math.floor(characters * 0.7)) : ""
    const edge = isText ? tail.slice(Math.max(0, tail.length - Math.floor(characters * 0.2))) : ""
    // The end must not repeat what the beginning shows.
    const left = Math.max(0, size - Buffer.byteLength(start))
    const bytes = Buffer.from(edge.replace(/^[\uDC00-\uDFFF]/, ""))
    const end = edgeOf(bytes.subarray(Math.max(0, bytes.length - left)), "end")
    const shownBytes = Buffer.byteLength(start) + Buffer.byteLength(end)
    const hidden = size - shownBytes
    const part = hidden === 0 ? "which follow" : `of which ${hidden} in the middle are left out here`
    const rest = shownBytes === 0 ? "not in this answer" : part
    const note = `[svc stored ${about}: ${size} bytes, ${more ?? rest}. ${shape}\n${this.howToRead(id, kind, uri)}]`
    const gap = hidden === 0 ? "" : `\n\n[… ${hidden} bytes left out …]\n\n`
    const text = start === "" ? note : `${note}\n\n${start}${gap}${end}`
    const link = {
      type: "resource_link",
      uri,
      name: `${this.tool} result`,
      description: `${about}, whole; SHA-256 ${sha256}`,
      mimeType,
      size,
      _meta: { "svc/sha256": sha256 },
    }
    // Clients of older revisions do not know this block.
    return this.call.client.protocolVersion < LINKS_SINCE
      ? [{ type: "text", text: `${text}\n[${uri}, SHA-256 ${sha256}]` }]
      : [{ type: "text", text }, link]
  }

  private howToRead(id: string, kind: LargeValue["kind"], uri: string): string {
    if (!this.isReadable) return `Read parts of the resource ${uri}, for example ${uri}?range=0-3999.`
    if (kind === "binary")
      return `Read its bytes with ${READ_RESULT} {"id": "${id}", "range": "0-2999"}, or open the link.`
    const ways = kind === "json" ? '"path": "$.…"' : '"lines": "100-150"'
    return `Read the parts that you need with ${READ_RESULT} {"id": "${id}", "grep": "…"}, or ${ways} or "range": "0-3999" in place of grep.`
  }
}

/** The first revision with resource links in results. */
const LINKS_SINCE = "2025-06-18"

/** A question to the client, or a task. */
const isUnfinished = ({ resultType, content, structuredContent }: Params): boolean =>
  (resultType !== undefined && resultType !== "complete") || (content === undefined && structuredContent === undefined)

/** Returns about how many characters a JSON value has as text, without escapes. Stops counting above `most`. */
function charactersOf(value: unknown, most: number): number {
  if (typeof value === "string") return value.length + 2
  if (value === undefined) return 0
  if (value instanceof JsonNumber) return value.text.length
  if (typeof value !== "object" || value === null) return String(value).length
  let sum = 2
  for (const [key, member] of Object.entries(value)) {
    sum += (Array.isArray(value) ? 1 : key.length + 4) + charactersOf(member, most)
    if (sum > most) break
  }
  return sum
}
