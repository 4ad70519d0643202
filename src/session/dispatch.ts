/**
 * Answers one request of a client: svc itself answers lists and introductions, and relays other requests to the backend that
 * their name leads to. The same for every transport and both eras.
 */

import { type Peer, takesSubscriptions } from "../backend/negotiate.ts"
import { PeerError } from "../backend/peer-error.ts"
import {
  type Answer,
  type Answering,
  failureAnswer,
  relayedError,
  resultAnswer,
  sharedAnswer,
  tailOf,
} from "../call/answer.ts"
import type { Told } from "../call/client.ts"
import { offerNote, withFailureNote, withSentence } from "../call/failure-note.ts"
import { methodOf } from "../call/methods.ts"
import { listedTools, ownEntries, unwrapped } from "../call/own-tools.ts"
import type { ClientCall, Decided, ServerDecision } from "../call/ports.ts"
import { decidedAfter, ready, viewFor, waitFor, whenPrepared } from "../call/ready.ts"
import { LIST_KEYS, listResult, type Route, type View, viewOf, withheldIn } from "../catalog/catalog.ts"
import { instructionsAt } from "../catalog/instructions.ts"
import { type ListMethod, type Tool, UNANSWERED } from "../catalog/listing.ts"
import { splitName } from "../catalog/name.ts"
import { pageOf } from "../catalog/pagination.ts"
import { BackendError, messageOf, RequestError } from "../lib/errors.ts"
import { nearest } from "../lib/nearest.ts"
import { cutText } from "../lib/text.ts"
import { isLogLevel } from "../wire/era.ts"
import { asText, type Id, metaOf } from "../wire/message.ts"
import { busyReason, enforceSessionRate } from "./limits.ts"
import { backendFailure, unknownMethod, unknownName, withheldTool } from "./relay.ts"
import { discoverResult } from "./server-capabilities.ts"
import { listSkills, refuseWithoutSkills } from "./skills.ts"
import { listTasks, refuseTask } from "./tasks.ts"

/** Answers a request. Never rejects: every failure becomes a JSON-RPC error. */
export async function dispatch(given: ClientCall): Promise<Answer> {
  const call = unwrapped(given)
  const { request, client, gateway } = call
  const { method, id } = request
  const { audit, onbug } = gateway.observers
  const { era = client.era, isCall } = methodOf(method)
  const entry = isCall ? audit?.call(call) : undefined
  let answer: Answer
  try {
    if (era !== client.era) throw unknownMethod(method)
    if (isCall) {
      const counting = enforceSessionRate(gateway, client.principal, client.owner && client.session)
      if (counting !== undefined) await counting
    }
    const found = method === "ping" ? undefined : ready(call)
    const view = found instanceof Promise ? await found : found
    if (view === undefined) answer = resultAnswer(id, "{}")
    else
      answer =
        call.verify?.(view) ?? (await (call.wrapper === undefined ? follow(call, view) : followInside(call, view)))
  } catch (error) {
    answer =
      error instanceof PeerError
        ? relayedError(id, error.object)
        : failureAnswer(id, error, { hide: gateway.hide, onbug: (bug) => onbug(bug, call.span?.traceId) })
  }
  entry?.end(answer)
  given.destination = call.destination
  return answer
}

// ---

/** Sends a call inside a call where it goes, with the checks and hints of the tool around it. */
const followInside = (call: ClientCall, view: View): Answering =>
  call.gateway.ownTools.reduceRight(
    (next, { around }) => (around ? () => around(call, view, next) : next),
    () => follow(call, view),
  )()

/** Sends a request where it goes. */
function follow(call: ClientCall, view: View): Answering {
  const { destination } = call
  switch (destination?.kind) {
    case undefined:
      throw new Error("a request has no destination")
    case "own":
      return destination.run?.(call, view) ?? answerOwn(call, view)
    case "server": {
      const { route, params, waitedFor } = destination
      const answering = answerKept(call, view, route) ?? call.gateway.toServer(call, params, route)
      return waitedFor === undefined ? answering : checkWoken(call, answering, route, waitedFor)
    }
    case "refused":
      return refuse(call, view, destination)
  }
}

/**
 * Returns the answer of a server that may answer its lists at the same time. After an error, the new lists may show that what was
 * asked for is gone: svc then says so instead.
 */
async function checkWoken(call: ClientCall, answering: Answering, route: Route, id: string): Promise<Answer> {
  const answer = await answering
  if (answer.sent !== undefined || answer.outcome === "ok") return answer
  const { directory } = call.gateway
  const relisted = directory.whenRelisted(id)
  if (relisted !== undefined) await waitFor(relisted, call)
  // The answer says why the server has ended.
  if (typeof directory.target(id) === "string") return answer
  const now = viewFor(call)
  const found = decidedAfter(call, now, id)
  if (found.kind === "refused") return refuse(call, now, found)
  // At its own address, the server has refused the name itself.
  const isGone = route.unlisted === undefined && found.kind === "server" && found.route.unlisted === true
  const kind = call.request.method === "tools/call" ? "tools" : "prompts"
  return isGone ? withFailureNote(answer, offerNote(kind, now, id)) : answer
}

/** Answers a request with a server's name that changes what svc keeps for its client; undefined if the server answers it. */
function answerKept(call: ClientCall, view: View, route: Route): Answering | undefined {
  const { request, client, gateway } = call
  switch (request.method) {
    case "resources/subscribe": {
      if (gateway.changes?.hasRoom(route.id, route.name) === false)
        throw new RequestError(
          "too_many",
          "The clients of this replica have reached the limit of subscriptions that replicas exchange; unsubscribe from other resources, or try again later",
        )
      if (lacks(call, route.id, takesSubscriptions)) throw unknownMethod(request.method)
      // The session may have no room for it.
      const told = client.memory?.addSubscription(route.id, route.name)
      const decision = gateway.notifications.subscribe(route.id, route.name, client.session, client.era)
      return decided(request.id, decision, {
        keep: () => told,
        undo() {
          void gateway.notifications.unsubscribe(route.id, route.name, client.session)
          return client.memory?.removeSubscription(route.id, route.name)
        },
      })
    }
    case "resources/unsubscribe": {
      if (lacks(call, route.id, takesSubscriptions)) throw unknownMethod(request.method)
      const told = client.memory?.removeSubscription(route.id, route.name)
      const ended = gateway.notifications.unsubscribe(route.id, route.name, client.session)
      const answer = () => emptyAnswer(request.id, told)
      // After the answer, the server must not count on this client any more.
      return ended === undefined ? answer() : ended.then(answer)
    }
    case "skills/get":
    case "resources/directory/read":
      if (client.scope.kind === "aggregate") refuseWithoutSkills(call, view, route)
  }
  return undefined
}

/** Answers a request that is for svc itself. */
function answerOwn(call: ClientCall, view: View): Answering {
  const { request, client, gateway } = call
  const { method, id, params = {} } = request
  switch (method) {
    case "tools/list":
    case "prompts/list":
    case "resources/list":
    case "resources/templates/list": {
      const own = listOfServer(call, method)
      if (own !== undefined) return own
      // Pages of one list come from one listing.
      const fresh = params.cursor == null ? gateway.directory.freshen(view, client.session, method) : undefined
      if (fresh === undefined) return list(call, method, view)
      return waitFor(fresh, call).then(() => list(call, method, viewFor(call)))
    }
    case "resources/read":
      return textResource(call, instructionsAt(params.uri, view.parts) ?? "")
    case "skills/list":
      return listSkills(call, view)
    case "completion/complete":
      throw new RequestError("invalid_params", "ref must be an object")
    case "logging/setLevel": {
      if (!isLogLevel(params.level)) throw unknownLevel(params.level)
      const only = client.scope.kind === "server" ? client.scope.id : undefined
      if (only !== undefined && lacks(call, only, ({ capabilities }) => capabilities.logging !== undefined))
        throw unknownMethod(method)
      const { level } = params
      const former = gateway.notifications.setLogLevel(client.session, level)
      const decision = only === undefined ? undefined : gateway.notifications.levelDecided(only, client.session)
      return decided(id, decision, {
        keep: () => client.memory?.setLogLevel(level),
        undo() {
          const current = gateway.notifications.setLogLevel(client.session, former)
          // The client has set another level in the meantime.
          if (current !== level) gateway.notifications.setLogLevel(client.session, current)
        },
      })
    }
    case "tasks/list":
      return listTasks(call, view)
    case "server/discover":
      return discover(call)
    default:
      throw unknownMethod(method)
  }
}

/** Answers a request for a name that leads nowhere. For an unknown tool or prompt, suggests a similar name. */
function refuse(
  call: ClientCall,
  view: View,
  { what, name, unlisted, waitedFor }: Extract<Decided, { kind: "refused" }>,
): Answering {
  if (unlisted !== undefined) return backendFailure(new BackendError(unlisted.slug, unlisted.reason), call)
  if (what === "task") return refuseTask(call, view)
  if (what === "tool") {
    for (const own of call.gateway.ownTools) {
      const answering = own.unknown?.(call, view)
      if (answering !== undefined) return answering
    }
    const withheld = withheldIn(view, name)
    if (withheld !== undefined) throw new RequestError("invalid_params", withheldTool(name, withheld))
    const unknown = unknownName("tool", name, similarName(name, [...ownNames(call, view), ...view.tools.keys()]))
    throw withOffer("tools", unknown, view, waitedFor)
  }
  if (what !== "prompt") throw unknownName(what, name, undefined)
  const unknown = unknownName(what, name, similarName(name, [...view.prompts.keys()]))
  throw withOffer("prompts", unknown, view, waitedFor)
}

/** Returns the error for an unknown name; if the request has waited for a server, with the names that the server offers now. */
function withOffer(kind: "tools" | "prompts", unknown: RequestError, view: View, id: string | undefined): RequestError {
  if (id === undefined) return unknown
  return new RequestError("invalid_params", withSentence(unknown.message, offerNote(kind, view, id)))
}

/** Whether a server is connected and does not offer something. */
function lacks({ client, gateway }: ClientCall, id: string, offers: (peer: Peer) => boolean): boolean {
  const target = gateway.directory.target(id, client.era)
  return typeof target !== "string" && !offers(target.peer)
}

/** What becomes of a change of a session: `keep` stores it, `undo` takes it back. */
type SessionChange = { keep(): Told; undo(): Told }

/** Answers a request with what its server decides. Rejects with its refusal. */
function decided(id: Id, decision: ServerDecision, { keep, undo }: SessionChange): Answering {
  if (decision === undefined) return emptyAnswer(id, keep())
  return decision.then(async (refusal) => {
    if (refusal === undefined) return emptyAnswer(id, keep())
    await undo()
    throw refusal
  })
}

/** Answers a request that changed its session when the other replicas know of the change. */
function emptyAnswer(id: Id, told: Told): Answering {
  const answer = resultAnswer(id, "{}")
  return told?.then(() => answer) ?? answer
}

/** Answers `server/discover`: for a single server, with its own statements in the client's era. */
function discover(call: ClientCall): Answering {
  const { request, client } = call
  const { scope, era } = client
  const answer = () => resultAnswer(request.id, JSON.stringify(discoverResult(call)))
  const prepared = scope.kind === "server" ? whenPrepared(scope.id, era, call) : undefined
  return prepared === undefined ? answer() : prepared.then(answer)
}

/**
 * Answers a list at a server's own address whose `_meta` says something to the server: the server does. Undefined if svc answers
 * from its own copy. choice: `_meta` of lists.
 */
function listOfServer(call: ClientCall, method: ListMethod): Promise<Answer> | undefined {
  const { request, client, gateway, exchange } = call
  const { scope, session } = client
  if (scope.kind !== "server") return undefined
  const told = Object.entries(metaOf(request.params) ?? {}).filter(([key]) => !OWN_META.test(key))
  if (told.length === 0) return undefined
  const target = gateway.directory.target(scope.id, client.era)
  const busy = typeof target === "string" ? undefined : busyReason(target, call)
  if (busy !== undefined) throw new BackendError(scope.id, busy)
  const asked = gateway.directory.listWith(scope.id, session, method, Object.fromEntries(told))
  if (asked === undefined) return undefined
  const found = asked.catch((error: unknown) => {
    throw error instanceof PeerError ? error : new BackendError(scope.id, messageOf(error))
  })
  return exchange.cancellation.race(found).then((catalog) => list(call, method, viewOf(catalog, scope)))
}

/** Members of `_meta` for svc itself: of the revision and the client, of progress, of traces, and of svc. */
const OWN_META =
  /^(?:progressToken|traceparent|tracestate|baggage|svc\/.*|io\.modelcontextprotocol\/(?:protocolVersion|clientInfo|clientCapabilities|logLevel))$/

function list(call: ClientCall, method: ListMethod, view: View): Answer {
  const { request, client, gateway } = call
  const { pageSize } = gateway.limits
  if (client.scope.kind === "server") {
    const target = gateway.directory.target(client.scope.id)
    if (typeof target === "string" && !gateway.directory.isAsleep(client.scope.id))
      throw new BackendError(client.scope.id, target)
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

/** Answers a read of one of svc's own resources. */
function textResource({ request, client }: ClientCall, text: string): Answer {
  const contents = [{ uri: request.params?.uri, mimeType: "text/plain", text }]
  const members = client.era === "modern" ? { resultType: "complete", ttlMs: 0, cacheScope: "private" } : {}
  return resultAnswer(request.id, JSON.stringify({ ...members, contents }))
}

const unknownLevel = (level: unknown): RequestError =>
  new RequestError("invalid_params", `Unknown log level: ${cutText(asText(level), 100)}`)
