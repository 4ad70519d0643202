/**
 * The load generator runs in its own process. It sends prebuilt requests over raw keep-alive sockets, so that it costs less than
 * the program that it measures. It takes one job at a time from its parent, and returns its counts.
 *
 *  1. It checks every answer: status 200, complete, and the same body as the first answer on the connection, which contains
 *     `needle`.
 *  2. The measured window follows a warm-up that does not count. The CPU of `pid` is read at both ends of the window.
 */
import { cpuMs } from "./proc.ts"

export type Window = {
  /** Milliseconds of the warm-up, and of the measured window. */
  readonly warm: number
  readonly ms: number
  /** Ends the window after this number of calls instead. */
  readonly count?: number
  /** The process whose CPU time is read. */
  readonly pid?: number
}

export type Job = Window &
  (
    | { readonly kind: "http"; readonly port: number; readonly needle: string; readonly requests: readonly string[] }
    /** The old HTTP+SSE transport: all answers come on one stream, and are matched by their ids, 1 to n. */
    | {
        readonly kind: "sse"
        readonly port: number
        readonly needle: string
        readonly path: string
        /** The frames that open the session, each answered before the next, and one frame for each caller. */
        readonly opening: readonly string[]
        readonly frames: readonly string[]
        /** How many sessions the callers share. */
        readonly sessions: number
      }
    /** A stdio server, called directly. */
    | {
        readonly kind: "pipe"
        readonly cmd: readonly string[]
        readonly needle: string
        readonly opening: readonly string[]
        readonly frames: readonly string[]
      }
  )

/** Times are in milliseconds; `rate` is calls per second. */
export type Count = {
  readonly calls: number
  readonly rate: number
  readonly p50: number
  readonly p99: number
  readonly cpu: number
  /** The load generator's own CPU. */
  readonly ownCpu: number
}

if (import.meta.main) {
  process.on("message", (job: Job) => {
    run(job).then(
      (count) => process.send?.({ count }),
      (error: unknown) => process.send?.({ error: error instanceof Error ? error.message : String(error) }),
    )
  })
  process.on("disconnect", () => process.exit(0))
}

// ---

const MAX_TIMES = 1_000_000
const times = new Float64Array(MAX_TIMES)

/** Counts the calls that end inside the window. `done` returns whether the caller should go on. */
function createMeter({ warm, ms, count, pid }: Window) {
  const begun = performance.now() + warm
  const end = begun + ms
  const cpuOf = () => (pid === undefined ? 0 : cpuMs(pid))
  let counting = false
  let calls = 0
  let from = 0
  let cpu = 0
  let own = 0
  let result: Count | undefined
  return {
    done(started: number, now: number): boolean {
      if (result !== undefined) return false
      if (!counting) {
        if (now < begun) return true
        counting = true
        from = now
        cpu = cpuOf()
        own = cpuMs(process.pid)
        return true
      }
      if (calls < MAX_TIMES) times[calls] = now - started
      calls++
      if (count === undefined ? now < end : calls < count) return true
      const sorted = times.subarray(0, Math.min(calls, MAX_TIMES)).sort()
      const at = (part: number) => sorted[Math.floor((sorted.length - 1) * part)] ?? 0
      result = {
        calls,
        rate: (calls * 1000) / (now - from),
        p50: at(0.5),
        p99: at(0.99),
        cpu: cpuOf() - cpu,
        ownCpu: cpuMs(process.pid) - own,
      }
      return false
    },
    result(): Count {
      if (result === undefined) throw new Error("the connections closed before the window was over")
      return result
    },
  }
}

async function run(job: Job): Promise<Count> {
  switch (job.kind) {
    case "http":
      return runHttp(job)
    case "sse":
      return runSse(job)
    case "pipe":
      return runPipe(job)
  }
}

type Meter = ReturnType<typeof createMeter>

async function runHttp({ port, needle, requests, ...window }: Job & { kind: "http" }): Promise<Count> {
  const meter = createMeter(window)
  await Promise.all(requests.map((request) => caller(port, Buffer.from(request, "utf8"), needle, meter)))
  return meter.result()
}

/** Sends a request on one connection, waits for the whole answer, and sends again. Rejects at the first wrong answer. */
function caller(port: number, request: Buffer, needle: string, meter: Meter): Promise<void> {
  return new Promise((resolve, reject) => {
    let first: Buffer | undefined
    let headLength = 0
    let started = 0
    const reader = createReader()
    const fail = (error: Error) => reject(error)
    Bun.connect({
      hostname: "127.0.0.1",
      port,
      socket: {
        open(socket) {
          started = performance.now()
          socket.write(request)
        },
        data(socket, chunk) {
          // A single chunk with the length of the first answer: it only needs to be compared.
          const same = first !== undefined && reader.idle && chunk.length === first.length && chunk[9] === TWO
          if (same && chunk.subarray(headLength).equals((first as Buffer).subarray(headLength))) return next(socket)
          const whole = reader.feed(chunk)
          if (whole === undefined) return
          if (whole.status !== 200 || (first === undefined && !whole.body.includes(needle))) {
            socket.end()
            return fail(new Error(`answered ${whole.status}: ${whole.body.toString("utf8").slice(0, 300)}`))
          }
          if (first === undefined && whole.raw === chunk) {
            first = Buffer.from(chunk)
            headLength = chunk.length - whole.body.length
          }
          next(socket)
        },
        close: () => resolve(),
        error: (_socket, error) => fail(error),
        connectError: (_socket, error) => fail(error),
      },
    }).catch(fail)
    const next = (socket: Bun.Socket) => {
      const now = performance.now()
      if (meter.done(started, now)) {
        started = now
        socket.write(request)
      } else socket.end()
    }
  })
}

type Whole = { readonly status: number; readonly body: Buffer; readonly raw: Buffer }

/** Assembles HTTP responses from chunks, one at a time, by their content-length or up to their last HTTP chunk. */
function createReader() {
  let parts: Buffer[] = []
  let size = 0
  let need = -1
  let head = 0
  let chunked = false
  let status = 0
  return {
    get idle() {
      return size === 0
    },
    feed(chunk: Buffer): Whole | undefined {
      parts.push(chunk)
      size += chunk.length
      if (need < 0) {
        const start = parts.length === 1 ? chunk : Buffer.concat(parts)
        parts = [start]
        const end = start.indexOf("\r\n\r\n")
        if (end < 0) return undefined
        const text = start.toString("latin1", 0, end)
        head = end + 4
        status = Number(text.slice(9, 12))
        chunked = /transfer-encoding: *chunked/i.test(text)
        need = chunked ? 0 : head + Number(/content-length: *(\d+)/i.exec(text)?.[1] ?? 0)
      }
      if (chunked ? !endsChunked(parts, chunk) : size < need) return undefined
      const raw = parts.length === 1 ? chunk : Buffer.concat(parts)
      parts = []
      size = 0
      need = -1
      return { status, body: raw.subarray(head), raw }
    },
  }
}

const TWO = "2".charCodeAt(0)
const LAST_CHUNK = "0\r\n\r\n"
const endsChunked = (parts: Buffer[], chunk: Buffer): boolean =>
  (chunk.length >= LAST_CHUNK.length ? chunk : Buffer.concat(parts)).subarray(-LAST_CHUNK.length).toString("latin1") ===
  LAST_CHUNK

async function runSse({
  port,
  needle,
  path,
  opening,
  frames,
  sessions,
  ...window
}: Job & { kind: "sse" }): Promise<Count> {
  const opened = await Promise.all(Array.from({ length: sessions }, () => openSse(port, path, opening)))
  const meter = createMeter(window)
  try {
    const calls = Promise.all(
      frames.map(async (frame, index) => {
        const { target, waiting } = opened[index % sessions] as SseSession
        const post = await createPosts(port, target).open(frame)
        for (let started = performance.now(); ; ) {
          const answer = new Promise<string>((resolve) => waiting.set(index + 1, resolve))
          await Promise.all([post.send(), answer])
          if (!(await answer).includes(needle)) throw new Error(`answered ${(await answer).slice(0, 300)}`)
          const now = performance.now()
          if (!meter.done(started, now)) break
          started = now
        }
        post.close()
      }),
    )
    await Promise.race([calls, ...opened.map(({ ended }) => ended)])
  } finally {
    for (const { close } of opened) close()
  }
  return meter.result()
}

type SseSession = Awaited<ReturnType<typeof openSse>>

/** Opens a session of the old HTTP+SSE transport. `waiting` takes its answers by their ids. */
async function openSse(port: number, path: string, opening: readonly string[]) {
  // A body that is being read cannot be cancelled, and Bun holds 256 connections at most.
  const controller = new AbortController()
  const { signal } = controller
  const stream = await fetch(`http://127.0.0.1:${port}${path}`, { headers: { accept: "text/event-stream" }, signal })
  const waiting = new Map<number, (text: string) => void>()
  const { promise: named, resolve: endpoint } = Promise.withResolvers<string>()
  const ended = (async () => {
    if (!stream.ok) throw new Error(`answered ${stream.status} instead of a stream`)
    let rest = ""
    const decoder = new TextDecoder()
    for await (const chunk of stream.body ?? []) {
      const events = (rest + decoder.decode(chunk, { stream: true })).split("\n\n")
      rest = events.pop() ?? ""
      for (const event of events) {
        const data = event.slice(event.indexOf("data: ") + 6)
        if (event.includes("event: endpoint")) endpoint(data)
        else waiting.get(Number(/"id":(\d+)/.exec(data)?.[1]))?.(data)
      }
    }
    throw new Error("the stream of events ended")
  })()
  ended.catch(() => undefined)
  const target = await Promise.race([named, ended])
  for (const [index, frame] of opening.entries()) {
    const answered = new Promise((resolve) => waiting.set(index + 1, resolve))
    const url = new URL(target, `http://127.0.0.1:${port}`)
    await (await fetch(url, { method: "POST", headers: JSON_TYPE, body: frame })).text()
    if (frame.includes('"id":')) await Promise.race([answered, ended])
  }
  return { target, waiting, ended, close: () => controller.abort() }
}

const JSON_TYPE = { "content-type": "application/json" }

/** Opens connections that post the same frame again and again. `send` resolves at the 202. */
function createPosts(port: number, path: string) {
  return {
    async open(frame: string) {
      const request = Buffer.from(
        `POST ${path} HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nContent-Type: application/json\r\nContent-Length: ${Buffer.byteLength(frame)}\r\n\r\n${frame}`,
      )
      let accepted: () => void = () => undefined
      const reader = createReader()
      const socket = await Bun.connect({
        hostname: "127.0.0.1",
        port,
        socket: { data: (_socket, chunk) => void (reader.feed(chunk) !== undefined && accepted()) },
      })
      return {
        send: () =>
          new Promise<void>((resolve) => {
            accepted = resolve
            socket.write(request)
          }),
        close: () => void socket.end(),
      }
    },
  }
}

async function runPipe({ cmd, needle, opening, frames, ...window }: Job & { kind: "pipe" }): Promise<Count> {
  const child = Bun.spawn({ cmd: [...cmd], stdin: "pipe", stdout: "pipe", stderr: "ignore" })
  const waiting = new Map<number, (line: string) => void>()
  void (async () => {
    const decoder = new TextDecoder()
    let rest = ""
    for await (const chunk of child.stdout) {
      const lines = (rest + decoder.decode(chunk, { stream: true })).split("\n")
      rest = lines.pop() ?? ""
      for (const line of lines) waiting.get(Number(/"id":(\d+)/.exec(line)?.[1]))?.(line)
    }
  })()
  const ask = (id: number, frame: string, then: (line: string) => void) => {
    waiting.set(id, then)
    child.stdin.write(`${frame}\n`)
    child.stdin.flush()
  }
  for (const [index, frame] of opening.entries())
    if (frame.includes('"id":')) await new Promise<string>((resolve) => ask(index + 1, frame, resolve))
    else ask(0, frame, () => undefined)
  const meter = createMeter(window)
  await Promise.all(
    frames.map(
      (frame, index) =>
        new Promise<void>((resolve, reject) => {
          let started = performance.now()
          const answered = (line: string) => {
            if (!line.includes(needle)) return reject(new Error(`answered ${line.slice(0, 300)}`))
            const now = performance.now()
            if (!meter.done(started, now)) return resolve()
            started = now
            ask(index + 1, frame, answered)
          }
          ask(index + 1, frame, answered)
        }),
    ),
  )
  child.kill()
  await child.exited
  return meter.result()
}
