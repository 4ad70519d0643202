/**
 * Admits requests of other replicas to a server that this replica runs for all (features/cluster/server-leases.ts). The other replica has
 * authenticated its client, and proves with a credential that it belongs to this cluster. Also answers the probes of other
 * replicas (features/cluster/replica-reach.ts).
 */

import { REPLICA } from "../../call/client.ts"
import { methodOf } from "../../call/methods.ts"
import { REPLICA_CONTINUES_HEADER, REPLICA_HEADER } from "../../config/server-spec.ts"
import { UnavailableError } from "../../lib/errors.ts"
import { isSameMark, type Marker } from "../../lib/seal.ts"
import { percentDecoded } from "../../lib/text.ts"
import type { Inbound } from "../../serve/inbound.ts"
import type { Principal } from "../../serve/principal.ts"
import { errorResponse, noContent } from "../../serve/respond.ts"
import type { ServerLeases } from "./server-leases.ts"

export type ReplicaAccessDeps = {
  readonly leases: Pick<ServerLeases, "admits">
  /** The id of this replica. */
  readonly replica: string
  readonly mark: Marker
}

/**
 * Returns the function that admits such requests. It returns a refusal if the server does not run here with that lease, the
 * answer to a probe, and undefined for any other request.
 */
export const createReplicaAccess =
  ({ leases, replica, mark }: ReplicaAccessDeps) =>
  ({ request, path }: Inbound): Principal | Response | undefined => {
    const credential = request.headers.get(REPLICA_HEADER)
    if (credential === null) return isProbe(request, mark) ? noContent({ [REPLICA_ID_HEADER]: replica }) : undefined
    const slug = SERVER_PATH.exec(path)?.[1]
    // Whoever sends the header elsewhere is no replica, and is treated like any client.
    if (slug === undefined) return undefined
    const begins =
      methodOf(request.headers.get("mcp-method") ?? "").isCall === true &&
      !request.headers.has(REPLICA_CONTINUES_HEADER)
    if (leases.admits(percentDecoded(slug), credential, begins)) return OTHER_REPLICA
    return errorResponse(new UnavailableError(NOT_HERE, { retryAfter: 1 }), {
      shape: "jsonrpc",
      // Tells the other replica that the server has not received the request.
      headers: { [REPLICA_HEADER]: "refused" },
    })
  }

/** Returns the headers of a probe: a request that tests whether a replica answers at its address. */
export const probeHeaders = (id: string, mark: Marker): Record<string, string> => ({
  [PROBE_HEADER]: `${id}.${mark(PROBE_HEADER, id)}`,
})

/** Returns the id of the replica that answered a probe; undefined if the response has none. */
export const replicaOfProbe = ({ headers }: Response): string | undefined => headers.get(REPLICA_ID_HEADER) ?? undefined

// ---

const PROBE_HEADER = "svc-replica-probe"
const REPLICA_ID_HEADER = "svc-replica-id"

/** Whether a request is a probe of another replica of this cluster, even if it was meant for a third one. */
function isProbe({ headers }: Request, mark: Marker): boolean {
  const [id = "", given = ""] = headers.get(PROBE_HEADER)?.split(".", 2) ?? []
  return id !== "" && isSameMark(given, mark(PROBE_HEADER, id))
}

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
