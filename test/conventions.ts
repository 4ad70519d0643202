/**
 * Checks spans and metrics against the published semantic conventions. The tables are facts from
 * https://github.com/open-telemetry/semantic-conventions (v1.44.0: model/http, model/process, model/network, model/error, model/rpc) and
 * https://github.com/open-telemetry/semantic-conventions-genai (model/mcp, docs/gen-ai/mcp.md; of August 2026).
 */

export type CheckedSpan = {
  readonly name: string
  readonly kind: string
  readonly status: string
  readonly attributes: Readonly<Record<string, unknown>>
  readonly events: readonly string[]
}

export type CheckedMetric = {
  readonly name: string
  readonly unit: string
  readonly instrument: "counter" | "updowncounter" | "gauge" | "histogram"
  readonly points: readonly {
    readonly attributes: Readonly<Record<string, unknown>>
    /** How its value is written. */
    readonly kind: "int" | "double" | "histogram"
    readonly bounds: readonly number[]
  }[]
}

/** Returns what a span lacks, and what it has that the conventions do not know. */
export function problemsOfSpan({ name, kind, status, attributes, events }: CheckedSpan): readonly string[] {
  const problems: string[] = []
  const side = /SERVER$|^2$/.test(kind) ? "server" : "client"
  if (side === "client" && !/CLIENT$|^3$/.test(kind)) problems.push(`has the kind ${kind}`)
  problems.push(
    ...attributeProblems(attributes, [...SPAN_ATTRIBUTES, ...(side === "server" ? SERVER_SPAN : CLIENT_SPAN)]),
  )
  problems.push(...operationProblems(attributes))
  const target = attributes["gen_ai.tool.name"] ?? attributes["gen_ai.prompt.name"]
  const expected = [attributes["mcp.method.name"], target].filter((part) => part !== undefined).join(" ")
  if (name !== expected) problems.push(`is not named ${expected}`)
  if ("mcp.resource.uri" in attributes && !/^resources\//.test(String(attributes["mcp.method.name"])))
    problems.push("has mcp.resource.uri, and is not about a resource")
  const code = Number(attributes["rpc.response.status_code"])
  if (side === "server" && FAULTS_OF_CALLERS.includes(code) && "error.type" in attributes)
    problems.push(`${code} is no error of a server`)
  if (/ERROR$|^2$/.test(status) !== "error.type" in attributes)
    problems.push("has error.type without its status, or the status without it")
  if ("server.port" in attributes && !("server.address" in attributes)) problems.push("has server.port alone")
  for (const event of events) if (!event.startsWith(OWN)) problems.push(`has the event ${event}`)
  return problems.map((problem) => `span ${name}: ${problem}`)
}

/** Returns what a metric lacks, and what it has that the conventions do not know. */
export function problemsOfMetric({ name, unit, instrument, points }: CheckedMetric): readonly string[] {
  const problems: string[] = []
  const known = METRICS[name]
  if (known === undefined && !name.startsWith(OWN)) problems.push("is not in the conventions, and not svc's own")
  if (!/^[a-z][a-z0-9_]*(?:\.[a-z][a-z0-9_]*)*$/.test(name))
    problems.push("is not a name of lower-case words with dots")
  if (!/^(?:s|By|1|\{[a-z_]+\})$/.test(unit)) problems.push(`has the unit ${unit}`)
  if (known !== undefined && (known.unit !== unit || known.instrument !== instrument))
    problems.push(`is a ${instrument} of ${unit}, not a ${known.instrument} of ${known.unit}`)
  for (const { attributes, kind, bounds } of points) {
    problems.push(...attributeProblems(attributes, known?.attributes ?? []))
    for (const required of known?.required ?? []) if (!(required in attributes)) problems.push(`lacks ${required}`)
    if (known?.kind !== undefined && known.kind !== kind) problems.push(`has values of the kind ${kind}`)
    if (known?.bounds !== undefined && String(known.bounds) !== String(bounds))
      problems.push(`has the buckets ${bounds}`)
    if (known?.bounds === MCP_BOUNDS && /operation/.test(name)) problems.push(...operationProblems(attributes))
    if (name === "http.server.request.duration") {
      const status = Number(attributes["http.response.status_code"])
      if (status >= 500 !== "error.type" in attributes)
        problems.push("has an error.type that its status does not explain")
    }
  }
  if (new Set(points.map(({ attributes }) => JSON.stringify(attributes))).size < points.length)
    problems.push("has two points with the same attributes")
  return [...new Set(problems)].map((problem) => `metric ${name}: ${problem}`)
}

// ---

const OWN = "svc."

/** The types of attributes; a list has all values that are allowed. */
const TYPES: Readonly<Record<string, "string" | "int" | readonly string[]>> = {
  "mcp.method.name": "string",
  "mcp.protocol.version": "string",
  "mcp.session.id": "string",
  "mcp.resource.uri": "string",
  "gen_ai.tool.name": "string",
  "gen_ai.prompt.name": "string",
  "gen_ai.operation.name": ["execute_tool"],
  "gen_ai.tool.call.arguments": "string",
  "gen_ai.tool.call.result": "string",
  "jsonrpc.request.id": "string",
  "rpc.response.status_code": "string",
  "error.type": "string",
  "network.transport": ["tcp", "quic", "pipe"],
  "network.protocol.name": ["http"],
  "server.address": "string",
  "server.port": "int",
  "client.address": "string",
  "client.port": "int",
  "http.request.method": [
    "GET",
    "POST",
    "PUT",
    "PATCH",
    "DELETE",
    "HEAD",
    "OPTIONS",
    "CONNECT",
    "TRACE",
    "QUERY",
    "_OTHER",
  ],
  "http.response.status_code": "int",
  "http.route": "string",
  "url.scheme": ["http", "https"],
  "cpu.mode": ["user", "system", "wait"],
}

/** The methods of MCP in the conventions and in its specifications; `_OTHER` for any other. */
const METHODS: readonly string[] = [
  "initialize",
  "ping",
  "server/discover",
  "tools/list",
  "tools/call",
  "prompts/list",
  "prompts/get",
  "resources/list",
  "resources/read",
  "resources/templates/list",
  "resources/subscribe",
  "resources/unsubscribe",
  "subscriptions/listen",
  "completion/complete",
  "logging/setLevel",
  "_OTHER",
]
/** Parse error, invalid request, method not found, invalid params, resource not found. */
const FAULTS_OF_CALLERS = [-32700, -32600, -32601, -32602, -32002]

const COMMON = [
  "mcp.method.name",
  "mcp.protocol.version",
  "gen_ai.tool.name",
  "gen_ai.prompt.name",
  "gen_ai.operation.name",
  "network.transport",
  "network.protocol.name",
  "error.type",
  "rpc.response.status_code",
]
const SPAN_ATTRIBUTES = [
  ...COMMON,
  "mcp.session.id",
  "mcp.resource.uri",
  "jsonrpc.request.id",
  "gen_ai.tool.call.arguments",
  "gen_ai.tool.call.result",
]
const ADDRESS = ["server.address", "server.port"]
const SERVER_SPAN = ["client.address", "client.port"]
const CLIENT_SPAN = ADDRESS
const SESSION = ["mcp.protocol.version", "network.protocol.name", "error.type"]
const MCP_BOUNDS = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300]
const HTTP_BOUNDS = [0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10]

type Known = Pick<CheckedMetric, "unit" | "instrument"> & {
  readonly attributes: readonly string[]
  readonly required?: readonly string[]
  readonly bounds?: readonly number[]
  readonly kind?: "int" | "double" | "histogram"
}

const mcp = (attributes: readonly string[], required: readonly string[] = []): Known => ({
  unit: "s",
  instrument: "histogram",
  attributes,
  required,
  bounds: MCP_BOUNDS,
})

const METRICS: Readonly<Record<string, Known>> = {
  "mcp.client.operation.duration": mcp([...COMMON, ...ADDRESS], ["mcp.method.name"]),
  "mcp.server.operation.duration": mcp(COMMON, ["mcp.method.name"]),
  "mcp.client.session.duration": mcp([...SESSION, ...ADDRESS]),
  "mcp.server.session.duration": mcp(SESSION),
  "http.server.request.duration": {
    unit: "s",
    instrument: "histogram",
    attributes: [
      "http.request.method",
      "url.scheme",
      "http.response.status_code",
      "http.route",
      "error.type",
      "network.protocol.name",
    ],
    required: ["http.request.method", "url.scheme", "http.response.status_code"],
    bounds: HTTP_BOUNDS,
  },
  "process.cpu.time": {
    unit: "s",
    instrument: "counter",
    attributes: ["cpu.mode"],
    required: ["cpu.mode"],
    kind: "double",
  },
  "process.memory.usage": { unit: "By", instrument: "updowncounter", attributes: [], kind: "int" },
  "process.unix.file_descriptor.count": {
    unit: "{file_descriptor}",
    instrument: "updowncounter",
    attributes: [],
    kind: "int",
  },
  "process.uptime": { unit: "s", instrument: "gauge", attributes: [], kind: "double" },
}

function attributeProblems(attributes: CheckedSpan["attributes"], allowed: readonly string[]): readonly string[] {
  return Object.entries(attributes).flatMap(([key, value]) => {
    if (key.startsWith(OWN)) return []
    const type = TYPES[key]
    if (type === undefined || !allowed.includes(key)) return [`has the attribute ${key}`]
    const fits = type === "int" ? Number.isInteger(value) : typeof value === "string" && value !== ""
    const isListed = typeof type === "string" || type.includes(String(value))
    return fits && isListed ? [] : [`${key} is ${JSON.stringify(value)}`]
  })
}

/** What operations of MCP must have, in spans and in metrics. */
function operationProblems(attributes: CheckedSpan["attributes"]): readonly string[] {
  const method = attributes["mcp.method.name"]
  const problems: string[] = []
  if (
    !METHODS.includes(String(method)) &&
    !String(method).startsWith("tasks/") &&
    !String(method).startsWith("skills/")
  )
    problems.push(`mcp.method.name is ${JSON.stringify(method)}`)
  const only = (key: string, of: string) => {
    if (key in attributes !== (method === of)) problems.push(`${key} belongs to ${of}`)
  }
  only("gen_ai.tool.name", "tools/call")
  only("gen_ai.operation.name", "tools/call")
  only("gen_ai.prompt.name", "prompts/get")
  const { "rpc.response.status_code": code, "error.type": error } = attributes
  if (/^-?\d+$/.test(String(error)) && error !== code) problems.push("has another error.type than its code")
  return problems
}
