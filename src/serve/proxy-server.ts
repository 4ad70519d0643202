/**
 * Clients that come through `svc proxy`: lines on a socket that only this user can open (on Windows a loopback port, with a
 * token). The first line says where the client is; what follows is MCP as over stdio, and a line that says it has moved.
 */
import { timingSafeEqual } from "node:crypto"
import type { Socket } from "bun"
import * as z from "zod"
import { codesOf, publicMessage, RequestError } from "../lib/errors.ts"
import { Pipe } from "../session/pipe.ts"
import { boundedText, customSchema } from "../template/context.ts"
import { decode, encode } from "../wire/frame.ts"
import { createSplitter, lineOf } from "../wire/lines.ts"
import { isObject } from "../wire/message.ts"
import type { McpDeps } from "./mcp.ts"
import {
  createTrustedClient,
  type ProjectContext,
  type TrustedClient,
  type TrustedClientDeps,
} from "./trusted-client.ts"

/** Where the lines are: a path, or a port of this machine. */
export type ProxyAddress = { readonly unix: string } | { readonly hostname: "127.0.0.1"; readonly port: number }

/** What svc and its proxy say to each other beside MCP. */
export type ProxyMessage =
  | { readonly svc: "hello"; readonly token: string; readonly surroundings: ProjectContext }
  | { readonly svc: "moved"; readonly surroundings: ProjectContext }
  | { readonly svc: "welcome"; readonly version: string }
  | { readonly svc: "refused" | "note"; readonly message: string }

/** Begins a line that holds a note. No JSON begins so: nobody whose messages pass through can say such a thing. */
const MARK = "svc "
export const formatProxyMessage = (note: ProxyMessage): string => MARK + JSON.stringify(note)
export const isProxyMessage = (line: string): boolean => line.startsWith(MARK)
/** What a note says; undefined for what is no JSON. */
export function parseProxyMessage(line: string): unknown {
  try {
    return JSON.parse(line.slice(MARK.length))
  } catch {
    return undefined
  }
}

/** Text of JSON lines, written as the other side takes them; at most `limit` bytes wait. */
export type SendQueue = { write(line: Uint8Array | string): void; drain(): void }

/** What is written to a socket that takes only a part at a time. `overflow` is called when too much waits. */
export function createSendQueue(
  socket: () => Socket<unknown> | undefined,
  limit: number,
  overflow: () => void,
): SendQueue {
  const waiting: Uint8Array[] = []
  let size = 0
  const push = (bytes: Uint8Array) => {
    waiting.push(bytes)
    size += bytes.length
    if (size > limit) overflow()
  }
  return {
    write(line) {
      const bytes = lineOf(line)
      if (waiting.length > 0) return push(bytes)
      const taken = socket()?.write(bytes) ?? bytes.length
      if (taken < bytes.length) push(bytes.subarray(Math.max(0, taken)))
    },
    drain() {
      for (let first = waiting[0]; first !== undefined; first = waiting[0]) {
        const taken = Math.max(0, socket()?.write(first) ?? first.length)
        size -= taken
        if (taken < first.length) {
          waiting[0] = first.subarray(taken)
          return
        }
        waiting.shift()
      }
    },
  }
}

/** Opens a socket that only this user may use, from its first moment. */
export function withPrivateUmask<T>(open: () => T): T {
  const before = process.umask(0o177)
  try {
    return open()
  } finally {
    process.umask(before)
  }
}

export type ProxyServerDeps = {
  readonly mcp: McpDeps
  readonly trustedClient: TrustedClientDeps
  readonly maxResult: number
}

/** Listens at `address`. `token` is what a client must know. */
export function listenForProxies(
  address: { readonly unix: string } | { readonly hostname: string; readonly port: number },
  token: string,
  deps: ProxyServerDeps,
): { readonly port: number | undefined; stop(): void } {
  const connections = new Set<Socket<ProxyConnection>>()
  const listener = Bun.listen<ProxyConnection>({
    ...(address as { unix: string }),
    socket: {
      open(socket) {
        connections.add(socket)
        socket.data = createProxyConnection(socket, token, deps)
      },
      data(socket, bytes) {
        socket.data.feed(bytes)
      },
      drain(socket) {
        socket.data.drain()
      },
      close(socket) {
        connections.delete(socket)
        socket.data.close()
      },
      error(socket) {
        socket.end()
      },
    },
  })
  return {
    port: "port" in listener ? (listener.port as number) : undefined,
    stop() {
      listener.stop()
      for (const socket of connections) socket.end()
    },
  }
}

/** How many results of the largest size may wait for a client that does not read; one more, and it is let go. */
export const WAITING_RESULTS = 2

// ---

type ProxyConnection = { feed(bytes: Uint8Array): void; drain(): void; close(): void }

function createProxyConnection(
  socket: Socket<ProxyConnection>,
  token: string,
  { mcp, trustedClient: deps, maxResult }: ProxyServerDeps,
): ProxyConnection {
  const outbox = createSendQueue(
    () => socket as Socket<unknown>,
    WAITING_RESULTS * maxResult,
    () => socket.terminate(),
  )
  const say = (note: ProxyMessage) => outbox.write(formatProxyMessage(note))
  let client: { readonly pipe: Pipe; readonly member: TrustedClient } | undefined
  const refuse = (error: unknown) => {
    if (codesOf(error).http === 500) mcp.onbug(error)
    say({ svc: "refused", message: mcp.gateway.hide(publicMessage(error)) })
  }
  const greet = (line: string) => {
    const hello = isProxyMessage(line) ? parseProxyMessage(line) : undefined
    if (!isObject(hello) || !same(String(hello.token), token)) return void socket.end()
    const id = mcp.newId()
    try {
      const member = createTrustedClient(surroundingsOf(hello), id, "stdio", deps, (message) =>
        say({ svc: "note", message }),
      )
      const { scope } = member
      const pipe = new Pipe({ ...mcp, id, scope, principal: "local", send: outbox.write, onclient: member.initialize })
      client = { pipe, member }
      say({ svc: "welcome", version: deps.version })
    } catch (error) {
      refuse(error)
      socket.end()
    }
  }
  const limit = Math.max(mcp.maxBody, MAX_PROXY_MESSAGE)
  const feed = createSplitter(
    (bytes) => {
      const line = decode(bytes)
      if (client === undefined) return greet(line)
      if (!isProxyMessage(line)) return client.pipe.receive(line)
      try {
        client.member.updateContext(surroundingsOf(parseProxyMessage(line)))
        say({ svc: "welcome", version: deps.version })
      } catch (error) {
        refuse(error)
      }
    },
    limit,
    (edges) => client?.pipe.overlong(edges, limit),
  )
  return {
    feed,
    drain: () => outbox.drain(),
    close() {
      client?.pipe.close("the client is gone")
      client?.member.detach()
    },
  }
}

const MAX_PROXY_MESSAGE = 256 * 1024

const surroundings = z.object({
  project: z.object({
    directory: boundedText,
    root: boundedText,
    branch: boundedText.optional(),
    user: z.object({
      username: boundedText,
      name: boundedText.optional(),
      email: boundedText.optional(),
      home: boundedText,
    }),
    said: z.object({
      projectId: boundedText.optional(),
      environment: boundedText.optional(),
      team: boundedText.optional(),
      custom: customSchema.optional(),
    }),
  }),
  queries: z
    .array(
      z.object({
        tags: z.array(boundedText).optional(),
        filter: boundedText.optional(),
        preset: boundedText.optional(),
      }),
    )
    .max(10),
})
const proxyMessageSchema = z.object({ svc: z.enum(["hello", "moved"]), surroundings })

/** Throws a RequestError that says what is wrong with them. */
function surroundingsOf(note: unknown): ProjectContext {
  const { success, data, error } = proxyMessageSchema.safeParse(note)
  if (success) return data.surroundings as ProjectContext
  const [problem] = error.issues
  throw new RequestError("invalid_params", `svc proxy said ${problem?.path.join(".")}: ${problem?.message}`)
}

function same(one: string, other: string): boolean {
  const [a, b] = [encode(one), encode(other)]
  return a.length === b.length && timingSafeEqual(a, b)
}
