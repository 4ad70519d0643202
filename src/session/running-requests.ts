/** The requests of one client that run, so that the client can cancel them. basic: Cancellation. */
import { type Id, isId, keyOfId, type Params } from "../wire/message.ts"
import type { Exchange } from "./client.ts"

export class RunningRequests {
  private readonly exchanges = new Map<string, Exchange>()
  private readonly unwanted = new WeakSet<Exchange>()

  get size(): number {
    return this.exchanges.size
  }

  /** Registers a request. The returned function removes it and says whether it gets an answer: a cancelled one gets none. */
  begin(id: Id, exchange: Exchange): () => boolean {
    const key = keyOfId(id)
    this.exchanges.set(key, exchange)
    return () => {
      if (this.exchanges.get(key) === exchange) this.exchanges.delete(key)
      return !this.unwanted.has(exchange)
    }
  }

  /** Cancels the request that a client's `notifications/cancelled` names. */
  cancel({ requestId, reason }: Params): void {
    const exchange = isId(requestId) ? this.exchanges.get(keyOfId(requestId)) : undefined
    if (exchange === undefined) return
    this.unwanted.add(exchange)
    exchange.cancellation.cancel(typeof reason === "string" ? reason : "was cancelled by the client")
  }

  /** Cancels all requests and answers them with an error, because the client did not cancel them itself. */
  end(reason: string): void {
    for (const exchange of this.exchanges.values()) exchange.cancellation.cancel(reason)
    this.exchanges.clear()
  }
}
