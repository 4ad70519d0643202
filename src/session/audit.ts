/**
 * The audit log: one JSON line for each call and each act of management. Lines are made after the answer has gone out.
 * Arguments are in them only where that is asked for, and without what looks secret.
 */
import { viewOf } from "../catalog/catalog.ts"
import type { Clock } from "../lib/clock.ts"
import { escaped } from "../lib/log.ts"
import { isObject, type Params } from "../wire/message.ts"
import { toolboxFor } from "./internal-call.ts"
import type { Audit, ClientCall } from "./ports.ts"

export type AuditOptions = {
  readonly clock: Clock
  /** Milliseconds that only grow. */
  ticks(): number
  write(line: () => string): void
  /** Takes secrets out of text. */
  mask(text: string): string
  readonly withArguments: boolean
}

export function createAudit({ clock, ticks, write, mask, withArguments }: AuditOptions): Audit {
  // Whatever a client says of itself may be wrong, but not unlimited.
  const short = (value: unknown) => (typeof value === "string" ? mask(value.slice(0, MAX_NAME)) : undefined)
  const clientName = ({ name, version }: Params) =>
    typeof name !== "string" ? undefined : short(typeof version === "string" ? `${name}/${version}` : name)
  const took = (started: number) => Math.round((ticks() - started) * 1000) / 1000
  const put = (entry: () => Params) => write(() => escaped(JSON.stringify(entry())))
  return {
    call(call) {
      const { request, client } = call
      const time = clock.now()
      const started = ticks()
      return ({ frame, outcome }) => {
        const ms = took(started)
        const target = targetOf(call)
        const sent = Buffer.byteLength(frame)
        put(() => {
          const args = request.params?.arguments
          return {
            time: new Date(time).toISOString(),
            principal: client.principal,
            client: clientName(client.info),
            method: request.method,
            server: target.server,
            tool: short(target.name),
            outcome,
            ms,
            sent,
            received: sizeOf(request.params ?? {}),
            id: typeof request.id === "string" ? short(request.id) : request.id,
            ...(withArguments && args !== undefined ? { arguments: cleaned(args, mask) } : {}),
          }
        })
      }
    },
    action(action, about) {
      const time = clock.now()
      const started = ticks()
      return (outcome) => {
        const ms = took(started)
        put(() => ({
          time: new Date(time).toISOString(),
          principal: "local",
          method: `svc/${action}`,
          server: short(about.name),
          tool: short(about.tool),
          outcome,
          ms,
          ...(withArguments && about.arguments !== undefined ? { arguments: cleaned(about.arguments, mask) } : {}),
        }))
      }
    },
  }
}

/** A JSON value without what its key or its looks call a secret, and not larger than a line of a log should be. */
export function cleaned(value: unknown, mask: (text: string) => string, depth = 0): unknown {
  if (typeof value === "string") return mask(value.slice(0, MAX_TEXT))
  if (!isObject(value) && !Array.isArray(value)) return value
  if (depth >= MAX_DEPTH) return "…"
  if (Array.isArray(value)) return value.slice(0, MAX_ENTRIES).map((one: unknown) => cleaned(one, mask, depth + 1))
  return Object.fromEntries(
    Object.entries(value)
      .slice(0, MAX_ENTRIES)
      .map(([key, inner]) => {
        const name = key.slice(0, MAX_NAME)
        // A pair is masked for its key where any value would be.
        return [name, mask(`${name}=x`) === `${name}=x` ? cleaned(inner, mask, depth + 1) : "[REDACTED]"]
      }),
  )
}

// ---

const MAX_NAME = 200
const MAX_TEXT = 4096
const MAX_ENTRIES = 100
const MAX_DEPTH = 8

/** The bytes of a value as JSON; undefined where it is nested too deeply to be written. */
function sizeOf(value: unknown): number | undefined {
  try {
    return Buffer.byteLength(JSON.stringify(value))
  } catch {
    return undefined
  }
}

/** Where a call leads: a server and its own name for what is called; svc itself is `svc`. */
function targetOf({ request, client, gateway }: ClientCall): { server: string | undefined; name: unknown } {
  const params = isObject(request.params) ? request.params : {}
  const name = request.method === "resources/read" ? params.uri : params.name
  if (typeof name !== "string") return { server: undefined, name }
  if (request.method === "tools/call" && toolboxFor(client.scope, gateway)?.names.includes(name) === true)
    return { server: "svc", name }
  const view = viewOf(gateway.directory.catalogOf(client.session), client.scope)
  const route =
    request.method === "tools/call"
      ? view.tools.get(name)
      : request.method === "prompts/get"
        ? view.prompts.get(name)
        : view.resource(name)
  return route === undefined ? { server: undefined, name } : { server: route.id, name: route.name }
}
