/** Messages about a server that does not answer. Not in the driver, so that a command can use them without loading transports. */
import { formatDuration } from "../lib/clock.ts"

/** The message about a connected server that does not answer svc's pings. */
export const UNRESPONSIVE = "does not answer pings"

/** Returns the message about a server that has sent nothing for `ms` milliseconds while requests waited for it. */
export const silentReason = (ms: number): string =>
  `sent nothing for ${formatDuration(Math.floor(ms / 1000) * 1000)} while requests waited`

/**
 * Returns the message for the requests that waited for such a server. They must not be sent again: the server may have run them,
 * or become silent again.
 */
export const silentCallReason = (ms: number): string =>
  `${silentReason(ms)}; it may have executed this one, so svc does not send it again`

/** The addition for a server that prints anything but MCP on stdout. */
export const NOISE = "; it prints text on stdout that is not MCP (logs belong on stderr)"

/** Returns the message about a server that has not answered for `ms` of the `limit` milliseconds that its start may take. */
export const unansweredReason = (ms: number, limit: number, noisy: boolean): string =>
  `no answer yet (${formatDuration(Math.floor(ms / 1000) * 1000)} of ${formatDuration(limit)})${noisy ? NOISE : ""}`
