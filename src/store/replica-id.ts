/**
 * Ids of replicas: `r` and eight digits. Ids that clients return begin or end with the id of the replica that made them.
 * Separate from replicas.ts, because a single svc also reads ids, but loads no code of clusters.
 */

/** Returns a new id of a replica; `random` returns unguessable hexadecimal text. */
export const replicaId = (random: () => string): string => `r${random().slice(0, 8)}`

/** Returns the id of a replica at the start of a text; undefined if there is none. */
export const replicaIn = (text: string): string | undefined => /^r[0-9a-f]{8}/.exec(text)?.[0]
