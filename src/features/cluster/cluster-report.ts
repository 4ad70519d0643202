/** The report of a cluster, as one of its replicas sees it. */

import type { SharedStateProblem } from "../../report/shared-state.ts"
import type { Replica } from "./replicas.ts"

export type ClusterReport = {
  /** `address`: host and port of the shared state. */
  readonly state: { readonly address: string; readonly connected: boolean } & Partial<SharedStateProblem>
  /** The answering replica comes first. */
  readonly replicas: readonly {
    readonly id: string
    /** Whether this is the answering replica. */
    readonly self: boolean
    readonly address: string
    readonly version: string
    /** A digest of its mcp.json. */
    readonly config: string
    readonly startedAt: string
    readonly uptimeSeconds: number
    readonly state: "ready" | "draining"
    /** The ids of the replicas that cannot reach it at its address. */
    readonly unreachedBy: readonly string[]
    readonly calls: number
    readonly sessions: number
    readonly streams: number
  }[]
  /** Servers with `"replicas": "one"`, with the id of the replica that runs each; null while none does. */
  readonly servers: readonly { readonly server: string; readonly replica: string | null }[]
}

type ClusterView = Pick<ClusterReport, "state"> & {
  readonly replicas: readonly Replica[]
  readonly owners: readonly { readonly server: string; readonly replica: string | undefined }[]
  /** Milliseconds since the epoch. */
  readonly now: number
}

export const clusterReport = ({ state, replicas, owners, now }: ClusterView): ClusterReport => ({
  state,
  replicas: replicas.map(({ id, self, address, version, config, startedAt, load }) => ({
    id,
    self,
    address,
    version,
    config,
    startedAt: new Date(startedAt).toISOString(),
    uptimeSeconds: Math.max(0, Math.round((now - startedAt) / 1000)),
    state: load.draining ? "draining" : "ready",
    unreachedBy: replicas.filter(({ unreached }) => unreached?.includes(id)).map((other) => other.id),
    calls: load.calls,
    sessions: load.sessions,
    streams: load.streams,
  })),
  servers: owners.map(({ server, replica = null }) => ({ server, replica })),
})
