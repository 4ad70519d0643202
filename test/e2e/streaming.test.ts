/** Large results go to the client while they come: whole, or seen to be broken off. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { connect } from "node:net"
import { type Large, resultOf } from "../fixtures/streamed.ts"
import { randomFrom } from "../random.ts"
import { eventually, fixture, type Instance, type Remote, startHttp, startSvc } from "./harness.ts"

const LIMIT_MS = 120_000
const MB = 1024 * 1024
/** Places in an answer, chosen at random, at which each server dies. */
const DEATHS = Number(process.env.SVC_DEATHS ?? 12)
const SEED = Number(process.env.SVC_SEED ?? 20_261_123)
const SERVERS = ["stdio", "json", "events", "modern"] as const
type Server = (typeof SERVERS)[number]
const ERAS = ["legacy", "modern"] as const
const ROUTES = SERVERS.flatMap((server) => ERAS.map((era) => [server, era] as const))

let svc: Instance
const remotes: Remote[] = []
beforeAll(async () => {
  const remote = async (...flags: string[]) => {
    const started = await startHttp("streamed.ts", ...flags)
    remotes.push(started)
    return { type: "streamableHttp", url: started.url, requestTimeout: 2000 }
  }
  svc = await startSvc({
    config: {
      mcpServers: {
        stdio: {
          command: "bun",
          args: [fixture("streamed.ts")],
          restartOnExit: true,
          restartDelay: 1,
          maxRestarts: 0,
          requestTimeout: 2000,
        },
        json: await remote(),
        events: await remote("--sse"),
        modern: await remote("--modern"),
      },
    },
    flags: ["--max-result", "8MiB"],
  })
  for (const server of SERVERS) await svc.said(`${server}: connected`)
}, LIMIT_MS)
afterAll(async () => {
  await svc[Symbol.asyncDispose]()
  for (const remote of remotes) await remote.stop()
})

const JSON_HEADERS = { "content-type": "application/json", accept: "application/json, text/event-stream" }
const initialize = {
  jsonrpc: "2.0",
  id: 1,
  method: "initialize",
  params: { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "t", version: "1" } },
}
const META = {
  "io.modelcontextprotocol/protocolVersion": "2026-07-28",
  "io.modelcontextprotocol/clientInfo": { name: "t", version: "1" },
  "io.modelcontextprotocol/clientCapabilities": {},
}

/** Returns the request of one call, to be sent by `fetch`. */
async function request(server: Server, era: (typeof ERAS)[number], args: Large, id: unknown = 7): Promise<RequestInit> {
  const params = { name: `${server}_svc_large`, arguments: args }
  const body = (more: object) =>
    JSON.stringify({ jsonrpc: "2.0", id, method: "tools/call", params: { ...params, ...more } })
  if (era === "modern") {
    const named = { "mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": params.name }
    return { method: "POST", headers: { ...JSON_HEADERS, ...named }, body: body({ _meta: META }) }
  }
  const opened = await fetch(`${svc.url}/mcp`, {
    method: "POST",
    headers: JSON_HEADERS,
    body: JSON.stringify(initialize),
  })
  await opened.text()
  return {
    method: "POST",
    headers: { ...JSON_HEADERS, "mcp-session-id": opened.headers.get("mcp-session-id") ?? "" },
    body: body({}),
  }
}

type Shown = { readonly id?: unknown; readonly result?: Record<string, unknown>; readonly error?: unknown }

/** Returns what the client gets: the answer, or "broken" if the response does not end well. Throws for any other end. */
async function call(server: Server, era: (typeof ERAS)[number], args: Large, id?: unknown): Promise<Shown | "broken"> {
  const init = await request(server, era, args, id)
  let text: string
  try {
    text = await (await fetch(`${svc.url}/mcp`, init)).text()
  } catch {
    return "broken"
  }
  return JSON.parse(text) as Shown
}

/** What a client sees of a result of this server. */
function shown(server: Server, era: (typeof ERAS)[number], args: Large): unknown {
  const result = JSON.parse(JSON.stringify(resultOf(args)).replace('"uri":"', `"uri":"svc://${server}/`))
  return era === "modern" ? { ...result, resultType: "complete" } : result
}

const isFailure = (answer: Shown | "broken") =>
  answer === "broken" || answer.error !== undefined || answer.result?.isError === true

describe("an answer that passes while it comes is whole, or seen to be broken off [relay:streamed] [relay:broken] [relay:broken:log]", () => {
  test.each(ROUTES)(
    "results of %s arrive whole at a client of the %s era, wherever the id stands",
    async (server, era) => {
      for (const kind of ["text", "structured", "base64", "link"] as const)
        for (const [idLast, length] of [
          [false, true],
          [true, false],
        ] as const)
          for (const bytes of [70_000, MB, 3 * MB]) {
            const args = { kind, bytes, idLast, length }
            const answer = await call(server, era, args, "the client's own, which is longer than svc's")
            if (answer === "broken") throw new Error(JSON.stringify(args))
            expect(answer.id).toBe("the client's own, which is longer than svc's")
            expect(answer.result).toEqual(shown(server, era, args) as Record<string, unknown>)
          }
    },
    LIMIT_MS,
  )

  test.each(ROUTES)(
    "of a server that dies within an answer (%s), a client of the %s era sees an error",
    async (server, era) => {
      let broken = 0
      for (const at of [0.001, 0.02, 0.0627, 0.1, 0.3, 0.5, 0.9, 0.999, 0.999_999])
        for (const kind of ["text", "structured"] as const) {
          const args = { kind, bytes: MB, at, end: "exit" } as const
          const answer = await call(server, era, args)
          if (answer === "broken") broken++
          expect([at, kind, isFailure(answer)]).toEqual([at, kind, true])
        }
      const one = randomFrom(SEED)
      for (let death = 0; death < DEATHS; death++) {
        const kind = (["text", "structured", "base64"] as const)[death % 3] ?? "text"
        const args = { kind, bytes: MB, at: one(), idLast: one() < 0.3, length: one() < 0.6, end: "exit" } as const
        expect([args, isFailure(await call(server, era, args))]).toEqual([args, true])
      }
      // Most have begun to pass.
      expect(broken).toBeGreaterThan(6)
      const whole = { kind: "text", bytes: 100_000 } as const
      const after = await eventually(async () => {
        const answer = await call(server, era, whole)
        return isFailure(answer) ? undefined : answer
      })
      expect((after as Shown).result).toEqual(shown(server, era, whole) as Record<string, unknown>)
      expect(svc.stderr()).not.toContain("internal error")
      expect(svc.stderr()).not.toMatch(/^error: |^\s+at /m)
    },
    LIMIT_MS,
  )

  test.each(ROUTES)(
    "an answer of %s that is no JSON, or is of another request, fails for a client of the %s era",
    async (server, era) => {
      const text = { kind: "text", bytes: MB } as const
      const wrong: readonly Large[] = [
        { ...text, at: 0.5, insert: "01" },
        // Two quotation marks: a backslash may stand before the first.
        { ...text, at: 0.5, insert: "2222" },
        { kind: "structured", bytes: MB, at: 0.5, insert: "2222" },
        { ...text, tail: ',"id":"other"' },
        { ...text, tail: ',"jsonrpc":"2.0"' },
        { ...text, tail: ',"error":{"code":1,"message":"m"}' },
        { ...text, idLast: true, tail: ',"result":{}' },
        { ...text, tail: "}" },
        { kind: "text", bytes: 12 * MB },
      ]
      for (const args of wrong) expect([args, isFailure(await call(server, era, args))]).toEqual([args, true])
      // Bytes that are not UTF-8 are replaced, as in any other answer; members that svc does not know stay.
      const odd = await call(server, era, {
        kind: "base64",
        bytes: MB,
        at: 0.5,
        insert: "ff",
        tail: ',"x-more":{"a":[1.0]}',
      })
      expect(JSON.stringify(odd)).toContain("\ufffd")
      expect(odd).toMatchObject({ id: 7, "x-more": { a: [1] } })
    },
    LIMIT_MS,
  )

  test.each(ROUTES)(
    "an answer of %s that stops is broken off after the time limit for a client of the %s era",
    async (server, era) => {
      const answer = await call(server, era, { kind: "text", bytes: MB, at: 0.5, end: "stop" })
      expect(answer).toBe("broken")
      await svc.said(
        `${server}: its answer to tools/call of large was broken off: nothing more of its answer to tools/call within 2 s`,
      )
    },
    LIMIT_MS,
  )

  test.each(["answer", "error"] as const)(
    "an answer that comes after an %s to the same call reaches no other client, wherever its id stands [relay:whose]",
    async (early) => {
      for (const era of ERAS)
        for (const idLast of [true, false]) {
          const secret = 77_777_777
          const first = call("stdio", era, { kind: "text", bytes: MB, seed: secret, piece: 30_000, idLast, early })
          expect(isFailure(await first)).toBe(early === "error")
          // The only open request while the answer comes again.
          const init = await request("stdio", era, { kind: "text", bytes: 100 })
          const text = await (await fetch(`${svc.url}/mcp`, init)).text()
          expect([text.includes(String(secret)), JSON.parse(text).result]).toEqual([
            false,
            shown("stdio", era, { kind: "text", bytes: 100 }) as Record<string, unknown>,
          ])
        }
    },
    LIMIT_MS,
  )

  test(
    "a second answer on the stream of another call neither replaces the first nor keeps its client waiting [relay:second]",
    async () => {
      for (const era of ERAS) {
        const [held, other] = [
          { kind: "text", bytes: MB, seed: 1111, at: 0.5, hold: 1000 },
          { kind: "text", bytes: 100_000, second: true },
        ] as const
        // Its answer has begun when the headers are there.
        const first = await fetch(`${svc.url}/mcp`, await request("events", era, held))
        const second = (await call("events", era, other)) as Shown
        expect(second.result).toEqual(shown("events", era, other) as Record<string, unknown>)
        expect(((await first.json()) as Shown).result).toEqual(shown("events", era, held) as Record<string, unknown>)
      }
      await svc.said(
        "events: sent a second answer to tools/call of large while it sent the first; the second was dropped",
      )
    },
    LIMIT_MS,
  )

  test(
    "a client that does not read delays neither others nor its server",
    async () => {
      const { headers, body } = await request("stdio", "legacy", { kind: "base64", bytes: 7 * MB })
      const lines = Object.entries(headers as Record<string, string>).map(([name, value]) => `${name}: ${value}\r\n`)
      const text = `POST /mcp HTTP/1.1\r\nHost: localhost\r\n${lines.join("")}Content-Length: ${Buffer.byteLength(String(body))}\r\n\r\n${body}`
      const silent = connect({ host: "127.0.0.1", port: Number(new URL(svc.url).port) })
      silent.on("error", () => undefined)
      silent.write(text)
      await new Promise((resolve) => silent.once("readable", resolve))
      const args = { kind: "text", bytes: MB } as const
      expect(((await call("stdio", "legacy", args)) as Shown).result).toEqual(
        shown("stdio", "legacy", args) as Record<string, unknown>,
      )
      // What the silent client was sent is whole.
      let size = 0
      let end = ""
      silent.on("data", (chunk: Buffer) => {
        size += chunk.length
        end = (end + chunk.toString("latin1")).slice(-7)
      })
      await eventually(() => end === "\r\n0\r\n\r\n")
      expect(size).toBeGreaterThan(7 * MB)
      silent.destroy()
    },
    LIMIT_MS,
  )

  test(
    "a client that leaves within an answer costs others nothing",
    async () => {
      for (const [server, era] of ROUTES) {
        const gone = new AbortController()
        const init = await request(server, era, { kind: "text", bytes: 7 * MB })
        const response = await fetch(`${svc.url}/mcp`, { ...init, signal: gone.signal })
        await response.body?.getReader().read()
        gone.abort()
        const args = { kind: "structured", bytes: MB } as const
        expect([server, ((await call(server, era, args)) as Shown).result]).toEqual([
          server,
          shown(server, era, args) as Record<string, unknown>,
        ])
      }
      expect(svc.stderr()).not.toContain("internal error")
    },
    LIMIT_MS,
  )
})
