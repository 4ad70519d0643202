import { expect, test } from "bun:test"
import { createCors } from "../../src/serve/cors.ts"
import { createInbound } from "../../src/serve/inbound.ts"

const PAGE = "https://page.example"

async function ask(method: string, headers: Record<string, string>): Promise<Response | "handed on"> {
  const cors = createCors([`${PAGE}/`])
  const inbound = createInbound(new Request("http://x/mcp", { method, headers }), () => "")
  const next = new Response("handed on")
  const response = await cors?.(inbound, () => Promise.resolve(next))
  return response === undefined || (response === next && !next.headers.has("vary")) ? "handed on" : response
}

test("without allowed origins there is no CORS at all", () => {
  expect(createCors([])).toBeUndefined()
})

test("only requests of allowed pages get CORS headers, in any spelling of the origin", async () => {
  for (const headers of [{}, { origin: "https://other.example" }, { origin: "null" }])
    expect(await ask("POST", headers)).toBe("handed on")
  for (const origin of [PAGE, PAGE.toUpperCase()]) {
    const response = await ask("POST", { origin })
    if (response === "handed on") expect.unreachable()
    expect(response.headers.get("access-control-allow-origin")).toBe(origin)
    expect(response.headers.get("access-control-expose-headers")).toContain("Mcp-Session-Id")
    expect(response.headers.has("access-control-allow-credentials")).toBe(false)
  }
})

test("a preflight allows MCP's headers and those that repeat parameters, and no others", async () => {
  const response = await ask("OPTIONS", {
    origin: PAGE,
    "access-control-request-method": "POST",
    "access-control-request-headers": "mcp-param-city, cookie, mcp-param-bad:name",
  })
  if (response === "handed on") expect.unreachable()
  const allowed = response.headers.get("access-control-allow-headers")?.split(", ")
  expect([response.status, allowed?.includes("Authorization"), allowed?.slice(-1)]).toEqual([
    204,
    true,
    ["mcp-param-city"],
  ])
})

test("OPTIONS without a preflight is passed on", async () => {
  const response = await ask("OPTIONS", { origin: PAGE })
  expect(response === "handed on" ? response : await response.text()).toBe("handed on")
})
