/** A store: one immutable state, and the listeners to its changes. */
import { useEffect, useReducer, useRef } from "preact/hooks"

export type Store<T> = {
  get(): T
  /** Replaces the given members. */
  set(change: Partial<T>): void
  /** Calls `onchange` after each change; the returned function unsubscribes. */
  subscribe(onchange: () => void): () => void
}

/** Creates a store. */
export function createStore<T extends object>(initial: T): Store<T> {
  let state = initial
  const listeners = new Set<() => void>()
  return {
    get: () => state,
    set(change) {
      state = { ...state, ...change }
      for (const listener of listeners) listener()
    },
    subscribe(onchange) {
      listeners.add(onchange)
      return () => listeners.delete(onchange)
    },
  }
}

/** Returns the selected part of the state, and renders again when it changes. `select` must return a member, not a copy. */
export function useSelected<T, R>(store: Store<T>, select: (state: T) => R): R {
  const [, redraw] = useReducer((count: number) => count + 1, 0)
  const value = select(store.get())
  // The component may render with another `select` between two changes.
  const latest = useRef({ select, value })
  latest.current = { select, value }
  useEffect(() => {
    const update = () => {
      const { select: read, value: drawn } = latest.current
      if (read(store.get()) !== drawn) redraw(undefined)
    }
    update()
    return store.subscribe(update)
  }, [store])
  return value
}
