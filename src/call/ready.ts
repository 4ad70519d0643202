/**
 * The only place where a request waits for servers: for the initial load, then for the server that it names if that server is
 * starting, is reconnecting, or has not answered its first lists. Routing happens afterwards, with the current catalog.
 */
import { type View, viewOf } from "../catalog/catalog.ts"
import { splitName, splitUri } from "../catalog/name.ts"
import { UnavailableError } from "../lib/errors.ts"
import type { Era } from "../wire/era.ts"
import { isObject, type Request } from "../wire/message.ts"
import type { Cancellation } from "./cancellation.ts"
import { methodOf } from "./methods.ts"
import type { ClientCall, Gateway } from "./ports.ts"

/**
 * Calls `serve` with the client's view, at once or when the servers that the request needs are available. Throws, or rejects
 * with, an UnavailableError if svc stops; rejects with a RequestError as soon as the client cancels the request.
 */
export function ready<T>(call: ClientCall, serve: Serve<T>): T | Promise<T> {
  const { gateway, exchange } = call
  const loaded = whenLoaded(gateway, exchange.cancellation)
  return loaded === undefined ? serveLoaded(call, serve) : loaded.then(() => serveLoaded(call, serve))
}

/** Returns a promise to wait for the initial load; undefined if it is over. Throws and rejects as `ready` does. */
export function whenLoaded(gateway: Gateway, cancellation: Cancellation): Promise<void> | undefined {
  refuseStopping(gateway)
  const { initialLoad } = gateway.directory
  return initialLoad === undefined ? undefined : waitFor(initialLoad, gateway, cancellation)
}

/** Returns a promise to wait for one server if it is starting or reconnecting; otherwise undefined. Rejects as `ready` does. */
export function whenConnected(id: string, gateway: Gateway, cancellation: Cancellation): Promise<void> | undefined {
  const back = gateway.directory.takesCalls(id, false) ? undefined : gateway.directory.whenBack(id)
  return back === undefined ? undefined : waitFor(back, gateway, cancellation)
}

/**
 * Returns a promise to wait for the connection of an era to a server that may support both; undefined if it is open or will not
 * be opened. Rejects as `ready` does.
 */
export function whenPrepared(
  id: string,
  era: Era,
  gateway: Gateway,
  cancellation: Cancellation,
): Promise<void> | undefined {
  const target = gateway.directory.target(id, era)
  if (typeof target === "string" || target.peer.era === era) return undefined
  const prepared = gateway.directory.prepare(id, era)
  return prepared === undefined ? undefined : waitFor(prepared, gateway, cancellation)
}

/** Throws an UnavailableError if svc is stopping, so that the tools of stopped servers are not reported as unknown. */
export function refuseStopping({ directory }: Pick<Gateway, "directory">): void {
  if (directory.stopping) throw new UnavailableError("svc is shutting down")
}

/** Waits, then refuses if svc stops. Rejects with a RequestError as soon as the request is cancelled. */
export async function waitFor<T>(wait: Promise<T>, gateway: Gateway, cancellation: Cancellation): Promise<T> {
  const value = await cancellation.race(wait)
  refuseStopping(gateway)
  return value
}

/** Whether a request continues a call or a task that a server already has, rather than begin one. */
export const continuesCall = ({ method, params }: Pick<Request, "method" | "params">): boolean =>
  typeof params?.requestState === "string" || method.startsWith("tasks/")

/** Returns the current view of the client of a call. */
export const viewFor = ({ client, gateway }: Pick<ClientCall, "client" | "gateway">): View =>
  viewOf(gateway.directory.catalogOf(client.session), client.scope)

// ---

type Serve<T> = (call: ClientCall, view: View) => T | Promise<T>

function serveLoaded<T>(call: ClientCall, serve: Serve<T>): T | Promise<T> {
  const view = viewFor(call)
  const id = serverOf(call, view)
  const back = id === undefined ? undefined : call.gateway.directory.whenBack(id)
  if (back === undefined) return serve(call, view)
  return waitFor(back, call.gateway, call.exchange.cancellation).then(() => serve(call, viewFor(call)))
}

/** Returns the id of the server to wait for; undefined if it is connected, or svc answers the request itself. */
function serverOf(call: ClientCall, view: View): string | undefined {
  const { method, params = {} } = call.request
  switch (method) {
    case "tools/call":
      return serverOfName(params.name, "tools", view, call)
    case "prompts/get":
      return serverOfName(params.name, "prompts", view, call)
    case "resources/read":
    case "resources/directory/read":
    case "skills/get":
      return serverOfUri(params.uri, view, call)
    case "completion/complete": {
      const { ref } = params
      if (!isObject(ref)) return undefined
      return ref.type === "ref/prompt"
        ? serverOfName(ref.name, "prompts", view, call)
        : serverOfUri(ref.uri, view, call)
    }
    case "tasks/get":
    case "tasks/result":
    case "tasks/update":
    case "tasks/cancel": {
      const { taskId } = params
      if (typeof taskId !== "string") return undefined
      const found = view.task(taskId)
      return found === undefined ? disconnected(splitName(taskId)?.slug, call) : unlessConnected(found.id, call)
    }
    default: {
      // svc relays an unknown method to the only server of the scope.
      const { scope } = call.client
      return scope.kind === "server" && methodOf(method).isOwn !== true ? unlessConnected(scope.id, call) : undefined
    }
  }
}

function serverOfName(name: unknown, kind: "tools" | "prompts", view: View, call: ClientCall): string | undefined {
  if (typeof name !== "string") return undefined
  const found = view[kind].get(name)
  if (found !== undefined) return unlessConnected(found.id, call)
  const slug = splitName(name)?.slug
  return disconnected(slug, call) ?? call.gateway.directory.unlisted(call.client.scope, slug, `${kind}/list`)?.id
}

function serverOfUri(uri: unknown, view: View, call: ClientCall): string | undefined {
  if (typeof uri !== "string") return undefined
  const found = view.resource(uri)
  return found === undefined ? disconnected(splitUri(uri)?.slug, call) : unlessConnected(found.id, call)
}

const unlessConnected = (id: string, { gateway, request }: ClientCall): string | undefined =>
  gateway.directory.takesCalls(id, !continuesCall(request)) ? undefined : id

const disconnected = (slug: string | undefined, { client, gateway }: ClientCall): string | undefined =>
  gateway.directory.disconnectedId(client.scope, slug)
