import { expect, test } from "bun:test"
import { Connection } from "../../src/backend/connection.ts"
import { Cancellation } from "../../src/call/cancellation.ts"
import { buildCatalog, emptyCatalog } from "../../src/catalog/catalog.ts"
import { dispatch } from "../../src/session/dispatch.ts"
import { createRequestIds, encode, textOf } from "../../src/wire/frame.ts"
import { type ManualClock, manualClock } from "../clock.ts"
import { fakeClient, fakeExchange, fakeGateway, fakePeer, fakeSpec } from "../fakes.ts"

type Sent = { readonly id?: string; readonly method?: string; readonly params?: { readonly _meta?: object } }

const ids = createRequestIds("x")
const capabilities = { resources: {}, extensions: { "io.modelcontextprotocol/skills": {} } }

/** A server with skills. `result` makes the result of a request; it does not answer if that is undefined. */
function server(name: string, clock: ManualClock, result: (sent: Sent) => object | undefined) {
  const spec = { ...fakeSpec(), id: name, name, slug: name }
  const peer = fakePeer("modern", capabilities)
  const listing = { ...peer, tools: [], prompts: [], resources: [], resourceTemplates: [] }
  const connection = new Connection(name, ids, clock, {
    owner: undefined,
    onprotocolerror() {},
    onnotification() {},
  })
  const sent: Sent[] = []
  connection.attach({
    pid: undefined,
    buffered: 0,
    close: async () => undefined,
    send(frame) {
      const message: Sent = JSON.parse(String(frame))
      sent.push(message)
      const said = message.id === undefined ? undefined : result(message)
      if (said !== undefined)
        queueMicrotask(() =>
          connection.receive(encode(JSON.stringify({ jsonrpc: "2.0", id: message.id, result: said }))),
        )
    },
  })
  return { spec, listing, sent, target: { spec, connection, peer } }
}

const skill = (name: string) => ({ uri: `skill://${name}/SKILL.md`, frontmatter: { name }, resources: "dynamic" })
const page = (name: string, more: object = {}) => ({
  resultType: "complete",
  skills: [skill(name)],
  ttlMs: 1000,
  cacheScope: "public",
  ...more,
})

function list(servers: readonly ReturnType<typeof server>[], cancellation = new Cancellation()) {
  const catalog = buildCatalog(servers, emptyCatalog())
  const target = (id: string) => servers.find(({ spec }) => spec.id === id)?.target ?? "is not configured"
  const _meta = { progressToken: 1, "io.modelcontextprotocol/protocolVersion": "2026-07-28" }
  return dispatch({
    request: { jsonrpc: "2.0", id: 1, method: "skills/list", params: { _meta } },
    client: fakeClient("modern"),
    exchange: fakeExchange({ cancellation }),
    gateway: fakeGateway({ directory: { catalogOf: () => catalog, target } }),
  }).then(({ frame }) => JSON.parse(textOf(frame)))
}

test("a server that does not answer is left out after ten seconds, and its request is cancelled [skills:aggregate]", async () => {
  const clock = manualClock()
  const slow = server("slow", clock, () => undefined)
  const quick = server("quick", clock, () => page("a"))
  const listed = list([slow, quick])
  await clock.pass(10_000)
  expect((await listed).result).toEqual({
    resultType: "complete",
    skills: [{ ...skill("a"), uri: "svc://quick/skill://a/SKILL.md" }],
    ttlMs: 0,
    cacheScope: "private",
  })
  expect(slow.sent.map(({ method }) => method)).toContain("notifications/cancelled")
})

test("all pages are requested, without the client's progress token, and the shortest time to live counts [skills:aggregate]", async () => {
  const clock = manualClock()
  const pages = [page("a", { nextCursor: "2" }), page("b", { ttlMs: 500 })]
  const one = server("one", clock, () => pages.shift())
  const two = server("two", clock, () => page("c"))
  const { result } = await list([one, two])
  expect(result).toMatchObject({ ttlMs: 500, cacheScope: "public" })
  expect(result.skills.map(({ uri }: { uri: string }) => uri)).toEqual([
    "svc://one/skill://a/SKILL.md",
    "svc://one/skill://b/SKILL.md",
    "svc://two/skill://c/SKILL.md",
  ])
  const _meta = { "io.modelcontextprotocol/protocolVersion": "2026-07-28" }
  expect(one.sent.map(({ params }) => params)).toEqual([
    expect.objectContaining({ _meta }),
    expect.objectContaining({ _meta, cursor: "2" }),
  ] as never)
})

test("a server with an endless list is asked for a hundred pages [skills:aggregate]", async () => {
  let count = 0
  const endless = server("endless", manualClock(), () => page("a", { nextCursor: `${count++}` }))
  expect((await list([endless])).result.skills).toHaveLength(100)
})

test("a client that gives up ends the requests to all servers", async () => {
  const clock = manualClock()
  const slow = server("slow", clock, () => undefined)
  const cancellation = new Cancellation()
  const listed = list([slow], cancellation)
  await clock.pass(0)
  cancellation.cancel("client disconnected")
  await listed
  expect(slow.sent.map(({ method }) => method)).toEqual(["skills/list", "notifications/cancelled"])
})
