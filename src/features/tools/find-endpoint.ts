/**
 * Finds the MCP endpoint for an address that a person gives, such as the name of a host: from the Server Card at the address, or
 * from the cards that the AI Catalog of its host lists. From: Server Card extension (SEP-2127), Client Discovery Flow.
 *
 *  1. svc uses an address unchanged, without a request, if its path ends with `mcp` or `sse` or it refers to a variable. It also
 *     uses an address unchanged if that answers MCP, without waiting for cards.
 *  2. svc sends no credentials, and waits REQUEST_MS for the catalog and as long for the cards that it lists.
 *  3. A host may name cards and endpoints of other hosts, within the rules of backend/ssrf.ts.
 *  4. A card is only a claim of its host: the caller shows the person what was found.
 */
import { mediaType } from "../../backend/http.ts"
import { type BoundedFetch, boundedFetch, createSsrfGuard } from "../../backend/ssrf.ts"
import { urlOfHost } from "../../lib/address.ts"
import { usageError } from "../../lib/command-line.ts"
import { messageOf, RequestError } from "../../lib/errors.ts"
import { visible } from "../../lib/log.ts"
import { META_CLIENT_CAPABILITIES, META_VERSION, MODERN_VERSION } from "../../wire/era.ts"
import { isObject, type Params } from "../../wire/message.ts"
import { type RegistryEntry, readEntry } from "../registry/entry.ts"
import { type InputValues, type Installable, planInstall } from "../registry/install-plan.ts"

/** A card with at least one remote. */
export type FoundServer = {
  readonly card: RegistryEntry
  /** The address that the person gave. */
  readonly address: string
  /** The address of the card, or of the catalog that contains it. */
  readonly from: string
}

type Fetch = (url: string, init: RequestInit) => Promise<Response>

/**
 * Returns the only server that is found for `text`, or the address to connect to if `text` is already an endpoint or nothing is
 * found. Rejects with a RequestError that lists the servers if there are several, and for a host without any.
 */
export async function findServer(text: string, fetch: Fetch): Promise<FoundServer | string> {
  if (/[$\s]|\{\{/.test(text)) return text
  const host = urlOfHost(text)
  const url = host ?? URL.parse(text)
  if (url === null || !/^https?:$/.test(url.protocol)) return text
  if (ENDPOINT.test(url.pathname)) return host?.href ?? text
  const ask = boundedFetch(fetch, url.href, REQUEST_MS)
  const cards = Promise.all([cardsAt(cardUrl(url), ask), cardsIn(url, ask)])
  const found = await Promise.race([cards, answersMcp(url, ask).then((answers) => (answers ? undefined : cards))])
  if (found === undefined) return host?.href ?? text
  const servers = unique(found.flat().map((one) => ({ ...one, address: url.href })))
  const [only, ...others] = servers
  if (only !== undefined && others.length === 0) return only
  if (only !== undefined)
    throw new RequestError(
      "invalid_params",
      `${url.host} names several MCP servers; give the URL of one of them:\n${servers.map(lineOf).join("\n")}`,
    )
  if (host === undefined) return text
  throw new RequestError(
    "invalid_params",
    `no MCP server was found at ${url.href}; give the whole URL of its MCP endpoint, such as ${url.origin}/mcp`,
  )
}

/**
 * Plans the connection to a found server. Throws a RequestError for an endpoint to which svc must not connect, and for headers
 * that a server may not set.
 */
export function planFound({ card, address }: FoundServer, values: InputValues): Installable {
  const plan = planInstall(card, values, "remote")
  if ("reason" in plan) throw new RequestError("invalid_params", `${card.name} cannot be used: ${plan.reason}`)
  if (plan.missing.length > 0) return plan
  const endpoint = URL.parse(String(plan.server.url).replaceAll("$$", "$"))
  try {
    if (endpoint === null) throw new Error("it names no valid address")
    createSsrfGuard(address)(endpoint)
  } catch (error) {
    throw new RequestError("invalid_params", `the server card ${card.name} is refused: ${messageOf(error)}`)
  }
  return plan
}

/**
 * Returns the server that a host or page at an address names, and reports it; the address to connect to if it names none. A header in
 * `given` replaces the card's, in any letter case.
 */
export async function findRemote(
  url: string,
  given: Params,
  fetch: Fetch,
  note: (text: string) => void,
): Promise<Params | string> {
  const found = await findServer(url, fetch)
  if (typeof found === "string") return found
  const names = new Set(Object.keys(given).map((name) => name.toLowerCase()))
  const remotes = found.card.remotes.map((remote) => ({
    ...remote,
    headers: remote.headers.filter(({ name }) => !names.has(name.toLowerCase())),
  }))
  const { server, missing } = planFound({ ...found, card: { ...found.card, remotes } }, {})
  if (missing.length > 0)
    throw usageError(
      `${describeFound(found)} needs ${missing.map(({ name }) => name).join(", ")}; \`svc mcp install NAME --url ${url}\` asks for it`,
    )
  note(`found ${describeFound(found)}: ${describeEndpoint(server)}`)
  return server
}

/** Describes a found server in one line. */
const describeFound = ({ card, from }: FoundServer): string =>
  `${visible(card.title ?? card.name)} (${card.name}) by the server card at ${visible(from)}`

/** Describes the connection to a found server: its endpoint, and each header with its value, as svc sends them. */
export function describeEndpoint({ url, headers }: Params): string {
  const fields = isObject(headers) ? Object.entries(headers) : []
  const sent = (value: unknown) => visible(String(value).replaceAll("$$", "$"))
  return [sent(url), ...fields.map(([name, value]) => `  with the header ${visible(name)}: ${sent(value)}`)].join("\n")
}

// ---

/** Milliseconds for one round of requests. */
const REQUEST_MS = 3000
const MAX_CARDS = 20
const CARD_TYPE = "application/mcp-server-card+json"
const CATALOG = "/.well-known/ai-catalog.json"
const ENDPOINT = /\/(?:mcp|sse)\/?$/

type Located = Pick<FoundServer, "card" | "from">

/** Returns the URL of an address's card. Discovery: Hosted Server Card Location. */
function cardUrl({ origin, pathname }: URL): string {
  if (pathname.endsWith("/server-card")) return `${origin}${pathname}`
  return `${origin}${pathname === "/" ? "/mcp" : pathname.replace(/\/$/, "")}/server-card`
}

/** Returns the JSON at an address; undefined if there is none, or svc must not request it. */
async function jsonAt(url: string, accept: string, ask: BoundedFetch): Promise<unknown> {
  try {
    const response = await ask(url, { headers: { accept } })
    return response.ok ? await response.json() : undefined
  } catch {
    return undefined
  }
}

async function cardsAt(url: string, ask: BoundedFetch): Promise<readonly Located[]> {
  return located(await jsonAt(url, `${CARD_TYPE}, application/json;q=0.5`, ask), url)
}

function located(value: unknown, from: string): readonly Located[] {
  const card = readEntry(value, from)
  return card === undefined || card.remotes.length === 0 ? [] : [{ card: { ...card, packages: [] }, from }]
}

/** Returns the cards of a host's catalog, linked or inline. AI Catalog: Catalog Entry. */
async function cardsIn({ origin }: URL, ask: BoundedFetch): Promise<readonly Located[]> {
  const url = `${origin}${CATALOG}`
  const catalog = await jsonAt(url, "application/ai-catalog+json, application/json;q=0.5", ask)
  const entries: readonly unknown[] = isObject(catalog) && Array.isArray(catalog.entries) ? catalog.entries : []
  const cards = entries.filter(isObject).filter(({ type }) => type === CARD_TYPE)
  const found = cards.slice(0, MAX_CARDS).map((entry) => {
    const target = typeof entry.url === "string" ? URL.parse(entry.url, url) : null
    return target === null ? located(entry.data, url) : cardsAt(target.href, ask)
  })
  return (await Promise.all(found)).flat()
}

/** Whether an address answers MCP or requires a token, as an endpoint of either era does. */
async function answersMcp(url: URL, ask: BoundedFetch): Promise<boolean> {
  const _meta = { [META_VERSION]: MODERN_VERSION, [META_CLIENT_CAPABILITIES]: {} }
  try {
    const response = await ask(url, {
      method: "POST",
      headers: {
        "content-type": "application/json",
        accept: "application/json, text/event-stream",
        "mcp-protocol-version": MODERN_VERSION,
        "mcp-method": "server/discover",
      },
      body: JSON.stringify({ jsonrpc: "2.0", id: 1, method: "server/discover", params: { _meta } }),
    })
    const type = mediaType(response)
    if (response.status === 401 || type === "text/event-stream") return true
    const answer: unknown = type.includes("json") ? await response.json() : undefined
    return isObject(answer) && answer.jsonrpc === "2.0"
  } catch {
    return false
  }
}

/** Drops cards that name the same endpoint: a host may both serve a card and list it. */
function unique(servers: readonly FoundServer[]): readonly FoundServer[] {
  const seen = new Set<string>()
  return servers.filter(({ card }) => {
    const endpoint = String(card.remotes[0]?.url)
    return !seen.has(endpoint) && seen.add(endpoint)
  })
}

const lineOf = ({ card }: FoundServer): string =>
  `  ${visible(String(card.remotes[0]?.url))}  ${visible(card.title ?? card.name)}`
