/** Where a request goes, as a table: one server `s` with the tool `read`, and one that is not connected, `gone`. */
import { describe, expect, test } from "bun:test"
import { destinationOf } from "../../src/call/destination.ts"
import type { ClientCall, Destination } from "../../src/call/ports.ts"
import { buildCatalog, emptyCatalog, viewOf } from "../../src/catalog/catalog.ts"
import type { Scope } from "../../src/catalog/scope.ts"
import type { Params } from "../../src/wire/message.ts"
import { AGGREGATE, FAKE_OWN_TOOLS, fakeClient, fakeExchange, fakeGateway, fakePeer, fakeSpec } from "../fakes.ts"

const listing = {
  ...fakePeer("legacy", { tools: {}, resources: {} }),
  tools: [{ name: "read" }],
  prompts: [{ name: "ask" }],
  resources: [],
  resourceTemplates: [],
}
const catalog = buildCatalog([{ spec: fakeSpec(), listing }], emptyCatalog())
const AT_SERVER: Scope = { kind: "server", id: "s" }

type Asked = { readonly scope?: Scope; readonly isAbsent?: boolean; readonly settled?: boolean }

function decide(method: string, params: Params, { scope = AGGREGATE, isAbsent = false, settled = false }: Asked = {}) {
  const absent = isAbsent ? "s" : undefined
  const gateway = fakeGateway({
    directory: {
      catalogOf: () => catalog,
      takesCalls: () => !isAbsent,
      disconnectedId: ({ kind }, slug) => (kind === "server" ? absent : ["gone"].find((one) => one === slug)),
      unlisted: (_, slug) => (slug === "mute" ? { id: "mute", slug: "mute", reason: "does not list" } : undefined),
    },
    ownTools: [FAKE_OWN_TOOLS],
  })
  const call: ClientCall = {
    request: { jsonrpc: "2.0", id: 1, method, params },
    client: fakeClient("legacy", { scope }),
    exchange: fakeExchange(),
    gateway,
  }
  return destinationOf(call, viewOf(catalog, scope), settled)
}

/** Returns a destination in a few words: its kind, and the server, the wait or the name. */
function words(destination: Destination): string {
  switch (destination.kind) {
    case "own":
      return destination.run === undefined ? "own" : "own, by a feature"
    case "server": {
      const { id, name, unlisted } = destination.route
      return `server ${id} as ${name || "-"}${unlisted === true ? ", unlisted" : ""}`
    }
    case "waiting":
      return `waiting for ${destination.for}`
    case "refused":
      return `refused ${destination.what}${destination.unlisted === undefined ? "" : ", unlisted"}`
  }
}

describe("at the address of all servers", () => {
  test.each<[method: string, params: Params, first: string, settled: string]>([
    ["tools/call", { name: "s_svc_read" }, "server s as read", "server s as read"],
    ["tools/call", { name: "mcp_list" }, "own, by a feature", "own, by a feature"],
    ["tools/call", { name: "gone_svc_x" }, "waiting for gone", "server gone as x"],
    ["tools/call", { name: "mute_svc_x" }, "waiting for mute", "refused tool, unlisted"],
    ["tools/call", { name: "s_svc_other" }, "refused tool", "refused tool"],
    ["tools/call", { name: 7 }, "refused tool", "refused tool"],
    ["prompts/get", { name: "s_svc_ask" }, "server s as ask", "server s as ask"],
    ["prompts/get", { name: "mute_svc_x" }, "waiting for mute", "refused prompt, unlisted"],
    ["resources/read", { uri: "svc://s/file:///a" }, "server s as file:///a", "server s as file:///a"],
    ["resources/read", { uri: "svc://gone/file:///a" }, "waiting for gone", "server gone as file:///a"],
    ["resources/read", { uri: "x:y" }, "refused resource", "refused resource"],
    ["resources/subscribe", { uri: "svc://gone/file:///a" }, "server gone as file:///a", "server gone as file:///a"],
    ["completion/complete", { ref: { type: "ref/prompt", name: "s_svc_ask" } }, "server s as ask", "server s as ask"],
    [
      "completion/complete",
      { ref: { type: "ref/resource", uri: "svc://s/a:b" } },
      "server s as a:b",
      "server s as a:b",
    ],
    ["completion/complete", {}, "own", "own"],
    ["tasks/get", { taskId: "gone_svc_1.m" }, "server gone as 1", "server gone as 1"],
    ["tasks/get", { taskId: "gone_svc_1" }, "refused task", "refused task"],
    ["tools/list", {}, "own", "own"],
    ["vendor/method", {}, "own", "own"],
  ])("%s %j", (method, params, first, settled) => {
    expect(words(decide(method, params))).toBe(first)
    expect(words(decide(method, params, { settled: true }))).toBe(settled)
  })
})

describe("at the address of one server", () => {
  test.each<[method: string, params: Params, connected: string, absent: string]>([
    ["tools/call", { name: "read" }, "server s as read", "waiting for s"],
    ["tools/call", { name: "secret" }, "server s as secret, unlisted", "waiting for s"],
    ["tools/call", { name: "mcp_list" }, "server s as mcp_list, unlisted", "waiting for s"],
    ["skills/get", { uri: "a:b" }, "server s as -", "waiting for s"],
    ["vendor/method", {}, "server s as -", "waiting for s"],
    ["server/discover", {}, "own", "waiting for s"],
    ["tools/list", {}, "own", "waiting for s"],
    ["resources/templates/list", {}, "own", "waiting for s"],
    ["tasks/list", {}, "own", "own"],
    ["toString", {}, "server s as -", "waiting for s"],
    ["tasks/steal", {}, "own", "own"],
    ["initialize", {}, "own", "own"],
  ])("%s %j", (method, params, connected, absent) => {
    expect(words(decide(method, params, { scope: AT_SERVER }))).toBe(connected)
    expect(words(decide(method, params, { scope: AT_SERVER, isAbsent: true }))).toBe(absent)
  })
})

test("the params that a server receives have its own names, and all other members", () => {
  const params = { name: "s_svc_read", arguments: { a: 1 }, _meta: { progressToken: 1 } }
  expect(decide("tools/call", params)).toMatchObject({ params: { ...params, name: "read" } })
  const ref = { type: "ref/prompt", name: "s_svc_ask", title: "Ask" }
  expect(decide("completion/complete", { ref })).toMatchObject({ params: { ref: { ...ref, name: "ask" } } })
})

test("a request waits for its server once", () => {
  const asked = { isAbsent: true, settled: true }
  expect(words(decide("tools/call", { name: "s_svc_read" }, asked))).toBe("server s as read")
})
