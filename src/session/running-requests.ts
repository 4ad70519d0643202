/** The running requests of one client, so that the client can cancel them. basic: Cancellation. */

import { type Answer, refusalAnswer } from "../call/answer.ts"
import type { Exchange } from "../call/client.ts"
import { ArrayMap } from "../lib/array-map.ts"
import { type Id, isId, keyOfId, type Params } from "../wire/message.ts"

export class RunningRequests {
  private readonly exchanges = new ArrayMap<number | string, Exchange>()
  /** Cancelled requests that have not ended. Usually empty, so a search costs nothing. */
  private readonly unwanted: Exchange[] = []

  get size(): number {
    return this.exchanges.size
  }

  /**
   * Registers a request until `end`. Returns false, without registering it, if a request with this id runs and is not
   * cancelled.
   */
  begin(id: Id, exchange: Exchange): boolean {
    const key = keyOf(id)
    const before = this.exchanges.get(key)
    if (before !== undefined && !this.unwanted.includes(before)) return false
    this.exchanges.set(key, exchange)
    return true
  }

  /** Removes a registered request. Returns whether it needs an answer: a cancelled request does not. */
  end(id: Id, exchange: Exchange): boolean {
    const key = keyOf(id)
    if (this.exchanges.get(key) === exchange) this.exchanges.take(key)
    const at = this.unwanted.indexOf(exchange)
    if (at >= 0) this.unwanted.splice(at, 1)
    return at < 0
  }

  /** Cancels the request that a client's `notifications/cancelled` names. Returns whether it runs here. */
  cancel({ requestId, reason }: Params): boolean {
    const exchange = isId(requestId) ? this.exchanges.get(keyOf(requestId)) : undefined
    if (exchange === undefined) return false
    if (!this.unwanted.includes(exchange)) this.unwanted.push(exchange)
    exchange.cancellation.cancel(typeof reason === "string" ? reason : "was cancelled by the client")
    return true
  }

  /** Cancels all requests and answers none of them, because the client ended the session itself. */
  drop(reason: string): void {
    for (const exchange of this.exchanges.values()) if (!this.unwanted.includes(exchange)) this.unwanted.push(exchange)
    this.close(reason)
  }

  /** Cancels all requests and answers them with an error, because the client did not cancel them itself. */
  close(reason: string): void {
    for (const exchange of this.exchanges.values()) exchange.cancellation.cancel(reason)
    this.exchanges.clear()
  }
}

/** Returns the refusal of a request with the id of a running request. basic: Requests. */
export const repeatedId = (id: Id): Answer =>
  refusalAnswer(
    id,
    "invalid_request",
    "A request with this id is in flight already; give each request an id of its own",
  )

// ---

/** Returns the key of an id. Most ids are numbers, which are their own keys; the keys of other ids are texts. */
const keyOf = (id: Id): number | string => (typeof id === "number" ? id : keyOfId(id))
