/**
 * One client at the other end of one channel of frames: stdio, the old HTTP+SSE transport, or `svc proxy`. Answers,
 * notifications and server requests share the channel. Each request decides its era; `initialize` opens a session.
 */

import { type Answer, errorAnswer, failureAnswer } from "../call/answer.ts"
import { Cancellation } from "../call/cancellation.ts"
import type { Exchange } from "../call/client.ts"
import type { ClientCall } from "../call/ports.ts"
import { requestClient } from "../call/request-client.ts"
import type { Scope } from "../catalog/scope.ts"
import { codesOf, publicMessage, RequestError } from "../lib/errors.ts"
import { modernVersionOf } from "../wire/era.ts"
import { decode } from "../wire/frame.ts"
import {
  asMessage,
  errorText,
  idAtEdges,
  idOfText,
  isId,
  isObject,
  isRequest,
  isResponse,
  type Message,
  type Params,
  parseJson,
  type Request,
  resultText,
} from "../wire/message.ts"
import { accept, type EndpointDeps, initialize, serve } from "./endpoint.ts"
import { RunningRequests, repeatedId } from "./running-requests.ts"
import type { Session } from "./session.ts"

type InContext = (era: "legacy" | "modern", params: Params, info: unknown) => Promise<Scope>

/** `http` is the request whose response carries the messages. */
export type PipeDeps = EndpointDeps &
  Pick<ClientCall, "http"> & {
    /** The id of the session that the client may open. */
    readonly id: string
    readonly scope: Scope
    readonly principal: string
    /** Sends a frame to the client. */
    send(frame: Uint8Array | string): void
    /** Receives the client's statements about itself. Its requests wait for this. */
    onclient?(info: Params): Promise<void>
    /** Returns the client's scope in the context that it sends with `initialize`, or with each modern request, which wait for this. */
    readonly inContext?: InContext | undefined
  }

export class Pipe {
  private session: Session | undefined
  /** The running modern requests; a session has its own table. */
  private readonly running = new RunningRequests()
  private identified: Promise<void> | undefined
  /** Pending while `initialize` is answered: requests that were sent after it wait. */
  private opening: Promise<void> | undefined
  /** Requests that wait for their answer; streams do not count. */
  private answering = 0
  /** Resolves when no request waits for its answer. */
  private drain: PromiseWithResolvers<void> | undefined
  /** Cancelled when the client is gone. */
  private readonly cancellation = new Cancellation()

  constructor(private readonly deps: PipeDeps) {}

  /** Handles one frame of the client. Never throws: errors are sent to the client. */
  receive(text: string): void {
    let value: unknown
    try {
      value = parseJson(text)
    } catch (error) {
      const isJson = error instanceof RequestError && error.fault === "invalid_request"
      this.refuse(isJson ? { id: idOfText(text) } : undefined, error)
      return
    }
    for (const one of Array.isArray(value) ? value : [value])
      try {
        this.take(asMessage(one))
      } catch (error) {
        this.refuse(one, error)
      }
  }

  /** Refuses a frame of more than `limit` bytes, of which only the edges were kept. */
  overlong(edges: Uint8Array, limit: number): void {
    const error = new RequestError("invalid_request", `The message is larger than ${limit} bytes`)
    this.send(errorText(idAtEdges(decode(edges)), codesOf(error).rpc, error.message))
  }

  /** Resolves when no request waits for its answer. */
  drained(): Promise<void> {
    if (this.answering === 0) return Promise.resolve()
    this.drain ??= Promise.withResolvers<void>()
    return this.drain.promise
  }

  /** Ends the session and cancels running requests, because the client is gone. Sends nothing more. */
  close(reason: string): void {
    this.cancellation.cancel(reason)
    this.end(reason)
  }

  /** Ends the session, cancels running requests and answers them with the reason, because svc stops. */
  end(reason: string): void {
    if (this.session !== undefined) this.deps.sessions.remove(this.session.id, reason)
    this.running.close(reason)
  }

  // ---

  private send(frame: Uint8Array | string): void {
    if (this.cancellation.reason === undefined) this.deps.send(frame)
  }

  private take(message: Message): void {
    if (isRequest(message)) {
      this.begin(message)
      return
    }
    if (!isResponse(message) && message.method === "notifications/cancelled") this.running.cancel(message.params ?? {})
    if (this.session !== undefined) accept(message, this.session, this.deps.gateway)?.catch(() => undefined)
  }

  /** Refuses a message, with its id if it may be a request, because its client waits for the answer. */
  private refuse(value: unknown, error: unknown): void {
    const { id } = isObject(value) && !("result" in value) && !("error" in value) ? value : {}
    this.send(errorText(isId(id) ? id : undefined, codesOf(error).rpc, publicMessage(error)))
  }

  private begin(request: Request): void {
    const { gateway } = this.deps
    // A ping needs no session, so it does not wait for one.
    if (request.method === "ping" && this.session === undefined && modernVersionOf(request.params) === undefined) {
      this.send(resultText(request.id, "{}"))
      return
    }
    const isStream = request.method === "subscriptions/listen"
    if (!isStream) this.answering++
    const served = this.serve(request)
      .catch((error: unknown) =>
        failureAnswer(request.id, error, { hide: gateway.hide, onbug: gateway.observers.onbug }),
      )
      .then((answer) => {
        if (answer !== undefined) this.send(answer.frame)
      })
      .finally(() => {
        if (!isStream && --this.answering === 0) {
          this.drain?.resolve()
          this.drain = undefined
        }
        if (this.opening === served) this.opening = undefined
      })
    if (request.method === "initialize") this.opening = served
  }

  private async serve(request: Request): Promise<Answer | undefined> {
    const { deps } = this
    const version = modernVersionOf(request.params)
    if (version !== undefined) return this.serveModern(request, version)
    if (request.method === "initialize") return this.open(request)
    if (this.session === undefined && !(await this.waitForSession(request))) return undefined
    const { session } = this
    if (session === undefined) throw new RequestError("invalid_request", "Send initialize first")
    const exchange = this.exchangeFor((method, params, signal, onprogress) =>
      session.ask(method, params, signal, (text) => this.send(text), onprogress),
    )
    const call = { request, client: session, exchange, gateway: deps.gateway, http: deps.http }
    return new Promise((resolve) => serve(call, deps, session.running, resolve))
  }

  /** Waits for the answer to `initialize`. Resolves with false if the client cancels the request meanwhile. */
  private async waitForSession({ id }: Request): Promise<boolean> {
    const exchange = this.exchangeFor(cannotBeAsked)
    const isNew = this.running.begin(id, exchange)
    // A repeated id is refused when the session begins the request.
    await this.opening
    return isNew ? this.running.end(id, exchange) : true
  }

  private async open(request: Request): Promise<undefined> {
    const { deps } = this
    const { id, principal, scope, inContext, http } = deps
    const identify = async () => {
      const { params = {} } = request
      await this.identify(params.clientInfo)
      return inContext?.("legacy", params, params.clientInfo) ?? scope
    }
    const opening = { request, id, principal, cancellation: this.cancellation, identify, http }
    const { session, answer } = await initialize(opening, deps)
    this.session = session
    // Sends the answer before notifications that are held for the session.
    this.send(answer.frame)
    session.open((text) => {
      this.send(text)
      return true
    })
  }

  private async identify(info: unknown): Promise<void> {
    await this.deps.onclient?.(isObject(info) ? info : {})
  }

  private async serveModern(request: Request, version: string): Promise<Answer | undefined> {
    const { deps } = this
    const found = requestClient(version, request.params ?? {}, deps.scope, deps.principal, this)
    if ("refusal" in found)
      return errorAnswer(request.id, found.refusal.code, found.refusal.message, found.refusal.data)
    const { client } = found
    const exchange = this.exchangeFor(cannotBeAsked)
    if (!this.running.begin(request.id, exchange)) return repeatedId(request.id)
    let answer: Answer | undefined
    try {
      this.identified ??= this.identify(client.info)
      await this.identified
      const own = await deps.inContext?.("modern", request.params ?? {}, client.info)
      const call = {
        request,
        client: own === undefined ? client : { ...client, scope: own },
        exchange,
        gateway: deps.gateway,
        http: deps.http,
      }
      answer = await new Promise<Answer | undefined>((resolve) => serve(call, deps, undefined, resolve))
    } finally {
      if (!this.running.end(request.id, exchange)) answer = undefined
    }
    return answer
  }

  private exchangeFor(ask: Exchange["ask"]): Exchange {
    return { cancellation: new Cancellation(), notify: (text) => this.send(text), ask }
  }
}

// ---

const cannotBeAsked = () =>
  Promise.reject(new RequestError("invalid_request", "The client cannot be asked in the middle of this request"))
