/**
 * The Skills extension on `/mcp`: `skills/list` merges the lists of all servers, `skills/get` and `resources/directory/read`
 * go to the server that the URI names. The address of one server relays all three as they are. extension: Skills.
 *
 *  1. svc does not cache skills, but requests them each time: there is no notification of changed skills, and a client lists again
 *     when a digest no longer matches.
 *  2. svc changes only URIs: a client verifies digests, sizes and frontmatter.
 *  3. A server that fails or is slow is left out, because a listing may be partial; the list then has no time to live.
 */

import { type Answer, resultAnswer } from "../call/answer.ts"
import { Cancellation } from "../call/cancellation.ts"
import type { Exchange } from "../call/client.ts"
import type { ClientCall } from "../call/ports.ts"
import { whenConnected } from "../call/ready.ts"
import { leastHint, listResult, type Route, type View } from "../catalog/catalog.ts"
import type { CacheHint, ListingEntry } from "../catalog/listing.ts"
import { splitUri } from "../catalog/name.ts"
import { pageOf } from "../catalog/pagination.ts"
import { shapeAllows } from "../catalog/view-rules.ts"
import { isBug, RequestError } from "../lib/errors.ts"
import { numberOf } from "../lib/json.ts"
import { SKILLS_EXTENSION } from "../wire/era.ts"
import { parseRelayed } from "../wire/frame.ts"
import { isObject, metaOf, type Params, type Request } from "../wire/message.ts"
import { relay, unknownName } from "./relay.ts"

/** Returns the skills capability of the aggregate, from the capabilities of all servers; undefined if no server has skills. */
export function unitedSkills(all: readonly ListingEntry[]): Params | undefined {
  const settings = all.map(skillsOf).filter((one) => one !== undefined)
  if (settings.length === 0) return undefined
  return settings.some(({ directoryRead }) => directoryRead === true) ? { directoryRead: true } : {}
}

/** Answers `skills/list` with the skills of all servers, in the order of the servers and in svc's own pages. */
export async function listSkills(call: ClientCall, view: View): Promise<Answer> {
  const { request, client, gateway } = call
  const withSkills = view.parts.filter(({ listing }) => skillsOf(listing.capabilities) !== undefined)
  const lists = await Promise.all(withSkills.map(({ spec }) => listOf(spec.id, spec.slug, call)))
  const all = lists.flatMap(({ skills }) => skills)
  const { entries, nextCursor } = pageOf(all, "skills/list", gateway.limits.pageSize, request.params?.cursor)
  const hint = leastHint(lists.flatMap(({ hints }) => hints))
  return resultAnswer(request.id, listResult("skills/list", entries, client.era, { hint, nextCursor }))
}

/** Throws a RequestError for a URI of a connected server that has not declared the method. */
export function refuseWithoutSkills({ request: { method, params } }: ClientCall, view: View, { id }: Route): void {
  const part = view.parts.find(({ spec }) => spec.id === id)
  if (part === undefined) return
  const settings = skillsOf(part.listing.capabilities)
  if (method === "skills/get" && settings === undefined) throw unknownName("skill", params?.uri, undefined)
  if (method !== "skills/get" && settings?.directoryRead !== true)
    throw unknownName("directory", params?.uri, undefined)
}

// ---

/** The time limit for all pages of one server's list. */
const LIST_MS = 10_000
/** The most pages of one server's list. */
const MAX_PAGES = 100

/** The skills of one server as JSON texts, and the cache hint of each page; undefined for a missing page. */
type SkillList = { readonly skills: readonly string[]; readonly hints: readonly (CacheHint | undefined)[] }

const skillsOf = ({ extensions }: ListingEntry): Params | undefined => {
  const settings = isObject(extensions) ? extensions[SKILLS_EXTENSION] : undefined
  return isObject(settings) ? settings : undefined
}

/** Requests all pages of a server's list, until the client cancels or the time limit is reached. */
async function listOf(id: string, slug: string, call: ClientCall): Promise<SkillList> {
  await whenConnected(id, call)
  const target = call.gateway.directory.target(id)
  if (typeof target === "string") return { skills: [], hints: [undefined] }
  const cancellation = new Cancellation()
  const cancel = (reason: string) => cancellation.cancel(reason)
  call.exchange.cancellation.onabort(cancel)
  const stop = target.connection.clock.after(LIST_MS, () => cancel("took too long"))
  try {
    return await pagesOf({ id, slug, name: "", mirrored: [] }, { ...call, exchange: listingExchange(cancellation) })
  } finally {
    stop()
    call.exchange.cancellation.offabort(cancel)
  }
}

async function pagesOf(route: Route, call: ClientCall): Promise<SkillList> {
  const { shape } = call.client.scope
  const { spec } =
    call.gateway.directory.catalogOf(call.client.session).parts.find((part) => part.spec.id === route.id) ?? {}
  // The relay has qualified the URIs of the skills.
  const isAllowed = (uri: string) =>
    shape === undefined ||
    (spec !== undefined && shapeAllows(shape, spec, { kind: "resource", name: splitUri(uri)?.uri ?? uri }))
  const skills: string[] = []
  const hints: (CacheHint | undefined)[] = []
  // Removes the client's progress token, because several servers would report progress with it.
  const { progressToken: _token, ...meta } = metaOf(call.request.params) ?? {}
  const first: Params = call.request.params?._meta === undefined ? {} : { _meta: meta }
  let cursor: string | undefined
  for (let page = 0; page < MAX_PAGES; page++) {
    const result = await pageAt(cursor === undefined ? first : { ...first, cursor }, route, call)
    hints.push(result && hintOf(result))
    if (!Array.isArray(result?.skills)) break
    for (const skill of result.skills)
      if (isObject(skill) && typeof skill.uri === "string" && isAllowed(skill.uri)) skills.push(JSON.stringify(skill))
    if (typeof result.nextCursor !== "string" || result.nextCursor === cursor) break
    cursor = result.nextCursor
  }
  return { skills, hints }
}

/** Returns the result of one page; undefined if the server fails or sends a request to the client. */
async function pageAt(params: Params, route: Route, call: ClientCall): Promise<Params | undefined> {
  const request: Request = { jsonrpc: "2.0", id: 0, method: call.request.method }
  try {
    // To the process that all clients share, and without the stages: svc asks for itself.
    const target = call.gateway.directory.target(route.id, call.client.era)
    const { frame, outcome } = await relay({ ...call, request }, { target, route, params })
    const message: unknown = outcome === "ok" ? parseRelayed(frame) : undefined
    return isObject(message) && isObject(message.result) ? message.result : undefined
  } catch (error) {
    if (isBug(error)) throw error
    return undefined
  }
}

const hintOf = ({ ttlMs, cacheScope }: Params): CacheHint => ({
  ttlMs: Math.min(Math.max(0, Math.floor(numberOf(ttlMs) ?? 0)), Number.MAX_SAFE_INTEGER),
  cacheScope: cacheScope === "public" ? "public" : "private",
})

/** Returns an exchange that sends no server requests and drops notifications, which are not for the client. */
const listingExchange = (cancellation: Cancellation): Exchange => ({
  cancellation,
  notify: () => undefined,
  ask: () => Promise.reject(new RequestError("invalid_request", "svc passes on no requests during skills/list")),
})
