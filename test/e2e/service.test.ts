/** svc as a service: what it tells systemd, and what `svc service` changes. */
import { expect, test } from "bun:test"
import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { JSON_SHAPES } from "../json-shapes.ts"
import { eventually, fixture, freshEnv, freshFolder, readIfThere, runSvc, startSvc, typeSvc } from "./harness.ts"

test.each([["path"], ["abstract"]])(
  "svc tells systemd when it is ready, reloads and stops, and that it is alive: %s socket [cli:service:notify]",
  async (kind) => {
    const socket = kind === "path" ? join(freshFolder(), "notify") : `@svc-test-${crypto.randomUUID()}`
    const receiver = Bun.spawn(["bun", fixture("datagrams.ts"), socket], {
      stdin: "ignore",
      stdout: "pipe",
      stderr: "inherit",
    })
    const messages: string[] = []
    const decoder = new TextDecoder()
    const reading = (async () => {
      for await (const chunk of receiver.stdout)
        for (const line of decoder.decode(chunk, { stream: true }).split("\n"))
          if (line !== "") messages.push(JSON.parse(line))
    })()
    const said = (text: string | RegExp) =>
      eventually(() => messages.some((one) => (typeof text === "string" ? one.startsWith(text) : text.test(one))))
    await said("bound")

    const folder = freshFolder()
    const spy = join(folder, "environment")
    const config = (tag: string) => ({
      mcpServers: {
        spy: {
          command: "sh",
          args: ["-c", `env > ${spy}.part; mv ${spy}.part ${spy}`],
          inheritParentEnv: true,
          tags: [tag],
        },
      },
    })
    const svc = await startSvc({ config: config("a"), folder, env: { NOTIFY_SOCKET: socket, WATCHDOG_USEC: "100000" } })
    await said(`READY=1\nSTATUS=listening on ${svc.url}/mcp`)
    await eventually(() => messages.filter((one) => one === "WATCHDOG=1").length > 2)
    svc.write(config("b"))
    await said(/^RELOADING=1\nMONOTONIC_USEC=\d+$/)
    await said("READY=1\nSTATUS=reloaded")
    await eventually(() => existsSync(spy))
    expect(readFileSync(spy, "utf8")).not.toMatch(/NOTIFY_SOCKET|WATCHDOG/)
    svc.signal("SIGTERM")
    expect(await svc.exited).toBe(0)
    await said("STOPPING=1")
    receiver.kill()
    await reading
  },
)

/** A home with a systemctl that notes how it is called, in place of a service manager that tests must not change. */
function homeWithSystemctl(exit = 0): {
  readonly env: Record<string, string>
  readonly unit: string
  calls(): readonly string[]
} {
  const home = freshFolder()
  const calls = join(home, "calls")
  mkdirSync(join(home, "bin"))
  const program = join(home, "bin", "systemctl")
  writeFileSync(program, `#!/bin/sh\necho "$@" >> ${calls}\n[ ${exit} = 0 ] || echo no bus >&2\nexit ${exit}\n`)
  chmodSync(program, 0o755)
  const env = freshEnv(home)
  return {
    env: { ...env, PATH: `${join(home, "bin")}:${env.PATH}` },
    unit: join(home, ".config", "systemd", "user", "svc.service"),
    calls: () => (readIfThere(calls) ?? "").split("\n").filter((line) => line !== ""),
  }
}

const NEW = ["--user daemon-reload", "--user enable --now svc.service"]

test("an installation is shown first and asked about, and one more changes nothing [cli:service]", async () => {
  const { env, unit, calls } = homeWithSystemctl()
  const dry = await runSvc(["service", "install", "--dry-run", "--port", "4000"], env)
  expect(dry.code).toBe(0)
  expect(dry.stdout).toContain(`write ${unit}:`)
  expect(dry.stdout).toContain('"--port=4000"')
  expect(dry.stdout).toEndWith("run systemctl --user daemon-reload\nrun systemctl --user enable --now svc.service\n")
  const unasked = await runSvc(["service", "install"], env)
  expect([unasked.code, unasked.stderr]).toEqual([64, expect.stringContaining("add --yes")])
  const refused = await typeSvc(["service", "install"], { folder: env.HOME ?? "", env, answers: ["n"] })
  expect([refused.code, existsSync(unit), calls()]).toEqual([0, false, []])

  expect((await runSvc(["service", "install", "--yes", "--port", "4000"], env)).code).toBe(0)
  expect(calls()).toEqual(NEW)
  const text = readFileSync(unit, "utf8")
  expect(dry.stdout).toContain(text.split("\n").find((line) => line.startsWith("ExecStart=")) ?? "missing")
  await runSvc(["service", "install", "--yes", "--port", "4000"], env)
  expect([readFileSync(unit, "utf8") === text, calls().slice(2)]).toEqual([true, ["--user enable --now svc.service"]])
  // Another option ends the service that runs with the old one.
  await runSvc(["service", "install", "--yes", "--port", "4001"], env)
  expect(calls().slice(3)).toEqual(["--user stop svc.service", ...NEW])
})

test("the state of a service is JSON for programs, with the exit code of the service manager [cli:json:shapes]", async () => {
  const { env, unit } = homeWithSystemctl()
  const status = () => runSvc(["service", "status", "--json"], env)
  const none = await status()
  expect(none.code).toBe(69)
  JSON_SHAPES.error.parse(JSON.parse(none.stdout))
  await runSvc(["service", "install", "--yes"], env)
  const { code, stdout } = await status()
  expect([code, JSON_SHAPES.service.parse(JSON.parse(stdout))]).toEqual([0, { manager: "systemd", file: unit }])
})

test("the removal of a service leaves nothing of it [cli:service]", async () => {
  const { env, unit, calls } = homeWithSystemctl()
  const none = await runSvc(["service", "uninstall", "--yes"], env)
  expect([none.code, none.stderr]).toEqual([0, expect.stringContaining("there is no service")])
  await runSvc(["service", "install", "--yes"], env)
  const removed = await runSvc(["service", "uninstall", "--yes"], env)
  expect([removed.code, existsSync(unit)]).toEqual([0, false])
  expect(calls().slice(2)).toEqual(["--user disable --now svc.service", "--user daemon-reload"])
  expect(readdirSync(join(unit, ".."))).toEqual([])
})

test("an installation that fails says why, and leaves no definition [cli:service]", async () => {
  const { env, unit } = homeWithSystemctl(1)
  const failed = await runSvc(["service", "install", "--yes"], env)
  expect([failed.code, failed.stderr]).toEqual([69, "svc: `systemctl --user daemon-reload` failed: no bus\n"])
  expect(existsSync(unit)).toBe(false)
  const wrong = await runSvc(["service", "install", "--yes", "--log-level", "loud"], env)
  expect(wrong.code).toBe(64)
  const rootless = await runSvc(["service", "install", "--system", "--dry-run"], env)
  expect([rootless.code, rootless.stderr]).toEqual([64, expect.stringContaining("--run-as USER")])
  const nobody = await runSvc(["service", "install", "--system", "--dry-run", "--run-as", "no-such-user"], env)
  expect([nobody.code, nobody.stderr]).toEqual([64, expect.stringContaining("no user named no-such-user")])
})

test("each configuration has a service of its own [cli:service]", async () => {
  const { env } = homeWithSystemctl()
  const folder = freshFolder()
  const other = await runSvc(["service", "install", "--dry-run"], { ...env, SVC_CONFIG_DIR: folder, SVC_PORT: "4000" })
  expect(other.stdout).toMatch(/\/svc-[0-9a-f]{8}\.service:/)
  expect(other.stdout).toContain(`"--config-dir=${folder}"`)
  const status = await runSvc(["service", "status", "--config-dir", folder], env)
  expect([status.code, status.stderr]).toEqual([69, expect.stringContaining("svc service install")])
})
