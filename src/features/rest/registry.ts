/** Endpoints for registries: search, and installation of a plan that a person has seen. */
import * as z from "zod"
import { mcpInfo } from "../tools/info.ts"
import { mcpInstall } from "../tools/install.ts"
import { mcpSearch } from "../tools/search.ts"
import { mcpUpdate } from "../tools/update.ts"
import { defineEndpoint, type Endpoint } from "./endpoint.ts"
import { runOwnTool } from "./run-tool.ts"

const search = defineEndpoint({
  method: "GET",
  path: "/registries/search",
  summary: "Search the registries for servers",
  query: z.strictObject({
    query: z.string().default(""),
    registry: z.string().optional(),
    type: z.string().optional(),
    transport: z.string().optional(),
    limit: z.coerce.number().int().min(1).max(100).default(20),
    cursor: z.string().optional(),
  }),
  answer: mcpSearch.output,
  faults: [],
  run: (call) => runOwnTool(call, "mcp_search", call.query),
})

const info = defineEndpoint({
  method: "GET",
  path: "/registries/servers/{name}",
  summary: "Show a server in a registry: the command that it runs and the values that it needs",
  query: z.strictObject({ version: z.string().optional() }),
  answer: mcpInfo.output,
  faults: ["not_found"],
  run: (call) => runOwnTool(call, "mcp_info", { ...call.query, serverName: call.params.name }),
})

const install = defineEndpoint({
  method: "POST",
  path: "/install",
  summary: "Plan an installation, or install a plan",
  description:
    "Without `digest`, nothing changes: the answer shows the whole command that would run, the values that it needs, and the digest of this plan. Show the plan to a person. The same request with this `digest` installs it. If anything has changed by then, the answer is 409 and nothing runs.",
  body: mcpInstall.input
    .omit({ dryRun: true })
    .extend({ digest: z.string().min(1).optional().describe("The digest of the plan that the person has approved") })
    .strict(),
  answer: mcpInstall.output.extend({ digest: z.string().optional() }),
  faults: ["not_found", "conflict"],
  run(call) {
    const { digest, ...args } = call.body
    return typeof digest === "string"
      ? runOwnTool(call, "mcp_install", args, digest)
      : runOwnTool(call, "mcp_install", { ...args, dryRun: true })
  },
})

const update = defineEndpoint({
  method: "POST",
  path: "/update",
  summary: "Plan an update of an installed server, or carry it out",
  description:
    "Without `digest`, nothing changes: the answer shows the new version, the whole command that would run, what changes, and the digest of this plan; `from` and `to` are the same if there is no newer version. The same request with this `digest` updates the server. If the new version does not connect, svc restores the old one.",
  body: mcpUpdate.input
    .omit({ dryRun: true })
    .extend({ digest: z.string().min(1).optional().describe("The digest of the plan that the person has approved") })
    .strict(),
  answer: mcpUpdate.output.extend({ digest: z.string().optional() }),
  faults: ["not_found", "conflict"],
  run(call) {
    const { digest, ...args } = call.body
    return typeof digest === "string"
      ? runOwnTool(call, "mcp_update", args, digest)
      : runOwnTool(call, "mcp_update", { ...args, dryRun: true })
  },
})

export const REGISTRY_ENDPOINTS: readonly Endpoint[] = [search, info, install, update]
