/** Records what sessions want to receive from backends: updates of resources, and log messages from a level upwards. */
import { isWithin } from "../catalog/name.ts"
import { type Era, MCP_LOG_LEVELS } from "../wire/era.ts"

export type SubscriptionsDeps = {
  /** Called when a session has subscribed or unsubscribed; `isShared`: whether it is the first or last one of its era. */
  onsubscriptions(id: string, session: object, isShared: boolean): void
  /** Called when a session has set its log level. */
  onlevel(session: object): void
  /** Called when the log level that svc requests from shared backends has changed. */
  onsharedlevel(): void
}

export class Subscriptions {
  /** The sessions that are subscribed, each with its client's era, by server id and URI. */
  private readonly subscribers = new Map<string, Map<string, Map<object, Era>>>()
  private readonly logLevels = new Map<object, string | undefined>()
  /** The number of sessions that have each level. */
  private readonly levelCounts = new Map<string | undefined, number>()
  private announced: string | undefined
  private readonly watchers: ((id: string, uri: string, session: object) => void)[] = []

  constructor(private readonly deps: SubscriptionsDeps) {}

  /** Returns the resources of a backend that any session, this one, or one of an era is subscribed to. */
  uris(id: string, session?: object, era?: Era): string[] {
    const all = [...(this.subscribers.get(id) ?? [])]
    return all.flatMap(([uri, sessions]) => {
      const isWanted = session === undefined || sessions.has(session)
      return isWanted && (era === undefined || countOf(sessions, era) > 0) ? [uri] : []
    })
  }

  /** Whether a session that `counts` accepts is subscribed to exactly this resource. */
  isSubscribed(id: string, uri: string, counts: (session: object) => boolean): boolean {
    for (const session of this.subscribers.get(id)?.get(uri)?.keys() ?? []) if (counts(session)) return true
    return false
  }

  /** Calls `watcher` after a session has subscribed to a resource, or unsubscribed from it. */
  watch(watcher: (id: string, uri: string, session: object) => void): void {
    this.watchers.push(watcher)
  }

  /** Returns the sessions that are subscribed to a resource, or to one that contains it. */
  subscribersOf(id: string, uri: string): ReadonlySet<object> {
    const found = new Set<object>()
    for (const [known, sessions] of this.subscribers.get(id) ?? [])
      if (isWithin(uri, known)) for (const session of sessions.keys()) found.add(session)
    return found
  }

  /** Subscribes a session of a client to a resource of a backend, by the backend's own URI. */
  subscribe(id: string, uri: string, session: object, era: Era): void {
    const uris = this.subscribers.get(id) ?? new Map<string, Map<object, Era>>()
    this.subscribers.set(id, uris)
    const sessions = uris.get(uri) ?? new Map<object, Era>()
    uris.set(uri, sessions)
    sessions.set(session, era)
    this.deps.onsubscriptions(id, session, countOf(sessions, era) === 1)
    for (const watcher of this.watchers) watcher(id, uri, session)
  }

  unsubscribe(id: string, uri: string, session: object): void {
    const uris = this.subscribers.get(id)
    const sessions = uris?.get(uri)
    const era = sessions?.get(session)
    sessions?.delete(session)
    const isLast = sessions !== undefined && era !== undefined && countOf(sessions, era) === 0
    if (sessions?.size === 0) {
      uris?.delete(uri)
      if (uris?.size === 0) this.subscribers.delete(id)
    }
    this.deps.onsubscriptions(id, session, isLast)
    for (const watcher of this.watchers) watcher(id, uri, session)
  }

  /** Sets the log level of a session; undefined lets servers choose. Returns the level before. */
  setLevel(session: object, level: string | undefined): string | undefined {
    const before = this.logLevels.get(session)
    this.dropLevel(session)
    this.logLevels.set(session, level)
    this.levelCounts.set(level, (this.levelCounts.get(level) ?? 0) + 1)
    this.deps.onlevel(session)
    this.announceLevel()
    return before
  }

  /**
   * Drops a session's log level. Notifies backends only at the next change, because modern clients set and drop the level
   * with each request.
   */
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
   * Returns the log level that svc requests from shared backends. A legacy backend has one level for all clients: the least
   * severe that any session wants. A session without a level gets every message, so svc requests all messages while
   * another session has a level.
   */
  get sharedLevel(): string | undefined {
    return this.announced
  }

  /** Removes the subscriptions of a session, and its log level. */
  forget(session: object): void {
    const own = [...this.subscribers].flatMap(([id, uris]) =>
      [...uris].flatMap(([uri, sessions]) => (sessions.has(session) ? [[id, uri] as const] : [])),
    )
    for (const [id, uri] of own) this.unsubscribe(id, uri, session)
    this.dropLevel(session)
    this.announceLevel()
  }

  // ---

  /** Backends keep the last level if no session has one. */
  private announceLevel(): void {
    const least = MCP_LOG_LEVELS.find((level) => this.levelCounts.has(level))
    const level = least !== undefined && this.levelCounts.has(undefined) ? MCP_LOG_LEVELS[0] : least
    if (level === undefined || level === this.announced) return
    this.announced = level
    this.deps.onsharedlevel()
  }
}

// ---

function countOf(sessions: ReadonlyMap<object, Era>, era: Era): number {
  let count = 0
  for (const one of sessions.values()) if (one === era) count++
  return count
}
