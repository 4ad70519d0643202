/**
 * The MCP server behind every measurement: over stdio, or with `--http` over Streamable HTTP (it prints its port). It is as
 * small as possible, except that it creates each answer with JSON.stringify, as any server does.
 *
 *   echo                          returns its argument `m`
 *   text, lines, structured, base64   a result of a megabyte of that kind, or of `--megabytes N`; text has an escape in
 *                                 every tenth byte, lines have one in a hundred
 *   --tools N                     N tools; those after the first five behave like echo
 *   --id-last                     writes the id after the result, as servers on the TypeScript SDK do
 *   --events                      with --http: answers in an event stream
 */
const sized = process.argv.indexOf("--megabytes")
const BYTES = (sized < 0 ? 1 : Number(process.argv[sized + 1])) * 1024 * 1024
const at = process.argv.indexOf("--tools")
const count = at < 0 ? 5 : Number(process.argv[at + 1])

const isIdLast = process.argv.includes("--id-last")
const isEvents = process.argv.includes("--events")

type Incoming = {
  id?: unknown
  method?: string
  params?: { name?: string; arguments?: { m?: string }; protocolVersion?: string }
}

const prose = 'A line with "quotes", a tab\t, a path C:\\temp and a snowman ☃.\n'
const plain =
  "A line without quotes, as a text of prose or the log of a build has them, one after the other, for pages.\n"
const record = { id: 1234567, name: "some name or other", tags: ["a", "b", "c"], ok: true, score: 0.12345, none: null }
const text = prose.repeat(Math.ceil(BYTES / JSON.stringify(prose).length))
const lines = plain.repeat(Math.ceil(BYTES / JSON.stringify(plain).length))
const rows = Array.from({ length: Math.ceil(BYTES / JSON.stringify(record).length) }, (_, n) => ({
  ...record,
  id: n,
}))
const base64 = Buffer.alloc((BYTES * 3) / 4, 7).toString("base64")

const tools = ["echo", "text", "lines", "structured", "base64", ...Array.from({ length: count }, (_, n) => `echo${n}`)]
  .slice(0, count)
  .map((name) => ({
    name,
    description: "Gives back what it is given, as text, and is described at the length that is usual for a tool",
    inputSchema: { type: "object", properties: { m: { type: "string", description: "What to give back" } } },
  }))

function call(name: string | undefined, m: string | undefined): unknown {
  switch (name) {
    case "text":
      return { content: [{ type: "text", text }] }
    case "lines":
      return { content: [{ type: "text", text: lines }] }
    case "structured":
      return { content: [], structuredContent: { rows } }
    case "base64":
      return { content: [{ type: "image", mimeType: "image/png", data: base64 }] }
    default:
      return { content: [{ type: "text", text: m ?? "" }] }
  }
}

function resultOf({ method, params }: Incoming): unknown {
  switch (method) {
    case "initialize":
      return {
        // The older peers know no newer one.
        protocolVersion: params?.protocolVersion ?? "2025-11-25",
        capabilities: { tools: {} },
        serverInfo: { name: "bench", version: "1" },
      }
    case "ping":
      return {}
    case "tools/list":
      return { tools }
    case "tools/call":
      return call(params?.name, params?.arguments?.m)
    default:
      return undefined
  }
}

function answer(message: Incoming): string {
  const result = resultOf(message)
  const { id } = message
  if (result === undefined)
    return JSON.stringify({ jsonrpc: "2.0", id, error: { code: -32601, message: "Method not found" } })
  return JSON.stringify(isIdLast ? { result, jsonrpc: "2.0", id } : { jsonrpc: "2.0", id, result })
}

function serveStdio(): void {
  let rest = ""
  process.stdin.setEncoding("utf8")
  process.stdin.on("data", (chunk: string) => {
    const lines = (rest + chunk).split("\n")
    rest = lines.pop() ?? ""
    let out = ""
    for (const line of lines) {
      const message: Incoming = JSON.parse(line)
      if (message.id !== undefined && message.method !== undefined) out += `${answer(message)}\n`
    }
    if (out !== "") process.stdout.write(out)
  })
  process.stdin.on("end", () => process.exit(0))
}

function serveHttp(): void {
  const server = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    idleTimeout: 0,
    async fetch(request) {
      if (request.method !== "POST") return new Response(null, { status: 405 })
      const message = (await request.json()) as Incoming
      if (message.id === undefined || message.method === undefined) return new Response(null, { status: 202 })
      const body = answer(message)
      return isEvents
        ? new Response(`event: message\ndata: ${body}\n\n`, { headers: { "content-type": "text/event-stream" } })
        : new Response(body, { headers: { "content-type": "application/json" } })
    },
  })
  process.stdout.write(`${server.port}\n`)
  process.stdin.on("end", () => process.exit(0))
  process.stdin.resume()
}

if (process.argv.includes("--http")) serveHttp()
else serveStdio()
