/**
 * The OAuth endpoints of svc as a client of backends' authorization servers.
 *
 *   /oauth/callback       the redirect URI: completes one authorization that svc has begun
 *   /oauth/client.json    the client ID metadata document, if svc's external address is https
 */
import { HTTP_STATUS, publicMessage, RequestError, statusOfFault } from "../lib/errors.ts"
import { replicaIn } from "../store/replica-id.ts"
import type { Forward } from "./elsewhere.ts"
import type { Middleware } from "./inbound.ts"
import { errorResponse, escapeHtml, jsonResponse, shapeOf } from "./respond.ts"

/** Paths below the public address of svc. */
export const CALLBACK_PATH = "/oauth/callback"
const CLIENT_PATH = "/oauth/client.json"

/** Returns the address of svc's client ID metadata document; undefined if authorization servers could not fetch it. */
export const clientMetadataUrl = (externalUrl: string | undefined): string | undefined =>
  externalUrl?.startsWith("https:") ? `${externalUrl}${CLIENT_PATH}` : undefined

export type CallbackDeps = {
  /**
   * Completes the authorization with the query of the redirect, and resolves with the server's name. Rejects with a typed
   * error.
   */
  finish(answer: URLSearchParams): Promise<string>
  /** Masks configured secrets in a message for the browser. */
  hide(text: string): string
  /** Returns the client ID metadata document; undefined if authorization servers could not fetch it. */
  client(): Promise<object | undefined>
  /** Forwards a request to the replica that began the authorization; undefined for a single svc. */
  readonly forward?: Forward | undefined
}

/** Returns middleware that answers the OAuth paths. */
export function createCallback({ finish, hide, client, forward }: CallbackDeps): Middleware {
  return (inbound, next) => {
    const { request, path, search } = inbound
    switch (path) {
      case CALLBACK_PATH: {
        if (request.method !== "GET") return wrongMethod()
        const answer = new URLSearchParams(search)
        const forwarding = forward?.(replicaIn(answer.get("state") ?? ""), request)
        const here = () => takeAnswer(answer, finish, hide)
        return forwarding === undefined
          ? here()
          : forwarding.then(
              (forwarded) => forwarded ?? here(),
              (error: unknown) => messagePage(HTTP_STATUS.unavailable, "Not authorized", hide(publicMessage(error))),
            )
      }
      case CLIENT_PATH:
        return describe(client)
      default:
        return next(inbound)
    }
  }
}

/** Completes an authorization and returns the page that tells the person in the browser how it ended. */
export async function takeAnswer(
  answer: URLSearchParams,
  finish: CallbackDeps["finish"],
  hide: CallbackDeps["hide"] = (text) => text,
): Promise<Response> {
  try {
    const name = await finish(answer)
    return messagePage(HTTP_STATUS.ok, `${name} is authorized`, "You can close this window.")
  } catch (error) {
    return messagePage(statusOfFault("invalid_request"), "Not authorized", hide(publicMessage(error)))
  }
}

/** Returns a page with one message for a person. Escapes the texts. */
export function messagePage(status: number, title: string, text: string): Response {
  const html = `<!doctype html><meta charset="utf-8"><title>svc</title><body style="font:1rem/1.5 system-ui;margin:4rem auto;max-width:36rem"><h1 style="font-size:1.4rem">${escapeHtml(title)}</h1><p>${escapeHtml(text)}</p>`
  return new Response(html, { status, headers: HEADERS })
}

// ---

async function describe(client: CallbackDeps["client"]): Promise<Response> {
  const metadata = await client()
  if (metadata !== undefined) return jsonResponse(metadata)
  const error = new RequestError("not_found", "There is no client metadata: svc has no external https address")
  return errorResponse(error, { shape: shapeOf(CLIENT_PATH) })
}

const wrongMethod = (): Response =>
  messagePage(statusOfFault("wrong_method"), "Method not allowed", "Open this address in a browser.")

const HEADERS = {
  "content-type": "text/html; charset=utf-8",
  "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'",
  "cache-control": "no-store",
  "referrer-policy": "no-referrer",
  "x-content-type-options": "nosniff",
}
