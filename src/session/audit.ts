/**
 * The audit log: one JSON line for each call, each management action, each refused login and each change of a token. Lines are written after the answer has gone out.
 * They contain arguments only with `--audit-arguments`, and then without values that look secret.
 */
import type { Route, View } from "../catalog/catalog.ts"
import { isLazyTool } from "../catalog/lazy-tools.ts"
import type { Clock } from "../lib/clock.ts"
import { escaped } from "../lib/log.ts"
import { isObject, type Params, type Request } from "../wire/message.ts"
import { type Answer, bytesOf } from "./answer.ts"
import { toolboxFor } from "./internal-call.ts"
import type { Audit, ClientCall } from "./ports.ts"
import { viewFor } from "./ready.ts"

export type AuditOptions = {
  readonly clock: Clock
  /** Milliseconds that only grow. */
  ticks(): number
  write(line: () => string): void
  /** Masks secrets in text. */
  mask(text: string): string
  /** Returns the name of the token of a principal. */
  nameOf(principal: string): string | undefined
  readonly withArguments: boolean
}

export function createAudit({ clock, ticks, write, mask, nameOf, withArguments }: AuditOptions): Audit {
  // What a client states about itself may be wrong, but must be bounded.
  const short = (value: unknown) => (typeof value === "string" ? masked(value, mask, MAX_NAME) : undefined)
  const clientName = ({ name, version }: Params) =>
    typeof name !== "string" ? undefined : short(typeof version === "string" ? `${name}/${version}` : name)
  const took = (started: number) => Math.round((ticks() - started) * 1000) / 1000
  const put = (entry: () => Params) => write(() => escaped(JSON.stringify(entry())))
  /** Made outside of the call: until it is written, an entry would keep all that the call has made from the garbage collector. */
  const callEntry =
    ({ time, principal, name, info, request, server, tool, outcome, ms, sent }: CallFacts) =>
    (): Params => {
      const { method, params, id } = request
      const args = params?.arguments
      return {
        time: new Date(time).toISOString(),
        principal,
        name: short(name),
        client: clientName(info),
        method,
        server,
        tool: short(tool),
        outcome,
        ms,
        sent,
        received: sizeOf(params ?? {}),
        id: typeof id === "string" ? short(id) : id,
        ...(withArguments && args !== undefined ? { arguments: cleaned(args, mask) } : {}),
      }
    }
  return {
    call(call) {
      const { request, client } = call
      const time = clock.now()
      const started = ticks()
      // Now, because the token may be revoked when the call ends.
      const name = nameOf(client.principal)
      return (answer) => {
        const { server, name: tool } = targetOf(call)
        const { outcome } = answer
        const { principal, info } = client
        put(
          callEntry({
            time,
            principal,
            name,
            info,
            request,
            server,
            tool,
            outcome,
            ms: took(started),
            sent: bytesOf(answer),
          }),
        )
      }
    },
    action(action, about, principal = "local") {
      const time = clock.now()
      const started = ticks()
      return (outcome) => {
        const ms = took(started)
        put(() => ({
          time: new Date(time).toISOString(),
          principal,
          name: short(nameOf(principal)),
          method: `svc/${action}`,
          server: short(about.name),
          tool: short(about.tool),
          outcome,
          ms,
          ...(withArguments && about.arguments !== undefined ? { arguments: cleaned(about.arguments, mask) } : {}),
        }))
      }
    },
    access(event, outcome, about) {
      const time = clock.now()
      put(() => ({
        time: new Date(time).toISOString(),
        method: `svc/${event}`,
        outcome,
        ...Object.fromEntries(
          Object.entries(about).map(([key, value]) => [key, typeof value === "string" ? short(value) : value]),
        ),
      }))
    },
  }
}

/** Masks what looks secret in a JSON value by its key or its form, and bounds its depth, width and length. */
export function cleaned(value: unknown, mask: (text: string) => string, depth = 0): unknown {
  if (typeof value === "string") return masked(value, mask, MAX_TEXT)
  if (!isObject(value) && !Array.isArray(value)) return value
  if (depth >= MAX_DEPTH) return "…"
  const inside = (one: unknown) => cleaned(one, mask, depth + 1)
  // `--api-key VALUE`, `["Authorization", VALUE]`
  if (Array.isArray(value))
    return value
      .slice(0, MAX_ENTRIES)
      .map((one: unknown, at) => (at > 0 && namesSecret(value[at - 1], mask) ? "[REDACTED]" : inside(one)))
  // `{ "name": "Authorization", "value": VALUE }`
  const pairs = namesSecret(value.name, mask) || namesSecret(value.key, mask)
  return Object.fromEntries(
    Object.entries(value)
      .slice(0, MAX_ENTRIES)
      .map(([key, inner]) => {
        const name = key.slice(0, MAX_NAME)
        const isSecret = isKeyOfSecret(name, mask) || (pairs && key === "value")
        return [name, isSecret ? "[REDACTED]" : inside(inner)]
      }),
  )
}

// ---

/** What the entry of a call is made of. Times are in milliseconds, sizes in bytes. */
type CallFacts = {
  readonly time: number
  readonly principal: string
  readonly name: string | undefined
  readonly info: Params
  readonly request: Request
  readonly server: string | undefined
  readonly tool: unknown
  readonly outcome: Answer["outcome"]
  readonly ms: number
  readonly sent: number
}

/** Whether any value of a key would be masked. */
const isKeyOfSecret = (key: string, mask: (text: string) => string): boolean => mask(`${key}=x`) !== `${key}=x`

/** Whether a value is the name of a key or a flag of which any value would be masked. */
const namesSecret = (name: unknown, mask: (text: string) => string): boolean =>
  typeof name === "string" && /^[\w.-]{1,200}$/.test(name) && isKeyOfSecret(name, mask)

/** Masks a text before it is cut: half a secret would not be recognized. */
const masked = (text: string, mask: (text: string) => string, length: number): string =>
  mask(text.slice(0, length + MAX_SECRET)).slice(0, length)

/** Characters beyond the cut in which a secret is still recognized. */
const MAX_SECRET = 8192

const MAX_NAME = 200
const MAX_TEXT = 4096
const MAX_ENTRIES = 100
const MAX_DEPTH = 8

/** Returns the size of a value as JSON, in bytes; undefined if it is nested too deeply to be written. */
function sizeOf(value: unknown): number | undefined {
  try {
    return Buffer.byteLength(JSON.stringify(value))
  } catch {
    return undefined
  }
}

function routeOf(method: string, name: string, view: View): Route | undefined {
  if (method === "tools/call") return view.tools.get(name)
  return method === "prompts/get" ? view.prompts.get(name) : view.resource(name)
}

/** Returns the server of a call and its own name for the tool, prompt or resource; svc itself is `svc`. */
function targetOf(call: ClientCall): { server: string | undefined; name: unknown } {
  const { request, client, gateway, wrapper } = call
  const params = isObject(request.params) ? request.params : {}
  const name = request.method === "resources/read" ? params.uri : params.name
  if (typeof name !== "string") return { server: undefined, name }
  const isLazy = client.scope.tools === "search" && wrapper === undefined && isLazyTool(name)
  const isOwn = isLazy || toolboxFor(client.scope, gateway)?.names.includes(name) === true
  if (request.method === "tools/call" && isOwn) return { server: "svc", name }
  const route = routeOf(request.method, name, viewFor(call))
  return route === undefined ? { server: undefined, name } : { server: route.id, name: route.name }
}
