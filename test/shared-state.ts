/** Shared state within the process: stands in for Redis where a test is about what replicas do with it. */
import type { Clock } from "../src/lib/clock.ts"
import { UnavailableError } from "../src/lib/errors.ts"
import { leaseKey, type SharedState } from "../src/store/shared-state.ts"

export type LocalNetwork = {
  /** Opens the state for one more replica. */
  open(): SharedState
  /** Takes the state away from all replicas, or brings it back. */
  set connected(value: boolean)
}

type Entry = { fields: Map<string, string>; until: number }

export function localNetwork(clock: Clock): LocalNetwork {
  const records = new Map<string, Entry>()
  const fences = new Map<string, number>()
  const buckets = new Map<string, { left: number; at: number }>()
  const messageListeners = new Set<(text: string) => void>()
  const stateListeners = new Set<(connected: boolean) => void>()
  let connected = true
  const find = (key: string): Entry | undefined => {
    const found = records.get(key)
    if (found !== undefined && found.until > clock.now()) return found
    records.delete(key)
    return undefined
  }
  /** As over a network: later, and not at all while it is away. */
  const step = async <T>(run: () => T): Promise<T> => {
    await Promise.resolve()
    if (!connected) throw new UnavailableError("away", { retryAfter: 2 })
    return run()
  }
  return {
    set connected(value: boolean) {
      connected = value
      for (const listener of stateListeners) listener(value)
    },
    open() {
      const own = new Set<() => void>()
      const listen = <T>(listeners: Set<T>, listener: T) => {
        listeners.add(listener)
        const end = () => void listeners.delete(listener)
        own.add(end)
        return end
      }
      return {
        get connected() {
          return connected
        },
        read: (key) =>
          step(() => {
            const found = find(key)
            return found === undefined ? undefined : Object.fromEntries(found.fields)
          }),
        write: (key, changes, { ttl, require } = {}) =>
          step(() => {
            const found = find(key)
            if (require !== undefined && (found === undefined) !== (require === "absent")) return false
            const fields = found?.fields ?? new Map<string, string>()
            for (const [field, value] of Object.entries(changes))
              if (value === undefined) fields.delete(field)
              else fields.set(field, value)
            const until = ttl === undefined ? (found?.until ?? Number.POSITIVE_INFINITY) : clock.now() + ttl
            if (fields.size === 0) records.delete(key)
            else records.set(key, { fields, until })
            return true
          }),
        swap: (key, field, expected, next) =>
          step(() => {
            const fields = find(key)?.fields ?? new Map<string, string>()
            if (fields.get(field) !== expected) return false
            records.set(key, { fields: fields.set(field, next), until: find(key)?.until ?? Number.POSITIVE_INFINITY })
            return true
          }),
        remove: (key) => step(() => find(key) !== undefined && records.delete(key)),
        take: (key, perMinute) =>
          step(() => {
            const bucket = buckets.get(key) ?? { left: perMinute, at: clock.now() }
            buckets.set(key, bucket)
            bucket.left = Math.min(perMinute, bucket.left + ((clock.now() - bucket.at) * perMinute) / 60_000)
            bucket.at = clock.now()
            if (bucket.left < 1) return Math.max(1, Math.ceil(((1 - bucket.left) * 60) / perMinute))
            bucket.left--
            return undefined
          }),
        lease: (name, holder, ttl) =>
          step(() => {
            const key = leaseKey(name)
            if (find(key) !== undefined) return undefined
            const token = (fences.get(name) ?? 0) + 1
            fences.set(name, token)
            records.set(key, {
              fields: new Map([
                ["token", String(token)],
                ["holder", holder],
              ]),
              until: clock.now() + ttl,
            })
            const held = () => {
              const found = find(key)
              return found?.fields.get("token") === String(token) ? found : undefined
            }
            return {
              token,
              renew: () =>
                step(() => {
                  const found = held()
                  if (found !== undefined) found.until = clock.now() + ttl
                  return found !== undefined
                }),
              release: () => step(() => void (held() !== undefined && records.delete(key))),
            }
          }),
        publish: (text) =>
          step(() => {
            for (const listener of [...messageListeners]) listener(text)
          }),
        onmessage: (listener) => listen(messageListeners, listener),
        onstate: (listener) => listen(stateListeners, listener),
        close() {
          for (const end of own) end()
        },
      }
    },
  }
}
