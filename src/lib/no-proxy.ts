/**
 * What is on this machine is reached without a proxy, whatever proxies the environment names: a proxy elsewhere could not
 * reach it, and what svc's own commands say to a running svc is not for it. Bun asks the environment at each request.
 */
import { LOOPBACK_HOSTS } from "./address.ts"

/** Adds this machine to those for whom no proxy is used, where there are proxies. */
export function bypassProxyForLoopback(env: Record<string, string | undefined>): void {
  if (!PROXIES.some((name) => env[name])) return
  // Bun heeds the first of the two that is set.
  const name = env.no_proxy ? "no_proxy" : "NO_PROXY"
  const known = (env[name] ?? "").split(",").map((host) => host.trim())
  env[name] = [...known.filter((host) => host !== ""), ...LOOPBACK_HOSTS.filter((host) => !known.includes(host))].join(
    ",",
  )
}

// ---

const PROXIES = ["http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY"]
