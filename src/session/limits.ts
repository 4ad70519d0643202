/** The limits of calls: per minute for a client, a server and a credential's use of a tool, and how many run at the same time. */
import type { Answer } from "../call/answer.ts"
import { REPLICA } from "../call/client.ts"
import { methodOf } from "../call/methods.ts"
import type { ClientCall, Gateway, Stage, Target } from "../call/ports.ts"
import type { Route } from "../catalog/catalog.ts"
import { limitIn } from "../catalog/view-rules.ts"
import { BackendError, RequestError } from "../lib/errors.ts"
import { backendFailure } from "./relay.ts"

/**
 * Counts a call, or the opening of a session, against the rate limit of its client. Throws, or rejects with, a RequestError
 * above the limit; creates a promise only if replicas count together. Counts a client without a session by its principal.
 */
export function enforceSessionRate(
  { limits }: Pick<Gateway, "limits">,
  principal: string,
  session?: object,
): Promise<void> | undefined {
  if (limits.sessionRate === undefined || principal === REPLICA) return undefined
  const refuse = (wait: number | undefined) => refuseUntil(wait, "Too many calls")
  const waiting = limits.callRate.take("client", session ?? principal, limits.sessionRate)
  if (waiting instanceof Promise) return waiting.then(refuse)
  refuse(waiting)
  return undefined
}

/** Returns why a server takes no further request; undefined if it does. */
export function busyReason({ pair, connection }: Target, { gateway }: Pick<ClientCall, "gateway">): string | undefined {
  const { maxInFlight } = gateway.limits
  return (pair ?? connection).inFlight >= maxInFlight
    ? `has ${maxInFlight} requests in flight already; try again later`
    : undefined
}

/**
 * The stage of the limits: answers with an error of the server above its own, and refuses with a RequestError above those of the
 * client.
 */
export const limited: Stage = (next) => (call, to) => {
  const refused = typeof to.target === "string" ? undefined : refusalOf(call, to.target, to.route)
  if (refused === undefined) return next(call, to)
  return refused instanceof Promise ? refused.then((answer) => answer ?? next(call, to)) : refused
}

// ---

function refuseUntil(wait: number | undefined, why: string): void {
  if (wait !== undefined) throw new RequestError("too_many", `${why}; try again in ${wait} s`, { retryAfter: wait })
}

/** What stands against a call: an answer, or nothing; a promise only if replicas count together. */
type LimitAnswer = Answer | undefined | Promise<Answer | undefined>

/** Returns the answer to a call above a limit of its server. Throws, or rejects with, a RequestError above one of its client. */
function refusalOf(call: ClientCall, target: Target, route: Route): LimitAnswer {
  const busy = busyReason(target, call)
  if (busy !== undefined) return backendFailure(new BackendError(route.slug, busy), call)
  const counting = enforceToolRate(call, target, route)
  return counting === undefined
    ? serverRefusal(call, target, route)
    : counting.then(() => serverRefusal(call, target, route))
}

/** Counts a call against the rate limit of its server. Returns and throws as `refusalOf` does. */
function serverRefusal(call: ClientCall, { spec: { id, tuning } }: Target, route: Route): LimitAnswer {
  if (tuning.rateLimit === undefined || !methodOf(call.request.method).isCall) return sessionRefusal(call)
  const waiting = call.gateway.limits.callRate.take("server", id, tuning.rateLimit)
  if (waiting instanceof Promise) return waiting.then((wait) => rateRefusal(wait, call, route) ?? sessionRefusal(call))
  return rateRefusal(waiting, call, route) ?? sessionRefusal(call)
}

function rateRefusal(wait: number | undefined, call: ClientCall, route: Route): Answer | undefined {
  if (wait === undefined) return undefined
  const error = new BackendError(route.slug, `has reached its rate limit; try again in ${wait} s`)
  return { ...backendFailure(error, call), outcome: "rate_limited", retryAfter: wait }
}

/** Throws a RequestError if the session of a call has too many that run. */
function sessionRefusal({ client, gateway }: ClientCall): undefined {
  const { maxInFlight } = gateway.limits
  if ((client.inFlight ?? 0) > maxInFlight)
    throw new RequestError(
      "too_many",
      `This session has ${maxInFlight} requests in flight already; wait for a response`,
    )
}

/** Counts a call of a tool against the limits of its client's presets. Throws, or rejects with, a RequestError above them. */
function enforceToolRate(
  { request, client, gateway }: ClientCall,
  { spec }: Target,
  route: Route,
): Promise<void> | undefined {
  if (request.method !== "tools/call" || client.scope.shape === undefined) return undefined
  const limit = limitIn(client.scope.shape, spec, route.name)
  if (limit === undefined) return undefined
  const refuse = (wait: number | undefined) =>
    refuseUntil(wait, `Too many calls of this tool: the limit is ${limit} per minute`)
  const waiting = gateway.limits.callRate.take("tool", `${client.principal}\0${spec.id}\0${route.name}`, limit)
  if (waiting instanceof Promise) return waiting.then(refuse)
  refuse(waiting)
  return undefined
}
