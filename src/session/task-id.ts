/**
 * Ids of tasks as clients know them: the server's name if the address has several, the server's own id, and a mark of svc's
 * that binds both to their owner. Clients share a server that cannot tell them apart, so the id itself proves the owner: it
 * needs no table, survives a restart, and makes another client's or an invented id unknown.
 *
 *   files_svc_<the server's id>.<mark>    on /mcp and /sse
 *             <the server's id>.<mark>    on /servers/files/mcp
 */
import { type Names, qualifiedNames } from "../catalog/rewrite.ts"
import type { ServerSpec } from "../config/server-spec.ts"
import { isSameMark } from "../lib/seal.ts"
import type { Client } from "./client.ts"
import type { ClientCall } from "./ports.ts"

type About = Pick<ClientCall, "gateway" | "client">

/** Returns the names under which a client knows a server's URIs and tasks. */
export function namesFor({ id, slug }: ServerSpec, about: About): Names {
  const mark = (task: string) => `${task}.${markOf(task, id, about)}`
  return about.client.scope.kind === "aggregate" ? qualifiedNames(slug, mark) : { uri: (uri) => uri, task: mark }
}

/** Returns the server's own id of a task id without the server's name; undefined for one that is not this client's. */
export function openTaskId(marked: string, server: string, about: About): string | undefined {
  const at = marked.lastIndexOf(".")
  const task = marked.slice(0, Math.max(0, at))
  return at >= 0 && isSameMark(marked.slice(at + 1), markOf(task, server, about)) ? task : undefined
}

// ---

const markOf = (task: string, server: string, { gateway, client }: About): string =>
  gateway.tasks.mark(...ownerTexts(client), server, task)

/** Legacy tasks belong to their session, modern tasks to the principal, because modern clients have no session. */
const ownerTexts = ({ era, principal, id }: Client): readonly string[] =>
  id === undefined ? [era, principal] : [era, principal, id]
