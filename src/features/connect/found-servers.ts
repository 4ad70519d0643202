/**
 * The servers that other applications have, and what an import does with each: it adds it, under which name, or skips it, because
 * svc already has it, because it is svc itself, or because it belongs to a project.
 */
import { existsSync, readdirSync, readFileSync } from "node:fs"
import { dirname, isAbsolute, join, resolve } from "node:path"
import { slugOf } from "../../config/server-spec.ts"
import { isLoopback } from "../../lib/address.ts"
import { ConfigError, messageOf, RequestError } from "../../lib/errors.ts"
import { homeDirectory } from "../../lib/home-directory.ts"
import { isSameValue, mapStrings } from "../../lib/json.ts"
import { visible } from "../../lib/log.ts"
import { say } from "../../lib/output.ts"
import { shortPath } from "../../lib/text.ts"
import { configuredServers, type LocalConfiguration } from "../../serve/local-configuration.ts"
import { decodeText, readRegularFile } from "../../store/files.ts"
import { isObject, type Params } from "../../wire/message.ts"
import { clientHost } from "./client-connection.ts"
import { readClientDocument } from "./client-edit.ts"
import { CLIENTS, type ClientFile, type ClientName, clientFiles } from "./clients.ts"
import { deadAddress } from "./dead-address.ts"
import { type ForeignServer, isSameServer, isSvc, placed, readForeignServers } from "./import.ts"

/** The origin of servers. `client`: undefined if the file is not of a known client. */
export type ServerPlace = ClientFile & {
  readonly client: ClientName | undefined
  /** The project of a project's file. */
  readonly folder?: string
  /** The servers of the file that the client keeps switched off elsewhere. */
  readonly off?: readonly string[]
}
type Found = ForeignServer & {
  readonly from: ServerPlace
  readonly isTemplate: boolean
  /** The folder of the only project in which the client offers the server. */
  readonly folder: string | undefined
}
/** What the import does with a found server. `same`: svc already has it. `because`: it is svc itself, belongs to a project, or has a problem. */
type Outcome =
  | { readonly kind: "added" }
  | { readonly kind: "same"; readonly why: string }
  | { readonly kind: "skipped"; readonly because: "itself" | "project" | "problem"; readonly why: string }
/** A found server under the name that it gets, and what the import does with it. */
export type ImportRow = Found & { readonly outcome: Outcome }

/**
 * Finds the servers of a client or file, or of all clients, and decides what an import does with each. `onskip` receives why one of
 * many files cannot be read. `addresses`: those of svc itself.
 */
export async function findServers(
  context: LocalConfiguration,
  from: unknown,
  withProject: boolean,
  addresses: readonly string[],
  onskip: (text: string) => void = (text) => say(`skipped: ${text}`),
): Promise<readonly ImportRow[]> {
  const found = sources(from, withProject).flatMap((source) =>
    serversIn(source.file, from === undefined ? onskip : undefined).map((one): Found => {
      const folder = one.project ?? source.folder
      const { server: written, isTemplate, note } = placed(one.server, folder, existsSync)
      const server = source.off?.includes(one.name) ? { ...written, disabled: true } : written
      const notes = note === undefined ? one.notes : [...one.notes, note]
      return { ...one, server, isTemplate, notes, from: source, folder }
    }),
  )
  return compare(context, found, addresses, withProject)
}

/** Whether a server is skipped because it belongs to a project. */
export const isOfProject = (row: ImportRow): boolean =>
  row.outcome.kind === "skipped" && row.outcome.because === "project"

/** Returns the shortened path of the project to which a server belongs; empty if it belongs to none. */
export function projectOf({ folder = "" }: Pick<Found, "folder">): string {
  return shortPath(folder, homeDirectory())
}

/** Inputs of VS Code, which asks for their values when it starts a server. */
const INPUT = /\$\{input:([^{}]*)\}/g
/** Returns the inputs that a server asks for. */
export const inputsOf = (server: Params): readonly string[] => [
  ...new Set([...JSON.stringify(server).matchAll(INPUT)].map(([, id = ""]) => id)),
]

/** Returns the variable that replaces an input of a server. */
export const inputVariable = (server: string, id: string): string =>
  `${slugOf(server)}_${id}`
    .replace(/\W/g, "_")
    .replace(/^(?=\d)/, "_")
    .toUpperCase()

/** Returns a server with variables in place of its inputs. */
export const withVariables = (server: Params, name: string): Params =>
  mapStrings(server, (text) => text.replace(INPUT, (_, id: string) => `\${${inputVariable(name, id)}}`)) as Params

// ---

/** Decides what the import does with each server, and under which name: different servers with the same name get a number. */
async function compare(
  context: LocalConfiguration,
  found: readonly Found[],
  addresses: readonly string[],
  withProject: boolean,
): Promise<readonly ImportRow[]> {
  const world = context.world()
  const known = new Map([...configuredServers(context)].map(([name, { server }]) => [name, server]))
  const rows: ImportRow[] = []
  for (const row of found) {
    const isSame = ([name, other]: readonly [string, Params]) => {
      const server = withVariables(row.server, name)
      return isSameServer(server, other, world) || isSameValue(server, other)
    }
    const same = [...known].find(isSame)?.[0]
    const own =
      isSvc(row.server, addresses) || (await answersAsSvc(row.server))
        ? "it is svc itself"
        : (await deadAddress(row)) && "it is an entry for svc, and nothing listens there"
    // Slugs, not names: "a b" and "a/b" would give their tools the same names.
    const name = freeName(row.name, new Set([...known.keys()].map(slugOf)))
    if (own !== undefined) rows.push({ ...row, outcome: { kind: "skipped", because: "itself", why: own } })
    else if (row.problem !== undefined)
      rows.push({ ...row, outcome: { kind: "skipped", because: "problem", why: row.problem } })
    else if (same !== undefined) rows.push({ ...row, outcome: { kind: "same", why: `same as ${same}` } })
    else if (row.project !== undefined && !withProject)
      rows.push({ ...row, outcome: { kind: "skipped", because: "project", why: ofProject(row) } })
    else {
      const differs = name === row.name ? [] : [`named ${name}, because it differs from the other ${row.name}`]
      const widens = row.folder === undefined ? [] : ["svc offers it in every project"]
      rows.push({ ...row, name, notes: [...row.notes, ...differs, ...widens], outcome: { kind: "added" } })
      known.set(name, row.server)
    }
  }
  return rows
}

/** Why svc does not import the server of a project. */
const ofProject = (row: Found): string =>
  `it belongs to ${projectOf(row)}; \`svc config import --project\` imports it for every project`

/** Returns `name`, with a number if its slug is taken. */
function freeName(name: string, taken: ReadonlySet<string>): string {
  if (!taken.has(slugOf(name))) return name
  for (let count = 2; ; count++) if (!taken.has(slugOf(`${name}-${count}`))) return `${name}-${count}`
}

/** Whether the server is on this machine, and svc answers at its address: another svc may listen on another port. */
async function answersAsSvc({ url }: Params): Promise<boolean> {
  if (typeof url !== "string" || !URL.canParse(url) || !isLoopback(new URL(url).hostname)) return false
  try {
    const response = await fetch(new URL("/health", url), { signal: AbortSignal.timeout(PROBE_MS), redirect: "manual" })
    const body: unknown = await response.json()
    return (
      isObject(body) && isObject(body.configuration) && "authEnabled" in body.configuration && isObject(body.servers)
    )
  } catch {
    return false
  }
}

const PROBE_MS = 1000
const MAX_PROJECTS = 500
/** Matches the paths of a process's own open files. */
const STREAM = /^\/(?:dev\/(?:stdin|fd\/\d+)|proc\/self\/fd\/\d+)$/

/** Returns the existing files to read. Skips the files of the project, with a message, unless `withProject`. */
function sources(from: unknown, withProject: boolean): readonly ServerPlace[] {
  const known = CLIENTS.flatMap((application) =>
    clientFiles(application, clientHost()).map(
      (source): ServerPlace => ({
        ...source,
        client: application,
        ...(source.scope === "project" ? { folder: process.cwd() } : {}),
      }),
    ),
  )
  const all = [...known.flatMap(projectFiles), ...known, ...known.flatMap(otherFiles)]
  const application = CLIENTS.find((one) => one === from)
  if (typeof from === "string" && application === undefined) {
    const file = resolve(from)
    if (!existsSync(file))
      throw new RequestError("not_found", `${file} does not exist; give a file or one of ${CLIENTS.join(", ")}`)
    return [all.find((one) => one.file === file) ?? { file, scope: "user", client: undefined }]
  }
  const wanted = all.filter((one) => application === undefined || one.client === application)
  // In the home directory, a file may be both the user's and the project's; editions of a client share a project's file.
  const there = wanted
    .toSorted((one, other) => Number(one.scope === "project") - Number(other.scope === "project"))
    .filter(({ file }, at, sorted) => sorted.findIndex((one) => one.file === file) === at && existsSync(file))
  const skipped = withProject ? [] : there.filter(({ scope }) => scope === "project")
  if (skipped.length > 0)
    say(
      `not read: ${skipped.map(({ file }) => visible(file)).join(", ")} (from the repositories of projects); --project also imports them`,
    )
  if (application !== undefined && there.length === 0)
    throw new RequestError("not_found", `${[...new Set(wanted.map(({ file }) => file))].join(" or ")} does not exist`)
  return there.filter((one) => !skipped.includes(one))
}

/** Returns the other files in which a client keeps servers, beside the one that `svc connect` writes. */
function otherFiles(own: ServerPlace): readonly ServerPlace[] {
  const beside = (...names: readonly string[]) => names.map((file): ServerPlace => ({ ...own, file }))
  if (own.client === "opencode") return own.file.endsWith("c") ? [] : beside(`${own.file}c`)
  // Before they had a file of their own, servers were in the settings.
  if (own.client === "vscode" || own.client === "vscode-insiders")
    return beside(join(dirname(own.file), "settings.json"))
  if (own.client !== "continue") return []
  const servers = dirname(own.file)
  const names = existsSync(servers) ? readdirSync(servers).filter((name) => /\.(?:json|ya?ml)$/.test(name)) : []
  return beside(
    ...["config.yaml", "config.json"].map((name) => join(dirname(servers), name)),
    ...names.slice(0, MAX_PROJECTS).map((name) => join(servers, name)),
  ).filter(({ file }) => file !== own.file)
}

/** The lists in which Claude Code keeps the servers that are off in a project. */
const DISABLED = ["disabledMcpServers", "disabledMcpjsonServers"] as const
const textsOf = (value: unknown): readonly string[] =>
  Array.isArray(value) ? value.filter((one) => typeof one === "string") : []

/** Returns the `.mcp.json` files of the projects in the user's file of Claude Code: it stores its scope `project` there. */
function projectFiles(own: ServerPlace): readonly ServerPlace[] {
  if (own.client !== "claude-code" || own.scope !== "user") return []
  try {
    const { projects } = readClientDocument(decodeText(readRegularFile(own.file)), own.file)
    return Object.entries(isObject(projects) ? projects : {})
      .filter(([folder]) => isAbsolute(folder))
      .slice(0, MAX_PROJECTS)
      .map(([folder, settings]) => ({
        file: join(folder, ".mcp.json"),
        scope: "project",
        client: own.client,
        folder,
        off: isObject(settings) ? DISABLED.flatMap((key) => textsOf(settings[key])) : [],
      }))
  } catch {
    // A missing or malformed file is reported when its servers are read.
    return []
  }
}

/** Returns the servers in a file. If it cannot be read, throws a ConfigError, or gives the reason to `onskip` and returns none. */
function serversIn(file: string, onskip: ((text: string) => void) | undefined): readonly ForeignServer[] {
  try {
    // A shell passes the output of another command as such a path.
    const bytes = STREAM.test(file) ? readFileSync(file) : readRegularFile(file)
    return readForeignServers(decodeText(bytes), file)
  } catch (cause) {
    const wrong =
      cause instanceof ConfigError
        ? cause
        : new ConfigError([{ code: "read", severity: "error", file, message: messageOf(cause) }], { cause })
    if (onskip === undefined) throw wrong
    onskip(wrong.message)
    return []
  }
}
