/**
 * Admits requests of other replicas to a server that this replica runs for all (agent/server-leases.ts). The other replica has
 * authenticated its client, and proves with a credential that it belongs to this cluster.
 */
import type { ServerLeases } from "../agent/server-leases.ts"
import { REPLICA_CONTINUES_HEADER, REPLICA_HEADER } from "../config/server-spec.ts"
import { UnavailableError } from "../lib/errors.ts"
import { percentDecoded } from "../lib/text.ts"
import { REPLICA } from "../session/dispatch.ts"
import { CALLS } from "../session/relay.ts"
import type { Inbound } from "./inbound.ts"
import type { Principal } from "./principal.ts"
import { errorResponse } from "./respond.ts"

/**
 * Returns the function that admits such requests. It refuses them if the server does not run here, or no longer with that
 * lease.
 */
export const createReplicaAccess =
  (leases: Pick<ServerLeases, "admits">) =>
  ({ request, path }: Inbound): Principal | Response | undefined => {
    const credential = request.headers.get(REPLICA_HEADER)
    if (credential === null) return undefined
    const slug = SERVER_PATH.exec(path)?.[1]
    const begins = CALLS.has(request.headers.get("mcp-method") ?? "") && !request.headers.has(REPLICA_CONTINUES_HEADER)
    if (slug !== undefined && leases.admits(percentDecoded(slug), credential, begins)) return OTHER_REPLICA
    return errorResponse(new UnavailableError(NOT_HERE, { retryAfter: 1 }), {
      shape: "jsonrpc",
      // Tells the other replica that the server has not received the request.
      headers: { [REPLICA_HEADER]: "refused" },
    })
  }

// ---

const NOT_HERE = "The server runs on one replica at a time, and currently not on this one; try again in a moment"
const SERVER_PATH = /^\/servers\/([^/]+)\/mcp$/

const OTHER_REPLICA: Principal = {
  name: REPLICA,
  tags: undefined,
  untagged: true,
  admin: false,
  scoped: false,
  until: undefined,
}
