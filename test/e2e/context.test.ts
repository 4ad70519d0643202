/** What servers put into the context of a client, and what clients do not take of it. */
import { expect, test } from "bun:test"
import { eventually, fixture, freshEnv, readIfThere, runSvc, startSvc } from "./harness.ts"

const echo = (...args: string[]) => ({ command: "bun", args: [fixture("echo.ts"), ...args] })

test("what clients do not take is warned of, with and without a running svc [context:warnings] [context:characters]", async () => {
  const far = "a-server-with-a-name-that-leaves-little-room-for-tools-in-64"
  const servers = {
    many: { ...echo("--tools", "101"), toolDescriptionOverrides: { echo: "x".repeat(3000) } },
    [far]: echo(),
  }
  const config = { mcpServers: servers }
  const instance = await startSvc({ config, flags: ["--metrics"] })
  const svc = (...args: string[]) => runSvc([...args, "--config-dir", instance.folder], freshEnv(instance.folder))
  await eventually(async () => (await svc("mcp", "status", "--json")).stdout.includes("102 tools"))
  const cut = "descriptions over 2048 characters, which clients cut: echo"
  const refused = `names over 64 characters, which clients refuse: ${far}_svc_echo`
  const status = JSON.parse((await svc("mcp", "status", "--json")).stdout)
  expect(
    status.servers.map(({ instances }: { instances: { warnings: string[] }[] }) => instances[0]?.warnings),
  ).toEqual([[cut], [refused]])
  expect((await svc("mcp", "status")).stdout).toContain("warning: clients of all servers are listed 102 tools")
  const check = await svc("config", "check")
  expect(check).toMatchObject({ code: 0, stderr: "" })
  for (const part of [`many: ${cut} (warning)`, `${far}: ${refused} (warning)`, "are listed 102 tools"])
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
