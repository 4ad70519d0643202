/**
 * The minimal relay, a baseline: HTTP in, one line out, one line in, HTTP out. It has no sessions, renames nothing, checks
 * nothing and limits nothing. `bun raw.ts COMMAND ARGS…` prints its port.
 *
 * With `--usable` before the command, it also does what no relay can omit: it refuses pages of other origins, names of other
 * hosts, sessions that it did not open and revisions that it does not know.
 */
const isUsable = process.argv[2] === "--usable"
const child = Bun.spawn({ cmd: process.argv.slice(isUsable ? 3 : 2), stdin: "pipe", stdout: "pipe", stderr: "ignore" })
const sessions = new Set<string>()
const revisions = new Set(["2025-03-26", "2025-06-18", "2025-11-25"])
type Waiting = { id: unknown; headers: Record<string, string>; resolve(response: Response): void }
const waiting = new Map<number, Waiting>()
let last = 0

void (async () => {
  const decoder = new TextDecoder()
  let rest = ""
  for await (const chunk of child.stdout) {
    const lines = (rest + decoder.decode(chunk, { stream: true })).split("\n")
    rest = lines.pop() ?? ""
    for (const line of lines) {
      const message = JSON.parse(line)
      const call = waiting.get(message.id)
      waiting.delete(message.id)
      if (call === undefined) continue
      message.id = call.id
      call.resolve(new Response(JSON.stringify(message), { headers: call.headers }))
    }
  }
})()

/** Returns the status with which a request is refused; undefined if it may pass. */
function refusalOf(headers: Headers, method: unknown): number | undefined {
  const host = headers.get("host") ?? ""
  if (host !== `127.0.0.1:${server.port}` && host !== `localhost:${server.port}`) return 403
  const origin = headers.get("origin")
  if (origin !== null && origin !== `http://${host}`) return 403
  if (method === "initialize") return undefined
  if (!sessions.has(headers.get("mcp-session-id") ?? "")) return 404
  return revisions.has(headers.get("mcp-protocol-version") ?? "2025-03-26") ? undefined : 400
}

const server = Bun.serve({
  hostname: "127.0.0.1",
  port: 0,
  idleTimeout: 0,
  async fetch(request) {
    const message = JSON.parse(await request.text())
    const headers: Record<string, string> = { "content-type": "application/json" }
    if (isUsable) {
      const refused = refusalOf(request.headers, message.method)
      if (refused !== undefined) return new Response(null, { status: refused })
      if (message.method === "initialize") {
        const session = crypto.randomUUID()
        sessions.add(session)
        headers["mcp-session-id"] = session
      }
    }
    if (message.id === undefined) {
      child.stdin.write(`${JSON.stringify(message)}\n`)
      child.stdin.flush()
      return new Response(null, { status: 202 })
    }
    const number = ++last
    return new Promise<Response>((resolve) => {
      waiting.set(number, { id: message.id, headers, resolve })
      child.stdin.write(`${JSON.stringify({ ...message, id: number })}\n`)
      child.stdin.flush()
    })
  },
})
process.stdout.write(`${server.port}\n`)
process.stdin.on("end", () => process.exit(0))
process.stdin.resume()
