/** Endpoints of the login itself. */
import * as z from "zod"
import { sessionCookie } from "../serve/admin-login.ts"
import { jsonResponse } from "../serve/respond.ts"
import { defineEndpoint, type Endpoint } from "./endpoint.ts"

const show = defineEndpoint({
  method: "GET",
  path: "/session",
  summary: "Show who is logged in",
  answer: z.strictObject({
    principal: z.string(),
    csrf: z.string().optional().describe("For the header X-CSRF-Token of changes with a cookie"),
    until: z.string().optional().describe("When the login ends; absent for never"),
  }),
  faults: [],
  run({ ports, principal, request }) {
    const session = ports.login?.admit(request)
    const until = session?.until ?? principal.until
    return {
      principal: session === undefined ? principal.name : "local",
      ...(session === undefined ? {} : { csrf: session.csrf }),
      ...(until === undefined ? {} : { until: new Date(until).toISOString() }),
    }
  },
})

const end = defineEndpoint({
  method: "DELETE",
  path: "/session",
  summary: "Log out",
  answer: z.strictObject({ ended: z.boolean() }),
  faults: [],
  run({ ports, request }) {
    ports.login?.end(request)
    return jsonResponse({ ended: ports.login !== undefined }, undefined, { "set-cookie": sessionCookie(request) })
  },
})

export const SESSION_ENDPOINTS: readonly Endpoint[] = [show, end]
