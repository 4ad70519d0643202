/** `svc preset` without a running svc. */
import { expect, test } from "bun:test"
import { mkdirSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { freshFolder } from "../e2e/harness.ts"
import { clientHome } from "../fixtures/client-home.ts"
import { commandsIn } from "../run-command.ts"

test("presets are listed, shown and tried out", async () => {
  const server = (...tags: string[]) => ({ command: "x", tags })
  const mcpServers = { shop: server("web"), crawl: server("web", "slow"), files: server("local") }
  const svc = commandsIn(freshFolder({ "mcp.json": JSON.stringify({ mcpServers }) }))
  const run = (...words: string[]) => svc("preset", ...words)
  expect((await run("create", "bad", "--filter", "web and (")).stderr).toContain("column 10")
  expect((await run("create", "a b", "--filter", "web")).code).toBe(64)
  expect((await run("create", "p", "--filter", "slow")).code).toBe(0)
  expect((await run("create", "p", "--filter", "slow")).stderr).toContain("already")
  expect(JSON.parse((await run("list", "--json")).stdout)).toEqual([{ name: "p", filter: "slow", servers: ["crawl"] }])
  expect((await run("show", "p")).stdout).toContain("crawl")
  expect((await run("show", "q")).stderr).toContain("the only one is p")
  const tried = await run("test", "web and not sloww")
  expect(tried.stdout).toBe("shop\ncrawl\n")
  expect(tried.stderr).toContain("did you mean slow?")
  expect((await run("edit", "p")).code).toBe(64)
  const empty = await run("create", "empty", "--filter", "sloww")
  expect([empty.code, empty.stderr]).toEqual([
    0,
    "warning: no server has the tag sloww; did you mean slow?\nwarning: no server matches the filter\n",
  ])
  expect((await run("edit", "empty", "--filter", "slow")).stderr).toBe("")
  expect((await run("edit", "empty", "--filter", "slow and not slow")).stderr).toBe(
    "warning: no server matches the filter\n",
  )
})

test("the deletion of a preset names the clients that are connected with it [connect:preset]", async () => {
  const folder = clientHome({ "mcp.json": "{}", ".cursor/mcp.json": "{}", ".kiro/settings/mcp.json": "{}" })
  const svc = commandsIn(folder)
  for (const name of ["p", "q"]) await svc("preset", "create", name, "--servers", "*")
  await svc("connect", "cursor", "--preset", "q,p", "--yes")
  await svc("connect", "kiro", "--preset", "p", "--no-stdio", "--yes")
  await svc("connect", "gemini", "--preset", "q", "--yes")
  // Without --config-dir, an entry is of the standard directory.
  const other = { mcpServers: { svc: { command: "svc", args: ["proxy", "--preset", "p"] } } }
  mkdirSync(join(folder, ".junie/mcp"), { recursive: true })
  writeFileSync(join(folder, ".junie/mcp/mcp.json"), JSON.stringify(other))
  const { code, stderr } = await svc("preset", "delete", "p")
  expect([code, stderr.match(/[^ ]+ (?=\([^)]+\) still asks for the preset p,)/g)]).toEqual([0, ["Cursor ", "Kiro "]])
  expect(stderr).toContain("`svc connect kiro` gives it all servers")
})

test("a preset is deleted also if the clients that are connected with it cannot be found [connect:preset]", async () => {
  const svc = commandsIn(clientHome({ "mcp.json": "{}", "connections.json": "{" }))
  await svc("preset", "create", "p", "--servers", "*")
  expect(await svc("preset", "delete", "p", "--json")).toMatchObject({
    code: 0,
    stdout: expect.stringContaining('"changed": true'),
    stderr: expect.stringContaining("warning: cannot tell which clients still ask for the preset p: "),
  })
})
