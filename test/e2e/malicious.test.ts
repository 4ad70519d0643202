/** Malicious servers: svc stays up, the other servers keep working, and each fault gets one clear error. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { join } from "node:path"
import { eventually, type Instance, modern, ROOT, startSvc } from "./harness.ts"

const LIMIT_MS = 30_000
const fixture = (name: string, ...args: string[]) => ({
  command: "bun",
  args: [join(ROOT, "test", "fixtures", `${name}.ts`), ...args],
})
const evil = (...args: string[]) => ({
  ...fixture("malicious", ...args),
  restartOnExit: true,
  restartDelay: 50,
  maxRestarts: 0,
  requestTimeout: 2000,
  connectionTimeout: 8000,
  protocolVersion: "legacy",
})

let svc: Instance
beforeAll(async () => {
  svc = await startSvc({
    config: {
      mcpServers: {
        evil: evil(),
        good: { ...fixture("echo", "--pid"), protocolVersion: "legacy" },
        "deep-list": evil("--start", "deep-list"),
        "giant-initialize": { ...evil("--start", "giant-initialize"), restartOnExit: false },
        pages: { ...evil("--start", "pages"), restartOnExit: false },
        strange: evil("--start", "strange"),
      },
    },
    flags: ["--max-result", "1MiB", "--health-info-level", "full", "--health-rate-limit", "off"],
  })
}, LIMIT_MS)
afterAll(() => svc[Symbol.asyncDispose]())

type Body = Awaited<ReturnType<typeof modern>>["body"]
const callTool = async (name: string, args: Record<string, unknown> = {}): Promise<Body> =>
  (await modern(`${svc.url}/mcp`, "tools/call", { name, arguments: args })).body
const poke = (how?: string) => callTool("evil_svc_poke", how === undefined ? {} : { how })
const healthOf = async (name: string) =>
  (await (await fetch(`${svc.url}/health/mcp/${name}`)).json()) as { state: string; error?: string; tools?: number }
const isReady = (name: string) => eventually(async () => (await healthOf(name)).state === "ready", 15_000)
const textOf = ({ result }: Body): string => {
  const [first] = (result?.content ?? []) as { text?: string }[]
  return first?.text ?? ""
}

/** Checks that the other server is still the same process, and that svc answers. */
let neighbour: string | undefined
async function othersGoOn(): Promise<void> {
  const good = textOf(await callTool("good_svc_echo"))
  expect(good).toMatch(/^[0-9]+$/)
  neighbour ??= good
  expect(good).toBe(neighbour)
  expect((await fetch(`${svc.url}/health/live`)).status).toBe(200)
  expect(svc.stderr()).not.toContain("internal error")
}

test(
  "all start that can",
  async () => {
    await Promise.all(["evil", "good", "pages", "strange"].map(isReady))
    await othersGoOn()
  },
  LIMIT_MS,
)

test.each([
  ["a frame without an end", "endless", /a line of more than 1048576 bytes/],
  ["an answer with a wrong id", "wrong-id", /no answer to tools\/call within 2 s/],
  ["an answer that is cut off", "cut", /sent a message that is not JSON/],
])(
  "%s fails the call with a reason",
  async (_what, how, reason) => {
    await isReady("evil")
    const body = await poke(how)
    expect(body.result?.isError).toBe(true)
    expect(textOf(body)).toMatch(reason)
    await othersGoOn()
    await isReady("evil")
    expect(textOf(await poke())).toBe("well")
  },
  LIMIT_MS,
)

test(
  "a giant frame that has begun to pass is broken off, and the log says why",
  async () => {
    await isReady("evil")
    await expect(poke("giant")).rejects.toThrow()
    await svc.said(/evil: .*broken off: .*more than --max-result allows/)
    await othersGoOn()
    await isReady("evil")
    expect(textOf(await poke())).toBe("well")
  },
  LIMIT_MS,
)

test.each([
  "others-ids",
  "unasked",
  "twice",
  "notifications",
  "changes",
  "progress",
  "garbage",
  "batch",
  "deep-notification",
])(
  "the right answer is found among %s",
  async (how) => {
    await isReady("evil")
    expect(textOf(await poke(how))).toBe("well")
    await othersGoOn()
    expect(textOf(await poke())).toBe("well")
  },
  LIMIT_MS,
)

test(
  "a call that asks five thousand questions of a client that answers none fails with a reason",
  async () => {
    await isReady("evil")
    const { error } = await poke("questions")
    expect(error?.message).toContain("sampling/createMessage")
    await othersGoOn()
    await eventually(async () => textOf(await poke()) === "well")
  },
  LIMIT_MS,
)

test(
  "answers to ids of other calls reach nobody",
  async () => {
    await isReady("evil")
    const others = Promise.all(Array.from({ length: 50 }, () => callTool("good_svc_echo")))
    await poke("others-ids")
    for (const body of await others) expect(textOf(body)).toBe(neighbour as string)
  },
  LIMIT_MS,
)

test(
  "deep nesting reaches at most its caller",
  async () => {
    await isReady("evil")
    for (const how of ["deep", "deep-link"]) {
      const body = await poke(how).catch((error: unknown) => ({
        error: { code: 0, message: String(error) },
        result: undefined,
      }))
      expect(body.result?.isError === true || body.error !== undefined || body.result !== undefined).toBe(true)
      await othersGoOn()
    }
    expect(textOf(await poke())).toBe("well")
  },
  LIMIT_MS,
)

test(
  "bytes that are not UTF-8 reach the caller as valid text",
  async () => {
    await isReady("evil")
    const response = await fetch(`${svc.url}/servers/evil/mcp`, {
      method: "POST",
      headers: {
        "content-type": "application/json",
        accept: "application/json, text/event-stream",
        "mcp-protocol-version": "2026-07-28",
        "mcp-method": "tools/call",
        "mcp-name": "poke",
      },
      body: JSON.stringify({
        jsonrpc: "2.0",
        id: 1,
        method: "tools/call",
        params: {
          name: "poke",
          arguments: { how: "utf8" },
          _meta: {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": { name: "test", version: "1" },
            "io.modelcontextprotocol/clientCapabilities": {},
          },
        },
      }),
    })
    const text = new TextDecoder("utf-8", { fatal: true }).decode(await response.bytes())
    expect(JSON.parse(text).result.content[0].text).toContain("\ufffd")
    await othersGoOn()
  },
  LIMIT_MS,
)

test(
  "members with the names of prototype properties stay ordinary members",
  async () => {
    await isReady("evil")
    await poke("prototype")
    expect(({} as { polluted?: true }).polluted).toBeUndefined()
    await othersGoOn()
  },
  LIMIT_MS,
)

test(
  "a list that is nested too deeply, endless or invalid affects only its own server",
  async () => {
    await isReady("good")
    const { body } = await modern(`${svc.url}/mcp`, "tools/list")
    const names = ((body.result?.tools ?? []) as { name: string }[]).map(({ name }) => name)
    expect(names).toContain("good_svc_echo")
    expect(names).toContain("evil_svc_poke")
    expect((await healthOf("deep-list")).error).toContain("nested deeper than 512 levels")
    expect((await healthOf("giant-initialize")).error).toContain("more than --max-result allows")
    await othersGoOn()
  },
  LIMIT_MS,
)

test(
  "svc's memory and log stay within bounds",
  async () => {
    for (let round = 0; round < 5; round++) {
      await isReady("evil")
      for (const how of ["notifications", "garbage", "others-ids"]) await poke(how)
    }
    await othersGoOn()
    const health = (await (await fetch(`${svc.url}/health`)).json()) as { system: { memory: { used: number } } }
    expect(health.system.memory.used).toBeLessThan(300)
    expect(svc.stderr().split("\n").length).toBeLessThan(500)
    // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
    expect(svc.stderr()).not.toMatch(/\u001b/)
  },
  LIMIT_MS,
)
