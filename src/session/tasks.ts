/**
 * Tasks: calls with results that a client requests later, in both forms: `tasks/*` of 2025-11-25 and the tasks extension of
 * 2026-07-28. An id names its backend and belongs to the client that created the task (task-id.ts). basic: Tasks; extension:
 * Tasks.
 *
 *  1. Another client's task is as unknown as one that does not exist.
 *  2. A legacy task belongs to its session, a modern task to the principal, because modern clients have no session.
 *  3. An id that a backend gives to another client later, for example after its restart, belongs to that client.
 */
import type { Ownership } from "../agent/task-owners.ts"
import { type Answer, errorAnswer, resultAnswer } from "../call/answer.ts"
import { ownerOf, supportsTasks } from "../call/client.ts"
import type { ClientCall } from "../call/ports.ts"
import type { Refusal } from "../call/request-client.ts"
import type { View } from "../catalog/catalog.ts"
import { RequestError, RPC_CODE } from "../lib/errors.ts"
import { MISSING_CLIENT_CAPABILITY, TASKS_EXTENSION } from "../wire/era.ts"
import { parseRelayed } from "../wire/frame.ts"
import { asText, isObject, type Params, type Request } from "../wire/message.ts"
import { unknownMethod, unknownName } from "./relay.ts"
import { peerFor } from "./server-capabilities.ts"

/** Whether a backend creates tasks for a client. */
function hasTasks(part: View["parts"][number], about: Pick<ClientCall, "gateway" | "client">): boolean {
  const { era, capabilities } = peerFor(part, about)
  if (era !== about.client.era) return false
  return era === "legacy"
    ? isObject(capabilities.tasks)
    : isObject(capabilities.extensions) && capabilities.extensions[TASKS_EXTENSION] !== undefined
}

/** Refuses a request for a task that the client does not have. */
export function refuseTask(call: ClientCall, view: View): Answer {
  const { request, client } = call
  if (!view.parts.some((part) => hasTasks(part, call))) throw unknownMethod(request.method)
  if (client.era === "legacy" || supportsTasks(client)) throw unknownName("task", request.params?.taskId, undefined)
  const { code, message, data } = WITHOUT_TASKS
  return errorAnswer(request.id, code, message, data)
}

/** Why a modern client that does not declare the extension may not ask about tasks. extension: Tasks, Missing Capability. */
export const WITHOUT_TASKS: Refusal = {
  code: MISSING_CLIENT_CAPABILITY,
  message: "The client does not declare the tasks extension",
  data: { requiredCapabilities: { extensions: { [TASKS_EXTENSION]: {} } } },
}

/**
 * Answers `tasks/list`. A backend's own list contains the tasks of all clients, so svc requests each task of this client by its id.
 * Leaves out tasks that the backend has dropped, and tasks whose records svc has dropped; `tasks/get` still finds the latter.
 *
 * In a cluster, this is one section of the list: the tasks that clients created on this replica or, in the first section, those
 * that outlived the replica on which they were created. features/cluster/task-lists.ts joins the sections.
 */
export async function listTasks(call: ClientCall, view: View): Promise<Answer> {
  const { request, gateway, client } = call
  const { cursor } = request.params ?? {}
  if (!view.parts.some((part) => hasTasks(part, call))) throw unknownMethod(request.method)
  const seen = new Set(view.parts.map(({ spec }) => spec.id))
  const section = sectionOf(cursor)
  const owned = gateway.tasks.owners
    .of(ownerOf(client), "task")
    .filter((claim) => seen.has(claim.backend) && isInSection(claim, section, gateway))
  // Each replica continues the first section.
  if (section === "" && gateway.replicas !== undefined) owned.sort((a, b) => (a.id < b.id ? -1 : 1))
  const after = cursor === undefined || cursor === sectionAt(section) ? undefined : cursor
  const start = after === undefined ? 0 : owned.findIndex((claim) => cursorOf(section, claim) === after) + 1
  if (after !== undefined && start === 0) throw new RequestError("invalid_params", "The cursor is not from this list")
  const page = owned.slice(start, start + MAX_LISTED_TASKS)
  const tasks: Params[] = []
  for (const claim of page) {
    const slug = view.parts.find(({ spec }) => spec.id === claim.backend)?.spec.slug ?? claim.backend
    const route = { id: claim.backend, slug, name: "", mirrored: [], era: claim.era }
    const get: Request = { jsonrpc: "2.0", id: 0, method: "tasks/get" }
    const { frame, outcome, code } = await gateway.toServer({ ...call, request: get }, { taskId: claim.id }, route)
    if (code === RPC_CODE.invalidParams) gateway.tasks.owners.drop(claim)
    if (outcome !== "ok") continue
    const message: unknown = parseRelayed(frame)
    if (isObject(message) && isObject(message.result)) tasks.push(message.result)
  }
  const last = page.at(-1)
  const more =
    last !== undefined && start + MAX_LISTED_TASKS < owned.length ? { nextCursor: cursorOf(section, last) } : {}
  return resultAnswer(request.id, JSON.stringify({ tasks, ...more }))
}

/** The most tasks in one answer to `tasks/list`, for one section. */
export const MAX_LISTED_TASKS = 50

/** Returns the cursor at the start of the section of a replica; "" at the start of the first section. */
export const sectionAt = (section: string): string => printCursor([section])

/** Returns the section of a cursor; the first section for any other value. */
export function sectionOf(cursor: unknown): string {
  try {
    const [section]: readonly unknown[] = JSON.parse(Buffer.from(asText(cursor ?? ""), "base64url").toString())
    return asText(section ?? "")
  } catch {
    return ""
  }
}

// ---

const printCursor = (parts: readonly string[]): string => Buffer.from(JSON.stringify(parts)).toString("base64url")

const cursorOf = (section: string, { backend, era, id }: Ownership): string => printCursor([section, backend, era, id])

/** Whether a task is in a section of the list. A single svc has only the first section. */
function isInSection({ caller, madeAt }: Ownership, section: string, { replicas }: ClientCall["gateway"]): boolean {
  if (replicas === undefined) return true
  if (section !== "") return caller !== undefined
  return caller === undefined && (madeAt === undefined || !replicas.lives(madeAt))
}
