/**
 * REST: finds the endpoint of a request, checks login, query and body, and renders the answer. Imported at the first request
 * under `/api`, not at the start.
 *
 *  1. `/api/v1` shows and changes everything, so it requires an admin. With `--auth`, that is a token for all servers and svc's
 *     own tools (`svc:admin`), or a browser session made from one; otherwise a session of `svc admin` (features/rest/admin-login.ts).
 *  2. The views without a version show what `/mcp` shows the same client (views.ts).
 *  3. The login is checked before the body is read and before the path is looked up.
 *  4. Bodies are JSON within `--max-body`. Requests are limited by address, separately for those with a login, and for those of
 *     pages of other origins: no page can use up the limit of the people and programs on its machine.
 */

import type { Audit } from "../../call/ports.ts"
import type { Clock } from "../../lib/clock.ts"
import { codesOf, HTTP_STATUS, RequestError, UnavailableError } from "../../lib/errors.ts"
import { schemaProblem } from "../../lib/schema-problem.ts"
import { percentDecoded } from "../../lib/text.ts"
import { type CountShared, createAddressLimiter } from "../../serve/address-rate-limit.ts"
import { ADMIN_SCOPE } from "../../serve/challenge.ts"
import { isOfOtherPage } from "../../serve/host-check.ts"
import type { Inbound } from "../../serve/inbound.ts"
import { messagePage } from "../../serve/oauth-callback.ts"
import { readJson } from "../../serve/request-body.ts"
import { errorResponse, jsonResponse, shapeOf } from "../../serve/respond.ts"
import { type ApiRequest, closedAt } from "../../serve/server.ts"
import { isObject, type Params } from "../../wire/message.ts"
import { ACTIVITY_ENDPOINTS } from "./activity.ts"
import { type AdminLogin, type AdminSession, LOGIN_PATH, type NewSession } from "./admin-login.ts"
import { CallHistory } from "./call-counts.ts"
import { CONFIG_ENDPOINTS } from "./config.ts"
import type { Endpoint, EndpointCall, RestPorts } from "./endpoint.ts"
import type { IssuerLogin } from "./issuer-login.ts"
import { MACHINE_ENDPOINTS } from "./machine.ts"
import { CALL_PATH, OFFER_ENDPOINTS } from "./offers.ts"
import { openApiOf } from "./openapi.ts"
import { REGISTRY_ENDPOINTS } from "./registry.ts"
import { restError } from "./run-tool.ts"
import { SERVER_ENDPOINTS } from "./servers.ts"
import { SESSION_ENDPOINTS } from "./session.ts"
import { serveView } from "./views.ts"

export const ENDPOINTS: readonly Endpoint[] = [
  ...SERVER_ENDPOINTS,
  ...OFFER_ENDPOINTS,
  ...CONFIG_ENDPOINTS,
  ...REGISTRY_ENDPOINTS,
  ...ACTIVITY_ENDPOINTS,
  ...MACHINE_ENDPOINTS,
  ...SESSION_ENDPOINTS,
]

export type RestDeps = {
  readonly clock: Clock
  readonly login: AdminLogin
  /** Whether requests need client tokens (`--auth`), which the listener has already checked. */
  readonly auth: boolean
  /** Undefined without an issuer. */
  readonly issuerLogin: (() => Promise<IssuerLogin>) | undefined
  /** Undefined without `--audit-log`. */
  readonly audit: Audit | undefined
  /** The largest body, in bytes. */
  readonly maxBody: number
  /** Counts the logins of an address on all replicas; undefined for a single svc. */
  readonly countLogins: CountShared | undefined
  /** Returns the client's address. */
  addressOf(inbound: Inbound): string
  /** Undefined until the configuration has been read. */
  ports(): Promise<Omit<RestPorts, "history"> | undefined>
  watchCalls: RestPorts["watchCalls"]
  onbug(error: unknown): void
}

/** Returns the function that answers requests under `/api` and the link of `svc admin`. It never rejects. */
export function createRest(deps: RestDeps): (request: ApiRequest) => Promise<Response> {
  const limiter = createAddressLimiter(deps.clock, REST_LIMIT)
  const attempts = createAddressLimiter(deps.clock, LOGIN_LIMIT, deps.countLogins)
  const routes = ENDPOINTS.map((endpoint) => ({ endpoint, pattern: patternOf(endpoint.path) }))
  const history = new CallHistory(deps.clock)
  deps.watchCalls((call) => history.add(call))
  let openApi: Params | undefined
  let mask = (text: string) => text
  const serve = async (rest: ApiRequest): Promise<Response> => {
    const { inbound } = rest
    const { path, request } = inbound
    const address = deps.addressOf(inbound)
    const page = isOfOtherPage(request) ? "page" : ""
    const admission = path.startsWith(PREFIX) ? admit(inbound, deps) : undefined
    const isLoggedIn = admission !== undefined && !(admission instanceof RequestError)
    const { retryAfter } = limiter(address, isLoggedIn ? "login" : page)
    if (retryAfter !== undefined) throw new RequestError("too_many", "Too many requests", { retryAfter })
    if (path === LOGIN_PATH) {
      // Images and frames of a hostile page must not use up the following limit.
      const target = request.headers.get("sec-fetch-dest")
      if (target !== null && target !== "document")
        throw new RequestError("forbidden", "Open this address in a tab of a browser")
      if (attempts(address, page).retryAfter !== undefined)
        throw new RequestError("too_many", "Too many login attempts from this address; try again in a minute")
      return logIn(inbound, deps, mask)
    }
    const found = await deps.ports()
    mask = found?.mask ?? mask
    if (found === undefined) throw new UnavailableError("svc is still reading its configuration; try again in a moment")
    const ports = { ...found, history, streams: rest.streams }
    if (admission === undefined) return serveView(rest, ports, deps.maxBody)
    if (admission instanceof RequestError) throw admission
    const { until } = admission
    if (until !== undefined) ports.streams = closedAt(until, rest.streams, deps.clock)
    const local = path.slice(PREFIX.length)
    if (local === "/openapi.json" && request.method === "GET") {
      openApi ??= openApiOf(ENDPOINTS, ports.facts().version)
      return jsonResponse(openApi, undefined, PRIVATE)
    }
    const matching = routes.flatMap(({ endpoint, pattern }) => {
      const groups = pattern.exec(local)
      return groups === null ? [] : [{ endpoint, values: groups.slice(1) }]
    })
    // A literal path takes precedence over a parameter: `/presets/preview` is not a preset.
    const literal = matching.filter(({ endpoint }) => endpoint.path === local)
    const candidates = literal.length > 0 ? literal : matching
    if (candidates.length === 0)
      throw new RequestError("not_found", `There is no endpoint ${path.slice(0, 200)}; see ${PREFIX}/openapi.json`)
    const method = request.method === "HEAD" ? "GET" : request.method
    const match = candidates.find(({ endpoint }) => endpoint.method === method)
    if (match === undefined) {
      const allow = candidates.map(({ endpoint }) => endpoint.method).join(", ")
      return refuse(
        new RequestError("wrong_method", `Method not allowed; ${path.slice(0, 200)} supports ${allow}`),
        inbound,
        {
          allow,
        },
      )
    }
    return run(match.endpoint, match.values, rest, ports)
  }
  const run = async (
    endpoint: Endpoint,
    values: readonly string[],
    { inbound, onbody }: ApiRequest,
    ports: RestPorts,
  ): Promise<Response> => {
    const { request, search, principal } = inbound
    const names = [...endpoint.path.matchAll(/\{(\w+)\}/g)].map(([, name = ""]) => name)
    const params = Object.fromEntries(names.map((name, at) => [name, percentDecoded(values[at] ?? "")]))
    const query = check(endpoint.query, Object.fromEntries(new URLSearchParams(search)), "query")
    const body = endpoint.body === undefined ? {} : check(endpoint.body, await readBody(request, deps.maxBody), "body")
    onbody()
    const answer = await audited(endpoint, { ports, params, query, body, request, principal })
    if (answer instanceof Response) return answer
    const hash = hashIn(answer)
    return jsonResponse(answer, endpoint.created === true ? HTTP_STATUS.created : undefined, {
      ...PRIVATE,
      ...(endpoint.tagged === true && hash !== undefined ? { etag: `"${hash}"` } : {}),
    })
  }
  const refuse = (error: unknown, { path }: Inbound, headers?: Readonly<Record<string, string>>): Response =>
    errorResponse(error, {
      shape: shapeOf(path),
      headers,
      hide: mask,
      onbug: deps.onbug,
    })
  return async (rest) => {
    try {
      return await serve(rest)
    } catch (error) {
      return refuse(restError(error), rest.inbound)
    }
  }
}

// ---

const PREFIX = "/api/v1"
const LOGIN_LIMIT = { requests: 20, windowMs: 60_000 }
const REST_LIMIT = { requests: 3000, windowMs: 60_000 }
/** Headers that keep caches from storing answers, which only an admin may see. */
const PRIVATE = { "cache-control": "no-store", "x-content-type-options": "nosniff" }

/**
 * Returns when the login of an admin ends, `until` undefined if there is none beside the token; a RequestError for anyone else.
 */
function admit(
  { request, principal }: Inbound,
  { login, auth }: Pick<RestDeps, "login" | "auth">,
): { readonly until: number | undefined } | RequestError {
  if (auth) {
    // A browser's login may end before its token does.
    if (principal.admin && principal.tags === undefined) return { until: login.admit(request)?.until }
    return new RequestError(
      "forbidden",
      `This token may not manage svc; use a token without tags, or with the scope ${ADMIN_SCOPE}`,
      principal.scoped ? { scope: ADMIN_SCOPE } : undefined,
    )
  }
  let session: AdminSession | undefined
  try {
    session = login.admit(request)
  } catch (error) {
    if (error instanceof RequestError) return error
    throw error
  }
  if (session !== undefined) return session
  return new RequestError(
    "unauthorized",
    "Log in first: `svc admin` opens the page, and `svc admin --token` prints a token for the Authorization header",
  )
}

/** Answers the login address: the link of `svc admin`, or the redirects to the issuer and back. */
async function logIn(inbound: Inbound, deps: RestDeps, mask: (text: string) => string): Promise<Response> {
  const { request, search } = inbound
  const { login, auth, audit, issuerLogin, addressOf } = deps
  if (request.method !== "GET") throw new RequestError("wrong_method", "Open this address in a browser")
  const isPerson = /\btext\/html\b/.test(request.headers.get("accept") ?? "")
  const query = new URLSearchParams(search)
  const trace = (outcome: "ok" | "error") =>
    audit?.access("admin.login", outcome, { principal: auth ? "issuer" : "local", address: addressOf(inbound) })
  try {
    if (auth) {
      if (issuerLogin === undefined) throw new RequestError("not_found", "With --auth, the page asks for a token")
      const flow = await issuerLogin()
      if (!query.has("state")) return await flow.begin(request)
      const session = login.createSession(await flow.finish(request))
      trace("ok")
      return toPage(inbound, login, session)
    }
    const session = login.redeem(query.get("code") ?? "")
    if (session === undefined)
      throw new RequestError("forbidden", "This link was already used, or is older than 60 s; run `svc admin` again")
    trace("ok")
    return toPage(inbound, login, session)
  } catch (error) {
    if (query.has("code") || query.has("error")) trace("error")
    if (!isPerson || !(error instanceof RequestError || error instanceof UnavailableError)) throw error
    return messagePage(codesOf(error).http, "Not logged in", mask(error.message))
  }
}

/** Redirects to the page with the cookie of a session. The key of the session is in the fragment, which no server sees. */
const toPage = ({ request, slash }: Inbound, login: AdminLogin, session: NewSession): Response =>
  new Response(null, {
    status: HTTP_STATUS.seeOther,
    headers: {
      location: `${slash === "" ? "." : ".."}/#key=${session.csrf}`,
      "set-cookie": login.cookie(request, session),
      "referrer-policy": "no-referrer",
      "cache-control": "no-store",
    },
  })

/** Runs an endpoint, and audits changes. Tool calls are audited elsewhere, like the calls of other clients. */
async function audited(endpoint: Endpoint, call: EndpointCall): Promise<unknown> {
  const { ports, params, body, principal } = call
  const about = {
    name: params.name ?? body.name ?? body.serverName,
    arguments: endpoint.private === true ? {} : body,
  }
  const isChange = endpoint.method !== "GET" && endpoint.path !== CALL_PATH
  const operator = ports.auth ? principal.name : "local"
  const end = isChange ? ports.audit?.action(`rest ${endpoint.method} ${endpoint.path}`, about, operator) : undefined
  try {
    const answer = await endpoint.run(call)
    end?.("ok")
    return answer
  } catch (error) {
    end?.("error")
    throw error
  }
}

async function readBody(request: Request, limit: number): Promise<unknown> {
  const type = request.headers.get("content-type")
  const text = request.headers.get("content-length") === "0" || request.body === null ? undefined : type
  // A missing body counts as empty; the schema then reports missing members.
  if (text === undefined) return {}
  if (text === null || !/^application\/(?:merge-patch\+)?json\s*(;|$)/i.test(text))
    throw new RequestError("unsupported_media_type", "Content-Type must be application/json")
  return readJson(request, limit)
}

/** Returns a value, parsed by the schema. Throws a RequestError that names the wrong members, but no values. */
function check(schema: Endpoint["body"], value: unknown, what: "query" | "body"): Params {
  if (schema === undefined) return {}
  const parsed = schema.safeParse(value, { error: schemaProblem })
  if (parsed.success) return parsed.data
  const problems = parsed.error.issues.map(
    ({ path, message }) => `${path.length === 0 ? what : path.join(".")}: ${message}`,
  )
  throw new RequestError("invalid_params", problems.slice(0, MAX_PROBLEMS).join("; "))
}

const MAX_PROBLEMS = 20

const patternOf = (path: string): RegExp => new RegExp(`^${path.replace(/\{\w+\}/g, "([^/]+)")}$`)

/** Returns the hash in an answer, or in its written server. */
function hashIn(answer: unknown): string | undefined {
  if (!isObject(answer)) return undefined
  const hash = isObject(answer.written) ? answer.written.hash : answer.hash
  return typeof hash === "string" ? hash : undefined
}
