/** Finds entries of clients for an svc that is no longer there, such as an address that a person has copied. */
import { isLoopback, plainHost } from "../../lib/address.ts"
import { systemClock, withTimeout } from "../../lib/clock.ts"
import { isObject } from "../../wire/message.ts"
import type { ForeignServer } from "./import.ts"

/**
 * Returns the address of a client's entry for svc if it is on this machine and nothing listens there. An entry in another form
 * than svc writes is another server of the person's, whatever its name.
 */
export async function deadAddress(
  { name, server: { url, headers } }: Pick<ForeignServer, "name" | "server">,
  clock = systemClock,
  open = openAndClose,
): Promise<string | undefined> {
  if (name !== "svc" || typeof url !== "string" || !URL.canParse(url)) return undefined
  const { hostname, port, protocol, pathname } = new URL(url)
  const others = Object.keys(isObject(headers) ? headers : {}).filter((key) => key.toLowerCase() !== "authorization")
  if (!isLoopback(hostname) || !ENDPOINT.test(pathname) || others.length > 0) return undefined
  const standard = protocol === "https:" ? 443 : 80
  try {
    // A program that listens but is too busy to answer is none that is gone.
    await withTimeout(clock, OPEN_MS, open(plainHost(hostname), port === "" ? standard : Number(port)))
    return undefined
  } catch {
    return url
  }
}

// ---

async function openAndClose(hostname: string, port: number): Promise<void> {
  const socket = await Bun.connect({ hostname, port, socket: { data() {} } })
  socket.end()
}

const OPEN_MS = 1000
/** The paths of svc that entries lead to. */
const ENDPOINT = /^\/(?:servers\/[^/]+\/)?mcp$/
