/** Says who uses the port at which svc was to listen. */
import { join } from "node:path"
import { localUrl } from "../lib/address.ts"
import type { Paths } from "../store/paths.ts"
import { isObject } from "../wire/message.ts"
import { callControl } from "./control-socket.ts"

/** Returns a message about a port in use: by the svc of this configuration, another svc, or another program. */
export async function describePortInUse(
  address: { readonly hostname: string; readonly port: number },
  paths: Paths | undefined,
): Promise<string> {
  const own = paths === undefined ? undefined : await callControl(paths, "status", {}, PROBE_MS).catch(() => undefined)
  if (isObject(own) && own.demo === true) return `the demo already runs, at ${own.endpoint}; \`svc stop\` ends it`
  if (paths !== undefined && isObject(own) && typeof own.url === "string") {
    const [flag, other] =
      paths.file === join(paths.directory, "mcp.json") ? ["", "--config-dir"] : [` --config ${paths.file}`, "--config"]
    return `svc already runs for ${paths.file}, at ${own.endpoint ?? own.url}; stop it with \`svc stop${flag}\`, or choose another ${other}`
  }
  const { hostname } = new URL(
    localUrl(new URL(`http://${address.hostname.includes(":") ? `[${address.hostname}]` : address.hostname}`)),
  )
  const answers = await Promise.all(
    ["http", "https"].map((scheme) =>
      fetch(`${scheme}://${hostname}:${address.port}/health`, {
        signal: AbortSignal.timeout(PROBE_MS),
        tls: { rejectUnauthorized: false },
      })
        .then((response) => response.json())
        .catch(() => undefined),
    ),
  )
  const isSvc = answers.some((answer) => isObject(answer) && isObject(answer.servers) && isObject(answer.configuration))
  return `port ${address.port} on ${address.hostname} is in use${isSvc ? " by another svc" : ""}; choose another with --port`
}

// ---

const PROBE_MS = 1000
