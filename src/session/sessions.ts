/** The table of 2025-era sessions: bounded, and rid of those that nobody has used for long. */
import type { Clock } from "../lib/clock.ts"
import { RequestError } from "../lib/errors.ts"
import type { Face } from "./client.ts"
import type { Session } from "./session.ts"

export type SessionLimits = {
  /** Sessions at most. */
  readonly count: number
  /** Milliseconds after which an unused session ends. */
  readonly ttl: number
}

export class Sessions {
  private readonly byId = new Map<string, Session>()
  private cancelSweep: () => void = () => undefined

  constructor(
    private readonly clock: Clock,
    private readonly limits: SessionLimits,
    private readonly onend: (session: Session) => void,
  ) {
    this.sweep()
  }

  get size(): number {
    return this.byId.size
  }

  all(): Iterable<Session> {
    return this.byId.values()
  }

  /** Throws a RequestError where the table is full of sessions in use. */
  add(session: Session, face: Face): void {
    if (this.byId.size >= this.limits.count) {
      const oldest = this.idlest()
      if (oldest === undefined) throw new RequestError("too_many", `There are ${this.limits.count} sessions already`)
      this.remove(oldest.id, "made room for another session")
    }
    session.lastSeen = this.clock.now()
    session.begin(face)
    this.byId.set(session.id, session)
  }

  /** The session, if it is this principal's; another's is as unknown as none. */
  get(id: string, principal: string): Session | undefined {
    const session = this.byId.get(id)
    if (session === undefined || session.principal !== principal) return undefined
    session.lastSeen = this.clock.now()
    return session
  }

  remove(id: string, reason: string): void {
    const session = this.byId.get(id)
    if (session === undefined) return
    this.byId.delete(id)
    session.end(reason)
    this.onend(session)
  }

  close(): void {
    this.cancelSweep()
    for (const id of [...this.byId.keys()]) this.remove(id, "svc is shutting down")
  }

  private idlest(): Session | undefined {
    let found: Session | undefined
    for (const session of this.byId.values())
      if (
        session.inFlight === 0 &&
        session.outlet === undefined &&
        (found === undefined || session.lastSeen < found.lastSeen)
      )
        found = session
    return found
  }

  private sweep(): void {
    this.cancelSweep = this.clock.after(Math.min(this.limits.ttl, SWEEP_MS), () => {
      const dead = this.clock.now() - this.limits.ttl
      for (const session of [...this.byId.values()])
        if (session.lastSeen < dead && session.inFlight === 0 && session.outlet === undefined)
          this.remove(session.id, "expired")
      this.sweep()
    })
  }
}

// ---

const SWEEP_MS = 60_000
