import { expect, test } from "bun:test"
import { serveFrontPage } from "../../src/serve/front-page.ts"

const ask = (accept: string, options: Partial<Parameters<typeof serveFrontPage>[1]> = {}) =>
  serveFrontPage(new Request("http://127.0.0.1:3050/", { headers: { accept } }), {
    externalUrl: undefined,
    auth: false,
    rest: true,
    ...options,
  })
const BROWSER = "text/html,application/xhtml+xml,*/*;q=0.8"

test("a browser gets a page with the address it opened and how clients connect to it [front:page]", async () => {
  const response = ask(BROWSER)
  expect(response.headers.get("content-type")).toBe("text/html; charset=utf-8")
  const html = await response.text()
  expect(html).toContain("claude mcp add -t http svc http://127.0.0.1:3050/mcp")
  expect(html).toContain("/api/v1/openapi.json")
  expect(html).not.toContain("TOKEN")
})

test("a program gets JSON [front:page]", async () => {
  for (const accept of ["*/*", "application/json", ""])
    expect(await ask(accept, { externalUrl: "https://svc.example/", rest: false }).json()).toEqual({
      name: "svc",
      version: expect.any(String),
      mcp: "https://svc.example/mcp",
      health: "https://svc.example/health",
    })
})

test("with --auth the page shows where the token goes, and no token [front:page]", async () => {
  const html = await ask(BROWSER, { auth: true }).text()
  expect(html).toContain("svc auth token create")
  expect(html).toContain("Authorization: Bearer TOKEN")
})

test("an address is text, and the page can load and run nothing [front:page]", async () => {
  const response = ask(BROWSER, { externalUrl: "https://a/<script>alert(1)</script>" })
  const policy = response.headers.get("content-security-policy")
  expect(policy).toContain("default-src 'none'")
  expect(policy).toContain("frame-ancestors 'none'")
  expect(policy).not.toContain("unsafe")
  expect(await response.text()).not.toContain("<script>")
})
