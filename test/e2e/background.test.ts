/** svc without a terminal: started in the background, listed, stopped. */
import { expect, test } from "bun:test"
import { chmodSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { JSON_SHAPES } from "../json-shapes.ts"
import {
  callsRun,
  eventually,
  fixture,
  freshEnv,
  freshFolder,
  modern,
  processes,
  runSvc,
  SVC,
  startSvc,
  WINDOWS,
} from "./harness.ts"

type Listed = { readonly pid: number; readonly file: string; readonly address?: string; readonly startedBy: string }

const listed = async (env: Record<string, string>): Promise<readonly Listed[]> =>
  JSON.parse((await runSvc(["ps", "--json"], env)).stdout).running

/** Starts svc in the background for a folder, with the servers, and returns its process id and address. */
async function startInBackground(folder: string, env: Record<string, string>, ...flags: string[]) {
  const { code, stdout, stderr } = await runSvc(
    ["serve", "--background", "--config-dir", folder, "--port", "0", ...flags],
    env,
  )
  expect([code, stderr]).toEqual([0, ""])
  const [, pid = ""] = /process (\d+)/.exec(stdout) ?? []
  const [, url = ""] = /(http:\S+)\/mcp/.exec(stdout) ?? []
  return { pid: Number(pid), url, stdout }
}

const echo = (mark: string, ...args: string[]) => ({ command: "bun", args: [fixture("echo.ts"), ...args, mark] })

test("svc in the background serves when the command returns, and until svc stop [cli:background] [cli:stop] [cli:log-file]", async () => {
  const [home, folder] = [freshFolder(), freshFolder()]
  const env = freshEnv(home)
  const mark = `svc-mark-${crypto.randomUUID()}`
  writeFileSync(join(folder, "mcp.json"), JSON.stringify({ mcpServers: { one: echo(mark) } }))
  const { pid, url, stdout } = await startInBackground(folder, env)
  expect((await fetch(`${url}/health/live`)).status).toBe(200)
  expect(stdout).toContain(`svc stop --config-dir ${folder}`)
  expect(stdout).toContain(`  servers  1 starting; \`svc mcp status --config-dir ${folder}\` shows them\n`)
  expect(stdout).not.toContain("others")
  await eventually(() => readFileSync(join(folder, "svc.log"), "utf8").includes("listening on "))
  await eventually(() => processes(mark).length === 1)

  expect(await runSvc(["stop", "--config-dir", folder], env)).toMatchObject({
    code: 0,
    stdout: `stopped process ${pid}\n`,
  })
  expect(processes(mark)).toEqual([])
  expect(processes(folder)).toEqual([])
  expect(readFileSync(join(folder, "svc.log"), "utf8")).toContain("stopping: svc stop")
  const again = await runSvc(["stop", "--config-dir", folder], env)
  expect([again.code, again.stdout]).toEqual([0, expect.stringContaining("svc is not running for")])
})

test("svc does not stay in the background if its file cannot be loaded, and starts with an issue of a single server [cli:background]", async () => {
  const [home, folder] = [freshFolder(), freshFolder()]
  const env = freshEnv(home)
  const file = join(folder, "mcp.json")
  const start = () => runSvc(["serve", "--background", "--config-dir", folder, "--port", "0"], env)
  writeFileSync(file, "{ broken")
  expect(await start()).toMatchObject({
    code: 78,
    stdout: "",
    stderr: expect.stringMatching(/^svc: svc did not start: \S*mcp\.json:1:3: not valid JSON/),
  })
  expect(processes(folder)).toEqual([])
  const broken = {
    templateSettings: { failureMode: "strict" },
    mcpTemplates: { t: { command: "x", args: ["{{#if}}"] } },
  }
  writeFileSync(file, JSON.stringify(broken))
  expect(await start()).toMatchObject({
    code: 78,
    stderr: expect.stringMatching(/^svc: svc did not start: .*template t/),
  })
  writeFileSync(file, JSON.stringify({ mcpServers: { sec: { ...echo("x"), env: { KEY: "${MISSING_KEY}" } } } }))
  const { code, stderr } = await start()
  expect([code, stderr]).toEqual([0, expect.stringMatching(/mcp\.json:1:\d+: sec is not loaded: .*MISSING_KEY/)])
  expect((await runSvc(["stop", "--config-dir", folder], env)).code).toBe(0)
})

test("a tokens file that svc refuses is reported at a start in the background and by config check [auth:tokens:refused]", async () => {
  const folder = freshFolder()
  const env = freshEnv(freshFolder())
  const file = join(folder, "tokens.json")
  const place = ["--config-dir", folder]
  writeFileSync(join(folder, "mcp.json"), "{}")
  const faults = [
    ['{"tokens":1}', 0o600, "expected array"],
    ['{"tokens":[]}', 0o644, "can be read by others"],
  ] as const
  for (const [text, mode, why] of WINDOWS ? faults.slice(0, 1) : faults) {
    writeFileSync(file, text)
    chmodSync(file, mode)
    const says = new RegExp(`all tokens are refused: \\S+tokens\\.json\\b.*${why}`)
    const check = await runSvc(["config", "check", ...place], env)
    expect([check.code, check.stdout]).toEqual([0, expect.stringMatching(says)])
    expect((await runSvc(["config", "check", "--strict", ...place], env)).code).toBe(78)
    const start = await runSvc(["serve", "--background", "--auth", "--port", "0", ...place], env)
    expect([start.code, start.stderr]).toEqual([0, expect.stringMatching(says)])
    const status = async () => (await runSvc(["mcp", "status", ...place], env)).stdout
    expect(await status()).toContain("all tokens are refused")
    if (mode !== 0o600) {
      // The remedy that the message names.
      chmodSync(file, 0o600)
      await eventually(async () => !(await status()).includes("all tokens are refused"))
    }
    expect((await runSvc(["stop", ...place], env)).code).toBe(0)
    // Only with --auth does svc read the file.
    expect((await startInBackground(folder, env)).url).not.toBe("")
    expect((await runSvc(["stop", ...place], env)).code).toBe(0)
  }
  writeFileSync(file, '{"tokens":[]}')
  chmodSync(file, 0o600)
  await startInBackground(folder, env, "--auth")
  expect((await runSvc(["config", "check", "--strict", ...place], env)).code).toBe(0)
  expect((await runSvc(["stop", ...place], env)).code).toBe(0)
})

test("programs can read what was started and what runs as JSON [cli:background] [cli:json:shapes]", async () => {
  const folder = freshFolder()
  const env = freshEnv(freshFolder())
  const place = ["--config-dir", folder]
  const words = ["serve", ...place, "--port", "0", "--json"]
  const started = JSON_SHAPES.started.parse(JSON.parse((await runSvc([...words, "--background"], env)).stdout))
  const all = JSON.parse((await runSvc(["ps", "--json"], env)).stdout).running
  expect(JSON_SHAPES.running.array().parse(all)).toMatchObject([{ pid: started.pid, address: started.address }])
  const { outcome } = JSON.parse((await runSvc(["stop", "--json", ...place], env)).stdout)
  expect(outcome).toBe("stopped")
  JSON_SHAPES.version.parse(JSON.parse((await runSvc(["version", "--json"], env)).stdout))
  const alone = await runSvc(words, env)
  expect([alone.code, JSON.parse(alone.stdout).error.code]).toEqual([64, "usage"])
})

test("a start in the background that fails says why [cli:background]", async () => {
  const [home, folder] = [freshFolder(), freshFolder()]
  const env = freshEnv(home)
  await using other = await startSvc({ config: { mcpServers: {} } })
  const port = new URL(other.url).port
  const taken = await runSvc(["serve", "--background", "--config-dir", folder, "--port", port], env)
  expect([taken.code, taken.stdout]).toEqual([69, ""])
  expect(taken.stderr).toStartWith("svc: svc did not start: port ")
  for (const flags of [["--demo"], ["--transport", "stdio"], ["--log-level", "loud"]])
    expect((await runSvc(["serve", "--background", "--config-dir", folder, ...flags], env)).code).toBe(64)
  expect(await listed(env)).toEqual([])
})

test("a second start for a configuration names the process and svc stop [cli:background]", async () => {
  const [home, folder] = [freshFolder(), freshFolder()]
  const env = freshEnv(home)
  const { pid } = await startInBackground(folder, env)
  const second = await runSvc(["serve", "--background", "--config-dir", folder, "--port", "0"], env)
  expect([second.code, second.stderr]).toEqual([
    69,
    expect.stringMatching(new RegExp(`process ${pid} already serves .*\`svc stop\``)),
  ])
  await runSvc(["stop", "--config-dir", folder], env)
})

test("svc ps lists each running svc, and nothing that a killed one leaves behind [cli:ps]", async () => {
  const home = freshFolder()
  const env = freshEnv(home)
  expect((await runSvc(["ps"], env)).stdout).toStartWith("no svc is running")
  const folders = [freshFolder(), freshFolder()] as const
  const one = await startInBackground(folders[0], env)
  await using two = await startSvc({ folder: folders[1], config: { mcpServers: {} }, env })
  expect(await listed(env)).toMatchObject([
    { pid: one.pid, file: join(folders[0], "mcp.json"), address: `${one.url}/mcp`, startedBy: "background" },
    { pid: two.pid, file: join(folders[1], "mcp.json"), address: `${two.url}/mcp`, startedBy: "program" },
  ])
  const table = (await runSvc(["ps"], env)).stdout
  expect(table).toContain(` background  ${folders[0]}\n`)
  const narrow = (await runSvc(["ps"], { ...env, COLUMNS: "80" })).stdout
  for (const line of narrow.split("\n")) expect(line.length).toBeLessThanOrEqual(80)
  for (const folder of folders) expect(narrow).toContain(`${folder.slice(-6)}\n`)

  process.kill(one.pid, "SIGKILL")
  const running = join(WINDOWS ? join(home, "AppData", "Roaming") : join(home, ".config"), "svc", "running")
  writeFileSync(join(running, "half.json"), "{")
  await eventually(async () => (await listed(env)).length === 1)
  two.signal("SIGTERM")
  await two.exited
  expect(await listed(env)).toEqual([])
})

test("svc stop kills an svc that takes longer than --timeout [cli:stop]", async () => {
  const home = freshFolder()
  const env = freshEnv(home)
  const slow = await startSvc({
    config: { mcpServers: { slow: echo("x", "--delay", "60000") } },
    flags: ["--metrics", "--shutdown-grace", "1h"],
    env: { HOME: home },
  })
  await slow.said("slow: connected")
  const call = modern(`${slow.url}/mcp`, "tools/call", { name: "slow_svc_echo", arguments: {} }).catch(() => undefined)
  await callsRun(slow)
  const killed = await runSvc(["stop", "--timeout", "100ms", "--config-dir", slow.folder, "--json"], env)
  expect(JSON.parse(killed.stdout)).toEqual({ pid: slow.pid, outcome: "killed" })
  await slow.exited
  await call
})

test("svc stop kills an svc that hangs [cli:stop]", async () => {
  const home = freshFolder()
  const env = freshEnv(home)
  const hung = await startSvc({ config: { mcpServers: {} }, env: { HOME: home } })
  hung.signal("SIGSTOP")
  const ended = await runSvc(["stop", "--timeout", "100ms", "--config-dir", hung.folder, "--json"], env)
  expect(JSON.parse(ended.stdout)).toEqual({ pid: hung.pid, outcome: "killed" })
  await hung.exited
})

test("svc reports an address that clients can connect to [cli:background] [cli:ps]", async () => {
  const env = freshEnv(freshFolder())
  const everywhere = freshFolder()
  const flags = ["--host", "0.0.0.0", "--allow-unauthenticated"]
  const { url, stdout } = await startInBackground(everywhere, env, ...flags)
  expect(stdout).toMatch(/http:\/\/127\.0\.0\.1:\d+\/mcp/)
  expect((await listed(env))[0]?.address).toBe(`${url}/mcp`)
  const second = await runSvc(["serve", "--config-dir", everywhere, "--port", new URL(url).port, ...flags], env)
  expect(second.stderr).toContain(`svc already runs for ${join(everywhere, "mcp.json")}, at ${url}/mcp;`)
  await runSvc(["stop", "--config-dir", everywhere], env)

  const published = freshFolder()
  const behind = await startInBackground(published, env, "--external-url", "https://mcp.example.com/svc")
  expect(behind.url).toBe("")
  expect(behind.stdout).toContain("https://mcp.example.com/svc/mcp")
  expect((await listed(env))[0]?.address).toBe("https://mcp.example.com/svc/mcp")
  await runSvc(["stop", "--config-dir", published], env)
})

test("SIGHUP reloads, and stops an svc whose terminal is closed [cli:hangup]", async () => {
  const folder = freshFolder()
  writeFileSync(join(folder, "mcp.json"), JSON.stringify({ mcpServers: { one: echo("hangup-mark") } }))
  let shown = ""
  const waits: { text: string; resolve: () => void }[] = []
  const sees = (text: string) => new Promise<void>((resolve) => waits.push({ text, resolve }))
  const started = sees("one: connected")
  const child = Bun.spawn([SVC, "serve", "--config-dir", folder, "--port", "0"], {
    cwd: folder,
    env: freshEnv(folder),
    terminal: {
      cols: 200,
      rows: 50,
      data(_terminal, bytes) {
        shown += new TextDecoder().decode(bytes)
        for (const { text, resolve } of waits) if (shown.includes(text)) resolve()
      },
    },
  })
  await started
  const reloaded = sees("reloaded:")
  child.kill("SIGHUP")
  await reloaded
  child.terminal?.close()
  expect(await child.exited).toBe(0)
  expect(processes("hangup-mark")).toEqual([])
})
