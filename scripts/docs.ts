/** Writes the reference tables of docs/ from the schemas: `bun run docs`. test/docs.test.ts fails when they are stale. */
import { readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { toJSONSchema, type ZodType } from "zod"
import { SERVE_OPTIONS } from "../src/app/serve-options.ts"
import { oauthSchema, serverSchema } from "../src/config/schema.ts"
import { REMOTE_ONLY, STDIO_ONLY } from "../src/config/server-keys.ts"
import { CLIENTS, clientEntry, clientRow } from "../src/features/connect/clients.ts"
import { ENDPOINTS } from "../src/features/rest/api.ts"
import { ResultSizes } from "../src/features/results/result-sizes.ts"
import { EXIT_CODES } from "../src/lib/errors.ts"
import { prometheusName } from "../src/report/metric-family.ts"
import { families, Metrics } from "../src/report/metrics.ts"
import { isObject, type Params } from "../src/wire/message.ts"
import { JSON_SHAPES } from "../test/json-shapes.ts"

/** The pages with generated parts. */
export const PAGES = ["clients.md", "configuration.md", "operations.md", "json.md", "rest.md"] as const

/** Returns `page` with every generated part replaced. Throws an Error for a part without a generator. */
export function regenerate(page: string): string {
  return page.replace(
    /(<!-- generated: ([a-z-]+) -->\n)[\s\S]*?(<!-- \/generated -->)/g,
    (_whole, start: string, name: string, end: string) => {
      const generate = GENERATORS[name]
      if (generate === undefined) throw new Error(`no generator is named ${name}`)
      return `${start}${generate()}\n${end}`
    },
  )
}

// ---

const GENERATORS: Readonly<Record<string, () => string>> = {
  "server-keys": () => keys(serverSchema(), (key) => transportsOf(key)),
  "oauth-keys": () => keys(oauthSchema()),
  "serve-options": () =>
    table(
      ["option", "meaning"],
      Object.entries(SERVE_OPTIONS).map(([name, { description }]) => [`\`--${name}\``, description]),
    ),
  "exit-codes": () =>
    table(
      ["code", "meaning"],
      EXIT_CODES.map(({ code, meaning }) => [String(code), meaning]),
    ),
  metrics: () => metrics(),
  "json-shapes": () =>
    Object.entries(JSON_SHAPES)
      .map(([noun, schema]) => `## ${noun[0]?.toUpperCase()}${noun.slice(1)}\n\n${members(schema)}`)
      .join("\n\n"),
  "rest-endpoints": () =>
    table(
      ["endpoint", "what it does"],
      ENDPOINTS.map(({ method, path, summary, description, query }) => {
        const { properties = {} } = query === undefined ? {} : toJSONSchema(query, { io: "input" })
        const names = Object.keys(properties).filter((name) => !PAGE_PARAMETERS.has(name))
        const about = description === undefined ? summary : `${summary}. ${description}`
        const parameters = `${about.replace(/\.$/, "")}. Query: ${names.map((name) => `\`${name}\``).join(", ")}`
        return [`\`${method} ${path}\``, names.length === 0 ? about : parameters]
      }),
    ),
  clients: () => clients(),
}

/** The query parameters of all lists, which the page explains once. */
const PAGE_PARAMETERS: ReadonlySet<string> = new Set(["limit", "cursor"])

function keys(schema: ZodType, scope?: (key: string) => string): string {
  const { properties } = toJSONSchema(schema, { io: "input" })
  const rows = Object.entries(isObject(properties) ? properties : {}).map(([key, property]) => {
    const about = isObject(property) ? property : {}
    return [`\`${key}\``, typeOf(about), ...(scope === undefined ? [] : [scope(key)]), String(about.description ?? "")]
  })
  return table(["key", "type", ...(scope === undefined ? [] : ["for"]), "meaning"], rows)
}

/** The members of a shape; what is not required is marked. */
function members(schema: ZodType): string {
  const { properties, required } = toJSONSchema(schema)
  const rows = Object.entries(isObject(properties) ? properties : {}).map(([key, property]) => {
    const about = isObject(property) ? property : {}
    const mark = Array.isArray(required) && required.includes(key) ? "" : "?"
    return [`\`${key}${mark}\``, typeOf(about), String(about.description ?? "")]
  })
  return table(["member", "type", "meaning"], rows)
}

function transportsOf(key: string): string {
  if ((STDIO_ONLY as readonly string[]).includes(key)) return "stdio"
  return (REMOTE_ONLY as readonly string[]).includes(key) ? "remote" : "all"
}

function typeOf(schema: Params): string {
  const choices = Array.isArray(schema.enum) ? schema.enum : undefined
  if (choices !== undefined) return choices.map((choice) => `\`${JSON.stringify(choice)}\``).join(", ")
  const anyOf = Array.isArray(schema.anyOf) ? schema.anyOf.filter(isObject) : undefined
  if (anyOf !== undefined) return anyOf.map(typeOf).join(" or ")
  if (schema.type === "array") return `array of ${isObject(schema.items) ? typeOf(schema.items) : "values"}`
  return Array.isArray(schema.type) ? schema.type.join(" or ") : String(schema.type)
}

/** The clients of `svc connect`, with their files on this page's notation for folders. */
function clients(): string {
  const code = (text: string) => `\`${text}\``
  const rows = CLIENTS.map((name) => {
    const { title, user, windows, project, section, http } = clientRow(name)
    const entry =
      http === undefined
        ? clientEntry(name, { kind: "stdio", command: "svc", args: ["proxy", "--start"] })
        : clientEntry(name, { kind: "http", url: "http://127.0.0.1:3050/mcp", headers: {} })
    const place = (path: string) => code(path.replace(/^settings\//, "<settings>/").replace(/^config\//, "~/.config/"))
    return [
      code(name),
      title,
      [place(user), ...(windows === undefined ? [] : [`${place(windows)} on Windows`])].join(", "),
      project === undefined ? "" : code(project.slice(2)),
      code(`${section.join(".")}.svc = ${JSON.stringify(entry)}`),
    ]
  })
  return table(["client", "name", "user's file", "project's file", "entry"], rows)
}

/** The families as /metrics announces them, with their names in OpenTelemetry. */
function metrics(): string {
  const nothing = { backends: [], issues: [] } as unknown as Parameters<typeof families>[1]
  const counters = new Metrics()
  counters.recordPrincipal("", "ok")
  const all = families(counters, nothing, {
    inFlight: 0,
    sessions: 0,
    streams: 0,
    replica: { id: "", connected: true, count: 1, owned: 0 },
    uptimeSeconds: 0,
    own: { memory: 0, cpu: { user: 0, system: 0 }, startedAt: 0, files: { open: 0, limit: 0 } },
    version: "",
    usage: new Map([[0, { memory: 0, cpu: 0 }]]),
    results: new ResultSizes(),
    spans: { exported: 0, dropped: 0 },
  })
  const rows = all.map((family) => [
    family.only === "otlp" ? "" : `\`${prometheusName(family)}\``,
    family.only === "prometheus" ? "" : `\`${family.name}\``,
    family.type,
    family.help,
  ])
  return table(["at `/metrics`", "over OTLP", "type", "meaning"], rows)
}

function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]) => `| ${cells.map((cell) => cell.replaceAll("|", "\\|")).join(" | ")} |`
  return [line(head), line(head.map(() => "---")), ...rows.map(line)].join("\n")
}

if (import.meta.main)
  for (const name of PAGES) {
    const file = join(import.meta.dir, "..", "docs", name)
    writeFileSync(file, regenerate(readFileSync(file, "utf8")))
  }
