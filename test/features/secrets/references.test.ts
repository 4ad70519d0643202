import { expect, test } from "bun:test"
import { type CommandOutcome, References, type SecretSources } from "../../../src/features/secrets/references.ts"
import { commandWords } from "../../../src/lib/command-words.ts"
import { manualClock } from "../../clock.ts"

const world = { platform: "linux", parent: { SET: "set" }, home: "/home/u", folder: "/etc/svc" }

/** References over sources that a test controls. `asked`: what the sources were asked for. */
function stage(
  sources: Partial<SecretSources> = {},
  options: { allowCommands?: boolean; isDefaultFile?: boolean } = {},
) {
  const clock = manualClock()
  const asked: string[] = []
  const late = { count: 0 }
  const told = (name: string) => asked.push(name)
  const references = new References({
    sources: {
      async keychain(name) {
        told(`keychain:${name}`)
        return (await sources.keychain?.(name)) ?? null
      },
      file(path) {
        told(`file:${path}`)
        return sources.file?.(path) ?? Buffer.from("from a file\n")
      },
      async command(words, signal) {
        told(`cmd:${words.join("|")}`)
        return sources.command?.(words, signal) ?? { exitCode: 0, stdout: Buffer.from("from a command\n"), stderr: "" }
      },
    },
    clock,
    world,
    allowCommands: options.allowCommands ?? true,
    isDefaultFile: options.isDefaultFile ?? true,
    onlate: () => late.count++,
  })
  const load = async (env: object, more: object = {}, fresh = false) => {
    const loaded = references.load(JSON.stringify({ ...more, mcpServers: { a: { command: "x", env } } }), "", fresh)
    await clock.pass(0)
    return loaded
  }
  return { clock, asked, late, references, load }
}

test("values come from their sources, each asked once [secrets:reference]", async () => {
  const { asked, references, load } = stage({ keychain: async () => "from the keychain" })
  await load({
    A: "${file:key.txt}",
    B: "${keychain:k} ${keychain:k}",
    C: "${cmd:op read 'op://a b'}",
    D: "${SET:-${file:unused}}",
  })
  expect(asked.sort()).toEqual(["cmd:op|read|op://a b", "file:/etc/svc/key.txt", "keychain:k"])
  expect(["file:key.txt", "keychain:k", "cmd:op read 'op://a b'"].map(references.lookUp)).toEqual([
    { value: "from a file" },
    { value: "from the keychain" },
    { value: "from a command" },
  ])
  expect(references.lookUp("file:unused")).toBeUndefined()
  references.close()
})

test("a server that is disabled asks for nothing [secrets:reference]", async () => {
  const { asked, references } = stage()
  await references.load(
    JSON.stringify({ mcpServers: { a: { command: "x", disabled: true, args: ["${cmd:op}"] } } }),
    "",
    false,
  )
  expect(asked).toEqual([])
})

test("files are read at each load, commands after an hour or on demand [secrets:refresh]", async () => {
  const { clock, asked, references, load } = stage()
  const env = { A: "${file:f}", B: "${cmd:c}" }
  await load(env)
  await load(env)
  expect(asked).toEqual(["file:/etc/svc/f", "cmd:c", "file:/etc/svc/f"])
  await load(env, {}, true)
  expect(asked.filter((one) => one === "cmd:c")).toHaveLength(2)
  await clock.pass(3_600_000)
  await load(env)
  expect(asked.filter((one) => one === "cmd:c")).toHaveLength(3)
  references.close()
  expect(clock.timers).toBe(0)
})

test("commands run only if the operator allows them [secrets:commands]", async () => {
  const lookUp = async (options: object, more: object) => {
    const { asked, references, load } = stage({}, options)
    await load({ A: "${cmd:c}" }, more)
    references.close()
    return [asked.length, "value" in (references.lookUp("cmd:c") ?? {})]
  }
  const off = { allowCommands: false }
  expect(await lookUp(off, {})).toEqual([0, false])
  expect(await lookUp(off, { allowCommands: true })).toEqual([1, true])
  expect(await lookUp({ ...off, isDefaultFile: false }, { allowCommands: true })).toEqual([0, false])
  expect(await lookUp({ isDefaultFile: false }, {})).toEqual([1, true])
})

test("what fails says why and what to do, without a value [secrets:failure]", async () => {
  const missing = Object.assign(new Error("ENOENT: no such file"), { code: "ENOENT" })
  const { references, load } = stage({
    async keychain(name) {
      if (name === "nul") return "a\0b"
      if (name === "locked") throw new Error("is locked")
      return null
    },
    file(path) {
      if (path.endsWith("empty")) return new Uint8Array([0x0a])
      if (path.endsWith("nul")) return new Uint8Array([0x61, 0x00])
      if (path.endsWith("bytes")) return Uint8Array.of(0xff)
      if (path.endsWith("long")) return new Uint8Array(65_537)
      throw missing
    },
    async command([program]): Promise<CommandOutcome> {
      if (program === "absent") throw new Error("the program is not found")
      if (program === "binary") return { exitCode: 0, stdout: Uint8Array.of(97, 0xff, 0xfe), stderr: "" }
      if (program === "nul") return { exitCode: 0, stdout: Buffer.from("a\0b"), stderr: "" }
      if (program === "long") return { exitCode: 137, stdout: Buffer.from("x".repeat(65_537)), stderr: "" }
      return {
        exitCode: program === "empty" ? 0 : 3,
        stdout: Buffer.from(""),
        stderr: "first\nno session: token=abcdef123456\n",
      }
    },
  })
  const wanted: Readonly<Record<string, string>> = {
    "keychain:none": "which the keychain does not have; `svc secret set none` stores it",
    "keychain:with space": "which the keychain does not have; `svc secret set 'with space'` stores it",
    "keychain:it's": "choose a name that `svc secret set` can store, with no quotes",
    "keychain:locked": "is locked; unlock it",
    "file:gone": "/etc/svc/gone cannot be read: it does not exist",
    "file:bytes": "is not UTF-8",
    "file:long": "longer than 65536 bytes",
    "file:empty": "/etc/svc/empty is empty; write the secret to it",
    "cmd:absent": "absent cannot run: the program is not found",
    "cmd:binary": "binary printed what is no UTF-8 text; make it print text",
    "cmd:empty": "empty printed nothing",
    "cmd:long": "long printed more than 65536 bytes; make it print only the secret",
    "cmd:fails": "fails ended with exit code 3: no session: token=[REDACTED]",
    "cmd:open 'quote": 'in which a quote is not closed; close it, or write \\" for the quote itself',
    "cmd:": "which names no command; write one, such as ${cmd:op",
    "cmd: ''": "which names no command; write one",
    "cmd:a\0b": "which contains a NUL byte, which no command can contain; remove it",
    "cmd:nul": "and the output of the command contains a NUL byte, which no variable can hold; store it encoded",
    "file:nul": "and the file contains a NUL byte",
    "keychain:nul": "and the secret in the keychain contains a NUL byte",
    "keychain: ": "which names no secret; write its name",
    "file:": "which names no file; write its path",
  }
  await load(Object.fromEntries(Object.keys(wanted).map((one, index) => [`V${index}`, `\${${one}}`])))
  for (const [reference, says] of Object.entries(wanted))
    expect(references.lookUp(reference)).toEqual({ problem: expect.stringContaining(says) })
  references.close()
})

test("a slow source delays a load for two seconds at most, and its value is told when it comes [secrets:slow]", async () => {
  const answer = Promise.withResolvers<CommandOutcome>()
  const { clock, late, references } = stage({ command: () => answer.promise })
  const config = JSON.stringify({ mcpServers: { a: { command: "x", args: ["${cmd:op}"] } } })
  const loaded = references.load(config, "", false)
  await clock.pass(2000)
  await loaded
  expect([references.lookUp("cmd:op"), late.count]).toEqual([{ problem: expect.stringContaining("waiting") }, 0])
  answer.resolve({ exitCode: 0, stdout: Buffer.from("value"), stderr: "" })
  await clock.pass(0)
  expect([references.lookUp("cmd:op"), late.count]).toEqual([{ value: "value" }, 1])
})

test("a source that never answers is given up after a minute [secrets:slow]", async () => {
  const { clock, references } = stage({ command: () => new Promise(() => {}) })
  const loaded = references.load(JSON.stringify({ mcpServers: { a: { command: "${cmd:op}" } } }), "", false)
  await clock.pass(60_000)
  await loaded
  expect(references.lookUp("cmd:op")).toEqual({ problem: expect.stringContaining("within 60 s") })
  references.close()
})

test("a value that could not be had is asked for again every minute [secrets:retry]", async () => {
  let isLocked = true
  const { clock, late, asked, references, load } = stage({
    async keychain() {
      if (isLocked) throw new Error("is locked")
      return "value"
    },
  })
  await load({ A: "${keychain:k}" })
  await clock.pass(120_000)
  expect([asked.length, late.count]).toEqual([3, 0])
  isLocked = false
  await clock.pass(60_000)
  expect([references.lookUp("keychain:k"), late.count]).toEqual([{ value: "value" }, 1])
  await clock.pass(600_000)
  expect([asked.length, clock.timers]).toEqual([4, 0])
})

test.each([
  ["op read op://vault/item", ["op", "read", "op://vault/item"]],
  [`sh -c 'echo "$1"' x`, ["sh", "-c", 'echo "$1"', "x"]],
  [String.raw`"C:\Program Files\op.exe" a\ b "it\"s"`, ["C:\\Program Files\\op.exe", "a b", 'it"s']],
  ["  a   ''  b ", ["a", "", "b"]],
  ["$(rm -rf /); `x` | y > z", ["$(rm", "-rf", "/);", "`x`", "|", "y", ">", "z"]],
  ["", []],
  ["a 'b", undefined],
])("a command line is cut into words without a shell: %s [secrets:commands]", (line, words) => {
  expect(commandWords(line)).toEqual(words)
})

test("a command that hangs delays neither values that come late nor retries of others [secrets:slow] [secrets:retry]", async () => {
  const slow = Promise.withResolvers<CommandOutcome>()
  let failures = 0
  const { clock, late, references, asked, load } = stage({
    async command([program]) {
      if (program === "hangs") return new Promise(() => {})
      if (program === "slow") return slow.promise
      failures++
      return { exitCode: 1, stdout: Buffer.from(""), stderr: "" }
    },
  })
  const env = { A: "${cmd:hangs}", B: "${cmd:slow}", C: "${cmd:fails}" }
  const loaded = load(env)
  await clock.pass(2000)
  await loaded
  slow.resolve({ exitCode: 0, stdout: Buffer.from("value"), stderr: "" })
  await clock.pass(0)
  expect([references.lookUp("cmd:slow"), late.count, failures]).toEqual([{ value: "value" }, 1, 1])
  // The load that a late value causes joins the question that is open.
  const again = load(env)
  await clock.pass(2000)
  await again
  expect([asked.filter((one) => one === "cmd:hangs").length, failures]).toEqual([1, 2])
  await clock.pass(60_000)
  expect(failures).toBe(3)
  expect(references.lookUp("cmd:hangs")).toEqual({ problem: expect.stringContaining("within 60 s") })
  await clock.pass(60_000)
  expect([asked.filter((one) => one === "cmd:hangs").length, failures]).toEqual([3, 4])
  references.close()
  await clock.pass(0)
  expect(clock.timers).toBe(0)
})

test("a refresh asks anew for a value that is still waited for, and a value that is not needed is given up [secrets:refresh]", async () => {
  const signals: AbortSignal[] = []
  const { clock, references, load } = stage({
    command: (_words, signal) => new Promise(() => signals.push(signal)),
  })
  const wait = async (loaded: Promise<void>) => {
    await clock.pass(2000)
    await loaded
    return signals.map(({ aborted }) => aborted)
  }
  expect(await wait(load({ A: "${cmd:op}" }))).toEqual([false])
  expect(await wait(load({ A: "${cmd:op}" }, {}, true))).toEqual([true, false])
  expect(await wait(load({}))).toEqual([true, true])
  expect([references.lookUp("cmd:op"), clock.timers]).toEqual([undefined, 1])
  references.close()
})
