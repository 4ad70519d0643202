/** Endpoints for servers: their settings and states, and changes of one server. */
import * as z from "zod"
import { parseDocument } from "../../config/document.ts"
import { addServer } from "../../config/edit.ts"
import { effectiveOf } from "../../config/effective.ts"
import { openKeyWarnings, withoutNewKeys } from "../../config/externalize-secrets.ts"
import { slugOf } from "../../config/server-spec.ts"
import { ConfigError, RequestError } from "../../lib/errors.ts"
import { compact } from "../../lib/json.ts"
import { unknownNameError } from "../../lib/nearest.ts"
import { approveTools } from "../../report/approvals.ts"
import type { Status } from "../../report/status.ts"
import { applyEdit, reloadSchema, warningsOf } from "../tools/apply-change.ts"
import { mcpEdit } from "../tools/edit.ts"
import { mcpEnable } from "../tools/enable.ts"
import { validateChange } from "../tools/plan-change.ts"
import { mcpReload } from "../tools/reload.ts"
import { runningOf, type ServerDetails, type ServersContext, serversOf } from "../tools/servers.ts"
import { requireModest } from "../tools/tool.ts"
import { mcpUninstall } from "../tools/uninstall.ts"
import { defineEndpoint, type Endpoint, type RestPorts } from "./endpoint.ts"
import { PAGE_QUERY, pageBy, pageSchema } from "./page.ts"
import { runOwnTool } from "./run-tool.ts"
import { effectiveSchema, serverInstanceSchema, serverSchema } from "./shapes.ts"

const listedServer = serverSchema.extend({ instances: z.array(serverInstanceSchema) })

const list = defineEndpoint({
  method: "GET",
  path: "/servers",
  summary: "List the servers",
  query: z.strictObject({
    tag: z.string().optional().describe("Only servers with this tag"),
    state: z.string().optional().describe("Only servers in this state"),
    q: z.string().optional().describe("Only servers whose name contains this text"),
    ...PAGE_QUERY,
  }),
  answer: pageSchema(listedServer),
  faults: [],
  run({ ports, query }) {
    const { tag, state, q = "" } = query
    const found = describeAll(ports).filter(
      (server) =>
        (tag === undefined || server.tags.includes(tag)) &&
        (state === undefined || server.state === state) &&
        server.name.toLowerCase().includes(q.toLowerCase()),
    )
    return pageBy(found, ({ name }) => name, query)
  },
})

const show = defineEndpoint({
  method: "GET",
  path: "/servers/{name}",
  summary: "Show a server with its effective configuration",
  answer: listedServer.extend({
    effective: z.array(effectiveSchema).describe("The effective values and their sources; secrets are hidden"),
  }),
  faults: ["not_found"],
  run({ ports, params }) {
    const server = describeOne(ports, params.name ?? "")
    return { ...server, effective: effectiveValues(ports, server.name) }
  },
})

const add = defineEndpoint({
  method: "POST",
  path: "/servers",
  summary: "Add a server",
  description: "Writes the server to mcp.json and starts it. If the server does not connect, it stays in the file.",
  body: z.strictObject({
    name: z.string().min(1),
    server: z.record(z.string(), z.unknown()).describe("The server as in mcp.json"),
    moveKeys: z
      .boolean()
      .default(false)
      .describe("Whether svc moves what looks like a key to .env, and writes references in its place"),
    template: z.boolean().default(false).describe("Whether svc renders the server for each project"),
  }),
  created: true,
  answer: z.strictObject({ server: listedServer, reload: reloadSchema, warnings: z.array(z.string()) }),
  faults: ["conflict"],
  async run({ ports, body: { name, server, moveKeys: movesKeys, template } }) {
    requireModest(server)
    let warnings: readonly string[] = []
    const { outcome, reload } = await applyEdit(ports, name, (written) => {
      const added = { ...written, config: addServer(name, server, false, template)(written.config) }
      const next = movesKeys ? withoutNewKeys(written, added, [name], ports.editor.world) : added
      warnings = [...validateChange(ports, written, next), ...openKeyWarnings(written.config, next.config, [name])]
      return next
    })
    return { server: describeOne(ports, name), reload, warnings: [...warnings, ...warningsOf(name, outcome)] }
  },
})

const paste = defineEndpoint({
  method: "POST",
  path: "/paste",
  summary: "Read the servers in a text: JSON of any client, a command line, an address, or the name of a package",
  description: "Changes nothing. `POST /servers` adds what the answer shows.",
  body: z.strictObject({ text: z.string().min(1).max(200_000) }),
  private: true,
  answer: z.strictObject({
    items: z.array(
      z.strictObject({
        name: z.string().describe("Empty if the text has no name"),
        server: z.looseObject({}).describe("The server as in mcp.json"),
        template: z.boolean(),
        notes: z.array(z.string()),
        problem: z.string().optional().describe("Why svc cannot run it"),
      }),
    ),
  }),
  faults: ["invalid_params"],
  async run({ ports, body: { text } }) {
    const found = await ports.readPasted?.(text).catch((error: unknown) => {
      if (error instanceof ConfigError) throw new RequestError("invalid_params", error.message)
      throw error
    })
    return {
      items: (found ?? []).map(({ name, server, isTemplate, notes, problem }) => ({
        name,
        server: { ...server },
        template: isTemplate,
        notes: [...notes],
        ...compact({ problem }),
      })),
    }
  },
})

const edit = defineEndpoint({
  method: "PATCH",
  path: "/servers/{name}",
  summary: "Change a server by a JSON merge patch",
  description:
    "RFC 7396: members replace values, null removes them. With dryRun, nothing is written. A change that hides the last tool of the server requires confirmZeroTools.",
  body: mcpEdit.input.omit({ serverName: true }).strict(),
  answer: mcpEdit.output,
  faults: ["not_found", "conflict"],
  run: (call) => runOwnTool(call, "mcp_edit", { ...call.body, serverName: call.params.name }),
})
const remove = defineEndpoint({
  method: "DELETE",
  path: "/servers/{name}",
  summary: "Remove a server",
  answer: mcpUninstall.output,
  faults: ["not_found", "conflict"],
  run: (call) => runOwnTool(call, "mcp_uninstall", { serverName: call.params.name }),
})

const restart = defineEndpoint({
  method: "POST",
  path: "/servers/{name}/restart",
  summary: "Restart a server, and wait until it has connected or failed",
  answer: mcpReload.output,
  faults: ["not_found", "conflict"],
  run: (call) => runOwnTool(call, "mcp_reload", { serverName: call.params.name }),
})

const toggle = (word: "enable" | "disable"): Endpoint =>
  defineEndpoint({
    method: "POST",
    path: `/servers/{name}/${word}`,
    summary: word === "enable" ? "Enable a server, and wait until it has connected or failed" : "Disable a server",
    answer: mcpEnable.output,
    faults: ["not_found", "conflict"],
    run: (call) => runOwnTool(call, `mcp_${word}`, { serverName: call.params.name }),
  })

const approve = defineEndpoint({
  method: "POST",
  path: "/servers/{name}/approve",
  summary: "Approve the changed tools of a server",
  description:
    "With `hash`, approves only the definition with this hash. If the tool has changed again, the answer is 409.",
  body: z.strictObject({
    tool: z.string().optional().describe("The tool to approve (default: all changed tools)"),
    hash: z.string().optional().describe("Hash of the definition that the person has seen, from `/approvals`"),
  }),
  answer: z.strictObject({ server: z.string(), approved: z.array(z.string()) }),
  faults: ["not_found", "conflict"],
  run({ ports, params, body: { tool, hash } }) {
    const { name } = describeOne(ports, params.name ?? "")
    return { server: name, approved: approveTools(ports.agent, name, tool, hash) }
  },
})

const authorize = defineEndpoint({
  method: "POST",
  path: "/servers/{name}/authorize",
  summary: "Start the sign-in to a remote server",
  description:
    "Does the same as `svc auth login`. Open `url` in a browser: after the sign-in, it redirects to svc, and the server connects. If the answer has no `url`, svc has obtained a token without a person.",
  answer: z.strictObject({
    server: z.string(),
    authorized: z.boolean(),
    url: z.string().optional().describe("The http or https address of the sign-in page"),
  }),
  faults: ["invalid_params", "not_found", "conflict"],
  async run({ ports, params }) {
    const { name } = describeOne(ports, params.name ?? "")
    const started = await ports.authorize(name)
    return { server: name, authorized: started === undefined, ...(started === undefined ? {} : { url: started.url }) }
  },
})

export const SERVER_ENDPOINTS: readonly Endpoint[] = [
  list,
  add,
  paste,
  show,
  edit,
  remove,
  restart,
  toggle("enable"),
  toggle("disable"),
  approve,
  authorize,
]

/** Returns the servers of the file, or the running ones if the file is broken, each with its running instances. */
export const describeAll = (ports: RestPorts): readonly ServerDetails[] => serversOf(contextOf(ports))

/** Returns the server with a name or slug. Throws a RequestError (not_found). */
export function describeOne(ports: RestPorts, given: string): ServerDetails {
  const all = describeAll(ports)
  const found = all.find(({ name }) => name === given) ?? all.find(({ name }) => slugOf(name) === given)
  if (found !== undefined) return found
  const names = all.map(({ name }) => name)
  throw unknownNameError("server", given.slice(0, MAX_NAME), names)
}

/** Returns the status of all running servers, with credentials masked. */
export const statusNow = (ports: RestPorts): Status => runningOf(contextOf(ports))

// ---

const MAX_NAME = 100

const contextOf = (ports: RestPorts): ServersContext => ({ ...ports, redactAll: ports.mask })

function effectiveValues({ editor, mask }: RestPorts, name: string) {
  const texts = editor.read()
  try {
    const document = parseDocument(texts.config, "mcp.json")
    const values = effectiveOf(document, name, editor.world(texts.dotenv), false) ?? []
    return values.map(({ value, from, ...rest }) => ({
      ...rest,
      value: typeof value === "string" ? mask(value) : value,
      from: [...from],
    }))
  } catch (error) {
    if (error instanceof ConfigError) return []
    throw error
  }
}
