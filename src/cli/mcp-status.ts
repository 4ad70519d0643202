/** `svc mcp list` and `svc mcp status`: show the servers in the configuration, with their state if svc is running. */
import type { CommandDef } from "citty"
import { loginHint } from "../backend/client-transport.ts"
import { hiddenNote, unknownOverridesText } from "../catalog/tool-settings.ts"
import { CONTEXT_ARGS, ONE_SERVER_ARG, openContext } from "../commands/command-context.ts"
import { writtenName } from "../config/edit.ts"
import { type EffectiveValue, effectiveOf, valueText } from "../config/effective.ts"
import { systemClock } from "../lib/clock.ts"
import { ConfigError, formatIssue, type Issue, UnavailableError } from "../lib/errors.ts"
import { homeDirectory } from "../lib/home-directory.ts"
import { ago, facts, issueLines, print, say, table } from "../lib/output.ts"
import { memoryText, type ProcessUsage, usageOf } from "../lib/process-usage.ts"
import type { Cell } from "../lib/table.ts"
import { counted, shortPath, times } from "../lib/text.ts"
import { idleStateOf, stateCell, TONE_BY_STATE } from "../report/server-state.ts"
import { describeServers, runningServers } from "../report/servers.ts"
import { sharedStateNotes } from "../report/shared-state.ts"
import type { ServerStatus, Status, ToolResultSizes } from "../report/status.ts"
import { configuredServers, findIssues, runningStatus } from "../serve/local-configuration.ts"
import { readTexts } from "../store/documents.ts"

export const list: CommandDef = {
  meta: { name: "list", description: "List the servers" },
  args: CONTEXT_ARGS,
  async run({ args }) {
    const context = openContext(args)
    const status = await runningStatus(context)
    const read = readUsed(status, () => configuredServers(context))
    if (status?.demo === true) say("svc serves the demo; `svc stop` ends it")
    else if (read === undefined) say("mcp.json is invalid; showing the running servers (see `svc config check`)")
    else if (status === undefined && read.size > 0 && args.json !== true)
      say("svc is not running for this configuration; start it with `svc serve`")
    const rows = describeServers(read ?? runningOf(status), status).map(({ instances: _, ...row }) => row)
    print(args.json === true, rows, () =>
      rows.length === 0 && read !== undefined
        ? "no servers yet; add one with `svc mcp add`"
        : table(
            ["name", "type", "state", "tools", "tags"],
            rows.map((row) => [row.name, row.type, stateCell(row.state), toolCount(row), row.tags.join(", ")]),
          ),
    )
    return 0
  },
}

export const status: CommandDef = {
  meta: {
    name: "status",
    description: "Show the state of the servers, or the details of one; --verbose adds the effective configuration",
  },
  args: {
    ...ONE_SERVER_ARG,
    ...CONTEXT_ARGS,
    verbose: { type: "boolean", description: "Show the effective configuration and the origin of each value" },
    "show-secrets": { type: "boolean", description: "Show secret values" },
  },
  async run({ args }) {
    const context = openContext(args)
    const live = await runningStatus(context)
    const used = readUsed(live, () => {
      return { document: context.document(), world: context.world(), known: configuredServers(context) }
    })
    const written = used?.known ?? runningOf(live)
    const usage = usageOf((live?.servers ?? []).flatMap(({ pid }) => pid ?? []))
    const wanted = typeof args.name === "string" ? writtenName(args.name, [...written.keys()]) : undefined
    const servers = describeServers(written, live).flatMap((server) => {
      if (wanted !== undefined && server.name !== wanted) return []
      const effective =
        args.verbose === true && used !== undefined
          ? effectiveOf(used.document, server.name, used.world, args["show-secrets"] === true)
          : undefined
      const instances = server.instances.map((one) => ({ ...one, ...usedBy(usage, one.pid) }))
      return [{ ...server, instances, ...(effective === undefined ? {} : { effective }) }]
    })
    const found = () => findIssues(context, () => readTexts(context.paths))
    const issues =
      wanted === undefined
        ? (live?.issues ?? found().map(formatIssue))
        : issuesOf(
            wanted,
            (readUsed(live, found) ?? []).filter(({ server }) => server === wanted),
            live,
          )
    const warnings = [...sharedStateNotes(live), ...(live?.warnings ?? [])]
    print(args.json === true, { running: live !== undefined, servers, issues, warnings }, () => {
      const parts: string[] = []
      if (live === undefined) parts.push("svc is not running for this configuration; start it with `svc serve`")
      else if (servers.length === 0)
        parts.push(live.loaded ? "no servers yet; add one with `svc mcp add`" : "the configuration is not loaded yet")
      else if (wanted !== undefined) parts.push(...servers.flatMap((server) => detailsOf(server, live)))
      else {
        const rows = servers.flatMap(({ name, instances }) =>
          instances.length === 0 ? [rowWithoutInstance(name, live)] : instances.map(rowOf),
        )
        const hasUsage = usage.size > 0
        const shown = rows.map((row) => (hasUsage ? row : row.filter((_cell, at) => at !== MEMORY_COLUMN)))
        const memory = hasUsage ? [{ title: "memory", fit: "whole" } as const] : []
        parts.push(table(["name", "state", "since", "tools", ...memory, { title: "note", fit: "wrap" }], shown))
      }
      for (const { name, effective } of servers)
        if (effective !== undefined) parts.push(`${name}\n${effectiveTable(effective)}`)
      if (wanted === undefined) parts.push(...warnings.map((warning) => `warning: ${warning}`))
      if (issues.length > 0) parts.push(issueLines(issues))
      return parts.join("\n\n")
    })
    return 0
  },
}

/** Formats effective values with the origin of each. Long values are not cut, but continue on the next line. */
export const effectiveTable = (effective: readonly EffectiveValue[]): string =>
  table(
    [
      { title: "key", fit: "whole" },
      { title: "value", fit: "wrap" },
      { title: "from", fit: "whole" },
    ],
    effective.map(({ key, value, from, ignored }) => [
      `  ${key}`,
      valueText(value),
      `${from.join(", ")}${ignored === true ? " (ignored)" : ""}`,
    ]),
  )

// ---

/**
 * Formats the issues of a server. If it runs nevertheless, says so: it keeps its last valid settings, which the file no
 * longer has.
 */
function issuesOf(name: string, issues: readonly Issue[], live: Status | undefined): readonly string[] {
  const isKept =
    live !== undefined &&
    !Object.hasOwn(live.invalid, name) &&
    (live.templates.includes(name) || live.servers.some((one) => one.name === name))
  const unloaded = `${name} is not loaded: `
  return isKept && issues.some(({ message }) => message.startsWith(unloaded))
    ? [
        `${name} keeps running in its last valid form`,
        ...issues.map((issue) => formatIssue({ ...issue, message: issue.message.replace(unloaded, "") })),
      ]
    : issues.map(formatIssue)
}

/** Reads the documents; undefined if the running svc does not use them, because they are invalid or it serves the demo. */
function readUsed<T>(live: Status | undefined, read: () => T): T | undefined {
  if (live?.demo === true) return undefined
  try {
    return read()
  } catch (error) {
    if (live !== undefined && (error instanceof ConfigError || error instanceof UnavailableError)) return undefined
    throw error
  }
}

const runningOf = (status: Status | undefined) => (status === undefined ? new Map() : runningServers(status))

/** Returns the row of a configured server without a process or connection, with the reason if svc cannot run it. */
function rowWithoutInstance(name: string, live: Status): Cell[] {
  const state = idleStateOf(name, live)
  return [name, stateCell(state), "", "", "", reasonOf(name, live)]
}

const reasonOf = (name: string, { invalid, unowned }: Status): string => invalid[name] ?? unowned?.[name] ?? ""

/** Formats the tools that a server offers, such as `6 (2 hidden)`. */
const toolCount = ({ tools, hiddenTools }: { tools?: number | undefined; hiddenTools?: number | undefined }): string =>
  tools === undefined ? "" : `${tools}${hiddenNote(hiddenTools)}`

/** A server with what its process tree uses: memory in bytes, processor time in milliseconds. */
type MeasuredServer = ServerStatus & Partial<ProcessUsage>

/** Returns the row of a process or connection. */
function rowOf(one: MeasuredServer): Cell[] {
  const signIn = one.authorizationUrl === undefined ? [] : [`run \`svc auth login ${one.name}\``]
  return [
    one.projects === undefined ? one.id : `${one.name} (${projectsText(one.projects)})`,
    stateCell(one.state),
    one.since === undefined ? "" : elapsed(one.since),
    toolCount(one),
    one.memory === undefined ? "" : memoryText(one.memory),
    [
      ...signIn,
      ...notesOf({ ...one, warnings: shortened(one) }).filter(
        (note) => signIn.length === 0 || note !== loginHint(one.name),
      ),
    ].join("; "),
  ]
}

/** Returns the warnings about a server; for several, only their number: in a row, they would hide the other servers. */
function shortened({ name, warnings = [] }: ServerStatus): readonly string[] {
  return warnings.length < 2 ? warnings : [`${counted(warnings.length, "warning")}: see \`svc mcp status ${name}\``]
}

/** The column of `rowOf` that is left out on a system that does not tell the memory. */
const MEMORY_COLUMN = 4

/** Returns the members of a server about its process tree; none if it has no process, or the system does not tell. */
function usedBy(usage: ReadonlyMap<number, ProcessUsage>, pid: number | undefined): Partial<ProcessUsage> {
  return (pid === undefined ? undefined : usage.get(pid)) ?? {}
}

const projectsText = (projects: readonly string[]): string =>
  projects.map((path) => shortPath(path, homeDirectory())).join(", ")

/** Returns what a person should know about a server, the most urgent first. */
function notesOf(one: ServerStatus): readonly string[] {
  const retry =
    one.nextRetryAt === undefined
      ? undefined
      : `next try in ${ago(Date.parse(one.nextRetryAt) - systemClock.now())} (attempt ${one.attempt})`
  const notes = [
    one.lastError,
    retry,
    one.empty === true ? "offers no tools, prompts or resources" : undefined,
    ...(one.issues ?? []),
    ...(one.protocolErrors ?? []),
    ...(one.warnings ?? []),
    one.unknownOverrides === undefined ? undefined : unknownOverridesText(one.unknownOverrides),
    one.changedTools === undefined ? undefined : `changed tools: ${one.changedTools.join(", ")}`,
    one.suspiciousTools === undefined ? undefined : `invisible characters: ${one.suspiciousTools.join(", ")}`,
    one.restarts === 0 ? undefined : restartsText(one),
  ]
  return [...new Set(notes.filter((note) => note !== undefined))]
}

/** Returns how often svc restarted a process, or tried to reconnect a remote server. */
const restartsText = ({ type, restarts }: ServerStatus): string =>
  type === "stdio" ? `restarted ${times(restarts)}` : `${restarts} ${restarts === 1 ? "try" : "tries"}`

const resultsText = ({ tool, count, p50, p99, cut }: ToolResultSizes): string =>
  `${tool}: ${counted(count, "result")}, median ${p50} bytes, p99 ${p99} bytes${cut === 0 ? "" : `, ${cut} cut`}`

/** Returns the detail view of a server: everything that is known about it, in full. */
function detailsOf(
  { name, instances }: { readonly name: string; readonly instances: readonly MeasuredServer[] },
  live: Status,
): readonly string[] {
  if (instances.length === 0)
    return [
      `${name}\n${facts([
        ["state", stateCell(idleStateOf(name, live))],
        ["reason", reasonOf(name, live)],
      ])}`,
    ]
  return instances.map((one) => {
    const since = one.since === undefined ? "" : ` for ${elapsed(one.since)}`
    const count = (number: number | undefined) => (number === undefined ? "" : String(number))
    const mcp = one.protocolVersion === undefined ? "" : `${one.protocolVersion}, ${one.era} era`
    return `${one.id}\n${facts([
      ["state", { text: `${one.state}${since}`, tone: TONE_BY_STATE[one.state] }],
      ["project", projectsText(one.projects ?? [])],
      ["type", one.type],
      ["process", count(one.pid)],
      ["memory", one.memory === undefined ? "" : `${memoryText(one.memory)}, with the processes that it has started`],
      ["processor", one.cpu === undefined ? "" : `${(one.cpu / 1000).toFixed(1)} s since its start`],
      ["MCP", mcp],
      ["tools", toolCount(one)],
      ["prompts", count(one.prompts)],
      ["resources", count(one.resources)],
      ["context", contextText(one)],
      ...(one.results ?? []).map((sizes, at) => [at === 0 ? "results" : "", resultsText(sizes)] as const),
      ["tags", one.tags.join(", ")],
      ["last ping", one.lastPing === undefined ? "" : `${elapsed(one.lastPing)} ago`],
      ...notesOf(one).map((note, at) => [at === 0 ? "note" : "", note] as const),
      ["sign in", one.authorizationUrl ?? ""],
    ])}`
  })
}

/** Formats how much a server adds to the context of a client. */
const contextText = ({ name, characters }: ServerStatus): string =>
  characters === undefined
    ? ""
    : `${characters.tools} characters of tools, ${characters.instructions} of instructions (\`svc tokens ${name}\`)`

/** Formats the time since an ISO time. */
const elapsed = (time: string): string => ago(systemClock.now() - Date.parse(time))
