/** `svc activity`: the last calls of tools. */
import { expect, test } from "bun:test"
import { echo, freshEnv, type Instance, json, modern, runSvc, SVC, startSvc, typeSvc } from "./harness.ts"

const CANARY = "canary-in-env"
const config = { mcpServers: { a: { ...echo(), env: { API_KEY: CANARY } }, b: echo() } }
const call = ({ url }: Instance, name: string, args: Record<string, unknown> = {}) =>
  modern(`${url}/mcp`, "tools/call", { name, arguments: args })
const activity = ({ folder }: Instance, ...args: readonly string[]) =>
  runSvc(["activity", "--config-dir", folder, ...args])

test("the last calls, also from before the first question, without their content [activity:command]", async () => {
  await using svc = await startSvc({ config })
  await Promise.all([svc.said("a: connected"), svc.said("b: connected")])
  expect((await activity(svc)).stdout).toBe("no such calls\n")
  await call(svc, "a_svc_echo", { text: CANARY })
  await call(svc, "b_svc_echo", { text: CANARY })
  const { calls } = await json(activity(svc, "--json"))
  expect(calls).toMatchObject([
    { id: 1, server: "a", tool: "echo", outcome: "ok", client: "test 1" },
    { id: 2, server: "b", tool: "echo", outcome: "ok" },
  ])
  expect(JSON.stringify(calls)).not.toMatch(/arguments|answer|canary/)
  expect((await activity(svc)).stdout).toMatch(/a\/echo.*\n.*b\/echo/)
  const { shown } = await typeSvc(["activity", "--config-dir", svc.folder], { folder: svc.folder, answers: [] })
  expect(shown).toMatch(/^\d\d:\d\d:\d\d .* a\/echo/m)
  const lines = async (...args: readonly string[]) => (await activity(svc, ...args)).stdout.match(/[ab]\/echo/g) ?? []
  expect(await lines("--tool", "b/*")).toEqual(["b/echo"])
  expect(await lines("--tool", "echo")).toEqual(["a/echo", "b/echo"])
  expect(await lines("--slow", "1h")).toEqual([])
  expect(await lines("--failed")).toEqual([])
  expect((await activity(svc, "--slow", "soon")).code).toBe(64)

  await using following = Bun.spawn([SVC, "activity", "--follow", "--tool", "b/*", "--config-dir", svc.folder], {
    env: freshEnv(svc.folder),
    stdout: "pipe",
    stderr: "ignore",
  })
  let seen = ""
  for await (const chunk of following.stdout) {
    seen += new TextDecoder().decode(chunk)
    const found = seen.match(/b\/echo/g) ?? []
    if (found.length === 1) await call(svc, "b_svc_echo")
    if (found.length === 2) break
  }
  expect(seen).not.toContain("a/echo")
}, 30_000)

test("each call says how long it waited for its server, and how long the server had it [activity:parts]", async () => {
  const sleeper = { ...echo(), start: "lazy" }
  await using svc = await startSvc({ config: { mcpServers: { sleeper, b: echo() } } })
  await svc.said("sleeper: asleep after")
  await call(svc, "sleeper_svc_echo")
  await call(svc, "sleeper_svc_echo")
  await call(svc, "b_svc_echo")
  const { calls } = await json(activity(svc, "--json"))
  const [woken, ...awake] = calls as readonly { ms: number; waited: number; atServer: number }[]
  expect(woken?.waited).toBeGreaterThan(0)
  expect(awake.map(({ waited }) => waited)).toEqual([0, 0])
  for (const { ms, waited, atServer } of calls) {
    expect(atServer).toBeGreaterThan(0)
    // Each is rounded.
    expect(waited + atServer).toBeLessThanOrEqual(ms + 0.002)
  }
  expect((await activity(svc)).stdout).toMatch(/^TIME +TOOK +WAITED +AT SERVER /)
}, 30_000)

test("with content, arguments and answers are shown without secrets; without activity, the command says why [activity:command]", async () => {
  await using svc = await startSvc({ config, flags: ["--activity", "content"] })
  await svc.said("a: connected")
  await call(svc, "a_svc_echo", { text: `say ${CANARY}`, password: "hidden-by-name" })
  await call(svc, "a_svc_nothing")
  const { stdout } = await activity(svc, "--json")
  expect(JSON.parse(stdout).calls[0]).toMatchObject({ arguments: { password: "•••" }, answer: expect.any(String) })
  expect(stdout).not.toMatch(/canary-in-env|hidden-by-name/)

  await using off = await startSvc({ config, flags: ["--activity", "off"] })
  const refused = await activity(off)
  expect(refused.code).toBe(69)
  expect(refused.stderr).toContain("--activity off")
  await using bare = await startSvc({ config, flags: ["--no-admin"] })
  expect((await activity(bare)).stderr).toContain("--no-admin")
}, 30_000)
