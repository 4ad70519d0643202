/**
 * A modern backend's `input_required` for a legacy client: its questions are put to the client as server requests, and
 * the request is tried again with the answers and the exact `requestState`. patterns: Multi Round-Trip Requests.
 */
import type { Clock } from "../lib/clock.ts"
import { RequestError } from "../lib/errors.ts"
import { isObject, type Params } from "../wire/message.ts"
import type { Exchange } from "./client.ts"

/** The params of the retry. Throws what the client answered an error with, or where it gives up on its request. */
export async function fulfilInputRequired(
  params: Params,
  result: Params,
  exchange: Exchange,
  clock: Clock,
): Promise<Params> {
  const questions = isObject(result.inputRequests) ? Object.entries(result.inputRequests) : []
  if (questions.length > MAX_QUESTIONS)
    throw new RequestError("invalid_request", "The server asks too many questions at once")
  const { cancellation } = exchange
  cancellation.throwIfCancelled()
  const controller = new AbortController()
  const withdraw = () => controller.abort()
  cancellation.onabort(withdraw)
  let cancel: () => void = () => undefined
  const look = () => {
    exchange.giveUpIfStale?.(clock.now(), false)
    cancel = clock.after(LOOK_MS, look)
  }
  look()
  const answers = await Promise.all(
    questions.map(async ([key, question]) => {
      if (!isObject(question) || typeof question.method !== "string")
        throw new RequestError("invalid_request", "The server asked a question that is no request")
      const asked = isObject(question.params) ? question.params : undefined
      return [key, await exchange.ask(question.method, asked, controller.signal)] as const
    }),
  ).finally(() => {
    cancel()
    cancellation.offabort(withdraw)
    controller.abort()
  })
  const { inputResponses: _answers, requestState: _state, ...rest } = params
  return {
    ...rest,
    ...(questions.length > 0 ? { inputResponses: Object.fromEntries(answers) } : {}),
    ...(typeof result.requestState === "string" ? { requestState: result.requestState } : {}),
  }
}

// ---

const MAX_QUESTIONS = 100
/** How often it is seen whether the client is still there to answer. */
const LOOK_MS = 1000
