/** The texts that servers add to the context of a client, and the limits of clients. */
import { expect, test } from "bun:test"
import { Client } from "@modelcontextprotocol/sdk/client/index.js"
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js"
import { digest } from "../../src/lib/digest.ts"
import { echo, eventually, modern, readIfThere, runSvc, SVC, startSvc, svcIn } from "./harness.ts"

test("svc warns of what clients cut or refuse, with and without a running svc [context:warnings] [context:characters]", async () => {
  const far = "a-server-with-a-name-that-leaves-little-room-for-tools-in-64"
  const servers = {
    many: { ...echo("--tools", "101"), toolDescriptionOverrides: { echo: "x".repeat(3000) } },
    [far]: echo(),
  }
  const config = { mcpServers: servers }
  const instance = await startSvc({ config, flags: ["--metrics"] })
  const svc = svcIn(instance.folder)
  await eventually(async () => (await svc("mcp", "status", "--json")).stdout.includes("102 tools"))
  const cut = "descriptions over 2048 characters, which clients cut: echo"
  const refused = `names over 64 characters, which clients refuse (--max-tool-name 64 shortens them): ${far}_svc_echo`
  const status = JSON.parse((await svc("mcp", "status", "--json")).stdout)
  expect(
    status.servers.map(({ instances }: { instances: { warnings: string[] }[] }) => instances[0]?.warnings),
  ).toEqual([[cut], [refused]])
  expect((await svc("mcp", "status")).stdout).toContain("warning: a client of all servers gets 102 tools")
  const check = await svc("config", "check")
  expect(check).toMatchObject({ code: 0, stderr: "" })
  for (const part of [`many: ${cut} (warning)`, `${far}: ${refused} (warning)`, "gets 102 tools"])
    expect(check.stdout).toContain(part)
  const [{ characters }] = status.servers[0].instances
  expect(characters).toEqual({ tools: expect.any(Number), instructions: 0 })
  expect(await (await fetch(`${instance.url}/metrics`)).text()).toContain(
    `svc_context_characters{server="many",kind="tools"} ${characters.tools}\n`,
  )
  await eventually(() => readIfThere(`${instance.folder}/tools.json`)?.includes(far))
  instance.signal("SIGTERM")
  await instance.exited
  const offline = (await svc("config", "check")).stdout
  for (const part of [`many: ${cut}`, `${far}: ${refused}`]) expect(offline).toContain(part)
  expect(offline).not.toContain("are listed")
})

test("long names are shortened for clients of both eras, and the whole names work too [names:shortened]", async () => {
  const far = "a-server-with-a-name-that-leaves-little-room-for-tools-in-64"
  const [demo, echoes] = [{ command: SVC, args: ["demo-server"] }, echo("--tools", "2")]
  const hidden = { disabledTools: [`${far}_svc_echo1`], toolDescriptionOverrides: { echo: "mine" } }
  const config = { mcpServers: { [far]: { ...echoes, ...hidden }, demo } }
  await using instance = await startSvc({ config, flags: ["--max-tool-name", "64"] })
  const whole = `${far}_svc_echo`
  const short = `${far.slice(0, 46)}_svc_echo_${digest(whole, 8)}`
  const call = async (name: string) =>
    (await modern(`${instance.url}/mcp`, "tools/call", { name, arguments: { m: "hi" } })).body
  const list = async () =>
    (await modern(`${instance.url}/mcp`, "tools/list")).body.result?.tools as { name: string; description: string }[]
  expect((await list()).slice(0, 2)).toMatchObject([{ name: short, description: "mine" }, { name: "demo_svc_echo" }])
  for (const name of [short, whole]) expect((await call(name)).result).toMatchObject({ content: [{ text: "hi" }] })
  expect((await call(`${far}_svc_echo1`)).error?.message).toContain("is disabled")
  const client = new Client({ name: "context", version: "1" })
  await client.connect(new StreamableHTTPClientTransport(new URL(`${instance.url}/mcp`)) as never)
  expect((await client.listTools()).tools[0]?.name).toBe(short)
  expect(await client.callTool({ name: short, arguments: { m: "hi" } })).toMatchObject({ content: [{ text: "hi" }] })
  // An additional server changes no name.
  instance.write({ mcpServers: { [`${far}r`]: echoes, ...config.mcpServers } })
  await eventually(async () => (await list()).length > 5)
  expect((await list()).map(({ name }) => name)).toContain(short)
  expect((await list()).filter(({ name }) => name.length > 64)).toEqual([])
  const plain = (await modern(`${instance.url}/servers/${far}/mcp`, "tools/list")).body.result
  expect(plain).toMatchObject({ tools: [{ name: "echo" }] })
  await client.close()
})

test("svc tokens counts what servers and tools cost, the most expensive first [context:tokens]", async () => {
  const servers = {
    few: { ...echo("--tools", "2"), tags: ["web"] },
    demo: { command: SVC, args: ["demo-server"] },
    many: echo("--tools", "30"),
    down: { command: "/nowhere/at/all" },
  }
  const instance = await startSvc({ config: { mcpServers: servers } })
  const svc = svcIn(instance.folder)
  expect((await svc("preset", "create", "web", "--filter", "web")).code).toBe(0)
  await eventually(async () => (await svc("tokens", "--json")).stdout.includes("many_svc_echo29"))
  const all = JSON.parse((await svc("tokens", "--json")).stdout)
  expect(all.servers.map(({ name }: { name: string }) => name)).toEqual(["many", "demo", "few"])
  const [many, demo] = all.servers
  expect(many.tokens).toBe(many.descriptions + many.schemas)
  expect(many.tools).toHaveLength(30)
  // "few_svc_echo", "Returns its argument" and a schema of one property.
  expect(all.servers[2].tokens).toBeGreaterThan(40)
  expect(all.servers[2].tokens).toBeLessThan(80)
  expect(demo.instructions).toBeGreaterThan(5)
  expect(all.total.tokens).toBe(all.total.tools + all.total.instructions)
  expect(all.lazy.tokens).toBeLessThan(all.total.tokens)
  expect(all.lazy.tools).toBeLessThan(500)
  const shown = await svc("tokens")
  expect(shown.stdout).toMatch(
    /^SERVER +TOOLS +TOKENS[^\n]+\nmany +30 [\s\S]*\n\n +TOOLS +TOKENS[^\n]+\nin each client +35 +[\d,]+ +[\d,]+ +\d+\nin a lazy view +4 +\d+ /,
  )
  expect(shown.stdout).toContain("cl100k_base")
  const preset = JSON.parse((await svc("tokens", "--preset", "web", "--json")).stdout)
  expect(preset.servers).toEqual([all.servers[2]])
  expect(preset.lazy.tools).toBe(all.lazy.tools)
  expect(preset.total.tokens).toBeLessThan(all.total.tokens)
  expect((await svc("tokens", "demo")).stdout).toMatch(/^TOOL +TOKENS[\s\S]*demo_svc_[\s\S]*\(instructions\) +\d/)
  expect(await svc("tokens", "mani")).toMatchObject({
    code: 64,
    stderr: expect.stringContaining("did you mean many?"),
  })
  expect((await svc("tokens", "--preset", "none")).code).toBe(64)
  instance.signal("SIGTERM")
  await instance.exited
  expect(await svc("tokens")).toMatchObject({ code: 69, stderr: expect.stringContaining("is not running") })
})

test("svc tokens counts a server that is still starting [context:tokens]", async () => {
  const { command, args } = echo("one")
  const slow = { command: "sh", args: ["-c", 'sleep 1; exec "$0" "$@"', command, ...args] }
  await using svc = await startSvc({ config: { mcpServers: { slow } } })
  const counted = await runSvc(["tokens", "slow"], { SVC_CONFIG_DIR: svc.folder })
  expect([counted.code, counted.stdout]).toEqual([0, expect.stringContaining("slow_svc_")])
})
