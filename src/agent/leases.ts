/** Processes that sessions have of their own, of servers with `isolation: "session"`. */
import type { Backend } from "../backend/backend.ts"

export class Leases {
  private readonly bySession = new Map<object, Map<string, Backend>>()

  /** A session's, by the id of their server. */
  of(session: object): ReadonlyMap<string, Backend> {
    return this.bySession.get(session) ?? NONE
  }

  all(): readonly Backend[] {
    return [...this.bySession.values()].flatMap((own) => [...own.values()])
  }

  add(session: object, id: string, backend: Backend): void {
    const own = this.bySession.get(session) ?? new Map<string, Backend>()
    this.bySession.set(session, own)
    own.set(id, backend)
  }

  /** Takes out those of one server, or of one session. */
  take(wanted: { readonly id?: string; readonly session?: object }): readonly Backend[] {
    const taken: Backend[] = []
    for (const [session, own] of this.bySession) {
      if (wanted.session !== undefined && wanted.session !== session) continue
      for (const [id, backend] of own) {
        if (wanted.id !== undefined && wanted.id !== id) continue
        own.delete(id)
        taken.push(backend)
      }
      if (own.size === 0) this.bySession.delete(session)
    }
    return taken
  }
}

const NONE: ReadonlyMap<string, Backend> = new Map()
