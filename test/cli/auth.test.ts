/** `svc auth` without a running svc. */
import { expect, test } from "bun:test"
import { join } from "node:path"
import { freshFolder } from "../e2e/harness.ts"
import { startAuthority, startResource } from "../fixtures/authority.ts"
import { commandsIn } from "../run-command.ts"

test("svc warns of a token that grants more than may be intended, and shows how to use a token without repeating it [auth:token:warn]", async () => {
  const mcpServers = { shop: { command: "x", tags: ["web"] }, files: { command: "x", tags: ["local"] } }
  const svc = commandsIn(freshFolder({ "mcp.json": JSON.stringify({ mcpServers }) }))
  const token = (...words: string[]) => svc("auth", "token", ...words)
  const whole = await token("create")
  expect(whole.stderr).toContain(
    "warning: the token grants access to all servers and the management tools, without an expiry;",
  )
  expect(whole.stderr).toContain("the token has no name")
  expect(whole.stderr).toContain('http://127.0.0.1:3050/mcp --header "Authorization: Bearer TOKEN"')
  expect(whole.stderr).not.toContain(whole.stdout.trim().slice(18))
  const wrong = await token("create", "ci", "--tags", "wbe,local", "--expires", "30d")
  expect(wrong.stderr).toContain("warning: no server has the tag wbe; did you mean web?")
  expect(wrong.stderr.match(/warning/g)).toHaveLength(1)
  expect((await token("create", "ci", "--name", "other")).code).toBe(64)
  expect((await token("create", "ci")).stderr).toContain("(ci) already exists")
  const fine = await token("create", "--name", "fine", "--tags", "web", "--expires", "30d", "--json")
  expect([JSON.parse(fine.stdout).warnings, fine.stderr]).toEqual([[], ""])
})

test("svc auth login reports in plain words what it cannot do", async () => {
  const folder = freshFolder({ "mcp.json": JSON.stringify({ mcpServers: { files: { command: "true" } } }) })
  const svc = commandsIn(folder, { env: { SVC_KEYCHAIN: "off" } })
  const other = await svc("auth", "login", "nobody")
  expect(other).toMatchObject({ code: 64, stderr: "svc: no server is named nobody; the only one is files\n" })
  const child = await svc("auth", "login", "files")
  expect(child).toMatchObject({ code: 64, stderr: expect.stringContaining("only remote servers require a sign-in") })
  const late = await startAuthority()
  const resource = startResource(late)
  await Bun.write(join(folder, "mcp.json"), JSON.stringify({ mcpServers: { web: { url: resource.url } } }))
  const nobody = await svc("auth", "login", "web", "--no-browser", "--timeout", "100ms")
  expect(nobody).toMatchObject({
    code: 69,
    stderr: expect.stringContaining("no sign-in within"),
  })
  resource[Symbol.dispose]()
  await late.stop()
})
