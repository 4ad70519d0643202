/** Endpoints for the login itself. */
import * as z from "zod"
import { HTTP_STATUS, RequestError } from "../../lib/errors.ts"
import { jsonResponse } from "../../serve/respond.ts"
import { defineEndpoint, type Endpoint } from "./endpoint.ts"

const sessionSchema = z.strictObject({
  principal: z.string(),
  until: z.string().optional().describe("When the login expires; absent if it does not expire"),
})

const show = defineEndpoint({
  method: "GET",
  path: "/session",
  summary: "Show who is logged in",
  answer: sessionSchema,
  faults: [],
  run({ ports: { login, auth }, principal, request }) {
    const session = login.admit(request)
    return { principal: auth ? principal.name : "local", ...endOf(session?.until ?? principal.until) }
  },
})

const begin = defineEndpoint({
  method: "POST",
  path: "/session",
  summary: "Log a browser in: exchange the token in the Authorization header for a cookie",
  description:
    "The cookie is HttpOnly and has the rights of the token. It is not a token itself: the Authorization header does not accept its value. It ends when the token expires or is revoked, after 12 hours at the latest. Each request with the cookie must have the value of `csrf` in the header X-CSRF-Token.",
  created: true,
  answer: sessionSchema.extend({ csrf: z.string().describe("The key of the session; only this answer contains it") }),
  faults: ["invalid_request"],
  run({ ports: { login, auth }, principal, request }) {
    const token = /^Bearer +(\S+)$/i.exec(request.headers.get("authorization") ?? "")?.[1]
    if (token === undefined)
      throw new RequestError("invalid_request", "The token is missing; send it in the Authorization header")
    login.requireOwnPage(request)
    const session = login.createSession({ token, until: auth ? principal.until : login.admit(request)?.until })
    const answer = { principal: auth ? principal.name : "local", csrf: session.csrf, ...endOf(session.until) }
    return jsonResponse(answer, HTTP_STATUS.created, {
      ...PRIVATE,
      "set-cookie": login.cookie(request, session),
    })
  },
})

const end = defineEndpoint({
  method: "DELETE",
  path: "/session",
  summary: "Log out",
  answer: z.strictObject({ ended: z.boolean() }),
  faults: [],
  run({ ports: { login, restStreams }, request }) {
    // Closes the streams of all logins; other pages open theirs again.
    for (const stream of [...restStreams]) stream.close()
    const ended = login.admit(request) !== undefined
    login.end(request)
    return jsonResponse({ ended }, undefined, { ...PRIVATE, "set-cookie": login.cookie(request) })
  },
})

export const SESSION_ENDPOINTS: readonly Endpoint[] = [show, begin, end]

// ---

const PRIVATE = { "cache-control": "no-store" }

const endOf = (until: number | undefined) => (until === undefined ? {} : { until: new Date(until).toISOString() })
