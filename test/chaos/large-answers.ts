/**
 * Compares large answers byte by byte. Servers of each kind write values in pieces of any size, to many clients of each kind at
 * once, fast and slow. Each part of a value states its own position.
 *
 *   bun test/chaos/large-answers.ts --results 20000 --seed 7 --svc-env BUN_JSC_collectContinuously=1
 */
import { connect } from "node:net"
import { parseArgs } from "node:util"
import { fixture, type Remote, startHttp, startSvc } from "../e2e/harness.ts"
import { type Large, resultOf } from "../fixtures/streamed.ts"
import { randomFrom } from "../random.ts"

export type Comparison = {
  readonly results: number
  readonly seed: number
  /** The number of simultaneous calls. */
  readonly callers: number
  /** The size of the largest value in bytes. */
  readonly largest: number
  /** Environment variables of svc. */
  readonly env?: Readonly<Record<string, string>>
}
export type Compared = {
  readonly equal: number
  readonly bytes: number
  /** The faults, each with its first position; at most MAX_FAULTS. */
  readonly faults: readonly string[]
  /** What svc logged. */
  readonly stderr: string
}

/** Compares answers. Ends its processes and removes its folders at the end. */
export async function compareLargeAnswers({
  results,
  seed,
  callers,
  largest,
  env = {},
}: Comparison): Promise<Compared> {
  const remotes: Remote[] = []
  const remote = async (...flags: string[]) => {
    const started = await startHttp("streamed.ts", ...flags)
    remotes.push(started)
    return { type: "streamableHttp", url: started.url }
  }
  try {
    const config = {
      mcpServers: {
        stdio: { command: "bun", args: [fixture("streamed.ts")] },
        json: await remote(),
        events: await remote("--sse"),
        modern: await remote("--modern"),
      },
    }
    await using svc = await startSvc({ config, env })
    for (const server of SERVERS) await svc.said(`${server}: connected`)
    const calls = callsOf(seed, largest)
    const session = await openSession(svc.url)
    const faults: string[] = []
    let [next, equal, bytes] = [0, 0, 0]
    const caller = async (): Promise<void> => {
      while (next < results && faults.length < MAX_FAULTS) {
        const id = next++
        const call = calls(id)
        try {
          const body = await CLIENTS[call.client](`${svc.url}/mcp`, requestOf(call, id, session), call.pause)
          const fault = faultIn(body, call, id)
          if (fault === undefined) equal++
          else faults.push(`${JSON.stringify(call)}: ${fault}`)
          bytes += body.length
        } catch (error) {
          faults.push(`${JSON.stringify(call)}: ${String(error)}`)
        }
      }
    }
    await Promise.all(Array.from({ length: callers }, caller))
    return { equal, bytes, faults, stderr: svc.stderr() }
  } finally {
    for (const { stop } of remotes) await stop()
  }
}

// ---

const SERVERS = ["stdio", "json", "events", "modern"] as const
const KINDS = ["text", "base64", "structured", "link"] as const
const MAX_FAULTS = 10
/** The number of different answers of a server: the server creates each one for every call, the client creates each once. */
const ANSWERS = 64
const SMALLEST = 60_000

type Call = {
  readonly server: (typeof SERVERS)[number]
  readonly era: "legacy" | "modern"
  readonly client: keyof typeof CLIENTS
  readonly args: Large
  /** Milliseconds for which a slow client stops reading after each part. */
  readonly pause: number
}

/** Returns the call with a number. Most answers are small, so that there are many of them. */
function callsOf(seed: number, largest: number): (id: number) => Call {
  const one = randomFrom(seed)
  const pick = <T>(from: readonly T[]): T => from[Math.floor(one() * from.length)] as T
  const answers = Array.from({ length: ANSWERS }, (_, index): Large => {
    const bytes = Math.round(SMALLEST * (largest / SMALLEST) ** (one() ** 3))
    return { kind: KINDS[index % KINDS.length] ?? "text", bytes, seed: index }
  })
  return () => ({
    server: pick(SERVERS),
    era: pick(["legacy", "modern"]),
    client: pick(["fetch", "socket", "slow"]),
    args: {
      ...pick(answers),
      idLast: one() < 0.3,
      length: one() < 0.5,
      ...(one() < 0.3 ? { piece: Math.ceil(one() * (one() < 0.5 ? 300_000 : 20_000)) } : {}),
    },
    pause: Math.round(one() * 30),
  })
}

const HEADERS = { "content-type": "application/json", accept: "application/json, text/event-stream" }
const META = {
  "io.modelcontextprotocol/protocolVersion": "2026-07-28",
  "io.modelcontextprotocol/clientInfo": { name: "t", version: "1" },
  "io.modelcontextprotocol/clientCapabilities": {},
}

/** Opens a legacy session. Returns its id. */
async function openSession(url: string): Promise<string> {
  const params = { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "t", version: "1" } }
  const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "initialize", params })
  const response = await fetch(`${url}/mcp`, { method: "POST", headers: HEADERS, body })
  await response.text()
  return response.headers.get("mcp-session-id") ?? ""
}

type Request = { readonly headers: Readonly<Record<string, string>>; readonly body: string }

function requestOf({ server, era, args }: Call, id: number, session: string): Request {
  const name = `${server}_svc_large`
  const modern = { "mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": name }
  const params = { name, arguments: args, ...(era === "modern" ? { _meta: META } : {}) }
  return {
    headers: { ...HEADERS, ...(era === "modern" ? modern : { "mcp-session-id": session }) },
    body: JSON.stringify({ jsonrpc: "2.0", id, method: "tools/call", params }),
  }
}

/** Each function sends a request and resolves with the body of the answer. It rejects if the answer does not end properly. */
const CLIENTS = {
  async fetch(url: string, request: Request): Promise<Buffer> {
    return Buffer.from(await (await fetch(url, { method: "POST", ...request })).arrayBuffer())
  },
  socket: (url: string, request: Request) => overSocket(url, request, 0),
  slow: overSocket,
} as const

/** Sends a request over a connection of its own, and stops reading for `pause` milliseconds after each part of the answer. */
function overSocket(url: string, { headers, body }: Request, pause: number): Promise<Buffer> {
  const { hostname, port, pathname } = new URL(url)
  const lines = Object.entries({
    host: hostname,
    connection: "close",
    "content-length": Buffer.byteLength(body),
    ...headers,
  })
  const parts: Buffer[] = []
  return new Promise((resolve, reject) => {
    const socket = connect({ host: hostname, port: Number(port) })
    socket.on("error", reject)
    socket.on("data", (part: Buffer) => {
      parts.push(part)
      if (pause === 0) return
      socket.pause()
      setTimeout(() => socket.resume(), pause)
    })
    socket.on("close", () => {
      try {
        resolve(bodyOf(Buffer.concat(parts)))
      } catch (error) {
        reject(error)
      }
    })
    socket.write(
      `POST ${pathname} HTTP/1.1\r\n${lines.map(([name, value]) => `${name}: ${value}\r\n`).join("")}\r\n${body}`,
    )
  })
}

/** Returns the body of an HTTP response. Throws if the response is incomplete. */
function bodyOf(response: Buffer): Buffer {
  const end = response.indexOf("\r\n\r\n")
  const head = response.toString("latin1", 0, end)
  const rest = response.subarray(end + 4)
  const length = /^content-length: (\d+)/im.exec(head)?.[1]
  if (length !== undefined) {
    if (rest.length !== Number(length)) throw new Error(`${rest.length} of ${length} bytes`)
    return rest
  }
  const chunks: Buffer[] = []
  for (let at = 0; ; ) {
    const line = rest.indexOf("\r\n", at)
    const size = Number.parseInt(rest.toString("latin1", at, line), 16)
    if (line < 0 || Number.isNaN(size)) throw new Error(`broken off after ${rest.length} bytes: ${head}`)
    if (size === 0) return Buffer.concat(chunks)
    chunks.push(rest.subarray(line + 2, line + 2 + size))
    at = line + 4 + size
  }
}

/** The expected answer: the bytes of its large value, and its result with 0 in place of this value. */
type Expected = { readonly value: Buffer; readonly rest: unknown }
const expected = new Map<string, Expected>()

function expectedOf(call: Call): Expected {
  const { kind, seed } = call.args
  const key = `${kind} ${seed}`
  const known = expected.get(key)
  if (known !== undefined) return known
  const result = resultOf(call.args)
  const [block] = result.content as { text?: unknown; data?: unknown }[]
  const value = result.structuredContent ?? block?.text ?? block?.data
  const rest = JSON.parse(JSON.stringify(result, (_, member) => (member === value ? 0 : member)))
  const made = { value: Buffer.from(JSON.stringify(value)), rest }
  expected.set(key, made)
  return made
}

/** Returns the fault of an answer, or undefined if it is correct. */
function faultIn(body: Buffer, call: Call, id: number): string | undefined {
  const { value, rest } = expectedOf(call)
  const start = body.indexOf(value.subarray(0, 24))
  if (start < 0) return `has no value: ${body.toString("utf8", 0, 300)}`
  const end = start + value.length
  if (!body.subarray(start, end).equals(value)) {
    const at = value.findIndex((byte, index) => byte !== body[start + index])
    const shown = (bytes: Buffer, from: number) => JSON.stringify(bytes.toString("utf8", from, from + 60))
    return `differs from ${at} of ${value.length} on: ${shown(body, start + at)} for ${shown(value, at)}`
  }
  const message = JSON.parse(`${body.toString("utf8", 0, start)}0${body.toString("utf8", end)}`)
  const shown = JSON.parse(JSON.stringify(rest).replace('"uri":"', `"uri":"svc://${call.server}/`))
  const result = call.era === "modern" ? { ...shown, resultType: "complete" } : shown
  return Bun.deepEquals(message, { jsonrpc: "2.0", id, result }) ? undefined : `is ${JSON.stringify(message)}`
}

if (import.meta.main) {
  const { values } = parseArgs({
    options: {
      results: { type: "string" },
      seed: { type: "string" },
      callers: { type: "string" },
      largest: { type: "string" },
      "svc-env": { type: "string", multiple: true },
    },
  })
  const seed = Number(values.seed ?? Date.now() % 1_000_000)
  const { equal, bytes, faults, stderr } = await compareLargeAnswers({
    results: Number(values.results ?? 20_000),
    seed,
    callers: Number(values.callers ?? 16),
    largest: Number(values.largest ?? 20_000_000),
    env: Object.fromEntries((values["svc-env"] ?? []).map((entry) => entry.split(/=(.*)/s).slice(0, 2))),
  })
  const summary = `seed ${seed}: ${equal} equal, ${Math.round(bytes / 1e6)} MB\n`
  process.stdout.write(`${summary}${faults.map((fault) => `${fault}\n`).join("")}`)
  if (faults.length > 0) process.stdout.write(stderr.slice(-4000))
  process.exit(faults.length === 0 ? 0 : 1)
}
