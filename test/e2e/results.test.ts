/** Results that are too large for their clients: answered in part, stored, and read by an agent that has read_result alone. */
import { describe, expect, test } from "bun:test"
import { createHash } from "node:crypto"
import { existsSync, readdirSync, readFileSync, utimesSync } from "node:fs"
import { join } from "node:path"
import { Client as Client2, StreamableHTTPClientTransport as Http2 } from "@modelcontextprotocol/client"
import { Client } from "@modelcontextprotocol/sdk/client/index.js"
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js"
import { CreateMessageRequestSchema, LoggingMessageNotificationSchema } from "@modelcontextprotocol/sdk/types.js"
import { Tiktoken } from "js-tiktoken/lite"
import ranks from "js-tiktoken/ranks/cl100k_base"
import {
  eventually,
  fixture,
  freshFolder,
  type Instance,
  type Options,
  removeFolder,
  runSvc,
  startSvc,
} from "./harness.ts"

type Block = {
  type: string
  text?: string
  uri?: string
  size?: number
  mimeType?: string
  _meta?: Record<string, string>
  resource?: { blob?: string }
}
type Result = { content: Block[]; structuredContent?: unknown; isError?: boolean }
type Agent = AsyncDisposable & {
  call(name: string, args?: object): Promise<Result>
  read(uri: string): Promise<{ contents: (Block & { text?: string; blob?: string })[] }>
  tools(): Promise<{ name: string; _meta?: Record<string, unknown> }[]>
}

const tokenizer = new Tiktoken(ranks)
const tokensOf = (result: Result): number =>
  result.content.reduce((sum, block) => sum + tokenizer.encode(block.text ?? JSON.stringify(block), "all").length, 0)

const large = (size: number, more: object = {}) => ({
  command: "bun",
  args: [fixture("large.ts"), "--size", String(size)],
  ...more,
})

const serve = (size: number, options: Options = {}): Promise<Instance> =>
  startSvc({
    config: { mcpServers: { l: large(size) } },
    ...options,
    flags: ["--result-budget", "2000 tokens", ...(options.flags ?? [])],
    env: { SVC_KEYCHAIN: "off", ...options.env },
  })

async function connect(
  svc: Instance,
  era: "legacy" | "modern" = "legacy",
  path = "/mcp",
  token?: string,
): Promise<Agent> {
  const options = token === undefined ? {} : { requestInit: { headers: { authorization: `Bearer ${token}` } } }
  const url = new URL(`${svc.url}${path}`)
  const client =
    era === "legacy"
      ? new Client({ name: "agent", version: "1" })
      : new Client2({ name: "agent", version: "1" }, { versionNegotiation: { mode: "auto" } })
  await client.connect(
    (era === "legacy" ? new StreamableHTTPClientTransport(url, options) : new Http2(url, options)) as never,
  )
  return {
    call: (name, args = {}) => client.callTool({ name, arguments: { ...args } }) as never,
    read: (uri) => client.readResource({ uri }) as never,
    tools: async () => (await client.listTools()).tools as never,
    [Symbol.asyncDispose]: () => client.close(),
  }
}

const linkOf = (result: Result): Block & { uri: string; size: number } =>
  result.content.find(({ type }) => type === "resource_link") as never
const idOf = (result: Result): string => /[0-9a-f]{32}/.exec(linkOf(result).uri)?.[0] ?? ""

/** Returns the most memory that svc has had, in bytes; undefined where the system does not say. */
function peakOf({ pid }: Instance): number | undefined {
  const status = `/proc/${pid}/status`
  const peak = existsSync(status) ? /VmHWM:\s+(\d+) kB/.exec(readFileSync(status, "utf8"))?.[1] : undefined
  return peak === undefined ? undefined : Number(peak) * 1024
}

/** Reads every byte of a result, one range after the other. */
async function readAll(agent: Agent, id: string): Promise<Buffer> {
  const parts: Buffer[] = []
  for (let next: string | undefined = "0-"; next !== undefined; ) {
    const { content } = await agent.call("read_result", { id, range: next })
    const [part, note] = content
    parts.push(
      part?.resource === undefined ? Buffer.from(part?.text ?? "") : Buffer.from(part.resource.blob ?? "", "base64"),
    )
    next = /next: range "(\d+-)"/.exec(note?.text ?? "")?.[1]
  }
  return Buffer.concat(parts)
}

describe("an agent", () => {
  /** The reads by which it finds the fact, knowing what the answer said. */
  const SEARCHES: readonly (readonly [string, (id: string) => object, RegExp])[] = [
    ["json", (id) => ({ id, path: "$.items[?@.name=='the vault of Ålesund'].code" }), /fact-7319/],
    ["text", (id) => ({ id, grep: "password is" }), /password is fact-7319/],
    ["csv", (id) => ({ id, grep: "fact" }), /"Smith, \d+",fact-7319/],
    ["page", (id) => ({ id, grep: "fact-\\d+" }), /fact-7319/],
    ["image", (id) => ({ id, range: "0-23" }), /iVBORw0KGgo/],
  ]

  test.each(["legacy", "modern"] as const)(
    "of the %s era gets a large result in part, and finds a fact of its middle in three reads [results:cut] [results:read]",
    async (era) => {
      await using svc = await serve(31_000_000)
      await using agent = await connect(svc, era)
      for (const [tool, search, fact] of SEARCHES) {
        const answer = await agent.call(`l_svc_${tool}`)
        expect(tokensOf(answer)).toBeLessThan(2000)
        expect(JSON.stringify(answer)).not.toContain("fact-7319")
        const link = linkOf(answer)
        expect(answer.content[0]?.text).toContain(`${link.size} bytes`)
        const found = await agent.call("read_result", search(idOf(answer)))
        expect(found.isError).toBeUndefined()
        const [part] = found.content
        expect(part?.text ?? part?.resource?.blob).toMatch(fact)
        expect(tokensOf(found)).toBeLessThan(2000)
      }
    },
    120_000,
  )

  test("recovers every byte, by the tool and as a resource [results:exact]", async () => {
    await using svc = await serve(400_000)
    await using agent = await connect(svc)
    for (const tool of ["json", "text", "csv", "image", "page", "both"]) {
      const answer = await agent.call(`l_svc_${tool}`)
      const { size, uri, _meta } = linkOf(answer)
      const bytes = await readAll(agent, idOf(answer))
      expect(bytes.length).toBe(size)
      expect(createHash("sha256").update(bytes).digest("hex")).toBe(_meta?.["svc/sha256"] as string)
      const { contents } = await agent.read(`${uri}?range=0-99`)
      const [part] = contents
      expect(Buffer.from(part?.blob ?? part?.text ?? "", part?.blob === undefined ? "utf8" : "base64")).toEqual(
        Buffer.from(bytes.subarray(0, 100)),
      )
      expect(part?._meta).toMatchObject({ "svc/sha256": _meta?.["svc/sha256"] })
    }
  })

  test("gets errors with their message, and each text once [results:error] [results:structured]", async () => {
    await using svc = await serve(300_000)
    await using agent = await connect(svc)
    const error = await agent.call("l_svc_error")
    expect(error.isError).toBe(true)
    expect(error.content[0]?.text).toContain("cannot read the table")
    const both = await agent.call("l_svc_both")
    expect(both).not.toHaveProperty("structuredContent")
    expect(both.content.filter(({ type }) => type === "resource_link")).toHaveLength(1)
    // The SDK compares what a tool with an output schema answers with the schema.
    await agent.tools()
    const structured = await agent.call("l_svc_structured")
    expect(structured.structuredContent).toHaveProperty("items")
    expect(tokensOf(structured)).toBeLessThan(2000)
    const whole = structured.content.filter(({ type }) => type === "resource_link")[1]
    expect(whole?.mimeType).toBe("application/json")
    for (let twice = 0; twice < 2; twice++)
      expect((await agent.call("l_svc_strict")).content[0]?.text).toHaveLength(300_000)
    expect(svc.stderr().match(/results of strict of l exceed the budget/g)).toHaveLength(1)
    const blocks = await agent.call("l_svc_blocks")
    expect(blocks.content[1]?.text).toBe("block 0")
    expect(tokensOf(blocks)).toBeLessThan(2000)
    const { content } = await agent.call("read_result", { id: idOf(blocks), path: "$.content[-1].text" })
    expect(content[0]?.text).toBe('"block 2999"')
    expect((await agent.call("l_svc_small")).content).toEqual([{ type: "text", text: "ok" }])
  })

  test("gets a part of a result that is never whole in memory [results:stream]", async () => {
    await using svc = await serve(1000, { flags: ["--max-result", "1GiB"] })
    await using agent = await connect(svc, "modern")
    await agent.call("l_svc_huge", { megabytes: 100 })
    const before = peakOf(svc)
    const answer = await agent.call("l_svc_huge", { megabytes: 500 })
    expect(linkOf(answer).size).toBeGreaterThan(500_000_000)
    // 20 MB at most when nothing else runs; the garbage of a busy machine is collected later.
    if (before !== undefined) expect((peakOf(svc) ?? 0) - before).toBeLessThan(60_000_000)
    const found = await agent.call("read_result", { id: idOf(answer), grep: "the fact-", context: 0 })
    expect(found.content[0]?.text).toMatch(/^\d+: the fact-7319$/)
  }, 120_000)

  test("gets a log message and a question during a call as without a budget, however large they are [results:stream:other]", async () => {
    await using svc = await serve(300_000)
    const client = new Client({ name: "agent", version: "1" }, { capabilities: { sampling: {} } })
    const got: number[] = []
    client.setNotificationHandler(LoggingMessageNotificationSchema, ({ params }) => {
      got.push(String(params.data).length)
    })
    client.setRequestHandler(CreateMessageRequestSchema, ({ params }) => {
      got.push(JSON.stringify(params.messages).length)
      return { model: "m", role: "assistant", content: { type: "text", text: "an answer" } }
    })
    await client.connect(new StreamableHTTPClientTransport(new URL(`${svc.url}/mcp`)) as never)
    expect((await client.callTool({ name: "l_svc_chatty", arguments: {} })).content).toEqual([
      { type: "text", text: "ok" },
    ])
    await eventually(() => got.length === 2)
    expect(got.every((length) => length >= 300_000)).toBe(true)
    await client.close()
  })

  test("reads through the search tools of a lazy view [results:lazy]", async () => {
    await using svc = await serve(300_000)
    await using agent = await connect(svc, "modern", "/mcp?tools=search")
    expect((await agent.tools()).map(({ name }) => name)).toContain("read_result")
    const answer = await agent.call("call_tool", { name: "l_svc_text" })
    const args = { id: idOf(answer), grep: "password" }
    for (const found of [
      await agent.call("read_result", args),
      await agent.call("call_tool", { name: "read_result", arguments: args }),
      await agent.call("call_read_tool", { name: "read_result", arguments: args }),
    ])
      expect(found.content[0]?.text).toContain("password is fact-7319")
  })
})

describe("a stored result", () => {
  test("is unknown to another session and to another principal [results:owner]", async () => {
    const folder = freshFolder()
    const tokens = await Promise.all(
      ["one", "two"].map(async (name) => {
        const { stdout } = await runSvc(["auth", "token", "create", name, "--config-dir", folder, "--json"])
        return JSON.parse(stdout).token as string
      }),
    )
    await using svc = await serve(100_000, { folder, flags: ["--auth"] })
    for (const era of ["legacy", "modern"] as const) {
      await using owner = await connect(svc, era, "/mcp", tokens[0])
      const answer = await owner.call("l_svc_text")
      const [id, { uri }] = [idOf(answer), linkOf(answer)]
      expect((await owner.call("read_result", { id })).isError).toBeUndefined()
      await using other = await connect(svc, era, "/mcp", tokens[1])
      await using again = await connect(svc, era, "/mcp", tokens[0])
      for (const stranger of era === "legacy" ? [other, again] : [other]) {
        expect(await stranger.call("read_result", { id })).toMatchObject({ isError: true })
        await expect(stranger.read(uri)).rejects.toThrow("Unknown resource")
      }
      // A modern client has no session: its results are its principal's.
      if (era === "modern") expect((await again.call("read_result", { id })).isError).toBeUndefined()
    }
  })

  test("is sealed, survives a restart, and is in no log [results:disk]", async () => {
    const folder = freshFolder()
    const env = { SVC_STATE_KEY: "a pass phrase" }
    const flags = ["--log-level", "debug"]
    const first = await serve(200_000, { folder, env, flags })
    const agent = await connect(first, "modern")
    const answer = await agent.call("l_svc_text")
    const results = join(folder, "results")
    for (const name of readdirSync(results))
      expect(readFileSync(join(results, name)).includes("ordinary line")).toBe(false)
    await agent[Symbol.asyncDispose]()
    first.signal("SIGTERM")
    await first.exited
    expect(first.stderr()).not.toContain("ordinary line")
    await using svc = await serve(200_000, { folder, env, flags })
    await using later = await connect(svc, "modern")
    expect((await later.call("read_result", { id: idOf(answer), grep: "password" })).content[0]?.text).toContain(
      "fact-7319",
    )
  })

  test("that svc was killed while writing leaves nothing behind [results:killed]", async () => {
    const folder = freshFolder()
    const first = await serve(60_000_000, { folder })
    const results = join(folder, "results")
    const agent = await connect(first)
    const call = agent.call("l_svc_text").catch(() => undefined)
    await eventually(() => existsSync(results) && readdirSync(results).length > 0)
    first.signal("SIGKILL")
    await first.exited
    await agent[Symbol.asyncDispose]()
    await call
    const left = readdirSync(results)
    expect(left).toHaveLength(1)
    expect(left[0]).toEndWith(".tmp")
    // What was written to a moment ago could be of a process that is not visible here.
    for (const name of left) utimesSync(join(results, name), 1, 1)
    await using svc = await serve(1000, { folder })
    await eventually(() => readdirSync(results).length === 0)
    expect(svc.stderr()).not.toContain("error")
  })

  test("ends after --result-ttl [results:ttl]", async () => {
    const folder = freshFolder()
    await using svc = await serve(100_000, { folder, flags: ["--result-ttl", "1ms"] })
    await using agent = await connect(svc)
    expect(await agent.call("read_result", { id: idOf(await agent.call("l_svc_text")) })).toMatchObject({
      isError: true,
    })
  })
})

describe("the budget", () => {
  test("of a preset wins over that of a token, a server and svc serve [results:budget]", async () => {
    const folder = freshFolder()
    const run = (...args: string[]) => runSvc([...args, "--config-dir", folder])
    const token = JSON.parse(
      (await run("auth", "token", "create", "one", "--result-budget", "6000", "--json")).stdout,
    ).token
    const plain = JSON.parse((await run("auth", "token", "create", "two", "--json")).stdout).token
    await run("preset", "create", "wide", "--filter", "x", "--result-budget", "0")
    await run("preset", "create", "narrow", "--filter", "x", "--result-budget", "1500 tokens")
    const servers = { own: large(50_000, { tags: ["x"], resultBudget: 8000 }), l: large(50_000, { tags: ["x"] }) }
    await using svc = await serve(0, {
      folder,
      config: { mcpServers: servers },
      flags: ["--auth", "--result-budget", "10000"],
    })
    const sizeAt = async (path: string, secret: string, server = "l") => {
      await using agent = await connect(svc, "modern", path, secret)
      const { content } = await agent.call(`${server}_svc_text`)
      return content.reduce((sum, { text = "" }) => sum + text.length, 0)
    }
    const within = async (budget: number, ...at: Parameters<typeof sizeAt>) => {
      const size = await sizeAt(...at)
      expect(size).toBeLessThanOrEqual(budget)
      expect(size).toBeGreaterThan(budget / 2)
    }
    await within(10_000, "/mcp", plain)
    await within(8000, "/mcp", plain, "own")
    await within(6000, "/mcp", token, "own")
    await within(3000, "/mcp?preset=narrow", token, "own")
    expect(await sizeAt("/mcp?preset=wide", token)).toBeGreaterThan(40_000)
    // A command of svc takes results of any size.
    expect((await run("run", "l_svc_text")).stdout.length).toBeGreaterThan(40_000)
  })

  test("is off by default, and then nothing of it is offered; a tool with large results says so [results:off] [results:stated]", async () => {
    const folder = freshFolder()
    await using svc = await startSvc({ folder, config: { mcpServers: { l: large(300_000) } } })
    await using agent = await connect(svc)
    expect((await agent.tools()).map(({ name }) => name)).not.toContain("read_result")
    expect((await agent.call("l_svc_text")).content[0]?.text?.length).toBeGreaterThan(250_000)
    const stated = (await agent.tools()).map(({ name, _meta }) => [name, _meta?.["anthropic/maxResultSizeChars"]])
    expect(stated.find(([name]) => name === "l_svc_text")?.[1]).toBeGreaterThan(250_000)
    expect(stated.filter(([, size]) => size !== undefined)).toHaveLength(1)
    expect(existsSync(join(folder, "results"))).toBe(false)
  })

  test("is known by what tools have returned [results:sizes]", async () => {
    await using svc = await serve(100_000, { flags: ["--metrics"] })
    await using agent = await connect(svc)
    for (const tool of ["small", "small", "text"]) await agent.call(`l_svc_${tool}`)
    const run = async (...args: string[]) =>
      (await runSvc([...args, "--config-dir", svc.folder], { COLUMNS: "80" })).stdout
    const rows = JSON.parse(await run("tokens", "--results", "--json"))
    expect(rows).toMatchObject([
      { server: "l", tool: "text", count: 1, cut: 1 },
      { server: "l", tool: "small", count: 2, cut: 0 },
    ])
    expect(rows[0].p99).toBeGreaterThan(90_000)
    expect(rows[1].p99).toBeLessThan(200)
    expect(await run("tokens", "--results", "l")).toMatch(
      /^SERVER +TOOL +RESULTS +MEDIAN +P99 +LARGEST +P99 TOKENS +CUT$/m,
    )
    expect((await run("mcp", "status", "l")).replace(/\s+/g, " ")).toMatch(
      /results text: 1 result, median \d+ bytes, p99 \d+ bytes, 1 cut/,
    )
    const metrics = await (await fetch(`${svc.url}/metrics`)).text()
    expect(metrics).toContain('svc_results_cut_total{server="l",tool="text"} 1')
    expect(metrics).toMatch(/svc_result_bytes\{server="l",tool="small",quantile="0.99"\} \d+/)
  })

  test("that is not one is refused with what it must be", async () => {
    const folder = freshFolder()
    for (const args of [
      ["serve", "--result-budget", "10"],
      ["preset", "create", "p", "--filter", "x", "--result-budget", "ten"],
      ["auth", "token", "create", "--result-budget", "1 KiB"],
    ]) {
      const { code, stderr } = await runSvc([...args, "--config-dir", folder])
      expect(code).not.toBe(0)
      expect(stderr).toContain("must be 0 (no limit), a number of characters from 2000")
    }
    removeFolder(folder)
  })
})
