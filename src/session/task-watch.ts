/**
 * Watches the tasks to which a modern client listens. Servers need not send notifications about tasks, so svc polls them at the
 * interval that the server states, and notifies the client of changes. extension: Tasks, Task Status Notifications.
 */

import { Cancellation } from "../call/cancellation.ts"
import { type Client, type Exchange, supportsTasks } from "../call/client.ts"
import type { ClientCall } from "../call/ports.ts"
import type { Refusal } from "../call/request-client.ts"
import { routeOfTask } from "../call/task-id.ts"
import type { Route, View } from "../catalog/catalog.ts"
import { scopeIncludes } from "../catalog/scope.ts"
import type { Clock } from "../lib/clock.ts"
import { RPC_CODE } from "../lib/errors.ts"
import { numberOf, parseExact } from "../lib/json.ts"
import { textOf } from "../wire/frame.ts"
import { isObject, isTerminal, metaOf, type Params, type Request } from "../wire/message.ts"
import { WITHOUT_TASKS } from "./tasks.ts"

/** Returns why a client may not listen to the tasks in its request; undefined if it may. */
export function refuseListen(request: Request, client: Client): Refusal | undefined {
  return wantedTasks(request).length === 0 || supportsTasks(client) ? undefined : WITHOUT_TASKS
}

/** Starts to watch the requested tasks that exist and belong to the client; `end` stops this. */
export function watchTasks(
  request: Request,
  view: View,
  about: Pick<ClientCall, "gateway" | "client">,
  notify: (task: Params) => void,
): { readonly ids: readonly string[]; end(): void } {
  const ends: (() => void)[] = []
  const ids = wantedTasks(request).filter((id) => {
    const route = routeOfTask(id, view, about)
    const target = route === undefined ? undefined : about.gateway.directory.target(route.id)
    if (route === undefined || target === undefined || typeof target === "string") return false
    ends.push(watch(route, { ...about, params: request.params, clock: target.connection.clock, notify }))
    return true
  })
  return {
    ids,
    end() {
      for (const end of ends) end()
    },
  }
}

// ---

const MAX_TASKS = 50
const POLL_MS = 2000
const MIN_POLL_MS = 500
const MAX_POLL_MS = 60_000

/** Returns the ids of the tasks to which a client wants to listen. */
const wantedTasks = ({ params }: Request): readonly string[] => {
  const wanted = isObject(params?.notifications) ? params.notifications.taskIds : undefined
  return Array.isArray(wanted) ? wanted.filter((id): id is string => typeof id === "string").slice(0, MAX_TASKS) : []
}

type WatchedTask = Pick<ClientCall, "gateway" | "client"> & {
  /** The params of the request to listen. */
  readonly params: Params | undefined
  readonly clock: Clock
  readonly notify: (task: Params) => void
}

function watch(route: Route, { gateway, client, params, clock, notify }: WatchedTask): () => void {
  const request: Request = { jsonrpc: "2.0", id: 0, method: "tasks/get" }
  const cannotBeAsked = () => Promise.reject(new Error("a poll has no client"))
  const exchange: Exchange = { cancellation: new Cancellation(), notify() {}, ask: cannotBeAsked }
  const ask = async (): Promise<{ readonly result?: unknown; readonly code?: number | undefined }> => {
    const about = { taskId: route.name, _meta: metaOf(params) }
    const { frame, code } = await gateway.toServer({ request, gateway, client, exchange }, about, route)
    const { result } = parseExact(textOf(frame)) as Params
    return { result, code }
  }
  let ended = false
  let cancel: () => void = () => undefined
  let last = ""
  const poll = async () => {
    const target = gateway.directory.target(route.id)
    // The client may no longer see the server.
    if (typeof target !== "string" && !scopeIncludes(client.scope, target.spec)) return
    // A server that is disconnected or busy is polled again.
    const { result, code } = await ask().catch(() => ({ result: undefined, code: undefined }))
    if (ended || code === RPC_CODE.invalidParams) return
    const { resultType: _type, ...task } = isObject(result) ? result : {}
    const text = JSON.stringify(task)
    if (isObject(result) && text !== last) notify(task)
    last = text
    if (isTerminal(task.status)) return
    const wait = numberOf(task.pollIntervalMs) ?? POLL_MS
    cancel = clock.after(Math.min(Math.max(wait, MIN_POLL_MS), MAX_POLL_MS), () => void poll())
  }
  void poll()
  return () => {
    ended = true
    cancel()
    exchange.cancellation.cancel("the client no longer listens")
  }
}
