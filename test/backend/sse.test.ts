/** Transports over HTTP+SSE, to a server in memory. */
import { describe, expect, test } from "bun:test"
import type { Loss } from "../../src/backend/client-transport.ts"
import { SseTransport } from "../../src/backend/sse.ts"
import { systemClock as clock } from "../../src/lib/clock.ts"
import { createRequestIds, decode, encode } from "../../src/wire/frame.ts"

const launch = { transport: "sse", url: "http://server/sse", headers: {}, oauth: undefined, mode: "legacy" } as const

/** A server whose stream the test writes. `post` answers each posted frame. */
function serve(post: (frame: string) => Response = () => new Response(null, { status: 202 })) {
  const posted: [url: string, frame: string][] = []
  const frames: string[] = []
  const losses: Loss[] = []
  const failures: [number: number, message: string][] = []
  const waiting = Promise.withResolvers<void>()
  let controller: ReadableStreamDefaultController<Uint8Array> | undefined
  const stream = new ReadableStream<Uint8Array>({
    start(opened) {
      controller = opened
    },
  })
  const fetch = async (url: string, { method, body }: RequestInit): Promise<Response> => {
    if (method === "GET") return new Response(stream, { headers: { "content-type": "text/event-stream" } })
    posted.push([url, String(body)])
    return post(String(body))
  }
  const settled = Promise.withResolvers<void>()
  const transport = SseTransport.open(
    launch,
    {
      onframe(frame) {
        frames.push(decode(frame))
        waiting.resolve()
      },
      ondropped() {},
      onclose(loss) {
        losses.push(loss)
        settled.resolve()
      },
      onfail(number, error) {
        failures.push([number, error.message])
        settled.resolve()
      },
    },
    { fetch, clock, credentials: undefined, ids: createRequestIds("x"), limit: 1 << 20, mask: (text) => text },
  )
  const write = (text: string) => controller?.enqueue(encode(text))
  const end = () => controller?.close()
  return {
    transport,
    write,
    end,
    posted,
    frames,
    losses,
    failures,
    received: waiting.promise,
    settled: settled.promise,
  }
}

test("posts to the endpoint that the stream names, and passes on the stream's messages", async () => {
  const { transport, write, posted, frames, received } = serve()
  write("event: endpoint\ndata: /messages?s=1\n\n")
  const opened = await transport
  opened.send('{"id":1}', { number: 1, method: "ping" })
  write('event: message\ndata: {"ok":true}\n\n')
  await received
  expect(posted).toEqual([["http://server/messages?s=1", '{"id":1}']])
  expect(frames).toEqual(['{"ok":true}'])
  await opened.close()
})

test("an endpoint of another origin is refused", async () => {
  const { transport, write, losses } = serve()
  write("event: endpoint\ndata: http://elsewhere/messages\n\n")
  await expect(transport).rejects.toThrow("named an endpoint of another origin")
  expect(losses).toEqual([])
})

test("a stream that ends before its endpoint fails the attempt", async () => {
  const { transport, end } = serve()
  end()
  await expect(transport).rejects.toThrow("closed its event stream")
})

test("a stream that ends loses the transport once", async () => {
  const { transport, write, end, losses, settled } = serve()
  write("event: endpoint\ndata: /messages\n\n")
  const opened = await transport
  end()
  await settled
  await opened.close()
  expect(losses).toEqual([{ reason: "closed its event stream" }])
})

test("a post that is refused fails its request and not the transport", async () => {
  const { transport, write, losses, failures, settled } = serve(() => new Response("too busy", { status: 503 }))
  write("event: endpoint\ndata: /messages\n\n")
  const opened = await transport
  opened.send("{}", { number: 7, method: "tools/call" })
  await settled
  expect(failures).toEqual([[7, "answered 503: too busy"]])
  expect(losses).toEqual([])
  await opened.close()
})

describe("a session that the server has forgotten while its stream stays open [backend:session:lost]", () => {
  /** Opens a connection to a server that accepts the first `good` frames, and answers the others with `status`. */
  async function lostAfter(good: number, status: number, methods: readonly string[], refused: RegExp = /./) {
    let count = 0
    const server = serve((frame) => {
      const isRefused = refused.test(frame) && ++count > good
      return new Response(null, { status: isRefused ? status : 202 })
    })
    server.write("event: endpoint\ndata: /post?session=1\n\n")
    const transport = await server.transport
    transport.settle()
    for (const [number, method] of methods.entries()) {
      transport.send(JSON.stringify({ jsonrpc: "2.0", id: number, method }), { number, method })
      for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => setImmediate(resolve))
    }
    await transport.close()
    return { losses: server.losses, posted: server.posted.length, failures: server.failures.length }
  }

  test.each([400, 403, 404, 410, 422, 500, 503])(
    "loses the connection if a ping is refused too (%d)",
    async (status) => {
      const { losses, posted } = await lostAfter(0, status, ["tools/call"])
      expect([losses.length, posted]).toEqual([1, 2])
      expect(losses[0]?.reason).toContain(`answered ${status}`)
    },
  )

  test("loses it after a ping of svc, if the server has accepted one", async () => {
    expect((await lostAfter(1, 404, ["ping", "ping"])).losses).toHaveLength(1)
    expect((await lostAfter(0, 405, ["ping", "ping"])).losses).toHaveLength(0)
  })

  test("is not assumed if the server accepts the ping", async () => {
    expect(await lostAfter(0, 404, ["tools/call", "tools/call"], /tools.call/)).toMatchObject({
      losses: [],
      failures: 2,
    })
    expect((await lostAfter(0, 429, ["tools/call"])).losses).toEqual([])
  })
})
