/**
 * Measures how long one hostile input holds the event loop: `bun run bench --turns`. Asks `/health/live` one request after the
 * other while each input runs, and prints the longest gap between two answers. No input may hold svc for more than 100 ms.
 */
import { join } from "node:path"
import { FOLDER, openSession, SVC, startSvc } from "./targets.ts"

/** The longest gap that is allowed, in milliseconds. */
const MOST_MS = 100
/** How long an input may take as a whole, in milliseconds. */
const INPUT_MS = 45_000

const MB = 1024 * 1024
const deep = (levels: number): string => "[".repeat(levels) + "]".repeat(levels)

type Turns = {
  /** Posts an MCP request of a method with parameters as JSON text. Resolves with the text of the answer. */
  rpc(params: string, method?: string, path?: string): Promise<string>
  get(path: string): Promise<string>
  /** Calls a tool without the envelope of JSON-RPC. Resolves with the text of the answer. */
  invoke(tool: string): Promise<string>
  /** Runs a command of svc. Resolves with what it prints. */
  command(...args: readonly string[]): Promise<string>
  /** Calls a tool, and resolves with the id of its stored result. */
  stored(tool: string): Promise<string>
}

/** The inputs, by name. */
const INPUTS: Readonly<Record<string, (svc: Turns) => Promise<unknown>>> = {
  nothing: ({ get }) => get("/health"),
  "a code fence of 4 MB of line breaks": ({ rpc }) =>
    rpc(
      JSON.stringify({
        name: "call_tool",
        arguments: { name: "hostile_svc_fail", arguments: `\`\`\`${"\n".repeat(3.5 * MB)}` },
      }),
      "tools/call",
      LAZY,
    ),
  "a range of 4 MB of spaces": async ({ rpc, stored }) =>
    rpc(reading(await stored("letters"), { range: `${" ".repeat(3.9 * MB)}x` })),
  "a path of 2 MB of quotes": async ({ rpc, stored }) =>
    rpc(reading(await stored("letters"), { path: `$${'"'.repeat(2 * MB)}` })),
  ...Object.fromEntries(
    ["(?:a*a*a*b)?", `(${"a?".repeat(60)})*b|`, `${"((a?)*)".repeat(50)}b|`, "a*b|"].map((grep) => [
      `grep ${grep.slice(0, 20)} in one line`,
      async ({ rpc, stored }: Turns) => rpc(reading(await stored("letters"), { grep })),
    ]),
  ),
  "grep in 52 MB of lines": async ({ rpc, stored }) =>
    rpc(reading(await stored("lines"), { grep: "a.*of (many|few) x|many$" })),
  "$[0] of 60 MB of objects": async ({ rpc, stored }) => rpc(reading(await stored("objects"), { path: "$[0]" })),
  "a filter over 60 MB of objects, three at once": async ({ rpc, stored }) => {
    const id = await stored("objects")
    return Promise.all([1, 2, 3].map(() => rpc(reading(id, { path: "$[?@[?@==2]]" }))))
  },
  "$..z of 480 levels": async ({ rpc, stored }) => rpc(reading(await stored("levels"), { path: "$..z" })),
  "an output schema that refers to itself": ({ rpc }) => rpc('{"name":"hostile_svc_circle","arguments":{}}'),
  "an input schema that refers to itself": ({ rpc }) =>
    rpc('{"name":"search_tools","arguments":{"query":"zebra"}}', "tools/call", LAZY),
  "an input schema of 100,000 parameters": ({ rpc }) =>
    rpc('{"name":"search_tools","arguments":{"query":"giraffe"}}', "tools/call", LAZY),
  "a query of 4 MB": ({ rpc }) =>
    rpc(
      JSON.stringify({ name: "search_tools", arguments: { query: "zebra giraffe lion ".repeat(200_000) } }),
      "tools/call",
      LAZY,
    ),
  "300,000 servers in a search": ({ rpc }) =>
    rpc(
      JSON.stringify({ name: "search_tools", arguments: { query: "a", server: Array(300_000).fill("abc") } }),
      "tools/call",
      LAZY,
    ),
  "a pattern of 4 MB of stars": ({ rpc }) =>
    rpc(JSON.stringify({ name: "tool_list", arguments: { pattern: "*".repeat(4_000_000) } }), "tools/call", LAZY),
  "describe 300,000 names": ({ rpc }) =>
    rpc(
      JSON.stringify({
        name: "describe_tool",
        arguments: { names: Array.from({ length: 300_000 }, (_, at) => `n${at}`) },
      }),
      "tools/call",
      LAZY,
    ),
  "arguments nested a million deep": ({ rpc }) =>
    rpc(`{"name":"hostile_svc_fail","arguments":{"a":${deep(1_000_000)}}}`),
  "4 MB of empty objects": ({ rpc }) =>
    rpc(`{"name":"hostile_svc_letters","arguments":{"a":[${"{},".repeat(1_300_000)}1]}}`),
  "490,000 values": ({ rpc }) => rpc(`{"name":"hostile_svc_letters","arguments":{"a":[${"1,".repeat(490_000)}1]}}`),
  "95,000 numbers that are kept as written": ({ rpc }) =>
    rpc(`{"name":"hostile_svc_letters","arguments":{"a":[${"1.0,".repeat(95_000)}1]}}`),
  "an error of 15 MB of objects": ({ rpc }) => rpc('{"name":"hostile_svc_fail","arguments":{}}'),
  "a result of 60 MB of objects for a script": ({ invoke }) => invoke("hostile_svc_objects"),
  "arguments like the settings of a server, in the audit log": ({ rpc }) =>
    rpc(
      JSON.stringify({
        name: "hostile_svc_letters",
        arguments: {
          env: Object.fromEntries(Array.from({ length: 40_000 }, (_, at) => [`API_KEY_${at}`, "x".repeat(60)])),
        },
      }),
      "tools/call",
      "/mcp",
    ),
  "a batch of 100 requests of 40 KB": ({ rpc }) =>
    rpc(JSON.stringify(Array(100).fill({ a: "x".repeat(40_000) })), "ping"),
  "the changes of 100 definitions of 9,000 lines": ({ command }) =>
    command("mcp", "tools", "approve", "hostile", "--dry-run", "--json"),
  "a tag filter of 60 KB": ({ get }) => get(`/servers?tag-filter=${"'".repeat(12_000)}`),
  "the list of 20,000 tools": ({ rpc }) => rpc("{}", "tools/list", "/servers/many/mcp"),
  "a search in 20,000 tools": ({ rpc }) =>
    rpc('{"name":"search_tools","arguments":{"query":"thing 77"}}', "tools/call", "/servers/many/mcp?tools=search"),
}

const LAZY = "/mcp?tools=search"
const reading = (id: string, part: object): string =>
  JSON.stringify({ name: "read_result", arguments: { id, ...part } })
const hostile = (...flags: string[]) => ({
  command: process.execPath,
  args: [join(import.meta.dir, "hostile.ts"), ...flags],
})

/** Measures the inputs whose names contain `wanted`. Returns the lines of a table, and whether all gaps are short enough. */
export async function measureTurns(
  wanted = "",
): Promise<{ readonly lines: readonly string[]; readonly holds: boolean }> {
  await using svc = await startSvc({ hostile: hostile(), many: hostile("--tools", "20000") }, [
    "--result-budget",
    "4000",
    "--log-level",
    "info",
    "--audit-log",
    join(FOLDER, "turns-audit.jsonl"),
    "--audit-arguments",
  ])
  const base = `http://127.0.0.1:${svc.port}`
  const sessions = new Map<string, Promise<Record<string, string>>>()
  const sessionOf = (path: string) => {
    const opened = sessions.get(path) ?? openSession({ port: svc.port, path })
    sessions.set(path, opened)
    return opened
  }
  const get = async (path: string) => (await fetch(`${base}${path}`)).text()
  const rpc = async (params: string, method = "tools/call", path = "/mcp") => {
    const headers = {
      accept: "application/json, text/event-stream",
      "content-type": "application/json",
      ...(await sessionOf(path)),
    }
    const body = `{"jsonrpc":"2.0","id":1,"method":"${method}","params":${params}}`
    return (
      await fetch(`${base}${path}`, { method: "POST", headers, body, signal: AbortSignal.timeout(INPUT_MS) })
    ).text()
  }
  const invoke = async (tool: string) => {
    const headers = { "content-type": "application/json" }
    const signal = AbortSignal.timeout(INPUT_MS)
    return (await fetch(`${base}/mcp`, { method: "POST", headers, body: JSON.stringify({ tool }), signal })).text()
  }
  const command = (...args: readonly string[]) =>
    new Response(
      Bun.spawn({ cmd: [SVC, ...args, "--config-dir", svc.folder], env: { HOME: svc.folder } }).stdout,
    ).text()
  const ids = new Map<string, string>()
  const stored = async (tool: string) => {
    const id =
      ids.get(tool) ??
      /results\/([0-9a-f]+)/.exec(await rpc(`{"name":"hostile_svc_${tool}","arguments":{}}`))?.[1] ??
      ""
    ids.set(tool, id)
    return id
  }
  await rpc('{"name":"hostile_svc_change","arguments":{}}')
  for (const tool of ["letters", "lines", "objects", "levels"]) await stored(tool)
  for (const path of ["/mcp", LAZY]) await rpc("{}", "tools/list", path)
  // A process of its own: this one builds large inputs.
  const prober = Bun.spawn({
    cmd: [process.execPath, join(import.meta.dir, "prober.ts"), `${base}/health/live`],
    stdin: "pipe",
    stdout: "pipe",
  })
  const gaps = prober.stdout.pipeThrough(new TextDecoderStream()).values()
  const lines: string[] = []
  let holds = true
  for (const [name, run] of Object.entries(INPUTS)) {
    if (!name.includes(wanted)) continue
    const begun = performance.now()
    await run({ rpc, get, invoke, command, stored }).catch(() => undefined)
    prober.stdin.write("\n")
    prober.stdin.flush()
    const gap = Number((await gaps.next()).value)
    holds &&= gap <= MOST_MS
    lines.push(`${gap.toFixed(0).padStart(6)} ms of ${(performance.now() - begun).toFixed(0).padStart(6)} ms  ${name}`)
  }
  prober.stdin.end()
  await prober.exited
  return { lines, holds }
}
