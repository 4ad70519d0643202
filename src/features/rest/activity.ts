/** Endpoints for activity: status, sessions, calls, approvals, logs and events. */
import { isDeepStrictEqual } from "node:util"
import * as z from "zod"
import { qualify } from "../../catalog/name.ts"
import { slugOf } from "../../config/server-spec.ts"
import { delay } from "../../lib/clock.ts"
import { digest } from "../../lib/digest.ts"
import { LOG_LEVELS } from "../../lib/log.ts"
import { ownCommand } from "../../lib/own-command.ts"
import { approvalsOf, type PendingChange, pendingChanges } from "../../report/approvals.ts"
import type { LogLine } from "../../store/server-logs.ts"
import { isObject, parseJson } from "../../wire/message.ts"
import { millis, type ShownCall, shownCall } from "./call-records.ts"
import { defineEndpoint, type Endpoint, type RestPorts } from "./endpoint.ts"
import { openEventStream } from "./event-stream.ts"
import { PAGE_QUERY, pageBy, pageSchema } from "./page.ts"
import { describeAll, describeOne, statusNow } from "./servers.ts"
import { approvalSchema, lineSchema } from "./shapes.ts"

const status = defineEndpoint({
  method: "GET",
  path: "/status",
  summary: "Show svc itself",
  answer: z.strictObject({
    version: z.string(),
    uptimeSeconds: z.number(),
    pid: z.number(),
    file: z.string(),
    endpoint: z.string().optional().describe("The address of MCP for clients"),
    loaded: z.boolean().describe("False until the configuration has been read for the first time"),
    authEnabled: z.boolean(),
    demo: z.array(z.string()).describe("The command of a small built-in server, to try svc with"),
    isDemo: z.boolean().describe("Whether this is `svc serve --demo`, whose changes are gone when it stops"),
    activity: z.enum(["off", "names", "content"]).describe("What svc keeps of the last calls (`--activity`)"),
    servers: z.record(z.string(), z.number()).describe("Number of servers by state"),
    sessions: z.number(),
    callsInFlight: z.number(),
    issues: z.number().describe("Number of problems in the configuration"),
    warnings: z.array(z.string()).describe("Limits of clients that all servers together exceed"),
  }),
  faults: [],
  run({ ports }) {
    const { version, uptimeSeconds, pid, authEnabled } = ports.facts()
    const { loaded, warnings, issues } = statusNow(ports)
    const byState = Map.groupBy(describeAll(ports), ({ state }) => state)
    return {
      version,
      uptimeSeconds,
      pid,
      file: ports.file,
      ...(ports.endpoint === undefined ? {} : { endpoint: ports.endpoint }),
      loaded,
      authEnabled,
      demo: [...ownCommand("demo-server")],
      isDemo: ports.isDemo,
      activity: ports.activity,
      servers: Object.fromEntries([...byState].map(([state, { length }]) => [state, length])),
      sessions: [...ports.sessions()].length,
      callsInFlight: ports.agent.inFlight,
      issues: issues.length,
      warnings: [...warnings],
    }
  },
})

const sessions = defineEndpoint({
  method: "GET",
  path: "/sessions",
  summary: "List the sessions of clients",
  description: "Clients of the 2026 revision have no sessions.",
  query: z.strictObject(PAGE_QUERY),
  answer: pageSchema(
    z.strictObject({
      id: z.string().describe("Identifies the session here. Not its id in MCP, which is a credential"),
      principal: z.string(),
      client: z.string().describe("Name and version, as stated by the client"),
      protocolVersion: z.string(),
      lastSeen: z.string(),
      listening: z.boolean().describe("Whether the session has an open stream"),
      inFlight: z.number(),
      selection: z.string().describe("The servers that the client's address selects; empty for all"),
    }),
  ),
  faults: [],
  run({ ports, query }) {
    const all = [...ports.sessions()].map((session) => ({
      id: digest(session.id),
      principal: session.principal,
      client: [session.info.name, session.info.version].filter((part) => typeof part === "string").join(" "),
      protocolVersion: session.protocolVersion,
      lastSeen: new Date(session.lastSeen).toISOString(),
      listening: session.outlet !== undefined,
      inFlight: session.inFlight,
      selection: session.scope.kind === "server" ? session.scope.id : selectionText(session.scope.name),
    }))
    return pageBy(all, ({ id }) => id, query)
  },
})

const activity = defineEndpoint({
  method: "GET",
  path: "/activity",
  summary: "Count the calls of the last hour, by minute, server and tool",
  description: "svc begins to count at the first request to REST.",
  query: z.strictObject({ server: z.string().optional() }),
  answer: z.strictObject({
    since: z.string().describe("When svc started to count"),
    items: z.array(
      z.strictObject({
        minute: z.string(),
        server: z.string(),
        tool: z.string(),
        calls: z.number(),
        errors: z.number(),
        meanMs: z.number(),
        maxMs: z.number(),
      }),
    ),
  }),
  faults: [],
  run({ ports, query }) {
    const counts = ports.history.counts().filter(({ server }) => query.server === undefined || server === query.server)
    return {
      since: new Date(ports.history.since).toISOString(),
      items: counts.map(({ minute, server, tool, calls, errors, seconds, longest }) => ({
        minute: new Date(minute).toISOString(),
        server,
        tool,
        calls,
        errors,
        meanMs: millis(seconds / calls),
        maxMs: millis(longest),
      })),
    }
  },
})

const approvals = defineEndpoint({
  method: "GET",
  path: "/approvals",
  summary: "List the tools whose definition has changed since svc first saw it, with the changes",
  description:
    "To approve a change, use `POST /servers/{name}/approve`. To refuse it, hide the tool (`PATCH /tools`), or do nothing if the tool is held.",
  query: z.strictObject({ server: z.string().optional(), ...PAGE_QUERY }),
  answer: pageSchema(approvalSchema),
  faults: [],
  run({ ports: { agent }, query }) {
    const keyOf = ({ server, instance = "", tool }: PendingChange) => `${server} ${instance} ${tool}`
    const changes = pendingChanges(agent, query.server)
    const items = approvalsOf(agent, pageBy(changes, keyOf, query).items)
    return { ...pageBy(changes, keyOf, { ...query, limit: Math.max(1, items.length) }), items }
  },
})

const LOG_QUERY = {
  server: z.string().optional(),
  level: z.enum(LOG_LEVELS).default("debug").describe("Only lines at this level or above"),
  q: z.string().optional().describe("Only lines that contain this text"),
}

const logs = defineEndpoint({
  method: "GET",
  path: "/logs",
  summary: "Show the latest log lines of the servers, oldest first",
  query: z.strictObject({ ...LOG_QUERY, limit: z.coerce.number().int().min(1).max(2000).default(200) }),
  answer: z.strictObject({ items: z.array(lineSchema) }),
  faults: ["not_found"],
  run({ ports, query }) {
    const names = namesBySlug(ports)
    const wanted = query.server === undefined ? [...names.keys()] : [slugOf(describeOne(ports, query.server).name)]
    const lines = wanted.flatMap((slug) => ports.serverLogs.read(slug)).filter(selects(query, undefined))
    lines.sort((one, other) => one.at - other.at)
    return { items: lines.slice(-query.limit).map((line) => shownLine(line, names)) }
  },
})

const logStream = defineEndpoint({
  method: "GET",
  path: "/logs/stream",
  summary: "Follow the logs of the servers",
  description: "Server-sent events named `line`, each with one log line in the format of `/logs`.",
  query: z.strictObject(LOG_QUERY),
  answer: "stream",
  faults: ["not_found", "too_many"],
  run({ ports, query }) {
    const slug = query.server === undefined ? undefined : slugOf(describeOne(ports, query.server).name)
    const wanted = selects(query, slug)
    return openEventStream(ports, (send) =>
      ports.serverLogs.watch((line) => {
        if (wanted(line)) send("line", shownLine(line, namesBySlug(ports)))
      }),
    )
  },
})

const events = defineEndpoint({
  method: "GET",
  path: "/events",
  summary: "Follow changes of svc and its servers",
  description:
    "Server-sent events: `server` (a server that has changed, in the format of `/servers`), `removed` (`{name}`: a server was removed), `configuration` (`{issues}`: a configuration was applied or refused), `catalog` (`{generation}`: the lists of tools, prompts or resources have changed), `call` (`{server, tool, outcome, ms, time}`: a call has finished), `question` (`{id, asks, message, requestedSchema | url}`: a tool asks a person), `answered` (`{id}`: it waits no longer).",
  answer: "stream",
  faults: ["too_many"],
  run: ({ ports }) => openEventStream(ports, (send) => watchAll(ports, send)),
})

const calls = defineEndpoint({
  method: "GET",
  path: "/calls",
  summary: "List the last calls of tools, newest first, with their arguments and the beginnings of their answers",
  description:
    "svc keeps at most 200, in memory: their names from the start, and their content from the first request to REST on; `--activity` changes this. Secrets are hidden.",
  query: z.strictObject({
    server: z.string().optional(),
    q: z.string().optional().describe("Only calls with this text in tool, client, arguments or answer"),
    failed: z.stringbool().default(false).describe("Only calls that failed"),
  }),
  answer: z.strictObject({
    items: z.array(
      z.strictObject({
        id: z.number(),
        time: z.string(),
        ms: z.number(),
        waited: z
          .number()
          .describe("Milliseconds of `ms` that the call waited for its server to start, or for a person"),
        atServer: z.number().describe("Milliseconds of `ms` that the server took; the remainder is svc's own time"),
        server: z.string(),
        tool: z.string(),
        qualifiedName: z.string().optional().describe("The tool's name in the aggregate, if its server runs"),
        outcome: z.string(),
        client: z.string().describe("Name and version, as stated by the client"),
        principal: z.string(),
        arguments: z.unknown().optional().describe("Absent if svc did not keep the content of the call"),
        whole: z.boolean().describe("Whether `arguments` is all that was sent"),
        answer: z.string().optional().describe("The beginning of the JSON-RPC message"),
      }),
    ),
  }),
  faults: [],
  async run({ ports, query: { server, q = "", failed } }) {
    const wanted = q.toLowerCase()
    const slugs = new Map(ports.agent.all().map(({ spec }) => [spec.id, spec.slug]))
    const records = ports.records
      .all()
      .filter((record) => (server === undefined || record.server === server) && !(failed && record.outcome === "ok"))
    const items: (ShownCall & { readonly qualifiedName?: string })[] = []
    for (const [at, record] of records.entries()) {
      // Masking a call may take milliseconds.
      if (at % MASKED_AT_ONCE === 0) await delay(ports.clock, 0)
      const slug = slugs.get(record.server)
      const shown = {
        ...shownCall(record, ports.mask),
        ...(slug === undefined ? {} : { qualifiedName: qualify(slug, record.tool) }),
      }
      if (JSON.stringify(shown).toLowerCase().includes(wanted)) items.push(shown)
    }
    return { items }
  },
})

const usageSchema = z.strictObject({
  memory: z.number().describe("Bytes of resident memory"),
  cpu: z.number().describe("Milliseconds of processor time since the start"),
})

const usage = defineEndpoint({
  method: "GET",
  path: "/usage",
  summary: "Show the memory and the processor time of svc and of each server, with all that it has started",
  description: "Of servers only on Linux; elsewhere `svc mcp status` shows them.",
  answer: z.strictObject({ own: usageSchema, servers: z.record(z.string(), usageSchema) }),
  faults: [],
  run({ ports }) {
    const all = describeAll(ports).map(({ name, instances }) => ({
      name,
      pids: instances.flatMap(({ pid }) => pid ?? []),
    }))
    const { own, trees } = ports.usage(all.flatMap(({ pids }) => pids))
    const servers = all.flatMap(({ name, pids }) => {
      const used = pids.flatMap((pid) => trees.get(pid) ?? [])
      const sum = (key: "memory" | "cpu") => used.reduce((total, one) => total + one[key], 0)
      return used.length === 0 ? [] : [[name, { memory: sum("memory"), cpu: sum("cpu") }] as const]
    })
    return { own, servers: Object.fromEntries(servers) }
  },
})

export const ACTIVITY_ENDPOINTS: readonly Endpoint[] = [
  usage,
  calls,
  status,
  sessions,
  activity,
  approvals,
  logs,
  logStream,
  events,
]

// ---

/** Returns the queries in the name of a scope for people: `preset review`, `tags a, b`. */
function selectionText(name: string): string {
  const [, written = "", rest = ""] = /^(\[.*?\](?= within | for |$))?(.*)$/s.exec(name) ?? []
  const queries = written === "" ? [] : parseJson(written)
  const parts = Array.isArray(queries) ? queries.filter(isObject) : []
  const texts = parts.flatMap((query) =>
    ["preset", "tags", "filter", "tools"].flatMap((key) => {
      const value = query[key]
      return value === undefined ? [] : [`${key} ${Array.isArray(value) ? value.join(", ") : String(value)}`]
    }),
  )
  const [, presets] = / within (\S+)/.exec(rest) ?? []
  return [...texts, ...(presets === undefined ? [] : [`within preset ${presets}`])].join("; ")
}

/** Sends events for changes; changes within GATHER_MS are sent together. Returns the function that ends this. */
function watchAll(ports: RestPorts, send: (event: string, data: unknown) => void): () => void {
  const { agent, clock } = ports
  let known = new Map(describeAll(ports).map((server) => [server.name, server]))
  let cancel: (() => void) | undefined
  const sendServers = () => {
    cancel?.()
    cancel = undefined
    const now = new Map(describeAll(ports).map((server) => [server.name, server]))
    for (const [name, server] of now) if (!isDeepStrictEqual(known.get(name), server)) send("server", server)
    for (const name of known.keys()) if (!now.has(name)) send("removed", { name })
    known = now
  }
  const schedule = () => {
    cancel ??= clock.after(GATHER_MS, sendServers)
  }
  const ends = [
    agent.observe({
      oncatalog(session) {
        if (session !== undefined) return
        send("catalog", { generation: agent.catalog.generation })
        schedule()
      },
      onnotification: () => undefined,
      onstatus(what) {
        if (what === "configuration") {
          // First, because a page that hears of the configuration reads again what it shows, and must not ask for a removed server.
          sendServers()
          send("configuration", { issues: agent.snapshot().issues.length })
        }
        schedule()
      },
    }),
    ports.questions.watch(send),
    ports.watchCalls(({ server, tool, outcome, seconds }) => {
      send("call", { server, tool, outcome, ms: millis(seconds), time: new Date(clock.now()).toISOString() })
    }),
  ]
  return () => {
    cancel?.()
    for (const end of ends) end()
  }
}

const GATHER_MS = 50
/** How many calls are masked in one turn of the event loop. */
const MASKED_AT_ONCE = 10

const namesBySlug = (ports: RestPorts): ReadonlyMap<string, string> =>
  new Map(describeAll(ports).map(({ name }) => [slugOf(name), name]))

type LineQuery = { readonly level: (typeof LOG_LEVELS)[number]; readonly q?: string | undefined }

function selects({ level, q = "" }: LineQuery, slug: string | undefined): (line: LogLine) => boolean {
  const least = LOG_LEVELS.indexOf(level)
  const wanted = q.toLowerCase()
  return (line) =>
    (slug === undefined || line.slug === slug) &&
    LOG_LEVELS.indexOf(line.level) >= least &&
    line.text.toLowerCase().includes(wanted)
}

const shownLine = ({ at, level, slug, text }: LogLine, names: ReadonlyMap<string, string>) => ({
  time: new Date(at).toISOString(),
  level,
  message: text,
  server: names.get(slug) ?? slug,
})
