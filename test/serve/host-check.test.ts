import { describe, expect, test } from "bun:test"
import { createHostCheck, type HostCheckOptions } from "../../src/serve/host-check.ts"
import { createInbound } from "../../src/serve/inbound.ts"

async function answer(options: Partial<HostCheckOptions>, headers: Record<string, string>, path = "/mcp") {
  const check = createHostCheck({ allowedHosts: [], allowedOrigins: [], loopback: true, ...options })
  return await check(
    createInbound(new Request(`http://x${path}`, { headers }), () => ""),
    () => new Response("passed"),
  )
}

const passes = async (options: Partial<HostCheckOptions>, headers: Record<string, string>): Promise<boolean> =>
  (await answer(options, headers)).status === 200

describe("Host", () => {
  test.each([
    ..."localhost localhost:3050 127.0.0.1:1 [::1]:3050 127.0.0.2:3050 localhost.:3050 svc.localhost".split(" "),
    "[::ffff:127.0.0.1]:3050",
  ])("%s is this machine", async (host) => {
    expect(await passes({}, { host })).toBe(true)
  })

  test("on loopback every other Host is refused", async () => {
    for (const host of ["evil.example", "10.0.0.7:3050", ""]) expect(await passes({}, { host })).toBe(false)
  })

  test("beyond loopback named hosts and IP addresses pass: DNS rebinding needs a name", async () => {
    const options = { loopback: false, allowedHosts: ["svc.example.com"] }
    for (const host of ["svc.example.com", "SVC.example.com:443", "10.0.0.7:3050", "[fd00::7]:3050"])
      expect(await passes(options, { host })).toBe(true)
    for (const host of ["evil.example", "10.0.0.7.evil.example", ""])
      expect(await passes(options, { host })).toBe(false)
  })

  test("a request without Host passes, because browsers always send one", async () => {
    expect(await passes({}, {})).toBe(true)
    expect(await passes({}, { origin: "http://evil.example" })).toBe(false)
  })

  test("a page served from an IP address is refused like any other page", async () => {
    const options = { loopback: false, allowedHosts: ["svc.example.com"] }
    expect(await passes(options, { host: "10.0.0.7:3050", origin: "http://10.0.0.7:3050" })).toBe(false)
  })
})

test("the refusal has the shape of its path [inbound:errors]", async () => {
  const refused = async (path: string) => {
    const response = await answer({}, { host: "evil.example" }, path)
    expect([response.status, response.headers.get("content-type")]).toEqual([403, "application/json"])
    return await response.json()
  }
  const message = "Host evil.example is not allowed; allow it with --allowed-host"
  for (const path of ["/health", "/health/mcp", "/metrics", "/other"])
    expect(await refused(path)).toEqual({ error: message })
  for (const path of ["/mcp", "/servers/a/mcp", "/sse", "/messages"])
    expect(await refused(path)).toEqual({ jsonrpc: "2.0", error: { code: -32600, message } })
})
