import { describe, expect, test } from "bun:test"
import { createHostCheck } from "../../src/serve/host-check.ts"

const passes = (options: Partial<Parameters<typeof createHostCheck>[0]>, headers: Record<string, string>): boolean =>
  createHostCheck({ allowedHosts: [], allowedOrigins: [], loopback: true, ...options })(
    new Request("http://x/mcp", { headers }),
  ) === undefined

describe("Host", () => {
  test.each([
    ..."localhost localhost:3050 127.0.0.1:1 [::1]:3050 127.0.0.2:3050 localhost.:3050 svc.localhost".split(" "),
    "[::ffff:127.0.0.1]:3050",
  ])("%s is this machine", (host) => {
    expect(passes({}, { host })).toBe(true)
  })

  test("of others none passes where svc listens on this machine alone", () => {
    for (const host of ["evil.example", "10.0.0.7:3050", ""]) expect(passes({}, { host })).toBe(false)
  })

  test("beyond this machine those pass that are named, and addresses, which nobody can rebind", () => {
    const options = { loopback: false, allowedHosts: ["svc.example.com"] }
    for (const host of ["svc.example.com", "SVC.example.com:443", "10.0.0.7:3050", "[fd00::7]:3050"])
      expect(passes(options, { host })).toBe(true)
    for (const host of ["evil.example", "10.0.0.7.evil.example", ""]) expect(passes(options, { host })).toBe(false)
  })

  test("a request without one is no page's", () => {
    expect(passes({}, {})).toBe(true)
    expect(passes({}, { origin: "http://evil.example" })).toBe(false)
  })

  test("a page that comes from an address is another's all the same", () => {
    const options = { loopback: false, allowedHosts: ["svc.example.com"] }
    expect(passes(options, { host: "10.0.0.7:3050", origin: "http://10.0.0.7:3050" })).toBe(false)
  })
})
