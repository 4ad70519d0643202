/** The check of `svc doctor` that looks at the files of clients. */
import { existsSync } from "node:fs"
import { isAbsolute } from "node:path"
import { parseDocument } from "../../config/document.ts"
import { readPresets } from "../../config/presets.ts"
import { ConfigError, UnavailableError } from "../../lib/errors.ts"
import type { DoctorCheck, Finding, Installation } from "../../serve/doctor-check.ts"
import { statusIfAnswered } from "../../serve/local-configuration.ts"
import { readTexts } from "../../store/documents.ts"
import { decodeText, readRegularFile, removeAll } from "../../store/files.ts"
import type { Paths } from "../../store/paths.ts"
import type { Params } from "../../wire/message.ts"
import { CLIENTS, type ClientHost, type ClientName, clientFiles, clientRow } from "./clients.ts"
import { findClientTemporaries } from "./connections.ts"
import { deadAddress } from "./dead-address.ts"
import { directoryIn, isSvc, presetsIn, readForeignServers, servedEntries } from "./import.ts"

export const clientsCheck: DoctorCheck = {
  id: "clients",
  subject: "the clients",
  run: async (installation) => [...(await checkClients(installation)), ...leftCopies(installation)],
}

// ---

/** Returns where clients keep their files; those of projects are not checked. */
function hostOf({ context: { baseWorld } }: Installation): ClientHost {
  const { home, platform, parent: env } = baseWorld
  return { platform, home, cwd: home, env, exists: existsSync }
}

/** Finds servers that both a client and svc start, and clients' entries for svc that lead nowhere. */
async function checkClients(installation: Installation): Promise<readonly Finding[]> {
  const { context, specs } = installation
  const { endpoint, url } = (await statusIfAnswered(context)) ?? {}
  const addresses = [endpoint, url].flatMap((one) => one ?? [])
  const world = context.world()
  const host = hostOf(installation)
  const config = readTexts(context.paths).config() ?? ""
  const seen = new Set<string>()
  const found = CLIENTS.map(async (client): Promise<readonly Finding[]> => {
    const [{ file }] = clientFiles(client, host)
    // Editions of a client may share a file.
    if (seen.has(file) || !existsSync(file)) return []
    seen.add(file)
    const servers = foreignServers(file)
    // An invalid configuration has no servers, so nothing can run twice.
    const doubled = specs.length === 0 ? [] : servedEntries(servers, config, world)
    const names = doubled.map(({ name }) => name)
    const dead = await Promise.all(servers.map((server) => deadAddress(server)))
    const urls = [...new Set(dead.filter((url) => url !== undefined))]
    return [
      ...(names.length === 0
        ? []
        : [
            doubledFinding(
              client,
              names,
              servers.some(({ name }) => name === "svc"),
            ),
          ]),
      ...urls.map((url) => deadFinding(client, url)),
      ...servers.flatMap(({ server }) => {
        const fault = faultOf(server, context, addresses)
        return fault === undefined ? [] : [faultFinding(client, fault)]
      }),
    ]
  })
  return (await Promise.all(found)).flat()
}

/** Finds copies of clients' files that killed processes have left. */
function leftCopies(installation: Installation): readonly Finding[] {
  const { paths } = installation.context
  const known = CLIENTS.map((client) => clientFiles(client, hostOf(installation))[0].file)
  const files = findClientTemporaries(paths, installation.clock.now(), known)
  if (files.length === 0) return []
  return [
    {
      check: "leftovers",
      severity: "warning",
      subject: paths.directory,
      what: `copies of clients' files that killed processes left: ${files.join(", ")}`,
      why: "they may contain keys",
      fix: "svc doctor --fix",
      repair: () => removeAll(files),
    },
  ]
}

const doubledFinding = (client: ClientName, names: readonly string[], isConnected: boolean): Finding => ({
  check: "clients",
  severity: "warning",
  subject: client,
  what: `${clientRow(client).title} also starts ${names.join(", ")}`,
  why: isConnected
    ? "svc serves them as well, so each runs twice and the client shows each tool twice"
    : "svc serves them as well, so each runs twice",
  fix: `svc connect ${client} --replace`,
})

const deadFinding = (client: ClientName, url: string): Finding => ({
  ...faultFinding(client, `expects svc at ${url}, where nothing listens`),
  fix: `start \`svc serve\` at that address, or correct the address with \`svc connect ${client}\``,
})

/** Returns why an entry for svc gives its client nothing: svc is gone, or the preset. Undefined if it works. */
function faultOf(
  server: Params,
  { paths, baseWorld }: Installation["context"],
  addresses: readonly string[],
): string | undefined {
  const { command } = server
  if (!isSvc(server, addresses)) return undefined
  if (typeof command === "string") {
    if (isAbsolute(command) && !existsSync(command)) return `starts svc as ${command}, which does not exist`
    const { home, platform, parent } = baseWorld
    if (directoryIn(server, { platform, home, appData: parent.APPDATA }) !== paths.directory) return undefined
  }
  const presets = knownPresets(paths)
  const unknown = presetsIn(server).find((name) => presets?.has(name) === false)
  return unknown === undefined ? undefined : `asks svc for the preset ${unknown}, which does not exist`
}

/** Returns the presets; undefined if the file is not valid, which the check of the configuration reports. */
function knownPresets(paths: Paths): ReadonlyMap<string, unknown> | undefined {
  try {
    return readPresets(parseDocument(readTexts(paths).presets() ?? "{}", paths.presets)).presets
  } catch (error) {
    if (error instanceof ConfigError || error instanceof UnavailableError) return undefined
    throw error
  }
}

const faultFinding = (client: ClientName, fault: string): Finding => ({
  check: "clients",
  severity: "warning",
  subject: client,
  what: `${clientRow(client).title} ${fault}`,
  why: "the client gets no tools from svc",
  fix: `svc connect ${client}`,
})

/** Returns the servers in a client's file; none if the file is invalid, which the client itself reports. */
function foreignServers(file: string): ReturnType<typeof readForeignServers> {
  try {
    return readForeignServers(decodeText(readRegularFile(file)), file)
  } catch {
    return []
  }
}
