/**
 * Calls of modern clients that outlive a request: a legacy backend sends a server request during a call, the client gets it
 * as an `input_required` result, and its retry finds the call that still waits in the backend.
 * patterns: Multi Round-Trip Requests.
 *
 *  1. `requestState` is sealed and bound to principal, scope, method, parameters and an expiry; any other is refused with
 *     -32602. State that svc has not sealed goes to the backend.
 *  2. A call waits for its client WAIT_MS at most, and MAX_WAITING calls wait at once. It is YIELD_MS if other clients wait for
 *     the same server: while the call is open, the server's requests to them cannot be told from requests to this client.
 *  3. A client never gets a request that it has no capability for: the client's request fails with -32021 and the call ends.
 *     A client without roots has an empty list of them.
 */
import { PeerError } from "../backend/connection.ts"
import { viewOf } from "../catalog/catalog.ts"
import { identityOf } from "../catalog/scope.ts"
import type { Clock } from "../lib/clock.ts"
import { sha256 } from "../lib/digest.ts"
import { RequestError, RPC_CODE } from "../lib/errors.ts"
import { canonical, parseExact } from "../lib/json.ts"
import type { Sealer } from "../lib/seal.ts"
import { MISSING_CLIENT_CAPABILITY } from "../wire/era.ts"
import { textOf } from "../wire/frame.ts"
import { type Id, isObject, metaOf, type Params, type Request } from "../wire/message.ts"
import { type Answer, errorAnswer, failureAnswer, refusalAnswer, resultAnswer } from "./answer.ts"
import { Cancellation } from "./cancellation.ts"
import { type Client, type Exchange, missingCapability } from "./client.ts"
import { dispatch } from "./dispatch.ts"
import type { ClientCall } from "./ports.ts"

/** The way back of one modern request. */
type Turn = Pick<Exchange, "notify" | "cancellation">

export type SuspendedCallsDeps = {
  readonly clock: Clock
  readonly sealer: Sealer
  /** Unguessable text. */
  newId(): string
  onbug(error: unknown): void
}

type SuspendedQuestion = {
  readonly method: string
  readonly params: Params | undefined
  resolve(result: unknown): void
  reject(error: Error): void
}

/** The request that a call answers next. */
type CurrentTurn = {
  readonly request: Request
  readonly turn: Turn
  resolve(answer: Answer): void
  /** Listens for the cancellation of the request. */
  readonly drop: (reason: string) => void
}

/** One call that may take several requests. */
type SuspendedCall = {
  /** The id in its `requestState`, once it waits for its client. */
  id: string | undefined
  readonly client: Client
  readonly questions: Map<string, SuspendedQuestion>
  /** The request of the client that waits for an answer; undefined while the client is away. */
  current: CurrentTurn | undefined
  /** Cancels the backend's call. */
  readonly cancellation: Cancellation
  /** The answer that came while the client was away. */
  answer: Answer | undefined
  forget: () => void
  /** When the client was last given a request to answer, milliseconds since the epoch. */
  awaySince: number
  asking: boolean
  count: number
}

export class SuspendedCalls {
  private readonly waiting = new Map<string, SuspendedCall>()

  constructor(private readonly deps: SuspendedCallsDeps) {}

  /** Answers one modern request, new or taken up again. Never rejects. */
  serve(served: ClientCall): Promise<Answer> {
    const { request, client, gateway, verify, exchange: turn } = served
    const state = request.params?.requestState
    const opened =
      typeof state === "string" && state.startsWith(PREFIX)
        ? this.deps.sealer.open(state.slice(PREFIX.length))
        : undefined
    // State that svc did not seal may be the backend's own: that of another svc looks the same.
    if (opened !== undefined) return this.resume(served, opened)
    const call: SuspendedCall = {
      id: undefined,
      client,
      questions: new Map(),
      current: undefined,
      cancellation: new Cancellation(),
      answer: undefined,
      forget: () => undefined,
      awaySince: 0,
      asking: false,
      count: 0,
    }
    const exchange: Exchange = {
      notify(text) {
        const { current } = call
        const sent = current === undefined || call.count === 0 ? text : withToken(text, current.request)
        if (sent !== undefined) current?.turn.notify(sent)
      },
      ask: (method, params, signal) => this.ask(call, method, params, signal),
      giveUpIfStale: (now, others) => this.giveUpIfStale(call, now, others),
      cancellation: call.cancellation,
    }
    const promise = this.take(call, request, turn)
    void dispatch({ request, gateway, client, exchange, verify }).then((answer) => this.finish(call, answer))
    return promise
  }

  /** Cancels all calls that wait for their clients. */
  close(): void {
    for (const call of [...this.waiting.values()]) this.drop(call, "svc is shutting down")
  }

  // ---

  private ask(call: SuspendedCall, method: string, params: Params | undefined, signal: AbortSignal): Promise<unknown> {
    const missing = missingCapability(call.client.capabilities, method, params)
    // Servers request roots at any time, not because a call needs them.
    if (missing !== undefined && method === "roots/list") return Promise.resolve({ roots: [] })
    if (missing !== undefined) {
      const { current } = call
      this.release(call)
      current?.resolve(
        errorAnswer(
          current.request.id,
          MISSING_CLIENT_CAPABILITY,
          `The server needs a capability of the client: ${method}`,
          {
            requiredCapabilities: missing,
          },
        ),
      )
      // The call ends after the backend has received the reason.
      queueMicrotask(() => this.drop(call, `the client cannot answer ${method}`))
      return Promise.reject(new PeerError(RPC_CODE.methodNotFound, `The client does not support ${method}`))
    }
    if (call.questions.size >= MAX_QUESTIONS)
      return Promise.reject(new RequestError("too_many", "Too many requests to this client are open"))
    if (signal.aborted) return Promise.reject(withdrawn())
    const key = `q${++call.count}`
    const { promise, resolve, reject } = Promise.withResolvers<unknown>()
    call.questions.set(key, { method, params, resolve, reject })
    signal.addEventListener("abort", () => {
      if (call.questions.delete(key)) reject(withdrawn())
    })
    if (!call.asking) {
      call.asking = true
      // Several requests that a server sends at once go into one result.
      this.deps.clock.after(GATHER_MS, () => {
        call.asking = false
        this.put(call)
      })
    }
    return promise
  }

  /** Gives the open requests of the server to the client, if its request waits. */
  private put(call: SuspendedCall): void {
    const { current } = call
    if (current === undefined || call.questions.size === 0) return
    if (!this.waits(call) && this.waiting.size >= MAX_WAITING) {
      this.drop(call, "too many calls wait for their clients")
      return
    }
    this.release(call)
    call.forget()
    call.awaySince = this.deps.clock.now()
    const expires = call.awaySince + WAIT_MS
    call.forget = this.deps.clock.after(WAIT_MS, () => this.drop(call, "the client did not answer in time"))
    call.id ??= this.deps.newId()
    this.waiting.set(call.id, call)
    const { principal, scope } = call.client
    const sealed = JSON.stringify([call.id, principal, identityOf(scope), digestOf(current.request), expires])
    const requestState = PREFIX + this.deps.sealer.seal(sealed)
    const inputRequests = Object.fromEntries(
      [...call.questions].map(([key, { method, params }]) => [
        key,
        params === undefined ? { method } : { method, params },
      ]),
    )
    const result = { resultType: "input_required", inputRequests, requestState }
    current.resolve(resultAnswer(current.request.id, JSON.stringify(result)))
  }

  private async resume({ request, client, gateway, verify, exchange }: ClientCall, opened: string): Promise<Answer> {
    const refusal = verify?.(viewOf(gateway.directory.catalogOf(client.session), client.scope))
    if (refusal !== undefined) return refusal
    const refuse = (message: string) => refusalAnswer(request.id, "invalid_params", message)
    const [id, principal, scope, digest, expires] = JSON.parse(opened) as [string, string, string, string, number]
    if (principal !== client.principal || scope !== identityOf(client.scope) || digest !== digestOf(request))
      return refuse("requestState belongs to another request")
    const call = this.waiting.get(id)
    if (call === undefined || expires < this.deps.clock.now())
      return refuse("requestState has expired: send the request again without it")
    const answers = request.params?.inputResponses
    if (answers !== undefined && (!isObject(answers) || Object.values(answers).some((answer) => !isObject(answer))))
      return refuse("inputResponses must be an object of results")
    if (call.current !== undefined) return refuse("another request answers this call at the moment")
    const promise = this.take(call, request, exchange)
    if (call.answer !== undefined) {
      this.finish(call, call.answer)
      return promise
    }
    for (const [key, answer] of Object.entries(isObject(answers) ? answers : {})) {
      const question = call.questions.get(key)
      call.questions.delete(key)
      question?.resolve(answer)
    }
    // Requests without a response are given to the client again.
    if (call.questions.size > 0) this.put(call)
    return promise
  }

  private finish(call: SuspendedCall, answer: Answer): void {
    const { current } = call
    if (current === undefined) {
      if (this.waits(call)) call.answer = answer
      return
    }
    this.leave(call)
    call.forget()
    this.release(call)
    current.resolve(call.count === 0 ? answer : this.readdressed(answer, current.request.id))
  }

  /** Rewrites the answer to the first request for the one that waits now. Never throws: the client waits for it. */
  private readdressed(answer: Answer, id: Id): Answer {
    try {
      const frame = JSON.stringify({ ...(parseExact(textOf(answer.frame)) as Params), id })
      return { ...answer, outcome: answer.outcome, frame }
    } catch (error) {
      return failureAnswer(id, error, { hide: (text) => text, onbug: this.deps.onbug })
    }
  }

  /** Drops a call whose client has been away for too long while others wait for the server. */
  private giveUpIfStale(call: SuspendedCall, now: number, others: boolean): void {
    if (!others || call.current !== undefined || !this.waits(call)) return
    if (now - call.awaySince >= YIELD_MS) this.drop(call, "the client did not answer while others waited")
  }

  /** Ends a call that its client has cancelled. */
  private drop(call: SuspendedCall, reason: string): void {
    this.leave(call)
    call.forget()
    for (const question of call.questions.values()) question.reject(new RequestError("invalid_request", reason))
    call.questions.clear()
    call.cancellation.cancel(reason)
  }

  /** Makes a request the one that the call answers next. */
  private take(call: SuspendedCall, request: Request, turn: Turn): Promise<Answer> {
    const { promise, resolve } = Promise.withResolvers<Answer>()
    const drop = (reason: string) => this.drop(call, reason)
    call.current = { request, turn, resolve, drop }
    turn.cancellation.onabort(drop)
    return promise
  }

  /** Lets go of the request that the call answers: its client may leave now. */
  private release(call: SuspendedCall): void {
    call.current?.turn.cancellation.offabort(call.current.drop)
    call.current = undefined
  }

  private waits({ id }: SuspendedCall): boolean {
    return id !== undefined && this.waiting.has(id)
  }

  private leave({ id }: SuspendedCall): void {
    if (id !== undefined) this.waiting.delete(id)
  }
}

// ---

const withdrawn = (): RequestError => new RequestError("invalid_request", "The server withdrew its request")

const PREFIX = "svc."
const GATHER_MS = 25
const WAIT_MS = 10 * 60_000
const YIELD_MS = 60_000
const MAX_WAITING = 1000
const MAX_QUESTIONS = 100

/** Returns a digest of what a retry must repeat of its request: method and params without what a retry adds. */
function digestOf({ method, params }: Request): string {
  const { _meta, inputResponses, requestState, ...rest } = params ?? {}
  return sha256(canonical([method, rest]), "base64url")
}

/** Rewrites a progress notification for the token of the request that waits now; undefined if that wants no progress. */
function withToken(text: string, { params }: Request): string | undefined {
  const message: unknown = parseExact(text)
  if (!isObject(message) || message.method !== "notifications/progress" || !isObject(message.params)) return text
  const progressToken = metaOf(params)?.progressToken
  if (progressToken === undefined) return undefined
  return JSON.stringify({ ...message, params: { ...message.params, progressToken } })
}
