import { expect, test } from "bun:test"
import type { Client, Exchange, Face } from "../../src/session/client.ts"
import { dispatch } from "../../src/session/dispatch.ts"

test("a request that is cancelled while it waits for servers to start never reaches one", async () => {
  const { promise: loading, resolve: loaded } = Promise.withResolvers<void>()
  const face = {
    loading,
    hide: (text: string) => text,
    get catalog(): never {
      throw new Error("it went on")
    },
  } as unknown as Face
  const client = { era: "2025", scope: { kind: "server", id: "s" } } as Client
  const exchange: Exchange = { oncancel: undefined, notify() {}, ask: () => Promise.reject(new Error("asked")) }
  const request = { jsonrpc: "2.0", id: 1, method: "prompts/list" } as const
  const bugs: unknown[] = []
  const answer = dispatch(request, { face, client, exchange }, (bug) => bugs.push(bug))
  exchange.oncancel?.("was cancelled by the client")
  loaded()
  expect(String(await answer)).toContain("was cancelled by the client")
  expect(bugs).toEqual([])
})
