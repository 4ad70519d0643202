/**
 * The audit log: one JSON line for each call, each management action, each refused login and each change of a token. Lines are
 * written after the answer is sent. They contain arguments only with `--audit-arguments`, and then without values that look
 * secret.
 */

import { type Answer, bytesOf } from "../call/answer.ts"
import type { Client } from "../call/client.ts"
import { destinationOf } from "../call/destination.ts"
import type { Audit, AuditedCall, ClientCall } from "../call/ports.ts"
import { viewFor } from "../call/ready.ts"
import type { View } from "../catalog/catalog.ts"
import { splitName, splitUri } from "../catalog/name.ts"
import type { Clock } from "../lib/clock.ts"
import type { JournalLine } from "../lib/journal.ts"
import { escaped } from "../lib/log.ts"
import type { Era } from "../wire/era.ts"
import type { Params, Request } from "../wire/message.ts"
import { type Mask, maskAndCut, maskArguments, remembering } from "./masked-arguments.ts"

export type AuditOptions = {
  readonly clock: Clock
  /** Returns the milliseconds of a monotonic clock. */
  ticks(): number
  write(line: JournalLine): void
  /** Returns the function that masks the current secrets; the same function while the secrets are the same. */
  masker(): Mask
  /** Returns the name of the token of a principal. */
  nameOf(principal: string): string | undefined
  readonly withArguments: boolean
}

export function createAudit({ clock, ticks, write, masker, nameOf, withArguments }: AuditOptions): Audit {
  const texts = followingTexts(masker)
  const timeText = rememberingTime()
  const put = (entry: (texts: Texts) => Params) => write({ text: () => json(entry(texts())) })
  const deps = { clock, ticks, write, texts, timeText, millis: writingMillis(), nameOf, withArguments }
  return {
    call: (call) => new CallEntry(call, deps),
    action(action, about, principal = "local") {
      const time = clock.now()
      const started = ticks()
      return (outcome) => {
        const ms = microsSince(started, deps) / 1000
        put(({ short, mask }) => ({
          time: timeText(time),
          principal,
          name: short(nameOf(principal)),
          method: `svc/${action}`,
          server: short(about.name),
          tool: short(about.tool),
          outcome,
          ms,
          ...(withArguments && about.arguments !== undefined
            ? { arguments: maskArguments(about.arguments, mask) }
            : {}),
        }))
      }
    },
    access(event, outcome, about) {
      const time = clock.now()
      put(({ short }) => ({
        time: timeText(time),
        method: `svc/${event}`,
        outcome,
        ...Object.fromEntries(
          Object.entries(about).map(([key, value]) => [key, typeof value === "string" ? short(value) : value]),
        ),
      }))
    },
  }
}

// ---

type EntryDeps = Pick<AuditOptions, "clock" | "ticks" | "write" | "nameOf" | "withArguments"> & {
  texts(): Texts
  timeText(time: number): string
  millis(micros: number): string
}

/**
 * The entry of a call, and also its line of the log: a single object, with text from cached parts, because each call has one. A
 * finished entry drops its call: otherwise all objects of the call would stay in memory until the line is rendered.
 */
class CallEntry implements AuditedCall, CallOrigin {
  readonly principal: string
  readonly name: string | undefined
  readonly info: Params
  readonly era: Era
  private readonly time: number
  private readonly started: number
  private call: ClientCall | undefined
  private readonly request: Request
  private readonly address: string | undefined
  private target: CallTarget = UNKNOWN_TARGET
  /** The name in the client's view, if presets give one. */
  private calledAs: unknown
  private outcome: Answer["outcome"] | "denied" = "ok"
  private readonly trace: string | undefined
  private micros = 0
  private sent = 0

  constructor(
    call: ClientCall,
    private readonly deps: EntryDeps,
  ) {
    const { principal, info, era } = call.client
    this.address = call.address
    this.trace = call.span?.traceId
    this.time = deps.clock.now()
    this.started = deps.ticks()
    this.principal = principal
    // Looked up now, because the token may be revoked before the call ends.
    this.name = deps.nameOf(principal)
    this.info = info
    this.era = era
    this.call = call
    this.request = call.request
  }

  end(answer: Answer): void {
    const { call, deps, started } = this
    if (call === undefined) return
    this.target = targetOf(call)
    this.calledAs = nameInView(call, this.target)
    this.call = undefined
    this.outcome = this.target.isDenied === true ? "denied" : answer.outcome
    this.micros = microsSince(started, deps)
    this.sent = bytesOf(answer)
    deps.write(this)
  }

  text(): string {
    const { deps, request, outcome, sent } = this
    const texts = deps.texts()
    const { method, params, id } = request
    const who = texts.who(this)
    const what = texts.what(method, this.target)
    const calledAs = member("calledAs", texts.shortQuoted(this.calledAs))
    const idText = typeof id === "string" ? texts.shortQuoted(id) : JSON.stringify(id)
    const args = deps.withArguments ? params?.arguments : undefined
    const rest = args === undefined ? "" : `,"arguments":${json(maskArguments(args, texts.mask))}`
    const from = member("address", texts.shortQuoted(this.address))
    const trace = this.trace === undefined ? "" : `,"trace":"${this.trace}"`
    return `{"time":"${deps.timeText(this.time)}"${who}${from}${what}${calledAs},"outcome":"${outcome}","ms":${deps.millis(this.micros)},"sent":${sent}${member("received", sizeOf(params ?? {}))}${member("id", idText)}${trace}${rest}}`
  }
}

const microsSince = (started: number, { ticks }: Pick<AuditOptions, "ticks">): number =>
  Math.round((ticks() - started) * 1000)

/**
 * Returns a function that writes microseconds as milliseconds. It caches the fractions, because converting one to text is
 * slow.
 */
function writingMillis(): (micros: number) => string {
  const fractions = Array.from({ length: 1000 }, (_, micros) => String(micros / 1000).slice(1))
  return (micros) => {
    const whole = Math.floor(micros / 1000)
    return `${whole}${fractions[micros - whole * 1000]}`
  }
}

/** The origin of a call: a principal, the name of its token, and the client's own statements about itself. */
type CallOrigin = Pick<Client, "principal" | "info" | "era"> & { readonly name: string | undefined }

/** Renders texts of clients. Returns undefined for values that are not text. */
type Texts = {
  readonly mask: Mask
  /** Masks and truncates a text: a client's statements about itself may be wrong, but must be bounded. */
  short(value: unknown): string | undefined
  /** The same as JSON. */
  shortQuoted(value: unknown): string | undefined
  /** Returns the members of a line that describe the caller. */
  who(caller: CallOrigin): string
  /** Returns the members of a line that describe the call's target. */
  what(method: string, target: CallTarget): string
}

/** Returns a function that returns the texts for the current secrets. */
function followingTexts(masker: () => Mask): () => Texts {
  let current = masker()
  let texts = createTexts(current)
  return () => {
    const now = masker()
    if (now !== current) {
      current = now
      texts = createTexts(now)
    }
    return texts
  }
}

function createTexts(given: Mask): Texts {
  const mask = remembering(given)
  const short = (text: string) => maskAndCut(text, mask, MAX_NAME)
  const shortText = remembering((text) => json(short(text)))
  const shortQuoted = (value: unknown) => (typeof value === "string" ? shortText(value) : undefined)
  const quoted = remembering(json)
  // Cached, because sessions and routes repeat with every call.
  const callers = new WeakMap<Params, Pick<CallOrigin, "principal" | "name"> & { readonly text: string }>()
  const targets = new WeakMap<CallTarget, { readonly method: string; readonly text: string }>()
  return {
    mask,
    short: (value) => (typeof value === "string" ? short(value) : undefined),
    shortQuoted,
    who({ principal, name, info, era }) {
      const known = callers.get(info)
      if (known !== undefined && known.principal === principal && known.name === name) return known.text
      const text = `${member("principal", quoted(principal))}${member("name", shortQuoted(name))}${member("client", shortQuoted(clientName(info)))}`
      // A modern client describes itself again in every request.
      if (era === "legacy") callers.set(info, { principal, name, text })
      return text
    },
    what(method, target) {
      const known = targets.get(target)
      if (known !== undefined && known.method === method) return known.text
      const server = target.id === undefined ? undefined : quoted(target.id)
      const text = `${member("method", quoted(method))}${member("server", server)}${member("tool", shortQuoted(target.name))}`
      targets.set(target, { method, text })
      return text
    },
  }
}

/** Returns a function that writes a time and caches the last one, because many calls end in the same millisecond. */
function rememberingTime(): (time: number) => string {
  let last = Number.NaN
  let text = ""
  return (time) => {
    if (time !== last) {
      last = time
      text = new Date(time).toISOString()
    }
    return text
  }
}

const json = (value: unknown): string => escaped(JSON.stringify(value))

/** Returns a further member of a JSON object; nothing if the value is undefined. */
const member = (name: string, value: string | number | undefined): string =>
  value === undefined ? "" : `,"${name}":${value}`

const clientName = ({ name, version }: Params): unknown =>
  typeof name === "string" && typeof version === "string" ? `${name}/${version}` : name

const MAX_NAME = 200

/** Returns the size of a value as JSON, in bytes; undefined if it is nested too deeply. */
function sizeOf(value: unknown): number | undefined {
  try {
    return Buffer.byteLength(JSON.stringify(value))
  } catch {
    return undefined
  }
}

/**
 * A server, and its own name for the tool, prompt or resource: a route if there is one. svc itself is `svc`. `isDenied`: the
 * client's token does not include the server.
 */
type CallTarget = { readonly id: string | undefined; readonly name: unknown; readonly isDenied?: boolean }

const UNKNOWN_TARGET: CallTarget = { id: undefined, name: undefined }

function targetOf(call: ClientCall): CallTarget {
  const { method, params = {} } = call.request
  const name = method === "resources/read" ? params.uri : params.name
  if (typeof name !== "string") return { id: undefined, name }
  // A call that is refused before, for example by a rate limit, has no destination yet.
  const destination = call.destination ?? destinationOf(call, viewFor(call), true)
  if (destination.kind === "server") return destination.route
  if (destination.kind === "own") return { id: method === "tools/call" ? "svc" : undefined, name }
  return deniedTarget(call, name, viewFor(call)) ?? { id: undefined, name }
}

/** Returns the name of a server's tool in the view of its client; undefined if presets give it none of its own. */
function nameInView({ client: { scope }, request }: ClientCall, { id, name }: CallTarget): unknown {
  const isNamed = scope.kind === "aggregate" && scope.shape?.naming !== undefined && request.method === "tools/call"
  return isNamed && id !== undefined && request.params?.name !== name ? request.params?.name : undefined
}

/**
 * Returns the target of a call that only the client's token prevents; undefined for any other. The name is the server's own, as
 * in the lines of other calls.
 */
function deniedTarget(call: ClientCall, name: string, view: View): CallTarget | undefined {
  const { request, client, gateway } = call
  const { scope, session } = client
  if (scope.kind === "server" || !scope.restricted) return undefined
  if (request.method === "tools/call" && gateway.ownTools.some((own) => own.has(name, call, view) === "denied"))
    return { id: "svc", name, isDenied: true }
  const { parts } = gateway.directory.catalogOf(session)
  const withheld = parts.filter(({ spec }) => scope.withholds?.(spec.tuning.tags) === true)
  const target = (slug: string | undefined, own: string | undefined): CallTarget | undefined => {
    const found = withheld.find(({ spec }) => spec.slug === slug)
    return found === undefined ? undefined : { id: found.spec.id, name: own, isDenied: true }
  }
  if (request.method === "resources/read") {
    const split = splitUri(name)
    return target(split?.slug, split?.uri)
  }
  const kind = request.method === "tools/call" ? "tools" : "prompts"
  // A shortened name contains only parts of the two names.
  const listed = withheld.map(({ qualified }) => qualified[kind].get(name)).find((route) => route !== undefined)
  const split = listed ?? splitName(name)
  return target(split?.slug, split?.name)
}
