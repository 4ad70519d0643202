import { expect, test } from "bun:test"
import { showStart, startingText, summaryLine, summaryScreen } from "../../src/app/first-screen.ts"
import { statusOf } from "../../src/report/status.ts"
import { manualClock } from "../clock.ts"
import { backend, NOW, snapshot } from "../report/snapshots.ts"

const look = { width: 80, color: false }
const start = {
  endpoint: "http://127.0.0.1:3050/mcp",
  configFlags: [],
  isDemo: false,
  isReachable: true,
  admin: true,
  auth: false,
}
const failing = {
  ...backend("failed", "typo"),
  lastError: "command not found: npxx (it is not on the server's PATH; give its full path)",
}
const trouble = {
  ...snapshot([backend("connected", "files"), failing, backend("unauthorized", "web")]),
  issues: [{ severity: "error", code: "server", server: "bad", message: "bad is not loaded: url is wrong" } as const],
}

test("the line that is updated in place names the servers that are starting, and says why one may take long [cli:first-screen]", () => {
  const loading = (name: string, ms: number, command: string) => {
    const one = backend("starting", name)
    const launch = { ...one.spec.launch, transport: "stdio", command } as typeof one.spec.launch
    return { ...one, spec: { ...one.spec, launch }, loading: { startedAt: NOW - ms, endedAt: undefined } }
  }
  expect(startingText(snapshot([loading("a", 1000, "npx"), loading("b", 900, "x")]), NOW)).toBe("starting: a, b (1 s)")
  const late = snapshot([loading("a", 12_000, "/usr/bin/npx"), loading("b", 12_000, "x"), backend("connected")])
  expect(startingText(late, NOW)).toBe("starting: a, b (12 s: npx may be installing)")
  expect(startingText(snapshot([backend("connected")]), NOW)).toBe("")
})

test("without a terminal, the summary is a line of the log [cli:first-screen]", () => {
  const line = (servers: Parameters<typeof snapshot>[0]) => summaryLine(statusOf(snapshot(servers), NOW, String))
  expect(line([backend("connected", "files")])).toBe("1 of 1 server ready, 1 tool")
  expect(line(trouble.backends)).toBe(
    "1 of 3 servers ready, 1 tool; needing attention: typo (failed), web (sign-in needed); see `svc mcp status`",
  )
})

test("on a terminal, the summary says what is wrong and what to do next [cli:first-screen]", () => {
  expect(summaryScreen(statusOf(trouble, NOW, String), { ...start, configFlags: ["--config", "my file"] }, look)).toBe(`
svc is ready: http://127.0.0.1:3050/mcp
1 of 3 servers ready, 1 tool

needing attention:
  typo  failed          command not found: npxx (it is not on the server's PATH;
                        give its full path)
  web   sign-in needed  run \`svc auth login web --config 'my file'\`
  bad   invalid         url is wrong

  connect a client  svc connect claude-code --config 'my file'
    or by hand      claude mcp add -t http svc http://127.0.0.1:3050/mcp
  open the page     svc admin --config 'my file'
  add a server      svc mcp add NAME --config 'my file' -- COMMAND ARGS…
  import servers    svc config import --config 'my file'
  see the reasons   svc mcp status --config 'my file'
  stop              Ctrl-C
`)
  const demo = summaryScreen(statusOf(snapshot([]), NOW, String), { ...start, isDemo: true, auth: true }, look)
  expect(demo).toContain("no servers yet")
  expect(demo).toContain(
    'claude mcp add -t http svc http://127.0.0.1:3050/mcp \\\n                      --header "Authorization: Bearer TOKEN"\n  open the page     svc admin\n  create a token    svc auth token create USER\n',
  )
  expect(demo).toContain("  serve them        svc serve\n")
  const hidden = summaryScreen(statusOf(snapshot([]), NOW, String), { ...start, isReachable: false }, look)
  expect(hidden).toContain("svc connect claude-code --url http://127.0.0.1:3050/mcp\n")
  expect(hidden).not.toContain("svc admin")
  const pageless = summaryScreen(statusOf(snapshot([]), NOW, String), { ...start, admin: false }, look)
  expect(pageless).not.toContain("svc admin")
  const broken = summaryScreen(statusOf(snapshot([], false), NOW, String), start, look)
  expect(broken).toContain("the configuration is not loaded; `svc config check` shows why")
})

test("a server that hangs at its start does not delay the summary; servers that are still starting are shown below it [cli:first-screen]", async () => {
  const clock = manualClock()
  const shown: string[] = []
  const written: string[] = []
  const hanging = { ...backend("starting", "hang"), loading: { startedAt: clock.now(), endedAt: undefined } }
  let backends = [backend("connected", "files"), hanging]
  const agent = {
    snapshot: () => snapshot(backends),
    whenLoaded: (_: undefined, ms: number) => new Promise<void>((resolve) => clock.after(ms, resolve)),
    stopping: false,
  }
  const terminal = { look, show: (text: string) => shown.push(text), write: (text: string) => written.push(text) }
  const runtime = { agent, terminal, redactor: () => ({ maskCredentials: String }) }
  showStart(runtime as never, { admin: true, auth: false, transport: "http" }, start, clock)
  await clock.pass(11_000)
  expect(written.join("")).toContain("1 of 2 servers ready")
  expect(written.join("")).toContain("http://127.0.0.1:3050/mcp")
  expect(shown.at(-1)).toStartWith("starting: hang (1")
  backends = [backend("connected", "files")]
  await clock.pass(1000)
  expect([shown.at(-1), written.length, clock.timers]).toEqual(["", 1, 0])
})
