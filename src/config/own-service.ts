/** Recognizes a server that is this svc: svc would offer its own tools a second time, and wait for itself to start. */
import { isLoopback, plainHost } from "../lib/address.ts"
import type { Launch } from "./server-spec.ts"

/** This svc, as its own configuration may refer to it. */
export type OwnService = {
  /** The addresses at which it listens. */
  readonly urls: readonly string[]
  /** The path of its program. */
  readonly program: string
  /** Whether flags name the configuration of this svc; `cwd` is the folder that they are relative to. */
  serves(flags: { readonly config: string | undefined; readonly directory: string | undefined }, cwd: string): boolean
}

/** Whether a URL leads to one of these addresses, in whatever spelling. All loopback addresses count as one. */
export function isAddressOf(url: string, addresses: readonly string[]): boolean {
  if (!URL.canParse(url)) return false
  const target = new URL(url)
  return addresses.some((address) => {
    if (!URL.canParse(address)) return false
    const own = new URL(address)
    return portOf(target) === portOf(own) && isSameHost(target.hostname, own.hostname)
  })
}

/** Whether a command starts svc as an MCP server. Recognizes svc by `program`, or by the name of the file. */
export function isSvcCommand(command: string, args: readonly string[], program?: string): boolean {
  const isProgram = command === program || /(?:^|[\\/])svc(?:\.exe)?$/i.test(command)
  const stdio = args.some(
    (word, at) => /^--transport(?:=stdio)?$/.test(word) && (word.includes("=") || args[at + 1] === "stdio"),
  )
  return isProgram && (args[0] === "proxy" || (args[0] === "serve" && stdio))
}

/** Returns why a server that is this svc may not run; undefined for any other server. `folder` is the configuration's. */
export function selfProblem(launch: Launch, { urls, program, serves }: OwnService, folder: string): string | undefined {
  if (launch.transport !== "stdio")
    return isAddressOf(launch.url, urls) ? `url is the address of this svc, ${SERVES_ITSELF}` : undefined
  const { command, args, cwd, env } = launch
  const isBridge = [command, ...args].some((word) => BRIDGE.test(word))
  if (isBridge && args.some((word) => /^https?:/.test(word) && isAddressOf(word, urls)))
    return `its command connects to the address of this svc, ${SERVES_ITSELF}`
  if (!isSvcCommand(command, args, program)) return undefined
  const config = flagIn(args, "config") ?? env.SVC_CONFIG
  const directory = flagIn(args, "config-dir") ?? env.SVC_CONFIG_DIR
  return serves({ config, directory }, cwd ?? folder) ? `its command connects to this svc, ${SERVES_ITSELF}` : undefined
}

/** Returns the value of a flag, in either form. */
export function flagIn(args: readonly string[], flag: string): string | undefined {
  const at = args.indexOf(`--${flag}`)
  return at >= 0 ? args[at + 1] : args.find((word) => word.startsWith(`--${flag}=`))?.slice(flag.length + 3)
}

// ---

const SERVES_ITSELF = "which would serve itself; remove the server"

/** Programs that offer a remote server over stdio. */
const BRIDGE = /(?:^|[\\/])(?:mcp-remote|supergateway|mcp-proxy)(?:@[^\\/]*)?$/

const portOf = ({ port, protocol }: URL): string => port || (protocol === "https:" ? "443" : "80")

function isSameHost(one: string, other: string): boolean {
  const isHere = (host: string) => isLoopback(host) || ["0.0.0.0", "::"].includes(plainHost(host))
  return (isHere(one) && isHere(other)) || plainHost(one) === plainHost(other)
}
