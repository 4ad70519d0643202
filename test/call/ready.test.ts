import { describe, expect, test } from "bun:test"
import type { Directory } from "../../src/call/ports.ts"
import { ready } from "../../src/call/ready.ts"
import { buildCatalog, emptyCatalog } from "../../src/catalog/catalog.ts"
import { dispatch } from "../../src/session/dispatch.ts"
import { encode, textOf } from "../../src/wire/frame.ts"
import type { Request } from "../../src/wire/message.ts"
import { manualClock, settle } from "../clock.ts"
import { fakeClient, fakeConnection, fakeExchange, fakeGateway, fakePeer, fakeSpec } from "../fakes.ts"

const request = (method: string, params?: object): Request => ({
  jsonrpc: "2.0",
  id: 1,
  method,
  ...(params === undefined ? {} : { params: { ...params } }),
})

/** Requests that name a server, each as a client of `/mcp` writes it. */
const NAMING: readonly (readonly [what: string, request: Request])[] = [
  ["a tool call", request("tools/call", { name: "s_svc_x" })],
  ["a prompt", request("prompts/get", { name: "s_svc_x" })],
  ["a resource", request("resources/read", { uri: "svc://s/file:///a" })],
  ["a completion of a prompt", request("completion/complete", { ref: { type: "ref/prompt", name: "s_svc_x" } })],
  [
    "a completion of a resource",
    request("completion/complete", { ref: { type: "ref/resource", uri: "svc://s/file:///a" } }),
  ],
]
const LISTS = ["tools/list", "prompts/list", "resources/list", "resources/templates/list", "server/discover"]

/** A request to svc with one server that is not connected. */
function waiting(asked: Request, directory: Partial<Directory>) {
  const gateway = fakeGateway({
    directory: Object.defineProperties(
      { target: () => "is away", disconnectedId: () => "s" },
      Object.getOwnPropertyDescriptors(directory),
    ),
  })
  return { request: asked, gateway, client: fakeClient("legacy"), exchange: fakeExchange() }
}

describe("a request that names a server", () => {
  for (const [what, asked] of NAMING) {
    test(`waits for the first load, then for its server: ${what}`, async () => {
      const steps: string[] = []
      const [load, back] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
      const call = waiting(asked, {
        initialLoad: load.promise,
        whenBack(id) {
          steps.push(`waits for ${id}`)
          return back.promise
        },
      })
      const wait = Promise.resolve(ready(call)).then(() => steps.push("goes on"))
      await settle()
      steps.push("loaded")
      load.resolve()
      await settle()
      back.resolve()
      await wait
      expect(steps).toEqual(["loaded", "waits for s", "goes on"])
    })

    test(`fails because svc is shutting down if svc stops before or during either wait: ${what} [protocol:stopping]`, async () => {
      for (const phase of ["loading", "returning", "before"]) {
        const { promise, resolve } = Promise.withResolvers<void>()
        let stopping = phase === "before"
        const call = waiting(asked, {
          get stopping() {
            return stopping
          },
          initialLoad: phase === "loading" ? promise : undefined,
          disconnectedId: () => (stopping ? undefined : "s"),
          whenBack: () => promise,
        })
        const answer = dispatch(call)
        stopping = true
        resolve()
        const { frame, outcome } = await answer
        expect([phase, outcome, JSON.parse(textOf(frame)).error]).toEqual([
          phase,
          "error",
          { code: -32603, message: "svc is shutting down" },
        ])
      }
    })
  }

  test("is answered by the server that has returned after the wait", async () => {
    const { promise, resolve } = Promise.withResolvers<void>()
    const connection = fakeConnection(
      manualClock(),
      (frame) => {
        const { id } = JSON.parse(textOf(frame))
        queueMicrotask(() => connection.receive(encode(`{"jsonrpc":"2.0","id":"${id}","result":{"from":"s"}}`)))
      },
      { onprotocolerror: (text) => expect(text).toBe("") },
    )
    const [spec, peer] = [fakeSpec(), fakePeer("legacy")]
    const listing = { ...peer, tools: [{ name: "x" }], prompts: [], resources: [], resourceTemplates: [] }
    const [before, after] = [emptyCatalog(), buildCatalog([{ spec, listing }], emptyCatalog())]
    let isBack = false
    const call = waiting(request("tools/call", { name: "s_svc_x" }), {
      catalogOf: () => (isBack ? after : before),
      target: () => (isBack ? { spec, connection, peer } : "is away"),
      disconnectedId: () => (isBack ? undefined : "s"),
      whenBack: () => (isBack ? undefined : promise),
    })
    const answer = dispatch(call)
    isBack = true
    resolve()
    expect(textOf((await answer).frame)).toContain('"from":"s"')
  })

  test("fails with the reason if its server does not return in time", async () => {
    const { frame, outcome, code } = await dispatch(waiting(request("tools/call", { name: "s_svc_x" }), {}))
    expect([outcome, code]).toEqual(["tool_error", -32603])
    expect(textOf(frame)).toContain("s is away")
  })

  test("never reaches a server if its client cancels it while it waits, and does not wait any longer", async () => {
    for (const phase of ["loading", "returning"]) {
      const never = new Promise<void>(() => undefined)
      const call = waiting(request("tools/call", { name: "s_svc_x" }), {
        initialLoad: phase === "loading" ? never : undefined,
        whenBack: () => never,
        target: () => {
          throw new Error("it went on")
        },
      })
      const answer = dispatch(call)
      call.exchange.cancellation.cancel("was cancelled by the client")
      expect(textOf((await answer).frame)).toContain("was cancelled by the client")
    }
  })
})

describe("a request that names no server", () => {
  test.each(LISTS)("waits only for the first load: %s", async (method) => {
    const { promise, resolve } = Promise.withResolvers<void>()
    const call = waiting(request(method), {
      initialLoad: promise,
      whenBack: () => {
        throw new Error("waits for a server")
      },
    })
    const wait = ready(call)
    expect(wait).toBeInstanceOf(Promise)
    resolve()
    await wait
    expect(ready({ ...call, gateway: fakeGateway() })).not.toBeInstanceOf(Promise)
  })

  test("does not wait at all if it is a ping, not even while svc stops", async () => {
    const call = waiting(request("ping"), { initialLoad: new Promise(() => undefined), stopping: true })
    expect(textOf((await dispatch(call)).frame)).toBe('{"jsonrpc":"2.0","id":1,"result":{}}')
  })
})

test("a method that svc does not know waits for the only server of its address, and at /mcp for no server", () => {
  const asked: string[] = []
  const whenBack = (id: string) => {
    asked.push(id)
    return undefined
  }
  const call = waiting(request("vendor/method"), { whenBack })
  ready(call)
  expect(asked).toEqual([])
  ready({ ...call, client: fakeClient("legacy", { scope: { kind: "server", id: "s" } }) })
  expect(asked).toEqual(["s"])
})

describe("a tool call at a connected server", () => {
  const unlisted = () => ({ id: "s", slug: "s", reason: "tools/list has not been answered yet" })
  const connected: Partial<Directory> = { takesCalls: () => true, disconnectedId: () => undefined, unlisted }

  test("waits for the server's first list if no list has the tool, and fails with the reason if it does not come", async () => {
    const { promise, resolve } = Promise.withResolvers<void>()
    const call = waiting(request("tools/call", { name: "s_svc_x" }), { ...connected, whenBack: () => promise })
    const answer = dispatch(call)
    resolve()
    const { frame, outcome } = await answer
    expect([outcome, textOf(frame)]).toEqual([
      "tool_error",
      expect.stringContaining("s: tools/list has not been answered yet"),
    ])
  })

  test("does not wait for the other lists of the server if a list has the tool", () => {
    const listing = { ...fakePeer("legacy"), tools: [{ name: "x" }], prompts: [], resources: [], resourceTemplates: [] }
    const catalog = buildCatalog([{ spec: fakeSpec(), listing }], emptyCatalog())
    const whenBack = () => new Promise<void>(() => undefined)
    const directory = { ...connected, catalogOf: () => catalog, whenBack }
    expect(ready(waiting(request("tools/call", { name: "s_svc_x" }), directory))).not.toBeInstanceOf(Promise)
  })
})
