/**
 * Tasks: calls that a client comes back for, in both forms: `tasks/*` of 2025-11-25 and the tasks extension of 2026-07-28.
 * An id leads back to its backend, and belongs to who made it: several clients share a backend, which cannot tell them
 * apart. basic: Tasks; extension: Tasks.
 *
 *  1. What is another's is as unknown as what is not there.
 *  2. 2025-era tasks belong to their session, and are remembered with it. 2026-era clients have none: theirs belong to the
 *     principal, and an id that svc does not know, for it was made before svc was restarted, is left to the backend.
 */
import type { Claim } from "../agent/claims.ts"
import type { Route, View } from "../catalog/catalog.ts"
import type { Listing } from "../catalog/listing.ts"
import { RequestError } from "../lib/errors.ts"
import { numberOf, parseExact } from "../lib/json.ts"
import { type Era, TASKS_EXTENSION } from "../wire/era.ts"
import { textOf } from "../wire/frame.ts"
import { asText, isObject, type Params, type Request, resultText } from "../wire/message.ts"
import { type Context, ownerOf } from "./client.ts"
import { type Answer, relay } from "./relay.ts"

/** Whether a backend makes tasks for clients of an era. */
export function hasTasks({ era, capabilities }: Listing, client: Era): boolean {
  if (era !== client) return false
  return era === "2025"
    ? isObject(capabilities.tasks)
    : isObject(capabilities.extensions) && capabilities.extensions[TASKS_EXTENSION] !== undefined
}

/** `tasks/get`, `tasks/result`, `tasks/update` and `tasks/cancel`. */
export function relayTask(request: Request, params: Params, view: View, context: Context): Answer {
  const { taskId } = params
  const route = routeOfTask(taskId, view, context)
  if (route === undefined) throw unknownTask(taskId)
  return relay(request, { ...params, taskId: route.name }, route, context)
}

/** Where a client's task leads; undefined for another's, which is as unknown as none. */
export function routeOfTask(taskId: unknown, view: View, about: Pick<Context, "face" | "client">): Route | undefined {
  const route = typeof taskId === "string" ? view.task(taskId) : undefined
  return route !== undefined && isTheirs(route, view, about) ? route : undefined
}

/**
 * `tasks/list`: a backend's own list holds the tasks of all of svc's clients, so svc asks for each that is this client's.
 * One that the backend has forgotten is left out.
 */
export async function listTasks(request: Request, params: Params, view: View, context: Context): Promise<string> {
  const { face, client } = context
  const { cursor } = params
  const seen = new Set(view.chunks.map(({ spec }) => spec.id))
  const owned = face.claims.of(ownerOf(client), "task").filter(({ backend }) => seen.has(backend))
  const start = cursor === undefined ? 0 : owned.findIndex((claim) => cursorOf(claim) === cursor) + 1
  if (cursor !== undefined && start === 0) throw new RequestError("invalid_params", "The cursor is none of this list")
  const page = owned.slice(start, start + PAGE)
  const tasks: Params[] = []
  for (const claim of page) {
    const slug = view.chunks.find(({ spec }) => spec.id === claim.backend)?.spec.slug ?? claim.backend
    const route = { id: claim.backend, slug, name: "", mirrored: [] }
    const get: Request = { jsonrpc: "2.0", id: 0, method: "tasks/get" }
    const frame = await relay(get, { taskId: claim.id }, route, context)
    const answer: unknown = parseExact(textOf(frame))
    if (!isObject(answer)) continue
    if (isObject(answer.result)) tasks.push(answer.result)
    else if (isObject(answer.error) && numberOf(answer.error.code) === -32602) face.claims.drop(claim)
  }
  const last = page.at(-1)
  const more = last !== undefined && start + PAGE < owned.length ? { nextCursor: cursorOf(last) } : {}
  return resultText(request.id, JSON.stringify({ tasks, ...more }))
}

// ---

const PAGE = 50

const cursorOf = ({ backend, id }: Claim): string => Buffer.from(JSON.stringify([backend, id])).toString("base64url")

function isTheirs({ id, name }: Route, view: View, { face, client }: Pick<Context, "face" | "client">): boolean {
  const claim = face.claims.find("task", id, name)
  if (claim !== undefined) return claim.owner === ownerOf(client)
  const chunk = view.chunks.find(({ spec }) => spec.id === id)
  return client.era === "2026" && chunk !== undefined && hasTasks(chunk.listing, client.era)
}

const unknownTask = (id: unknown): RequestError =>
  new RequestError("invalid_params", `Unknown task: ${asText(id).slice(0, 200)}`)
