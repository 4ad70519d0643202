/** The requests of one client that run, so that the client can cancel them. basic: Cancellation. */
import { ArrayMap } from "../lib/array-map.ts"
import { type Id, isId, keyOfId, type Params } from "../wire/message.ts"
import { type Answer, refusalAnswer } from "./answer.ts"
import type { Exchange } from "./client.ts"

export class RunningRequests {
  private readonly exchanges = new ArrayMap<number | string, Exchange>()
  /** Cancelled requests that have not ended. Mostly empty, so a search costs nothing. */
  private readonly unwanted: Exchange[] = []

  get size(): number {
    return this.exchanges.size
  }

  /** Registers a request, until `end`. Returns false, and does not, if a request with this id runs that is not cancelled. */
  begin(id: Id, exchange: Exchange): boolean {
    const key = keyOf(id)
    const before = this.exchanges.get(key)
    if (before !== undefined && !this.unwanted.includes(before)) return false
    this.exchanges.set(key, exchange)
    return true
  }

  /** Removes a request that has begun. Returns whether it gets an answer: a cancelled one gets none. */
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

/** Refuses a request with the id of one that runs. basic: Requests. */
export const repeatedId = (id: Id): Answer =>
  refusalAnswer(
    id,
    "invalid_request",
    "A request with this id is in flight already; give each request an id of its own",
  )

// ---

/** Most ids are numbers, which need no text to be told apart; the text of any other id is no number. */
const keyOf = (id: Id): number | string => (typeof id === "number" ? id : keyOfId(id))
