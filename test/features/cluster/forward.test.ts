/** What becomes of a request that was sent on to another replica. */
import { expect, test } from "bun:test"
import { createForward, createPassOn } from "../../../src/features/cluster/forward.ts"
import { UnansweredError } from "../../../src/lib/errors.ts"
import { UnreachedError } from "../../../src/serve/elsewhere.ts"
import type { OpenStream } from "../../../src/serve/http-exchange.ts"
import { openSessionStream } from "../../../src/serve/session-stream.ts"
import { Session } from "../../../src/session/session.ts"
import { AGGREGATE } from "../../fakes.ts"

function open(send: (init: RequestInit) => Promise<Response>) {
  const abort = new AbortController()
  const forward = createForward({
    replica: "b",
    find: () => ({ address: "http://a", gone: abort.signal }),
    send: (_url, init) => send(init),
  })
  return { forward, gone: () => abort.abort() }
}

/** Never answers, as a replica that hangs. */
const silence = ({ signal }: RequestInit): Promise<Response> =>
  new Promise((_, reject) => signal?.addEventListener("abort", () => reject(signal.reason)))

const post = (headers = {}) => new Request("http://x/mcp", { method: "POST", headers })
const STREAM = { headers: { "content-type": "text/event-stream" } }

test("a request ends when the replica that works on it is gone [cluster:silent]", async () => {
  const { forward, gone } = open(silence)
  const forwarded = forward("a", post(), "{}", 1)
  gone()
  const error = await forwarded?.catch((thrown: unknown) => thrown)
  expect(error).toBeInstanceOf(UnansweredError)
  expect(String(error)).toContain("does not answer")
})

test("a stream that breaks off ends with an error for its request, also within an event [cluster:silent]", async () => {
  for (const [id, text] of [
    [7, 'data: {"method":"x"}\n\ndata: {"meth'],
    [undefined, "data: {}\n\n"],
  ] as const) {
    const { promise: started, resolve } = Promise.withResolvers<ReadableStreamDefaultController<Uint8Array>>()
    const { forward } = open(async () => new Response(new ReadableStream({ start: resolve }), STREAM))
    const reader = (await forward("a", post(), "{}", id))?.body?.getReader()
    const controller = await started
    controller.enqueue(Buffer.from(text))
    expect(Buffer.from((await reader?.read())?.value ?? []).toString()).toBe(text)
    controller.error(new Error("the connection was closed"))
    const last = await reader?.read()
    if (id === undefined) {
      expect(last?.done).toBe(true)
      continue
    }
    const event = Buffer.from(last?.value ?? []).toString()
    expect(JSON.parse(/^\n\nevent: message\ndata: (.*)\n\n$/.exec(event)?.[1] ?? "")).toMatchObject({
      id,
      error: { code: -32603 },
    })
    expect((await reader?.read())?.done).toBe(true)
  }
})

test("a response that is whole goes on as it came", async () => {
  const { forward } = open(async () => new Response("data: {}\n\n", STREAM))
  expect(await (await forward("a", post(), "{}", 1))?.text()).toBe("data: {}\n\n")
})

test("a request goes on once", () => {
  const { forward } = open(silence)
  expect(forward("b", post())).toBeUndefined()
  expect(forward("a", post({ "svc-forwarded-by": "c" }))).toBeUndefined()
})

test("a request for a replica that cannot be reached is refused for a moment while it says hello [cluster:unreached]", async () => {
  const { signal: gone } = new AbortController()
  const refused = Object.assign(new Error("refused"), { code: "ConnectionRefused" })
  let isAlive = true
  let sent = 0
  const forward = (reaches: boolean | Promise<boolean>) =>
    createForward({
      replica: "b",
      find: () => (isAlive ? { address: "http://a", gone } : undefined),
      reaches: () => reaches,
      send() {
        sent++
        return Promise.reject(refused)
      },
    })("a", post(), "{}", 1)?.catch((error: unknown) => error)
  // It has ended, and is about to be known as gone.
  for (const reaches of [true, Promise.resolve(true)]) expect(await forward(reaches)).toBeUndefined()
  expect(sent).toBe(2)
  // Nothing is sent to a wrong address: it could take minutes.
  for (const reaches of [false, Promise.resolve(false)]) {
    const error = await forward(reaches)
    expect([sent, error, (error as UnreachedError).retryAfter]).toEqual([2, expect.any(UnreachedError), 1])
  }
  const late = Promise.withResolvers<boolean>()
  const waiting = forward(late.promise)
  isAlive = false
  late.resolve(false)
  expect(await waiting).toBeUndefined()
})

test("a replica that stops passes requests on to the others in turn, past one that accepts no connection, and only once [cluster:drain:traffic]", async () => {
  const { signal: gone } = new AbortController()
  const refused = Object.assign(new Error("refused"), { code: "ECONNREFUSED" })
  const sent: string[] = []
  let others = ["http://b", "http://c"].map((address) => ({ address, gone }))
  const passOn = createPassOn({
    replica: "a",
    others: () => others,
    async send(url, { headers }) {
      sent.push(url)
      expect(new Headers(headers).get("svc-passed-on-by")).toBe("a")
      expect(new Headers(headers).has("svc-forwarded-by")).toBe(false)
      if (url.startsWith("http://c")) throw refused
      return new Response("done")
    },
  })
  for (let count = 0; count < 2; count++) expect(await (await passOn(post(), "{}", 1))?.text()).toBe("done")
  expect(sent).toEqual(["http://b/mcp", "http://c/mcp", "http://b/mcp"])
  expect(passOn(post({ "svc-passed-on-by": "b" }), "{}", 1)).toBeUndefined()
  others = others.slice(1)
  expect(await passOn(post(), "{}", 1)).toBeUndefined()
  others = []
  expect(passOn(post(), "{}", 1)).toBeUndefined()
})

test("a replica resumes a stream itself if the stopping replica has nothing left to send on it [cluster:drain:stream]", async () => {
  const session = new Session("s", "p", AGGREGATE, { protocolVersion: "2025-06-18" })
  const streams = new Set<OpenStream>()
  const get = (last: string | null) => openSessionStream(session, last, streams)
  const standing = get(null)
  session.notify('"one"')
  for (const stream of streams) stream.drain?.()
  const [, last = ""] = /^id: (.*)$/m.exec(await standing.text()) ?? []
  const { forward } = open(async ({ headers }) => get(new Headers(headers).get("last-event-id")))
  const request = (id: string) => new Request("http://b/mcp", { headers: { "last-event-id": id } })
  expect(await forward("a", request(last))).toBeUndefined()
  expect((await forward("a", request(last.replace(/\d+$/, "0"))))?.status).toBe(200)
})
