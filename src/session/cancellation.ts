/**
 * Tells the code that works on a request that the client gave the request up.
 *
 *  1. The first reason stays. Code that looks later still sees it, so a cancellation between two awaits is not lost.
 *  2. A listener is called at most once: immediately if the request is cancelled already.
 *  3. An AbortSignal is made only for code that takes one: most calls are never cancelled.
 */
import { RequestError } from "../lib/errors.ts"

export class Cancellation {
  private given: string | undefined
  private listeners: ((reason: string) => void)[] | undefined
  private controller: AbortController | undefined

  /** Why the request was given up; undefined while it is wanted. */
  get reason(): string | undefined {
    return this.given
  }

  /** Cancels the request. Later calls change nothing. */
  cancel(reason: string): void {
    if (this.given !== undefined) return
    this.given = reason
    for (let next = this.listeners?.shift(); next !== undefined; next = this.listeners?.shift()) next(reason)
  }

  /** Calls `listener` when the request is cancelled. */
  onabort(listener: (reason: string) => void): void {
    if (this.given !== undefined) {
      listener(this.given)
      return
    }
    this.listeners ??= []
    this.listeners.push(listener)
  }

  /** Removes a listener. */
  offabort(listener: (reason: string) => void): void {
    const at = this.listeners?.indexOf(listener) ?? -1
    if (at >= 0) this.listeners?.splice(at, 1)
  }

  /** Returns a signal that is aborted with the request. */
  get signal(): AbortSignal {
    if (this.controller === undefined) {
      const controller = new AbortController()
      this.controller = controller
      this.onabort((reason) => controller.abort(new RequestError("invalid_request", reason)))
    }
    return this.controller.signal
  }

  /** Throws a RequestError if the request is cancelled. */
  throwIfCancelled(): void {
    if (this.given !== undefined) throw new RequestError("invalid_request", this.given)
  }

  /** Waits for `wait`. Rejects with a RequestError as soon as the request is cancelled. */
  race<T>(wait: Promise<T>): Promise<T> {
    const { promise, resolve, reject } = Promise.withResolvers<T>()
    const give = (reason: string) => reject(new RequestError("invalid_request", reason))
    this.onabort(give)
    wait.then(resolve, reject).finally(() => this.offabort(give))
    return promise
  }
}
