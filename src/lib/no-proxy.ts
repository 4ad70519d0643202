/**
 * Bypasses HTTP_PROXY and HTTPS_PROXY for loopback addresses: a proxy on another machine could not reach them, and svc's own
 * commands talk to the running instance. Bun reads these variables at each request.
 */
import { LOOPBACK_HOSTS } from "./address.ts"

/** Adds the loopback hosts to NO_PROXY, if the environment names a proxy. */
export function bypassProxyForLoopback(env: Record<string, string | undefined>): void {
  if (!PROXIES.some((name) => env[name])) return
  // Bun uses the first of the two that is set.
  const name = env.no_proxy ? "no_proxy" : "NO_PROXY"
  const known = (env[name] ?? "").split(",").map((host) => host.trim())
  env[name] = [...known.filter((host) => host !== ""), ...LOOPBACK_HOSTS.filter((host) => !known.includes(host))].join(
    ",",
  )
}

// ---

const PROXIES = ["http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY"]
