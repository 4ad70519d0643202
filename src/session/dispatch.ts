/**
 * Answers one request of a client: svc itself answers lists and introductions, and relays other requests to the backend that
 * their name leads to. The same for every transport and both eras.
 */

import { PeerError } from "../backend/peer-error.ts"
import {
  type Answer,
  type Answering,
  errorAnswer,
  failureAnswer,
  resultAnswer,
  sharedAnswer,
  tailOf,
} from "../call/answer.ts"
import type { Told } from "../call/client.ts"
import { methodOf } from "../call/methods.ts"
import { listedTools, ownEntries, ownToolOf, unwrapped } from "../call/own-tools.ts"
import type { ClientCall, Gateway } from "../call/ports.ts"
import { ready, whenPrepared } from "../call/ready.ts"
import { LIST_KEYS, listResult, type Route, type View, withheldIn } from "../catalog/catalog.ts"
import { instructionsAt } from "../catalog/instructions.ts"
import { type ListMethod, type Tool, UNANSWERED } from "../catalog/listing.ts"
import { splitName, splitUri } from "../catalog/name.ts"
import { pageOf } from "../catalog/pagination.ts"
import { BackendError, RequestError } from "../lib/errors.ts"
import { nearest } from "../lib/nearest.ts"
import { cutText } from "../lib/text.ts"
import { isLogLevel } from "../wire/era.ts"
import { asText, type Id, isObject, type Params } from "../wire/message.ts"
import { backendFailure, relay, unknownMethod, unknownName, withheldTool } from "./relay.ts"
import { discoverResult } from "./server-capabilities.ts"
import { listSkills, refuseWithoutSkills } from "./skills.ts"
import { listTasks, relayTask } from "./tasks.ts"

/** Answers a request. Never rejects: every failure becomes a JSON-RPC error. */
export async function dispatch(given: ClientCall): Promise<Answer> {
  const call = unwrapped(given)
  const { request, gateway } = call
  const { audit, onbug } = gateway.observers
  const entry = methodOf(request.method).isCall ? audit?.call(call) : undefined
  let answer: Answer
  try {
    answer = await begin(call)
  } catch (error) {
    answer =
      error instanceof PeerError
        ? errorAnswer(request.id, error.written, error.message, error.data)
        : failureAnswer(request.id, error, { hide: gateway.hide, onbug })
  }
  entry?.end(answer)
  return answer
}

/** The principal of requests from another replica, which has already counted them against its clients' limits. */
export const REPLICA = "replica"

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
  const waiting = limits.callRate.take("client", session ?? principal, limits.sessionRate)
  if (waiting instanceof Promise) return waiting.then(refuseUntil)
  refuseUntil(waiting)
  return undefined
}

// ---

function refuseUntil(wait: number | undefined): void {
  if (wait !== undefined)
    throw new RequestError("too_many", `Too many calls; try again in ${wait} s`, { retryAfter: wait })
}

/** Admits the request, waits for the servers that it needs, and routes it. */
function begin(call: ClientCall): Answering {
  const { request, client, gateway } = call
  const { method, id } = request
  const { era = client.era, isCall } = methodOf(method)
  if (era !== client.era) throw unknownMethod(method)
  if (method === "ping") return resultAnswer(id, "{}")
  const counting = isCall
    ? enforceSessionRate(gateway, client.principal, client.owner === undefined ? undefined : client.session)
    : undefined
  return counting === undefined ? ready(call, route) : counting.then(() => ready(call, route))
}

function route(call: ClientCall, view: View): Answering {
  const { request, client, gateway } = call
  const { method, id, params = {} } = request
  const refusal = call.verify?.(view)
  if (refusal !== undefined) return refusal
  switch (method) {
    case "tools/list":
    case "prompts/list":
    case "resources/list":
    case "resources/templates/list":
      return list(call, method, view)
    case "tools/call":
      return callTool(call, view)
    case "prompts/get":
      return relayNamed(call, "prompt", view)
    case "resources/read": {
      const instructions = client.scope.kind === "server" ? undefined : instructionsAt(params.uri, view.parts)
      if (instructions !== undefined) return textResource(call, instructions)
      const { uri } = params
      for (const own of gateway.ownTools) {
        const read = own.read?.(call, uri)
        if (read !== undefined) return read
      }
      const target = resourceOf(uri, view, call)
      return relay(call, { ...params, uri: target.name }, target)
    }
    case "skills/list":
      return client.scope.kind === "server" ? relayUnknown(call, params) : listSkills(call, view)
    case "skills/get":
    case "resources/directory/read": {
      if (client.scope.kind === "server") return relayUnknown(call, params)
      const target = resourceOf(params.uri, view, call)
      refuseWithoutSkills(call, view, target)
      return relay(call, { ...params, uri: target.name }, target)
    }
    case "resources/subscribe": {
      const target = resourceOf(params.uri, view, call)
      if (gateway.changes?.hasRoom(target.id, target.name) === false)
        throw new RequestError(
          "too_many",
          "The clients of this replica have reached the limit of subscriptions that replicas exchange; unsubscribe from other resources, or try again later",
        )
      const told = client.memory?.addSubscription(target.id, target.name)
      gateway.notifications.subscribe(target.id, target.name, client.session, client.era)
      return emptyAnswer(id, told)
    }
    case "resources/unsubscribe": {
      const target = resourceOf(params.uri, view, call)
      const told = client.memory?.removeSubscription(target.id, target.name)
      gateway.notifications.unsubscribe(target.id, target.name, client.session)
      return emptyAnswer(id, told)
    }
    case "completion/complete":
      return complete(call, params.ref, view)
    case "logging/setLevel": {
      if (!isLogLevel(params.level)) throw unknownLevel(params.level)
      const told = client.memory?.setLogLevel(params.level)
      gateway.notifications.setLogLevel(client.session, params.level)
      return emptyAnswer(id, told)
    }
    case "tasks/get":
    case "tasks/result":
    case "tasks/update":
    case "tasks/cancel":
      return relayTask(call, view)
    case "tasks/list":
      return listTasks(call, view)
    case "server/discover":
      return discover(call)
    default:
      return relayUnknown(call, params)
  }
}

/** Answers a request that changed its session when the other replicas know of the change. */
function emptyAnswer(id: Id, told: Told): Answering {
  const answer = resultAnswer(id, "{}")
  return told?.then(() => answer) ?? answer
}

/** Answers `server/discover`: for a single server, with its own statements in the client's era. */
function discover(call: ClientCall): Answering {
  const { request, client, gateway, exchange } = call
  const { scope, era } = client
  const answer = () => resultAnswer(request.id, JSON.stringify(discoverResult(call)))
  const prepared = scope.kind === "server" ? whenPrepared(scope.id, era, gateway, exchange.cancellation) : undefined
  return prepared === undefined ? answer() : prepared.then(answer)
}

function list(call: ClientCall, method: ListMethod, view: View): Answer {
  const { request, client, gateway } = call
  const { pageSize } = gateway.limits
  if (client.scope.kind === "server") {
    const target = gateway.directory.target(client.scope.id)
    if (typeof target === "string") throw new BackendError(client.scope.id, target)
    refuseUnlisted(call, method, view)
  }
  const { era } = client
  const cursor = request.params?.cursor
  const listed = method === "tools/list" ? listedTools(client, view, gateway) : view.entries(method, era)
  const members = { hint: view.hint(method), members: view.members(method) }
  if (cursor === undefined && pageSize === Number.POSITIVE_INFINITY) {
    const tail = gateway.lists.get(listed) ?? tailOf(listResult(method, listed, era, members))
    gateway.lists.set(listed, tail)
    return sharedAnswer(request.id, tail, call.exchange)
  }
  const { entries, nextCursor } = pageOf(listed, method, pageSize, cursor)
  return resultAnswer(request.id, listResult(method, entries, era, { ...members, nextCursor }))
}

/**
 * Throws a BackendError at a server's own address if the server refuses a list that it has never answered: an empty list would
 * say that it offers nothing.
 */
function refuseUnlisted({ client, gateway }: ClientCall, method: ListMethod, { parts, lazy }: View): void {
  const listing = parts[0]?.listing
  const reason = listing?.failing?.[method]
  if (listing === undefined || reason === undefined || reason === UNANSWERED) return
  if (listing[LIST_KEYS[method]].length > 0 || (lazy && method === "tools/list")) return
  const unlisted = gateway.directory.unlisted(client.scope, undefined, method)
  if (unlisted !== undefined) throw new BackendError(unlisted.slug, unlisted.reason)
}

function callTool(call: ClientCall, view: View): Answering {
  const { request, gateway, wrapper } = call
  const own = ownToolOf(request.params?.name, call, view, gateway)
  const run = () => own?.run(call, view) ?? relayNamed(call, "tool", view)
  if (wrapper === undefined) return run()
  return gateway.ownTools.reduceRight((next, { around }) => (around ? () => around(call, view, next) : next), run)()
}

/** Relays a request by the name of its tool or prompt. For an unknown name, also suggests names of svc's own tools. */
function relayNamed(call: ClientCall, kind: "tool" | "prompt", view: View): Answering {
  const { params = {} } = call.request
  const { name } = params
  const routes = view[`${kind}s`]
  const found = routeOfName(name, routes, call) ?? unlistedRoute(name, kind, view, call)
  if (found === undefined)
    return unlistedName(name, kind, call, () => {
      for (const own of kind === "tool" ? call.gateway.ownTools : []) {
        const answering = own.unknown?.(call, view)
        if (answering !== undefined) return answering
      }
      const withheld = kind === "tool" ? withheldIn(view, name) : undefined
      if (withheld !== undefined) throw new RequestError("invalid_params", withheldTool(name, withheld))
      const ofSvc = kind === "tool" ? ownNames(call, view) : []
      throw unknownName(kind, name, similarName(name, [...ofSvc, ...routes.keys()]))
    })
  return relay(call, found.name === name ? params : { ...params, name: found.name }, found)
}

/**
 * Answers a request for a name that is in no list: with a failure if its server has not answered that list, otherwise with
 * `unknown`.
 */
function unlistedName(name: unknown, kind: "tool" | "prompt", call: ClientCall, unknown: () => Answering): Answering {
  const slug = typeof name === "string" ? splitName(name)?.slug : undefined
  const unlisted = call.gateway.directory.unlisted(call.client.scope, slug, `${kind}s/list`)
  if (unlisted === undefined) return unknown()
  return backendFailure(new BackendError(unlisted.slug, unlisted.reason), call)
}

/** Returns the names of svc's own tools that a client has. */
const ownNames = ({ client, gateway }: ClientCall, view: View): readonly string[] =>
  ownEntries(client, view, gateway).map((entry) => (JSON.parse(entry) as Tool).name)

/** Returns the most similar known name; only of the same server if that is known, because tools of other servers differ. */
function similarName(name: unknown, known: readonly string[]): string | undefined {
  if (typeof name !== "string") return undefined
  const slug = splitName(name)?.slug
  const own = slug === undefined ? [] : known.filter((other) => splitName(other)?.slug === slug)
  return nearest(name, own.length > 0 ? own : known)
}

/** Returns the route of a tool or prompt; undefined for an unknown name. */
function routeOfName(name: unknown, routes: View["tools"], call: ClientCall): Route | undefined {
  if (typeof name !== "string") return undefined
  const found = routes.get(name)
  if (found !== undefined) return found
  const split = splitName(name)
  return disconnectedRoute(split?.slug, split?.name ?? name, call)
}

/**
 * Returns the route of a name that the only server of the scope does not list; undefined if the server has not answered its
 * list.
 */
function unlistedRoute(name: unknown, kind: "tool" | "prompt", view: View, call: ClientCall): Route | undefined {
  const { client, gateway } = call
  if (typeof name !== "string" || gateway.directory.unlisted(client.scope, undefined, `${kind}s/list`) !== undefined)
    return undefined
  return view.unlisted(`${kind}s`, name)
}

/** Returns a route to a server that is not connected, so that the error says this instead of "unknown name". */
function disconnectedRoute(slug: string | undefined, name: string, { gateway, client }: ClientCall): Route | undefined {
  const id = gateway.directory.disconnectedId(client.scope, slug)
  return id === undefined ? undefined : { id, slug: slug ?? id, name, mirrored: [] }
}

/** Returns the route of a resource. Throws a RequestError for an unknown one. */
function resourceOf(uri: unknown, view: View, call: ClientCall): Route {
  const found = typeof uri === "string" ? (view.resource(uri) ?? disconnectedResource(uri, call)) : undefined
  if (found === undefined) throw unknownName("resource", uri, undefined)
  return found
}

/** Answers a read of one of svc's own resources. */
function textResource({ request, client }: ClientCall, text: string): Answer {
  const contents = [{ uri: request.params?.uri, mimeType: "text/plain", text }]
  const members = client.era === "modern" ? { resultType: "complete", ttlMs: 0, cacheScope: "private" } : {}
  return resultAnswer(request.id, JSON.stringify({ ...members, contents }))
}

function disconnectedResource(uri: string, call: ClientCall): Route | undefined {
  const split = splitUri(uri)
  return disconnectedRoute(split?.slug, split?.uri ?? uri, call)
}

function complete(call: ClientCall, ref: unknown, view: View): Answering {
  const { params = {} } = call.request
  if (!isObject(ref)) throw new RequestError("invalid_params", "ref must be an object")
  if (ref.type === "ref/prompt") {
    const found = routeOfName(ref.name, view.prompts, call) ?? unlistedRoute(ref.name, "prompt", view, call)
    if (found === undefined)
      return unlistedName(ref.name, "prompt", call, () => {
        throw unknownName("prompt", ref.name, undefined)
      })
    return relay(call, { ...params, ref: { ...ref, name: found.name } }, found)
  }
  const found = resourceOf(ref.uri, view, call)
  return relay(call, { ...params, ref: { ...ref, uri: found.name } }, found)
}

/** Relays a method that svc does not know to the only server of the scope. */
function relayUnknown(call: ClientCall, params: Params): Answering {
  const { method } = call.request
  const { scope } = call.client
  // An unknown method of tasks could name another client's task. Methods that svc itself uses with a server, such as
  // `initialize`, would change the server for all its clients.
  if (scope.kind === "aggregate" || methodOf(method).isOwn || /^(?:tasks|notifications)\//.test(method))
    throw unknownMethod(method)
  return relay(call, params, { id: scope.id, slug: scope.id, name: "", mirrored: [] })
}

const unknownLevel = (level: unknown): RequestError =>
  new RequestError("invalid_params", `Unknown log level: ${cutText(asText(level), 100)}`)
