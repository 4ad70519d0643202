import { expect, test } from "bun:test"
import type { Connection } from "../../src/backend/connection.ts"
import { buildCatalog, emptyCatalog } from "../../src/catalog/catalog.ts"
import type { Scope } from "../../src/catalog/scope.ts"
import type { ServerSpec } from "../../src/config/server-spec.ts"
import { discoverResult } from "../../src/session/server-capabilities.ts"
import type { Era } from "../../src/wire/era.ts"
import { AGGREGATE, fakeClient, fakeGateway } from "../fakes.ts"

const TASKS = "io.modelcontextprotocol/tasks"
const capabilities = {
  tools: {},
  tasks: { list: {}, requests: { tools: { call: {} } } },
  experimental: { "com.example/e": {} },
  extensions: { "io.modelcontextprotocol/ui": {}, "com.example/x": {}, [TASKS]: {} },
}

function advertised(backend: Era, client: Era, kind: "aggregate" | "server") {
  const tuning = { tags: [], disabledTools: [], toolDescriptionOverrides: {} }
  const spec = { id: "s", name: "s", slug: "s", launch: { transport: "stdio" }, tuning } as unknown as ServerSpec
  const listing = {
    era: backend,
    protocolVersion: "x",
    serverInfo: {},
    capabilities,
    instructions: undefined,
    tools: [],
    prompts: [],
    resources: [],
    resourceTemplates: [],
  }
  const catalog = buildCatalog([{ spec, listing }], emptyCatalog())
  const target = { spec, peer: listing, connection: undefined as unknown as Connection }
  const gateway = fakeGateway({ directory: { catalogOf: () => catalog, target: () => target } })
  const scope: Scope = kind === "server" ? { kind, id: "s" } : AGGREGATE
  const said = discoverResult({ gateway, client: fakeClient(client, { scope }) }).capabilities
  const { tasks, experimental, extensions } = said as Partial<typeof capabilities>
  return { tasks: tasks !== undefined, experimental, extensions: Object.keys(extensions ?? {}) }
}

test.each([
  ["legacy", "legacy"],
  ["legacy", "modern"],
  ["modern", "legacy"],
  ["modern", "modern"],
] as const)(
  "of a %s-era server, a %s-era client gets the capabilities that svc routes for it [aggregate:extensions]",
  (backend, client) => {
    const extension = backend === "modern" && client === "modern" ? [TASKS] : []
    const tasks = backend === "legacy" && client === "legacy"
    expect(advertised(backend, client, "aggregate")).toEqual({
      tasks,
      experimental: undefined,
      extensions: ["io.modelcontextprotocol/ui", ...extension],
    })
    expect(advertised(backend, client, "server")).toEqual({
      tasks,
      experimental: { "com.example/e": {} },
      extensions: ["io.modelcontextprotocol/ui", "com.example/x", ...extension],
    })
  },
)
