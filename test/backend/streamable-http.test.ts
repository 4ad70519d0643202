/** A transport over Streamable HTTP to a server that forgets its sessions. */
import { describe, expect, test } from "bun:test"
import { StreamableHttpTransport } from "../../src/backend/streamable-http.ts"
import { type Clock, systemClock as clock } from "../../src/lib/clock.ts"
import { createRequestIds, decode } from "../../src/wire/frame.ts"
import { manualClock } from "../clock.ts"

type Message = { readonly id?: string; readonly method?: string }
const ids = createRequestIds("test")

/** A server of one session at a time, which answers a request with an unknown session with `refusal`. */
function forgetful(refusal: (message: Message) => Response) {
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
      if (given !== current) return refusal(message)
      if (message.id === undefined) return new Response(null, { status: 202 })
      return Response.json({ jsonrpc: "2.0", id: message.id, result: { in: given } })
    },
  }
}

/** Opens a transport. Returns a function that sends a request and resolves with what the transport reported for it. */
async function open(
  server: Pick<ReturnType<typeof forgetful>, "fetch">,
  onframe = (frame: Uint8Array, settle: (said: string) => void) => settle(decode(frame)),
  time: Clock = clock,
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
    { fetch: server.fetch, clock: time, credentials: undefined, ids, limit: 1 << 20, mask: (text) => text },
  )
  const ask = (method: string) => {
    const number = ids.next()
    const said = new Promise<string>((resolve) => waiting.set(number, resolve))
    transport.send(JSON.stringify({ jsonrpc: "2.0", id: ids.text(number), method }), { number, method })
    return said
  }
  await ask("initialize")
  transport.settle?.("legacy", "2025-11-25")
  const notify = (method: string) =>
    transport.send(JSON.stringify({ jsonrpc: "2.0", method }), { number: undefined, method })
  const answer = () =>
    transport.send(JSON.stringify({ jsonrpc: "2.0", id: "q", result: {} }), { number: undefined, method: undefined })
  return Object.assign(ask, { notify, answer })
}

test("an answer of a client is posted when the server has accepted the progress before it [remote:progress-order]", async () => {
  const server = forgetful(() => new Response(null, { status: 404 }))
  const accepting = Promise.withResolvers<void>()
  const answered = Promise.withResolvers<void>()
  const posted: (string | undefined)[] = []
  const client = await open({
    async fetch(url, init) {
      const { method, id } = JSON.parse(String(init.body ?? "{}")) as Message
      posted.push(method ?? id)
      if (method === "notifications/progress") await accepting.promise
      if (id === "q") answered.resolve()
      return server.fetch(url, init)
    },
  })
  client.notify("notifications/progress")
  client.answer()
  await client("tools/list")
  expect(posted).not.toContain("q")
  accepting.resolve()
  await answered.promise
  expect(posted).toContain("notifications/progress")
  expect(posted.at(-1)).toBe("q")
})

describe("a session that the server has forgotten", () => {
  const refusals: readonly (readonly [string, () => Response])[] = [
    ["404", () => new Response(null, { status: 404 })],
    ["400", () => Response.json({ error: { message: "Bad Request: No valid session ID provided" } }, { status: 400 })],
    [
      "400, no id",
      () => {
        const error = { code: -32000, message: "Bad Request: Server not initialized" }
        return Response.json({ jsonrpc: "2.0", id: null, error }, { status: 400 })
      },
    ],
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

  test("is opened again for a request that is refused in the new session too, which is sent twice at most", async () => {
    const server = forgetful(() => new Response(null, { status: 404 }))
    let calls = 0
    const ask = await open({
      fetch(url, init) {
        if (!String(init.body).includes('"tools/call"')) return server.fetch(url, init)
        calls++
        server.forget()
        return Promise.resolve(new Response(null, { status: 404 }))
      },
    })
    expect(await ask("tools/call")).toContain("404")
    expect(calls).toBe(2)
    expect(await ask("ping")).toContain('"in":"s')
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

/** An answer with an error to a request. */
const failure =
  (code: number, message: string, { status = 200, id }: { status?: number; id?: null } = {}) =>
  (asked: Message) =>
    Response.json({ jsonrpc: "2.0", id: id === null ? null : asked.id, error: { code, message } }, { status })
const plain = (status: number, text: string) => () => new Response(text, { status })
const redirect = (status: number, location: string) => () => new Response(null, { status, headers: { location } })
const streamed =
  (code: number, message: string) =>
  ({ id }: Message) =>
    new Response(`data: ${JSON.stringify({ jsonrpc: "2.0", id, error: { code, message } })}\n\n`, {
      headers: { "content-type": "text/event-stream" },
    })

/** Refusals of a forgotten session, and whether they show that the request was not executed. */
const REFUSALS: readonly (readonly [string, (asked: Message) => Response, boolean])[] = [
  ["200, -32001 Session not found", failure(-32001, "Session not found"), true],
  ["200, -30001 in a stream", streamed(-30001, "Unknown session"), true],
  ["200, -32603 Invalid or expired session", failure(-32603, "Invalid or expired session"), true],
  ["200, -32000 Server not initialized", failure(-32000, "Bad Request: Server not initialized"), true],
  ["200, -32600 without an id", failure(-32600, "Session not found", { id: null }), true],
  ["200, no JSON-RPC", () => Response.json({ error: "Session not found" }), true],
  ["200, text", () => new Response("session expired", { headers: { "content-type": "text/plain" } }), true],
  ["400, -32000 with an id", failure(-32000, "Bad Request: Server not initialized", { status: 400 }), true],
  ["400, -32600 with an id", failure(-32600, "Invalid Request: Session not found", { status: 400 }), true],
  ["400, text", plain(400, "no such thing"), true],
  ["401, text", plain(401, "Unauthorized: Session not found"), true],
  ["302", redirect(302, "/login"), false],
  ["307, another origin", redirect(307, "https://login.example/"), false],
  ["403, text", plain(403, "who are you?"), true],
  ["409, no text", plain(409, ""), true],
  ["410, no text", plain(410, ""), true],
  ["422, -32600", failure(-32600, "not so", { status: 422 }), true],
  ["500, Session not found", plain(500, "Session not found"), true],
  ["503, -32603 session", failure(-32603, "the session is gone", { status: 503 }), true],
  ["500, no text", plain(500, ""), false],
  ["502, a page", plain(502, "<html></html>"), false],
  ["200, a page", () => new Response("<html></html>", { headers: { "content-type": "text/html" } }), false],
  ["204", () => new Response(null, { status: 204 }), false],
  ["200, an empty stream", () => new Response("", { headers: { "content-type": "text/event-stream" } }), false],
]

describe("a session that the server has forgotten, in any words [backend:session:lost]", () => {
  for (const [name, refusal, isRepeated] of REFUSALS)
    test(`is opened again after a ping that is refused too (${name})`, async () => {
      const asked: (string | undefined)[] = []
      const server = forgetful((message) => {
        asked.push(message.method)
        return refusal(message)
      })
      const ask = await open(server)
      server.forget()
      const said = await Promise.all([ask("tools/call"), ask("tools/call")])
      // A request that may have been executed is not repeated; the next one succeeds.
      for (const one of said) expect(one.includes('"in":"s2"')).toBe(isRepeated)
      expect(await ask("tools/call")).toContain('"in":"s2"')
      expect([server.opened, asked.sort()]).toEqual([2, ["ping", "tools/call", "tools/call"]])
    })

  test("is opened again at most once a minute", async () => {
    const clock = manualClock()
    const server = forgetful(plain(422, "no"))
    const ask = await open(server, undefined, clock)
    const sessions: number[] = []
    for (let call = 0; call < 30; call++) {
      server.forget()
      await ask("tools/call")
      sessions.push(server.opened)
      await clock.pass(5000)
    }
    expect(sessions).toEqual(Array.from({ length: 30 }, (_, call) => 2 + Math.floor(call / 12)))
  })

  test("is not opened again, and nothing is repeated, if the server answers the ping or refuses only pings", async () => {
    for (const [name, refusal] of REFUSALS) {
      const asked: (string | undefined)[] = []
      const server = forgetful(() => new Response(null, { status: 404 }))
      const refuses = { method: "tools/call" }
      const ask = await open({
        fetch(url, init) {
          const message = init.method === "POST" ? (JSON.parse(String(init.body)) as Message) : {}
          asked.push(message.method)
          return message.method === refuses.method ? Promise.resolve(refusal(message)) : server.fetch(url, init)
        },
      })
      asked.length = 0
      await ask("tools/call")
      expect([name, asked, server.opened]).toEqual([name, ["tools/call", "ping"], 1])
      refuses.method = "ping"
      await ask("ping")
      expect(await ask("tools/call")).toContain('"in":"s1"')
    }
  })

  test("is not looked for again for a while if the server does not answer the ping", async () => {
    const clock = manualClock()
    let pings = 0
    const server = forgetful(() => new Response(null, { status: 404 }))
    const ask = await open(
      {
        fetch(url, init) {
          const { method, id } = init.method === "POST" ? (JSON.parse(String(init.body)) as Message) : {}
          if (method === "tools/call") return Promise.resolve(failure(-32000, "not so")({ id: String(id) }))
          if (method !== "ping") return server.fetch(url, init)
          pings++
          return new Promise((_, reject) => init.signal?.addEventListener("abort", () => reject(new Error("aborted"))))
        },
      },
      undefined,
      clock,
    )
    const first = ask("tools/call")
    while (pings === 0) await new Promise((resolve) => setImmediate(resolve))
    await clock.pass(5000)
    expect(await first).toContain("not so")
    expect(await ask("tools/call")).toContain("not so")
    expect([pings, server.opened]).toEqual([1, 1])
  })

  test("an error about the request causes no ping", async () => {
    for (const code of [-32601, -32602, -32002, -32042]) {
      const asked: (string | undefined)[] = []
      const server = forgetful((message) => {
        asked.push(message.method)
        return failure(code, "no such thing")(message)
      })
      const ask = await open(server)
      server.forget()
      expect(await ask("tools/call")).toContain("no such thing")
      expect(asked).toEqual(["tools/call"])
    }
  })

  test("opens no session that the server refuses in an answer", async () => {
    const clock = manualClock()
    const server = forgetful(failure(-32001, "Session not found"))
    let refused = false
    const ask = await open(
      {
        fetch: async (url, init) =>
          refused && String(init.body).includes('"initialize"')
            ? failure(-32001, "Session not found")({ id: "1" })
            : server.fetch(url, init),
      },
      undefined,
      clock,
    )
    server.forget()
    refused = true
    expect(await ask("tools/call")).toContain("Session not found")
    refused = false
    await clock.pass(1000)
    expect(await ask("tools/call")).toContain('"in":"s2"')
  })
})

test("the session's id is taken from every answer, but not from one in an earlier session [backend:session:id]", async () => {
  let current = ""
  let count = 0
  const given: (string | null)[] = []
  const ask = await open({
    async fetch(_url, { method, headers, body }) {
      if (method !== "POST") return new Response(null, { status: 405 })
      const { id, method: asked } = JSON.parse(String(body)) as Message
      const session = new Headers(headers).get("mcp-session-id")
      if (asked !== "initialize") given.push(session)
      if (asked !== "initialize" && session !== current) return new Response(null, { status: 404 })
      current = `s${++count}`
      return Response.json({ jsonrpc: "2.0", id, result: {} }, { headers: { "mcp-session-id": current } })
    },
  })
  for (let call = 0; call < 3; call++) expect(await ask("tools/call")).toContain("result")
  expect(given).toEqual(["s1", "s2", "s3"])
})

describe("the stream for the server's own messages", () => {
  /** Opens a transport to a server that answers each GET with the next of `answers`. Returns the number of GETs after a while. */
  async function listen(answers: readonly (() => Response)[]) {
    const clock = manualClock()
    let gets = 0
    const ask = await open(
      {
        async fetch(_url, { method, body }) {
          if (method === "GET")
            return (answers[gets++] as () => Response | undefined)?.() ?? new Response(null, { status: 405 })
          const { id } = JSON.parse(String(body)) as Message
          return id === undefined
            ? new Response(null, { status: 202 })
            : Response.json({ jsonrpc: "2.0", id, result: {} }, { headers: { "mcp-session-id": "s1" } })
        },
      },
      undefined,
      clock,
    )
    ask.notify("notifications/initialized")
    for (let second = 0; second < 120; second++) {
      await new Promise((resolve) => setImmediate(resolve))
      await clock.pass(1000)
    }
    return gets
  }
  const stream = () => new Response(": hello\n\n", { headers: { "content-type": "text/event-stream" } })

  test.each([400, 403, 408, 409, 410, 425, 429, 500, 502, 503, 200])(
    "is opened again after %d if it has worked [backend:stream:again]",
    async (status) => {
      expect(await listen([stream, plain(status, "not now"), plain(status, "not now"), stream, stream])).toBe(6)
    },
  )

  test("is not opened again after 405, nor after a refusal if it has never worked, unless the refusal is temporary", async () => {
    expect(await listen([stream, plain(405, ""), stream])).toBe(2)
    for (const status of [400, 403, 405, 406]) expect(await listen([plain(status, ""), stream])).toBe(1)
    for (const status of [409, 429, 503]) expect(await listen([plain(status, ""), stream])).toBe(3)
  })
})

test("a request refused for another reason is not sent again", async () => {
  for (const message of ["no such thing", "the browser session has no window"]) {
    const server = forgetful(() => new Response(null, { status: 404 }))
    const ask = await open({
      fetch: async (url, init) =>
        String(init.body).includes("tools/call")
          ? Response.json({ error: { message } }, { status: 400 })
          : server.fetch(url, init),
    })
    expect(await ask("tools/call")).toContain(message)
    expect(server.opened).toBe(1)
  }
})

test("an error status with an error under another id fails its request", async () => {
  const server = forgetful(() => new Response(null, { status: 404 }))
  const error = { jsonrpc: "2.0", id: "server-error", error: { code: -32600, message: "not so" } }
  const ask = await open(
    {
      fetch: async (url, init) =>
        String(init.body).includes("tools/call") ? Response.json(error, { status: 400 }) : server.fetch(url, init),
    },
    (frame, settle) => (decode(frame).includes("server-error") ? undefined : settle(decode(frame))),
  )
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
