/** Questions of tools to the person at the admin page who has called them. client: Elicitation. */
import { RequestError } from "../../lib/errors.ts"
import type { Params } from "../../wire/message.ts"

/** A question that waits for an answer. */
export type OpenQuestion = {
  readonly id: string
  /** The text with which the page marked its call. */
  readonly asks: string
  readonly message: string
  /** The form to fill in; undefined if the person must visit `url`. */
  readonly requestedSchema?: Params
  readonly url?: string
}

/** An answer, as `ElicitResult`. */
export type QuestionAnswer = { readonly action: "accept" | "decline" | "cancel"; readonly content?: Params | undefined }

type Waiting = { readonly question: OpenQuestion; resolve(answer: QuestionAnswer): void }

export class Questions {
  private readonly waiting = new Map<string, Waiting>()
  private readonly watchers = new Set<(event: "question" | "answered", data: OpenQuestion | { id: string }) => void>()

  constructor(private readonly newId: () => string) {}

  /**
   * Asks the person whose call has the mark `asks`. Resolves to the answer. Rejects with a RequestError for a request that is no
   * question, or if no page is open; rejects when `signal` is aborted.
   */
  async ask(asks: string, method: string, params: Params | undefined, signal: AbortSignal): Promise<QuestionAnswer> {
    if (method !== "elicitation/create" || params === undefined)
      throw new RequestError("invalid_request", "The admin page answers only questions to a person")
    if (this.watchers.size === 0 || this.waiting.size >= MAX_OPEN) return { action: "cancel" }
    const { message, mode, url, requestedSchema } = params
    const question: OpenQuestion = {
      id: this.newId(),
      asks,
      message: String(message ?? ""),
      ...(mode === "url" ? { url: String(url) } : { requestedSchema: (requestedSchema ?? {}) as Params }),
    }
    const { promise, resolve, reject } = Promise.withResolvers<QuestionAnswer>()
    const abort = () => reject(signal.reason)
    signal.addEventListener("abort", abort, { once: true })
    if (signal.aborted) abort()
    this.waiting.set(question.id, { question, resolve })
    this.tell("question", question)
    try {
      return await promise
    } finally {
      signal.removeEventListener("abort", abort)
      this.waiting.delete(question.id)
      this.tell("answered", { id: question.id })
    }
  }

  /** Answers a question. Throws a RequestError (not_found) if nobody asks it any more. */
  answer(id: string, answer: QuestionAnswer): void {
    const found = this.waiting.get(id)
    if (found === undefined) throw new RequestError("not_found", "The tool no longer waits for this answer")
    found.resolve(answer)
  }

  /** Calls `onchange` for each question that waits now or later, and for each that waits no longer. */
  watch(onchange: (event: "question" | "answered", data: OpenQuestion | { id: string }) => void): () => void {
    this.watchers.add(onchange)
    for (const { question } of this.waiting.values()) onchange("question", question)
    return () => void this.watchers.delete(onchange)
  }

  // ---

  private tell(event: "question" | "answered", data: OpenQuestion | { id: string }): void {
    for (const watcher of this.watchers) watcher(event, data)
  }
}

// ---

const MAX_OPEN = 20
