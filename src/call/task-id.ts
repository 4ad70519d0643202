/**
 * Ids of tasks as clients see them: the server's name if the address has several servers, the server's own id, and a mark, which
 * authenticates both for their owner. Clients share a server that cannot distinguish them, so the id itself proves the owner: that
 * needs no table, survives a restart, and makes ids of other clients and invented ids unknown.
 *
 * A task of a stdio server ends with the server's process: the next process may start its ids over and give the same id to another
 * client. So the mark of such a task includes the process, unless the id is random: servers that keep their tasks can use random
 * ids. The mark of a task that was created over a connection of the other era than its client's includes that era.
 *
 *   files_svc_<the server's id>.<mark>    on /mcp and /sse
 *             <the server's id>.<mark>    on /servers/files/mcp
 *
 * In a cluster, the id of the replica that created the task follows the mark.
 */
import type { Route, View } from "../catalog/catalog.ts"
import { splitName } from "../catalog/name.ts"
import { type Names, qualifiedNames } from "../catalog/rewrite.ts"
import { isSameMark, MARK_CHARS } from "../lib/seal.ts"
import { replicaIn } from "../store/replica-id.ts"
import type { Era } from "../wire/era.ts"
import { isObject, type Params } from "../wire/message.ts"
import { type Client, ownerOf } from "./client.ts"
import type { ClientCall, Target } from "./ports.ts"

type About = Pick<ClientCall, "gateway" | "client">

/** Returns the names under which a client knows a server's URIs and tasks. */
export function namesFor(target: Target, about: About): Names {
  const { id, slug } = target.spec
  const over = target.peer.era === about.client.era ? undefined : target.peer.era
  const replica = about.gateway.replicas?.replica ?? ""
  const mark = (task: string) => `${task}.${markOf({ task, server: id, over }, target, about)}${replica}`
  return about.client.scope.kind === "aggregate" ? qualifiedNames(slug, mark) : { uri: (uri) => uri, task: mark }
}

/**
 * Returns the server's own task id and the era of the connection with the task, from a task id without the server's name;
 * undefined if the task is not this client's. `target`: the server, or the reason why it is not connected.
 */
export function openTaskId(
  marked: string,
  server: string,
  target: Target | string,
  about: About,
): { readonly task: string; readonly era: Era } | undefined {
  const at = marked.lastIndexOf(".")
  if (at < 0 || !TAIL.test(marked.slice(at + 1 + MARK_CHARS))) return undefined
  const task = marked.slice(0, at)
  const mark = marked.slice(at + 1, at + 1 + MARK_CHARS)
  const { era } = about.client
  const isOver = (over: Era | undefined) => isSameMark(mark, markOf({ task, server, over }, target, about))
  if (isOver(undefined)) return { task, era }
  const other = era === "legacy" ? "modern" : "legacy"
  return isOver(other) ? { task, era: other } : undefined
}

/** Returns the id of the replica that created a task, from the task's id; undefined for a single svc and for any other value. */
export function replicaOfTask(marked: unknown): string | undefined {
  if (typeof marked !== "string") return undefined
  return replicaIn(marked.slice(marked.lastIndexOf(".") + 1 + MARK_CHARS))
}

/** Returns the replica that created the first task to which a client listens; undefined if there is none in a cluster. */
export function replicaOfListening({ notifications }: Params): string | undefined {
  const ids: unknown = isObject(notifications) ? notifications.taskIds : undefined
  return Array.isArray(ids) ? ids.map(replicaOfTask).find((replica) => replica !== undefined) : undefined
}

/** Returns the route of a client's task; undefined for another client's task and for an unknown one. */
export function routeOfTask(
  taskId: unknown,
  view: View,
  about: Pick<ClientCall, "gateway" | "client">,
): Route | undefined {
  const route = typeof taskId === "string" ? (view.task(taskId) ?? disconnectedTask(taskId, about)) : undefined
  if (route === undefined) return undefined
  const { gateway, client } = about
  const target = gateway.directory.target(route.id)
  const opened = openTaskId(route.name, route.id, target, about)
  if (opened === undefined) return undefined
  const { task, era } = opened
  const owner = gateway.tasks.owners.find("task", route.id, era, task)?.owner
  const isOwn = typeof target !== "string" && isOwnProcess(target.spec, client)
  return owner === undefined || owner === ownerOf(client) || isOwn ? { ...route, name: task, era } : undefined
}

// ---

type MarkedTask = {
  readonly task: string
  /** The id of the server. */
  readonly server: string
  /** The era of the connection, unless it is the client's. */
  readonly over: Era | undefined
}

function markOf({ task, server, over }: MarkedTask, target: Target | string, { gateway, client }: About): string {
  const process = processOf(target, client)
  const named = process === undefined || RANDOM_ID.test(task) ? [] : [process]
  const overs = over === undefined ? [] : ["over", over]
  return gateway.tasks.mark(...ownerTexts(client), server, task, ...named, ...overs)
}

/** What may follow the mark: nothing, or a replica. */
const TAIL = /^(?:r[0-9a-f]{8})?$/

/** A random UUID, which is never given twice. From: RFC 9562, UUID Version 4. */
const RANDOM_ID = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/i

/**
 * Returns the process with which a task of this client ends. Undefined for a remote server, for a session's own process, which has
 * no other client, and for a server that is not connected.
 */
function processOf(target: Target | string, client: Client): string | undefined {
  if (typeof target === "string" || target.spec.launch.transport !== "stdio") return undefined
  return isOwnProcess(target.spec, client) ? undefined : target.connection.generation
}

/** Whether a client has its own process of this server. A client that exists only for its request has none. */
export const isOwnProcess = ({ tuning }: Target["spec"], { owner }: Client): boolean =>
  owner !== undefined && tuning.isolation === "session"

/** Legacy tasks belong to their session, modern tasks to the principal, because modern clients have no session. */
const ownerTexts = ({ era, principal, id }: Client): readonly string[] =>
  id === undefined ? [era, principal] : [era, principal, id]

/** Returns the route to a server that is not connected, from the id of one of its tasks. */
function disconnectedTask(
  taskId: string,
  { gateway, client }: Pick<ClientCall, "gateway" | "client">,
): Route | undefined {
  const { scope } = client
  const split = scope.kind === "server" ? { slug: scope.id, name: taskId } : splitName(taskId)
  const id = split === undefined ? undefined : gateway.directory.disconnectedId(scope, split.slug)
  return id === undefined || split === undefined ? undefined : { id, ...split, mirrored: [] }
}
