/** The problem of a replica with the state that it shares with others, for status, health and doctor. */

/** Why a replica cannot use the shared state, with what to do and what does not work meanwhile; `since` is an ISO time. */
export type SharedStateProblem = { readonly since: string; readonly problem: string }

/** Returns the line that tells people why the shared state cannot be used; none if it can. */
export const sharedStateNotes = (status: { readonly sharedState?: SharedStateProblem } | undefined): string[] =>
  status?.sharedState === undefined ? [] : [`${status.sharedState.problem} (since ${status.sharedState.since})`]
