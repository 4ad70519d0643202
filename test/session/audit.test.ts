import { expect, test } from "bun:test"
import type { Answer } from "../../src/call/answer.ts"
import type { Client } from "../../src/call/client.ts"
import { buildCatalog, emptyCatalog } from "../../src/catalog/catalog.ts"
import { shortened } from "../../src/catalog/name.ts"
import { createScope, narrow } from "../../src/catalog/scope.ts"
import { parseExact } from "../../src/lib/json.ts"
import { createRedactor } from "../../src/lib/redact.ts"
import { createAudit } from "../../src/session/audit.ts"
import type { Request } from "../../src/wire/message.ts"
import { manualClock } from "../clock.ts"
import { AGGREGATE, FAKE_OWN_TOOLS, fakeClient, fakeExchange, fakeGateway, fakeSpec } from "../fakes.ts"

const LONG = "x".repeat(200)
// Bun escapes these in raw texts.
const ACUTE = "é"
const CUT = "…"

/** The catalog of a server `s`. */
function catalogOf({ tool = "x", tags = [] as string[], maxName = Number.POSITIVE_INFINITY } = {}) {
  const tools = [{ name: tool, inputSchema: { type: "object" as const } }]
  const listing = { era: "modern" as const, tools, prompts: [], resources: [], resourceTemplates: [] }
  const source = { spec: fakeSpec({ tags }), listing: { ...listing, capabilities: {} } as never }
  return buildCatalog([source], emptyCatalog(), maxName)
}

/** An audit log of a catalog's server: its lines, and functions that write to it. */
function logged(secrets: () => readonly string[] = () => [], catalog = catalogOf()) {
  const lines: string[] = []
  let known = secrets()
  let masker = createRedactor(known).maskCredentials
  const clock = manualClock()
  let ticks = 0
  const audit = createAudit({
    clock,
    ticks() {
      ticks += 12.345_678
      return ticks
    },
    write: (line) => void lines.push(line.text()),
    masker() {
      if (secrets() !== known) {
        known = secrets()
        masker = createRedactor(known).maskCredentials
      }
      return masker
    },
    nameOf: (principal) => (principal === "token 1" ? "bob\u202e" : undefined),
    withArguments: true,
  })
  const gateway = fakeGateway({
    directory: { catalogOf: () => catalog },
    ownTools: [FAKE_OWN_TOOLS],
  })
  const call = (
    request: Partial<Request>,
    client: Partial<Client> = {},
    answer: Answer = { frame: "{}", outcome: "ok" },
  ) => {
    const whole = { jsonrpc: "2.0", id: 1, method: "tools/call", ...request } as Request
    const exchange = fakeExchange()
    audit.call({ request: whole, client: fakeClient("modern", client), exchange, gateway }).end(answer)
  }
  return { lines, audit, call, clock }
}

test("lines have exactly these bytes [audit:log]", async () => {
  const { lines, audit, call, clock } = logged()
  const info = { name: "test", version: "1.2" }
  call({ params: { name: "s_svc_x", arguments: { m: "hello" } } }, { info })
  call({ params: { name: "s_svc_x" } }, { principal: "token 1", info: { name: "té\u200b", version: 2 } })
  await clock.pass(1)
  call(
    { id: 'a\u2028"b', params: { name: "mcp_list", arguments: { password: "short" } } },
    {},
    { frame: "é", outcome: "error" },
  )
  call({ id: parseExact("1.0") as never, params: { name: "ghp_abcdefghijklmnopqrstuvwxyz0123456789", arguments: [] } })
  call(
    { id: -0.5, method: "resources/read", params: { uri: "svc://s/file:///a?token=abcdefgh" } },
    {},
    { frame: "", sent: 7, outcome: "tool_error" },
  )
  call({ method: "prompts/get", params: { name: 7 } as never }, { info: { version: "1" } })
  call({}, { info: { name: `${LONG}${LONG}` } })
  let deep: unknown = "x"
  for (let depth = 0; depth < 100_000; depth++) deep = [deep]
  call({ params: { name: "s_svc_none", arguments: { deep } } }, { info: { name: "\ud800 Bearer abcdefgh" } })
  audit.action("restart", { name: "s", tool: 7, arguments: { token: "x" } })("ok")
  audit.action("reload", {}, "token 1")("error")
  audit.access("login", "error", { address: "127.0.0.1", reason: "\u001b[31m", count: 3, more: undefined })
  expect(lines).toEqual([
    `{"time":"2027-01-15T08:00:00.000Z","principal":"me","client":"test/1.2","method":"tools/call","server":"s","tool":"x","outcome":"ok","ms":12.346,"sent":2,"received":44,"id":1,"arguments":{"m":"hello"}}`,
    String.raw`{"time":"2027-01-15T08:00:00.000Z","principal":"token 1","name":"bob\u202e","client":"t${ACUTE}\u200b","method":"tools/call","server":"s","tool":"x","outcome":"ok","ms":12.346,"sent":2,"received":18,"id":1}`,
    String.raw`{"time":"2027-01-15T08:00:00.001Z","principal":"me","method":"tools/call","server":"svc","tool":"mcp_list","outcome":"error","ms":12.346,"sent":2,"received":52,"id":"a\u2028\"b","arguments":{"password":"[REDACTED]"}}`,
    `{"time":"2027-01-15T08:00:00.001Z","principal":"me","method":"tools/call","tool":"[REDACTED]","outcome":"ok","ms":12.346,"sent":2,"received":66,"id":1.0,"arguments":[]}`,
    `{"time":"2027-01-15T08:00:00.001Z","principal":"me","method":"resources/read","server":"s","tool":"file:///a?token=[REDACTED]","outcome":"tool_error","ms":12.346,"sent":7,"received":42,"id":-0.5}`,
    `{"time":"2027-01-15T08:00:00.001Z","principal":"me","method":"prompts/get","outcome":"ok","ms":12.346,"sent":2,"received":10,"id":1}`,
    `{"time":"2027-01-15T08:00:00.001Z","principal":"me","client":"${LONG}","method":"tools/call","outcome":"ok","ms":12.346,"sent":2,"received":2,"id":1}`,
    String.raw`{"time":"2027-01-15T08:00:00.001Z","principal":"me","client":"\ud800 Bearer [REDACTED]","method":"tools/call","tool":"s_svc_none","outcome":"ok","ms":12.346,"sent":2,"id":1,"arguments":{"deep":[[[[[[["${CUT}"]]]]]]]}}`,
    `{"time":"2027-01-15T08:00:00.001Z","principal":"local","method":"svc/restart","server":"s","outcome":"ok","ms":12.346,"arguments":{"token":"[REDACTED]"}}`,
    String.raw`{"time":"2027-01-15T08:00:00.001Z","principal":"token 1","name":"bob\u202e","method":"svc/reload","outcome":"error","ms":12.346}`,
    String.raw`{"time":"2027-01-15T08:00:00.001Z","method":"svc/login","outcome":"error","address":"127.0.0.1","reason":"\u001b[31m","count":3}`,
  ])
})

test("a denied call is logged with the server's own name, as any other call [audit:denied]", () => {
  const tool = "read_the_whole_text"
  const { lines, call } = logged(undefined, catalogOf({ tool, tags: ["db"], maxName: 20 }))
  const scope = narrow(AGGREGATE, "web", (tags) => tags.includes("web"))
  const calls: readonly Partial<Request>[] = [
    { params: { name: `s_svc_${tool}` } },
    { params: { name: shortened(`s_svc_${tool}`, 20) } },
    { params: { name: "s_svc_none" } },
    { method: "prompts/get", params: { name: "s_svc_ask" } },
    { method: "resources/read", params: { uri: "svc://s/file:///a" } },
    { method: "resources/read", params: { uri: "ui://s_svc_app/page" } },
    { params: { name: "mcp_list" } },
  ]
  for (const request of calls) call(request, { scope })
  const rows = lines.map((line) => JSON.parse(line)).map(({ server, tool, outcome }) => [server, tool, outcome])
  expect(rows).toEqual([
    ["s", tool, "denied"],
    ["s", tool, "denied"],
    ["s", "none", "denied"],
    ["s", "ask", "denied"],
    ["s", "file:///a", "denied"],
    ["s", "ui://app/page", "denied"],
    ["svc", "mcp_list", "denied"],
  ])
})

test("after the secrets change, texts are masked again", () => {
  let secrets = ["hunter1-hunter1"]
  const { lines, call } = logged(() => secrets)
  const ask = () =>
    call({ params: { name: "s_svc_x", arguments: { m: "hunter2-hunter2" } } }, { info: { name: "hunter2-hunter2" } })
  ask()
  secrets = ["hunter2-hunter2"]
  ask()
  expect(lines.map((line) => line.split("hunter2-hunter2").length - 1)).toEqual([2, 0])
})

test("a tool that a preset renames has both names in its line, and any other only its own [views:names]", () => {
  const { lines, call } = logged()
  const preset = { ...NO_RULES, names: { "s/x": "short" } }
  const presets = new Map([["v", preset]])
  const scope = createScope(
    () => QUERIES,
    () => presets,
  )
  call({ params: { name: "short" } }, { scope })
  call({ params: { name: "s_svc_x" } })
  const [renamed, usual] = lines.map((line) => JSON.parse(line))
  expect(renamed).toMatchObject({ server: "s", tool: "x", calledAs: "short" })
  expect(usual).toMatchObject({ server: "s", tool: "x" })
  expect(usual.calledAs).toBeUndefined()
})

const QUERIES = [{ preset: "v" }]
const NO_RULES = { filter: { kind: "and", of: [] }, text: "", description: undefined, resultBudget: undefined } as const
