import { describe, expect, test } from "bun:test"
import { createHostCheck, type HostCheckOptions, isOfOtherPage } from "../../src/serve/host-check.ts"
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

describe("a page of another site [inbound:foreign]", () => {
  const image = { "sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors", "sec-fetch-dest": "image" }
  const paths = ["/health", "/health/live", "/mcp", "/sse", "/api/v1/servers", "/api/tools", "/admin/", "/admin/login"]

  test("loads nothing without an Origin: images, scripts, styles and frames' files", async () => {
    for (const path of paths)
      for (const headers of [
        image,
        { ...image, referer: "https://evil.example/a" },
        { ...image, referer: "" },
        { "sec-fetch-site": "cross-site" },
      ])
        expect([path, (await answer({}, headers, path)).status]).toEqual([path, 403])
  })

  test("may load what it may read, and be left by a link", async () => {
    for (const path of paths)
      for (const [options, headers] of [
        [{}, { "sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document" }],
        [{ allowedOrigins: ["https://page.example"] }, { ...image, referer: "https://page.example/" }],
        [{ isPublished: () => true }, image],
        [{}, { ...image, "sec-fetch-site": "same-origin" }],
        [{}, { ...image, "sec-fetch-site": "none" }],
        [{}, { "sec-fetch-mode": "cors" }],
        [{}, { referer: "https://evil.example/" }],
      ] as const)
        expect([path, headers, (await answer(options, headers, path)).status]).toEqual([path, headers, 200])
  })

  test("is recognized by the headers that a browser sends", () => {
    const isOther = (headers: Record<string, string>) => isOfOtherPage({ headers: new Headers(headers) })
    const host = "127.0.0.1:3050"
    for (const headers of [
      image,
      { ...image, "sec-fetch-site": "same-site" },
      { host, origin: "null" },
      { host, origin: "http://127.0.0.1:3000" },
      { host, referer: "https://evil.example/" },
    ])
      expect([headers, isOther(headers)]).toEqual([headers, true])
    for (const headers of [
      {},
      { host },
      { host, origin: `http://${host}` },
      { host, referer: `http://${host}/admin/` },
      { host, referer: "https://evil.example/", "sec-fetch-site": "none" },
      { host, origin: "https://svc.example", "sec-fetch-site": "same-origin" },
    ])
      expect([headers, isOther(headers)]).toEqual([headers, false])
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
