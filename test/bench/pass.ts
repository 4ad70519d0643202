/**
 * A hop that passes bytes on without reading them: the lower bound of the cost of any hop for a large result. Prints its port.
 *
 *     bun pass.ts fetch PORT         HTTP: the body of a `fetch` becomes the body of the answer
 *     bun pass.ts pipe COMMAND ARGS  writes a line to the child and reads a line back, one request at a time
 */
const [mode = "", ...rest] = process.argv.slice(2)
const target = Number(rest[0])

function passHttp(): number {
  const server = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    idleTimeout: 0,
    async fetch(request) {
      const { method, headers } = request
      const body = await request.text()
      const answer = await fetch(`http://127.0.0.1:${target}/mcp`, { method, headers, body })
      const type = answer.headers.get("content-type") ?? "application/json"
      return new Response(answer.body, { status: answer.status, headers: { "content-type": type } })
    },
  })
  return server.port ?? 0
}

function passPipe(): number {
  const child = Bun.spawn({ cmd: rest, stdin: "pipe", stdout: "pipe", stderr: "ignore" })
  let answer: ReadableStreamDirectController | undefined
  let early: Uint8Array[] = []
  let end: () => void = () => undefined
  void (async () => {
    for await (const chunk of child.stdout) {
      const isLast = chunk[chunk.length - 1] === 0x0a
      if (answer === undefined) early.push(chunk)
      else answer.write(chunk)
      if (isLast) end()
    }
  })()
  const server = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    idleTimeout: 0,
    async fetch(request) {
      const text = await request.text()
      child.stdin.write(`${text}\n`)
      child.stdin.flush()
      if (JSON.parse(text).id === undefined) return new Response(null, { status: 202 })
      const body = new ReadableStream({
        type: "direct",
        pull(controller) {
          return new Promise<void>((resolve) => {
            end = () => {
              answer = undefined
              controller.close()
              resolve()
            }
            const parts = early
            early = []
            answer = controller
            for (const part of parts) controller.write(part as Uint8Array<ArrayBuffer>)
            if (parts.at(-1)?.at(-1) === 0x0a) end()
          })
        },
      })
      return new Response(body, { headers: { "content-type": "application/json" } })
    },
  })
  return server.port ?? 0
}

function start(): number {
  switch (mode) {
    case "fetch":
      return passHttp()
    case "pipe":
      return passPipe()
    default:
      throw new Error(`unknown mode ${mode}`)
  }
}

process.stdout.write(`${start()}\n`)
process.stdin.on("end", () => process.exit(0))
process.stdin.resume()
