import { expect, test } from "bun:test"
import { BackendError, ConfigError, RequestError, UnavailableError } from "../../src/lib/errors.ts"
import { errorResponse, shapeOf } from "../../src/serve/respond.ts"

test("MCP paths get JSON-RPC errors, all other paths plain JSON", () => {
  for (const path of ["/mcp", "/sse", "/messages", "/servers/a%20b/mcp"])
    expect([path, shapeOf(path)]).toEqual([path, "jsonrpc"])
  for (const path of [
    "/",
    "/health",
    "/health/mcp",
    "/metrics",
    "/oauth/callback",
    "/servers/a",
    "/mcp/x",
    "/servers/a/b/mcp",
  ])
    expect([path, shapeOf(path)]).toEqual([path, "json"])
})

test("each shape has its body; the error decides the status and the code", async () => {
  const error = new RequestError("not_found", "no such thing")
  const read = async (shape: "jsonrpc" | "json" | "tool-invocation", more = {}) => {
    const response = errorResponse(error, { shape, ...more })
    expect(response.headers.get("content-type")).toBe("application/json")
    return [response.status, await response.json()]
  }
  const rpc = { code: -32602, message: "no such thing" }
  expect(await read("jsonrpc")).toEqual([404, { jsonrpc: "2.0", error: rpc }])
  expect(await read("jsonrpc", { id: "7" })).toEqual([404, { jsonrpc: "2.0", id: "7", error: rpc }])
  expect(await read("jsonrpc", { id: 7, code: -32020 })).toEqual([
    404,
    { jsonrpc: "2.0", id: 7, error: { ...rpc, code: -32020 } },
  ])
  expect(await read("json", { id: 7 })).toEqual([404, { error: "no such thing" }])
  expect(await read("tool-invocation")).toEqual([404, { error: rpc }])
})

test("each error class has its status", () => {
  const statusOf = (error: unknown) => errorResponse(error, { shape: "json" }).status
  expect(statusOf(new ConfigError([]))).toBe(503)
  expect(statusOf(new BackendError("web", "lost"))).toBe(503)
  expect(statusOf(new UnavailableError("no"))).toBe(503)
  expect(statusOf(new RequestError("wrong_method", ""))).toBe(405)
  expect(statusOf(new RequestError("not_acceptable", ""))).toBe(406)
  expect(statusOf(new RequestError("unsupported_media_type", ""))).toBe(415)
  expect(statusOf("thrown text")).toBe(500)
})

test("Retry-After comes from the error's data or from the caller; plain JSON repeats it in the body", async () => {
  const limited = new RequestError("too_many", "slow down", { retryAfter: 3 })
  const rpc = errorResponse(limited, { shape: "jsonrpc" })
  expect([rpc.status, rpc.headers.get("retry-after")]).toEqual([429, "3"])
  expect(await rpc.json()).toEqual({
    jsonrpc: "2.0",
    error: { code: -32600, message: "slow down", data: { retryAfter: 3 } },
  })
  expect(await errorResponse(limited, { shape: "json" }).json()).toEqual({ error: "slow down", retryAfter: 3 })
  const away = errorResponse(new UnavailableError("away"), { shape: "json", retryAfter: 5 })
  expect([away.status, away.headers.get("retry-after")]).toEqual([503, "5"])
  expect(errorResponse(new RequestError("conflict", ""), { shape: "json" }).headers.has("retry-after")).toBe(false)
})

test("a bug is reported without revealing its message to clients; messages of typed errors are masked", async () => {
  const bugs: unknown[] = []
  const bug = new TypeError("at /home/me: secret")
  const response = errorResponse(bug, { shape: "jsonrpc", onbug: (error) => bugs.push(error) })
  expect([response.status, await response.json()]).toEqual([
    500,
    { jsonrpc: "2.0", error: { code: -32603, message: "internal error" } },
  ])
  expect(bugs).toEqual([bug])
  const hidden = errorResponse(new RequestError("usage", "key s3cret"), {
    shape: "json",
    hide: (text) => text.replace("s3cret", "***"),
    onbug: (error) => bugs.push(error),
  })
  expect(await hidden.json()).toEqual({ error: "key ***" })
  expect(bugs).toHaveLength(1)
})
