import { expect, test } from "bun:test"
import { networkReason } from "../../src/lib/network-error.ts"

const failed = (code: string) => Object.assign(new TypeError(`${code}: of fetch`), { code })

test.each([
  ["https://mcp.example.com/mcp", "ENOTFOUND", "cannot reach mcp.example.com (no such host)"],
  ["http://127.0.0.1:24299/mcp", "ECONNREFUSED", "nothing listens at 127.0.0.1:24299"],
  ["https://example.com/mcp", "ECONNREFUSED", "nothing listens at example.com:443"],
  ["http://localhost/mcp", "ECONNREFUSED", "nothing listens at localhost:80"],
  ["http://a.example:8080/", "ECONNRESET", "a.example:8080 closed the connection without an answer"],
  ["https://a.example/", "CERT_HAS_EXPIRED", "cannot reach a.example (its certificate has expired)"],
  ["https://a.example/", "E_NEW", "cannot reach a.example (E_NEW)"],
])("%s that fails with %s is worded with its host [backend:reason]", (url, code, reason) => {
  expect(networkReason(url, failed(code))).toBe(reason)
})

test("the reason of a failed connection shows nothing of an address but its host [secrets:errors]", () => {
  const url = "https://user:hunter2@a.example/path/s3cret?key=s3cret#s3cret"
  for (const code of ["ENOTFOUND", "ECONNREFUSED", "E_NEW"])
    expect(networkReason(url, failed(code))).not.toMatch(/user|hunter2|s3cret|path/)
  expect(networkReason(url, new Error(`no way to "${url}", or to x://:y`))).toBe(
    'cannot reach a.example (no way to "a.example", or to …)',
  )
})

test("Bun's own errors are worded", async () => {
  const reasonAt = (url: string) =>
    fetch(url).then(
      () => "answered",
      (error: unknown) => networkReason(url, error),
    )
  const server = Bun.serve({ port: 0, hostname: "127.0.0.1", fetch: () => new Response() })
  const at = `127.0.0.1:${server.port}`
  expect(await reasonAt(`https://${at}/`)).toBe(`cannot reach ${at} (the TLS handshake failed: does it serve https?)`)
  await server.stop(true)
  expect(await reasonAt(`http://${at}/`)).toBe(`nothing listens at ${at}`)
  expect(await reasonAt("http://no-such-host.invalid/")).toMatch(/^cannot reach no-such-host\.invalid \(/)
})
