/**
 * Lists a client's tasks on all replicas. Each replica lists its own, because only its servers have them (session/tasks.ts): that
 * is its section of the list. Sections are in the order of the replicas' ids, and a cursor names its section, so that any replica
 * can continue a list. All replicas are asked at once: however many do not answer, the list waits only until they are known to be
 * gone.
 */
import { parseExact } from "../../lib/json.ts"
import { jsonResponse } from "../../serve/respond.ts"
import { MAX_LISTED_TASKS, sectionAt, sectionOf } from "../../session/tasks.ts"
import { isObject, type Params, type Request as RpcRequest } from "../../wire/message.ts"

export type TaskListing = {
  /** The ids of the live replicas, this one included. */
  readonly replicas: readonly string[]
  /** Has a request for a section answered by the replica that has it; undefined if that replica is gone. */
  ask(section: string, request: RpcRequest): Promise<Response | undefined> | undefined
}

/** Answers `tasks/list` with the tasks of all replicas. A page ends when it is full, or where the page of a section ends. */
export async function listTasksOfAll(request: RpcRequest, { replicas, ask }: TaskListing): Promise<Response> {
  const { id, params } = request
  const start = sectionOf(params?.cursor)
  const sections = ["", ...[...replicas].sort()].filter((section) => section >= start)
  const asked = sections.map(async (section) => {
    const cursor = section === start && params?.cursor !== undefined ? params.cursor : sectionAt(section)
    const response = await ask(section, { ...request, params: { ...params, cursor } })
    return { status: response?.status, answer: await answerIn(response) }
  })
  // A replica may end while it answers.
  const answers = asked.map((one) => one.catch(() => undefined))
  const tasks: unknown[] = []
  for (const [at, section] of sections.entries()) {
    const { status, answer } = (await answers[at]) ?? {}
    if (answer === undefined) continue
    if (!isObject(answer.result) || !Array.isArray(answer.result.tasks)) {
      // A refusal of the client or its request is the same on every replica.
      if (section === sections[0]) return jsonResponse(answer, status)
      continue
    }
    tasks.push(...answer.result.tasks)
    const next = sections[at + 1]
    const rest =
      answer.result.nextCursor ?? (next !== undefined && tasks.length >= MAX_LISTED_TASKS ? sectionAt(next) : undefined)
    if (rest !== undefined) return jsonResponse({ jsonrpc: "2.0", id, result: { tasks, nextCursor: rest } })
  }
  return jsonResponse({ jsonrpc: "2.0", id, result: { tasks } })
}

// ---

/** Returns the last message of a response, which may be a stream that begins with notifications; undefined if there is none. */
async function answerIn(response: Response | undefined): Promise<Params | undefined> {
  const text = await response?.text()
  const isStream = response?.headers.get("content-type")?.startsWith("text/event-stream") === true
  const last = isStream
    ? text
        ?.split("\n")
        .findLast((line) => line.startsWith("data:"))
        ?.slice("data:".length)
    : text
  const value: unknown = last === undefined || last === "" ? undefined : parseExact(last)
  return isObject(value) ? value : undefined
}
