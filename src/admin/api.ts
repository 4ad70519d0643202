/** The client of svc's REST API. */

/** An error answer of REST (RFC 9457), or a failed connection (status 0). */
export class Problem extends Error {
  override readonly name = "Problem"
  constructor(
    readonly status: number,
    detail: string,
    readonly code: string,
    readonly data: Readonly<Record<string, unknown>>,
    /** The login that svc requires (`--auth`): a client token, or also a token from an issuer. */
    readonly requiredLogin: "nothing" | "token" | "issuer" = "nothing",
  ) {
    super(detail)
  }
}

type Query = Readonly<Record<string, string | number | boolean | undefined>>
type Method = "POST" | "PUT" | "PATCH" | "DELETE"

type EventHandlers = {
  /** Called when the stream is open: data read from now on misses no later event. */
  onopen(): void
  onevent(name: string, data: unknown): void
  /** Called when the stream has ended or could not be opened, unless the page closed it. */
  onend(): void
}

export type Api = {
  /** Returns the answer to a GET. Throws a Problem. */
  get<T>(path: string, query?: Query): Promise<T>
  /** Returns the answer to a change. Throws a Problem. */
  send<T>(method: Method, path: string, body?: unknown, headers?: Readonly<Record<string, string>>): Promise<T>
  /** Returns all entries of a paginated list. Throws a Problem. */
  all<T>(path: string, query?: Query): Promise<readonly T[]>
  /** Follows an event stream; the returned function closes it. */
  follow(path: string, query: Query, handlers: EventHandlers): () => void
  /** Logs this browser in with a token. Throws a Problem. */
  logIn(token: string): Promise<void>
  /** Ends the login. Throws a Problem. */
  logOut(): Promise<void>
}

/** Stores the CSRF key of the login. All tabs of this origin share it, as they share the cookie. */
export type KeyStore = Pick<Storage, "getItem" | "setItem" | "removeItem">

/** Stores the key that the link of `svc admin` carries, and removes it from the address bar. */
export function keepKeyOfLink(keys: KeyStore): void {
  const [, key] = /^#key=([\w-]+)$/.exec(location.hash) ?? []
  if (key === undefined) return
  keys.setItem(KEY, key)
  history.replaceState(null, "", location.pathname)
}

/** Creates a client of REST at `base`. Each request carries the key: svc refuses a cookie alone (features/rest/admin-login.ts). */
export function createApi(base: string, keys: KeyStore): Api {
  const address = (path: string, query: Query = {}): string => {
    const given = Object.entries(query).flatMap(([key, value]) =>
      value === undefined || value === "" ? [] : [[key, String(value)]],
    )
    return `${base}${path}${given.length === 0 ? "" : `?${new URLSearchParams(given)}`}`
  }
  const open = (url: string, init: RequestInit): Promise<Response> =>
    fetch(url, { ...init, headers: { "x-csrf-token": keys.getItem(KEY) ?? "", ...init.headers } }).catch(() => {
      throw new Problem(0, "svc does not answer. Is it still running? `svc ps` shows it.", "unreachable", {})
    })
  const ask = async <T>(url: string, init: RequestInit): Promise<T> => {
    const response = await open(url, init)
    const body: unknown = await response.json().catch(() => ({}))
    if (response.ok) return body as T
    const { detail, code, data } = body as { detail?: string; code?: string; data?: Record<string, unknown> }
    const requiredLogin = requiredLoginOf(response.headers.get("www-authenticate"))
    throw new Problem(
      response.status,
      detail ?? `svc answered ${response.status}`,
      code ?? "",
      data ?? {},
      requiredLogin,
    )
  }
  const get = <T>(path: string, query?: Query) => ask<T>(address(path, query), {})
  return {
    get,
    send: (method, path, body, headers) =>
      ask(address(path), {
        method,
        headers: { ...(body === undefined ? {} : { "content-type": "application/json" }), ...headers },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      }),
    async all<T>(path: string, query: Query = {}) {
      const items: T[] = []
      for (let cursor: string | undefined; ; ) {
        const page = await get<{ items: T[]; nextCursor?: string }>(path, { limit: 1000, ...query, cursor })
        items.push(...page.items)
        cursor = page.nextCursor
        if (cursor === undefined) return items
      }
    },
    follow(path, query, { onopen, onevent, onend }) {
      const stop = new AbortController()
      const read = async () => {
        const response = await open(address(path, query), { signal: stop.signal })
        if (!response.ok || response.body === null) return
        onopen()
        const reader = response.body.pipeThrough(new TextDecoderStream()).getReader()
        for (let text = ""; ; ) {
          const { done, value } = await reader.read()
          if (done) return
          const events = (text + value).split("\n\n")
          text = events.pop() ?? ""
          for (const event of events) {
            const [, name] = /^event: (.*)$/m.exec(event) ?? []
            const [, data] = /^data: (.*)$/m.exec(event) ?? []
            if (name !== undefined && data !== undefined) onevent(name, JSON.parse(data))
          }
        }
      }
      const end = () => {
        if (!stop.signal.aborted) onend()
      }
      read().then(end, end)
      return () => stop.abort()
    },
    async logIn(token) {
      const authorization = `Bearer ${token}`
      const { csrf } = await ask<{ csrf: string }>(address("/session"), { method: "POST", headers: { authorization } })
      keys.setItem(KEY, csrf)
    },
    async logOut() {
      await ask(address("/session"), { method: "DELETE" })
      keys.removeItem(KEY)
    },
  }
}

/** Returns the message of an error. */
export const textOf = (error: unknown): string => (error instanceof Error ? error.message : String(error))

// ---

const KEY = "svc-admin-key"

/** Returns the login that a challenge requires. With an issuer, svc's challenge names its metadata (RFC 9728). */
function requiredLoginOf(challenge: string | null): Problem["requiredLogin"] {
  if (challenge === null) return "nothing"
  return challenge.includes("resource_metadata=") ? "issuer" : "token"
}
