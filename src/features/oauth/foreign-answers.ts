/**
 * Makes the answers of authorization servers readable for the MCP SDK, which validates them strictly: servers in all languages
 * write absent members as null or "", numbers as text, and errors in forms of their own. What can mean only one thing is repaired;
 * nothing is made up that svc uses.
 */
import { TransientError } from "../../backend/client-transport.ts"
import type { BoundedFetch } from "../../backend/ssrf.ts"
import { statusOfFault } from "../../lib/errors.ts"
import { isObject, type Params } from "../../wire/message.ts"

/**
 * Returns a fetch whose JSON answers are cleaned.
 *
 *  1. A discovery address without usable metadata (a web page, an empty object) counts as absent: 404.
 *  2. A refusal in another form than OAuth's becomes one, in one line: its code is `http_<status>`. So does a success with an error in
 *     place of what was requested: the SDK would repeat it whole, with the secrets in it.
 */
export function readableFetch(ask: BoundedFetch): BoundedFetch {
  return async (url, init) => {
    const response = await ask(url, init)
    const { pathname } = new URL(url)
    const isDiscovery = pathname.includes("/.well-known/")
    if (isDiscovery && !response.ok) return response
    const text = await response.text()
    const found = jsonOf(text)
    const { status, headers } = response
    if (isDiscovery) {
      const metadata = found === undefined ? undefined : metadataOf(found, pathname)
      return metadata === undefined ? notFound() : json(metadata, status, headers)
    }
    if (found === undefined && response.ok) return new Response(text === "" ? null : text, { status, headers })
    const answer = cleaned(found ?? {})
    if (!response.ok) return json(refusalOf(answer, text, status), status, headers)
    if (isRefusal(answer)) return json(refusalOf(answer, "", status), statusOfFault("invalid_request"), headers)
    const { error: _, ...granted } = answer
    return json(withType(granted), status, headers)
  }
}

/**
 * Runs a discovery, which asks several addresses in turn. An address whose server answers, but not now, counts as absent; if no
 * other address has metadata, throws its TransientError.
 */
export async function runDiscovery<T>(ask: BoundedFetch, discovery: (patient: BoundedFetch) => Promise<T>): Promise<T> {
  let failure: TransientError | undefined
  const patient: BoundedFetch = async (url, init) => {
    try {
      return await ask(url, init)
    } catch (error) {
      if (!(error instanceof TransientError) || error.status === undefined) throw error
      failure = error
      return notFound()
    }
  }
  const found = await discovery(patient).catch((error: unknown) => {
    throw failure ?? error
  })
  if (found === undefined && failure !== undefined) throw failure
  return found
}

/** Adds to the answer of a registration what svc has sent: some servers answer with the new members alone. RFC 7591, 3.2.1. */
export function withSentMetadata(sent: object, ask: BoundedFetch): BoundedFetch {
  return async (url, init) => {
    const response = await ask(url, init)
    if (!response.ok) return response
    const answer: unknown = await response.json()
    return Response.json(isObject(answer) ? { ...sent, ...answer } : answer, { status: response.status })
  }
}

/** Makes a success without an access token the refusal that it is. Its text is not repeated: it may contain other tokens. */
export function requiringToken(ask: BoundedFetch): BoundedFetch {
  return async (url, init) => {
    const response = await ask(url, init)
    if (!response.ok) return response
    const text = await response.text()
    const { status, headers } = response
    if (typeof jsonOf(text)?.access_token === "string") return new Response(text, { status, headers })
    return json(refusalOf({}, "its answer has no access_token", status), statusOfFault("invalid_request"), headers)
  }
}

/** Returns the words of a cleaned refusal. */
export function refusalIn(body: string): string {
  const { error, error_description: description } = jsonOf(body) ?? {}
  return `answered ${[error, description].filter((one) => typeof one === "string").join(": ")}`
}

// ---

/** What a discovery address answers that has no metadata. */
const notFound = (): Response => new Response(null, { status: statusOfFault("not_found") })

const json = (value: Params, status: number, from: Headers): Response => {
  const headers = new Headers(from)
  headers.set("content-type", "application/json")
  return new Response(JSON.stringify(value), { status, headers })
}

function jsonOf(text: string): Params | undefined {
  try {
    const value: unknown = JSON.parse(text.trim().replace(/^\uFEFF/, ""))
    return isObject(value) ? value : undefined
  } catch {
    return undefined
  }
}

/** Members that are numbers of seconds. RFC 6749, 5.1; RFC 7591, 3.2.1. */
const SECONDS: readonly string[] = ["expires_in", "client_secret_expires_at", "client_id_issued_at"]
/** Members that are lists of texts. RFC 8414, 2; RFC 9728, 2; RFC 7591, 2. */
const LIST = /^(?:redirect_uris|grant_types|response_types|contacts|authorization_servers|\w+_supported)$/

/** Returns an object without empty members and lists, with each member in the form that its name requires. */
function cleaned(value: Params): Params {
  return Object.fromEntries(
    Object.entries(value).flatMap(([name, item]): (readonly [string, unknown])[] => {
      if (item === null || item === "") return []
      if (name === "scope" && typeof item !== "string")
        return Array.isArray(item) && item.length > 0 ? [[name, item.join(" ")]] : []
      if (SECONDS.includes(name) && typeof item === "string")
        return /^\d{1,15}$/.test(item) ? [[name, Number(item)]] : []
      if (SECONDS.includes(name) && typeof item !== "number") return []
      if (!LIST.test(name) || typeof item === "boolean") return [[name, item]]
      if (item === "true" || item === "false") return [[name, item === "true"]]
      const listed = typeof item === "string" ? item.split(" ") : item
      const texts = Array.isArray(listed) ? listed.filter((one) => typeof one === "string" && one !== "") : []
      return texts.length === 0 ? [] : [[name, texts]]
    }),
  )
}

/** Whether the answer to a request for tokens or a registration has an error in place of both. */
const isRefusal = ({ error, access_token: token, client_id: client }: Params): boolean =>
  error !== undefined && typeof token !== "string" && typeof client !== "string"

/** Returns an answer with tokens with its type, which the specification requires and some servers leave out: Bearer. */
const withType = (answer: Params): Params =>
  typeof answer.access_token === "string" && answer.token_type === undefined
    ? { ...answer, token_type: "Bearer" }
    : answer

/** Returns the metadata of a discovery address; undefined if it is of no use. */
function metadataOf(value: Params, pathname: string): Params | undefined {
  const metadata = cleaned(value)
  if (pathname.includes("oauth-protected-resource")) return isAddress(metadata.resource) ? metadata : undefined
  const { issuer, authorization_endpoint: authorization, token_endpoint: token } = metadata
  if (!isAddress(issuer) || !isAddress(token)) return undefined
  return {
    // The SDK requires these, and svc does not use them: it opens no authorization endpoint that equals the token endpoint.
    response_types_supported: ["code"],
    ...(pathname.includes("openid-configuration") ? OPENID : {}),
    jwks_uri: issuer,
    ...(authorization === undefined ? { authorization_endpoint: token } : {}),
    ...metadata,
  }
}

/** What OpenID requires of metadata, and svc does not use. */
const OPENID = { subject_types_supported: ["public"], id_token_signing_alg_values_supported: ["RS256"] }

const isAddress = (value: unknown): value is string => typeof value === "string" && URL.canParse(value)

/** Returns a refusal in the form of RFC 6749, 5.2. Its text is not cut: callers mask secrets first. */
function refusalOf(answer: Params, text: string, status: number): Params {
  const { error, error_description: description, message } = answer
  const inner = isObject(error) ? error : {}
  const said = [description, inner.message, message, answer.detail, inner.description].find(
    (one) => typeof one === "string",
  )
  const code = typeof error === "string" ? error : inner.code
  const page = /^\s*</.test(text) ? "a web page" : text.replace(/\s+/g, " ").trim()
  return {
    error: typeof code === "string" && /^\w{1,64}$/.test(code) ? code : `http_${status}`,
    error_description: typeof said === "string" ? said.replace(/\s+/g, " ") : page || `HTTP ${status}`,
  }
}
