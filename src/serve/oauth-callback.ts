/**
 * Where browsers come back to from authorization servers, and what svc says of itself to those that look it up.
 *
 *   /oauth/callback       takes one answer for one authorization that svc has begun
 *   /oauth/client.json    svc as a client, where its external address is https
 */
import { publicMessage } from "../lib/errors.ts"
import type { Wrapper } from "./server.ts"

/** Their paths below the address that svc is reached under. */
export const CALLBACK_PATH = "/oauth/callback"
export const CLIENT_PATH = "/oauth/client.json"

export type CallbackDeps = {
  /** Takes the answer; gives the server's name. Throws what the browser is to be told. */
  finish(answer: URLSearchParams): Promise<string>
  /** Takes the configured secrets out of what the browser is told. */
  hide(text: string): string
  /** svc's description of itself; undefined where the world cannot read it. */
  client(): Promise<object | undefined>
}

export function createCallback({ finish, hide, client }: CallbackDeps): Wrapper {
  return (request, path) => {
    if (path === CALLBACK_PATH) {
      if (request.method !== "GET") return page(405, "Nothing happens here", "Only a browser's visit is taken.")
      return takeAnswer(new URL(request.url, "http://localhost").searchParams, finish, hide)
    }
    if (path === CLIENT_PATH) return describe(client)
    return undefined
  }
}

/** The page for a browser that came back. */
export async function takeAnswer(
  answer: URLSearchParams,
  finish: CallbackDeps["finish"],
  hide: CallbackDeps["hide"] = (text) => text,
): Promise<Response> {
  try {
    const name = await finish(answer)
    return page(200, `${name} is authorized`, "This window can be closed.")
  } catch (error) {
    return page(400, "Not authorized", hide(publicMessage(error)))
  }
}

// ---

async function describe(client: CallbackDeps["client"]): Promise<Response> {
  const found = await client()
  return found === undefined
    ? Response.json({ error: "svc has no external address that is https" }, { status: 404 })
    : Response.json(found)
}

const HEADERS = {
  "content-type": "text/html; charset=utf-8",
  "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'",
  "cache-control": "no-store",
  "referrer-policy": "no-referrer",
  "x-content-type-options": "nosniff",
}

function page(status: number, title: string, text: string): Response {
  const html = `<!doctype html><meta charset="utf-8"><title>svc</title><body style="font:1rem/1.5 system-ui;margin:4rem auto;max-width:36rem"><h1 style="font-size:1.4rem">${escaped(title)}</h1><p>${escaped(text)}</p>`
  return new Response(html, { status, headers: HEADERS })
}

const escaped = (text: string): string => text.replace(/[&<>"']/g, (char) => `&#${char.charCodeAt(0)};`)
