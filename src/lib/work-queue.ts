/** Large pieces of work, one at a time, in their order. */
import { UnavailableError } from "./errors.ts"

export class WorkQueue {
  private last: Promise<unknown> = Promise.resolve()
  private count = 0

  /** At most `most` pieces of work are in the queue, with the one that runs. */
  constructor(private readonly most: number) {}

  /** Runs `work` after all that was added before, and settles as it does. Rejects with an UnavailableError if the queue is full. */
  async run<T>(work: () => Promise<T>): Promise<T> {
    if (this.count >= this.most) throw new UnavailableError("svc is busy with requests of this kind; try again soon")
    this.count++
    const running = this.last.then(work).finally(() => this.count--)
    this.last = running.catch(() => undefined)
    return await running
  }
}
