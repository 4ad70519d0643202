import { expect, test } from "bun:test"
import { emptyCatalog } from "../../src/catalog/catalog.ts"
import { Cancellation } from "../../src/session/cancellation.ts"
import type { Client, Exchange, Gateway } from "../../src/session/client.ts"
import { dispatch } from "../../src/session/dispatch.ts"

test("a request that is cancelled while it waits for servers to start never reaches one", async () => {
  const { promise: initialLoad, resolve: loaded } = Promise.withResolvers<void>()
  const gateway = {
    initialLoad,
    hide: (text: string) => text,
    get catalog(): never {
      throw new Error("it went on")
    },
  } as unknown as Gateway
  const client = { era: "legacy", scope: { kind: "server", id: "s" } } as Client
  const exchange: Exchange = {
    cancellation: new Cancellation(),
    notify() {},
    ask: () => Promise.reject(new Error("asked")),
  }
  const request = { jsonrpc: "2.0", id: 1, method: "prompts/list" } as const
  const bugs: unknown[] = []
  const answer = dispatch(request, { gateway, client, exchange }, (bug) => bugs.push(bug))
  exchange.cancellation.cancel("was cancelled by the client")
  loaded()
  expect(String((await answer).frame)).toContain("was cancelled by the client")
  expect(bugs).toEqual([])
})

const catalog = emptyCatalog()

test("a request that waits when svc stops, or comes later, is told that svc is shutting down [protocol:stopping]", async () => {
  const requests = [
    { method: "tools/call", params: { name: "s_svc_x" } },
    { method: "prompts/get", params: { name: "s_svc_x" } },
    { method: "resources/read", params: { uri: "svc://s/file:///a" } },
    { method: "completion/complete", params: { ref: { type: "ref/prompt", name: "s_svc_x" } } },
    { method: "completion/complete", params: { ref: { type: "ref/resource", uri: "svc://s/file:///a" } } },
  ]
  for (const waitsFor of ["loading", "returning", "nothing"])
    for (const about of requests) {
      const { promise, resolve } = Promise.withResolvers<void>()
      let stopping = waitsFor === "nothing"
      const gateway = {
        get stopping() {
          return stopping
        },
        initialLoad: waitsFor === "loading" ? promise : undefined,
        catalogOf: () => catalog,
        target: () => "is away",
        disconnectedId: () => (stopping ? undefined : "s"),
        unlisted: () => undefined,
        whenBack: () => promise,
        hide: (text: string) => text,
        callRate: { take: () => undefined },
      } as unknown as Gateway
      const client = { era: "legacy", scope: { kind: "aggregate" } } as Client
      const exchange: Exchange = {
        cancellation: new Cancellation(),
        notify() {},
        ask: () => Promise.reject(new Error("asked")),
      }
      const bugs: unknown[] = []
      const request = { jsonrpc: "2.0", id: 1, ...about } as const
      const answer = dispatch(request, { gateway, client, exchange }, (bug) => bugs.push(bug))
      stopping = true
      resolve()
      const error = { code: -32603, message: "svc is shutting down" }
      expect([waitsFor, about.method, JSON.parse(String((await answer).frame)).error, bugs]).toEqual([
        waitsFor,
        about.method,
        error,
        [],
      ])
    }
})
