/** What svc says of a server that does not answer. Apart from the driver, so that a command can show it without loading transports. */
import { formatDuration } from "../lib/clock.ts"

/** Said of a connected server that does not answer svc's pings. */
export const UNRESPONSIVE = "does not answer pings"

/** Added for a server that prints anything but MCP on stdout. */
export const NOISE = "; it prints text on stdout that is not MCP (logs belong on stderr)"

/** Returns what is said of a server that has not answered for `ms` of the `limit` milliseconds that its start may take. */
export const unansweredReason = (ms: number, limit: number, noisy: boolean): string =>
  `no answer yet (${formatDuration(Math.floor(ms / 1000) * 1000)} of ${formatDuration(limit)})${noisy ? NOISE : ""}`
