/**
 * What passes directly and may not pass through svc, each with its reason. A stale entry fails the run.
 * Keys: `<inbound revision> <backend> <scenario>`.
 */

/** A 2025-era server's questions have no keys: svc gives them its own, and the suite looks for the server's. */
const NO_KEYS = "a 2025-era server's questions have no keys that could be kept"

/** A 2025-era server learns its client's capabilities once, at `initialize`, and its client is svc. */
const ONE_CLIENT = "a 2025-era server behind svc cannot see what each 2026-era client is able to answer"

const LEGACY = ["1x-stdio", "1x-http", "2x-2025-stdio", "2x-2025-http"]

export const EXPECTED_FAILURES: Readonly<Record<string, string>> = Object.fromEntries(
  LEGACY.flatMap((backend) => [
    [`2026-07-28 ${backend} input-required-result-basic-elicitation`, NO_KEYS],
    [`2026-07-28 ${backend} input-required-result-capability-check`, ONE_CLIENT],
  ]),
)
