/**
 * Server Cards and the AI Catalog: documents by which clients find svc's MCP addresses before they connect. From: Server
 * Card extension (SEP-2127), Discovery; AI Catalog, Catalog Entry.
 *
 *   /mcp/server-card                    the card of the aggregate; names no server
 *   /servers/<name>/mcp/server-card     the card of one server, for clients that may see the server
 *   /.well-known/ai-catalog.json        all cards; only with `--external-url`, under which svc is published
 *
 *  1. The card of the aggregate and the catalog need no token (`isPublicDocument`), so they show only what everyone may see: with
 *     `--auth`, the catalog contains only the card of the aggregate.
 *  2. With `--external-url`, pages of all origins may read these documents. Without it, the check of origins also applies to
 *     cards, so that a page cannot detect an svc on the machine of the browser.
 *  3. Addresses in a card begin with `--external-url`; without it, with the address of the request. Shared caches must not store
 *     such a card.
 */

import type { Agent } from "../agent/agent.ts"
import type { Backend } from "../backend/backend.ts"
import { digest } from "../lib/digest.ts"
import { HTTP_STATUS, RequestError } from "../lib/errors.ts"
import { percentDecoded } from "../lib/text.ts"
import { LEGACY_VERSIONS, MODERN_VERSIONS } from "../wire/era.ts"
import { isObject, type Params } from "../wire/message.ts"
import type { Inbound, Middleware } from "./inbound.ts"
import { mayEnter } from "./principal.ts"
import { errorResponse, noContent, shapeOf } from "./respond.ts"

export type ServerCardOptions = {
  readonly agent: Pick<Agent, "all" | "find" | "presets">
  readonly version: string
  /** The public address of svc, without a trailing slash; undefined if it has none. */
  readonly externalUrl: string | undefined
  /** How clients authenticate. */
  readonly auth: "none" | "token" | "issuer"
}

/** Whether a path's document is the same for all clients, with and without a token. */
export const isPublicDocument = (path: string): boolean => path === AGGREGATE_CARD || path === CATALOG

/** Returns middleware that answers the paths of cards and of the catalog. */
export function createServerCards(options: ServerCardOptions): Middleware {
  const { externalUrl } = options
  return (inbound, next) => {
    const { path, request } = inbound
    if (!path.endsWith(CARD) && path !== CATALOG) return next(inbound)
    const server = SERVER_CARD.exec(path)?.[1]
    const isCatalog = path === CATALOG && externalUrl !== undefined
    if (path !== AGGREGATE_CARD && server === undefined && !isCatalog) return next(inbound)
    const base = externalUrl ?? originOf(request)
    switch (request.method) {
      case "OPTIONS":
        return noContent(CORS)
      case "GET":
      case "HEAD":
        break
      default:
        return refuse(new RequestError("wrong_method", "Method not allowed"), path, { allow: "GET, HEAD, OPTIONS" })
    }
    if (isCatalog) return documentResponse(catalog(base, options), CATALOG_TYPE, PUBLIC, request)
    if (server === undefined)
      return documentResponse(aggregateCard(base, options), CARD_TYPE, externalUrl ? PUBLIC : UNSHARED, request)
    const backend = findServer(server, inbound, options)
    if (backend === undefined) return refuse(new RequestError("not_found", NO_SERVER), path)
    // The version of a server that is not connected is not known yet.
    const isLasting = externalUrl !== undefined && options.auth === "none" && backend.listing !== undefined
    const caching = isLasting ? PUBLIC : UNSHARED
    return documentResponse(serverCard(base, backend, options), CARD_TYPE, caching, request)
  }
}

// ---

/** Discovery: Hosted Server Card Location. */
const CARD = "/server-card"
const AGGREGATE_CARD = `/mcp${CARD}`
const CATALOG = "/.well-known/ai-catalog.json"
const SERVER_CARD = /^\/servers\/([^/]+)\/mcp\/server-card$/
const CARD_TYPE = "application/mcp-server-card+json"
const CATALOG_TYPE = "application/ai-catalog+json"
const SCHEMA = "https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json"
const NO_SERVER = "There is no server of this name"

/** Discovery: CORS Requirements. */
const CORS = {
  "access-control-allow-origin": "*",
  "access-control-allow-methods": "GET",
  "access-control-allow-headers": "Content-Type, If-None-Match",
  "access-control-expose-headers": "ETag",
}
/** Discovery: Caching. */
const PUBLIC = "public, max-age=3600"
const UNSHARED = "private, no-cache"

/** The most characters of a title and of a description. schema: ServerCard. */
const MAX_TEXT = 100
const MAX_VERSION = 255
const MAX_NAME = 100
const MAX_ICONS = 10

const refuse = (error: RequestError, path: string, headers?: Readonly<Record<string, string>>): Response =>
  errorResponse(error, { shape: shapeOf(path), headers })

/** Renders a document; answers 304 to a client that already has it. Discovery: Caching. */
function documentResponse(document: Params, type: string, caching: string, request: Request): Response {
  const body = JSON.stringify(document)
  const etag = `"${digest(body, 32)}"`
  const headers = { ...CORS, "content-type": type, "cache-control": caching, etag }
  const known = request.headers.get("if-none-match")?.split(",") ?? []
  return known.some((tag) => ["*", etag].includes(tag.trim().replace(/^W\//, "")))
    ? new Response(null, { status: HTTP_STATUS.notModified, headers })
    : new Response(body, { headers })
}

/** Returns the server of a path; undefined if there is none that the client may see. Template instances have no address. */
function findServer(encoded: string, { principal }: Inbound, { agent }: ServerCardOptions): Backend | undefined {
  const name = percentDecoded(encoded)
  const backend = agent.find(name).find(({ spec }) => spec.id === spec.name)
  return backend !== undefined && mayEnter(principal, backend.spec, agent.presets) ? backend : undefined
}

const cardOf = (base: string, path: string, name: string, about: Params, options: ServerCardOptions): Params => ({
  $schema: SCHEMA,
  name: `${namespaceOf(base)}/${nameIn(name)}`,
  ...about,
  remotes: [
    {
      type: "streamable-http",
      url: `${base}${path}`,
      ...(options.auth === "token" ? { headers: [TOKEN_HEADER] } : {}),
      supportedProtocolVersions: [...MODERN_VERSIONS, ...LEGACY_VERSIONS],
    },
  ],
})

/** The header of static tokens. With an issuer, a client learns from the first 401 how to obtain a token. */
const TOKEN_HEADER = {
  name: "Authorization",
  description: "Bearer token of this svc",
  isRequired: true,
  isSecret: true,
  value: "Bearer {token}",
  variables: { token: { description: "A token made with `svc auth token create`", isRequired: true, isSecret: true } },
}

const aggregateCard = (base: string, options: ServerCardOptions): Params =>
  cardOf(
    base,
    "/mcp",
    "svc",
    { version: options.version, description: "All MCP servers of this svc at one address", title: "svc" },
    options,
  )

/** Describes a server with the facts that it states itself at `initialize`. */
function serverCard(base: string, { spec, listing }: Backend, options: ServerCardOptions): Params {
  const info = listing?.serverInfo ?? {}
  const { description, websiteUrl, icons } = info
  const text = (value: unknown, max: number) =>
    typeof value === "string" && value !== "" ? value.slice(0, max) : undefined
  const about = {
    version: text(info.version, MAX_VERSION) ?? "unknown",
    description: text(description, MAX_TEXT) ?? `The MCP server ${spec.name} of this svc`.slice(0, MAX_TEXT),
    title: text(info.title, MAX_TEXT) ?? text(info.name, MAX_TEXT) ?? spec.name.slice(0, MAX_TEXT),
    ...(typeof websiteUrl === "string" && /^https?:/.test(websiteUrl) ? { websiteUrl } : {}),
    ...(Array.isArray(icons)
      ? { icons: icons.filter((icon) => isObject(icon) && typeof icon.src === "string").slice(0, MAX_ICONS) }
      : {}),
  }
  return cardOf(base, pathOf(spec.name), `svc.${spec.name}`, about, options)
}

/** Lists the aggregate and, if svc is open to all, each server. AI Catalog: Catalog Entry. */
function catalog(base: string, { agent, auth }: ServerCardOptions): Params {
  const entry = (name: string, path: string) => ({
    identifier: `urn:air:${new URL(base).hostname}:mcp:${nameIn(name)}`,
    type: CARD_TYPE,
    url: `${base}${path}${CARD}`,
  })
  const servers = agent.all().filter(({ spec }) => auth === "none" && spec.id === spec.name)
  return {
    specVersion: "1.0",
    entries: [entry("svc", "/mcp"), ...servers.map(({ spec }) => entry(`svc.${spec.name}`, pathOf(spec.name)))],
  }
}

const pathOf = (name: string): string => `/servers/${encodeURIComponent(name)}/mcp`

/** Returns a server's name with only the characters that a card allows. schema: ServerCard. */
const nameIn = (name: string): string => name.replace(/[^a-zA-Z0-9._-]/g, "-").slice(0, MAX_NAME)

/** Returns the namespace of cards: the host name in reverse order, or an IP address as it is. */
function namespaceOf(base: string): string {
  const { hostname } = new URL(base)
  const isName = !/^[\d.]+$|^\[/.test(hostname)
  const namespace = isName ? hostname.split(".").reverse().join(".") : hostname
  return namespace.replace(/[^a-zA-Z0-9.-]/g, "-").slice(0, MAX_NAME)
}

/** Returns the origin to which a request was sent; HTTP/1.0 requests need not name it. */
const originOf = ({ url }: Request): string => (URL.canParse(url) ? new URL(url).origin : "http://localhost")
