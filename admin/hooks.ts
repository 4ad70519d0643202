/** Hooks of the views: what is read, what is done, and the time. */
import { useCallback, useEffect, useRef, useState } from "preact/hooks"
import { Problem } from "./api.ts"
import { useApp } from "./context.ts"

export type Loaded<T> = {
  /** The last answer; it stays while a newer one is read. */
  readonly data: T | undefined
  /** What was wrong and what to do; undefined after a success. */
  readonly error: string | undefined
  readonly isLoading: boolean
  reload(): void
}

/** Reads something, and again when one of `inputs` changes. An answer that comes after a newer one is dropped. */
export function useLoaded<T>(read: () => Promise<T>, inputs: readonly unknown[]): Loaded<T> {
  const [state, setState] = useState<Omit<Loaded<T>, "reload">>({ data: undefined, error: undefined, isLoading: true })
  const [round, setRound] = useState(0)
  useEffect(() => {
    let isCurrent = true
    setState(({ data }) => ({ data, error: undefined, isLoading: true }))
    read().then(
      (data) => isCurrent && setState({ data, error: undefined, isLoading: false }),
      (error) => isCurrent && setState(({ data }) => ({ data, error: textOf(error), isLoading: false })),
    )
    return () => {
      isCurrent = false
    }
  }, [...inputs, round])
  return { ...state, reload: useCallback(() => setRound((before) => before + 1), []) }
}

/** Returns what runs a change and shows its failure, and the name of the change that runs now. */
export function useAction(): readonly [
  busy: string | undefined,
  run: (name: string, action: () => Promise<string | undefined>) => Promise<boolean>,
] {
  const { ui, live } = useApp()
  const [busy, setBusy] = useState<string>()
  const run = async (name: string, action: () => Promise<string | undefined>): Promise<boolean> => {
    setBusy(name)
    try {
      const done = await action()
      if (done !== undefined) ui.say("good", done)
      return true
    } catch (error) {
      if (error instanceof Problem && error.status === 401) await live.refresh()
      else ui.say("bad", textOf(error))
      return false
    } finally {
      setBusy(undefined)
    }
  }
  return [busy, run]
}

/** Returns the time in milliseconds, and draws again every `every` milliseconds. */
export function useNow(every: number): number {
  const [now, setNow] = useState(() => Date.now())
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), every)
    return () => clearInterval(timer)
  }, [every])
  return now
}

/** Returns a value as it was `ms` milliseconds after its last change: for searches while a person types. */
export function useSettled<T>(value: T, ms: number): T {
  const [settled, setSettled] = useState(value)
  const first = useRef(true)
  useEffect(() => {
    if (first.current) {
      first.current = false
      return
    }
    const timer = setTimeout(() => setSettled(value), ms)
    return () => clearTimeout(timer)
  }, [value, ms])
  return settled
}

/** Returns the sentence that an error says. */
export const textOf = (error: unknown): string => (error instanceof Error ? error.message : String(error))
