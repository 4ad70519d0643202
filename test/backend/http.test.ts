import { expect, test } from "bun:test"
import {
  BrokenResponseError,
  type RemoteDeps,
  readBody,
  readEvents,
  statusErrorWith,
  statusHint,
  unexpectedType,
} from "../../src/backend/http.ts"
import { HttpStatusError } from "../../src/backend/negotiate.ts"
import { createRedactor } from "../../src/lib/redact.ts"

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
  expect(hint(404)).toBe("; no MCP at this address: most end in /mcp or /sse")
  expect(hint(500)).toBe("")
})

test("a web page in place of a message is named [backend:reason]", () => {
  const page = new Response("<html>", { headers: { "content-type": "text/html; charset=utf-8" } })
  expect(unexpectedType(page).message).toBe("answered with a web page, not MCP: is the address right?")
  expect(unexpectedType(new Response("x", { headers: { "content-type": "image/png" } })).message).toBe(
    "answered 200 with image/png, not with MCP",
  )
})
