/** svc's own tools beside the tools of servers: who has them, and what a client lists. */
import type { View } from "../catalog/catalog.ts"
import { isObject, type Params } from "../wire/message.ts"
import type { Asked, Gateway, OwnTools, Viewer, Wrapping } from "./ports.ts"

type About = Pick<Gateway, "ownTools">

/** Returns svc's own tool of a name, if the client has it. */
export function ownToolOf(name: unknown, asked: Asked, view: View, { ownTools }: About): OwnTools | undefined {
  for (const own of ownTools) if (own.has(name, asked, view) === "offered") return own
  return undefined
}

/** Returns the entries of the tools that a client lists, as JSON texts: those of the servers and svc's own. */
export const listedTools = (client: Viewer, view: View, { ownTools }: About): readonly string[] =>
  ownTools.reduce((listed, own) => own.list(listed, client, view), view.entries("tools/list", client.era))

/** Returns the entries of svc's own tools that a client has and a search finds, as JSON texts. */
export const ownEntries = (client: Viewer, view: View, { ownTools }: About): readonly string[] =>
  ownTools.flatMap((own) => own.entries(client, view))

/** Returns the direct call inside a call; the call itself if there is none. */
export function unwrapped<C extends Wrapping>(call: C): C {
  for (const own of call.gateway.ownTools) {
    const inner = own.unwrap?.(call)
    if (inner !== undefined) return { ...call, ...inner }
  }
  return call
}

/** Returns the replica that has what a request needs; undefined if any replica can answer. */
export function replicaOfOwn(method: unknown, params: Params, { ownTools }: About): string | undefined {
  const inner = method === "tools/call" ? ownTools.map((own) => own.innerParams?.(params)).find(isObject) : undefined
  return ownTools.map((own) => own.replicaOf?.(method, inner ?? params)).find((replica) => replica !== undefined)
}

/** Returns a function that appends lists, and returns the same array for the same list: whole answers are kept by their arrays. */
export function appending(
  join: (listed: readonly string[]) => readonly string[],
): (listed: readonly string[]) => readonly string[] {
  const known = new WeakMap<readonly string[], readonly string[]>()
  return (listed) => {
    const found = known.get(listed) ?? join(listed)
    known.set(listed, found)
    return found
  }
}
