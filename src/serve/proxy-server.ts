/**
 * Serves clients that connect through `svc proxy`: lines on a socket that only this user can open (on Windows a loopback
 * port with a token). The first line is a `hello` with the client's project; MCP follows as over stdio, with a `moved` line
 * whenever the project changes. svc's own commands also connect here, and ask with `ask` lines what svc offers the project.
 */
import type { Socket } from "bun"
import { type Scope, withoutBudget } from "../catalog/scope.ts"
import { codesOf, isBug, publicMessage, RequestError } from "../lib/errors.ts"
import { parseIfJson } from "../lib/json.ts"
import { lazy } from "../lib/lazy.ts"
import { schemaProblem } from "../lib/schema-problem.ts"
import { isSameMark } from "../lib/seal.ts"
import { Pipe } from "../session/pipe.ts"
import { decode } from "../wire/frame.ts"
import { createSplitter, lineOf } from "../wire/lines.ts"
import { isObject, type Params } from "../wire/message.ts"
import type { McpDeps } from "./mcp.ts"
import type * as Schemas from "./proxy-schema.ts"
import type { Ask } from "./proxy-schema.ts"
import {
  createTrustedClient,
  type ProjectContext,
  type TrustedClient,
  type TrustedClientDeps,
} from "./trusted-client.ts"

/** The address of the proxy socket: a path, or a loopback port. */
export type ProxyAddress = { readonly unix: string } | { readonly hostname: "127.0.0.1"; readonly port: number }

/** A message between svc and `svc proxy` that is not MCP. */
export type ProxyMessage =
  | {
      readonly svc: "hello"
      readonly token: string
      readonly surroundings: ProjectContext
      /** Set by svc's own commands, which accept results of any size. */
      readonly wholeResults?: true
    }
  | { readonly svc: "moved"; readonly surroundings: ProjectContext }
  | { readonly svc: "ask"; readonly id: number; readonly question: string; readonly params: Params }
  | { readonly svc: "answer"; readonly id: number; readonly result: unknown }
  | { readonly svc: "answer"; readonly id: number; readonly error: { readonly message: string; readonly exit: number } }
  | { readonly svc: "welcome"; readonly version: string }
  | { readonly svc: "refused" | "note"; readonly message: string }

/** The prefix of a proxy message. No JSON begins like this, so no client or server can forge such a message. */
const MARK = "svc "
export const formatProxyMessage = (message: ProxyMessage): string => MARK + JSON.stringify(message)
export const isProxyMessage = (line: string): boolean => line.startsWith(MARK)
/** Returns the JSON value of a proxy message; undefined if it is no JSON. */
export const parseProxyMessage = (line: string): unknown => parseIfJson(line.slice(MARK.length))

/** Lines to send to a socket. Call `drain` when the socket can accept more. */
export type SendQueue = { write(line: Uint8Array | string): void; drain(): void }

/** Queues bytes that the socket does not accept at once. Calls `overflow` if more than `limit` bytes wait. */
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

export type ProxyServerDeps = {
  readonly mcp: McpDeps
  readonly trustedClient: TrustedClientDeps
  readonly maxResult: number
  /** Answers a question of svc's own commands about the offer of a scope. Throws a typed error that the command shows. */
  answer(scope: Scope, question: string, params: Params): Promise<unknown>
}

/** Listens at `address`. Closes connections without `token` in their first line. */
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
      for (const socket of connections) {
        socket.data.stop()
        // Promise jobs send the answers before this runs.
        setImmediate(() => socket.end())
      }
    },
  }
}

/** How many results of the largest size may wait for a client that does not read before svc disconnects it. */
export const WAITING_RESULTS = 2

// ---

type ProxyConnection = {
  feed(bytes: Uint8Array): void
  drain(): void
  /** Answers the running requests, because svc stops. */
  stop(): void
  close(): void
}

function createProxyConnection(
  socket: Socket<ProxyConnection>,
  token: string,
  { mcp, trustedClient: deps, maxResult, answer }: ProxyServerDeps,
): ProxyConnection {
  const queue = createSendQueue(
    () => socket as Socket<unknown>,
    WAITING_RESULTS * maxResult,
    () => socket.terminate(),
  )
  const send = (message: ProxyMessage) => queue.write(formatProxyMessage(message))
  let client: { readonly pipe: Pipe; readonly member: TrustedClient } | undefined
  const refuse = (error: unknown) => {
    if (isBug(error)) mcp.onbug(error)
    send({ svc: "refused", message: mcp.gateway.hide(publicMessage(error)) })
  }
  const greet = (line: string) => {
    const hello = isProxyMessage(line) ? parseProxyMessage(line) : undefined
    if (!isObject(hello) || !isSameMark(String(hello.token), token)) return void socket.end()
    const id = mcp.newId()
    try {
      const member = createTrustedClient(surroundingsOf(hello), id, deps, (message) => send({ svc: "note", message }))
      const scope = hello.wholeResults === true ? withoutBudget(member.scope) : member.scope
      const pipe = new Pipe({ ...mcp, id, scope, principal: "local", send: queue.write, onclient: member.initialize })
      client = { pipe, member }
      send({ svc: "welcome", version: deps.version })
    } catch (error) {
      refuse(error)
      socket.end()
    }
  }
  const reply = async (scope: Scope, { id, question, params }: Ask) => {
    try {
      send({ svc: "answer", id, result: await answer(scope, question, params) })
    } catch (error) {
      if (isBug(error)) mcp.onbug(error)
      const message = mcp.gateway.hide(publicMessage(error))
      send({ svc: "answer", id, error: { message, exit: codesOf(error).exit } })
    }
  }
  const limit = Math.max(mcp.maxBody, MAX_PROXY_MESSAGE)
  const feed = createSplitter(
    (bytes) => {
      const line = decode(bytes)
      if (client === undefined) return greet(line)
      if (!isProxyMessage(line)) return client.pipe.receive(line)
      const message = parseProxyMessage(line)
      const ask = schemas().askSchema().safeParse(message)
      if (ask.success) return void reply(client.member.scope, ask.data)
      try {
        client.member.updateContext(surroundingsOf(message))
        send({ svc: "welcome", version: deps.version })
      } catch (error) {
        refuse(error)
      }
    },
    limit,
    (edges) => client?.pipe.overlong(edges, limit),
  )
  return {
    feed,
    drain: () => queue.drain(),
    stop() {
      client?.pipe.end("svc is shutting down")
    },
    close() {
      client?.pipe.close("client disconnected")
      client?.member.detach()
    },
  }
}

const MAX_PROXY_MESSAGE = 256 * 1024

/** Returns the schemas. Loaded for the first client, not at the start. */
const schemas = lazy((): typeof Schemas => require("./proxy-schema.ts"))

/** Reads the project of a `hello` or `moved`. Throws a RequestError with the problem if it is invalid. */
function surroundingsOf(message: unknown): ProjectContext {
  const { success, data, error } = schemas().proxyMessageSchema().safeParse(message, { error: schemaProblem })
  if (success) return data.surroundings as ProjectContext
  const [problem] = error.issues
  throw new RequestError("invalid_params", `svc proxy sent an invalid ${problem?.path.join(".")}: ${problem?.message}`)
}
