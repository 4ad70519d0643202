/**
 * Tells the code that works on a request that the client gave the request up.
 *
 *  1. The first reason stays. Code that checks later still sees it, so a cancellation between two awaits is not lost.
 *  2. A listener is called at most once: immediately if the request is already cancelled.
 *  3. An AbortSignal is created only for code that needs one: most calls are never cancelled.
 */
import { RequestError } from "../lib/errors.ts"

export class Cancellation {
  private given: string | undefined
  /** Most requests have one listener at a time: only further ones need a list. */
  private listener: ((reason: string) => void) | undefined
  private furtherListeners: ((reason: string) => void)[] | undefined
  private controller: AbortController | undefined

  /** Why the request was given up; undefined while it is wanted. */
  get reason(): string | undefined {
    return this.given
  }

  /** Cancels the request. Later calls change nothing. */
  cancel(reason: string): void {
    if (this.given !== undefined) return
    this.given = reason
    for (let next = this.takeListener(); next !== undefined; next = this.takeListener()) next(reason)
  }

  /** Calls `listener` when the request is cancelled. */
  onabort(listener: (reason: string) => void): void {
    if (this.given !== undefined) {
      listener(this.given)
      return
    }
    if (this.listener === undefined && this.furtherListeners === undefined) {
      this.listener = listener
      return
    }
    this.furtherListeners ??= []
    this.furtherListeners.push(listener)
  }

  /** Removes a listener. */
  offabort(listener: (reason: string) => void): void {
    if (this.listener === listener) {
      this.listener = undefined
      return
    }
    const at = this.furtherListeners?.indexOf(listener) ?? -1
    if (at >= 0) this.furtherListeners?.splice(at, 1)
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

  // ---

  private takeListener(): ((reason: string) => void) | undefined {
    const { listener } = this
    if (listener === undefined) return this.furtherListeners?.shift()
    this.listener = undefined
    return listener
  }
}
