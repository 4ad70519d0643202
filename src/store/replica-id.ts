/**
 * Ids of replicas. Ids that clients bring back begin or end with the id of the replica that made them: `r` and eight digits.
 * Apart from replicas.ts, because a single svc reads ids, too, and loads nothing of a cluster.
 */

/** Returns a new id of a replica; `random` returns unguessable hexadecimal text. */
export const replicaId = (random: () => string): string => `r${random().slice(0, 8)}`

/** Returns the id of a replica at the start of a text; undefined if there is none. */
export const replicaIn = (text: string): string | undefined => /^r[0-9a-f]{8}/.exec(text)?.[0]
