/** What sessions want to hear of backends: resources they are subscribed to, and how much of the logs. */
import { isWithin } from "../catalog/name.ts"
import { MCP_LOG_LEVELS } from "../wire/log-level.ts"

export class Subscriptions {
  private readonly subscribers = new Map<string, Map<string, Set<object>>>()
  private readonly logLevels = new Map<object, string | undefined>()
  /** How many have each level. */
  private readonly levelCounts = new Map<string | undefined, number>()

  /** The resources of a backend that somebody is subscribed to, or this session. */
  uris(id: string, session?: object): string[] {
    const all = [...(this.subscribers.get(id) ?? [])]
    return all.flatMap(([uri, sessions]) => (session === undefined || sessions.has(session) ? [uri] : []))
  }

  /** The sessions that are subscribed to a resource, or to one that it is a part of. */
  subscribersOf(id: string, uri: string): ReadonlySet<object> {
    const found = new Set<object>()
    for (const [known, sessions] of this.subscribers.get(id) ?? [])
      if (isWithin(uri, known)) for (const session of sessions) found.add(session)
    return found
  }

  /** True where nobody was subscribed to it before. */
  subscribe(id: string, uri: string, session: object): boolean {
    const uris = this.subscribers.get(id) ?? new Map<string, Set<object>>()
    this.subscribers.set(id, uris)
    const sessions = uris.get(uri) ?? new Set<object>()
    uris.set(uri, sessions)
    sessions.add(session)
    return sessions.size === 1
  }

  /** True where nobody is subscribed to it any more. */
  unsubscribe(id: string, uri: string, session: object): boolean {
    const uris = this.subscribers.get(id)
    const sessions = uris?.get(uri)
    if (uris === undefined || sessions === undefined || !sessions.delete(session) || sessions.size > 0) return false
    uris.delete(uri)
    if (uris.size === 0) this.subscribers.delete(id)
    return true
  }

  /** All that a session is subscribed to, by backend and URI. */
  of(session: object): (readonly [id: string, uri: string])[] {
    return [...this.subscribers].flatMap(([id, uris]) =>
      [...uris].flatMap(([uri, sessions]) => (sessions.has(session) ? [[id, uri] as const] : [])),
    )
  }

  /** A client hears of logs from now on: of this level and above, or what servers choose to say where it has set none. */
  setLevel(session: object, level: string | undefined): void {
    this.dropLevel(session)
    this.logLevels.set(session, level)
    this.levelCounts.set(level, (this.levelCounts.get(level) ?? 0) + 1)
  }

  dropLevel(session: object): void {
    if (!this.logLevels.has(session)) return
    const level = this.logLevels.get(session)
    this.logLevels.delete(session)
    const left = (this.levelCounts.get(level) ?? 0) - 1
    if (left > 0) this.levelCounts.set(level, left)
    else this.levelCounts.delete(level)
  }

  levelOf(session: object): string | undefined {
    return this.logLevels.get(session)
  }

  /**
   * legacy backends have one log level for all: the least severe that anybody wants. Who has set none hears everything,
   * as long as nobody else has; so it must be while others have.
   */
  get leastLevel(): string | undefined {
    const least = MCP_LOG_LEVELS.find((level) => this.levelCounts.has(level))
    return least !== undefined && this.levelCounts.has(undefined) ? MCP_LOG_LEVELS[0] : least
  }
}
