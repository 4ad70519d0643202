import { describe, expect, test } from "bun:test"
import { RequestError } from "../../src/lib/errors.ts"
import { readBodyText, readJson } from "../../src/serve/request-body.ts"

/** A request whose body comes in these chunks, with or without a declared length. */
function post(chunks: readonly string[], length?: number, end: "close" | "error" = "close"): Request {
  const body = new ReadableStream({
    pull(controller) {
      const [next, ...rest] = chunks
      chunks = rest
      if (next !== undefined) controller.enqueue(new TextEncoder().encode(next))
      else if (end === "close") controller.close()
      else controller.error(new Error("reset"))
    },
  })
  const headers: Record<string, string> = length === undefined ? {} : { "content-length": String(length) }
  return new Request("http://x/mcp", { method: "POST", body, headers })
}

const faultOf = async (reading: Promise<unknown>): Promise<string> => {
  const error = await reading.then(
    () => undefined,
    (cause: unknown) => cause,
  )
  return error instanceof RequestError ? error.fault : String(error)
}

describe("a body", () => {
  test("is read whole up to the limit, with or without a declared length", async () => {
    expect(await readBodyText(post(["ab", "cd"]), 4)).toBe("abcd")
    expect(await readBodyText(post(["ab", "cd"], 4), 4)).toBe("abcd")
    expect(await readBodyText(new Request("http://x/mcp", { method: "POST" }), 4)).toBe("")
  })

  test("keeps characters that are split between chunks", async () => {
    const bytes = new TextEncoder().encode("ü")
    const body = new ReadableStream({
      start(controller) {
        for (const byte of bytes) controller.enqueue(Uint8Array.of(byte))
        controller.close()
      },
    })
    expect(await readBodyText(new Request("http://x/mcp", { method: "POST", body }), 4)).toBe("ü")
  })

  test("above the limit is too large, before the rest is read", async () => {
    expect(await faultOf(readBodyText(post(["abcde"]), 4))).toBe("too_large")
    expect(await faultOf(readBodyText(post(["ab", "cde", "never read"]), 4))).toBe("too_large")
    expect(await faultOf(readBodyText(post([], 5), 4))).toBe("too_large")
  })

  test("that breaks off is an invalid request", async () => {
    expect(await faultOf(readBodyText(post(["ab"], undefined, "error"), 4))).toBe("invalid_request")
  })

  test("that is not JSON is a parse error", async () => {
    expect(await readJson(post(['{"a":1}']), 100)).toEqual({ a: 1 })
    expect(await faultOf(readJson(post(["{"]), 100))).toBe("parse")
  })
})
