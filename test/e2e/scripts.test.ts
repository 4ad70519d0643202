/** What scripts need: one call without a service, a start that waits, and exit codes that tell. */
import { expect, test } from "bun:test"
import { mkdirSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { echo, eventually, freshFolder, json, processes, svcIn } from "./harness.ts"

function stage(servers: object) {
  const folder = freshFolder()
  writeFileSync(join(folder, "mcp.json"), JSON.stringify({ mcpServers: servers }))
  return { folder, svc: svcIn(folder) }
}

const missing = { command: "svc-no-such-program" }

test("run --once starts only the server of its call, and leaves nothing behind [shell:once]", async () => {
  const marks = [1, 2].map(() => `svc-mark-${crypto.randomUUID()}`) as [string, string]
  const { svc } = stage({
    a: echo(marks[0]),
    b: echo(marks[1]),
    bad: missing,
    unset: { command: "svc-none", env: { K: "${UNSET}" } },
  })
  const done = await svc("run", "--once", "a/echo", "m=hello")
  expect([done.code, done.stdout]).toEqual([0, "hello\n"])
  expect([...processes(marks[0]), ...processes(marks[1])]).toEqual([])
  expect((await json(svc("ps", "--json"))).running).toEqual([])
  const refused = async (tool: string) => {
    const { code, stderr } = await svc("run", "--once", tool)
    return [code, stderr]
  }
  expect(await refused("bad/echo")).toEqual([69, expect.stringMatching(/^svc: bad does not start: command not found/)])
  expect(await refused("unset/echo")).toEqual([69, expect.stringMatching(/^svc: unset is not loaded: env.K refers/)])
  const names = "svc: no server is named nobody; the names are a, b, bad and unset\n"
  expect(await refused("nobody/echo")).toEqual([64, names])
}, 60_000)

test("run warns of arguments that do not match the schema, and refuses them with --strict [shell:schema]", async () => {
  const { svc } = stage({ a: echo() })
  const warned = await svc("run", "--once", "a/echo", "m=hello", "foo=abc")
  expect(warned).toEqual({ code: 0, stdout: "hello\n", stderr: "warning: a/echo: foo is no parameter of the tool\n" })
  const refused = await svc("run", "--once", "--strict", "a/echo", "--args", '{"m":7}')
  expect([refused.code, refused.stderr]).toEqual([64, "svc: a/echo: m must be string\n"])
}, 60_000)

test("serve --background --wait returns when the servers are connected, and 69 if one is not [serve:wait]", async () => {
  const mark = `svc-mark-${crypto.randomUUID()}`
  const { svc } = stage({ a: echo(mark), bad: missing })
  const failed = await svc("serve", "--background", "--port", "0", "--wait", "10s")
  expect([failed.code, failed.stderr]).toEqual([69, expect.stringContaining("svc: bad does not start")])
  expect((await svc("logs", "--since", "start")).stdout).toContain("bad: could not be started")
  expect((await svc("stop", "--all")).stdout).toStartWith("stopped process ")
  await eventually(() => processes(mark).length === 0)

  const quiet = await svc("serve", "--background", "--port", "0", "--quiet", "--servers", "a", "--wait", "10s")
  expect(quiet).toEqual({ code: 0, stdout: "", stderr: "" })
  expect(processes(mark)).toHaveLength(1)
  expect((await json(svc("stop", "--all", "--json"))).stopped).toHaveLength(1)
  expect((await svc("stop", "--all")).stdout).toBe("no svc is running\n")
}, 60_000)

test("adding a server that does not start is written, and exits with 69 [cli:add:fails]", async () => {
  const { folder, svc } = stage({})
  expect((await svc("serve", "--background", "--port", "0", "--quiet")).code).toBe(0)
  const added = await svc("mcp", "add", "bad", "svc-no-such-program")
  expect([added.code, added.stdout]).toEqual([69, expect.stringContaining("added bad; it does not start")])
  expect(readFileSync(join(folder, "mcp.json"), "utf8")).toContain("svc-no-such-program")
  await svc("stop", "--all")
}, 60_000)

test("several clients, or all, are connected and undone by one command [connect:several]", async () => {
  const { folder, svc } = stage({})
  const files = [".cursor/mcp.json", ".gemini/settings.json"].map((file) => join(folder, file))
  for (const file of files) {
    mkdirSync(join(file, ".."), { recursive: true })
    writeFileSync(file, "{}\n")
  }
  const texts = () => files.map((file) => readFileSync(file, "utf8"))
  expect((await svc("connect", "--all", "--yes")).code).toBe(0)
  expect(texts().filter((text) => text.includes('"svc"'))).toHaveLength(2)
  expect((await svc("connect", "cursor", "gemini", "--undo", "--yes")).code).toBe(0)
  expect(texts()).toEqual(["{}\n", "{}\n"])
  expect((await svc("connect", "cursor", "nobody", "--yes")).code).toBe(64)
  expect(texts()[0]).toContain('"svc"')
}, 60_000)
