/** Numbers that a double would change, between servers and clients that write bytes: on every transport, in both eras. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { join } from "node:path"
import { ODD, QUESTION, QUESTION_ID, SCHEMA } from "../fixtures/raw.ts"
import { ODD_NUMBERS } from "../numbers.ts"
import { eventually, fixture, freshEnv, type Instance, ROOT, SVC, startSvc } from "./harness.ts"

const RAW = fixture("raw.ts")
const HEADERS = { "content-type": "application/json", accept: "application/json, text/event-stream" }
const MODERN = `"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/logLevel":"debug","io.modelcontextprotocol/clientCapabilities":{"elicitation":{"form":{}}}`
const SERVERS = ["stdio", "stdio26", "http", "http26"] as const
/** JSON text as it stands inside of a string. */
const quoted = (json: string) => JSON.stringify(json).slice(1, -1)

/** A client's end of a connection: sends text, and collects the text that arrives. */
type Channel = { say(text: string): void; readonly heard: string[]; close(): unknown }

/** The answer to an id as it came. */
const answerTo = ({ heard }: Channel, id: string): Promise<string> =>
  eventually(() => heard.find((text) => text.includes(`"id":${id},"result"`) || text.includes(`"id":${id},"error"`)))

async function keep(body: ReadableStream<Uint8Array> | null, take: (line: string) => void): Promise<void> {
  let rest = ""
  const decoder = new TextDecoder()
  for await (const chunk of body ?? []) {
    const lines = (rest + decoder.decode(chunk, { stream: true })).split("\n")
    rest = lines.pop() ?? ""
    lines.forEach(take)
  }
  if (rest !== "") take(rest)
}

function http(url: string, more: (text: string) => Record<string, string> = () => ({})): Channel {
  const heard: string[] = []
  let session: Record<string, string> = {}
  return {
    heard,
    say(text) {
      void fetch(url, { method: "POST", headers: { ...HEADERS, ...session, ...more(text) }, body: text }).then(
        (response) => {
          const id = response.headers.get("mcp-session-id")
          if (id !== null) session = { "mcp-session-id": id }
          return keep(response.body, (line) => void heard.push(line))
        },
      )
    },
    close: () => undefined,
  }
}

const http26 = (url: string): Channel =>
  http(url, (text) => ({
    "mcp-protocol-version": "2026-07-28",
    "mcp-method": /"method":"([^"]*)"/.exec(text)?.[1] ?? "",
    "mcp-name": /"name":"([^"]*)"/.exec(text)?.[1] ?? "",
  }))

async function sse(url: string): Promise<Channel> {
  const heard: string[] = []
  const gone = new AbortController()
  const response = await fetch(`${url}/sse`, { signal: gone.signal })
  void keep(response.body, (line) => void heard.push(line)).catch(() => undefined)
  const endpoint = await eventually(() => /^data: (\/messages.*)$/.exec(heard.at(1) ?? "")?.[1])
  return {
    heard,
    say: (text) => void fetch(`${url}${endpoint}`, { method: "POST", headers: HEADERS, body: text }),
    close: () => gone.abort(),
  }
}

function run(folder: string, ...args: string[]): Channel {
  const child = Bun.spawn({
    cmd: [SVC, ...args, "--config-dir", folder],
    cwd: folder,
    env: freshEnv(folder),
    stdin: "pipe",
    stdout: "pipe",
    stderr: "ignore",
  })
  const heard: string[] = []
  void keep(child.stdout, (line) => void heard.push(line))
  return {
    heard,
    say(text) {
      child.stdin.write(`${text}\n`)
      void child.stdin.flush()
    },
    close() {
      child.kill()
      return child.exited
    },
  }
}

async function initialize(channel: Channel): Promise<Channel> {
  const params =
    '{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{}},"clientInfo":{"name":"t","version":"1"}}'
  channel.say(`{"jsonrpc":"2.0","id":0.0,"method":"initialize","params":${params}}`)
  await answerTo(channel, "0.0")
  channel.say('{"jsonrpc":"2.0","method":"notifications/initialized"}')
  return channel
}

let svc: Instance
const remotes: { kill(): void; readonly exited: Promise<number> }[] = []

beforeAll(async () => {
  const start = async (...flags: string[]) => {
    const child = Bun.spawn({ cmd: [process.execPath, RAW, "--port", ...flags], stdin: "ignore", stdout: "pipe" })
    remotes.push(child)
    const port = new TextDecoder().decode((await child.stdout.getReader().read()).value).trim()
    return { type: "streamableHttp", url: `http://127.0.0.1:${port}/mcp` }
  }
  const stdio = (...flags: string[]) => ({ command: process.execPath, args: [RAW, ...flags] })
  svc = await startSvc({
    config: {
      mcpServers: {
        stdio: stdio(),
        stdio26: stdio("--modern"),
        http: await start(),
        http26: await start("--modern"),
      },
    },
    flags: ["--internal-tools", "all"],
  })
})
afterAll(async () => {
  await svc[Symbol.asyncDispose]()
  for (const child of remotes) {
    child.kill()
    await child.exited
  }
})

const CHANNELS: Readonly<Record<string, () => Promise<Channel>>> = {
  "legacy Streamable HTTP": () => initialize(http(`${svc.url}/mcp`)),
  "modern Streamable HTTP": async () => http26(`${svc.url}/mcp`),
  "HTTP+SSE": async () => initialize(await sse(svc.url)),
  "svc proxy": () => initialize(run(svc.folder, "proxy")),
  "modern svc proxy": async () => run(svc.folder, "proxy"),
  stdio: () => initialize(run(svc.folder, "serve", "--transport", "stdio")),
}

describe.each(Object.keys(CHANNELS))("[relay:numbers] over %s", (name) => {
  const modern = name.includes("modern")
  const meta = (text: string) => (modern ? `${text},${MODERN}` : text)
  let channel: Channel
  beforeAll(async () => {
    channel = await (CHANNELS[name] as () => Promise<Channel>)()
  })
  afterAll(() => channel.close())

  test("schemas are listed with their numbers", async () => {
    channel.say(`{"jsonrpc":"2.0","id":1e0,"method":"tools/list","params":{"_meta":{${meta('"m":1')}}}}`)
    const list = await answerTo(channel, "1e0")
    for (const server of SERVERS) expect(list).toContain(`{"name":"${server}_svc_echo","inputSchema":${SCHEMA}}`)
  })

  test.each([...SERVERS])(
    "ids, tokens, arguments, notifications and renamed results pass to %s and back",
    async (server) => {
      const args = (odd: string) => `"arguments":{"n":[${odd},{"deep":${odd}}]}`
      channel.heard.length = 0
      for (const odd of ODD_NUMBERS) {
        const params = `{"name":"${server}_svc_echo",${args(odd)},"_meta":{${meta(`"progressToken":${odd},"m":${odd}`)}}}`
        channel.say(`{"jsonrpc":"2.0","id":${odd},"method":"tools/call","params":${params}}`)
        // Modern requests over HTTP have no session: a shared process cannot say which of two requests a log message is for.
        if (name === "modern Streamable HTTP") await answerTo(channel, odd)
      }
      for (const odd of ODD_NUMBERS) {
        const answer = await answerTo(channel, odd)
        expect(answer).toContain(quoted(args(odd)))
        expect(answer).toContain(quoted(`"m":${odd}`))
        expect(answer).toContain(`"uri":"svc://${server}/a:b"`)
        expect(answer).toContain(`"structuredContent":{"n":[${ODD}]}`)
        const heard = channel.heard.join("\n")
        expect(heard).toContain(`"params":{"progressToken":${odd},"progress":1.0,"total":9007199254740993}}`)
        expect(heard).toContain(`"params":{"level":"error","data":[${ODD}]}}`)
      }
    },
  )

  test.each([...SERVERS])("questions of %s and their answers pass", async (server) => {
    channel.heard.length = 0
    const call = (id: string, more: string) =>
      channel.say(
        `{"jsonrpc":"2.0","id":${id},"method":"tools/call","params":{"name":"${server}_svc_ask","arguments":{"n":1.0}${more},"_meta":{${meta('"m":1')}}}}`,
      )
    const given = `{"action":"accept","content":{"n":[${ODD}]}}`
    call("12345678901234567890", "")
    const question = await eventually(() => channel.heard.find((text) => text.includes("elicitation/create")))
    expect(question).toContain(`"params":${QUESTION}`)
    const id = modern ? "12345678901234567891" : "12345678901234567890"
    if (modern) {
      const key = /"inputRequests":\{"(\w+)"/.exec(question)?.[1]
      const state = /"requestState":"([^"]+)"/.exec(question)?.[1]
      call(id, `,"inputResponses":{"${key}":${given}},"requestState":"${state}"`)
    } else channel.say(`{"jsonrpc":"2.0","id":${/"id":("[^"]+")/.exec(question)?.[1]},"result":${given}}`)
    const answer = await answerTo(channel, id)
    if (server.endsWith("26")) {
      expect(answer).toContain(quoted(`"inputResponses":{"k":${given}}`))
      expect(answer).toContain(quoted('"arguments":{"n":1.0}'))
    } else expect(answer).toContain(quoted(`{"jsonrpc":"2.0","id":${QUESTION_ID},"result":${given}}`))
  })
})

test("a server's own endpoint, a batch and a call without an envelope keep numbers too", async () => {
  const own = await initialize(http(`${svc.url}/servers/stdio/mcp`))
  own.say('{"jsonrpc":"2.0","id":1e400,"method":"tools/call","params":{"name":"echo","arguments":{"n":1.0}}}')
  const answer = await answerTo(own, "1e400")
  expect(answer).toContain(quoted('"arguments":{"n":1.0}'))
  expect(answer).toContain(`{"n":[${ODD}]}`)

  const all = await initialize(http(`${svc.url}/mcp`))
  const call = '"method":"tools/call","params":{"name":"stdio_svc_echo","arguments":{"n":-0}}'
  all.say(`[{"jsonrpc":"2.0","id":9007199254740993,${call}},{"jsonrpc":"2.0","id":9007199254740992,"method":"ping"}]`)
  const both = await answerTo(all, "9007199254740993")
  expect(both).toContain('{"jsonrpc":"2.0","id":9007199254740992,"result":{}}')
  expect(both).toContain(quoted('"arguments":{"n":-0}'))

  const plain = http(`${svc.url}/mcp`)
  plain.say('{"tool":"stdio_svc_echo","arguments":{"n":1E5}}')
  const result = await eventually(() => plain.heard.find((text) => text.startsWith('{"result":')))
  expect(result).toContain(quoted('"arguments":{"n":1E5}'))
  expect(result).toContain(`{"n":[${ODD}]}`)
})

test("svc's own tools accept a number in any notation of its value", async () => {
  const channel = await initialize(http(`${svc.url}/mcp`))
  const call =
    '"method":"tools/call","params":{"name":"mcp_edit","arguments":{"serverName":"stdio","dryRun":true,"patch":{"requestTimeout":5E3}}}'
  channel.say(`{"jsonrpc":"2.0","id":1.0,${call}}`)
  const answer = await answerTo(channel, "1.0")
  expect(answer).toContain('"requestTimeout"')
  expect(answer).not.toContain('"isError":true')
})

test("an edit of the configuration leaves the numbers of others as they are", async () => {
  const folder = join(svc.folder, "edited")
  const written =
    '{"extra":[9007199254740993,1.0,1E5],"mcpServers":{"a":{"command":"true","disabled":true,"env":{},"x":1.0}}}'
  await Bun.write(join(folder, "mcp.json"), written)
  const child = Bun.spawn({
    cmd: [SVC, "mcp", "edit", "a", '{"timeout":5000}', "--config-dir", folder],
    cwd: ROOT,
    env: freshEnv(folder),
    stdin: "ignore",
    stdout: "ignore",
    stderr: "pipe",
  })
  const said = await new Response(child.stderr).text()
  expect({ code: await child.exited, said }).toEqual({ code: 0, said: expect.any(String) })
  const after = await Bun.file(join(folder, "mcp.json")).text()
  expect(after).toContain('"extra":[9007199254740993,1.0,1E5]')
  expect(after).toContain('"x":1.0')
  expect(after).toContain("5000")
})
