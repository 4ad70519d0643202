/** What a server is asked and told on a connection that is open, or has been opened anew. */
import { describe, expect, test } from "bun:test"
import { UnauthorizedError } from "../../src/backend/client-transport.ts"
import { Connection } from "../../src/backend/connection.ts"
import { Lister } from "../../src/backend/lister.ts"
import type { Peer } from "../../src/backend/negotiate.ts"
import { buildCatalog, emptyCatalog, viewOf } from "../../src/catalog/catalog.ts"
import { failuresOf, type Listing } from "../../src/catalog/listing.ts"
import { createScope } from "../../src/catalog/scope.ts"
import type { ServerSpec } from "../../src/config/server-spec.ts"
import { type Log, silentLog } from "../../src/lib/log.ts"
import { createRedactor } from "../../src/lib/redact.ts"
import { createRequestIds, encode } from "../../src/wire/frame.ts"
import { manualClock, settle } from "../clock.ts"
import { fakeConnection } from "../fakes.ts"
import { ODD_NUMBERS } from "../numbers.ts"

const SECRET = "a-configured-secret"
const spec = { name: "s", tuning: { requestTimeout: 1000 } } as unknown as ServerSpec

function open(peer: Partial<Peer>, wanted: { level: string | undefined; uris: readonly string[] }) {
  const clock = manualClock()
  const sent: unknown[] = []
  const connection = fakeConnection(clock, (frame) => {
    const { method, params } = JSON.parse(String(frame))
    if (!String(method).endsWith("/list")) sent.push([method, params.level ?? params.uri])
  })
  const lister = new Lister(
    spec,
    connection,
    { era: "legacy", capabilities: { logging: {}, resources: { subscribe: true } }, ...peer } as Peer,
    { onlisting() {}, subscriptions: () => wanted.uris, logLevel: () => wanted.level },
    { clock, log: silentLog, version: "1", mask: createRedactor([SECRET]).maskKnown },
  )
  return { lister, sent }
}

test("subscriptions and log level are restored in a session that was opened anew", () => {
  const { lister, sent } = open({}, { level: "error", uris: ["a:b"] })
  const wanted = [
    ["resources/subscribe", "a:b"],
    ["logging/setLevel", "error"],
  ]
  lister.begin()
  expect(sent).toEqual(wanted)
  lister.resetSession()
  expect(sent).toEqual([...wanted, ...wanted])
  lister.end()
})

test("subscriptions that change in one turn are compared once", async () => {
  let compared = 0
  const uris: string[] = []
  const { lister, sent } = open(
    {},
    {
      level: undefined,
      get uris() {
        compared++
        return [...uris]
      },
    },
  )
  for (const uri of ["a:1", "a:2", "a:3"]) {
    uris.push(uri)
    void lister.resubscribe()
  }
  await settle()
  expect([compared, sent]).toEqual([1, ["a:1", "a:2", "a:3"].map((uri) => ["resources/subscribe", uri])])
  uris.shift()
  void lister.resubscribe()
  await settle()
  expect([compared, sent.at(-1)]).toEqual([2, ["resources/unsubscribe", "a:1"]])
  lister.end()
})

test.each([
  [-32603, true],
  [-32000, true],
  [429, true],
  [-32601, false],
  [-32602, false],
])("a stream for changes that is refused with %d is asked for again: %p", async (code, again) => {
  const clock = manualClock()
  let asked = 0
  const connection = fakeConnection(clock, (frame) => {
    const { id, method } = JSON.parse(String(frame))
    if (method !== "subscriptions/listen") return
    asked++
    queueMicrotask(() =>
      connection.receive(encode(JSON.stringify({ jsonrpc: "2.0", id, error: { code, message: "no" } }))),
    )
  })
  const peer = { era: "modern", capabilities: { tools: { listChanged: true } } } as unknown as Peer
  const about = { onlisting() {}, subscriptions: () => [], logLevel: () => undefined }
  const mask = createRedactor([]).maskKnown
  const lister = new Lister(spec, connection, peer, about, { clock, log: silentLog, version: "1", mask })
  await lister.begin()
  await clock.pass(120_000)
  // With a backoff of 1 to 30 s.
  expect(asked).toBeWithin(again ? 4 : 1, again ? 12 : 2)
  lister.end()
})

test("no log level is sent if no client set one, the server has no logging, or it is modern", () => {
  for (const [peer, level] of [
    [{}, undefined],
    [{ capabilities: {} }, "error"],
    [{ era: "modern", capabilities: { logging: {} } }, "error"],
  ] as const) {
    const { lister, sent } = open(peer, { level, uris: [] })
    lister.begin()
    lister.updateLogLevel()
    expect(sent).toEqual([])
    lister.end()
  }
})

test("a change of both lists of resources is published once, and a list that is not answered does not hold the other for long", async () => {
  const clock = manualClock()
  const open: (() => void)[] = []
  const connection = fakeConnection(clock, (frame) => {
    const { id, method } = JSON.parse(String(frame))
    const result = method === "resources/list" ? { resources: [] } : { resourceTemplates: [] }
    open.push(() => connection.receive(encode(JSON.stringify({ jsonrpc: "2.0", id, result }))))
  })
  const published: Listing[] = []
  const about = {
    onlisting: (listing: Listing) => void published.push(listing),
    subscriptions: () => [],
    logLevel: () => undefined,
  }
  const peer = { era: "legacy", capabilities: { resources: { listChanged: true } } } as unknown as Peer
  const mask = createRedactor([]).maskKnown
  const lister = new Lister(spec, connection, peer, about, { clock, log: silentLog, version: "1", mask })
  for (const [first, second] of [
    [0, 1],
    [1, 0],
  ] as const) {
    lister.handles("notifications/resources/list_changed", {})
    await clock.pass(100)
    open[first]?.()
    await settle()
    expect(published).toEqual([])
    open[second]?.()
    await settle()
    expect(published).toHaveLength(1)
    published.length = 0
    open.length = 0
  }
  lister.handles("notifications/resources/list_changed", {})
  await clock.pass(100)
  open[0]?.()
  await clock.pass(800)
  expect(published).toEqual([])
  await clock.pass(200)
  expect(published).toMatchObject([{ failing: { "resources/templates/list": expect.any(String) } }])
  lister.end()
})

describe("a list that a client asks for", () => {
  /** Opens a lister of tools whose server answers at once with the tool `name` and this time. */
  async function listed({ ttlMs, listChanged }: { readonly ttlMs?: number; readonly listChanged: boolean }) {
    const clock = manualClock()
    const state = { name: "a", asked: 0, published: 0 }
    const connection = fakeConnection(clock, (frame) => {
      const { id } = JSON.parse(String(frame))
      state.asked++
      const result = { resultType: "complete", tools: [{ name: state.name }], ...(ttlMs !== undefined && { ttlMs }) }
      queueMicrotask(() => connection.receive(encode(JSON.stringify({ jsonrpc: "2.0", id, result }))))
    })
    const peer = { era: "modern", capabilities: { tools: { listChanged } } } as unknown as Peer
    const about = { onlisting: () => void state.published++, subscriptions: () => [], logLevel: () => undefined }
    const mask = createRedactor([]).maskKnown
    const lister = new Lister(spec, connection, peer, about, { clock, log: silentLog, version: "1", mask })
    await lister.list(clock.now() + 1000)
    Object.assign(state, { asked: 0, published: 0 })
    return { lister, clock, state }
  }

  test.each([
    [{ ttlMs: 5000, listChanged: false }, 5000],
    [{ ttlMs: 5000, listChanged: true }, 5000],
    [{ ttlMs: 0, listChanged: false }, 1000],
  ])("is asked for again when it is older than its time: %j [lists:age]", async (given, after) => {
    const { lister, clock, state } = await listed(given)
    await clock.pass(after)
    expect(lister.freshen("tools/list")).toBeUndefined()
    await clock.pass(1)
    state.name = "b"
    await lister.freshen("tools/list")
    expect([lister.listing.tools, state.asked, state.published]).toMatchObject([[{ name: "b" }], 1, 1])
    lister.end()
  })

  test("and has not changed is no news for clients [lists:age]", async () => {
    const { lister, clock, state } = await listed({ ttlMs: 5000, listChanged: false })
    const { tools } = lister.listing
    await clock.pass(5001)
    await Promise.all([lister.freshen("tools/list"), lister.freshen("tools/list")])
    expect([state.asked, state.published]).toEqual([1, 0])
    expect(lister.listing.tools).toBe(tools)
    expect(lister.freshen("tools/list")).toBeUndefined()
    lister.end()
  })

  test("is not asked for again if its server reports changes and names no time [lists:age]", async () => {
    for (const given of [{ ttlMs: 0, listChanged: true }, { listChanged: true }]) {
      const { lister, clock, state } = await listed(given)
      await clock.pass(600_000)
      expect([lister.freshen("tools/list"), state.asked]).toEqual([undefined, 0])
      lister.end()
    }
  })

  test("is asked for again once a minute, without a wait, if its server says nothing of changes [lists:age]", async () => {
    const { lister, clock, state } = await listed({ listChanged: false })
    await clock.pass(60_000)
    expect([lister.freshen("tools/list"), state.asked]).toEqual([undefined, 0])
    await clock.pass(1)
    state.name = "b"
    expect(lister.freshen("tools/list")).toBeUndefined()
    await settle()
    expect([state.asked, state.published]).toEqual([1, 1])
    lister.end()
  })
})

test("a listing keeps its numbers as written, and its freshness is a safe integer", async () => {
  const clock = manualClock()
  const ids = createRequestIds("x")
  const hooks = { owner: undefined, onprotocolerror() {}, onnotification() {} }
  const connection = new Connection("s", ids, clock, hooks)
  const written = (numbers: readonly string[]) =>
    `"inputSchema":{"type":"object","properties":{"n":{"enum":[${numbers}]}}}`
  const tool = written(ODD_NUMBERS)
  // Clients take no infinite number in a definition.
  const listed = written(ODD_NUMBERS.filter((number) => Number.isFinite(Number(number))))
  connection.attach({
    pid: undefined,
    buffered: 0,
    close: async () => undefined,
    send(_frame, { number = 0 }) {
      const list = `{"tools":[{"name":"t",${tool}}],"ttlMs":1e400,"cacheScope":"public"}`
      connection.receive(encode(`{"jsonrpc":"2.0","id":"${ids.text(number)}","result":${list}}`))
    },
  })
  const peer = { era: "modern", capabilities: { tools: {} } } as unknown as Peer
  const about = { onlisting() {}, subscriptions: () => [], logLevel: () => undefined }
  const lister = new Lister(spec, connection, peer, about, {
    clock,
    log: silentLog,
    version: "1",
    mask: createRedactor([SECRET]).maskKnown,
  })
  await lister.list(1000)
  const { listing } = lister
  const launch = { transport: "stdio" }
  const offered = { ...spec, id: "s", slug: "s", launch, tuning: { disabledTools: [], toolDescriptionOverrides: {} } }
  const catalog = buildCatalog([{ spec: offered as unknown as ServerSpec, listing }], emptyCatalog())
  for (const [scope, name] of [
    [{ kind: "server", id: "s" }, "t"],
    [
      createScope(
        () => [],
        () => new Map(),
      ),
      "s_svc_t",
    ],
  ] as const)
    expect(viewOf(catalog, scope).list("tools/list", "modern")).toBe(
      `{"resultType":"complete","tools":[{"name":"${name}",${listed}}],"ttlMs":9007199254740991,"cacheScope":"public"}`,
    )
})

/** A server that answers each list as the test says: with a result, an error, or not at all. */
type Answers = Record<string, { result: object } | { error: { code: number; message: string } } | undefined>

function server(answers: Answers, log: Log = silentLog) {
  const clock = manualClock()
  const asked: string[] = []
  const offered: Listing[] = []
  const pending: { id: unknown; method: string; number: number | undefined }[] = []
  const connection = fakeConnection(clock, (frame, { number }) => {
    const { id, method } = JSON.parse(String(frame))
    if (id === undefined) return
    asked.push(method)
    const answer = answers[method]
    if (answer === undefined) pending.push({ id, method, number })
    else connection.receive(encode(JSON.stringify({ jsonrpc: "2.0", id, ...answer })))
  })
  const lister = new Lister(
    spec,
    connection,
    { era: "legacy", capabilities: { tools: {}, prompts: {}, resources: {} } } as unknown as Peer,
    { onlisting: (listing) => void offered.push(listing), subscriptions: () => [], logLevel: () => undefined },
    { clock, log, version: "1", mask: createRedactor([SECRET]).maskKnown },
  )
  const namesOf = ({ tools, prompts, resources }: Listing) =>
    [...tools, ...prompts, ...resources].map(({ name }) => name)
  return { clock, asked, offered, pending, connection, lister, names: () => namesOf(lister.listing) }
}

const down = { error: { code: -32603, message: "db down" } }
const good = (): Answers => ({
  "tools/list": { result: { tools: [{ name: "t" }] } },
  "prompts/list": { result: { prompts: [{ name: "p" }] } },
  "resources/list": { result: { resources: [{ name: "r", uri: "a:b" }] } },
  "resources/templates/list": { error: { code: -32601, message: "Method not found" } },
})
test("the reason of a failed list is masked before it is cut: no part of a secret is shown", async () => {
  const { lister } = server({
    ...good(),
    "tools/list": { error: { code: 1, message: `${"x".repeat(490)}${SECRET}` } },
  })
  await lister.list(1000)
  expect(failuresOf(lister.listing)).toEqual([`tools/list: ${"x".repeat(490)}[REDACTED]`])
  lister.end()
})

const KINDS = ["tools/list", "prompts/list", "resources/list", "resources/templates/list"] as const

test.each(KINDS)(
  "a server whose %s fails offers the rest, and is asked again until it answers [backend:lists]",
  async (method) => {
    const { lister, names } = server({ ...good(), [method]: down })
    await lister.list(1000)
    const lists: Record<string, string> = { "tools/list": "t", "prompts/list": "p", "resources/list": "r" }
    expect(names()).toEqual(["t", "p", "r"].filter((name) => name !== lists[method]))
    expect(failuresOf(lister.listing)).toEqual([`${method}: db down`])
    lister.end()
  },
)

test("the delays between attempts double up to a minute, and a list that succeeds is published", async () => {
  const answers = { ...good(), "prompts/list": down }
  const { clock, asked, offered, lister, names } = server(answers)
  await lister.list(1000)
  asked.length = 0
  offered.length = 0
  for (const seconds of [1, 2, 4, 8, 16, 32, 60, 60]) {
    await clock.pass(seconds * 1000 - 1)
    expect(asked.splice(0)).toEqual([])
    // What is to be listed again is gathered for 20 ms.
    await clock.pass(21)
    expect(asked.splice(0)).toEqual(["prompts/list"])
  }
  // The same failure is no news.
  expect(offered).toEqual([])
  Object.assign(answers, { "prompts/list": good()["prompts/list"] })
  await clock.pass(61_000)
  expect([names(), failuresOf(lister.listing), offered.length]).toEqual([["t", "p", "r"], [], 1])
  asked.length = 0
  await clock.pass(600_000)
  expect(asked).toEqual([])
  lister.end()
})

test("the lists of a server that keeps forgetting its sessions are requested ever later, and a failed list waits", async () => {
  const { clock, asked, lister } = server({ ...good(), "prompts/list": down })
  await lister.list(1000)
  asked.length = 0
  lister.resetSession()
  await clock.pass(20)
  expect(asked.splice(0)).toEqual(["tools/list", "resources/list", "resources/templates/list"])
  for (let times = 0; times < 1200; times++) {
    lister.resetSession()
    await clock.pass(100)
  }
  expect(asked.filter((method) => method === "tools/list").length).toBeLessThan(10)
  lister.end()
  expect(clock.timers).toBe(0)
})

test("a list without an answer delays nothing, and is taken when it comes", async () => {
  const { clock, lister, names, pending, connection } = server({ ...good(), "tools/list": undefined })
  const listed = lister.list(700)
  await clock.pass(700)
  await listed
  expect([names(), failuresOf(lister.listing)]).toEqual([["p", "r"], ["tools/list: has not answered yet"]])
  // It makes no server busy.
  expect(connection.inFlight - lister.running).toBe(0)
  const [one] = pending
  connection.receive(encode(JSON.stringify({ jsonrpc: "2.0", id: one?.id, ...good()["tools/list"] })))
  await settle()
  expect([names(), failuresOf(lister.listing), pending.length, lister.running]).toEqual([["t", "p", "r"], [], 1, 0])
  lister.end()
})

test.each([
  [{ result: { tools: "none" } }, "answered without a list of tools"],
  [{ result: {} }, "answered without a list of tools"],
])("a list that is none is one that fails: %j", async (answer, reason) => {
  const { lister, names } = server({ ...good(), "tools/list": answer })
  await lister.list(1000)
  expect([names(), failuresOf(lister.listing)]).toEqual([["p", "r"], [`tools/list: ${reason}`]])
  lister.end()
})

test("an empty list that is written as null is an empty list", async () => {
  const { lister, names } = server({ ...good(), "tools/list": { result: { tools: null } } })
  await lister.list(1000)
  expect([names(), failuresOf(lister.listing)]).toEqual([["p", "r"], []])
  lister.end()
})

test("what svc repairs and leaves out is logged when it changes [definitions:issues]", async () => {
  const odd = { name: "t", title: null, inputSchema: { type: "object" } }
  const answers = { ...good(), "tools/list": { result: { tools: [odd] } } }
  const lines: string[] = []
  const { clock, lister, asked } = server(answers, { ...silentLog, warn: (text) => void lines.push(text) })
  await lister.list(1000)
  const relist = async () => {
    asked.length = 0
    lister.handles("notifications/tools/list_changed", {})
    await clock.pass(100)
    expect(asked).toEqual(["tools/list"])
  }
  await relist()
  expect(lines).toEqual(["tool t: title is null: left out"])
  Object.assign(answers, { "tools/list": { result: { tools: [odd, {}] } } })
  await relist()
  expect(lines).toEqual([
    "tool t: title is null: left out",
    "tool no. 2: name is missing: the tool is left out",
    "tool t: title is null: left out",
  ])
  lister.end()
})

test.each([
  ["nothing is known", [], ["t"]],
  ["the last entries are known", ["u", "v"], ["u", "v"]],
] as const)(
  "if %s, a list with an error on its second page has the entries %j or those before the error [backend:lists:refused]",
  async (_case, before, after) => {
    const answers = good()
    answers["tools/list"] = { result: { tools: before.map((name) => ({ name })) } }
    const { clock, lister, names } = server(answers)
    await lister.list(1000)
    let pages = 0
    Object.defineProperty(answers, "tools/list", {
      get: () => (pages++ % 2 === 0 ? { result: { tools: [{ name: "t" }], nextCursor: "2" } } : down),
    })
    lister.handles("notifications/tools/list_changed", {})
    await clock.pass(100)
    expect([names().slice(0, after.length), failuresOf(lister.listing)]).toEqual([[...after], ["tools/list: db down"]])
    lister.end()
  },
)

test("a list that fails later keeps its entries, and the others are published", async () => {
  const answers = good()
  const { clock, lister, names } = server(answers)
  await lister.list(1000)
  Object.assign(answers, { "tools/list": down, "prompts/list": { result: { prompts: [{ name: "q" }] } } })
  lister.handles("notifications/tools/list_changed", {})
  lister.handles("notifications/prompts/list_changed", {})
  await clock.pass(100)
  expect([names(), failuresOf(lister.listing)]).toEqual([["t", "q", "r"], ["tools/list: db down"]])
  Object.assign(answers, { "tools/list": { result: { tools: [{ name: "u" }] } } })
  await clock.pass(1100)
  expect([names(), failuresOf(lister.listing)]).toEqual([["u", "q", "r"], []])
  lister.end()
})

test("a connection that is lost or refuses svc during a list rejects, and is not a failed list", async () => {
  const lost = server({ ...good(), "tools/list": undefined })
  const listed = lost.lister.list(1000)
  lost.connection.end({ reason: "went away" })
  lost.lister.end()
  expect(listed).rejects.toThrow("went away")
  const refused = server({ ...good(), "tools/list": undefined })
  const refusal = refused.lister.list(1000)
  await settle()
  refused.connection.fail(refused.pending[0]?.number ?? 0, new UnauthorizedError("requires authorization"))
  expect(refusal).rejects.toThrow("requires authorization")
  refused.lister.end()
})

test("an ended connection leaves no timer", async () => {
  const { clock, lister } = server({ ...good(), "prompts/list": down })
  await lister.list(1000)
  lister.end()
  await clock.pass(1000)
  expect(clock.timers).toBe(0)
})
