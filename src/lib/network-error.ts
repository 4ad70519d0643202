/** Describes failed connections for people: the host, and the cause. */
import { messageOf } from "./errors.ts"

/** The proxy of an address cannot be reached. It has the code of the cause. */
export class ProxyUnreachableError extends Error {
  readonly code: string | undefined
  constructor(
    /** The proxy's address without credentials. */
    readonly proxy: string,
    cause: unknown,
  ) {
    super(messageOf(cause), { cause })
    this.code = codeOf(cause)
  }
}

/**
 * Returns why a request to an address got no response, such as `cannot reach mcp.example.com (no such host)`. Names the host
 * alone: paths, queries and user names of an address may be secret.
 */
export function networkReason(url: string, cause: unknown): string {
  const { host, hostname, port, protocol } = new URL(url)
  if (cause instanceof ProxyUnreachableError)
    return `${networkReason(cause.proxy, cause.cause)}; it is the proxy that ${protocol === "https:" ? "HTTPS_PROXY" : "HTTP_PROXY"} names`
  const code = codeOf(cause)
  switch (code) {
    case "ECONNREFUSED":
      return `nothing listens at ${hostname}:${port || DEFAULT_PORTS[protocol]}`
    // Not "cannot reach": the server runs, but it closed this connection.
    case "ECONNRESET":
    case "EPIPE":
      return `${host} closed the connection without an answer`
    case "ERR_INVALID_HTTP_RESPONSE":
      return `${host} ${messageOf(cause)}`
    default:
      return `cannot reach ${host} (${code === undefined ? withHosts(messageOf(cause)) : (REASONS[code] ?? code)})`
  }
}

/** Returns a text with each address shortened to its host. */
export const withHosts = (text: string): string =>
  text.replace(/[a-z][a-z0-9+.-]{0,30}:\/\/[^\s"'<>]*/gi, (address) => URL.parse(address)?.host ?? "…")

/** Whether a connection was closed within a response. */
export const isReset = (cause: unknown): boolean => codeOf(cause) === "ECONNRESET"

/** Whether the connection for a request was refused, so that no server has seen the request. */
export const isConnectionRefused = (cause: unknown): boolean =>
  cause instanceof Error && "code" in cause && (cause.code === "ConnectionRefused" || cause.code === "ECONNREFUSED")

// ---

const DEFAULT_PORTS: Readonly<Record<string, number>> = { "http:": 80, "https:": 443 }

function codeOf(cause: unknown): string | undefined {
  if (!(cause instanceof Error)) return undefined
  if (cause.name === "TimeoutError") return "ETIMEDOUT"
  return "code" in cause && typeof cause.code === "string" ? cause.code : undefined
}

const UNKNOWN_AUTHORITY =
  "its certificate is from an unknown authority; set NODE_EXTRA_CA_CERTS to a file with the authority's certificate"

/** What the codes of connections and of Bun's fetch mean. */
const REASONS: Readonly<Record<string, string>> = {
  ENOTFOUND: "no such host",
  EAI_AGAIN: "the name server does not answer",
  EPROTO: "the TLS handshake failed: does it serve https?",
  EBUSY: "too many requests wait for it",
  ERR_PROXY_REFUSED: "the proxy refuses the connection",
  ETIMEDOUT: "no answer in time",
  EHOSTUNREACH: "no route to it",
  ENETUNREACH: "no route to it",
  CERT_HAS_EXPIRED: "its certificate has expired",
  ERR_TLS_CERT_ALTNAME_INVALID: "its certificate is for another host",
  DEPTH_ZERO_SELF_SIGNED_CERT: UNKNOWN_AUTHORITY,
  SELF_SIGNED_CERT_IN_CHAIN: UNKNOWN_AUTHORITY,
  UNABLE_TO_GET_ISSUER_CERT: UNKNOWN_AUTHORITY,
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: UNKNOWN_AUTHORITY,
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: UNKNOWN_AUTHORITY,
}
