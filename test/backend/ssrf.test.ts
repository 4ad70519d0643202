/** Addresses that a server may name as its authorization server. */
import { expect, test } from "bun:test"
import { boundedFetch, createSsrfGuard } from "../../src/backend/ssrf.ts"

const accepts = (server: string, url: string): boolean => {
  try {
    createSsrfGuard(server)(new URL(url))
    return true
  } catch {
    return false
  }
}

test("a public server may not name an address of svc's machine or network, in any spelling", () => {
  for (const url of [
    "https://127.0.0.1/",
    "https://127.1/",
    "https://0x7f.1:8443/",
    "https://2130706433/",
    "https://0.0.0.0/",
    "https://localhost/",
    "https://LOCALHOST./",
    "https://as.localhost/",
    "https://10.1.2.3/",
    "https://172.31.0.1/",
    "https://192.168.0.1/",
    "https://169.254.169.254/latest/meta-data/",
    "http://169.254.169.254/latest/meta-data/",
    "https://100.100.0.1/",
    "https://[::1]/",
    "https://[::]/",
    "https://[::ffff:127.0.0.1]/",
    "https://[::ffff:a9fe:a9fe]/",
    "https://[fd00::1]/",
    "https://[fe80::1]/",
  ])
    expect([url, accepts("https://mcp.example/mcp", url)]).toEqual([url, false])
  for (const url of ["https://as.example/", "https://8.8.8.8/", "https://172.32.0.1/", "https://[2001:db8::1]/"])
    expect([url, accepts("https://mcp.example/mcp", url)]).toEqual([url, true])
  for (const url of ["http://127.0.0.1:9/", "http://192.168.0.1/", "https://as.example/", "http://[::1]/"])
    expect([url, accepts("http://localhost:3000/mcp", url)]).toEqual([url, true])
})

test("only http and https are opened, and http only for a server that uses http", () => {
  for (const url of ["file:///etc/passwd", "s3://bucket/key", "data:,x", "blob:x", "ftp://as.example/"])
    for (const server of ["https://mcp.example/mcp", "http://127.0.0.1/mcp"])
      expect([url, accepts(server, url)]).toEqual([url, false])
  expect(accepts("https://mcp.example/mcp", "http://as.example/")).toBe(false)
  expect(accepts("http://mcp.example/mcp", "http://as.example/")).toBe(true)
})

test("redirects are checked like addresses, and limited", async () => {
  const asked: string[] = []
  const world = async (url: string) => {
    asked.push(url)
    const locations: Record<string, string> = { loop: "/loop", twice: "/once" }
    const location = locations[url.split("/").at(-1) ?? ""] ?? "http://169.254.169.254/"
    return url.endsWith("/once")
      ? Response.json({ ok: true })
      : new Response(null, { status: 302, headers: { location } })
  }
  const fetch = boundedFetch(world, "https://mcp.example/mcp")
  expect(await (await fetch("https://as.example/twice")).json()).toEqual({ ok: true })
  await expect(fetch("https://as.example/in")).rejects.toThrow("169.254.169.254 is in svc's own network")
  await expect(fetch("https://as.example/loop")).rejects.toThrow("redirects too often")
  await expect(fetch("file:///etc/passwd")).rejects.toThrow("file:")
  expect(asked.filter((url) => !url.startsWith("https://as.example/"))).toEqual([])
  // A POST carries secrets, so its redirects are not followed.
  expect((await fetch("https://as.example/twice", { method: "POST" })).status).toBe(302)
})
