/**
 * The last calls of tools, in memory; once their content is wanted, also their arguments and the beginnings of their results.
 *
 *  1. A call costs little: nothing is serialized beyond a few hundred values and characters, and masked only when it is read.
 *  2. Arguments whose names promise a secret are left out at once.
 */
import type { Answer } from "../../call/answer.ts"
import type { Client } from "../../call/client.ts"
import type { FinishedCall } from "../../call/ports.ts"
import type { Clock } from "../../lib/clock.ts"
import { isSecretName } from "../../lib/secret-names.ts"
import { cutText } from "../../lib/text.ts"
import { isObject, type Request } from "../../wire/message.ts"

/** One finished call. `time` and `ms` in milliseconds, `time` since the epoch. */
export type CallRecord = {
  readonly id: number
  readonly time: number
  readonly ms: number
  /** Of `ms`: how long the call waited for its server or for a person, and how long the server had it. */
  readonly waited: number
  readonly atServer: number
  readonly server: string
  readonly tool: string
  readonly outcome: FinishedCall["outcome"]
  /** Name and version, as stated by the client. */
  readonly client: string
  readonly principal: string
  /** Undefined for a call whose content was not kept. */
  readonly arguments: unknown
  /** Whether `arguments` is all that was sent. */
  readonly whole: boolean
  /** The beginning of the answer; undefined if it was not kept. */
  readonly answer: string | undefined
}

/** What is kept of a finished call. */
export type RecordedCall = Omit<FinishedCall, "seconds" | "call" | "answer"> & {
  readonly call: {
    readonly client: Pick<Client, "info" | "principal">
    readonly request: Pick<Request, "params">
  }
  readonly answer: Pick<Answer, "frame">
}

export class CallRecords {
  private readonly records: CallRecord[] = []
  private last = 0

  /** @param keepsContent whether calls are kept with their arguments and answers; otherwise only with their names */
  constructor(
    private readonly clock: Clock,
    private keepsContent: boolean,
  ) {}

  /** Keeps the content of calls from now on. */
  keepContent(): void {
    this.keepsContent = true
  }

  add({ server, tool, outcome, parts, call, answer }: RecordedCall): void {
    const { client, request } = call
    const { name, version } = client.info
    this.last++
    this.records.push({
      id: this.last,
      time: this.clock.now(),
      ms: millis((parts.waiting + parts.server + parts.svc) / 1000),
      waited: millis(parts.waiting / 1000),
      atServer: millis(parts.server / 1000),
      server,
      tool: beginningOf(tool, MAX_NAME),
      outcome,
      client: beginningOf([name, version].filter((part) => typeof part === "string").join(" "), MAX_NAME),
      principal: client.principal,
      ...(this.keepsContent ? contentOf(request, answer) : NO_CONTENT),
    })
    if (this.records.length > KEPT) this.records.shift()
  }

  /** Returns the calls, newest first. */
  all(): readonly CallRecord[] {
    return this.records.toReversed()
  }

  /**
   * Returns the next calls after the one with the id `after`, oldest first, a few at a time, because a caller masks their content in one
   * turn of the event loop. An `after` of an earlier svc, which is above all ids, counts as 0.
   */
  next(after: number): readonly CallRecord[] {
    const from = after > this.last ? 0 : after
    return this.records.filter(({ id }) => id > from).slice(0, NEXT)
  }
}

/** A call as people see it. */
export type ShownCall = ReturnType<typeof shownCall>

/** Returns seconds as milliseconds with three decimals. */
export const millis = (seconds: number): number => Math.round(seconds * 1e6) / 1000

/** Returns a call as people see it: `time` in ISO 8601, and secrets hidden by `mask`. */
export function shownCall({ arguments: given, answer, ...record }: CallRecord, mask: (text: string) => string) {
  return {
    ...record,
    tool: mask(record.tool),
    client: mask(record.client),
    time: new Date(record.time).toISOString(),
    ...(given === undefined ? {} : { arguments: masked(given, mask) }),
    ...(answer === undefined ? {} : { answer: mask(answer) }),
  }
}

// ---

const KEPT = 200
const NEXT = 10
const MAX_VALUES = 300
const MAX_TEXT = 1000
const MAX_NAME = 200
const MAX_ANSWER_BYTES = 6000

const NO_CONTENT = { arguments: undefined, whole: false, answer: undefined } as const

function contentOf({ params }: RecordedCall["call"]["request"], { frame }: RecordedCall["answer"]) {
  const budget: Budget = { left: MAX_VALUES, isWhole: true }
  const given = shortened((isObject(params) ? params.arguments : undefined) ?? {}, budget, "")
  return { arguments: given, whole: budget.isWhole, answer: headOf(frame) }
}

/** Masks all texts of a JSON value, also the names of members: a client chooses them. */
function masked(value: unknown, mask: (text: string) => string): unknown {
  if (typeof value === "string") return mask(value)
  if (Array.isArray(value)) return value.map((item) => masked(item, mask))
  if (!isObject(value)) return value
  return Object.fromEntries(Object.entries(value).map(([name, item]) => [mask(name), masked(item, mask)]))
}

/** Returns the beginning of a text as a copy: a slice would keep the whole text in memory. */
const beginningOf = (text: string, length: number): string =>
  text.length <= length ? text : Buffer.from(cutText(text, length)).toString()

type Budget = { left: number; isWhole: boolean }

/** Returns a value with long texts cut, secrets left out, and at most as many values as the budget allows. */
function shortened(value: unknown, budget: Budget, name: string): unknown {
  if (isSecretName(name) && value !== null && value !== "") {
    budget.isWhole = false
    return "•••"
  }
  if (--budget.left < 0) {
    budget.isWhole = false
    return "…"
  }
  if (typeof value === "string") {
    if (value.length <= MAX_TEXT) return value
    budget.isWhole = false
    return beginningOf(value, MAX_TEXT)
  }
  if (Array.isArray(value)) {
    if (value.length > budget.left) budget.isWhole = false
    return value.slice(0, Math.max(0, budget.left)).map((item) => shortened(item, budget, name))
  }
  if (!isObject(value)) return value
  const kept: [string, unknown][] = []
  for (const key in value) {
    if (budget.left <= 0) {
      budget.isWhole = false
      break
    }
    kept.push([beginningOf(key, MAX_NAME), shortened(value[key], budget, key)])
  }
  return Object.fromEntries(kept)
}

function headOf(frame: Uint8Array | string): string | undefined {
  if (frame.length === 0) return undefined
  if (typeof frame === "string") return beginningOf(frame, MAX_ANSWER_BYTES)
  return new TextDecoder().decode(frame.subarray(0, MAX_ANSWER_BYTES))
}
