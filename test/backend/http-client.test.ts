/** The client for remote servers, over loopback to servers that a test scripts byte by byte. */
import { afterEach, expect, test } from "bun:test"
import { mkdtempSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { gzipSync, zstdCompressSync } from "node:zlib"
import type { Socket } from "bun"
import { HttpClient, type HttpClientOptions, MAX_WAITING, proxyFor } from "../../src/backend/http-client.ts"
import { type Clock, systemClock } from "../../src/lib/clock.ts"
import { messageOf } from "../../src/lib/errors.ts"
import { isConnectionRefused, networkReason } from "../../src/lib/network-error.ts"
import { manualClock } from "../clock.ts"

/** One request as the server got it, with the number of its connection, from 1 on. */
type Got = { readonly text: string; readonly connection: number; readonly socket: Socket<Link> }
type Link = { readonly number: number; text: string; isPaused?: boolean }

const closing: (() => void)[] = []
afterEach(() => {
  for (const close of closing.splice(0)) close()
})

/** Listens, and calls `answer` for each request, whose body is short or has a length. */
function listen(answer: (got: Got) => void, tls?: Bun.TLSOptions) {
  const got: Got[] = []
  const open = new Set<Socket<Link>>()
  let connections = 0
  const arrivals: (() => void)[] = []
  const server = Bun.listen<Link>({
    hostname: "127.0.0.1",
    port: 0,
    ...(tls === undefined ? {} : { tls }),
    socket: {
      open(socket) {
        socket.data = { number: ++connections, text: "" }
        open.add(socket)
      },
      data(socket, chunk) {
        const link = socket.data
        link.text += chunk.toString("latin1")
        for (;;) {
          const end = link.text.indexOf("\r\n\r\n") + 4
          const length = Number(/content-length: (\d+)/i.exec(link.text)?.[1] ?? 0)
          if (end < 4 || link.text.length < end + length) return
          const one = { text: link.text.slice(0, end + length), connection: link.number, socket }
          link.text = link.text.slice(end + length)
          got.push(one)
          answer(one)
          for (const arrive of arrivals.splice(0)) arrive()
        }
      },
      close(socket) {
        open.delete(socket)
        for (const arrive of arrivals.splice(0)) arrive()
      },
    },
  })
  closing.push(() => server.stop(true))
  /** Resolves when `holds` is true after a request or the end of a connection. */
  const until = async (holds: () => boolean) => {
    while (!holds()) await new Promise<void>((resolve) => arrivals.push(resolve))
  }
  return { url: `http://127.0.0.1:${server.port}/mcp`, port: server.port, got, open, until }
}

function clientOf(url: string, options: Partial<HttpClientOptions> & { readonly clock?: Clock } = {}) {
  const client = new HttpClient(url, { clock: systemClock, env: {}, ...options })
  closing.push(() => client.close())
  const post = (more: Partial<Parameters<HttpClient["fetch"]>[1]> = {}) =>
    client.fetch(url, { method: "POST", headers: {}, body: "{}", ...more })
  return { client, post, said: (more = {}) => post(more).then((response) => response.text(), messageOf) }
}

/** Lets the sockets of this process deliver what they have. */
async function turns(count = 20): Promise<void> {
  for (let turn = 0; turn < count; turn++) await new Promise((resolve) => setImmediate(resolve))
}

const response = (body: string, headers = "") =>
  `HTTP/1.1 200 OK\r\n${headers}Content-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`
const answerOk = ({ socket, connection }: Got) => void socket.write(response(`on ${connection}`))

test("a request arrives with its headers and body, and with svc's own headers of the connection", async () => {
  const server = listen(answerOk)
  const { said } = clientOf(`${server.url}?a=b`)
  const headers = { "X-One": "1", Connection: "close", "Content-Length": "9", "Transfer-Encoding": "chunked" }
  expect(await said({ headers, body: "höhe" })).toBe("on 1")
  const [head = "", body] = server.got[0]?.text.split("\r\n\r\n") ?? []
  const [first, ...lines] = head.split("\r\n")
  expect(first).toBe("POST /mcp?a=b HTTP/1.1")
  expect(lines.toSorted()).toEqual([
    "Accept-Encoding: gzip, br, zstd",
    "Accept: */*",
    "Connection: keep-alive",
    "Content-Length: 5",
    `Host: 127.0.0.1:${server.port}`,
    `User-Agent: ${navigator.userAgent}`,
    "X-One: 1",
  ])
  expect(Buffer.from(body ?? "", "latin1").toString()).toBe("höhe")
})

test.each([
  ["X-Key", "s3cret\r\nX-Other: 1"],
  ["X-Key", "s3cret\0"],
  ["X-Key", "日本"],
  ["X Key", "s3cret"],
])("the invalid header %p is refused without its value", async (name, value) => {
  const server = listen(answerOk)
  const { said } = clientOf(server.url)
  const reason = await said({ headers: { [name]: value } })
  expect(reason).toBe(`the header ${JSON.stringify(name)} is not valid`)
  expect(await said()).toBe("on 1")
  expect(server.got).toHaveLength(1)
})

test("a request to another origin is refused", async () => {
  const { client } = clientOf("http://127.0.0.1:1/mcp")
  await expect(client.fetch("http://127.0.0.1:2/mcp", { headers: {} })).rejects.toThrow("has another origin")
})

test.each([
  ["Keep-Alive: timeout=5\r\n", 3999, 4000],
  ["Keep-Alive: timeout=2\r\n", 999, 1000],
  ["Keep-Alive: timeout=1\r\n", 499, 500],
  ["", 3999, 4000],
])(
  "a connection with %p is used again for %d ms, and not after %d ms [remote:keep-alive]",
  async (header, before, after) => {
    const clock = manualClock()
    const server = listen(({ socket, connection }) => void socket.write(response(`on ${connection}`, header)))
    const { said } = clientOf(server.url, { clock })
    expect(await said()).toBe("on 1")
    await clock.pass(before)
    expect(await said()).toBe("on 1")
    await clock.pass(after)
    expect(await said()).toBe("on 2")
    await server.until(() => server.open.size === 1)
  },
)

test("if the server closes a connection sooner, later ones are reused for a shorter time [remote:keep-alive]", async () => {
  const clock = manualClock()
  const server = listen(answerOk)
  const { said, client } = clientOf(server.url, { clock })
  expect(await said()).toBe("on 1")
  await clock.pass(3000)
  for (const socket of server.open) socket.end()
  await turns()
  expect(await said()).toBe("on 2")
  await clock.pass(1999)
  expect(await said()).toBe("on 2")
  await clock.pass(2000)
  expect(await said()).toBe("on 3")
  client.close()
})

test("a request that meets a closed connection shortens the time as well, for ten minutes [remote:keep-alive]", async () => {
  const clock = manualClock()
  const server = closeReused()
  const { said } = clientOf(server.url, { clock })
  expect(await said()).toBe("on 1")
  await clock.pass(3000)
  expect(await said({ mayRepeat: () => true })).toBe("on 2")
  await clock.pass(2000)
  expect(await said()).toBe("on 3")
  await clock.pass(600_000)
  expect(await said()).toBe("on 4")
  await clock.pass(3999)
  expect(await said({ mayRepeat: () => true })).toBe("on 5")
  expect(server.got.map(({ connection }) => connection)).toEqual([1, 1, 2, 3, 4, 4, 5])
})

/** A server that closes each connection on the arrival of its second request, as it does at the end of the idle time. */
const closeReused = () => {
  const counts = new Map<number, number>()
  return listen((one) => {
    const count = (counts.get(one.connection) ?? 0) + 1
    counts.set(one.connection, count)
    if (count === 1) answerOk(one)
    else one.socket.end()
  })
}

test("a request that may be repeated is sent again on a new connection if a reused one ends without an answer [remote:repeat]", async () => {
  const server = closeReused()
  const { said } = clientOf(server.url)
  expect(await said()).toBe("on 1")
  expect(await said({ mayRepeat: () => true })).toBe("on 2")
  expect(server.got.map(({ connection }) => connection)).toEqual([1, 1, 2])
})

test("a request that may not be repeated is sent once, and its failure says that it was sent [remote:repeat]", async () => {
  const server = closeReused()
  const { said, post } = clientOf(server.url)
  expect(await said()).toBe("on 1")
  await expect(post({ mayRepeat: () => false })).rejects.toMatchObject({ code: "ECONNRESET", wasSent: true })
  expect(server.got).toHaveLength(2)
})

test("a request is repeated if a new connection ends without an answer, unless it may not be [remote:repeat]", async () => {
  const server = listen((one) => (one.connection % 2 === 1 ? one.socket.end() : answerOk(one)))
  const { said, post } = clientOf(server.url)
  expect(await said({ mayRepeat: () => true })).toBe("on 2")
  for (const socket of server.open) socket.end()
  await server.until(() => server.open.size === 0)
  await turns()
  await expect(post({ mayRepeat: () => false })).rejects.toMatchObject({ code: "ECONNRESET", wasSent: true })
  expect(server.got.map(({ connection }) => connection)).toEqual([1, 2, 3])
})

test("a request is repeated once, on a new connection, and not after a byte of the response [remote:repeat]", async () => {
  let count = 0
  const server = listen((one) => {
    if (++count === 1) answerOk(one)
    else one.socket.end(count === 6 ? "H" : "")
  })
  const { said, post } = clientOf(server.url)
  expect(await said()).toBe("on 1")
  const repeated = { mayRepeat: () => true }
  for (const total of [3, 5, 6]) {
    await expect(post(repeated)).rejects.toMatchObject({ code: "ECONNRESET" })
    expect(server.got).toHaveLength(total)
  }
  expect(server.got.map(({ connection }) => connection)).toEqual([1, 1, 2, 3, 4, 5])
})

test("a connection that cannot be opened is no reason to repeat a request [remote:repeat]", async () => {
  let asked = 0
  const { post } = clientOf("http://127.0.0.1:1/mcp")
  const mayRepeat = () => ++asked > 0
  await expect(post({ mayRepeat })).rejects.toMatchObject({ code: "ECONNREFUSED" })
  expect(asked).toBe(0)
})

test("beyond the limit, requests wait in turn, except urgent ones [remote:limit]", async () => {
  const server = listen(() => undefined)
  const { post, said } = clientOf(server.url, { limit: 2 })
  const first = [post(), post()]
  const waiting = [said({ body: "third" }), said({ body: "fourth" })]
  void said({ body: "urgent", isUrgent: true })
  await server.until(() => server.got.length === 3)
  expect(server.got[2]?.text).toEndWith("urgent")
  for (const one of server.got.slice(0, 2)) answerOk(one)
  await Promise.all(first)
  await server.until(() => server.got.length === 4)
  answerOk(server.got[2] as Got)
  await server.until(() => server.got.length === 5)
  expect(server.got.slice(3).map(({ text }) => text.split("\r\n\r\n")[1])).toEqual(["third", "fourth"])
  for (const one of server.got.slice(3)) answerOk(one)
  expect((await Promise.all(waiting)).every((text) => text.startsWith("on "))).toBe(true)
})

test("a request that waits ends with its signal or the client, and takes no connection [remote:limit]", async () => {
  const server = listen(() => undefined)
  const { client, post, said } = clientOf(server.url, { limit: 1 })
  const first = said()
  await server.until(() => server.got.length === 1)
  const controller = new AbortController()
  const second = post({ signal: controller.signal })
  const third = said({ body: "third" })
  controller.abort(new Error("given up"))
  await expect(second).rejects.toThrow("given up")
  server.got.forEach(answerOk)
  expect(await first).toBe("on 1")
  await server.until(() => server.got.length === 2)
  expect(server.got[1]?.text).toEndWith("third")
  const fourth = said()
  client.close()
  expect(await third).toContain("closed")
  expect(await fourth).toContain("closed")
  await server.until(() => server.open.size === 0)
})

test("a request that is aborted while its connection opens is not sent, and the connection serves the next [remote:limit]", async () => {
  const server = listen(answerOk)
  const { post, said } = clientOf(server.url, { limit: 1 })
  const controller = new AbortController()
  const first = post({ body: "first", signal: controller.signal })
  controller.abort(new Error("given up"))
  await expect(first).rejects.toThrow("given up")
  expect(await said({ body: "second" })).toBe("on 1")
  expect(server.got.map(({ text }) => text.split("\r\n\r\n")[1])).toEqual(["second"])
})

test("the number of requests that wait is limited [remote:limit]", async () => {
  const server = listen(() => undefined)
  const { client, post } = clientOf(server.url, { limit: 1 })
  const sent = Array.from({ length: MAX_WAITING + 2 }, () => post())
  const failures = await Promise.all(sent.slice(-1).map((one) => one.catch((error: unknown) => error)))
  expect(networkReason(server.url, failures[0])).toContain("too many requests wait for it")
  client.close()
  await Promise.allSettled(sent)
})

test("a request that is aborted while it is sent, or while its body arrives, ends its connection and frees its place", async () => {
  const server = listen(({ socket, text }) => {
    if (text.endsWith("begin")) socket.write("HTTP/1.1 200 OK\r\nContent-Length: 10000000\r\n\r\nhalf")
    if (text.endsWith("{}")) socket.write(response("ok"))
  })
  const { post, said } = clientOf(server.url, { limit: 1 })
  const silent = new AbortController()
  const first = post({ body: "silent", signal: silent.signal })
  await server.until(() => server.got.length === 1)
  silent.abort(new Error("given up"))
  await expect(first).rejects.toThrow("given up")
  const late = new AbortController()
  const begun = await post({ body: "begin", signal: late.signal })
  late.abort(new Error("given up late"))
  await expect(begun.text()).rejects.toThrow("given up late")
  const cancelled = await post({ body: "begin" })
  await cancelled.body?.cancel()
  expect(await said()).toBe("ok")
  await server.until(() => server.open.size === 1)
})

test.each([
  ["is in an unknown coding", "Content-Encoding: lzw\r\nContent-Length: 2\r\n\r\nab", ""],
  ["ends with the part that its reader refuses", "Transfer-Encoding: chunked\r\n\r\n", "1\r\na\r\n0\r\n\r\n"],
])("a response that %s frees its place once [remote:limit]", async (_what, begin, rest) => {
  const server = listen(({ connection, socket }) => {
    if (connection === 1) socket.write(`HTTP/1.1 200 OK\r\n${begin}`)
  })
  const { post } = clientOf(server.url, { limit: 1 })
  const refused = post().then((one) => {
    server.got[0]?.socket.write(rest)
    return one.read(() => {
      throw new Error("refused")
    })
  })
  await expect(refused).rejects.toThrow()
  const later = [post(), post()]
  await server.until(() => server.got.length === 2)
  await turns()
  expect(server.got).toHaveLength(2)
  answerOk(server.got[1] as Got)
  await server.until(() => server.got.length === 3)
  answerOk(server.got[2] as Got)
  await Promise.all(later)
})

test("a body that breaks off is read up to there, and its reader waits in between [remote:http]", async () => {
  const server = listen(({ socket }) => void socket.end("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nbegin"))
  const { post } = clientOf(server.url)
  const parts: string[] = []
  const wait = async () => void (await turns(5))
  const read = (await post()).read((part) => {
    parts.push(Buffer.from(part).toString())
    return wait()
  })
  await expect(read).rejects.toMatchObject({ code: "ECONNRESET" })
  expect(parts).toEqual(["begin"])
})

test("bytes after a response, or before a request, end the connection and count as no response [remote:http]", async () => {
  const forged = response("forged")
  const server = listen((one) => {
    if (one.connection === 1) one.socket.write(response("first") + forged)
    else answerOk(one)
  })
  const { said } = clientOf(server.url)
  expect(await said()).toBe("first")
  expect(await said()).toBe("on 2")
  for (const socket of server.open) if (socket.data.number === 2) socket.write(forged)
  await server.until(() => server.open.size === 0)
  expect(await said()).toBe("on 3")
})

test("a body arrives in parts, and a slow reader stops the server", async () => {
  const part = Buffer.alloc(64 * 1024, "x")
  const total = 32 * 1024 * 1024
  let written = 0
  const fill = (socket: Socket<Link>) => {
    while (written < total) {
      const count = socket.write(part.subarray(0, Math.min(part.length, total - written)))
      written += Math.max(0, count)
      if (count < part.length) return
    }
  }
  const server = Bun.listen<Link>({
    hostname: "127.0.0.1",
    port: 0,
    socket: {
      data(socket) {
        socket.write(`HTTP/1.1 200 OK\r\nContent-Length: ${total}\r\n\r\n`)
        fill(socket)
      },
      drain: fill,
    },
  })
  closing.push(() => server.stop(true))
  const { post } = clientOf(`http://127.0.0.1:${server.port}/`)
  const slow = await post()
  const reader = slow.body?.getReader()
  let size = (await reader?.read())?.value?.length ?? 0
  await turns(200)
  expect(written).toBeLessThan(total / 2)
  for (;;) {
    const next = await reader?.read()
    if (next?.done !== false) break
    size += next.value.length
  }
  expect(size).toBe(total)
})

test.each([
  ["gzip", gzipSync("compressed")],
  ["x-gzip", gzipSync("compressed")],
  ["zstd", zstdCompressSync("compressed")],
  ["identity", Buffer.from("compressed")],
])("a body in %s is decoded, whole or in parts", async (coding, body) => {
  const server = listen(({ socket, text }) => {
    const head = `HTTP/1.1 200 OK\r\nContent-Encoding: ${coding}\r\n`
    if (text.endsWith("whole")) {
      socket.write(Buffer.concat([Buffer.from(`${head}Content-Length: ${body.length}\r\n\r\n`), body]))
      return
    }
    socket.write(`${head}Transfer-Encoding: chunked\r\n\r\n`)
    for (const byte of body)
      socket.write(Buffer.concat([Buffer.from("1\r\n"), Buffer.from([byte]), Buffer.from("\r\n")]))
    socket.write("0\r\n\r\n")
  })
  const { said } = clientOf(server.url)
  expect(await said({ body: "whole" })).toBe("compressed")
  expect(await said({ body: "parts" })).toBe("compressed")
})

test("a body that ends too soon, has an unknown coding or an invalid chunk is refused [remote:http]", async () => {
  const zipped = gzipSync("compressed").subarray(0, 15)
  const whole = (head: string, body: Uint8Array | string) =>
    Buffer.concat([Buffer.from(`HTTP/1.1 200 OK\r\n${head}\r\n\r\n`), Buffer.from(body as string)])
  const answers: Record<string, Buffer> = {
    cut: whole("Content-Length: 100", "short"),
    chunk: whole("Transfer-Encoding: chunked", "5\r\nhello\r\n"),
    invalid: whole("Transfer-Encoding: chunked", "5\r\nhello\r\nx\r\n"),
    gzip: whole(`Content-Encoding: gzip\r\nContent-Length: ${zipped.length}`, zipped),
    coding: whole("Content-Encoding: lzw\r\nContent-Length: 5", "hello"),
  }
  const server = listen(({ socket, text }) => {
    const kind = text.slice(text.lastIndexOf("\n") + 1)
    socket.end(answers[kind] ?? "")
  })
  const { post } = clientOf(server.url)
  for (const body of Object.keys(answers)) await expect(post({ body }).then((one) => one.text())).rejects.toThrow()
})

test("a failure to connect has a code, and frees its place", async () => {
  const gone = listen(answerOk)
  closing.pop()?.()
  const { post } = clientOf(gone.url, { limit: 1 })
  for (let tries = 0; tries < 3; tries++) await expect(post()).rejects.toMatchObject({ code: "ECONNREFUSED" })
  const unknown = clientOf("http://no-such-host.invalid/mcp")
  await expect(unknown.post()).rejects.toMatchObject({ code: "ENOTFOUND" })
})

test("the error for a server that does not speak HTTP says so [remote:http]", async () => {
  const server = listen(({ socket }) => void socket.write("220 mail.example.com ESMTP\r\n\r\n"))
  const failure: unknown = await clientOf(server.url)
    .post()
    .catch((error: unknown) => error)
  expect(networkReason(server.url, failure)).toBe(
    `127.0.0.1:${server.port} sent an invalid HTTP response (its first line)`,
  )
})

test("cookies are sent back over the connections of one client [remote:cookies]", async () => {
  const server = listen(
    (one) => void one.socket.write(response("x", "Set-Cookie: node=2; Path=/\r\nSet-Cookie: b=3\r\n")),
  )
  const { said } = clientOf(server.url)
  await said()
  await said({ headers: { Cookie: "own=1" } })
  expect(server.got.map(({ text }) => /^cookie: (.*)\r$/im.exec(text)?.[1])).toEqual([undefined, "own=1; node=2; b=3"])
  await clientOf(server.url).said()
  expect(server.got[2]?.text).not.toMatch(/cookie/i)
})

/** Creates a certificate for 127.0.0.1 that no authority has signed. */
function certificate(): Bun.TLSOptions {
  const folder = mkdtempSync(join(tmpdir(), "svc-tls-"))
  const [key, cert] = [join(folder, "key.pem"), join(folder, "cert.pem")]
  Bun.spawnSync([
    ...["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"],
    ...["-keyout", key, "-out", cert, "-subj", "/CN=x", "-addext", "subjectAltName=IP:127.0.0.1"],
  ])
  return { key: Bun.file(key), cert: Bun.file(cert) }
}

test("a server over TLS is used only if its certificate is trusted, directly and through a tunnel", async () => {
  const server = listen(answerOk, certificate())
  const url = `https://127.0.0.1:${server.port}/mcp`
  const proxy = listenAsTunnel(server.port)
  for (const route of [{}, { HTTPS_PROXY: proxy.url }]) {
    await expect(clientOf(url, { env: route }).post()).rejects.toMatchObject({ code: "DEPTH_ZERO_SELF_SIGNED_CERT" })
    const env = { ...route, NODE_TLS_REJECT_UNAUTHORIZED: "0" }
    const { said } = clientOf(url, { env })
    expect(await said()).toStartWith("on ")
    expect(await said()).toStartWith("on ")
  }
  expect(server.got).toHaveLength(4)
  expect(proxy.asked).toEqual(Array.from({ length: 2 }, () => `CONNECT 127.0.0.1:${server.port} HTTP/1.1`))
})

test.each([
  ["HTTP/1.1 400 Bad Request\r\n\r\n", "EPROTO"],
  ["", "ECONNRESET"],
])("a server that answers a TLS handshake with %j fails the request at once", async (answer, code) => {
  const server = Bun.listen({ hostname: "127.0.0.1", port: 0, socket: { data: (socket) => void socket.end(answer) } })
  closing.push(() => server.stop(true))
  await expect(clientOf(`https://127.0.0.1:${server.port}/`).post()).rejects.toMatchObject({ code })
})

/** A proxy that opens a tunnel to a port of this machine. */
function listenAsTunnel(port: number) {
  type Tunnel = { far?: Socket<undefined> }
  const asked: string[] = []
  const server = Bun.listen<Tunnel>({
    hostname: "127.0.0.1",
    port: 0,
    socket: {
      async data(socket, chunk) {
        if (socket.data?.far !== undefined) {
          socket.data.far.write(chunk)
          return
        }
        asked.push(chunk.toString().split("\r\n")[0] ?? "")
        const far = await Bun.connect<undefined>({
          hostname: "127.0.0.1",
          port,
          socket: { data: (_far, bytes) => void socket.write(bytes), close: () => void socket.end() },
        })
        socket.data = { far }
        socket.write("HTTP/1.1 200 Connection established\r\n\r\n")
      },
      close: (socket) => void socket.data?.far?.end(),
    },
  })
  closing.push(() => server.stop(true))
  return { url: `http://127.0.0.1:${server.port}`, asked }
}

test("a proxy gets the whole address of a request over http, with its own credentials", async () => {
  const proxy = listen(answerOk)
  const env = { http_proxy: `http://us%40er:word@127.0.0.1:${proxy.port}` }
  const { said } = clientOf("http://far.example/mcp?a=b", { env })
  expect(await said()).toBe("on 1")
  expect(proxy.got[0]?.text).toStartWith("POST http://far.example/mcp?a=b HTTP/1.1\r\n")
  expect(proxy.got[0]?.text).toContain(`\r\nProxy-Authorization: Basic ${btoa("us@er:word")}\r\n`)
  expect(proxy.got[0]?.text).toContain("\r\nHost: far.example\r\n")
})

test.each(["http", "https"])("a proxy of %s that cannot be reached is named, without its password", async (scheme) => {
  const gone = Bun.listen({ hostname: "127.0.0.1", port: 0, socket: { data() {} } })
  const at = `127.0.0.1:${gone.port}`
  gone.stop(true)
  const url = `${scheme}://far.example/mcp`
  const env = { [`${scheme}_proxy`]: `http://user:hunter2@${at}` }
  const error: unknown = await clientOf(url, { env })
    .post()
    .catch((failure: unknown) => failure)
  expect(networkReason(url, error)).toBe(
    `nothing listens at ${at}; it is the proxy that ${scheme.toUpperCase()}_PROXY names`,
  )
  expect([isConnectionRefused(error), Bun.inspect(error).includes("hunter2")]).toEqual([true, false])
})

test("a proxy that refuses a tunnel is named as the cause", async () => {
  const proxy = listen(({ socket }) => void socket.write("HTTP/1.1 407 No\r\nContent-Length: 0\r\n\r\n"))
  const { post } = clientOf("https://far.example/mcp", { env: { HTTPS_PROXY: `127.0.0.1:${proxy.port}` } })
  await expect(post()).rejects.toMatchObject({ code: "ERR_PROXY_REFUSED" })
})

test.each([
  ["http://a.example/", { HTTP_PROXY: "http://p:1" }, "http://p:1/"],
  ["https://a.example/", { HTTP_PROXY: "http://p:1" }, undefined],
  ["https://a.example/", { HTTPS_PROXY: "p:1" }, "http://p:1/"],
  ["http://a.example/", { HTTP_PROXY: "http://p:1", NO_PROXY: "x, .example" }, undefined],
  ["http://a.example/", { HTTP_PROXY: "http://p:1", NO_PROXY: "example" }, undefined],
  ["http://a.example/", { HTTP_PROXY: "http://p:1", NO_PROXY: "le, b.example" }, "http://p:1/"],
  ["http://a.example:81/", { HTTP_PROXY: "http://p:1", no_proxy: "a.example:81" }, undefined],
  ["http://a.example:82/", { HTTP_PROXY: "http://p:1", no_proxy: "a.example:81" }, "http://p:1/"],
  ["http://a.example/", { HTTP_PROXY: "http://p:1", NO_PROXY: "*" }, undefined],
  ["http://a.example/", { HTTP_PROXY: "" }, undefined],
])("the proxy for %s with %j is %p", (url, env, proxy) => {
  expect(proxyFor(new URL(url), env)?.href).toBe(proxy)
})
