/**
 * One request of a client, answered: by svc itself (lists, introductions), or by the backend that its name leads to. The
 * same for every transport and both eras; what is era's own stands in the tables below.
 */

import { PeerError } from "../backend/connection.ts"
import { listResult, type Route, type View, viewOf } from "../catalog/catalog.ts"
import type { ListMethod } from "../catalog/listing.ts"
import { splitName, splitUri } from "../catalog/name.ts"
import { pageOf } from "../catalog/pagination.ts"
import { BackendError, RequestError } from "../lib/errors.ts"
import { nearest } from "../lib/nearest.ts"
import type { Toolbox } from "../tools/toolbox.ts"
import type { Era } from "../wire/era.ts"
import { isLogLevel } from "../wire/era.ts"
import { asText, isObject, type Params, type Request } from "../wire/message.ts"
import { type Answer, errorAnswer, failureAnswer, resultAnswer } from "./answer.ts"
import { CALLS, type Gateway, type RequestContext, refuseStopping, unlessCancelled } from "./client.ts"
import { callInternalTool, toolboxFor } from "./internal-call.ts"
import { type Answering, failed, relay, unknownMethod, unknownName } from "./relay.ts"
import { discoverResult } from "./server-capabilities.ts"
import { listTasks, relayTask } from "./tasks.ts"

/** Answers a request. Never rejects: whatever goes wrong is a JSON-RPC error. */
export function dispatch(request: Request, context: RequestContext, onbug: (error: unknown) => void): Promise<Answer> {
  const { gateway, client } = context
  if (gateway.audit === undefined || !CALLS.has(request.method)) return answer(request, context, onbug)
  const end = gateway.audit.call(request, client, gateway)
  return answer(request, context, onbug).then((answered) => {
    end(answered)
    return answered
  })
}

/**
 * Counts a call, or a session's beginning, where those of a client are limited. Throws a RequestError for one too many.
 * A modern client has no session: it is known by its principal.
 */
export function enforceSessionRate(gateway: Gateway, key: object | string): void {
  if (gateway.sessionRate === undefined) return
  const wait = gateway.callRate.take(key, gateway.sessionRate)
  if (wait !== undefined)
    throw new RequestError("too_many", `Too many calls; try again in ${wait} s`, { retryAfter: wait })
}

// ---

/** Methods of one era that the other does not have. */
const LEGACY_ONLY: ReadonlySet<string> = new Set([
  "initialize",
  "ping",
  "logging/setLevel",
  "resources/subscribe",
  "resources/unsubscribe",
  "tasks/list",
  "tasks/result",
])

async function answer(request: Request, context: RequestContext, onbug: (error: unknown) => void): Promise<Answer> {
  try {
    return await route(request, context)
  } catch (error) {
    if (error instanceof PeerError) return errorAnswer(request.id, error.written, error.message, error.data)
    return failureAnswer(request.id, error, { hide: context.gateway.hide, onbug })
  }
}

function route(request: Request, context: RequestContext): Answering {
  const { gateway, client } = context
  const { method, id } = request
  if (client.era === "modern" && LEGACY_ONLY.has(method)) throw unknownMethod(method)
  if (method === "ping") return resultAnswer(id, "{}")
  refuseStopping(gateway)
  if (CALLS.has(method))
    enforceSessionRate(gateway, client.owner === undefined ? `principal ${client.principal}` : client.session)
  if (gateway.initialLoad === undefined) return routeNow(request, context)
  return unlessCancelled(context, gateway.initialLoad).then(() => routeNow(request, context))
}

function routeNow(request: Request, context: RequestContext): Answering {
  const { gateway, client } = context
  const { method, id } = request
  const params = request.params ?? {}
  const view = viewOf(gateway.catalogOf(client.session), client.scope)
  switch (method) {
    case "tools/list":
    case "prompts/list":
    case "resources/list":
    case "resources/templates/list":
      return list(request, method, view, context)
    case "tools/call":
      return callTool(request, params, view, context)
    case "prompts/get":
      return named(request, params, "prompt", view, [], context)
    case "resources/read": {
      const target = resourceOf(view, params.uri, context)
      return relay(request, { ...params, uri: target.name }, target, context)
    }
    case "resources/subscribe":
    case "resources/unsubscribe": {
      const target = resourceOf(view, params.uri, context)
      if (method === "resources/subscribe") gateway.subscribe(target.id, target.name, client.session)
      else gateway.unsubscribe(target.id, target.name, client.session)
      return resultAnswer(id, "{}")
    }
    case "completion/complete":
      return complete(request, params, view, context)
    case "logging/setLevel":
      if (!isLogLevel(params.level)) throw unknownLevel(params.level)
      gateway.setLogLevel(client.session, params.level)
      return resultAnswer(id, "{}")
    case "tasks/get":
    case "tasks/result":
    case "tasks/update":
    case "tasks/cancel":
      return relayTask(request, params, view, context)
    case "tasks/list":
      return listTasks(request, params, view, context)
    case "server/discover":
      return resultAnswer(id, JSON.stringify(discoverResult(gateway, client)))
    default:
      return other(request, params, context)
  }
}

function list(request: Request, method: ListMethod, view: View, { gateway, client }: RequestContext): Answer {
  if (client.scope.kind === "server") {
    const target = gateway.target(client.scope.id)
    if (typeof target === "string") throw new RequestError("not_found", target)
  }
  const own = method === "tools/list" ? toolboxFor(client.scope, gateway) : undefined
  const cursor = request.params?.cursor
  if (cursor === undefined && gateway.pageSize === Number.POSITIVE_INFINITY)
    return resultAnswer(request.id, own === undefined ? view.list(method, client.era) : listWith(own, view, client.era))
  const all = own === undefined ? view.entries(method) : [...own.entries, ...view.entries(method)]
  const { entries, nextCursor } = pageOf(all, method, gateway.pageSize, cursor)
  return resultAnswer(request.id, listResult(method, entries, client.era, view.hint(method), nextCursor))
}

/** The list of tools with svc's own first. The view keeps the text, as it keeps that of its own. */
function listWith(toolbox: Toolbox, view: View, era: Era): string {
  const known = WITH_OWN.get(view) ?? {}
  WITH_OWN.set(view, known)
  known[era] ??= listResult(
    "tools/list",
    [...toolbox.entries, ...view.entries("tools/list")],
    era,
    view.hint("tools/list"),
  )
  return known[era]
}

const WITH_OWN = new WeakMap<View, { [era in Era]?: string }>()

function callTool(request: Request, params: Params, view: View, context: RequestContext): Answering {
  const toolbox = toolboxFor(context.client.scope, context.gateway)
  if (toolbox === undefined) return named(request, params, "tool", view, [], context)
  const own = callInternalTool(request, params, toolbox, context)
  return own === undefined ? named(request, params, "tool", view, toolbox.names, context) : own
}

function named(
  request: Request,
  params: Params,
  what: "tool" | "prompt",
  view: View,
  /** Names that lead elsewhere and may have been meant. */
  others: readonly string[],
  context: RequestContext,
  patient = true,
): Answering {
  const { name } = params
  const routes = view[`${what}s`]
  const found = typeof name === "string" ? routes.get(name) : undefined
  if (found !== undefined)
    return relay(request, found.name === name ? params : { ...params, name: found.name }, found, context)
  const again = (now: View) => named(request, params, what, now, others, context, false)
  const answer = whenListed(name, `${what}s/list`, request, params, context, patient ? again : undefined)
  if (answer !== undefined) return answer
  throw unknownName(what, name, typeof name === "string" ? similarName(name, [...others, ...routes.keys()]) : undefined)
}

/** Returns the nearest known name: one of the same server if it is known, because another's tool does another thing. */
function similarName(name: string, known: readonly string[]): string | undefined {
  const slug = splitName(name)?.slug
  const own = slug === undefined ? [] : known.filter((other) => splitName(other)?.slug === slug)
  return nearest(name, own.length > 0 ? own : known)
}

/**
 * Answers a request for a tool or prompt that is in no list because its server is away or has never answered `method`: calls
 * `again` when the server is back or the list has come. Returns undefined if the name is of no such server.
 */
function whenListed(
  name: unknown,
  method: "tools/list" | "prompts/list",
  request: Request,
  params: Params,
  context: RequestContext,
  again: ((view: View) => Answering) | undefined,
): Answering | undefined {
  const { gateway, client } = context
  const slug = typeof name === "string" ? splitName(name)?.slug : undefined
  const away = awayOf(slug, "", context)
  const server = away ?? gateway.unlisted(client.scope, slug, method)
  if (server === undefined) return undefined
  const back = again === undefined ? undefined : gateway.whenBack(server.id)
  if (again !== undefined && back !== undefined)
    return unlessCancelled(context, back).then(() => again(viewOf(gateway.catalogOf(client.session), client.scope)))
  if ("reason" in server) return failed(request, new BackendError(server.slug, server.reason), context)
  return relay(request, params, server, context, false)
}

/** The way to a server that is not connected: its caller is to hear that, and not that it has no such name. */
function awayOf(slug: string | undefined, name: string, { gateway, client }: RequestContext): Route | undefined {
  const id = gateway.disconnectedId(client.scope, slug)
  return id === undefined ? undefined : { id, slug: slug ?? id, name, mirrored: [] }
}

function resourceOf(view: View, uri: unknown, context: RequestContext): Route {
  const own = typeof uri === "string" ? splitUri(uri) : undefined
  const found =
    typeof uri === "string" ? (view.resource(uri) ?? awayOf(own?.slug, own?.uri ?? uri, context)) : undefined
  if (found === undefined) throw unknownName("resource", uri, undefined)
  return found
}

function complete(request: Request, params: Params, view: View, context: RequestContext, patient = true): Answering {
  const ref = params.ref
  if (!isObject(ref)) throw new RequestError("invalid_params", "ref must be an object")
  if (ref.type === "ref/prompt") {
    const found = typeof ref.name === "string" ? view.prompts.get(ref.name) : undefined
    if (found !== undefined) return relay(request, { ...params, ref: { ...ref, name: found.name } }, found, context)
    const again = (now: View) => complete(request, params, now, context, false)
    const answer = whenListed(ref.name, "prompts/list", request, params, context, patient ? again : undefined)
    if (answer !== undefined) return answer
    throw unknownName("prompt", ref.name, undefined)
  }
  const found = resourceOf(view, ref.uri, context)
  return relay(request, { ...params, ref: { ...ref, uri: found.name } }, found, context)
}

/** A method svc does not know is the backend's business where there is only one. */
function other(request: Request, params: Params, context: RequestContext): Answering {
  const { scope } = context.client
  // A method of tasks that svc does not know could name another client's.
  if (scope.kind === "aggregate" || request.method.startsWith("tasks/")) throw unknownMethod(request.method)
  return relay(request, params, { id: scope.id, slug: scope.id, name: "", mirrored: [] }, context)
}

const unknownLevel = (level: unknown): RequestError =>
  new RequestError("invalid_params", `Unknown log level: ${asText(level).slice(0, 100)}`)
