/** Endpoints for the configuration: servers as written in the file, issues, and presets. */
import { isDeepStrictEqual } from "node:util"
import * as z from "zod"
import { selectServers } from "../../catalog/selection.ts"
import { presetIncludes } from "../../catalog/view-rules.ts"
import { parseDocument } from "../../config/document.ts"
import { addServer, writtenServers } from "../../config/edit.ts"
import { HIDDEN } from "../../config/effective.ts"
import { openKeyWarnings, withoutNewKeys } from "../../config/externalize-secrets.ts"
import { isSecretSetting } from "../../config/oauth-settings.ts"
import { createPreset, deletePreset, editPreset, type Preset, readPresets } from "../../config/presets.ts"
import { jsonSchema } from "../../config/schema.ts"
import { slugOf } from "../../config/server-spec.ts"
import { isOnlyReferences } from "../../config/substitution.ts"
import { TOOL_LISTINGS } from "../../config/tool-listing.ts"
import { digest } from "../../lib/digest.ts"
import { ConfigError, RequestError } from "../../lib/errors.ts"
import { compact, mapStrings } from "../../lib/json.ts"
import { unknownNameError } from "../../lib/nearest.ts"
import { isSecretName } from "../../lib/secret-names.ts"
import { presetReport } from "../../report/preset-report.ts"
import { createScopes } from "../../serve/query-scope.ts"
import { isObject, type Params } from "../../wire/message.ts"
import { applyEdit, reloadSchema, warningsOf } from "../tools/apply-change.ts"
import { resolveServerName, validateChange } from "../tools/plan-change.ts"
import { requireModest } from "../tools/tool.ts"
import { defineEndpoint, type Endpoint, type RestPorts } from "./endpoint.ts"
import { PAGE_QUERY, pageBy, pageSchema } from "./page.ts"
import { describeAll } from "./servers.ts"
import { issueSchema, presetSchema } from "./shapes.ts"
import { requireTools } from "./zero-tools.ts"

const writtenSchema = z.strictObject({
  name: z.string(),
  section: z.string().describe("mcpServers, mcpTemplates or servers"),
  server: z.looseObject({}).describe(`The server as it is written, with ${HIDDEN} in place of secrets`),
  hash: z.string().describe("Hash of the server as it is written; the same as the ETag"),
})

const config = defineEndpoint({
  method: "GET",
  path: "/config",
  summary: "Show the configuration as it is written, with secrets hidden, and its problems",
  answer: z.strictObject({
    file: z.string(),
    servers: z.array(writtenSchema),
    issues: z.array(issueSchema),
  }),
  faults: [],
  run({ ports }) {
    return {
      file: ports.file,
      servers: [...writtenOrNone(ports)].map(([name, one]) => shownServer(ports, name, one)),
      issues: ports.agent.snapshot().issues.map(({ path, ...issue }) => ({
        ...issue,
        message: ports.mask(issue.message),
        ...(path === undefined ? {} : { path: [...path] }),
      })),
    }
  },
})

const schema = defineEndpoint({
  method: "GET",
  path: "/config/schema",
  summary: "Show the JSON Schema of mcp.json",
  answer: z.looseObject({}),
  faults: [],
  run: () => jsonSchema(),
})

const show = defineEndpoint({
  method: "GET",
  path: "/config/servers/{name}",
  summary: "Show a server as it is written, with secrets hidden",
  answer: writtenSchema,
  tagged: true,
  faults: ["not_found"],
  run({ ports, params }) {
    const { config } = ports.editor.read()
    const name = resolveServerName(config, params.name ?? "")
    return shownServer(ports, name, writtenOf(config, name))
  },
})

const replace = defineEndpoint({
  method: "PUT",
  path: "/config/servers/{name}",
  summary: "Replace a server as it is written",
  description: `Members with the value ${HIDDEN} keep their current value. If-Match must contain the ETag of the last read. If the server has changed since then, the answer is 412.`,
  body: z.strictObject({
    server: z.record(z.string(), z.unknown()),
    confirmZeroTools: z.boolean().default(false),
    moveKeys: z
      .boolean()
      .default(false)
      .describe("Whether svc moves what looks like a new key to .env, and writes references in its place"),
  }),
  answer: z.strictObject({ written: writtenSchema, reload: reloadSchema, warnings: z.array(z.string()) }),
  tagged: true,
  conditional: true,
  faults: ["not_found", "conflict", "precondition_failed", "precondition_required"],
  async run({ ports, params, body, request }) {
    const expected = request.headers.get("if-match")
    if (expected === null)
      throw new RequestError("precondition_required", "If-Match is missing; send the ETag of the server that you read")
    requireModest(body.server)
    const name = resolveServerName(ports.editor.read().config, params.name ?? "")
    let warnings: readonly string[] = []
    const { outcome, reload } = await applyEdit(ports, name, (written) => {
      const now = writtenOf(written.config, name)
      if (!expected.split(",").some((tag) => [`"${hashOf(ports, now)}"`, "*"].includes(tag.trim())))
        throw new RequestError(
          "precondition_failed",
          `${name} has changed since you read it; read it again, and repeat your change`,
        )
      const server = unhidden(ports, body.server, now.server, name)
      requireTools(ports, [[name, server]], body.confirmZeroTools)
      if (isDeepStrictEqual(server, now.server)) return written
      const edited = { ...written, config: addServer(name, server, true)(written.config) }
      const next = body.moveKeys ? withoutNewKeys(written, edited, [name], ports.editor.world) : edited
      warnings = [...validateChange(ports, written, next), ...openKeyWarnings(written.config, next.config, [name])]
      return next
    })
    const after = writtenOf(ports.editor.read().config, name)
    const written = shownServer(ports, name, after)
    return { written, reload, warnings: [...warnings, ...warningsOf(name, outcome)] }
  },
})

const presetBody = {
  filter: z.string().describe("A filter over tags, such as `web and not slow`"),
  matches: z.array(z.string()).describe("Servers by name or glob; `servers` in presets.json"),
  allow: z.array(z.string()).describe("Globs over `server/tool`, `server/prompt:NAME` and `server/resource:URI`"),
  deny: z.array(z.string()).describe("Such globs of what is left out; they win"),
  readOnly: z.boolean().describe("Whether only tools that are marked read-only are included"),
  new: z.enum(["show", "hold"]).describe("`hold`: only tools in `approved` are included"),
  approved: z.array(z.string()).describe("Tools, as `server/tool`"),
  limits: z
    .record(z.string(), z.number())
    .describe("Most calls per minute of a credential, by globs over `server/tool`"),
  names: z.record(z.string(), z.string()).describe("New names of tools, by `server/tool`"),
  prefix: z.string().describe("`server`, `none`, or a text before the names of tools and prompts"),
  separator: z.string().describe("Text between the prefix and the name"),
  description: z.string(),
  tools: z.enum(TOOL_LISTINGS).describe("Which tools svc lists to clients"),
}

const presets = defineEndpoint({
  method: "GET",
  path: "/presets",
  summary: "List the presets, with the servers that each selects",
  query: z.strictObject(PAGE_QUERY),
  answer: pageSchema(presetSchema),
  faults: [],
  run({ ports, query }) {
    const all = [...ports.agent.presets].map(([name, preset]) => shownPreset(ports, name, preset))
    return pageBy(all, ({ name }) => name, query)
  },
})

/** Returns a preset with the servers that it selects. */
function shownPreset(ports: RestPorts, name: string, preset: Preset) {
  const { text: filter, description, servers, approved, allow, deny, readOnly, names, prefix, separator } = preset
  return {
    name,
    filter,
    ...(description === undefined ? {} : { description }),
    ...compact({
      matches: servers,
      allow,
      deny,
      readOnly,
      new: preset.new,
      approved: approved && [...approved],
      limits: preset.limits,
      names,
      prefix,
      separator,
    }),
    servers: describeAll(ports).flatMap(({ name, tags }) =>
      presetIncludes(preset, { name, slug: slugOf(name) }, tags) ? [name] : [],
    ),
  }
}

const preview = defineEndpoint({
  method: "GET",
  path: "/presets/preview",
  summary: "Show which servers a filter over tags selects",
  query: z.strictObject({ filter: z.string().min(1) }),
  answer: z.strictObject({
    servers: z.array(z.string()),
    unknownTags: z.array(z.string()).describe("Tags in the filter that no server has"),
  }),
  faults: [],
  run: ({ ports, query }) => matching(ports, query.filter),
})

const draft = defineEndpoint({
  method: "POST",
  path: "/presets/preview",
  summary: "Show what a preset would include of the connected servers, and what it would leave out, by which rules",
  description: "Changes nothing.",
  body: z.strictObject(presetBody).partial(),
  answer: z.strictObject({
    entries: presetSchema.shape.entries.unwrap(),
    collisions: z.array(z.string()).describe("Names that two entries would share"),
  }),
  faults: [],
  run({ ports, body: { matches: servers, ...rest } }) {
    const document = parseDocument(
      JSON.stringify({ presets: { [DRAFT]: compact({ ...rest, servers }) } }),
      "the preset",
    )
    const { presets, issues } = readPresets(document)
    const [wrong] = issues
    const found = presets.get(DRAFT)
    if (found === undefined || wrong !== undefined)
      throw new RequestError(
        "invalid_params",
        wrong?.message ?? "the preset selects no server: name a filter or servers",
      )
    const scope = createScopes(() => presets)(`?tools=all&preset=${DRAFT}`)
    const { servers: entries, collisions } = presetReport(ports.agent.catalog, scope, [found])
    return {
      entries: entries.map(({ server, included, left }) => ({
        server,
        included: included.map(({ entry, name = "" }) => ({ entry, name })),
        left: left.map(({ entry, rules = [] }) => ({ entry, rules: [...rules] })),
      })),
      collisions: [...collisions],
    }
  },
})
const DRAFT = "draft"

const writePreset = defineEndpoint({
  method: "PUT",
  path: "/presets/{name}",
  summary: "Create or change a preset",
  body: z.strictObject(presetBody).partial(),
  answer: presetSchema,
  faults: [],
  async run({ ports, params, body }) {
    const name = params.name ?? ""
    const { matches: servers, ...rest } = body
    const given = compact({ ...rest, servers })
    await ports.editPresets(ports.agent.presets.has(name) ? editPreset(name, given) : createPreset(name, given))
    await ports.follow()
    const written = ports.agent.presets.get(name)
    if (written === undefined) throw new RequestError("conflict", `${name} was changed meanwhile; read it again`)
    return shownPreset(ports, name, written)
  },
})

const removePreset = defineEndpoint({
  method: "DELETE",
  path: "/presets/{name}",
  summary: "Delete a preset",
  answer: z.strictObject({ deleted: z.string() }),
  faults: ["not_found"],
  async run({ ports, params }) {
    const name = params.name ?? ""
    await ports.editPresets(deletePreset(name))
    await ports.follow()
    return { deleted: name }
  },
})

export const CONFIG_ENDPOINTS: readonly Endpoint[] = [
  config,
  schema,
  show,
  replace,
  preview,
  draft,
  presets,
  writePreset,
  removePreset,
]

// ---

type Written = { readonly section: string; readonly server: Params }

/** Returns the servers as written in the file; none if the file is not JSON, which is reported as an issue. */
function writtenOrNone({ editor }: RestPorts): ReturnType<typeof writtenServers> {
  try {
    return writtenServers(editor.read().config)
  } catch (error) {
    if (error instanceof ConfigError) return new Map()
    throw error
  }
}

function writtenOf(config: string, name: string): Written {
  const all = writtenServers(config)
  const found = all.get(name)
  if (found === undefined) throw unknownNameError("server", name, all.keys())
  return found
}

/** Returns the hash of a written server. It is salted, because a short secret could be guessed from it and the visible part. */
const hashOf = ({ salt }: RestPorts, written: Written): string => digest(salt + JSON.stringify(written), 32)

const shownServer = (ports: RestPorts, name: string, written: Written) => ({
  name,
  section: written.section,
  server: { ...hidden(ports, written.server) },
  hash: hashOf(ports, written),
})

/** Returns a server with its secrets hidden; references to variables stay visible. */
function hidden({ mask }: RestPorts, server: Params): Params {
  const args = Array.isArray(server.args) ? server.args.map(String) : []
  const shown = mapStrings(server, (text, path) => {
    if (isSecretAt(path, args) && text !== "" && !isReference(text)) return HIDDEN
    // `env` may be an array of NAME=value.
    const [, name = ""] = path[0] === "env" ? (/^([^=]+)=/.exec(text) ?? []) : []
    if (isSecretName(name) && !isReference(text.slice(name.length + 1))) return `${name}=${HIDDEN}`
    return mask(text).replaceAll("[REDACTED]", HIDDEN)
  })
  return isObject(shown) ? shown : {}
}

/** Whether a value is secret by its place in a server. */
function isSecretAt([key, member, ...more]: readonly (string | number)[], args: readonly string[]): boolean {
  switch (key) {
    case "headers":
      return true
    case "oauth":
      return typeof member === "string" && isSecretSetting(member)
    case "args":
      return typeof member === "number" && isSecretName(args[member - 1] ?? "")
    // The members of these are named after tools.
    case "toolDescriptionOverrides":
    case "toolOverrides":
      return false
    default:
      return [key, member, ...more].some((part) => typeof part === "string" && isSecretName(part))
  }
}

/** Whether a value consists of references, perhaps after a scheme such as `Bearer`, or of expressions. */
const isReference = (text: string): boolean => isOnlyReferences(text.replace(/\{\{[^{}]*\}\}/g, "$$EXPRESSION"))

/**
 * Returns a server with its hidden texts replaced by the written ones. Throws a RequestError if a hidden text was edited: svc
 * cannot tell which part of it should stay.
 */
function unhidden(ports: RestPorts, given: Params, written: Params, name: string): Params {
  const shown = hidden(ports, written)
  const restored = mapStrings(given, (text, path) => {
    if (!text.includes(HIDDEN)) return text
    const before = valueAt(written, path)
    if (typeof before === "string" && valueAt(shown, path) === text) return before
    throw new RequestError(
      "invalid_params",
      `${path.join(".")} of ${name} contains ${HIDDEN}, but no secret is hidden there; write the whole value, or a reference such as \${NAME}`,
    )
  })
  return isObject(restored) ? restored : {}
}

const valueAt = (value: unknown, path: readonly (string | number)[]): unknown =>
  path.reduce<unknown>((inner, part) => (inner as Record<string, unknown> | undefined)?.[part], value)

/** Returns the servers that an expression selects, and its tags that no server has. Throws a RequestError if it is invalid. */
function matching(ports: RestPorts, filter: string) {
  const selection = selectServers([{ filter }], new Map())
  const all = describeAll(ports)
  const known = new Set(all.flatMap(({ tags }) => tags))
  return {
    servers: all.flatMap(({ name, tags }) => (selection.includes(tags) ? [name] : [])),
    unknownTags: selection.tags.filter((tag) => !known.has(tag)),
  }
}
