/**
 * Calls remote servers at the end of their idle times. Each server closes idle connections after a time of its own, behind a
 * proxy that delays every byte, and counts what it executes. Node's fetch calls the same servers in the same rhythm.
 *
 *   bun test/chaos/keep-alive.ts --minutes 20 --servers 20 --longest 60000 --seed 1
 */
import { parseArgs } from "node:util"
import type { Socket } from "bun"
import { startSvc } from "../e2e/harness.ts"
import { randomFrom } from "../random.ts"

export type KeepAliveOptions = {
  readonly ms: number
  readonly seed: number
  readonly servers: number
  /** The idle times of the servers lie between a second and this, in milliseconds. */
  readonly longest: number
}

export type KeepAliveReport = {
  readonly calls: Readonly<Record<Kind, number>>
  readonly failures: Readonly<Record<Kind, number>>
  /** Calls of `write` that were executed more than once. */
  readonly twice: number
  /** Sessions that svc opened beyond one for each server. */
  readonly lost: number
  /** Calls of `write` by Node's fetch, and how many failed. Undefined if there is no Node. */
  readonly node: { readonly calls: number; readonly failures: number } | undefined
  /** The longest time for which the servers and the proxies could not run, in milliseconds: a busy machine ends idle times late. */
  readonly stall: number
  /** The first texts of failures. */
  readonly texts: readonly string[]
}

/** Runs the calls for `ms`. Ends its processes and servers at the end. */
export async function runKeepAlive({ ms, seed, servers, longest }: KeepAliveOptions): Promise<KeepAliveReport> {
  const remotes = Array.from({ length: servers }, (_, at) => {
    const idleMs = Math.round(1000 * (longest / 1000) ** (at / Math.max(1, servers - 1)))
    return startRemote(idleMs, at % 2 === 0)
  })
  const config = { mcpServers: Object.fromEntries(remotes.map(({ url }, at) => [`r${at}`, { type: "http", url }])) }
  const calls = { write: 0, read: 0, resource: 0, prompt: 0 }
  const failures = { ...calls }
  const texts: string[] = []
  let stall = 0
  let ran = Date.now()
  const watch = setInterval(() => {
    stall = Math.max(stall, Date.now() - ran)
    ran = Date.now()
  }, 20)
  try {
    await using svc = await startSvc({ config, flags: ["--no-persist"] })
    for (const at of remotes.keys()) await svc.said(`r${at}: connected`)
    const addresses = remotes.map((_remote, at) => `${svc.url}/servers/r${at}/mcp`)
    const sessions = await Promise.all(addresses.map(openSession))
    const end = Date.now() + ms
    const caller = async (at: number, idleMs: number): Promise<void> => {
      const one = randomFrom(seed + at)
      for (let count = 0; ; count++) {
        // Most calls come within a few hundredths of a second of the end of the idle time.
        const pause = one() < 0.7 ? idleMs + (one() - 0.6) * 300 : one() * Math.min(idleMs, 2000)
        if (Date.now() + pause >= end) return
        await Bun.sleep(pause)
        const kind = KINDS[Math.floor(one() * KINDS.length)] ?? "write"
        const fault = await call(addresses[at] ?? "", sessions[at] ?? "", kind, `svc-${at}-${count}`)
        calls[kind]++
        if (fault === undefined) continue
        failures[kind]++
        if (texts.length < 10) texts.push(`${kind} after ${idleMs} ms, longest stall ${stall} ms: ${fault}`)
      }
    }
    const node = callWithNode(remotes, ms, seed)
    await Promise.all(remotes.map(({ idleMs }, at) => caller(at, idleMs)))
    const byNode = await node
    const executed = remotes.flatMap((remote) => [...remote.executed])
    return {
      calls,
      failures,
      twice: executed.filter(([, count]) => count > 1).length,
      lost: remotes.reduce((sum, remote) => sum + remote.opened() - 1, 0),
      node: byNode,
      stall,
      texts,
    }
  } finally {
    clearInterval(watch)
    for (const remote of remotes) remote.stop()
  }
}

// ---

const KINDS = ["write", "read", "resource", "prompt"] as const
type Kind = (typeof KINDS)[number]
/** How long a byte is on its way. */
const ONE_WAY_MS = 40

const RESULTS: Readonly<Record<string, object>> = {
  initialize: {
    protocolVersion: "2025-11-25",
    capabilities: { tools: {}, resources: {}, prompts: {} },
    serverInfo: { name: "r", version: "1" },
  },
  ping: {},
  "tools/list": {
    tools: [
      { name: "write", inputSchema: { type: "object" } },
      { name: "read", inputSchema: { type: "object" }, annotations: { readOnlyHint: true } },
    ],
  },
  "tools/call": { content: [{ type: "text", text: "done" }] },
  "resources/list": { resources: [{ uri: "r:a", name: "a" }] },
  "resources/templates/list": { resourceTemplates: [] },
  "resources/read": { contents: [{ uri: "r:a", text: "done" }] },
  "prompts/list": { prompts: [{ name: "p" }] },
  "prompts/get": { messages: [{ role: "user", content: { type: "text", text: "done" } }] },
}

type Link = { text: string; isClosed: boolean; timer: Timer | undefined }

/** Starts a server that closes connections after `idleMs`, and a proxy in front of it. */
function startRemote(idleMs: number, announces: boolean) {
  const executed = new Map<string, number>()
  let sessions = 0
  const keepAlive = announces ? `Keep-Alive: timeout=${Math.floor(idleMs / 1000)}\r\n` : ""
  const rest = (socket: Socket<Link>) => {
    socket.data.timer = setTimeout(() => {
      socket.data.isClosed = true
      socket.end()
    }, idleMs)
  }
  const server = Bun.listen<Link>({
    hostname: "127.0.0.1",
    port: 0,
    socket: {
      open(socket) {
        socket.data = { text: "", isClosed: false, timer: undefined }
        rest(socket)
      },
      data(socket, chunk) {
        const link = socket.data
        // The server has closed the connection, and reads nothing more.
        if (link.isClosed) return
        link.text += chunk.toString()
        const end = link.text.indexOf("\r\n\r\n") + 4
        const length = Number(/content-length: (\d+)/i.exec(link.text)?.[1] ?? 0)
        if (end < 4 || link.text.length < end + length) return
        clearTimeout(link.timer)
        const [status, body] = respond(link.text.slice(end))
        link.text = ""
        socket.write(
          `HTTP/1.1 ${status}\r\nContent-Type: application/json\r\n${keepAlive}Content-Length: ${body.length}\r\n\r\n${body}`,
        )
        rest(socket)
      },
      close: (socket) => clearTimeout(socket.data.timer),
    },
  })
  const respond = (text: string): readonly [status: string, body: string] => {
    if (text === "") return ["405 Method Not Allowed", ""]
    const { id, method, params } = JSON.parse(text)
    if (id === undefined) return ["202 Accepted", ""]
    if (method === "initialize") sessions++
    if (method === "tools/call" && params.name === "write")
      executed.set(params.arguments.id, (executed.get(params.arguments.id) ?? 0) + 1)
    const result = RESULTS[method]
    const answer = result === undefined ? { error: { code: -32601, message: "Method not found" } } : { result }
    return ["200 OK", JSON.stringify({ jsonrpc: "2.0", id, ...answer })]
  }
  const proxy = startProxy(server.port)
  return {
    url: `http://127.0.0.1:${proxy.port}/mcp`,
    idleMs,
    executed,
    opened: () => sessions,
    stop() {
      proxy.stop(true)
      server.stop(true)
    },
  }
}

/** Starts a proxy that passes everything on after ONE_WAY_MS, in both directions. */
function startProxy(port: number) {
  type Side = { far: Socket<undefined> | undefined; held: Buffer[] }
  const later = (run: () => void) => void setTimeout(run, ONE_WAY_MS)
  return Bun.listen<Side>({
    hostname: "127.0.0.1",
    port: 0,
    socket: {
      async open(socket) {
        const side: Side = { far: undefined, held: [] }
        socket.data = side
        side.far = await Bun.connect<undefined>({
          hostname: "127.0.0.1",
          port,
          socket: {
            data: (_far, chunk) => later(() => socket.write(chunk)),
            close: () => later(() => socket.end()),
          },
        })
        for (const chunk of side.held.splice(0)) side.far.write(chunk)
      },
      data({ data: side }, chunk) {
        later(() => {
          if (side.far === undefined) side.held.push(chunk)
          else side.far.write(chunk)
        })
      },
      close: ({ data: side }) => later(() => side.far?.end()),
    },
  })
}

const HEADERS = { "content-type": "application/json", accept: "application/json, text/event-stream" }

async function openSession(url: string): Promise<string> {
  const params = { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "t", version: "1" } }
  const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "initialize", params })
  const response = await fetch(url, { method: "POST", headers: HEADERS, body })
  await response.text()
  return response.headers.get("mcp-session-id") ?? ""
}

/** Sends a request to a server through svc. Returns the reason if it fails. */
async function call(url: string, session: string, kind: Kind, id: string): Promise<string | undefined> {
  const [method, params] = {
    write: ["tools/call", { name: "write", arguments: { id } }],
    read: ["tools/call", { name: "read", arguments: {} }],
    resource: ["resources/read", { uri: "r:a" }],
    prompt: ["prompts/get", { name: "p" }],
  }[kind] as [string, object]
  const body = JSON.stringify({ jsonrpc: "2.0", id, method, params })
  const response = await fetch(url, {
    method: "POST",
    headers: { ...HEADERS, "mcp-session-id": session },
    body,
    keepalive: false,
  }).catch((error: unknown) => new Response(String(error)))
  const text = await response.text()
  return text.includes('"done"') ? undefined : text.slice(0, 300)
}

/** Calls `write` of each server with Node's fetch, in the rhythm of the calls through svc. */
async function callWithNode(
  remotes: readonly { readonly url: string; readonly idleMs: number }[],
  ms: number,
  seed: number,
): Promise<KeepAliveReport["node"]> {
  const node = Bun.which("node")
  if (node === null) return undefined
  const given = JSON.stringify({ remotes: remotes.map(({ url, idleMs }) => ({ url, idleMs })), ms, seed })
  const child = Bun.spawn([node, "--input-type=module", "-e", `${randomFrom}\n${NODE_CALLER}`, given], {
    stdout: "pipe",
    stderr: "inherit",
  })
  return JSON.parse(await new Response(child.stdout).text())
}

const NODE_CALLER = `
const { remotes, ms, seed } = JSON.parse(process.argv[1])
const end = Date.now() + ms
let calls = 0, failures = 0
await Promise.all(remotes.map(async ({ url, idleMs }, at) => {
  const one = randomFrom(seed + at)
  for (let count = 0; ; count++) {
    const pause = one() < 0.7 ? idleMs + (one() - 0.6) * 300 : one() * Math.min(idleMs, 2000)
    if (Date.now() + pause >= end) return
    await new Promise((resolve) => setTimeout(resolve, pause))
    one()
    calls++
    const params = { name: "write", arguments: { id: "node-" + at + "-" + count } }
    const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/call", params })
    await fetch(url, { method: "POST", body }).then((response) => response.text()).catch(() => failures++)
  }
}))
console.log(JSON.stringify({ calls, failures }))
process.exit(0)
`

if (import.meta.main) {
  const { values } = parseArgs({
    options: {
      minutes: { type: "string", default: "20" },
      servers: { type: "string", default: "20" },
      longest: { type: "string", default: "60000" },
      seed: { type: "string", default: "1" },
    },
  })
  const report = await runKeepAlive({
    ms: Number(values.minutes) * 60_000,
    seed: Number(values.seed),
    servers: Number(values.servers),
    longest: Number(values.longest),
  })
  process.stdout.write(`${JSON.stringify(report, null, 2)}\n`)
  process.exit(report.twice + report.lost + report.failures.read === 0 ? 0 : 1)
}
