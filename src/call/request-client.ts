/** Reads the client of a modern request from the request itself. basic: `_meta`. */
import { identityOf, type Scope } from "../catalog/scope.ts"
import { sha256 } from "../lib/digest.ts"
import { RPC_CODE } from "../lib/errors.ts"
import { canonical } from "../lib/json.ts"
import {
  isLogLevel,
  LEGACY_VERSIONS,
  META_CLIENT_CAPABILITIES,
  META_CLIENT_INFO,
  META_LOG_LEVEL,
  MODERN_VERSIONS,
  UNSUPPORTED_VERSION,
} from "../wire/era.ts"
import { isObject, metaOf, type Params } from "../wire/message.ts"
import type { Client } from "./client.ts"

export type Refusal = { readonly code: number; readonly message: string; readonly data?: unknown }

/** Returns the client, or why the request is refused. `session`: see Client. */
export function requestClient(
  version: string,
  params: Params,
  scope: Scope,
  principal: string,
  session: object,
): { readonly client: Client } | { readonly refusal: Refusal } {
  if (!(MODERN_VERSIONS as readonly string[]).includes(version)) {
    const data = { supported: [...MODERN_VERSIONS, ...LEGACY_VERSIONS], requested: version }
    return { refusal: { code: UNSUPPORTED_VERSION, message: "Unsupported protocol version", data } }
  }
  const meta = metaOf(params) ?? {}
  const capabilities = meta[META_CLIENT_CAPABILITIES]
  if (!isObject(capabilities))
    return {
      refusal: { code: RPC_CODE.invalidParams, message: `_meta must have ${META_CLIENT_CAPABILITIES} (an object)` },
    }
  const info = meta[META_CLIENT_INFO]
  const level = meta[META_LOG_LEVEL]
  if (level !== undefined && !isLogLevel(level))
    return { refusal: { code: RPC_CODE.invalidParams, message: `${META_LOG_LEVEL} must be a log level` } }
  return {
    client: {
      era: "modern",
      protocolVersion: version,
      info: isObject(info) ? info : {},
      capabilities,
      principal,
      session,
      scope,
      logLevel: level,
    },
  }
}

/**
 * Returns the text that identifies a client without a session. All its requests have the same view, `clientInfo`, `context` and
 * `holder`, which is the identity of their principal.
 */
export function identityOfClient({ scope, info }: Client, holder: string, context: unknown): string {
  const view = [identityOf(scope), scope.kind === "server" ? "" : scope.key]
  return sha256(canonical([holder, view, info, context ?? null]), "base64url")
}
