/**
 * Calls of modern clients that outlive a request: a legacy backend sends a server request during a call, the client receives it
 * as an `input_required` result, and its retry resumes the call, which still runs in the backend.
 * patterns: Multi Round-Trip Requests.
 *
 *  1. `requestState` is sealed and bound to principal, scope, method, parameters and an expiry; if these differ, the retry is
 *     refused with -32602. State that svc has not sealed is passed to the backend.
 *  2. A call waits for its client at most WAIT_MS, and at most MAX_WAITING calls wait at once. If other clients wait for the same
 *     server, the limit is YIELD_MS: while the call is open, the server's requests to them cannot be distinguished from requests
 *     to this client.
 *  3. A client never receives a request for which it lacks the capability: its own request then fails with -32021 and the call
 *     ends. A client without roots counts as one with an empty list of roots.
 *  4. A server request is answered once. If the client's request is answered or cancelled before the client has seen the server
 *     request, another call of the client may deliver it (CallEndedError). A client that has seen it sends a retry; until then,
 *     the answer to its call is kept.
 */
import { CallEndedError } from "../backend/attribution.ts"
import { type Answer, errorAnswer, failureAnswer, refusalAnswer, resultAnswer } from "../call/answer.ts"
import { Cancellation } from "../call/cancellation.ts"
import { type Client, type Exchange, lackingCapability, missingCapability, REPLICA } from "../call/client.ts"
import type { ClientCall } from "../call/ports.ts"
import { viewFor } from "../call/ready.ts"
import { identityOf } from "../catalog/scope.ts"
import type { Clock } from "../lib/clock.ts"
import { sha256 } from "../lib/digest.ts"
import { RequestError } from "../lib/errors.ts"
import { canonical, parseExact } from "../lib/json.ts"
import type { Sealer } from "../lib/seal.ts"
import { MISSING_CLIENT_CAPABILITY } from "../wire/era.ts"
import { textOf } from "../wire/frame.ts"
import { type Id, isObject, metaOf, type Params, type Request } from "../wire/message.ts"
import { dispatch } from "./dispatch.ts"

/** The exchange of one modern request. */
type Turn = Pick<Exchange, "notify" | "openBody" | "cancellation">

export type SuspendedCallsDeps = {
  readonly clock: Clock
  readonly sealer: Sealer
  /** The id of this replica; undefined for a single svc. */
  readonly replica?: string | undefined
  /** Returns unguessable text. */
  newId(): string
  onbug(error: unknown): void
}

type SuspendedQuestion = {
  readonly method: string
  readonly params: Params | undefined
  resolve(result: unknown): void
  reject(error: Error): void
}

/** The phase of a call. */
type Phase =
  /** A request of the client waits for an answer. `oncancel` listens for the cancellation of that request. */
  | {
      readonly kind: "open"
      readonly request: Request
      readonly turn: Turn
      resolve(answer: Answer): void
      readonly oncancel: (reason: string) => void
    }
  /** The client has the server requests, and will send a retry. `answer` is the backend's answer, if it has arrived. */
  | {
      readonly kind: "away"
      /** Milliseconds since the epoch. */
      readonly since: number
      cancelExpiry(): void
      readonly answer: Answer | undefined
    }
  /** The client has its answer, or the call has been dropped. */
  | { readonly kind: "over" }

/** One call that may take several requests. */
type SuspendedCall = {
  /** The id in its `requestState`, once its client has received a server request. */
  id: string | undefined
  readonly client: Client
  phase: Phase
  /** The server requests that the client has not answered, by their keys in `inputRequests`. */
  readonly questions: Map<string, SuspendedQuestion>
  /** Number of server requests so far. */
  count: number
  /** Whether server requests are being gathered for one result. */
  gathering: boolean
  /** Cancels the backend's call. */
  readonly cancellation: Cancellation
}

export class SuspendedCalls {
  private readonly waiting = new Map<string, SuspendedCall>()

  constructor(private readonly deps: SuspendedCallsDeps) {}

  /** Answers one modern request, new or resumed. Never rejects. */
  serve(served: ClientCall): Promise<Answer> {
    const { request, client, gateway, verify, address, span, exchange: turn } = served
    const opened = this.opened(request.params?.requestState, prefixFor(client))
    // State that svc cannot open may be the backend's own, even with this prefix: the backend may be another svc.
    if (opened !== undefined) return this.resume(served, opened)
    const call: SuspendedCall = {
      id: undefined,
      client,
      phase: OVER,
      questions: new Map(),
      count: 0,
      gathering: false,
      cancellation: new Cancellation(),
    }
    const exchange: Exchange = {
      notify(text) {
        const { phase, id } = call
        if (phase.kind !== "open") return
        const sent = id === undefined ? text : withToken(text, phase.request)
        if (sent !== undefined) phase.turn.notify(sent)
      },
      ask: (method, params, signal) => this.ask(call, method, params, signal),
      // An answer to a later request has another id.
      openBody: () => (call.phase.kind === "open" && call.id === undefined ? call.phase.turn.openBody?.() : undefined),
      isConnected: () => call.phase.kind === "open",
      giveUpIfStale: (now, others) => this.giveUpIfStale(call, now, others),
      cancellation: call.cancellation,
    }
    const promise = this.open(call, request, turn)
    void dispatch({ request, gateway, client, exchange, verify, address, span }).then((answer) =>
      this.finish(call, answer),
    )
    return promise
  }

  /**
   * Returns the replica that must handle a request with this `requestState`: the one with the call, or the one that forwarded the
   * call to the replica that runs the server. Returns undefined if svc did not seal it.
   */
  replicaOf(state: unknown): string | undefined {
    const opened = this.opened(state, PREFIX) ?? this.opened(state, PREFIX_FOR_REPLICA)
    return opened === undefined ? undefined : ((JSON.parse(opened) as SealedCall)[5] ?? undefined)
  }

  /** Cancels all calls that wait for their clients. */
  close(): void {
    for (const call of [...this.waiting.values()]) this.drop(call, "svc is shutting down")
  }

  // ---

  private opened(state: unknown, prefix: string): string | undefined {
    return typeof state === "string" && state.startsWith(prefix)
      ? this.deps.sealer.open(state.slice(prefix.length))
      : undefined
  }

  /** Makes the call answer this request of the client next. */
  private open(call: SuspendedCall, request: Request, turn: Turn): Promise<Answer> {
    const { promise, resolve } = Promise.withResolvers<Answer>()
    const oncancel = (reason: string) => this.drop(call, reason, new CallEndedError(reason))
    turn.cancellation.onabort(oncancel)
    call.phase = { kind: "open", request, turn, resolve, oncancel }
    return promise
  }

  private ask(call: SuspendedCall, method: string, params: Params | undefined, signal: AbortSignal): Promise<unknown> {
    const missing = missingCapability(call.client.capabilities, method, params)
    // Servers request roots at any time, not because a call needs them.
    if (missing !== undefined && method === "roots/list") return Promise.resolve({ roots: [] })
    if (missing !== undefined) return this.refuse(call, method, missing)
    if (call.questions.size >= MAX_QUESTIONS)
      return Promise.reject(new RequestError("too_many", "Too many requests to this client are open"))
    if (signal.aborted) return Promise.reject(withdrawn())
    const key = `q${++call.count}`
    const { promise, resolve, reject } = Promise.withResolvers<unknown>()
    call.questions.set(key, { method, params, resolve, reject })
    signal.addEventListener("abort", () => {
      if (call.questions.delete(key)) reject(withdrawn())
    })
    if (!call.gathering) {
      call.gathering = true
      // Gathers several requests that a server sends at once in one result.
      this.deps.clock.after(GATHER_MS, () => {
        call.gathering = false
        this.put(call)
      })
    }
    return promise
  }

  /** Ends a call because its client lacks a capability that the server needs. */
  private refuse(call: SuspendedCall, method: string, missing: Params): Promise<never> {
    const { phase } = call
    if (phase.kind === "open") {
      const message = `The server needs a capability of the client: ${method}`
      const data = { requiredCapabilities: missing }
      call.phase = OVER
      resolvePhase(phase, errorAnswer(phase.request.id, MISSING_CLIENT_CAPABILITY, message, data))
    }
    // The call ends after the backend has received the reason.
    queueMicrotask(() => this.drop(call, `the client cannot answer ${method}`))
    return Promise.reject(lackingCapability(missing, call.client.capabilities, method))
  }

  /** Sends the open requests of the server to the client, if its request waits. */
  private put(call: SuspendedCall): void {
    const { phase, questions, client } = call
    if (phase.kind !== "open" || questions.size === 0) return
    if (call.id === undefined && this.waiting.size >= MAX_WAITING) {
      rejectAll(questions, new RequestError("too_many", "Too many calls wait for their clients"))
      return
    }
    const { clock, newId, sealer, replica } = this.deps
    call.id ??= newId()
    this.waiting.set(call.id, call)
    const since = clock.now()
    const sealed: SealedCall = [
      call.id,
      boundTo(client),
      identityOf(client.scope),
      digestOf(phase.request),
      since + WAIT_MS,
      client.behalf?.split(" ")[0] ?? replica ?? null,
    ]
    const cancelExpiry = clock.after(WAIT_MS, () => this.drop(call, "the client did not answer in time"))
    call.phase = { kind: "away", since, cancelExpiry, answer: undefined }
    const inputRequests = Object.fromEntries(
      [...questions].map(([key, { method, params }]) => [key, params === undefined ? { method } : { method, params }]),
    )
    const requestState = prefixFor(client) + sealer.seal(JSON.stringify(sealed))
    const result = { resultType: "input_required", inputRequests, requestState }
    resolvePhase(phase, resultAnswer(phase.request.id, JSON.stringify(result)))
  }

  private async resume({ request, client, gateway, verify, exchange }: ClientCall, opened: string): Promise<Answer> {
    const refusal = verify?.(viewFor({ client, gateway }))
    if (refusal !== undefined) return refusal
    const refuse = (message: string) => refusalAnswer(request.id, "invalid_params", message)
    const [id, principal, scope, digest, expires] = JSON.parse(opened) as SealedCall
    if (principal !== boundTo(client) || scope !== identityOf(client.scope) || digest !== digestOf(request))
      return refuse("requestState belongs to another request")
    const call = this.waiting.get(id)
    if (call === undefined || expires < this.deps.clock.now())
      return refuse("requestState has expired: send the request again without it")
    const answers = request.params?.inputResponses ?? {}
    if (!isObject(answers) || Object.values(answers).some((answer) => !isObject(answer)))
      return refuse("inputResponses must be an object of results")
    const { phase } = call
    if (phase.kind !== "away") return refuse("another request answers this call at the moment")
    phase.cancelExpiry()
    const promise = this.open(call, request, exchange)
    for (const [key, answer] of Object.entries(answers)) {
      const question = call.questions.get(key)
      call.questions.delete(key)
      question?.resolve(answer)
    }
    if (phase.answer !== undefined) this.finish(call, phase.answer)
    // Sends requests without a response to the client again.
    else this.put(call)
    return promise
  }

  /** Handles the answer of the backend. */
  private finish(call: SuspendedCall, answer: Answer): void {
    const { phase } = call
    switch (phase.kind) {
      case "open":
        this.leave(call)
        call.phase = OVER
        rejectAll(call.questions, new CallEndedError("the call was answered"))
        resolvePhase(phase, call.id === undefined ? answer : this.readdressed(answer, phase.request.id))
        return
      case "away":
        call.phase = { ...phase, answer }
        return
      case "over":
        return
    }
  }

  /** Rewrites the answer to the first request for the request that waits now. Never throws, because the client waits. */
  private readdressed(answer: Answer, id: Id): Answer {
    try {
      const frame = JSON.stringify({ ...(parseExact(textOf(answer.frame)) as Params), id })
      return { ...answer, outcome: answer.outcome, frame }
    } catch (error) {
      return failureAnswer(id, error, { hide: (text) => text, onbug: this.deps.onbug })
    }
  }

  /** Drops a call if its client has not answered for too long while others wait for the server. */
  private giveUpIfStale(call: SuspendedCall, now: number, others: boolean): void {
    const { phase } = call
    if (others && phase.kind === "away" && now - phase.since >= YIELD_MS)
      this.drop(call, "the client did not answer while others waited")
  }

  /** Ends a call: cancels it in the backend, and rejects the server requests that its client has not answered. */
  private drop(call: SuspendedCall, reason: string, error: Error = new RequestError("invalid_request", reason)): void {
    this.leave(call)
    const { phase } = call
    if (phase.kind === "away") {
      phase.cancelExpiry()
      call.phase = OVER
    }
    rejectAll(call.questions, error)
    // An open request of the client is answered with the answer to the cancelled call.
    call.cancellation.cancel(reason)
  }

  private leave({ id }: SuspendedCall): void {
    if (id !== undefined) this.waiting.delete(id)
  }
}

// ---

/** The contents of `requestState`. */
type SealedCall = readonly [
  id: string,
  principal: string,
  scope: string,
  digest: string,
  expires: number,
  replica: string | null,
]

const OVER: Phase = { kind: "over" }

/** Answers the client's request, which the client can no longer cancel then. */
function resolvePhase({ turn, oncancel, resolve }: Extract<Phase, { kind: "open" }>, answer: Answer): void {
  turn.cancellation.offabort(oncancel)
  resolve(answer)
}

function rejectAll(questions: Map<string, SuspendedQuestion>, error: Error): void {
  for (const { reject } of questions.values()) reject(error)
  questions.clear()
}

const withdrawn = (): RequestError => new RequestError("invalid_request", "The server withdrew its request")

const PREFIX = "svc."
const PREFIX_FOR_REPLICA = `replica.${PREFIX}`

/**
 * Returns the prefix of a client's state. State for another replica has its own prefix: that replica shares the key, and must
 * treat the state as a backend's, not as its own.
 */
const prefixFor = ({ principal }: Pick<Client, "principal">): string =>
  principal === REPLICA ? PREFIX_FOR_REPLICA : PREFIX

/**
 * Returns the owner of a client's state. All clients of another replica have the same principal, so `behalf` distinguishes
 * them.
 */
const boundTo = ({ principal, behalf }: Client): string => (behalf === undefined ? principal : `${principal} ${behalf}`)
const GATHER_MS = 25
const WAIT_MS = 10 * 60_000
const YIELD_MS = 60_000
const MAX_WAITING = 1000
const MAX_QUESTIONS = 100

/** Returns a digest of the parts that a retry must repeat: the method, and the params except the params that a retry adds. */
function digestOf({ method, params }: Request): string {
  const { _meta, inputResponses, requestState, ...rest } = params ?? {}
  return sha256(canonical([method, rest]), "base64url")
}

/** Rewrites a progress notification for the token of the request that waits now; undefined if that request wants no progress. */
function withToken(text: string, { params }: Request): string | undefined {
  const message: unknown = parseExact(text)
  if (!isObject(message) || message.method !== "notifications/progress" || !isObject(message.params)) return text
  const progressToken = metaOf(params)?.progressToken
  if (progressToken === undefined) return undefined
  return JSON.stringify({ ...message, params: { ...message.params, progressToken } })
}
