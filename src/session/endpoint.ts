/**
 * The entry point of MCP for every transport: Streamable HTTP, HTTP+SSE, stdio and `svc proxy`. A transport reads messages,
 * finds their client, and passes each here with its exchange. This file serves sessions, both eras, streams and cancellation.
 */

import { type Answer, errorAnswer, failureAnswer, resultAnswer } from "../call/answer.ts"
import type { Cancellation } from "../call/cancellation.ts"
import { methodOf } from "../call/methods.ts"
import type { ClientCall, Gateway } from "../call/ports.ts"
import { ready, whenConnected, whenLoaded, whenPrepared } from "../call/ready.ts"
import type { Scope } from "../catalog/scope.ts"
import { BackendError, codesOf, RequestError } from "../lib/errors.ts"
import { isResponse, type Notification, type Request, type Response } from "../wire/message.ts"
import { dispatch } from "./dispatch.ts"
import { enforceSessionRate } from "./limits.ts"
import { type RunningRequests, repeatedId } from "./running-requests.ts"
import { initializeResult } from "./server-capabilities.ts"
import { Session } from "./session.ts"
import type { Sessions } from "./sessions.ts"
import { openSubscription } from "./subscriptions-listen.ts"
import type { SuspendedCalls } from "./suspended-calls.ts"
import { refuseListen } from "./task-watch.ts"

export type EndpointDeps = {
  readonly gateway: Gateway
  readonly sessions: Sessions
  readonly suspendedCalls: SuspendedCalls
}

/** An `initialize` request and its client, as the transport knows it. */
export type Opening = Pick<ClientCall, "http" | "address"> & {
  readonly request: Request
  /** The id of the session to open; unguessable if clients name it. */
  readonly id: string
  readonly principal: string
  readonly cancellation: Cancellation
  /** Resolves with the client's scope once the servers that run only for it are started. */
  identify(): Promise<Scope>
}

/**
 * Opens a legacy session. Rejects with a RequestError for a client over its rate limit, with an UnavailableError if svc
 * stops, with a BackendError if the only server of the scope is not connected. lifecycle: Initialization.
 */
export async function initialize(opening: Opening, deps: EndpointDeps): Promise<Opened> {
  const span = deps.gateway.observers.tracer?.begin(opening)
  try {
    const opened = await openSession(opening, deps)
    span?.end(opened.answer)
    return opened
  } catch (error) {
    span?.end({ frame: "", outcome: "error", code: codesOf(error).rpc })
    throw error
  }
}

/**
 * Answers a request of a legacy session or of a modern client: calls `respond` once, with undefined if the client cancelled
 * the request and wants no answer. Returns no promise, because each costs a tenth of svc's work for a call. `running`: the
 * table in which the client can cancel the request by its id.
 */
export function serve(
  call: ClientCall,
  { suspendedCalls }: Pick<EndpointDeps, "suspendedCalls">,
  running: RunningRequests | undefined,
  respond: (answer: Answer | undefined) => void,
): void {
  const { request, exchange } = call
  const deliver = traced(call, respond)
  if (running?.begin(request.id, exchange) === false) {
    deliver(repeatedId(request.id))
    return
  }
  let answering: Promise<Answer | undefined>
  if (call.client.era === "legacy") answering = dispatch(call)
  else answering = request.method === "subscriptions/listen" ? listen(call) : suspendedCalls.serve(call)
  void answering.then((answer) => deliver(running?.end(request.id, exchange) === false ? undefined : answer))
}

/**
 * Handles a notification of a session's client, or its response to a server request. Returns a promise if other replicas must
 * be notified.
 */
export function accept(
  message: Notification | Response,
  session: Session,
  gateway: Gateway,
): Promise<void> | undefined {
  if (!isResponse(message)) return session.notified(message.method, message.params ?? {}, gateway)
  session.answered(message)
  return undefined
}

/**
 * Handles a notification of a modern client over HTTP: passes it to the only backend of its scope, unless it is for svc
 * itself.
 */
export function acceptModern({ method, params = {} }: Notification, scope: Scope, gateway: Gateway): void {
  if (!methodOf(method).isOwn) gateway.notifications.toBackend({ scope, session: {}, era: "modern" }, method, params)
}

// ---

/** Limits the params of `initialize`, which are kept as long as the session. */
const MAX_PARAMS_CHARS = 65_536

type Opened = { readonly session: Session; readonly answer: Answer }

async function openSession(
  { request, id, principal, cancellation, identify }: Opening,
  { gateway, sessions }: EndpointDeps,
): Promise<Opened> {
  if (JSON.stringify(request.params ?? {}).length > MAX_PARAMS_CHARS)
    throw new RequestError(
      "invalid_params",
      `The params of initialize must have at most ${MAX_PARAMS_CHARS} characters`,
    )
  // A client over its rate limit must not escape it by opening a new session.
  await enforceSessionRate(gateway, principal)
  const waiting = { gateway, exchange: { cancellation } }
  // Both waits run together: the client's own servers start while the others load.
  const [scope] = await Promise.all([cancellation.race(identify()), whenLoaded(waiting)])
  // A session of a client that is gone would never end.
  cancellation.throwIfCancelled()
  if (scope.kind === "server") {
    await whenConnected(scope.id, waiting)
    await whenPrepared(scope.id, "legacy", waiting)
    const target = gateway.directory.target(scope.id)
    if (typeof target === "string") throw new BackendError(scope.id, target)
  }
  const session = new Session(id, principal, scope, request.params ?? {})
  const answer = resultAnswer(request.id, JSON.stringify(initializeResult({ gateway, client: session })))
  sessions.remove(id, "was initialized again")
  sessions.add(session, gateway)
  await sessions.stored(session)
  return { session, answer }
}

/** Begins the span of a request if svc records traces, and returns the function that ends it with the response. */
function traced(call: ClientCall, respond: (answer: Answer | undefined) => void): typeof respond {
  const span = call.gateway.observers.tracer?.begin(call)
  if (span === undefined) return respond
  call.span = span
  return (answer) => {
    respond(answer)
    span.end(answer ?? "cancelled")
  }
}

/** Serves a stream of changes. Waits for the lists first, because subscriptions name their entries. */
async function listen(call: ClientCall): Promise<Answer | undefined> {
  const { request, client, gateway } = call
  const refusal = refuseListen(request, client)
  if (refusal !== undefined) return errorAnswer(request.id, refusal.code, refusal.message, refusal.data)
  try {
    return await openSubscription(call, await ready(call))
  } catch (error) {
    return failureAnswer(request.id, error, { hide: gateway.hide, onbug: gateway.observers.onbug })
  }
}
