/** Exponential backoff: the delays between the attempts at one thing, in milliseconds. */
export class Backoff {
  private ms: number

  /** Starts at `first` and doubles with each delay, up to `max`. */
  constructor(private readonly bounds: { readonly first: number; readonly max: number }) {
    this.ms = bounds.first
  }

  /** Returns the delay before the next attempt. */
  next(): number {
    const { ms } = this
    this.ms = Math.min(ms * 2, this.bounds.max)
    return ms
  }

  /** Starts over after a success, at `first` or at the delay that the peer requested. */
  reset(ms: number = this.bounds.first): void {
    this.ms = ms
  }
}
