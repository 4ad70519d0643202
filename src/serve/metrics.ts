/** `GET /metrics`: svc's metrics for Prometheus. */

import { RequestError } from "../lib/errors.ts"
import type { Middleware } from "./inbound.ts"
import { isLimited } from "./principal.ts"
import { errorResponse, shapeOf } from "./respond.ts"

/** Returns middleware that answers `/metrics` with the text of `exposition`. Metrics name all servers. */
export const createMetricsEndpoint =
  (exposition: () => string): Middleware =>
  (inbound, next) => {
    const { path, principal, request } = inbound
    if (path !== "/metrics") return next(inbound)
    if (request.method !== "GET" && request.method !== "HEAD")
      return errorResponse(new RequestError("wrong_method", "Method not allowed"), {
        shape: shapeOf(path),
        headers: { allow: "GET, HEAD" },
      })
    if (isLimited(principal) && principal.metricsOnly !== true)
      return errorResponse(
        new RequestError(
          "forbidden",
          "/metrics reports on all servers, but this token is limited to some tags or presets",
        ),
        { shape: shapeOf(path) },
      )
    return new Response(exposition(), { headers: { "content-type": "text/plain; version=0.0.4; charset=utf-8" } })
  }
