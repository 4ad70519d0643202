/**
 * Keeps the state of the page up to date: reads everything once, then follows the events of svc.
 *
 *  1. The stream opens before the first read, so that the page misses no change between the two.
 *  2. A hidden page closes its stream, because all tabs of a browser together get only six connections to one address.
 *  3. After a lost connection, the page retries and reads everything again, because it missed events.
 */
import { type Api, Problem, textOf } from "./api.ts"
import type { Store } from "./store.ts"
import type { Activity, Configuration, FinishedCall, Server, State, Status, ToolQuestion } from "./types.ts"

export type Live = {
  start(): void
  /** Opens a new event stream, after a login. */
  follow(): void
  /** Reads everything again. */
  refresh(): Promise<void>
}

/** Creates the updater of a store. */
export function createLive(api: Api, store: Store<State>): Live {
  let closeStream: (() => void) | undefined
  let waiting: ReturnType<typeof setTimeout> | undefined
  let counting: ReturnType<typeof setTimeout> | undefined

  const readConfiguration = async () => {
    const [{ file, issues }, status] = await Promise.all([
      api.get<Configuration>("/config"),
      api.get<Status>("/status"),
    ])
    store.set({ file, issues, status })
  }
  const readActivity = async () => {
    const { since, items } = await api.get<{ since: string; items: readonly Activity[] }>("/activity")
    store.set({ activity: items, countedSince: since })
  }
  const readAll = async () => {
    const [session, servers] = await Promise.all([
      api.get<{ principal: string }>("/session"),
      api.all<Server>("/servers"),
      readConfiguration(),
      readActivity(),
    ])
    const { catalog, configuration } = store.get()
    store.set({
      phase: "ready",
      principal: session.principal,
      servers,
      catalog: catalog + 1,
      configuration: configuration + 1,
    })
  }
  const refresh = async () => {
    try {
      await readAll()
    } catch (error) {
      const isLogin = error instanceof Problem && (error.status === 401 || error.status === 403)
      store.set(isLogin ? { phase: "login", ...refusalOf(error) } : { phase: "lost", trouble: textOf(error) })
      close()
      if (!isLogin) retry()
    }
  }
  const close = () => {
    closeStream?.()
    closeStream = undefined
  }
  const retry = () => {
    clearTimeout(waiting)
    waiting = setTimeout(follow, RETRY_MS)
  }
  const quietly = (read: Promise<void>) => read.catch(() => undefined)
  const handlers: Readonly<Record<string, (data: never) => void>> = {
    server(server: Server) {
      const { servers } = store.get()
      const isKnown = servers.some(({ name }) => name === server.name)
      store.set({
        servers: isKnown
          ? servers.map((one) => (one.name === server.name ? server : one))
          : [...servers, server].sort((one, other) => (one.name < other.name ? -1 : 1)),
      })
    },
    removed({ name }: { name: string }) {
      store.set({ servers: store.get().servers.filter((one) => one.name !== name) })
    },
    configuration() {
      store.set({ configuration: store.get().configuration + 1 })
      quietly(readConfiguration())
    },
    question(question: ToolQuestion) {
      store.set({ questions: [...store.get().questions.filter(({ id }) => id !== question.id), question] })
    },
    answered({ id }: { id: string }) {
      store.set({ questions: store.get().questions.filter((one) => one.id !== id) })
    },
    catalog() {
      store.set({ catalog: store.get().catalog + 1 })
    },
    call(call: FinishedCall) {
      store.set({ calls: [call, ...store.get().calls].slice(0, MAX_CALLS) })
      if (counting !== undefined) return
      counting = setTimeout(() => {
        counting = undefined
        quietly(readActivity())
      }, COUNT_MS)
    },
  }
  const follow = () => {
    close()
    if (document.hidden) return
    const ended = () => {
      // The read shows why the stream ended: the login is no longer valid, or svc has stopped.
      closeStream = undefined
      void refresh().then(() => {
        if (store.get().phase === "ready" && closeStream === undefined) retry()
      })
    }
    closeStream = api.follow(
      "/events",
      {},
      {
        onopen: () => void refresh(),
        onevent: (name, data) => handlers[name]?.(data as never),
        onend: ended,
      },
    )
  }
  return {
    start() {
      follow()
      document.addEventListener("visibilitychange", follow)
    },
    follow,
    refresh,
  }
}

// ---

const RETRY_MS = 1500
const COUNT_MS = 1000
const MAX_CALLS = 200

/** Returns the login that svc requires, and why it refused the browser's current login. */
function refusalOf({ status, message, data, requiredLogin }: Problem): Pick<State, "requiredLogin" | "refusal"> {
  if (status !== 403) return { requiredLogin, refusal: undefined }
  return { requiredLogin: data.scope === undefined ? "token" : "issuer", refusal: message }
}
