/**
 * The challenges with which svc refuses a token, and the scopes in them. Not in auth.ts, so that svc without `--auth` does
 * not load tokens. RFC 6750; RFC 9728.
 */
import { RequestError } from "../lib/errors.ts"
import type { Inbound } from "./inbound.ts"
import { errorResponse, shapeOf } from "./respond.ts"

export type ChallengeCode = "invalid_request" | "invalid_token" | "insufficient_scope"

/** Where the metadata of svc as a protected resource is. RFC 9728, 3. */
export const METADATA_PATH = "/.well-known/oauth-protected-resource"

/** Whether a text can be a scope. RFC 6749, 3.3. */
export const isScope = (text: string): boolean => /^[\x21\x23-\x5b\x5d-\x7e]{1,200}$/.test(text)

/** The prefix of the scope that grants the servers with a tag. */
export const TAG_SCOPE = "tag:"
/** Begins the scope that binds a token to a preset. */
export const PRESET_SCOPE = "preset:"

/** The scope that grants all servers, svc's own tools and REST. */
export const ADMIN_SCOPE = "svc:admin"

/** Refuses a token that lacks scopes, and names them. RFC 6750, 3.1. */
export function insufficientScope(
  scopes: readonly string[],
  { path, slash }: Pick<Inbound, "path" | "slash">,
  base: string,
): Response {
  const scope = scopes.join(" ")
  return errorResponse(new RequestError("forbidden", `The token needs the scope ${scope}`), {
    shape: shapeOf(path),
    headers: { "www-authenticate": challenge({ code: "insufficient_scope", scope }, path + slash, base) },
  })
}

/** Writes a challenge for a path as it was requested; `base` names the metadata, undefined if there is none. RFC 6750, 3; RFC 9728, 5.1. */
export function challenge(
  problem: { readonly code: ChallengeCode | undefined; readonly message?: string; readonly scope?: string },
  path: string,
  base: string | undefined,
): string {
  const { code, message, scope } = problem
  const parts = ['realm="svc"']
  if (code !== undefined) parts.push(`error="${code}"`)
  if (code !== undefined && message !== undefined) parts.push(`error_description="${quotable(message)}"`)
  if (scope !== undefined) parts.push(`scope="${scope}"`)
  if (base !== undefined) parts.push(`resource_metadata="${base}${METADATA_PATH}${resourceOf(path)}"`)
  return `Bearer ${parts.join(", ")}`
}

// ---

/** Replaces characters that are not allowed in an error_description. RFC 6750, 3. */
const quotable = (text: string): string => text.replace(/[^\x20\x21\x23-\x5b\x5d-\x7e]/g, "'")

/** Returns the path of the resource to which a path belongs; "" for svc as a whole. */
const resourceOf = (path: string): string => (/^\/(?:mcp|servers\/[\w.%~-]{1,200}\/mcp)\/*$/.test(path) ? path : "")
