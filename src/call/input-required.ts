/**
 * Fulfils a modern backend's `input_required` for a legacy client: sends each input request to the client as a server request.
 * The call is then retried with the responses and the exact `requestState`. patterns: Multi Round-Trip Requests.
 */
import { type Clock, every } from "../lib/clock.ts"
import { RequestError } from "../lib/errors.ts"
import { isObject, type Params } from "../wire/message.ts"
import type { Exchange } from "./client.ts"

/** Returns the params of the retry. Rejects with the error of the client, or if the client cancels its request. */
export async function fulfilInputRequired(
  params: Params,
  result: Params,
  exchange: Exchange,
  clock: Clock,
): Promise<Params> {
  const questions = isObject(result.inputRequests) ? Object.entries(result.inputRequests) : []
  if (questions.length > MAX_QUESTIONS)
    throw new RequestError("invalid_request", "The server requests too many inputs at once")
  const { cancellation } = exchange
  cancellation.throwIfCancelled()
  const controller = new AbortController()
  const withdraw = () => controller.abort()
  cancellation.onabort(withdraw)
  exchange.giveUpIfStale?.(clock.now(), false)
  const cancel = every(clock, CHECK_MS, () => exchange.giveUpIfStale?.(clock.now(), false))
  const answers = await Promise.all(
    questions.map(async ([key, question]) => {
      if (!isObject(question) || typeof question.method !== "string")
        throw new RequestError("invalid_request", "The server sent an input request without a method")
      const asks = isObject(question.params) ? question.params : undefined
      return [key, await exchange.ask(question.method, asks, controller.signal)] as const
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
/** How often svc checks that the client is still connected, in milliseconds. */
const CHECK_MS = 1000
