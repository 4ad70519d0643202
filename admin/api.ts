/** REST of svc, as the page calls it. */

/** A problem that REST answers with (RFC 9457), or a connection that failed (status 0). */
export class Problem extends Error {
  override readonly name = "Problem"
  constructor(
    readonly status: number,
    detail: string,
    readonly code: string,
    readonly data: Readonly<Record<string, unknown>>,
  ) {
    super(detail)
  }
}

type Query = Readonly<Record<string, string | number | boolean | undefined>>
type Method = "POST" | "PUT" | "PATCH" | "DELETE"

export type Api = {
  /** Returns the answer to a GET. Throws a Problem. */
  get<T>(path: string, query?: Query): Promise<T>
  /** Returns the answer to a change. Throws a Problem. */
  send<T>(method: Method, path: string, body?: unknown, headers?: Readonly<Record<string, string>>): Promise<T>
  /** Returns all entries of a list that comes in pages. Throws a Problem. */
  all<T>(path: string, query?: Query): Promise<readonly T[]>
  /** Returns the address of an event stream. */
  address(path: string, query?: Query): string
  /** Sets what changes send in X-CSRF-Token. */
  useCsrf(token: string | undefined): void
}

/** Makes the calls to REST at `base`. */
export function createApi(base: string): Api {
  let csrf: string | undefined
  const address = (path: string, query: Query = {}): string => {
    const given = Object.entries(query).flatMap(([key, value]) =>
      value === undefined || value === "" ? [] : [[key, String(value)]],
    )
    return `${base}${path}${given.length === 0 ? "" : `?${new URLSearchParams(given)}`}`
  }
  const ask = async <T>(url: string, init: RequestInit): Promise<T> => {
    const response = await fetch(url, init).catch(() => {
      throw new Problem(0, "svc does not answer. Is it still running? `svc status` shows it.", "unreachable", {})
    })
    const body: unknown = await response.json().catch(() => ({}))
    if (response.ok) return body as T
    const { detail, code, data } = body as { detail?: string; code?: string; data?: Record<string, unknown> }
    throw new Problem(response.status, detail ?? `svc answered ${response.status}`, code ?? "", data ?? {})
  }
  const get = <T>(path: string, query?: Query) => ask<T>(address(path, query), {})
  return {
    address,
    get,
    send: (method, path, body, headers) =>
      ask(address(path), {
        method,
        headers: {
          ...(body === undefined ? {} : { "content-type": "application/json" }),
          ...(csrf === undefined ? {} : { "x-csrf-token": csrf }),
          ...headers,
        },
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
    useCsrf(token) {
      csrf = token
    },
  }
}
