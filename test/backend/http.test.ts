import { expect, test } from "bun:test"
import {
  BrokenResponseError,
  fetchInOrigin,
  fetchWhileWanted,
  isEventStream,
  mediaType,
  type RemoteDeps,
  readBody,
  readEvents,
  statusErrorWith,
  statusHint,
  unexpectedType,
} from "../../src/backend/http.ts"
import { HttpStatusError } from "../../src/backend/negotiate.ts"
import { messageOf } from "../../src/lib/errors.ts"
import { createRedactor } from "../../src/lib/redact.ts"
import { manualClock } from "../clock.ts"

const SECRET = "Canary-0123456789-abcdefghijklmnop"

test("an error status shows no part of a secret that its body repeats, wherever it is cut [secrets:errors]", () => {
  const { maskKnown } = createRedactor([SECRET])
  const shown = (body: Uint8Array | string) =>
    statusErrorWith(new Response("", { status: 500 }), Buffer.from(body), { mask: maskKnown } as RemoteDeps).message
  for (const length of [150, 190, 8150, 8170, 16_000, 60_000])
    for (const filler of ["x", " ", " \n"]) {
      const message = shown(filler.repeat(length / filler.length) + SECRET)
      expect(message).toStartWith("answered 500: ")
      expect(message).not.toMatch(/canary/i)
    }
  expect(shown(Buffer.from(`utf-16 ${SECRET}`, "utf16le"))).toBe("answered 500: utf-16 [REDACTED]")
})

test.each([
  ["ZlibError", "sent a response that cannot be read", 'Zlib of "a.example"'],
  ["ECONNRESET", "closed the connection within its response", undefined],
])(
  "a response that breaks with %s is worded without its address [secrets:errors:address]",
  async (code, message, detail) => {
    const cause = Object.assign(new Error('Zlib of "https://a.example/path/s3cret?key=s3cret"'), { code })
    const broken = (headers: Record<string, string>) => {
      const body = new ReadableStream({
        pull(controller) {
          controller.error(cause)
        },
      })
      return new Response(body, { headers })
    }
    for (const reading of [
      readBody(broken({}), 1000),
      readBody(broken({ "content-length": "5" }), 1000),
      readEvents(broken({}), 1000, () => undefined),
    ]) {
      const error: unknown = await reading.catch((thrown: unknown) => thrown)
      expect(error).toBeInstanceOf(BrokenResponseError)
      expect(error).toMatchObject({ message, detail, cause })
    }
  },
)

test("what a reader of events throws is not a broken response", async () => {
  const fail = () => {
    throw new Error("of the reader")
  }
  await expect(readEvents(new Response("data: 1\n\n"), 1000, fail)).rejects.toThrow("of the reader")
})

test.each([
  [404, "text/html", "<h1>Not here</h1>", "answered 404"],
  [502, "text/plain", "<!DOCTYPE html><title>Bad gateway</title>", "answered 502"],
  [403, "application/json", '{"error":"no"}', 'answered 403: {"error":"no"}'],
  [429, "text/plain", "slow down", "answered 429: slow down"],
])("a status %i of %s is worded without a web page [backend:reason]", (status, type, body, message) => {
  const response = new Response(body, { status, headers: { "content-type": type } })
  const error = statusErrorWith(response, Buffer.from(body), { mask: (text: string) => text } as RemoteDeps)
  expect(error.message).toBe(message)
})

test("a refusal says what to check [backend:reason]", () => {
  const hint = (status: number, headers = {}) => statusHint(new HttpStatusError(status, ""), headers)
  expect(hint(403, { authorization: "x" })).toBe("; it refuses access: check headers.Authorization")
  expect(hint(403)).toBe("; it refuses access: does it need headers.Authorization?")
  expect(hint(404)).toBe('; no MCP at this address: most end in "mcp" or "sse"')
  expect(hint(500)).toBe("")
})

test("a web page in place of a message is named [backend:reason]", () => {
  const page = new Response("<html>", { headers: { "content-type": "text/html; charset=utf-8" } })
  expect(unexpectedType(page).message).toBe("answered with a web page, not MCP: is the address right?")
  expect(unexpectedType(new Response("x", { headers: { "content-type": "image/png" } })).message).toBe(
    "answered 200 with image/png, not with MCP",
  )
})

test.each([
  ["Application/JSON; Charset=UTF-8", "application/json"],
  ["application/json, application/json", "application/json"],
  ["Application/Json;charset=utf-8, application/json", "application/json"],
  ["TEXT/Event-Stream", "text/event-stream"],
  ["text/html, application/json", "text/html, application/json"],
  ["", "no content type"],
])("the content type %p is read as %p [remote:media-type]", (header, type) => {
  const response = new Response("x", { headers: { "content-type": header } })
  expect(mediaType(response)).toBe(type)
  expect(isEventStream(response)).toBe(type === "text/event-stream")
})

/** Sends a request to a server that redirects `/mcp`. Returns the final address, or the reason of the refusal, and who saw the key. */
async function redirected(method: string, status: number, location?: string) {
  const saw: string[] = []
  const fetch = async (url: string, { headers }: RequestInit): Promise<Response> => {
    if (new Headers(headers).has("x-api-key")) saw.push(url)
    return url === "http://server/mcp"
      ? new Response(null, { status, headers: location === undefined ? {} : { location } })
      : new Response("ok")
  }
  const sent = fetchInOrigin(
    "http://server/mcp",
    { method, headers: { "x-api-key": "k" } },
    { fetch, credentials: undefined },
  )
  return { said: await sent.then(({ url }) => url, messageOf), saw: saw.slice(1) }
}

test.each([301, 302, 303, 307, 308])(
  "a GET follows a redirect (%d) within its origin [remote:redirect]",
  async (status) => {
    expect(await redirected("GET", status, "/sse/")).toEqual({
      said: "http://server/sse/",
      saw: ["http://server/sse/"],
    })
  },
)

test.each([301, 302, 303, 307, 308])(
  "no request with configured headers follows a redirect (%d) to another origin [remote:redirect]",
  async (status) => {
    for (const method of ["GET", "POST", "DELETE"])
      for (const to of ["http://elsewhere/mcp", "https://server/mcp", "http://server:81/mcp", "//elsewhere/mcp"]) {
        const { said, saw } = await redirected(method, status, to)
        expect(said).toContain("redirects to")
        expect(saw).toEqual([])
      }
  },
)

test.each([301, 307, 308])("a redirect (%d) to nowhere is the response, and sends nothing again", async (status) => {
  for (const method of ["GET", "POST"]) expect(await redirected(method, status)).toEqual({ said: "", saw: [] })
})

test.each([
  ["/mcp/", "redirects to the same path with a slash at its end: add the slash to url"],
  ["https://server/mcp", "redirects to https: write https:// in url"],
  ["/mcp?a=s3cret", "redirects to the same path with another query on server: put"],
  ["/other", "redirects to another path on server: put"],
  ["http://else.where:8080/mcp", "redirects to else.where:8080: use that address"],
  ["http://", "redirects to an invalid address"],
])("the refusal to redirect a POST to %p says what differs [remote:redirect]", async (to, reason) => {
  const { said } = await redirected("POST", 302, to)
  expect(said).toStartWith(reason)
  expect(said).not.toContain("s3cret")
})

test("a request that nobody waits for any more is given up after a minute, and gives its connection back [remote:limit]", async () => {
  const clock = manualClock()
  let isWanted = true
  const signals: AbortSignal[] = []
  const fetch = (_url: string, { signal }: RequestInit) =>
    new Promise<Response>((_resolve, reject) => {
      if (!(signal instanceof AbortSignal)) return
      signals.push(signal)
      signal.addEventListener("abort", () => reject(signal.reason))
    })
  const deps = { fetch, clock, credentials: undefined } as unknown as RemoteDeps
  const said = fetchWhileWanted("http://server/mcp", { method: "POST", headers: {} }, deps, () => isWanted).catch(
    messageOf,
  )
  await clock.pass(120_000)
  expect(signals[0]?.aborted).toBe(false)
  isWanted = false
  await clock.pass(60_000)
  expect(await said).toBe("was not answered in time")
  const stopped = new AbortController()
  const ended = fetchWhileWanted(
    "http://server/mcp",
    { method: "POST", headers: {}, signal: stopped.signal },
    deps,
    () => true,
  )
  await clock.pass(0)
  stopped.abort(new Error("ended"))
  await expect(ended).rejects.toThrow("ended")
  expect(clock.timers).toBe(0)
})
