/** Problems reach the people whom the configuration names: through webhooks and commands. */
import { expect, test } from "bun:test"
import { createHmac } from "node:crypto"
import { chmodSync, existsSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { echo, eventually, fixture, freshFolder, json, startSvc, svcIn, WINDOWS } from "./harness.ts"

type Received = {
  readonly headers: Headers
  readonly raw: string
  readonly type: string
  readonly text: string
  readonly data: {
    readonly status: string
    readonly subject: string
    readonly server?: string
    readonly message: string
  }
}

/** A receiver of webhooks, which answers with the statuses of `answers` first. */
function receiver(answers: number[] = []) {
  const received: Received[] = []
  const server = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    async fetch(request) {
      const raw = await request.text()
      const status = answers.shift() ?? 200
      if (status === 200) received.push({ headers: request.headers, raw, ...JSON.parse(raw) })
      return new Response(null, { status })
    },
  })
  return {
    received,
    url: `http://127.0.0.1:${server.port}/services/T0000/canary-in-the-path`,
    /** Waits for a notification of this type and status. */
    got: (type: string, status = "firing") =>
      eventually(() => received.find((one) => one.type === type && one.data.status === status), 20_000),
    [Symbol.dispose]: () => void server.stop(true),
  }
}

const crashing = {
  command: "bun",
  args: ["-e", "console.error('no database'); process.exit(3)"],
  restartOnExit: true,
  maxRestarts: 1,
  restartDelay: 1,
}

test("a crash loop, changed tools and a refused configuration reach a webhook once, and so does their end [notify:webhook]", async () => {
  using hook = receiver([503])
  const described = (words: string) => ({ command: "bun", args: [fixture("described-tool.ts"), words] })
  const key = Buffer.from("a key of thirty-two bytes or so.").toString("base64")
  const folder = freshFolder({ ".env": `HOOK=${hook.url}\nHOOK_KEY=whsec_${key}\n` })
  const notify = [{ url: "${HOOK}", secret: "${HOOK_KEY}", headers: { "x-team": "canary-of-a-header" } }]
  const config = (servers: object) => ({ mcpServers: servers, notify })
  await using svc = await startSvc({
    folder,
    config: config({ a: described("Adds"), crashing }),
    flags: ["--log-level", "debug"],
  })
  const crash = await hook.got("svc.crash-loop")
  expect(crash.data).toMatchObject({ subject: "crashing", server: "crashing" })
  expect(crash.text).toContain("crashing crashed too often")
  expect(crash.text).toContain("no database")
  expect(crash.headers.get("x-team")).toBe("canary-of-a-header")
  const [id, time] = [crash.headers.get("webhook-id"), crash.headers.get("webhook-timestamp")]
  const mac = createHmac("sha256", Buffer.from(key, "base64")).update(`${id}.${time}.${crash.raw}`).digest("base64")
  expect(crash.headers.get("webhook-signature")).toBe(`v1,${mac}`)

  svc.write(config({ a: described("Adds more"), crashing: echo() }))
  await hook.got("svc.tools-changed")
  await hook.got("svc.crash-loop", "resolved")
  svc.write("{ not JSON")
  const refused = await hook.got("svc.configuration")
  expect(refused.data.message).toContain("mcp.json:1:3")
  svc.write(config({ a: described("Adds more"), crashing: echo() }))
  await hook.got("svc.configuration", "resolved")

  const { received } = hook
  const told = received.map(({ type, data }) => `${type} ${data.status}`)
  expect(new Set(told).size).toBe(told.length)
  expect(new Set(received.map(({ headers }) => headers.get("webhook-id"))).size).toBe(received.length)
  const status = await svcIn(folder)("mcp", "status", "--verbose")
  for (const text of [svc.stderr(), status.stdout]) expect(text).not.toContain("canary")
}, 60_000)

test("a server that is away for its time, a sign-in and a token that expires are told of, to whom wants it [notify:kinds]", async () => {
  using everything = receiver()
  using only = receiver()
  const remote = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    fetch: () => new Response(null, { status: 401, headers: { "www-authenticate": "Bearer" } }),
  })
  const folder = freshFolder()
  const run = svcIn(folder)
  writeFileSync(join(folder, "mcp.json"), "{}")
  await run("auth", "token", "create", "ci", "--expires", "6d")
  const tokens = JSON.parse(readFileSync(join(folder, "tokens.json"), "utf8"))
  const text = JSON.stringify(tokens).replaceAll(/"created":"[^"]*"/g, '"created":"2020-01-01T00:00:00.000Z"')
  writeFileSync(join(folder, "tokens.json"), text)
  await using svc = await startSvc({
    folder,
    config: {
      mcpServers: {
        away: { url: "http://127.0.0.1:9/mcp" },
        locked: { url: `http://127.0.0.1:${remote.port}/mcp`, headers: { Authorization: "Bearer wrong" } },
      },
      notify: [
        { url: everything.url, downAfter: 1000 },
        { url: only.url, on: ["server-down"], downAfter: 3_600_000 },
      ],
    },
  })
  expect((await everything.got("svc.server-down")).data.subject).toBe("away")
  expect((await everything.got("svc.sign-in")).data.subject).toBe("locked")
  expect((await everything.got("svc.token-expiry")).text).toContain("ci")
  svc.write({ mcpServers: {}, notify: [{ url: everything.url, downAfter: 1000 }] })
  await everything.got("svc.server-down", "resolved")
  expect(only.received).toEqual([])
  await remote.stop(true)
}, 60_000)

test.skipIf(WINDOWS)(
  "a command gets notifications only if commands are allowed [notify:command]",
  async () => {
    const folder = freshFolder()
    const script = join(folder, "tell")
    writeFileSync(script, '#!/bin/sh\nprintf "%s|%s|%s\\n" "$SVC_NOTIFY_TYPE" "$1" "$(cat)" >>"$0.out"\n')
    chmodSync(script, 0o755)
    const config = { mcpServers: { crashing }, notify: [{ command: script, args: ["an argument"] }] }
    const off = freshFolder()
    await using refusing = await startSvc({ folder: off, config })
    await refusing.said(/did not accept a notification: commands are off; write "allowCommands": true/)
    await using svc = await startSvc({ folder, config: { ...config, allowCommands: true } })
    const told = await eventually(() => existsSync(`${script}.out`) && readFileSync(`${script}.out`, "utf8"))
    expect(told).toStartWith('crash-loop|an argument|{"type":"svc.crash-loop"')
    expect((await svcIn(off)("notify", "test")).stdout).toContain("commands are off")
    expect((await svcIn(folder)("notify", "test")).code).toBe(0)
    expect(readFileSync(`${script}.out`, "utf8")).toContain('\ntest|an argument|{"type":"svc.test"')
    expect(svc.stderr()).not.toContain("did not accept")
  },
  60_000,
)

test("svc notify test says what each target answered, and what is wrong with targets [notify:test]", async () => {
  using hook = receiver()
  using refusing = receiver([403])
  const folder = freshFolder()
  const run = svcIn(folder, { HOOK: hook.url })
  const write = (notify: unknown) => writeFileSync(join(folder, "mcp.json"), JSON.stringify({ notify }))
  write([{ url: "${HOOK}" }])
  expect(await json(run("notify", "test", "--json"))).toEqual([
    { target: `notify[0] (${new URL(hook.url).host})`, sent: true },
  ])
  expect(hook.received.map(({ type }) => type)).toEqual(["svc.test"])
  write([{ url: hook.url }, { url: refusing.url }, { url: "http://127.0.0.1:9/x" }])
  const failed = await run("notify", "test")
  expect(failed.code).toBe(69)
  expect(failed.stdout).toContain("answered with HTTP status 403")
  expect(failed.stdout).toContain("nothing listens at 127.0.0.1:9")
  expect(failed.stdout).not.toContain("canary")
  write([{ url: "${UNSET_HOOK}" }, { url: "ftp://somewhere/canary" }])
  const wrong = await run("notify", "test")
  expect([wrong.code, wrong.stderr.includes("canary")]).toEqual([78, false])
  expect(wrong.stderr).toContain("notify[0] is not used: refers to UNSET_HOOK, which is not set")
  expect(wrong.stderr).toContain("notify[1] is not used: its url is not an address")
  const found = await run("config", "check")
  expect([found.code, found.stderr + found.stdout]).toEqual([
    78,
    expect.stringContaining("refers to UNSET_HOOK, which is not set"),
  ])
  write([{ url: "${keychain:HOOK}" }])
  const unknown = await run("config", "check")
  expect([unknown.code, unknown.stdout]).toEqual([
    78,
    expect.stringContaining("notify[0] is not used: refers to ${keychain:HOOK}, "),
  ])
  write([{ url: hook.url, command: "x" }])
  const check = await run("config", "check")
  expect([check.code, check.stderr + check.stdout]).toEqual([
    78,
    expect.stringContaining("needs a url or a command, and not both"),
  ])
  expect((await run("notify", "test")).code).toBe(64)
  writeFileSync(join(folder, "mcp.json"), "{}")
  expect((await run("notify", "test")).stderr).toContain('add "notify": [{"url": "https://…"}]')
}, 30_000)
