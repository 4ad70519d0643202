/** The access log: a line for each request, without secrets. */
import { expect, test } from "bun:test"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { echo, freshFolder, json, modern, startSvc, svcIn } from "./harness.ts"

type Line = Readonly<Record<string, unknown>>

test("each request has a line, also one that is refused, and no line has a secret [access:log]", async () => {
  const folder = freshFolder()
  const config = { mcpServers: { a: echo() } }
  const { id, token } = await json(svcIn(folder)("auth", "token", "create", "bob", "--json"))
  const file = join(folder, "access.log")
  const svc = await startSvc({ folder, config, flags: ["--auth", "--access-log", file] })
  const secret = "canary-0123456789abcdef"
  const asked = async (path: string, headers: Record<string, string> = {}) =>
    (await fetch(svc.url + path, { method: "POST", headers })).status
  expect(await asked("/mcp", { authorization: `Bearer ${secret}` })).toBe(401)
  expect(await asked(`/mcp?token=${secret}`)).toBe(400)
  expect((await fetch(`${svc.url}/health`)).status).toBeLessThan(600)
  await modern(
    `${svc.url}/mcp`,
    "tools/call",
    { name: "a_svc_echo", arguments: { m: secret } },
    { authorization: `Bearer ${token}` },
  )
  expect((await fetch(`${svc.url}/missing`, { headers: { authorization: `Bearer ${token}` } })).status).toBe(404)
  svc.signal("SIGTERM")
  await svc.exited
  const text = readFileSync(file, "utf8")
  const lines = text
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line) as Line)
  const find = (path: string, status: number) => lines.filter((line) => line.path === path && line.status === status)
  expect(find("/mcp", 401)).toMatchObject([{ method: "POST", address: "127.0.0.1" }])
  expect(lines.filter(({ path }) => path === "/health")).toHaveLength(1)
  expect(find("/mcp", 200)).toMatchObject([
    { mcpMethod: "tools/call", mcpName: "a_svc_echo", principal: `token ${id}` },
  ])
  expect(find("/missing", 404)).toHaveLength(1)
  for (const line of lines) expect([typeof line.time, typeof line.ms]).toEqual(["string", "number"])
  expect(text).not.toContain(secret)
  expect(text).not.toContain(token)
}, 60_000)
