/**
 * `subscriptions/listen`: a modern client's stream of what changes. patterns: Subscriptions.
 */
import { hasChanged, type View, viewOf } from "../catalog/catalog.ts"
import type { ListMethod } from "../catalog/listing.ts"
import { isWithin } from "../catalog/name.ts"
import { META_SUBSCRIPTION } from "../wire/era.ts"
import { isObject, notificationText, type Params, type Request } from "../wire/message.ts"
import type { Client, Exchange, Face, Listener } from "./client.ts"
import { watchTasks } from "./task-watch.ts"

/** A way back that ends with an answer. */
export type StreamExchange = Exchange & { finish(frame: string): void }

/** Opens the stream; the returned function ends it gracefully. */
export function listen(request: Request, client: Client, face: Face, exchange: StreamExchange): () => void {
  const wanted = isObject(request.params?.notifications) ? request.params.notifications : {}
  const uris = Array.isArray(wanted.resourceSubscriptions)
    ? wanted.resourceSubscriptions.filter((uri): uri is string => typeof uri === "string").slice(0, MAX_URIS)
    : []
  const kinds = KINDS.filter(({ member }) => wanted[member] === true)
  const meta = { [META_SUBSCRIPTION]: request.id }
  const say = (method: string, params: Params) =>
    exchange.notify(
      notificationText(method, { ...params, _meta: { ...(isObject(params._meta) ? params._meta : {}), ...meta } }),
    )
  let view: View = viewOf(face.catalogOf(client.session), client.scope)
  const routes = uris.flatMap((uri) => {
    const route = view.resource(uri)
    return route === undefined ? [] : [{ uri, route }]
  })
  const listener: Listener = {
    client,
    follow() {
      const before = view
      view = viewOf(face.catalogOf(client.session), client.scope)
      if (before === view) return
      for (const { method, notification } of kinds)
        if (method.some((list) => hasChanged(before, view, list))) say(notification, {})
    },
    updated(uri, params) {
      if (uris.some((wanted) => isWithin(uri, wanted))) say("notifications/resources/updated", params)
    },
  }
  for (const { route } of routes) face.subscribe(route.id, route.name, client.session)
  const stop = face.listen(listener)
  const tasks = watchTasks(request, view, { face, client }, (task) => say("notifications/tasks", task))
  const end = () => {
    stop()
    tasks.end()
    for (const { route } of routes) face.unsubscribe(route.id, route.name, client.session)
  }
  exchange.oncancel = end
  say("notifications/subscriptions/acknowledged", {
    notifications: {
      ...Object.fromEntries(kinds.map(({ member }) => [member, true])),
      ...(routes.length > 0 ? { resourceSubscriptions: routes.map(({ uri }) => uri) } : {}),
      ...(tasks.ids.length > 0 ? { taskIds: tasks.ids } : {}),
    },
  })
  return () => {
    end()
    exchange.finish(JSON.stringify({ jsonrpc: "2.0", id: request.id, result: { resultType: "complete", _meta: meta } }))
  }
}

// ---

const MAX_URIS = 1000

const KINDS: readonly { member: string; notification: string; method: readonly ListMethod[] }[] = [
  { member: "toolsListChanged", notification: "notifications/tools/list_changed", method: ["tools/list"] },
  { member: "promptsListChanged", notification: "notifications/prompts/list_changed", method: ["prompts/list"] },
  {
    member: "resourcesListChanged",
    notification: "notifications/resources/list_changed",
    method: ["resources/list", "resources/templates/list"],
  },
]
