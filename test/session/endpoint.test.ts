import { describe, expect, test } from "bun:test"
import type { Answer } from "../../src/call/answer.ts"
import { Cancellation } from "../../src/call/cancellation.ts"
import type { Exchange } from "../../src/call/client.ts"
import type { ClientCall, Gateway, Listener, Target } from "../../src/call/ports.ts"
import { buildCatalog, emptyCatalog } from "../../src/catalog/catalog.ts"
import { createSealer } from "../../src/lib/seal.ts"
import { accept, initialize, type Opening, serve as serveInto } from "../../src/session/endpoint.ts"
import { RunningRequests } from "../../src/session/running-requests.ts"
import { Session } from "../../src/session/session.ts"
import { Sessions } from "../../src/session/sessions.ts"
import { SuspendedCalls } from "../../src/session/suspended-calls.ts"
import { textOf } from "../../src/wire/frame.ts"
import type { Params, Request } from "../../src/wire/message.ts"
import { manualClock, settle } from "../clock.ts"
import { AGGREGATE, fakeClient, fakeExchange, fakeGateway, fakePeer, fakeSpec, type GatewayParts } from "../fakes.ts"

const request = (method: string, params: Params = {}): Request => ({ jsonrpc: "2.0", id: 1, method, params })

function endpoint(parts: GatewayParts = {}) {
  const clock = manualClock()
  const gateway = fakeGateway(parts)
  const ended: string[] = []
  const sessions = new Sessions(
    clock,
    { count: 10, ttl: 1e9 },
    ({ id }) => void ended.push(id),
    () => undefined,
  )
  const sealer = createSealer(new Uint8Array(32))
  const suspendedCalls = new SuspendedCalls({ clock, sealer, newId: () => "c", onbug: gateway.observers.onbug })
  return { gateway, sessions, suspendedCalls, ended }
}

/** Resolves with what is delivered. */
const serve = (
  call: ClientCall,
  deps: ReturnType<typeof endpoint>,
  running?: RunningRequests,
): Promise<Answer | undefined> => new Promise((resolve) => serveInto(call, deps, running, resolve))

const opening = (more: Partial<Opening> = {}): Opening => ({
  request: request("initialize", { protocolVersion: "2025-06-18", capabilities: {}, clientInfo: { name: "c" } }),
  id: "id",
  principal: "me",
  cancellation: new Cancellation(),
  identify: async () => AGGREGATE,
  ...more,
})

const failureOf = (promise: Promise<unknown>): Promise<string> =>
  promise.then(
    () => "none",
    ({ name, message }: Error) => `${name}: ${message}`,
  )

describe("initialize", () => {
  test("refuses params that are too large to keep [session:params]", async () => {
    const params = { protocolVersion: "2025-06-18", capabilities: { experimental: { x: { y: "z".repeat(65_536) } } } }
    const refused = initialize(opening({ request: request("initialize", params) }), endpoint())
    expect(await failureOf(refused)).toContain("at most 65536 characters")
  })

  test("opens a session with the version that the client asked for", async () => {
    const deps = endpoint()
    const { session, answer } = await initialize(opening(), deps)
    expect(JSON.parse(textOf(answer.frame)).result).toMatchObject({
      protocolVersion: "2025-06-18",
      serverInfo: { name: "svc" },
    })
    expect(deps.sessions.get("id", "me", AGGREGATE, deps.gateway)).toBe(session)
  })

  test("waits for the first load and for the client's own servers at once", async () => {
    const [load, own] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
    const steps: string[] = []
    const identify = async () => {
      steps.push("own servers start")
      await own.promise
      return AGGREGATE
    }
    const opened = initialize(opening({ identify }), endpoint({ directory: { initialLoad: load.promise } }))
    void opened.then(() => steps.push("opened"))
    await settle()
    own.resolve()
    await settle()
    steps.push("loaded")
    load.resolve()
    await opened
    expect(steps).toEqual(["own servers start", "loaded", "opened"])
  })

  test("leaves no session behind if the client disconnects while its servers start", async () => {
    const own = Promise.withResolvers<void>()
    const deps = endpoint()
    const cancellation = new Cancellation()
    const identify = () => own.promise.then(() => AGGREGATE)
    const failure = failureOf(initialize(opening({ cancellation, identify }), deps))
    cancellation.cancel("client disconnected")
    own.resolve()
    expect(await failure).toBe("RequestError: client disconnected")
    expect(deps.sessions.size).toBe(0)
  })

  test("ends the session that the same channel had before", async () => {
    const deps = endpoint()
    const { session: first } = await initialize(opening(), deps)
    const { session: second } = await initialize(opening(), deps)
    expect([deps.ended, deps.sessions.size, second === first]).toEqual([["id"], 1, false])
  })

  test("is refused while svc stops, and if the only server of the address is not connected", async () => {
    expect(await failureOf(initialize(opening(), endpoint({ directory: { stopping: true } })))).toBe(
      "UnavailableError: svc is shutting down",
    )
    const identify = async () => ({ kind: "server", id: "s" }) as const
    const deps = endpoint({ directory: { target: () => "is not available" } })
    expect(await failureOf(initialize(opening({ identify }), deps))).toBe("BackendError: s is not available")
    expect(deps.sessions.size).toBe(0)
  })

  test("waits for the only server of the address if it is about to return", async () => {
    const back = Promise.withResolvers<void>()
    let target: Target | string = "is not available"
    const deps = endpoint({ directory: { target: () => target, whenBack: () => back.promise } })
    const opened = initialize(opening({ identify: async () => ({ kind: "server", id: "s" }) }), deps)
    await settle()
    target = { spec: fakeSpec(), peer: fakePeer("legacy") } as Target
    back.resolve()
    expect(textOf((await opened).answer.frame)).toContain('"serverInfo":{"name":"s"')
  })

  test("counts against the rate limit of the client", async () => {
    const deps = endpoint({ limits: { sessionRate: 1, callRate: { take: () => 7 } } })
    expect(await failureOf(initialize(opening(), deps))).toBe("RequestError: Too many calls; try again in 7 s")
  })

  test("ends its wait when the client is gone", async () => {
    const cancellation = new Cancellation()
    const deps = endpoint({ directory: { initialLoad: new Promise(() => undefined) } })
    const opened = failureOf(initialize(opening({ cancellation }), deps))
    cancellation.cancel("the client is gone")
    expect(await opened).toBe("RequestError: the client is gone")
    expect(deps.sessions.size).toBe(0)
  })
})

describe("a request of a session", () => {
  const cancelled = (requestId: unknown, reason?: string) =>
    ({ jsonrpc: "2.0", method: "notifications/cancelled", params: { requestId, reason } }) as const

  test("that its client cancels gets no answer, and the code that handles it gets the reason", async () => {
    const deps = endpoint({ directory: { initialLoad: new Promise(() => undefined) } })
    const session = new Session("id", "me", AGGREGATE, {})
    const exchange = fakeExchange()
    const call = { request: request("tools/list"), client: session, exchange, gateway: deps.gateway }
    const answer = serve(call, deps, session.running)
    accept(cancelled("another"), session, deps.gateway)
    expect([session.inFlight, exchange.cancellation.reason]).toEqual([1, undefined])
    accept(cancelled(1, "changed my mind"), session, deps.gateway)
    expect(await answer).toBeUndefined()
    expect([session.inFlight, exchange.cancellation.reason]).toEqual([0, "changed my mind"])
  })

  test("is answered with an error if the session ends while it runs", async () => {
    const deps = endpoint({ directory: { initialLoad: new Promise(() => undefined) } })
    const session = new Session("id", "me", AGGREGATE, {})
    const call = { request: request("tools/list"), client: session, exchange: fakeExchange(), gateway: deps.gateway }
    const answer = serve(call, deps, session.running)
    session.end("expired")
    expect(textOf((await answer)?.frame ?? "")).toContain('"message":"expired"')
  })

  test("is not answered if its client ends the session", async () => {
    const deps = endpoint({ directory: { initialLoad: new Promise(() => undefined) } })
    const session = new Session("id", "me", AGGREGATE, {})
    const exchange = fakeExchange()
    const answer = serve(
      { request: request("tools/list"), client: session, exchange, gateway: deps.gateway },
      deps,
      session.running,
    )
    session.running.drop("was ended by the client")
    expect([await answer, exchange.cancellation.reason]).toEqual([undefined, "was ended by the client"])
  })

  test("is refused if its id is in flight, and the first request with the id can be cancelled [protocol:id]", async () => {
    const deps = endpoint({ directory: { initialLoad: new Promise(() => undefined) } })
    const session = new Session("id", "me", AGGREGATE, {})
    const [first, second, third] = [fakeExchange(), fakeExchange(), fakeExchange()]
    const start = (exchange: Exchange) =>
      serve({ request: request("tools/list"), client: session, exchange, gateway: deps.gateway }, deps, session.running)
    const answer = start(first)
    expect(JSON.parse(textOf((await start(second))?.frame ?? ""))).toMatchObject({
      id: 1,
      error: { code: -32600, message: expect.stringContaining("in flight") },
    })
    accept(cancelled(1), session, deps.gateway)
    // The client may use the id again from here on.
    const again = start(third)
    expect(await answer).toBeUndefined()
    accept(cancelled(1), session, deps.gateway)
    expect(await again).toBeUndefined()
    expect([first, second, third].map(({ cancellation }) => cancellation.reason !== undefined)).toEqual([
      true,
      false,
      true,
    ])
  })

  test("is distinct from another request whose id is written differently", () => {
    const running = new RunningRequests()
    const [one, other] = [fakeExchange(), fakeExchange()]
    running.begin(1, one)
    running.begin("1", other)
    running.cancel({ requestId: "1" })
    running.cancel({ requestId: {} })
    expect([one.cancellation.reason, other.cancellation.reason]).toEqual([undefined, "was cancelled by the client"])
  })
})

describe("subscriptions/listen of a modern client", () => {
  const listing = { ...fakePeer("modern"), tools: [], prompts: [], resources: [], resourceTemplates: [] }
  const one = buildCatalog([{ spec: fakeSpec(), listing: { ...listing, tools: [{ name: "a" }] } }], emptyCatalog())

  function listening(params: Params = { notifications: { toolsListChanged: true } }, capabilities: Params = {}) {
    let catalog = emptyCatalog()
    let listener: Listener | undefined
    const deps = endpoint({
      directory: { catalogOf: () => catalog },
      notifications: {
        listen(opened) {
          listener = opened
          return () => {
            listener = undefined
          }
        },
      },
    })
    const seen: string[] = []
    let close: () => void = () => undefined
    const exchange = fakeExchange({
      notify: (text) => void seen.push(JSON.parse(text).method),
      onstream(end) {
        close = end
      },
    })
    const client = fakeClient("modern", { capabilities })
    const call = { request: request("subscriptions/listen", params), client, exchange, gateway: deps.gateway }
    const change = () => {
      catalog = one
      listener?.catalogChanged()
    }
    return {
      answer: serve(call, deps),
      seen,
      change,
      close: () => close(),
      exchange,
      isOpen: () => listener !== undefined,
    }
  }

  test("is acknowledged, receives changes, and is answered when svc closes it", async () => {
    const { answer, seen, change, close, isOpen } = listening()
    await settle()
    change()
    expect(seen).toEqual(["notifications/subscriptions/acknowledged", "notifications/tools/list_changed"])
    close()
    expect(textOf((await answer)?.frame ?? "")).toContain('"resultType":"complete"')
    expect(isOpen()).toBe(false)
  })

  test("ends without an answer when its client leaves, also before it has begun", async () => {
    for (const early of [true, false]) {
      const { answer, exchange, isOpen } = listening()
      if (!early) await settle()
      exchange.cancellation.cancel("the client closed the connection")
      expect([await answer, isOpen()]).toEqual([undefined, false])
    }
  })

  test("to tasks is refused without the extension for them", async () => {
    const { answer } = listening({ notifications: { taskIds: ["t"] } })
    expect(await answer).toMatchObject({ outcome: "error", code: -32021 })
  })
})

test("a modern request is answered without a session, and legacy methods are unknown there", async () => {
  const deps = endpoint()
  const ask = async (method: string, gateway: Gateway = deps.gateway) =>
    serve({ request: request(method), client: fakeClient("modern"), exchange: fakeExchange(), gateway }, deps)
  expect(await ask("tools/list")).toMatchObject({ outcome: "ok" })
  expect(await ask("ping")).toMatchObject({ outcome: "error", code: -32601 })
})
