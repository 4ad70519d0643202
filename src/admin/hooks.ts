/** Hooks of the views: read data, run changes, and follow the time. */
import { useCallback, useEffect, useRef, useState } from "preact/hooks"
import { Problem, textOf } from "./api.ts"
import { useApp, useStateOf } from "./context.ts"
import { openView } from "./router.ts"
import type { Usage } from "./types.ts"

export type Loaded<T> = {
  /** The last answer; stays while a newer one is loading. */
  readonly data: T | undefined
  /** The error text; undefined after a success. */
  readonly error: string | undefined
  readonly isLoading: boolean
  reload(): void
}

/** Reads data, and again when one of `inputs` changes. Ignores an answer that arrives after a newer one. */
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
  const reload = useCallback(() => {
    // At once: a view that takes no input while it loads must not take any before the effect runs.
    setState((before) => ({ ...before, isLoading: true }))
    setRound((before) => before + 1)
  }, [])
  return { ...state, reload }
}

/** What a change says when it is done: a text, with the tone of the state that it has led to (default: good). */
export type Done = string | { readonly tone: "good" | "notice" | "bad"; readonly text: string } | undefined

/**
 * Returns the name of the running change, a function that runs a change and shows its result or failure, and the last failure if
 * `shows` is "here": then the view shows it beside its button, and no notice does unless the person has opened another view.
 */
export function useAction(
  shows: "notice" | "here" = "notice",
): readonly [
  busy: string | undefined,
  run: (name: string, action: () => Promise<Done>) => Promise<boolean>,
  problem: string | undefined,
] {
  const { ui, live } = useApp()
  const [busy, setBusy] = useState<string>()
  const [problem, setProblem] = useState<string>()
  const run = async (name: string, action: () => Promise<Done>): Promise<boolean> => {
    setBusy(name)
    setProblem(undefined)
    const here = openView()
    try {
      const done = await action()
      if (typeof done === "string") ui.say("good", done)
      else if (done !== undefined) ui.say(done.tone, done.text)
      return true
    } catch (error) {
      if (error instanceof Problem && error.status === 401) await live.refresh()
      else if (shows === "here" && openView() === here) setProblem(textOf(error))
      else ui.say("bad", textOf(error))
      return false
    } finally {
      setBusy(undefined)
    }
  }
  return [busy, run, problem]
}

/** Returns the time in milliseconds, and renders again every `every` milliseconds. */
export function useNow(every: number): number {
  const [now, setNow] = useState(() => Date.now())
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), every)
    return () => clearInterval(timer)
  }, [every])
  return now
}

/** Returns the time that the counts of calls cover: "in the last hour", or "since 16:12" if svc has counted for less. */
export function useCountedPeriod(): string {
  const since = useStateOf(({ countedSince }) => countedSince)
  const now = useNow(10_000)
  if (since === undefined || Date.parse(since) <= now - HOUR_MS) return "in the last hour"
  return `since ${new Date(since).toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" })}`
}

/** Returns a value only after it has not changed for `ms` milliseconds, for example while a person types a search. */
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

/** Returns the memory and processor time of svc and of its servers, read again every few seconds; undefined until known. */
export function useUsage(): { readonly own: Usage; readonly servers: Readonly<Record<string, Usage>> } | undefined {
  const { api } = useApp()
  return useLoaded(() => api.get<{ own: Usage; servers: Record<string, Usage> }>("/usage"), [useNow(USAGE_MS)]).data
}

const USAGE_MS = 5000
const HOUR_MS = 3_600_000
