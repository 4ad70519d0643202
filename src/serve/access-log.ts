/**
 * The access log: a line of JSON for each HTTP request, when its response begins. It has no query, no body and no header that may be
 * secret, and known secrets are hidden in what it has.
 */
import type { JournalLine } from "../lib/journal.ts"
import { maskAndCut } from "../session/masked-arguments.ts"
import type { Inbound, Middleware } from "./inbound.ts"
import type { Principal } from "./principal.ts"

type AccessLogDeps = {
  write(line: JournalLine): void
  /** Milliseconds since the epoch. */
  now(): number
  /** Milliseconds since any point in time. */
  ticks(): number
  /** Returns the address of the client, which may be behind a proxy. */
  addressOf(inbound: Inbound): string
  /** Hides secrets in a text. */
  mask(text: string): string
  /** Returns the trace of the MCP message in a request; absent if svc records no traces. */
  traceOf?: ((request: Request) => string | undefined) | undefined
}

/** Middleware around all others, and the one that learns who sent a request. */
export type AccessLog = { readonly around: Middleware; readonly authenticated: Middleware }

/** Creates the middleware. */
export function createAccessLog({ write, now, ticks, addressOf, mask, traceOf }: AccessLogDeps): AccessLog {
  const principals = new WeakMap<Request, Principal>()
  const line = (inbound: Inbound, status: number, started: number) => {
    const { request, path } = inbound
    const at = now()
    const ms = Math.round((ticks() - started) * 100) / 100
    const address = addressOf(inbound)
    const { headers, method } = request
    const shown = (text: string | null) => (text === null ? undefined : maskAndCut(text, mask, MAX_CHARS))
    const text = (name: string) => shown(headers.get(name))
    // Made later, in one batch: the client does not wait for it.
    write({
      text: () =>
        JSON.stringify({
          time: new Date(at).toISOString(),
          address,
          principal: principals.get(request)?.name,
          method,
          path: shown(path),
          status,
          ms,
          mcpMethod: text("mcp-method"),
          mcpName: text("mcp-name"),
          session: text("mcp-session-id"),
          userAgent: text("user-agent"),
          trace: traceOf?.(request),
        }),
    })
  }
  return {
    around(inbound, next) {
      const started = ticks()
      const served = next(inbound)
      if (!(served instanceof Promise)) {
        line(inbound, served.status, started)
        return served
      }
      return served.then((response) => {
        line(inbound, response.status, started)
        return response
      })
    },
    authenticated(inbound, next) {
      principals.set(inbound.request, inbound.principal)
      return next(inbound)
    },
  }
}

// ---

const MAX_CHARS = 200
