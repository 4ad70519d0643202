/**
 * Decides where a request goes: to svc itself, to a server, to nobody, or where a server that may be there in a moment will decide.
 * Pure: it only reads the view and the directory. `ready` decides once, or once more after it has waited.
 */
import { LIST_KEYS, type Route, type View } from "../catalog/catalog.ts"
import { instructionsAt } from "../catalog/instructions.ts"
import { splitName, splitUri } from "../catalog/name.ts"
import { ownNameOf } from "../catalog/view-rules.ts"
import { isObject, type Params } from "../wire/message.ts"
import { supportsTasks } from "./client.ts"
import { continuesCall, methodOf } from "./methods.ts"
import { ownToolOf } from "./own-tools.ts"
import type { ClientCall, Decided, Destination } from "./ports.ts"
import { routeOfTask } from "./task-id.ts"

/** Returns the destination of a request. `settled`: the wait for its server is over, so the server is not waited for again. */
export function destinationOf(call: ClientCall, view: View, settled: true): Decided
export function destinationOf(call: ClientCall, view: View, settled?: boolean): Destination
export function destinationOf(call: ClientCall, view: View, settled = false): Destination {
  const { request, client, gateway } = call
  const { method, params = {} } = request
  const { scope } = client
  const asked: Deciding = { call, view, settled }
  switch (method) {
    case "tools/call": {
      const own = ownToolOf(params.name, call, view, gateway)
      if (own === undefined) return named(asked, "tool", params.name, (name) => ({ ...params, name }))
      const waiting = settled ? undefined : absentServer(asked, "tools", splitName(String(params.name))?.slug)
      return waiting ?? { kind: "own", run: own.run }
    }
    case "prompts/get":
      return named(asked, "prompt", params.name, (name) => ({ ...params, name }))
    case "resources/read": {
      if (scope.kind !== "server" && instructionsAt(params.uri, view.parts) !== undefined) return { kind: "own" }
      for (const { read } of gateway.ownTools) {
        const run = read?.(params.uri)
        if (run !== undefined) return { kind: "own", run }
      }
      return located(asked, params.uri, (uri) => ({ ...params, uri }))
    }
    case "resources/subscribe":
    case "resources/unsubscribe":
      // A subscription outlasts a restart of its server, but needs the process of one that is asleep.
      return located({ ...asked, settled: settled || !isAsleep(asked, params.uri) }, params.uri, (uri) => ({
        ...params,
        uri,
      }))
    case "skills/get":
    case "resources/directory/read":
      return scope.kind === "server" && scope.shape === undefined
        ? whole(asked, scope.id)
        : located(asked, params.uri, (uri) => ({ ...params, uri }))
    case "completion/complete": {
      const { ref } = params
      if (!isObject(ref)) return { kind: "own" }
      return ref.type === "ref/prompt"
        ? named(asked, "prompt", ref.name, (name) => ({ ...params, ref: { ...ref, name } }))
        : located(asked, ref.uri, (uri) => ({ ...params, ref: { ...ref, uri } }))
    }
    case "tasks/get":
    case "tasks/result":
    case "tasks/update":
    case "tasks/cancel":
      return ofTask(asked, params)
    default:
      return scope.kind === "server" ? whole(asked, scope.id) : { kind: "own" }
  }
}

// ---

type Deciding = { readonly call: ClientCall; readonly view: View; readonly settled: boolean }

type Refused = Extract<Destination, { kind: "refused" }>

const refused = (what: Refused["what"], name: unknown): Refused => ({ kind: "refused", what, name })

/** Returns the destination at a route: its server, or the wait for it. */
function at({ call, settled }: Deciding, route: Route, params: Params): Destination {
  const { gateway, request } = call
  if (!settled && !gateway.directory.takesCalls(route.id, !continuesCall(request)))
    return { kind: "waiting", for: route.id }
  return { kind: "server", route, params }
}

/** Whether the server of a resource is asleep. */
function isAsleep({ call, view }: Deciding, uri: unknown): boolean {
  const route = typeof uri === "string" ? view.resource(uri) : undefined
  return route !== undefined && call.gateway.directory.isAsleep(route.id)
}

/** Returns the wait for a server of this name that is not connected, or has not answered a list. */
function absentServer(
  { call }: Deciding,
  kind: "tools" | "prompts",
  slug: string | undefined,
): Destination | undefined {
  const { scope } = call.client
  const { directory } = call.gateway
  const id = directory.disconnectedId(scope, slug) ?? directory.unlisted(scope, slug, `${kind}/list`)?.id
  return id === undefined ? undefined : { kind: "waiting", for: id }
}

/** Returns the destination of a tool's or a prompt's name; `withName` returns the params with the server's own name. */
function named(
  asked: Deciding,
  what: "tool" | "prompt",
  name: unknown,
  withName: (name: string) => Params,
): Destination {
  const { call, view, settled } = asked
  const { scope } = call.client
  const { directory } = call.gateway
  const text = typeof name === "string" ? name : undefined
  const route = text === undefined ? undefined : view[`${what}s`].get(text)
  if (route !== undefined)
    return at(asked, route, route.name === name ? (call.request.params ?? {}) : withName(route.name))
  const naming = scope.kind === "server" ? undefined : scope.shape?.naming
  const split = text === undefined ? undefined : ((naming && ownNameOf(naming, text)) ?? splitName(text))
  if (!settled && text !== undefined) {
    const waiting = absentServer(asked, `${what}s`, split?.slug)
    if (waiting !== undefined) return waiting
  }
  const absent = text === undefined ? undefined : disconnected(asked, split?.slug, split?.name ?? text)
  if (absent !== undefined) return { kind: "server", route: absent, params: withName(absent.name) }
  const unlisted = directory.unlisted(scope, split?.slug, `${what}s/list`)
  if (unlisted !== undefined) return { kind: "refused", what, name, unlisted }
  const guessed = text === undefined ? undefined : view.unlisted(`${what}s`, text)
  if (guessed !== undefined) return { kind: "server", route: guessed, params: withName(guessed.name) }
  return refused(what, name)
}

/** Returns the destination of a resource's URI; `withUri` returns the params with the server's own URI. */
function located(asked: Deciding, uri: unknown, withUri: (uri: string) => Params): Destination {
  if (typeof uri !== "string") return refused("resource", uri)
  const route = asked.view.resource(uri)
  if (route !== undefined) return at(asked, route, withUri(route.name))
  const split = splitUri(uri)
  const absent = disconnected(asked, split?.slug, split?.uri ?? uri)
  if (absent === undefined) return refused("resource", uri)
  return asked.settled
    ? { kind: "server", route: absent, params: withUri(absent.name) }
    : { kind: "waiting", for: absent.id }
}

/** Returns the destination of a task's id. */
function ofTask(asked: Deciding, params: Params): Destination {
  const { call, view, settled } = asked
  const { taskId } = params
  if (!settled && typeof taskId === "string") {
    const { directory } = call.gateway
    const id = view.task(taskId)?.id ?? directory.disconnectedId(call.client.scope, splitName(taskId)?.slug)
    if (id !== undefined && !directory.takesCalls(id, false)) return { kind: "waiting", for: id }
  }
  const isUnable = call.client.era === "modern" && !supportsTasks(call.client)
  const route = isUnable ? undefined : routeOfTask(taskId, view, call)
  return route === undefined
    ? refused("task", taskId)
    : { kind: "server", route, params: { ...params, taskId: route.name } }
}

/** Returns the destination of a request that names nothing at the address of one server. svc answers lists itself, once it has them. */
function whole(asked: Deciding, id: string): Destination {
  const { request, client, gateway } = asked.call
  const { method, params = {} } = request
  if (Object.hasOwn(LIST_KEYS, method) && !asked.settled) {
    const absent = gateway.directory.disconnectedId(client.scope, undefined)
    if (absent !== undefined) return { kind: "waiting", for: absent }
  }
  // An unknown method of tasks could name another client's task. Methods that svc itself uses with a server, such as
  // `initialize`, would change the server for all its clients.
  if (methodOf(method).isOwn || /^(?:tasks|notifications)\//.test(method)) return { kind: "own" }
  const found = at(asked, { id, slug: id, name: "", mirrored: [] }, params)
  return found.kind === "server" && method === "server/discover" ? { kind: "own" } : found
}

/** Returns a route to a server that is not connected, so that the error says this instead of "unknown name". */
function disconnected({ call }: Deciding, slug: string | undefined, name: string): Route | undefined {
  const id = call.gateway.directory.disconnectedId(call.client.scope, slug)
  return id === undefined ? undefined : { id, slug: slug ?? id, name, mirrored: [] }
}
