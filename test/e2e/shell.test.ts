/** The commands that are clients of the running svc, as a person or a script runs them. */
import { expect, test } from "bun:test"
import { mkdirSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { JSON_SHAPES } from "../json-shapes.ts"
import { fixture, freshEnv, freshFolder, type Instance, npmServer, runSvc, SVC, startSvc } from "./harness.ts"

type Svc = (line: readonly string[], stdin?: string, cwd?: string) => ReturnType<typeof runSvc>

const svcOf =
  ({ folder }: Pick<Instance, "folder">): Svc =>
  (line, stdin, cwd) =>
    runSvc([...line, "--config-dir", folder], freshEnv(folder), stdin, cwd)

async function started(config: unknown): Promise<{ readonly instance: Instance; readonly svc: Svc }> {
  const instance = await startSvc({ config })
  return { instance, svc: svcOf(instance) }
}

const demo = { command: SVC, args: ["demo-server"] }

test("svc inspect shows the servers, a server and a tool, with what svc keeps from clients [shell:inspect]", async () => {
  const notes = freshFolder()
  const files = {
    ...npmServer("server-filesystem", notes),
    disabledTools: ["move_file"],
    toolDescriptionOverrides: { read_text_file: "Mine." },
  }
  const { instance, svc } = await started({
    mcpServers: {
      files,
      demo,
      "my.notes": demo,
      off: { ...demo, disabled: true },
      down: { command: "/nowhere/at/all" },
    },
  })
  await using _ = instance
  const all = JSON.parse((await svc(["inspect", "--json"])).stdout)
  expect(all).toContainEqual({
    server: "demo",
    state: "connected",
    counts: { tools: 3, hiddenTools: 0, prompts: 1, resources: 1, resourceTemplates: 0 },
  })
  expect(all.find(({ server }: { server: string }) => server === "down").counts).toBeUndefined()
  expect((await svc(["inspect"])).stdout).toMatch(/^SERVER +STATE +TOOLS.*\nfiles +connected +13 \(1 hidden\)\n/)
  const server = (await svc(["inspect", "files"])).stdout
  expect(server).toMatch(/\nmove_file +disabled +source\*: str, destination\*: str/)
  expect(server).toContain("paths*: str[]")
  expect((await svc(["inspect", "demo"])).stdout).toMatch(
    /PROMPT[\s\S]*greet +name\*[\s\S]*RESOURCE[\s\S]*demo:\/\/welcome/,
  )
  const offer = JSON.parse((await svc(["inspect", "files", "--json"])).stdout)
  expect(JSON_SHAPES.tool.array().parse(offer.tools)).toHaveLength(14)
  const tool = (await svc(["inspect", "files/read_text_file"])).stdout
  expect(tool).toMatch(/description +Mine\.\n +of the server +Read the complete contents/)
  expect(tool).toMatch(/hints +read-only[\s\S]*\nparameters\n {2}path +string, required\n/)
  expect((await svc(["inspect", "files_svc_edit_file"])).stdout).toContain("edits[].oldText")
  const whole = JSON.parse((await svc(["inspect", "files/read_text_file", "--json"])).stdout)
  expect(JSON_SHAPES.tool.parse(whole)).toMatchObject({
    server: "files",
    qualifiedName: "files_svc_read_text_file",
    description: "Mine.",
    definition: { name: "read_text_file", description: "Mine.", inputSchema: { required: ["path"] } },
  })
  expect((await svc(["inspect", "my.notes/echo"])).stdout).toContain("parameters")
  const refused = async (name: string, code: number, text: string) =>
    expect(await svc(["inspect", name])).toMatchObject({ code, stdout: "", stderr: expect.stringContaining(text) })
  await refused("files/reed_file", 64, "did you mean files/read_file")
  await refused("fils", 64, "did you mean files?")
  await refused("read_file", 64, "the tool is files/read_file")
  await refused("read_fil", 64, "did you mean the tool files/read_file")
  await refused("off/echo", 69, "off is disabled; `svc mcp enable off` starts it")
  await refused("down/echo", 69, "down ")
  expect((await svc(["inspect", "fils", "--json"])).stdout).toContain('"code": "not_found"')
})

test("svc search ranks the tools of running servers, and says what it searched [shell:search]", async () => {
  const { instance, svc } = await started({ mcpServers: { memory: npmServer("server-memory"), demo } })
  await using _ = instance
  expect((await svc(["search", "sum", "two", "numbers"])).stdout).toMatch(
    /^TOOL +SERVER +DESCRIPTION\nadd +demo +Adds two numbers\n/,
  )
  const hits = JSON_SHAPES.tool.array().parse(JSON.parse((await svc(["search", "create entities", "--json"])).stdout))
  expect(hits[0]).toMatchObject({
    server: "memory",
    name: "create_entities",
    qualifiedName: "memory_svc_create_entities",
  })
  expect(hits[0]?.matched).toContain("name")
  expect((await svc(["search", "--explain", "create entities"])).stdout).toMatch(
    /create_entities +memory +\d+\.\d\d +name/,
  )
  expect((await svc(["search", "add", "--server", "memory", "--limit", "1"])).stdout).not.toContain("demo")
  expect((await svc(["search", "qqqq"])).stdout).toMatch(
    /^no tool fits "qqqq" among 12 tools of 2 servers; .*`svc registry search`\n$/,
  )
  expect(await svc(["search", "add", "--server", "memry"])).toMatchObject({
    code: 64,
    stderr: expect.stringContaining("did you mean memory?"),
  })
  expect((await svc(["search"])).code).toBe(64)
})

test("svc instructions shows those of all servers, and of one [shell:instructions]", async () => {
  const { instance, svc } = await started({ mcpServers: { demo } })
  await using _ = instance
  expect((await svc(["instructions"])).stdout).toContain("- demo (3 tools): A demonstration server")
  expect((await svc(["instructions", "demo"])).stdout).toBe("A demonstration server: echo, add and time.\n")
  expect(JSON.parse((await svc(["instructions", "demo", "--json"])).stdout)).toEqual({
    server: "demo",
    instructions: "A demonstration server: echo, add and time.",
  })
})

test("in a project, the commands see its templates and what .svcrc selects [shell:project]", async () => {
  const project = freshFolder()
  mkdirSync(join(project, ".git"))
  writeFileSync(join(project, ".svcrc"), JSON.stringify({ tags: ["here"] }))
  const args = [fixture("echo.ts"), "--announce", "{{project.path}}"]
  const { instance, svc } = await started({
    mcpServers: { demo: { ...demo, tags: ["there"] } },
    mcpTemplates: { local: { command: "bun", args, tags: ["here"] } },
  })
  await using _ = instance
  const seen = JSON.parse((await svc(["inspect", "--json"], "", project)).stdout)
  expect(seen).toMatchObject([{ server: "local", state: "connected" }])
  expect(await svc(["inspect", "demo"], "", project)).toMatchObject({
    code: 64,
    stderr: expect.stringContaining("demo is not among the servers of this project"),
  })
  expect((await svc(["inspect", "local", "--project", project])).code).toBe(0)
  expect(await svc(["inspect", "--project", join(project, "none")])).toMatchObject({ code: 64 })
})

test("without a running svc, the commands say how to start it", async () => {
  const folder = freshFolder()
  for (const line of [["inspect"], ["search", "x"], ["instructions"]])
    expect(await svcOf({ folder })(line)).toMatchObject({
      code: 69,
      stderr: expect.stringContaining("start it with `svc serve`"),
    })
})
