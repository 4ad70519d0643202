/** The commands that are clients of the running svc, as a person or a script runs them. */
import { expect, test } from "bun:test"
import { mkdirSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { JSON_SHAPES } from "../json-shapes.ts"
import {
  eventually,
  fixture,
  freshEnv,
  freshFolder,
  type Instance,
  npmServer,
  runSvc,
  SVC,
  startSvc,
  typeSvc,
} from "./harness.ts"

type Svc = (line: readonly string[], stdin?: string, cwd?: string) => ReturnType<typeof runSvc>

const svcOf =
  ({ folder }: Pick<Instance, "folder">): Svc =>
  (line, stdin, cwd) =>
    runSvc([...line, "--config-dir", folder], freshEnv(folder), stdin, cwd)

async function started(config: unknown): Promise<{ readonly instance: Instance; readonly svc: Svc }> {
  const instance = await startSvc({ config, flags: ["--metrics"] })
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
    /^TOOL +DESCRIPTION\ndemo\/add +Adds two numbers\n/,
  )
  const hits = JSON_SHAPES.tool.array().parse(JSON.parse((await svc(["search", "create entities", "--json"])).stdout))
  expect(hits[0]).toMatchObject({
    server: "memory",
    name: "create_entities",
    qualifiedName: "memory_svc_create_entities",
  })
  expect(hits[0]?.matched).toContain("name")
  const [, ...rows] = (await svc(["search", "sum", "entities"])).stdout.trim().split("\n")
  expect(rows.length).toBeGreaterThan(1)
  for (const row of rows) expect((await svc(["inspect", row.split(" ")[0] ?? ""])).code).toBe(0)
  expect((await svc(["search", "--explain", "create entities"])).stdout).toMatch(
    /memory\/create_entities +\d+\.\d\d +name/,
  )
  expect((await svc(["search", "add", "--server", "memory", "--limit", "1"])).stdout).not.toContain("demo")
  expect((await svc(["search", "qqqq"])).stdout).toMatch(
    /^no tool matches "qqqq" among 12 tools of 2 servers; .*`svc mcp search`\n$/,
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

test("with --preset, the commands see what a preset selects, and call its tools under either name [shell:preset]", async () => {
  const { instance, svc } = await started({ mcpServers: { demo, other: demo } })
  await using _ = instance
  const rules = ["--servers", "demo", "--allow", "demo/echo", "--name", "demo/echo=repeat", "--prefix", "none"]
  expect((await svc(["preset", "create", "few", ...rules])).code).toBe(0)
  const seen = JSON.parse((await svc(["inspect", "demo", "--preset", "few", "--json"])).stdout)
  expect(seen.tools.map(({ qualifiedName }: { qualifiedName: string }) => qualifiedName)).toEqual(["repeat"])
  for (const name of ["repeat", "demo/echo"])
    expect(await svc(["run", name, "--preset", "few", "message=hi"])).toMatchObject({ code: 0, stdout: "hi\n" })
  for (const [target, why] of [
    ["other/echo", "--preset"],
    ["demo/add", "no tool named add"],
  ] as const)
    expect(await svc(["run", target, "--preset", "few", "message=hi"])).toMatchObject({
      code: 64,
      stderr: expect.stringContaining(why),
    })
  expect(await svc(["run", "demo/echo", "--preset", "none", "message=hi"])).toMatchObject({
    code: 64,
    stderr: expect.stringContaining("no preset is named none"),
  })
})

test("an unknown preset of a .svcrc is named with its file and line, and with the presets that exist [svcrc:preset]", async () => {
  const { instance, svc } = await started({ mcpServers: { demo } })
  await using _ = instance
  for (const name of ["dev", "review"]) await svc(["preset", "create", name, "--servers", "demo"])
  const project = freshFolder({ ".svcrc": '{\n  "preset": "everything"\n}\n' })
  const said = `${join(project, ".svcrc")}:2:3: no preset is named everything; the names are dev and review`
  for (const line of [
    ["inspect"],
    ["search", "echo"],
    ["run", "demo/echo", "message=hi"],
    ["instructions"],
    ["doctor"],
  ]) {
    const { code, stdout, stderr } = await svc(line, undefined, project)
    expect([code === 0, stdout + stderr]).toEqual([false, expect.stringContaining(said)])
  }
})

test("svc run takes typed arguments, and writes the result to stdout [shell:run]", async () => {
  const notes = freshFolder()
  writeFileSync(join(notes, "a.txt"), "one\ntwo")
  const everything = { command: "bun", args: [fixture("everything-1x.ts")] }
  const files = { ...npmServer("server-filesystem", notes), disabledTools: ["move_file"] }
  const { instance, svc } = await started({ mcpServers: { demo, files, everything } })
  await using _ = instance
  expect(await svc(["run", "demo/add", "a=1", "b:=2.5"])).toEqual({ code: 0, stdout: "3.5\n", stderr: "" })
  expect((await svc(["run", "demo_svc_add", "--args", '{"a":1,"b":2}'])).stdout).toBe("3\n")
  expect((await svc(["run", "demo/echo", "--args", "-"], '{"message":"from stdin"}')).stdout).toBe("from stdin\n")
  const json = await svc(["run", "demo/echo", "message=hi", "--json"])
  expect(JSON.parse(json.stdout)).toEqual({ content: [{ type: "text", text: "hi" }] })
  const structured = await svc(["run", "files/read_text_file", `path=${join(notes, "a.txt")}`, "head=1", "--json"])
  expect(JSON.parse(structured.stdout)).toMatchObject({ structuredContent: { content: "one" } })
  expect((await svc(["run", "everything/test_image_content"])).stdout).toBe(
    "[image/png, 70 bytes; --output FILE saves it]\n",
  )
  const file = join(notes, "x.png")
  expect((await svc(["run", "everything/test_image_content", "--output", file])).code).toBe(0)
  expect(readFileSync(file).subarray(1, 4).toString()).toBe("PNG")
  const progress = await svc(["run", "everything/test_tool_with_progress"])
  expect(progress.stderr).toBe("progress 0/100\nprogress 50/100\nprogress 100/100\n")
  expect((await svc(["run", "everything/test_tool_with_logging"])).stderr).toContain("info: Tool execution started\n")
})

test("svc's own tools are those of the server svc, and ask before they change something [shell:run]", async () => {
  const instance = await startSvc({ config: { mcpServers: { demo } }, flags: ["--internal-tools", "all"] })
  await using _ = instance
  const svc = svcOf(instance)
  expect((await svc(["run", "mcp_list"])).stdout).toContain("demo (connected)")
  expect((await svc(["inspect", "svc/mcp_list"])).stdout).toContain("parameters")
  expect((await svc(["run", "svc/mcp_lis"])).stderr).toContain(
    "svc has no tool named mcp_lis; did you mean svc/mcp_list",
  )
  const disabled = await svc(["run", "mcp_disable", "serverName=demo"])
  expect(disabled).toMatchObject({ code: 1, stdout: "", stderr: expect.stringContaining("nothing was changed") })
  expect((await svc(["search", "disable", "a", "server"])).stdout).toMatch(/\nsvc\/mcp_disable /)
})

test("svc run exits with a code for each kind of failure [shell:run:exit]", async () => {
  const dying = { command: "bun", args: [fixture("dying.ts")] }
  const files = { ...npmServer("server-filesystem", freshFolder()), disabledTools: ["move_file"] }
  const { instance, svc } = await started({
    mcpServers: { demo, files, down: { command: "/nowhere/at/all" }, dying, every: npmServer("server-everything") },
  })
  await using _ = instance
  const fails = async (line: readonly string[], code: number, text: string) =>
    expect(await svc(["run", ...line])).toMatchObject({ code, stdout: "", stderr: expect.stringContaining(text) })
  await fails(["files/read_text_file", "path=/etc/passwd"], 1, "Access denied")
  await fails(["demo/ad", "a=1"], 64, "did you mean demo/add?")
  await fails(["demo/add", "a=1"], 64, "b is missing; the parameters are a*: num, b*: num")
  await fails(["demo/add", "a=x", "b=1"], 64, "demo/add: a must be a number, not x")
  await fails(["demo/add", "--args", "[1]"], 64, "--args must be a JSON object")
  await fails(["demo/add", "a=1", "--args", "{}"], 64, "all in --args")
  await fails(["demo"], 64, "demo is a server; name one of its tools as demo/TOOL")
  await fails(["files/move_file"], 64, "`svc mcp tools enable files move_file` shows it again")
  await fails(["down/x"], 69, "down ")
  await fails(["every/simulate-research-query", "topic=x"], 69, "simulate-research-query runs only as a task")
  await fails(["demo", "ad", "a=1"], 64, "demo is a server; did you mean its tool demo/add?")
  await fails([], 64, "TOOL is missing, as in `svc run ")
  const failed = await svc(["run", "files/read_text_file", "path=/etc/passwd", "--json"])
  expect({ code: failed.code, result: JSON.parse(failed.stdout) }).toMatchObject({ code: 1, result: { isError: true } })
  expect(await svcOf({ folder: freshFolder() })(["run", "demo/add"])).toMatchObject({
    code: 69,
    stderr: expect.stringContaining("start it with `svc serve`"),
  })
})

test("--timeout and Ctrl-C cancel the call of svc run [shell:run:cancel]", async () => {
  const slow = { command: "bun", args: [fixture("echo.ts"), "--delay", "600000"] }
  const { instance, svc } = await started({ mcpServers: { slow } })
  await using _ = instance
  expect(await svc(["run", "slow/echo", "m=x", "--timeout", "300ms"])).toMatchObject({
    code: 69,
    stdout: "",
    stderr: "svc: slow/echo did not answer within 300 ms\n",
  })
  const child = Bun.spawn([SVC, "run", "slow/echo", "m=x", "--config-dir", instance.folder], {
    env: freshEnv(instance.folder),
    stdout: "pipe",
    stderr: "pipe",
  })
  const calls = async () => {
    const text = await (await fetch(`${instance.url}/metrics`)).text()
    return Number(/^svc_calls_in_flight (\d+)/m.exec(text)?.[1])
  }
  await eventually(async () => (await calls()) === 1)
  child.kill("SIGINT")
  expect(await child.exited).toBe(130)
  await eventually(async () => (await calls()) === 0)
})

test("svc run answers an elicitation at a terminal, and cancels it elsewhere [shell:run:elicitation]", async () => {
  const everything = { command: "bun", args: [fixture("everything-1x.ts")] }
  const modern = { command: "bun", args: [fixture("everything-2x.ts")] }
  const { instance, svc } = await started({ mcpServers: { everything, modern } })
  await using _ = instance
  const tool = "everything/test_elicitation"
  expect(await svc(["run", tool, "message=Who?"])).toMatchObject({
    code: 0,
    stdout: expect.stringContaining("action=cancel"),
    stderr: expect.stringContaining(`${tool} asks: Who?\nsvc run answers such questions only at a terminal`),
  })
  const typed = (line: readonly string[], ...answers: string[]) =>
    typeSvc(["run", ...line, "--config-dir", instance.folder], { folder: instance.folder, answers })
  const accepted = await typed([tool, "message=Who?"], "y", "ann", "a@example.com")
  expect(accepted.shown).toContain("action=accept")
  expect(accepted.shown).toContain('"ann"')
  expect((await typed([tool, "message=Who?"], "n")).shown).toContain("action=decline")
  const defaults = await typed(["everything/test_elicitation_sep1034_defaults"], "y", "", "", "x", "50", "", "")
  expect(defaults.shown).toMatch(/must be an? (?:number|integer), not x/)
  expect(defaults.shown).toContain('"age":30,"score":50,"status":"active"')
  const rounds = await typed(["modern/test_input_required_result_multi_round"], "y", "ann", "y", "red")
  expect(rounds).toMatchObject({ code: 0, shown: expect.stringContaining("Multi-round complete: ann") })
})

test("svc run handles a closed pipe and a full disk [shell:run:output]", async () => {
  const { instance } = await started({
    mcpServers: { echo: { command: "bun", args: [fixture("echo.ts"), "--size", "3000000"] } },
  })
  await using _ = instance
  const shell = (line: string) =>
    Bun.spawnSync(
      ["bash", "-o", "pipefail", "-c", line.replaceAll("SVC", `${SVC} run --config-dir ${instance.folder}`)],
      {
        env: freshEnv(instance.folder),
      },
    )
  const closed = shell("SVC echo/echo m=x | head -c 5")
  expect([closed.exitCode, closed.stdout.length, closed.stderr.toString()]).toEqual([0, 5, ""])
  const whole = shell("SVC echo/echo m=x --json | wc -c")
  expect(Number(whole.stdout.toString())).toBeGreaterThan(3_000_000)
  // Only Linux has a device that is always full.
  if (process.platform !== "linux") return
  const full = shell("SVC echo/echo m=x > /dev/full")
  expect(full.exitCode).toBe(74)
  expect(full.stderr.toString().trimEnd().split("\n")).toHaveLength(1)
})
