/** An agent whose servers answer in memory: no process is started and nothing is written. */
import { Agent } from "../../src/agent/agent.ts"
import { createEraCache } from "../../src/backend/era-cache.ts"
import { parseDocument } from "../../src/config/document.ts"
import { type HostEnvironment, plan } from "../../src/config/plan.ts"
import type { ServerSpec, StdioLaunch } from "../../src/config/server-spec.ts"
import { BackendError } from "../../src/lib/errors.ts"
import type { ListingStore } from "../../src/store/listings.ts"
import { createToolPins } from "../../src/store/tool-pins.ts"
import { createRequestIds, encode } from "../../src/wire/frame.ts"
import { manualClock, settle } from "../clock.ts"

export const WORLD: HostEnvironment = { parent: {}, dotenv: {}, platform: "linux", home: "/h", folder: "/etc" }

/** The tools that a server lists; "silent" if it never answers, undefined if it does not start. */
export type ToolsOf = (launch: StdioLaunch, spec: ServerSpec) => readonly object[] | "silent" | undefined

/** Returns a tool as a server lists it. */
export const tool = (name: string, description = "Does it"): object => ({
  name,
  description,
  inputSchema: { type: "object" },
})

/** Creates an agent. `toolsOf` determines its stdio servers, and `fetch` the answers of its remote servers. */
export function createMemoryAgent(
  toolsOf: ToolsOf = () => undefined,
  fetch: (url: string, init: RequestInit) => Promise<Response> = () => Promise.reject(new Error("no network")),
  listings?: ListingStore,
) {
  const clock = manualClock()
  const logged: string[] = []
  const write = (text: string) => void logged.push(text)
  const log = { debug: write, info: write, warn: write, error: write }
  /** The messages that each server received: its id and the method. */
  const received: [id: string, method: string][] = []
  const agent = new Agent({
    clock,
    log,
    startedAt: 0,
    ids: createRequestIds("x"),
    limit: 1_000_000,
    version: "1",
    eras: createEraCache(),
    pins: createToolPins(undefined, clock),
    listings,
    credentials: () => undefined,
    openClient: () => ({ fetch, close() {} }),
    openChild(launch, events, spec) {
      const tools = toolsOf(launch, spec)
      if (tools === undefined) throw new BackendError(spec.name, "is not there")
      return {
        pid: undefined,
        buffered: 0,
        close: async () => undefined,
        send(frame) {
          const { id, method } = JSON.parse(String(frame)) as { id?: string; method: string }
          received.push([spec.id, method])
          if (id === undefined || tools === "silent") return
          const answer = JSON.stringify({ jsonrpc: "2.0", id, ...answerTo(method, tools) })
          queueMicrotask(() => events.onframe(encode(answer)))
        },
      }
    },
  })
  return {
    agent,
    clock,
    log,
    logged,
    received,
    /** Applies a document, and waits until its servers are connected or failed. */
    async apply(document: object) {
      const applied = agent.apply(plan(parseDocument(JSON.stringify(document), "mcp.json"), WORLD))
      await settle()
      return applied
    },
  }
}

// ---

const CAPABILITIES = { tools: { listChanged: true }, resources: { subscribe: true }, logging: {} }

function answerTo(method: string, tools: readonly object[]): object {
  switch (method) {
    case "initialize":
      return { result: { protocolVersion: "2025-06-18", capabilities: CAPABILITIES, serverInfo: { name: "s" } } }
    case "tools/list":
      return { result: { tools } }
    case "resources/list":
      return { result: { resources: [] } }
    case "resources/templates/list":
      return { result: { resourceTemplates: [] } }
    case "resources/subscribe":
    case "resources/unsubscribe":
    case "logging/setLevel":
    case "ping":
      return { result: {} }
    default:
      return { error: { code: -32601, message: "unknown method" } }
  }
}
