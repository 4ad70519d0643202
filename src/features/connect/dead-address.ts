/** Finds entries of clients for an svc that is no longer there, such as an address that a person has copied. */
import { isLoopback } from "../../lib/address.ts"
import { isObject } from "../../wire/message.ts"
import type { ForeignServer } from "./import.ts"

/**
 * Returns the address of a client's entry for svc if it is on this machine and nothing listens there. An entry in another form
 * than svc writes is another server of the person's, whatever its name.
 */
export async function deadAddress({
  name,
  server: { url, headers },
}: Pick<ForeignServer, "name" | "server">): Promise<string | undefined> {
  if (name !== "svc" || typeof url !== "string" || !URL.canParse(url)) return undefined
  const { hostname, port, protocol, pathname } = new URL(url)
  const others = Object.keys(isObject(headers) ? headers : {}).filter((key) => key.toLowerCase() !== "authorization")
  if (!isLoopback(hostname) || !ENDPOINT.test(pathname) || others.length > 0) return undefined
  const plain = hostname.replace(/^\[|\]$/g, "")
  try {
    const socket = { data() {} }
    const standard = protocol === "https:" ? 443 : 80
    const open = await Bun.connect({ hostname: plain, port: port === "" ? standard : Number(port), socket })
    open.end()
    return undefined
  } catch {
    return url
  }
}

// ---

/** The paths of svc that entries lead to. */
const ENDPOINT = /^\/(?:servers\/[^/]+\/)?mcp$/
