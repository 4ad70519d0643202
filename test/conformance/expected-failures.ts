/**
 * What passes directly and may not pass through svc, each with its reason. A stale entry fails the run.
 * Keys: `<inbound revision> <backend> <scenario>`.
 */

/** A legacy server's questions have no keys: svc gives them its own, and the suite looks for the server's. */
const NO_KEYS = "a legacy server's questions have no keys that could be kept"

/** A legacy server learns its client's capabilities once, at `initialize`, and its client is svc. */
const ONE_CLIENT = "a legacy server behind svc cannot see what each modern client is able to answer"

const LEGACY = ["1x-stdio", "1x-http", "2x-2025-stdio", "2x-2025-http"]

export const EXPECTED_FAILURES: Readonly<Record<string, string>> = Object.fromEntries(
  LEGACY.flatMap((backend) => [
    [`2026-07-28 ${backend} input-required-result-basic-elicitation`, NO_KEYS],
    [`2026-07-28 ${backend} input-required-result-capability-check`, ONE_CLIENT],
  ]),
)
