/** Real processes. Whatever a test starts is ended by the end of the file. */
import { afterEach, expect, test } from "bun:test"
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import type { ClientTransport, Loss } from "../../src/backend/client-transport.ts"
import { createReaper } from "../../src/backend/reaper.ts"
import { type StdioDeps, StdioTransport } from "../../src/backend/stdio.ts"
import type { StdioLaunch } from "../../src/config/server-spec.ts"
import { systemClock } from "../../src/lib/clock.ts"
import { isAlive, until } from "../process.ts"

const DYING = join(import.meta.dir, "../fixtures/dying.ts")
const OUT = { number: undefined, method: undefined }
const text = (bytes: Uint8Array) => Buffer.from(bytes).toString("utf8")
const reaper = createReaper(() => undefined)
const opened: ClientTransport[] = []

afterEach(async () => {
  await Promise.all(opened.splice(0).map((transport) => transport.close()))
})

function launchOf(command: string, args: readonly string[], more: Partial<StdioLaunch> = {}): StdioLaunch {
  const env = { PATH: process.env.PATH ?? "" }
  return { transport: "stdio", command, args, cwd: undefined, env, stderr: "pipe", mode: "auto", ...more }
}

function start(launch: StdioLaunch, more: Partial<StdioDeps> = {}) {
  const frames: string[] = []
  const noise: string[] = []
  const losses: Loss[] = []
  const failures: number[] = []
  const dropped: string[] = []
  let stderr = ""
  let lose: (loss: Loss) => void = () => undefined
  const lost = new Promise<Loss>((resolve) => {
    lose = resolve
  })
  const transport = StdioTransport.open(
    launch,
    {
      onframe: (frame) => frames.push(text(frame)),
      onclose(loss) {
        losses.push(loss)
        lose(loss)
      },
      onfail: (number) => failures.push(number),
      ondropped: (edges) => dropped.push(text(edges)),
    },
    {
      server: "web",
      clock: systemClock,
      limit: 1 << 20,
      grace: 300,
      reaper,
      output: {
        onstderr(chunk) {
          stderr += text(chunk)
        },
        onstderrend() {},
        onstdoutnoise: (line) => noise.push(text(line)),
        exitReason: () => undefined,
      },
      ...more,
    },
  )
  opened.push(transport)
  return { transport, frames, noise, losses, lost, failures, dropped, stderr: () => stderr }
}

const dying = (...args: string[]) => start(launchOf(process.execPath, [DYING, ...args]))
const call = (id: number) => `{"jsonrpc":"2.0","id":${id},"method":"tools/call","params":{"name":"echo"}}`
const shell = (script: string, more?: Partial<StdioDeps>, launch?: Partial<StdioLaunch>) =>
  start(launchOf("sh", ["-c", script], launch), more)

test("frames sent in one turn arrive in order", async () => {
  const { transport, frames } = start(launchOf("cat", []))
  const sent = Array.from({ length: 5000 }, (_, n) => `{"n":${n},"text":"zażółć"}`)
  for (const frame of sent) transport.send(frame, OUT)
  transport.send(new TextEncoder().encode('{"bytes":true}'), OUT)
  await until(() => frames.length === sent.length + 1)
  expect(frames).toEqual([...sent, '{"bytes":true}'])
  expect(transport.buffered).toBe(0)
})

test("frames of the turn in which a child is closed reach it before the end of its stdin", async () => {
  const folder = mkdtempSync(join(tmpdir(), "svc-stdio-"))
  const { transport, frames } = start(launchOf("tee", [join(folder, "read")]))
  const texts = Array.from({ length: 5 }, (_, index) => `{"n":${index}}`)
  const send = () => {
    for (const frame of texts) transport.send(frame, OUT)
  }
  send()
  await until(() => frames.length === texts.length)
  send()
  await transport.close()
  expect(readFileSync(join(folder, "read"), "utf8")).toBe(`${[...texts, ...texts].join("\n")}\n`)
  rmSync(folder, { recursive: true })
})

test("a frame is one line for a child whose reader ends lines at Unicode's separators too", async () => {
  const { transport, frames } = start(launchOf("cat", []))
  const frame = '{"a":"\u0085 \u2028 \u2029"}'
  const escaped = '{"a":"\\u0085 \\u2028 \\u2029"}'
  transport.send(frame, OUT)
  await until(() => frames.length === 1)
  transport.send(new TextEncoder().encode(frame), OUT)
  await until(() => frames.length === 2)
  expect(frames).toEqual([escaped, escaped])
})

test("a byte-order mark before the first frame is dropped", async () => {
  const { frames, noise, lost } = shell(String.raw`printf '\357\273\277{"a":1}\n{"b":2}\n'`)
  await lost
  expect(noise).toEqual([])
  expect(frames).toEqual(['{"a":1}', '{"b":2}'])
})

test("a frame may begin with white space, which is part of JSON text", async () => {
  const { frames, noise, lost } = shell(String.raw`printf ' {"a":1}\n\t\r  [1]\n\357\273\277 {"b":2}\n  ready\n'`)
  await lost
  expect(frames).toEqual(['{"a":1}', "[1]", '{"b":2}'])
  expect(noise).toEqual(["ready"])
})

test("any kind of line break ends a frame, and a line that cannot be a frame is noise", async () => {
  const { frames, noise, lost } = shell(String.raw`printf '{"a":1}\r\n\n[1]\nready!\n{"b":2}\n'; exit 5`)
  expect(await lost).toMatchObject({ reason: "exited with code 5", exit: { code: 5, signal: null } })
  expect(frames).toEqual(['{"a":1}', "[1]", '{"b":2}'])
  expect(noise).toEqual(["ready!"])
})

test("the child's environment is the launch's and nothing else", async () => {
  const { stderr, lost } = shell("env >&2", {}, { env: { PATH: process.env.PATH ?? "", ONLY: "this" } })
  await lost
  const names = stderr()
    .split("\n")
    .map((line) => line.split("=")[0])
  // The shell itself adds the last three.
  expect(names.filter((name) => !["PWD", "_", "SHLVL", ""].includes(name ?? "")).sort()).toEqual(["ONLY", "PATH"])
})

test("the error for a missing command names it and says what to install", () => {
  expect(() => start(launchOf("npx", ["x"], { env: { PATH: "/nowhere" } }))).toThrow(
    "web: command not found: npx (it is not on the server's PATH; install Node.js, or give its full path)",
  )
})

test("the error for a file that is no program says what it lacks, and that for stdin as stderr another", () => {
  const folder = mkdtempSync(join(tmpdir(), "svc-no-program-"))
  const file = join(folder, "thing")
  writeFileSync(file, "\0\x01\x02", { mode: 0o755 })
  expect(() => start(launchOf(file, []))).toThrow(`${file} is no program for this machine`)
  rmSync(folder, { recursive: true })
  expect(() => shell("true", {}, { stderr: 0 })).toThrow("stderr is file descriptor 0, which is stdin")
})

test("the error for a missing working directory names it", () => {
  expect(() => shell("true", {}, { cwd: "/no/such/place" })).toThrow("working directory does not exist: /no/such/place")
})

test("a child that exits at once is reported lost once, with its exit code, and its stderr is captured", async () => {
  const { lost, losses, stderr } = dying("at-start")
  expect((await lost).exit).toMatchObject({ code: 3 })
  await until(() => stderr() === "cannot go on\n")
  expect(losses).toHaveLength(1)
})

test("answers given before an exit arrive before the loss", async () => {
  const { transport, frames, lost } = dying("after", "2")
  for (const id of [1, 2, 3]) transport.send(call(id), OUT)
  expect(await lost).toMatchObject({ reason: "exited with code 4" })
  expect(frames).toHaveLength(2)
})

test("the loss of a killed child names the signal", async () => {
  const { transport, lost } = dying("sigkill")
  transport.send(call(1), OUT)
  expect(await lost).toMatchObject({ reason: "was terminated by SIGKILL", exit: { code: null, signal: "SIGKILL" } })
})

test("a child that closes its stdout and lives on is lost, and close ends it", async () => {
  const { transport, lost } = dying("close-stdout")
  transport.send(call(1), OUT)
  expect(await lost).toEqual({ reason: "closed its stdout" })
  await transport.close()
  expect(isAlive(transport.pid ?? 0)).toBe(false)
})

test("a child that closes its stdin and lives on is lost", async () => {
  const { transport, lost } = shell("exec 0<&-; echo '{}'; exec sleep 60")
  transport.send("{}", OUT)
  const timer = setInterval(() => transport.send("{}", OUT), 20)
  expect(await lost).toEqual({ reason: "closed its stdin" })
  clearInterval(timer)
})

test("close ends a child that ignores the end of stdin and SIGTERM", async () => {
  const { transport, frames, losses } = dying("stubborn")
  transport.send(call(1), OUT)
  await until(() => frames.length === 1)
  await transport.close()
  expect(isAlive(transport.pid ?? 0)).toBe(false)
  expect(losses).toEqual([])
})

test("a child that is being ended is killed earlier if the time that is left becomes shorter meanwhile [cluster:one:passes]", async () => {
  let end = Number.POSITIVE_INFINITY
  const msLeft = () => (end === Number.POSITIVE_INFINITY ? undefined : end - systemClock.now())
  // Says when it is asked to end, and goes on.
  const script = `trap 'echo "{}"' TERM; echo "{}"; while :; do sleep 0.05; done`
  const { transport, frames } = shell(script, { grace: 120_000, msLeft })
  await until(() => frames.length === 1)
  const closed = transport.close()
  end = systemClock.now() + 400
  await closed
  expect(isAlive(transport.pid)).toBe(false)
})

test("close ends the whole group, even if its leader has exited and a grandchild holds stdout and ignores SIGTERM", async () => {
  const { transport, lost, frames } = shell(
    `sh -c 'trap "" TERM; echo "{\\"pid\\":$$}"; while :; do sleep 1; done' & read line; exit 0`,
  )
  await until(() => frames.length === 1)
  const { pid } = JSON.parse(frames[0] ?? "") as { pid: number }
  transport.send("{}", OUT)
  expect(await lost).toMatchObject({ reason: "exited with code 0" })
  expect(isAlive(pid)).toBe(true)
  await transport.close()
  await until(() => !isAlive(pid))
})

test("frames for a child that does not read are buffered up to the limit, and then requests fail", async () => {
  const { transport, failures } = shell("exec sleep 60", { limit: 200_000 })
  transport.send(`{"x":"${"y".repeat(300_000)}"}`, { number: 1, method: "tools/call" })
  expect(transport.buffered).toBeGreaterThan(200_000)
  transport.send("{}", { number: 2, method: "tools/call" })
  expect(failures).toEqual([2])
  await transport.close()
  expect(isAlive(transport.pid ?? 0)).toBe(false)
})

test("a line over the limit is dropped, and the child lives on", async () => {
  const { dropped, frames, losses } = shell(
    `printf '{"id":"1","'; head -c 3000000 /dev/zero; echo; echo '{"ok":1}'; exec sleep 60`,
  )
  await until(() => frames.length === 1)
  expect(frames).toEqual(['{"ok":1}'])
  expect(dropped).toEqual([expect.stringMatching(/^\{"id":"1","\0+$/)])
  expect(losses).toEqual([])
})

test("stderr is captured or passed as the launch says [stderr:capture]", async () => {
  const start = (stderr: StdioLaunch["stderr"]) => shell("echo heard >&2", {}, { stderr })
  const [caught, elsewhere] = [["pipe", "overlapped"] as const, ["ignore", "inherit", 2] as const]
  const [own, others] = [caught.map(start), elsewhere.map(start)]
  await Promise.all([...own, ...others].map(({ lost }) => lost))
  await until(() => own.every(({ stderr }) => stderr() === "heard\n"))
  expect(others.map(({ stderr }) => stderr())).toEqual(["", "", ""])
})

test("a descendant that a child leaves behind ends with it", async () => {
  const { transport, frames, lost } = dying("fork")
  transport.send('{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"child"}}', OUT)
  await until(() => frames.length === 1)
  const pid = Number(JSON.parse(frames[0] ?? "").result.content[0].text)
  expect(isAlive(pid)).toBe(true)
  transport.send(call(2), OUT)
  await lost
  await transport.close()
  expect(isAlive(pid)).toBe(false)
})
