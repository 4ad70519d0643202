/**
 * Who may come in. Static tokens and, as an OAuth 2.1 resource server, the access tokens of an issuer; each client sees the
 * servers whose tags its token names. choice: Inbound, `--auth`.
 */
import { messageOf } from "../lib/errors.ts"
import { type ClientToken, findToken } from "../store/client-tokens.ts"
import { errorText } from "../wire/message.ts"
import { ANONYMOUS, type Principal } from "./principal.ts"
import { JSON_HEADERS } from "./respond.ts"
import type { Issuer, TokenClaims } from "./token-issuer.ts"

/** A principal, or the refusal. */
export type Admission = Principal | Response
export type Admit = (request: Request, path: string) => Admission | Promise<Admission>

export type AuthOptions = {
  /** Static tokens as they are at this moment. */
  tokens(): ReadonlyMap<string, ClientToken>
  readonly issuer: Issuer | undefined
  /** A server with tags needs the scope of one; else any of the issuer's tokens opens all. */
  readonly byScope: boolean
  now(): number
  /** The address svc is reached under, without a slash at its end. */
  base(): string
  /** `/health/mcp` and `/metrics` tell more than counts. */
  readonly detailed: boolean
  onbug(error: unknown): void
}

export function createAuth({ tokens, issuer, byScope, now, base, detailed, onbug }: AuthOptions): Admit {
  const refuse = (status: 400 | 401 | 503, path: string, code: string | undefined, message: string): Response => {
    const challenge = [
      'realm="svc"',
      ...(code === undefined ? [] : [`error="${code}"`, `error_description="${message}"`]),
      ...(issuer === undefined ? [] : [`resource_metadata="${base()}${METADATA_PATH}${suffixOf(path)}"`]),
    ]
    const headers: Record<string, string> = { ...JSON_HEADERS, "cache-control": "no-store" }
    if (status !== 503) headers["www-authenticate"] = `Bearer ${challenge.join(", ")}`
    else headers["retry-after"] = "5"
    return new Response(errorText(undefined, -32600, message), { status, headers })
  }
  // Hashes are compared in constant time once; a token that was good is good until the tokens are others.
  const good = new Map<string, Principal>()
  let among = tokens()
  const known = (text: string): Principal | undefined => {
    const current = tokens()
    if (current !== among) good.clear()
    among = current
    const found = good.get(text)
    if (found !== undefined && (found.until === undefined || now() < found.until)) return found
    const token = findToken(text, current, now())
    if (token === undefined) return undefined
    const { id, tags, expires } = token
    const principal: Principal = {
      name: `token ${id}`,
      tags,
      untagged: false,
      admin: tags === undefined,
      scoped: false,
      until: expires === undefined ? undefined : Date.parse(expires),
    }
    if (good.size >= MAX_GOOD) good.clear()
    good.set(text, principal)
    return principal
  }
  return (request, path) => {
    if (!needsAuth(path, detailed)) return ANONYMOUS
    if (request.url.includes("?") && TOKEN_IN_QUERY.test(request.url))
      return refuse(
        400,
        path,
        "invalid_request",
        "A token in the address is refused: it would be in logs and histories",
      )
    const header = request.headers.get("authorization")
    const text = header === null ? undefined : /^Bearer +([\w.~+/=-]{1,8192})$/i.exec(header)?.[1]
    if (text === undefined) {
      return header === null
        ? refuse(401, path, undefined, "A bearer token is needed")
        : refuse(401, path, "invalid_token", "Authorization must be Bearer and a token")
    }
    const principal = known(text)
    if (principal !== undefined) return principal
    if (issuer === undefined || text.startsWith("svc_"))
      return refuse(401, path, "invalid_token", "The token is unknown, expired or revoked")
    return issuer.verify(text, base(), path).then(
      (verdict) => {
        if (verdict.kind === "valid") return principalOf(verdict.claims, issuer.url, byScope)
        return verdict.kind === "invalid"
          ? refuse(401, path, "invalid_token", verdict.reason)
          : refuse(503, path, undefined, "The issuer of tokens cannot be reached; try again later")
      },
      (error: unknown) => {
        onbug(error)
        return refuse(401, path, "invalid_token", `The token cannot be read: ${messageOf(error).slice(0, 100)}`)
      },
    )
  }
}

/** The refusal for a token that would need more scopes. RFC 6750, 3.1. */
export function insufficient(scopes: readonly string[], path: string, base: string): Response {
  const message = `The token needs the scope ${scopes.join(" ")}`
  return new Response(errorText(undefined, -32600, message), {
    status: 403,
    headers: {
      ...JSON_HEADERS,
      "www-authenticate": `Bearer realm="svc", error="insufficient_scope", scope="${scopes.join(" ")}", resource_metadata="${base}${METADATA_PATH}${suffixOf(path)}"`,
    },
  })
}

/**
 * RFC 9728: what a client must know to get a token. Undefined for other paths. Clients ask for all scopes that are named
 * here: those that the issuer does not know would make it refuse.
 */
export function describeResource(
  path: string,
  base: string,
  { url: issuer, scopes: offered }: Pick<Issuer, "url" | "scopes">,
  tags: readonly string[],
): Response | undefined {
  if (path !== METADATA_PATH && !path.startsWith(`${METADATA_PATH}/`)) return undefined
  const suffix = path.slice(METADATA_PATH.length)
  const scopes = tags.map((tag) => `${TAG_SCOPE}${tag}`).filter((scope) => offered.includes(scope))
  return Response.json(
    {
      resource: `${base}${suffix}`,
      authorization_servers: [issuer],
      ...(scopes.length === 0 ? {} : { scopes_supported: scopes }),
      bearer_methods_supported: ["header"],
      resource_name: "svc",
    },
    { headers: { "access-control-allow-origin": "*", "cache-control": "max-age=300" } },
  )
}

/** Whether a text can be a scope at all. RFC 6749, 3.3. */
export const isScope = (text: string): boolean => /^[\x21\x23-\x5b\x5d-\x7e]{1,200}$/.test(text)

export const TAG_SCOPE = "tag:"
const ADMIN_SCOPE = "svc:admin"

// ---

const METADATA_PATH = "/.well-known/oauth-protected-resource"
const MAX_GOOD = 1000
const TOKEN_IN_QUERY = /[?&](?:access_token|token|bearer|authorization)=/i

/** choice: /health, /health/live and /health/ready never need it; /health/mcp and /metrics where they tell more. */
function needsAuth(path: string, detailed: boolean): boolean {
  if (path === "/health" || path === "/health/live" || path === "/health/ready") return false
  if (path.startsWith("/health/mcp")) return detailed
  return !path.startsWith("/.well-known/") && !path.startsWith("/oauth/")
}

/** Which resource of ours a path belongs to. */
const suffixOf = (path: string): string => (/^\/(?:mcp|servers\/[\w.%~-]{1,200}\/mcp)$/.test(path) ? path : "")

/** More scopes never show less: a client chooses itself which it asks for. */
function principalOf({ holder, scopes, until }: TokenClaims, issuer: string, byScope: boolean): Principal {
  const admin = scopes.includes(ADMIN_SCOPE)
  const tags = scopes.flatMap((scope) => (scope.startsWith(TAG_SCOPE) ? [scope.slice(TAG_SCOPE.length)] : []))
  return {
    name: `${holder.kind} ${holder.id} of ${issuer.replace(/\/$/, "")}`,
    tags: admin || !byScope ? undefined : tags,
    untagged: true,
    admin,
    scoped: true,
    until,
  }
}
