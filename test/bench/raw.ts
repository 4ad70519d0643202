/**
 * The minimal relay, a baseline: HTTP in, one line out, one line in, HTTP out. It has no sessions, renames nothing, checks
 * nothing and limits nothing. `bun raw.ts COMMAND ARGS…` prints its port.
 */
const child = Bun.spawn({ cmd: process.argv.slice(2), stdin: "pipe", stdout: "pipe", stderr: "ignore" })
const waiting = new Map<number, { id: unknown; resolve(response: Response): void }>()
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
      call.resolve(new Response(JSON.stringify(message), { headers: { "content-type": "application/json" } }))
    }
  }
})()

const server = Bun.serve({
  hostname: "127.0.0.1",
  port: 0,
  idleTimeout: 0,
  async fetch(request) {
    const message = JSON.parse(await request.text())
    if (message.id === undefined) {
      child.stdin.write(`${JSON.stringify(message)}\n`)
      child.stdin.flush()
      return new Response(null, { status: 202 })
    }
    const number = ++last
    return new Promise<Response>((resolve) => {
      waiting.set(number, { id: message.id, resolve })
      child.stdin.write(`${JSON.stringify({ ...message, id: number })}\n`)
      child.stdin.flush()
    })
  },
})
process.stdout.write(`${server.port}\n`)
process.stdin.on("end", () => process.exit(0))
process.stdin.resume()
