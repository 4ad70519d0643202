/** Connections to a remote server whose answers a test chooses, on a clock that it turns. */
import { expect, test } from "bun:test"
import { UnauthorizedError, UndeliveredError } from "../../src/backend/client-transport.ts"
import type { OpenHooks } from "../../src/backend/connection-attempt.ts"
import { createEraCache } from "../../src/backend/era-cache.ts"
import type { EstablishedConnection } from "../../src/backend/established-connection.ts"
import { openConnection } from "../../src/backend/open-connection.ts"
import { failuresOf, type Listing } from "../../src/catalog/listing.ts"
import { REPLICA_HEADER, type ServerSpec } from "../../src/config/server-spec.ts"
import { silentLog } from "../../src/lib/log.ts"
import { createRequestIds, encode } from "../../src/wire/frame.ts"
import { manualClock, settle } from "../clock.ts"

const url = "http://server/mcp"
const spec = {
  name: "s",
  launch: { transport: "http", url, headers: {}, oauth: undefined, mode: "legacy" },
  tuning: { connectionTimeout: 40_000, requestTimeout: 60_000 },
  secrets: [],
} as unknown as ServerSpec

/**
 * A fault of a method: a status, a connection that is reset or refused, no answer until the test gives one, a replica's refusal,
 * or what the test answers.
 */
type Fault = number | "reset" | "refused" | "silent" | "not here" | (() => Response)
/** More requests than any test needs: a storm ends here. */
const MANY = 2000

/** A legacy server with sessions. `faults` are by method, `GET` among them. */
function remote(faults: Record<string, Fault>, launch = spec.launch) {
  const clock = manualClock()
  const counts: Record<string, number> = {}
  const listings: Listing[] = []
  const silent: Record<string, () => void> = {}
  let total = 0
  let session = 0
  const results: Record<string, object> = {
    initialize: { protocolVersion: "2025-11-25", capabilities: { tools: {}, prompts: {} } },
    "tools/list": { tools: [{ name: "t" }] },
    "prompts/list": { prompts: [{ name: "p" }] },
    ping: {},
  }
  const answer = (id: unknown, method: string): Response =>
    Response.json(
      { jsonrpc: "2.0", id, result: results[method] ?? {} },
      method === "initialize" ? { headers: { "mcp-session-id": `s${++session}` } } : {},
    )
  const fetch = async (_url: string, init: RequestInit): Promise<Response> => {
    const { id, method } = init.method === "POST" ? JSON.parse(String(init.body)) : { id: 1, method: init.method }
    counts[method] = (counts[method] ?? 0) + 1
    const fault = ++total > MANY ? "silent" : faults[method]
    if (fault === "reset") throw Object.assign(new Error("reset"), { code: "ECONNRESET" })
    if (fault === "refused") throw Object.assign(new Error("refused"), { code: "ConnectionRefused" })
    if (fault === "not here")
      return Response.json({ error: "not here" }, { status: 503, headers: { [REPLICA_HEADER]: "refused" } })
    if (fault === "silent")
      return new Promise((resolve) => {
        silent[method] = () => resolve(answer(id, method))
      })
    if (typeof fault === "function") return fault()
    if (fault !== undefined) return new Response("no", { status: fault })
    if (id === undefined) return new Response(null, { status: 202 })
    return init.method === "POST" ? answer(id, method) : new Response(null, { status: 405 })
  }
  let losses = 0
  const eras = createEraCache()
  const open = async (before?: Listing, more: Partial<OpenHooks> = {}): Promise<EstablishedConnection> => {
    const hooks = {
      onnotification() {},
      owner: undefined,
      onfailure() {},
      onrenewed() {},
      onlisting: (listing: Listing) => void listings.push(listing),
      subscriptions: () => [],
      logLevel: () => undefined,
      before,
    }
    const deps = {
      openChild: () => Promise.reject(new Error("no child")),
      openClient: () => ({ fetch, close() {} }),
      credentials: () => undefined,
      ids: createRequestIds("x"),
      clock,
      log: silentLog,
      eras,
      limit: 1 << 20,
      version: "0",
    }
    const opened = await openConnection({ ...spec, launch }, { ...hooks, ...more }, deps, new AbortController().signal)
    void opened.closed.then(() => losses++)
    return opened
  }
  return { clock, counts, eras, faults, listings, silent, open, losses: () => losses }
}

const offered = ({ tools, prompts }: Listing) => [...tools, ...prompts].map(({ name }) => name)

/** Waits for what an in-process fetch needs: reading a body takes turns of the event loop. */
const turns = async (clock: ReturnType<typeof manualClock>, ms = 0) => {
  for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => setImmediate(resolve))
  await clock.pass(ms)
  for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => setImmediate(resolve))
  await settle()
}
/** Lets minutes pass in steps in which answers arrive. */
async function minutes(clock: ReturnType<typeof manualClock>, count: number): Promise<void> {
  for (let second = 0; second < count * 60; second++) await turns(clock, 1000)
}

test.each([
  // A retry of the list may open a session again, ever later; nothing else does.
  ["prompts/list", ["t"], 12],
  ["GET", ["t", "p"], 2],
] as const)("a server that answers %s with 404 is not initialized over and over", async (method, names, most) => {
  const { clock, counts, open, losses } = remote({ [method]: 404 })
  const opened = await open()
  await minutes(clock, 10)
  expect(offered(opened.listing)).toEqual([...names])
  expect(losses()).toBe(0)
  expect(counts.initialize).toBeLessThanOrEqual(most)
  expect(counts["tools/list"]).toBeLessThanOrEqual(most)
  await opened.close()
})

test("a server that resets the connection of one list offers the rest, and is lost when a ping is reset too", async () => {
  const { clock, counts, faults, open, losses } = remote({ "prompts/list": "reset" })
  const opened = await open()
  await minutes(clock, 1)
  expect(offered(opened.listing)).toEqual(["t"])
  expect(failuresOf(opened.listing)).toEqual(["prompts/list: server closed the connection without an answer"])
  expect(losses()).toBe(0)
  expect(counts.ping).toBe(counts["prompts/list"] as number)
  faults.ping = "reset"
  await minutes(clock, 2)
  expect(losses()).toBe(1)
  await opened.close()
})

test("a server that resets the stream for its own messages stays connected", async () => {
  const { clock, open, losses } = remote({ GET: "reset" })
  const opened = await open()
  await minutes(clock, 1)
  expect([offered(opened.listing), losses()]).toEqual([["t", "p"], 0])
  await opened.close()
})

test.each([
  [
    "refused",
    true,
    "is not run by any replica of svc at the moment, because the one that ran it has stopped it or cannot be reached; another takes it over as soon as the replicas can agree: try again",
  ],
  [
    "not here",
    true,
    "is not run by any replica of svc at the moment, because the one that ran it has stopped it or cannot be reached; another takes it over as soon as the replicas can agree: try again",
  ],
  [
    "reset",
    false,
    "has lost the replica of svc that ran it, during this call; another replica takes it over: try again",
  ],
  [500, false, "has lost the replica of svc that ran it, during this call; another replica takes it over: try again"],
] as const)(
  "a call to a replica that is gone (%s) says so in one sentence, and whether anybody saw it [cluster:one:waits]",
  async (fault, isUnseen, says) => {
    const launch = { ...spec.launch, headers: { [REPLICA_HEADER]: "1.mark" } } as unknown as ServerSpec["launch"]
    const { faults, open } = remote({}, launch)
    const opened = await open()
    faults["tools/call"] = fault
    const { outcome } = opened.connection.request({
      method: "tools/call",
      params: {},
      caller: undefined,
      timeout: 1000,
    })
    const error = (await outcome.catch((failure: unknown) => failure)) as Error
    expect([error.message, error instanceof UndeliveredError]).toEqual([`s ${says} in a moment`, isUnseen])
    await opened.close()
  },
)

test("a slow list holds the others up for two seconds, and is offered when it comes", async () => {
  const { clock, listings, silent, open } = remote({ "prompts/list": "silent" })
  let opened: EstablishedConnection | undefined
  void open().then((connection) => {
    opened = connection
  })
  await turns(clock, 1900)
  expect(opened).toBeUndefined()
  await turns(clock, 200)
  expect(offered((opened as unknown as EstablishedConnection).listing)).toEqual(["t"])
  silent["prompts/list"]?.()
  await turns(clock)
  expect(listings.map(offered)).toContainEqual(["t", "p"])
  expect(failuresOf((opened as unknown as EstablishedConnection).listing)).toEqual([])
  await opened?.close()
})

test("the tools are waited for as long as they take, up to half a minute", async () => {
  const { clock, silent, open } = remote({ "tools/list": "silent" })
  let opened: EstablishedConnection | undefined
  const opening = open().then((connection) => {
    opened = connection
  })
  for (let second = 0; second < 20; second++) await turns(clock, 1000)
  expect(opened).toBeUndefined()
  silent["tools/list"]?.()
  await turns(clock)
  await opening
  expect(offered((opened as unknown as EstablishedConnection).listing)).toEqual(["t", "p"])
  await opened?.close()
})

test("a request that failed counts until the server answers another [health:healthy:server]", async () => {
  const { faults, open } = remote({})
  const noted: string[] = []
  const opened = await open(undefined, {
    onfailure: ({ message }) => void noted.push(message),
    onrecovered: () => void noted.push("recovered"),
  })
  const call = () =>
    opened.connection.ask("tools/call", {}, 1000).then(
      () => "answered",
      () => "failed",
    )
  faults["tools/call"] = 500
  const outcomes = [await call()]
  await opened.ping(1000)
  delete faults["tools/call"]
  outcomes.push(await call(), await call())
  expect([outcomes, noted]).toEqual([
    ["failed", "answered", "answered"],
    ["answered 500: no", "recovered"],
  ])
  await opened.close()
})

test.each([
  [403, []],
  [404, []],
  [429, []],
  [408, ["answered 408: no"]],
  [503, ["answered 503: no"]],
])(
  "a call that is answered with %d counts as a failed transport: %j [health:healthy:server]",
  async (status, noted) => {
    const { faults, open } = remote({})
    const failures: string[] = []
    const opened = await open(undefined, { onfailure: ({ message }) => void failures.push(message) })
    faults["tools/call"] = status
    await expect(opened.connection.ask("tools/call", {}, 1000)).rejects.toThrow(`answered ${status}: no`)
    expect(failures).toEqual(noted)
    faults.ping = status
    await opened.ping(1000).catch(() => undefined)
    expect(failures).toEqual([...noted, `answered ${status}: no`])
    await opened.close()
  },
)

test("a connection offers what the one before listed until it has listed that itself", async () => {
  const { clock, faults, open } = remote({})
  const before = await open()
  await before.close()
  faults["tools/list"] = 500
  const after = await open({ ...before.listing, tools: [{ name: "old" }], prompts: [{ name: "gone" }] })
  expect(offered(after.listing)).toEqual(["old", "p"])
  expect(failuresOf(after.listing)).toEqual(["tools/list: answered 500: no"])
  delete faults["tools/list"]
  await minutes(clock, 1)
  expect(offered(after.listing)).toEqual(["t", "p"])
  await after.close()
})

test("an invalid message is masked before it is cut: no part of a secret is logged", async () => {
  const secret = "a-configured-secret"
  const logged: string[] = []
  let receive: (frame: string) => void = () => undefined
  const results: Record<string, object> = { initialize: { protocolVersion: "2025-11-25", capabilities: {} } }
  const open = await openConnection(
    { ...spec, launch: { transport: "stdio", mode: "legacy" }, secrets: [secret] } as unknown as ServerSpec,
    {
      onnotification() {},
      owner: undefined,
      onfailure() {},
      onrenewed() {},
      onlisting() {},
      subscriptions: () => [],
      logLevel: () => undefined,
    },
    {
      openChild(_launch, events) {
        receive = (frame) => events.onframe(encode(frame))
        return {
          pid: 1,
          buffered: 0,
          close: async () => undefined,
          send(frame) {
            const { id, method } = JSON.parse(String(frame))
            if (id !== undefined) receive(JSON.stringify({ jsonrpc: "2.0", id, result: results[method] ?? {} }))
          },
        }
      },
      openClient: () => ({ fetch: () => Promise.reject(new Error("no network")), close() {} }),
      credentials: () => undefined,
      ids: createRequestIds("x"),
      clock: manualClock(),
      log: { ...silentLog, warn: (text) => void logged.push(text) },
      eras: { get: () => undefined, set() {}, forget() {} },
      limit: 1 << 20,
      version: "1",
    },
    new AbortController().signal,
  )
  for (let before = 480; before < 620; before += 8) receive(`{"jsonrpc":"1.0","x":"${"x".repeat(before)}${secret}"}`)
  expect(logged.length).toBeGreaterThan(10)
  for (const line of logged) expect(line).not.toContain("a-c")
  await open.close()
})

test("a server that is configured as modern is not reached over HTTP+SSE [protocol:mode:modern]", async () => {
  const refused = remote({ "server/discover": 405 }, { ...spec.launch, mode: "2026-07-28" })
  await expect(refused.open()).rejects.toThrow("405")
  expect(refused.counts).toEqual({ "server/discover": 1 })
  const old = remote({}, { ...spec.launch, transport: "sse", mode: "2026-07-28" } as typeof spec.launch)
  await expect(old.open()).rejects.toThrow("does not speak 2026-07-28 over HTTP+SSE")
  expect(old.counts).toEqual({})
})

const AUTO = { ...spec.launch, mode: "auto" } as typeof spec.launch
const reply =
  (body: string, type: string, status = 200) =>
  () =>
    new Response(body, { status, headers: { "content-type": type } })
const UNCLEAN: readonly (readonly [string, Fault])[] = [
  ...[201, 202, 203, 302, 400, 401, 403, 404, 405, 406, 409, 410, 415, 422, 429, 500, 501, 502, 503, 504].map(
    (status) => [String(status), status] as const,
  ),
  ["204", () => new Response(null, { status: 204 })],
  ["reset", "reset"],
  ["an empty event stream", reply("", "text/event-stream")],
  ["a comment", reply(": hello\n\n", "text/event-stream")],
  ["another event", reply("event: x\ndata: hello\n\n", "text/event-stream")],
  ["an empty object", reply("{}", "application/json")],
  ["an empty list", reply("[]", "application/json")],
  ["an empty body", reply("", "application/json")],
  ["half a message", reply('{"jsonrpc":"2.0","id":', "application/json")],
  ["an answer to another request", reply('{"jsonrpc":"2.0","id":"no","result":{}}', "application/json")],
  ["a web page", reply("<html></html>", "text/html")],
  ["text", reply("hello", "text/plain")],
  [
    "401 with an error",
    reply('{"jsonrpc":"2.0","id":null,"error":{"code":-32601,"message":"no"}}', "application/json", 401),
  ],
  [
    "403 with an error",
    reply('{"jsonrpc":"2.0","id":null,"error":{"code":-32601,"message":"no"}}', "application/json", 403),
  ],
  [
    "500 with an error",
    reply('{"jsonrpc":"2.0","id":null,"error":{"code":-32603,"message":"no"}}', "application/json", 500),
  ],
]

test.each(UNCLEAN)(
  "initialize decides within the attempt if the probe gets %s [protocol:mode:unclean]",
  async (_, fault) => {
    const { counts, open } = remote({ "server/discover": fault }, AUTO)
    const opened = await open()
    expect([opened.peer.era, counts["server/discover"], counts.initialize]).toEqual(["legacy", 1, 1])
    await opened.close()
  },
)

test("initialize decides within the attempt if the probe gets no answer [protocol:mode:unclean]", async () => {
  const { clock, counts, open } = remote({ "server/discover": "silent" }, AUTO)
  const opening = open()
  await turns(clock, 5000)
  expect(counts.initialize).toBe(1)
  for (let turn = 0; turn < 4; turn++) await turns(clock, 250)
  const opened = await opening
  expect(opened.peer.era).toBe("legacy")
  await opened.close()
})

test("a server at which nothing listens is not asked twice within an attempt", async () => {
  const { counts, open } = remote({ "server/discover": "refused" }, AUTO)
  await expect(open()).rejects.toThrow("cannot reach")
  expect(counts.initialize).toBeUndefined()
})

test.each([400, 404, 405])(
  "a 401 to the probe and %d to initialize require authorization [protocol:mode:unclean]",
  async (status) => {
    const { open } = remote({ "server/discover": 401, initialize: status }, AUTO)
    await expect(open()).rejects.toBeInstanceOf(UnauthorizedError)
  },
)

test("a 401 to probe and initialize requires authorization [protocol:mode:unclean]", async () => {
  const { open } = remote({ "server/discover": 401, initialize: 401 }, AUTO)
  expect(await open().catch((error: unknown) => error)).toBeInstanceOf(UnauthorizedError)
})

test("the error for a server that did not survive the probe names the setting that avoids the probe [protocol:mode:unclean]", async () => {
  const { open } = remote({ "server/discover": reply("", "text/event-stream"), initialize: "reset" }, AUTO)
  await expect(open()).rejects.toThrow('set "protocolVersion": "legacy"')
})

test.each([400, 404, 415, 422, 500, 501])(
  "http tries HTTP+SSE after %d at an address in /sse, and then names type sse",
  async (status) => {
    const sse = { ...AUTO, url: "http://server/sse" } as typeof spec.launch
    const { counts, open } = remote({ "server/discover": status, initialize: status }, sse)
    await expect(open()).rejects.toThrow(`answered ${status}: no; if it speaks HTTP+SSE, set "type": "sse"`)
    expect(counts.GET).toBe(1)
  },
)

test("the era that svc found is used after a loss, and not after a start or an operator's restart [protocol:era:remembered]", async () => {
  const { counts, open } = remote({ "server/discover": 405 }, AUTO)
  for (const [isFresh, probes] of [
    [true, 1],
    [false, 1],
    [false, 1],
    [true, 2],
    [false, 2],
  ] as const) {
    const opened = await open(undefined, { isFresh })
    expect([opened.peer.era, counts["server/discover"]]).toEqual(["legacy", probes])
    await opened.close()
  }
})

test.each([500, reply('{"jsonrpc":"2.0","id":null,"error":{"code":-32603,"message":"no"}}', "application/json", 400)])(
  "an internal error at the probe is remembered as nothing (%#) [protocol:era:remembered]",
  async (fault) => {
    const { counts, eras, open } = remote({ "server/discover": fault }, AUTO)
    for (const probes of [1, 2]) {
      const opened = await open()
      expect([opened.peer.era, counts["server/discover"], eras.get(AUTO)]).toEqual(["legacy", probes, undefined])
      await opened.close()
    }
  },
)

test("a legacy server that refuses pings, but opens new sessions, is not lost and is rarely asked for one [protocol:era:relearned]", async () => {
  const faults = { "server/discover": 405, ping: 405 } as const
  const { clock, counts, open, losses } = remote({ ...faults }, { ...spec.launch, mode: "auto" })
  const opened = await open()
  for (let minute = 0; minute < 9; minute++) {
    await expect(opened.ping(1000)).rejects.toThrow("405")
    await turns(clock, 60_000)
  }
  expect([losses(), counts.initialize]).toEqual([0, 3])
  await opened.close()
})

test("an attempt to connect anew ends when its connection is closed", async () => {
  const { faults, silent, open } = remote({ "server/discover": 405 }, { ...spec.launch, mode: "auto" })
  const opened = await open()
  Object.assign(faults, { ping: 405, initialize: "silent" })
  const pinged = opened.ping(1000).catch((error: unknown) => error)
  while (silent.initialize === undefined) await settle()
  await opened.close()
  expect(await pinged).toBeInstanceOf(Error)
})
