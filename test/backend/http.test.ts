import { expect, test } from "bun:test"
import { type RemoteDeps, statusErrorWith } from "../../src/backend/http.ts"
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
