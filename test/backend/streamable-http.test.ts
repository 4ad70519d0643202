/** A transport over Streamable HTTP to a server that forgets its sessions. */
import { describe, expect, test } from "bun:test"
import { StreamableHttpTransport } from "../../src/backend/streamable-http.ts"
import { systemClock as clock } from "../../src/lib/clock.ts"
import { createRequestIds, decode } from "../../src/wire/frame.ts"

type Message = { readonly id?: string; readonly method?: string }
const ids = createRequestIds("test")

/** A server of one session at a time, which answers a request with an unknown session with `refusal`. */
function forgetful(refusal: () => Response) {
  let current: string | undefined
  let opened = 0
  return {
    forget() {
      current = undefined
    },
    get opened() {
      return opened
    },
    async fetch(_url: string, { method, headers, body }: RequestInit): Promise<Response> {
      const given = new Headers(headers).get("mcp-session-id")
      await Bun.sleep(1)
      if (method !== "POST") return new Response(null, { status: 405 })
      const message = JSON.parse(String(body)) as Message
      if (message.method === "initialize") {
        expect(given).toBeNull()
        current = `s${++opened}`
        return Response.json({ jsonrpc: "2.0", id: message.id, result: {} }, { headers: { "mcp-session-id": current } })
      }
      if (given !== current) return refusal()
      if (message.id === undefined) return new Response(null, { status: 202 })
      return Response.json({ jsonrpc: "2.0", id: message.id, result: { in: given } })
    },
  }
}

/** Opens a transport. Returns a function that sends a request and resolves with what the transport reported for it. */
async function open(
  server: Pick<ReturnType<typeof forgetful>, "fetch">,
  onframe = (frame: Uint8Array, settle: (said: string) => void) => settle(decode(frame)),
) {
  const waiting = new Map<number, (said: string) => void>()
  const settle = (number: number | undefined, said: string) => waiting.get(number ?? -1)?.(said)
  const transport = new StreamableHttpTransport(
    { transport: "http", url: "http://server/mcp", headers: {}, oauth: undefined, mode: "legacy" } as never,
    {
      onframe: (frame, number) => onframe(frame, (said) => settle(number, said)),
      ondropped() {},
      onclose() {},
      onfail: (number, error) => settle(number, String(error)),
    },
    { fetch: server.fetch, clock, credentials: undefined, ids, limit: 1 << 20, mask: (text) => text },
  )
  const ask = (method: string) => {
    const number = ids.next()
    const said = new Promise<string>((resolve) => waiting.set(number, resolve))
    transport.send(JSON.stringify({ jsonrpc: "2.0", id: ids.text(number), method }), { number, method })
    return said
  }
  await ask("initialize")
  transport.settle?.("legacy", "2025-11-25")
  return ask
}

describe("a session that the server has forgotten", () => {
  const refusals: readonly (readonly [string, () => Response])[] = [
    ["404", () => new Response(null, { status: 404 })],
    ["400", () => Response.json({ error: { message: "Bad Request: No valid session ID provided" } }, { status: 400 })],
  ]
  for (const [name, refusal] of refusals)
    test(`is opened again once for all concurrent requests, and none of them fails (${name})`, async () => {
      const server = forgetful(refusal)
      const ask = await open(server)
      for (const round of [2, 3]) {
        server.forget()
        const said = await Promise.all(Array.from({ length: 5 }, () => ask("tools/call")))
        for (const one of said) expect(one).toContain(`"in":"s${round}"`)
        expect(server.opened).toBe(round)
      }
    })

  test("is opened by the next request if opening it failed", async () => {
    const server = forgetful(() => new Response(null, { status: 404 }))
    const refused = { now: false }
    const ask = await open({
      ...server,
      fetch: (url, init) =>
        refused.now && String(init.body).includes("initialize")
          ? Promise.resolve(new Response(null, { status: 503 }))
          : server.fetch(url, init),
    })
    server.forget()
    refused.now = true
    expect(await ask("tools/call")).toContain("503")
    refused.now = false
    expect(await ask("tools/call")).toContain('"in":"s2"')
  })
})

test("a request refused for another reason is not sent again", async () => {
  for (const message of ["no such thing", "the browser session has no window"]) {
    const server = forgetful(() => Response.json({ error: { message } }, { status: 400 }))
    const ask = await open(server)
    server.forget()
    expect(await ask("tools/call")).toContain(message)
    expect(server.opened).toBe(1)
  }
})

test("an error status with an error under another id fails its request", async () => {
  const server = forgetful(() =>
    Response.json({ jsonrpc: "2.0", id: "server-error", error: { code: -32600, message: "not so" } }, { status: 400 }),
  )
  const ask = await open(server, () => undefined)
  server.forget()
  expect(await ask("tools/call")).toContain("answered 400")
})

test("an error about the session between svc and the server is not relayed as the answer", async () => {
  const message = "Session not found"
  let lost = false
  const server = forgetful(() => new Response(null, { status: 404 }))
  const ask = await open({
    fetch: async (url, init) =>
      lost && !String(init.body).includes("initialize")
        ? Response.json({ jsonrpc: "2.0", error: { code: -32001, message }, id: null }, { status: 404 })
        : server.fetch(url, init),
  })
  lost = true
  expect(await ask("tools/call")).toContain(
    `answered 404: {"jsonrpc":"2.0","error":{"code":-32001,"message":"${message}"`,
  )
})

test.each([
  [307, "/mcp", "redirects more than 3 times"],
  [307, "", "redirects more than 3 times"],
  [307, "http://elsewhere/mcp", "redirects to another origin (http://elsewhere)"],
  [302, "http://elsewhere/mcp", "redirects to elsewhere: use that address"],
])("a %d to %p fails the request and says why", async (status, location, reason) => {
  const server = forgetful(() => new Response(null, { status: 404 }))
  const redirects = { now: false }
  const ask = await open({
    fetch: async (url, init) =>
      redirects.now ? new Response(null, { status, headers: { location } }) : server.fetch(url, init),
  })
  redirects.now = true
  expect(await ask("tools/call")).toContain(reason)
})
