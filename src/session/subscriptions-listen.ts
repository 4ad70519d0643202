/**
 * Serves `subscriptions/listen`: a modern client's stream of changes. patterns: Subscriptions.
 */

import { takesSubscriptions } from "../backend/negotiate.ts"
import { type Answer, resultAnswer } from "../call/answer.ts"
import { ownEntries } from "../call/own-tools.ts"
import type { ClientCall, Listener } from "../call/ports.ts"
import { viewFor } from "../call/ready.ts"
import { hasChanged, isWithdrawn, type Route, type View } from "../catalog/catalog.ts"
import type { ListMethod } from "../catalog/listing.ts"
import { isWithin } from "../catalog/name.ts"
import { withTimeout } from "../lib/clock.ts"
import { META_SUBSCRIPTION } from "../wire/era.ts"
import { isObject, notificationText, type Params } from "../wire/message.ts"
import { watchTasks } from "./task-watch.ts"

/**
 * Opens the stream. Resolves with the final answer when the transport closes it, and with undefined when the client cancels it.
 * `opened` is the client's view at the start.
 */
export function openSubscription(call: ClientCall, opened: View): Promise<Answer | undefined> {
  const { request, client, gateway, exchange } = call
  const wanted = isObject(request.params?.notifications) ? request.params.notifications : {}
  const wantedUris = Array.isArray(wanted.resourceSubscriptions)
    ? wanted.resourceSubscriptions.filter((uri): uri is string => typeof uri === "string").slice(0, MAX_URIS)
    : []
  const kinds = KINDS.filter(({ member }) => wanted[member] === true)
  const meta = { [META_SUBSCRIPTION]: request.id }
  // The acknowledgement is the first message.
  let held: string[] | undefined = []
  const notify = (method: string, params: Params) => {
    const text = notificationText(method, {
      ...params,
      _meta: { ...(isObject(params._meta) ? params._meta : {}), ...meta },
    })
    if (held === undefined) exchange.notify(text)
    else if (held.push(text) === MAX_HELD) acknowledge()
  }
  let view = opened
  let ownTools = ownEntries(client, view, gateway).length
  const routes: { readonly uri: string; readonly route: Route }[] = []
  const refused = new Set<string>()
  const decisions: Promise<unknown>[] = []
  const uris: string[] = []
  for (const uri of wantedUris) {
    const route = view.resource(uri)
    if (route !== undefined) {
      // The client is not told that this one was subscribed to.
      if (gateway.changes?.hasRoom(route.id, route.name) === false) continue
      const target = gateway.directory.target(route.id, client.era)
      if (typeof target !== "string" && !takesSubscriptions(target.peer)) continue
      const decision = gateway.notifications.subscribe(route.id, route.name, client.session, client.era)
      routes.push({ uri, route })
      if (decision !== undefined && typeof target !== "string") {
        const settled = decision.then((refusal) => (refusal === undefined ? undefined : refused.add(uri)))
        decisions.push(withTimeout(target.connection.clock, DECISION_MS, settled))
      }
    }
    uris.push(uri)
  }
  const listener: Listener = {
    client,
    catalogChanged() {
      const before = view
      view = viewFor(call)
      const had = ownTools
      ownTools = ownEntries(client, view, gateway).length
      if (isWithdrawn(gateway.directory.catalogOf(client.session), client.scope)) return
      const isOwn = ownTools !== had ? "tools/list" : undefined
      for (const { method, notification } of kinds)
        if (method.some((list) => list === isOwn || hasChanged(before, view, list))) notify(notification, {})
    },
    listsChanged(changed) {
      for (const { method, notification } of kinds)
        if (method.some((list) => changed.includes(list))) notify(notification, {})
    },
    updated(uri, params) {
      if (uris.some((wanted) => isWithin(uri, wanted))) notify("notifications/resources/updated", params)
    },
  }
  const stop = gateway.notifications.listen(listener)
  const tasks = watchTasks(request, view, { gateway, client }, (task) => notify("notifications/tasks", task))
  const end = () => {
    held = undefined
    stop()
    tasks.end()
    for (const { route } of routes) gateway.notifications.unsubscribe(route.id, route.name, client.session)
  }
  const { promise, resolve } = Promise.withResolvers<Answer | undefined>()
  const leave = () => {
    end()
    resolve(undefined)
  }
  /** Names what the servers have agreed to, and a resource whose server has not decided in time. */
  function acknowledge(): void {
    if (held === undefined) return
    const waiting = held
    held = undefined
    const agreed = routes.flatMap(({ uri }) => (refused.has(uri) ? [] : [uri]))
    notify("notifications/subscriptions/acknowledged", {
      notifications: {
        ...Object.fromEntries(kinds.map(({ member }) => [member, true])),
        ...(agreed.length > 0 ? { resourceSubscriptions: agreed } : {}),
        ...(tasks.ids.length > 0 ? { taskIds: tasks.ids } : {}),
      },
    })
    for (const text of waiting) exchange.notify(text)
  }
  if (decisions.length === 0) acknowledge()
  else void Promise.all(decisions).then(acknowledge)
  exchange.cancellation.onabort(leave)
  exchange.onstream?.(() => {
    exchange.cancellation.offabort(leave)
    end()
    resolve(resultAnswer(request.id, JSON.stringify({ resultType: "complete", _meta: meta })))
  })
  return promise
}

// ---

const MAX_URIS = 1000
/** The most notifications that wait for the acknowledgement. */
const MAX_HELD = 100
/** How long the acknowledgement waits for servers, in milliseconds. */
const DECISION_MS = 2000

const KINDS: readonly { member: string; notification: string; method: readonly ListMethod[] }[] = [
  { member: "toolsListChanged", notification: "notifications/tools/list_changed", method: ["tools/list"] },
  { member: "promptsListChanged", notification: "notifications/prompts/list_changed", method: ["prompts/list"] },
  {
    member: "resourcesListChanged",
    notification: "notifications/resources/list_changed",
    method: ["resources/list", "resources/templates/list"],
  },
]
