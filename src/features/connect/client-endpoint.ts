/**
 * Decides how a client reaches svc: the address or command of its entry, the servers that it sees, and whether it needs a
 * token.
 */

import { readQuery, selectServers } from "../../catalog/selection.ts"
import { parseDocument } from "../../config/document.ts"
import { readPresets } from "../../config/presets.ts"
import { localUrl } from "../../lib/address.ts"
import { readOptions, usageError } from "../../lib/command-line.ts"
import { homeDirectory } from "../../lib/home-directory.ts"
import { ownCommand } from "../../lib/own-command.ts"
import { DEFAULT_PORT } from "../../serve/default-address.ts"
import { type LocalConfiguration, statusIfAnswered } from "../../serve/local-configuration.ts"
import type { ServerOptions } from "../../serve/server.ts"
import { readTexts } from "../../store/documents.ts"
import { pathsOf } from "../../store/paths.ts"
import type { ClientTarget } from "./client-connection.ts"
import { type ClientEndpoint, clientRow } from "./clients.ts"

export type ClientSelection = { readonly parameters: URLSearchParams; includes(tags: readonly string[]): boolean }

/** Returns the options with which `svc serve` would start. Throws a RequestError (usage) if one is not valid. */
export type ConfiguredOptions = () => {
  readonly address: ServerOptions["address"]
  readonly tls: object | undefined
  readonly externalUrl: string | undefined
  readonly auth: boolean
  readonly authIssuer: string | undefined
}

/** Returns the selection of servers for the client. Throws a RequestError for an unknown preset or an invalid expression. */
export function selectionOf({ paths }: LocalConfiguration, args: Readonly<Record<string, unknown>>): ClientSelection {
  const option = readOptions(args, {})
  const parameters = new URLSearchParams()
  for (const name of ["preset", "tags", "tag-filter"]) {
    const value = option.text(name)
    if (value !== undefined) parameters.set(name, value)
  }
  if (option.text("tools") !== undefined) parameters.set("tools", option.choice("tools", ["search"], "search"))
  const { presets } = readPresets(parseDocument(readTexts(paths).presets() ?? "{}", paths.presets))
  const { includes } = selectServers([readQuery(parameters)], presets)
  return { parameters, includes }
}

/**
 * Returns the addresses at which clients reach svc: those of the running svc, its public one first, or else the configured
 * one.
 */
export async function svcAddresses(
  context: LocalConfiguration,
  configured: ConfiguredOptions,
): Promise<readonly [string, ...string[]]> {
  const { url, endpoint } = (await statusIfAnswered(context)) ?? {}
  if (url !== undefined) return endpoint === undefined ? [url] : [endpoint, url]
  const { address, tls, externalUrl } = configured()
  if (externalUrl !== undefined) return [`${externalUrl}/`]
  if ("unix" in address) return [`unix:${address.unix}`]
  const name = address.hostname.includes(":") ? `[${address.hostname}]` : address.hostname
  return [`${tls === undefined ? "http" : "https"}://${name}:${address.port === 0 ? DEFAULT_PORT : address.port}/`]
}

/**
 * Returns how the client reaches svc: at an address if it is given, requested, or there whenever the machine runs; by a command
 * otherwise, if the client supports no address, or if svc has none.
 */
export async function endpointOf(
  context: LocalConfiguration,
  { client, scope }: ClientTarget,
  args: Readonly<Record<string, unknown>>,
  { parameters }: ClientSelection,
  configured: ConfiguredOptions,
): Promise<ClientEndpoint> {
  const given = readOptions(args, {}).text("url")
  const takesAddress = clientRow(client).http !== undefined
  if (given !== undefined && (args.stdio === true || !takesAddress))
    throw usageError(
      takesAddress ? "--url and --stdio exclude each other" : `${clientRow(client).title} takes no address`,
    )
  // The running svc knows its `--external-url`.
  const running = given === undefined ? await statusIfAnswered(context) : undefined
  const published = running?.endpoint
  const address = given ?? published ?? (await svcAddresses(context, configured))[0]
  const isHttp = URL.canParse(address) && /^https?:/.test(address)
  if (given !== undefined && !isHttp) throw usageError(`--url must be an http or https address, not ${given}`)
  // Once svc in a terminal or in the background has ended, for example at a reboot, its address would be that of nothing.
  const isLasting = given !== undefined || running?.keepsAddress === true || configured().externalUrl !== undefined
  if ((args.stdio ?? !isLasting) === true || !takesAddress || !isHttp) {
    const words = [...configFlags(context), ...[...parameters].flatMap(([name, value]) => [`--${name}`, value])]
    // A project's file is shared with other machines, where the path of svc may differ.
    const [command, ...rest] =
      scope === "project" ? ["svc", "proxy", "--start", ...words] : ownCommand("proxy", "--start", ...words)
    return { kind: "stdio", command, args: rest }
  }
  const url = new URL(localUrl(new URL(address)))
  // Behind a proxy, the address of svc may have a path.
  const isBase = (given ?? published) === undefined
  if (isBase || url.pathname === "/") url.pathname = `${url.pathname.replace(/\/$/, "")}/mcp`
  for (const [name, value] of parameters) url.searchParams.set(name, value)
  return { kind: "http", url: url.href, headers: {} }
}

/** Whether the svc at an address requires a token of its own: it refuses a request without one, and names no issuer. */
export async function needsToken(
  context: LocalConfiguration,
  url: string,
  args: Readonly<Record<string, unknown>>,
  configured: ConfiguredOptions,
): Promise<boolean> {
  if (typeof args.token === "boolean") return args.token
  // Another svc would not accept a token of this configuration.
  if (args.url !== undefined) return false
  const status = await statusIfAnswered(context)
  // Asks svc itself, not its public address: a proxy with its own login may answer there.
  const local = status?.url !== undefined && URL.canParse(status.url) ? new URL("/mcp", status.url) : url
  const response = status
    ? await fetch(local, { headers: { accept: "text/event-stream" }, signal: AbortSignal.timeout(PROBE_MS) }).catch(
        () => undefined,
      )
    : undefined
  await response?.body?.cancel().catch(() => undefined)
  if (response !== undefined)
    return response.status === 401 && !/resource_metadata/.test(response.headers.get("www-authenticate") ?? "")
  const { auth, authIssuer } = configured()
  return auth && authIssuer === undefined
}

// ---

const PROBE_MS = 3000

/** Returns the flags that name this configuration, if it is not the default one. */
function configFlags({ paths: { directory, file } }: LocalConfiguration): readonly string[] {
  const { platform, env } = process
  const standard = { platform, home: homeDirectory(), appData: env.APPDATA, cwd: process.cwd() }
  const usual = pathsOf({ ...standard, config: undefined, directory: undefined }).directory
  const own = pathsOf({ ...standard, config: undefined, directory }).file
  return [...(directory === usual ? [] : ["--config-dir", directory]), ...(file === own ? [] : ["--config", file])]
}
