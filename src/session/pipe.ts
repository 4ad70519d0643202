/**
 * One client at the other end of one channel of frames: stdio, or the old HTTP+SSE transport. Answers, notifications and
 * questions share the channel; the first request decides the era.
 */
import type { Scope } from "../catalog/scope.ts"
import { codesOf, publicMessage, RequestError } from "../lib/errors.ts"
import { modernVersionOf } from "../wire/era.ts"
import { decode } from "../wire/frame.ts"
import {
  asMessage,
  errorText,
  idAtEdges,
  isId,
  isObject,
  isRequest,
  isResponse,
  keyOfId,
  type Message,
  type Params,
  parseJson,
  type Request,
  resultText,
} from "../wire/message.ts"
import { Cancellation } from "./cancellation.ts"
import type { Exchange } from "./client.ts"
import { dispatch } from "./dispatch.ts"
import type { Gateway } from "./ports.ts"
import { requestClient } from "./request-client.ts"
import { initializeResult } from "./server-capabilities.ts"
import { Session } from "./session.ts"
import type { Sessions } from "./sessions.ts"
import { openSubscription } from "./subscriptions-listen.ts"
import type { SuspendedCalls } from "./suspended-calls.ts"
import { refuseListen } from "./task-watch.ts"

export type PipeDeps = {
  readonly gateway: Gateway
  readonly sessions: Sessions
  readonly suspendedCalls: SuspendedCalls
  readonly id: string
  readonly scope: Scope
  readonly principal: string
  send(frame: Uint8Array | string): void
  /** The client has said who it is; what it asks for waits for this. */
  onclient?(info: Params): Promise<void>
  onbug(error: unknown): void
}

export class Pipe {
  private session: Session | undefined
  private readonly running = new Map<string, Exchange>()
  /** Graceful ends of the client's open streams. */
  private readonly streams = new Map<string, () => void>()
  private introduced: Promise<void> | undefined
  /** Runs while `initialize` is answered: what was sent behind it waits. */
  private opening: Promise<void> | undefined
  /** Requests that are being answered; streams are none. */
  private answering = 0

  constructor(private readonly deps: PipeDeps) {}

  /** One frame of the client. Never throws; what is wrong with it is told to the client. */
  receive(text: string): void {
    let value: unknown
    try {
      value = parseJson(text)
    } catch (error) {
      this.refuse(undefined, error)
      return
    }
    for (const one of Array.isArray(value) ? value : [value])
      try {
        this.take(asMessage(one))
      } catch (error) {
        this.refuse(one, error)
      }
  }

  /** A frame of the client that was larger than `limit` bytes; its edges are left. */
  overlong(edges: Uint8Array, limit: number): void {
    this.deps.send(errorText(idAtEdges(decode(edges)), -32600, `The message is larger than ${limit} bytes`))
  }

  /** Whether a request waits for its answer. */
  get busy(): boolean {
    return this.answering > 0
  }

  /** The client is gone. */
  close(reason: string): void {
    if (this.session !== undefined) this.deps.sessions.remove(this.session.id, reason)
    for (const exchange of [...this.running.values()]) exchange.cancellation.cancel(reason)
    this.running.clear()
  }

  // ---

  private take(message: Message): void {
    if (isRequest(message)) this.begin(message)
    else if (isResponse(message)) this.session?.answered(message)
    else if (message.method === "notifications/cancelled") this.cancel(message.params?.requestId)
    else this.session?.notified(message.method, message.params ?? {}, this.deps.gateway)
  }

  /** Says what is wrong with a message, under its id where it may have been a request: somebody waits for its answer. */
  private refuse(value: unknown, error: unknown): void {
    const { id } = isObject(value) && !("result" in value) && !("error" in value) ? value : {}
    this.deps.send(errorText(isId(id) ? id : undefined, codesOf(error).rpc, publicMessage(error)))
  }

  private begin(request: Request): void {
    const opening = request.method === "initialize"
    const served = this.serve(request).finally(() => {
      this.answering--
      if (this.opening === served) this.opening = undefined
    })
    this.answering++
    if (opening) this.opening = served
  }

  private cancel(id: unknown): void {
    if (!isId(id)) return
    const key = keyOfId(id)
    const exchange = this.running.get(key)
    this.running.delete(key)
    this.streams.delete(key)
    exchange?.cancellation.cancel("was cancelled by the client")
  }

  private async introduce(info: unknown): Promise<void> {
    await this.deps.onclient?.(isObject(info) ? info : {})
  }

  private async serve(request: Request): Promise<void> {
    const { deps } = this
    const { id, method } = request
    const params = request.params ?? {}
    try {
      const version = modernVersionOf(params)
      if (version !== undefined) return await this.serveModern(request, version)
      if (method === "initialize") {
        await this.introduce(params.clientInfo)
        if (deps.gateway.directory.initialLoad !== undefined) await deps.gateway.directory.initialLoad
        const session = new Session(deps.id, deps.principal, deps.scope, params)
        const result = initializeResult({ gateway: deps.gateway, client: session })
        if (this.session !== undefined) deps.sessions.remove(this.session.id, "was initialized again")
        deps.sessions.add(session, deps.gateway)
        this.session = session
        deps.send(resultText(id, JSON.stringify(result)))
        session.open((text) => {
          deps.send(text)
          return true
        })
        return
      }
      if (this.session === undefined) {
        if (method === "ping") return deps.send(resultText(id, "{}"))
        await this.opening
      }
      const { session } = this
      if (session === undefined) {
        throw new RequestError("invalid_request", "Send initialize first")
      }
      const exchange: Exchange = {
        cancellation: new Cancellation(),
        notify: (text) => deps.send(text),
        ask: (asked, about, signal, onprogress) =>
          session.ask(asked, about, signal, (text) => deps.send(text), onprogress),
      }
      const end = session.run(id, exchange)
      const key = keyOfId(id)
      this.running.set(key, exchange)
      const { frame } = await dispatch({ request, gateway: deps.gateway, client: session, exchange })
      end()
      // A cancelled request gets no answer.
      if (this.running.delete(key)) deps.send(frame)
    } catch (error) {
      const { rpc, http } = codesOf(error)
      if (http === 500) deps.onbug(error)
      deps.send(errorText(id, rpc, deps.gateway.hide(publicMessage(error))))
    }
  }

  private async serveModern(request: Request, version: string): Promise<void> {
    const { deps } = this
    const { id } = request
    const key = keyOfId(id)
    const found = requestClient(version, request.params ?? {}, deps.scope, deps.principal, this)
    if ("refusal" in found) {
      const { code, message, data } = found.refusal
      return deps.send(errorText(id, code, message, data))
    }
    const { client } = found
    const listens = request.method === "subscriptions/listen"
    const refusal = listens ? refuseListen(request, client) : undefined
    if (refusal !== undefined) return deps.send(errorText(id, refusal.code, refusal.message, refusal.data))
    const finish = (frame: Uint8Array | string) => {
      this.streams.delete(key)
      if (this.running.delete(key)) deps.send(frame)
    }
    const exchange = {
      cancellation: new Cancellation(),
      notify: (text: string) => deps.send(text),
      ask: () => Promise.reject(new RequestError("invalid_request", "This client cannot be asked in mid-call")),
      finish,
    }
    this.running.set(key, exchange)
    this.introduced ??= this.introduce(client.info)
    await this.introduced
    // What is not there yet cannot be listened to.
    if (listens && deps.gateway.directory.initialLoad !== undefined) await deps.gateway.directory.initialLoad
    if (!this.running.has(key)) return
    if (listens) {
      this.streams.set(key, openSubscription({ request, client, gateway: deps.gateway, exchange }))
      return
    }
    finish((await deps.suspendedCalls.serve({ request, client, gateway: deps.gateway, exchange })).frame)
  }
}
