/**
 * A client's request, passed on to its backend, and the answer on its way back.
 *
 *  1. A success result that nothing must change in goes back as the bytes it came in (frame.ts).
 *  2. Members that svc does not know survive in both directions.
 *  3. What one era lacks is put in or taken out here, and nowhere else.
 */
import { type Caller, type Outcome, peerError } from "../backend/connection.ts"
import type { Route } from "../catalog/catalog.ts"
import { rewriteErrorData, rewriteNotification, rewriteResult } from "../catalog/rewrite.ts"
import { BackendError, RequestError } from "../lib/errors.ts"
import {
  META_CLIENT_CAPABILITIES,
  META_CLIENT_INFO,
  META_LOG_LEVEL,
  META_VERSION,
  MODERN_VERSION,
} from "../wire/era.ts"
import { contains, decode, encode, readdress } from "../wire/frame.ts"
import { encodeHeader, type Mirrored, paramHeaders } from "../wire/headers.ts"
import {
  errorText,
  isObject,
  metaOf,
  notificationText,
  type Params,
  type Request,
  type Response,
} from "../wire/message.ts"
import type { Client, Context, Target } from "./client.ts"
import { fulfil } from "./fulfil.ts"

/** Passes `request` on under `params` (names already the backend's own) and gives the answer as a frame. */
export async function relay(
  request: Request,
  params: Params,
  route: Route,
  context: Context,
): Promise<Uint8Array | string> {
  const { face } = context
  const { meter } = face
  if (meter !== undefined && request.method === "tools/call") {
    const started = meter.now()
    const frame = await pass(request, params, route, context)
    meter.record(route.id, route.name, outcomeOf(frame), (meter.now() - started) / 1000, frame.length)
    return frame
  }
  return pass(request, params, route, context)
}

// ---

async function pass(request: Request, params: Params, route: Route, context: Context): Promise<Uint8Array | string> {
  const { face, client } = context
  const shared = face.target(route.id)
  const { owner } = client
  // A client that is there only for its request has no session to isolate.
  const target =
    typeof shared !== "string" && shared.spec.tuning.isolation === "session" && owner !== undefined
      ? await face.lease(route.id, createCaller(shared, { client, exchange: owner }))
      : shared
  if (typeof target === "string") return failed(request, new BackendError(route.slug, target), client.era)
  if (target.connection.inFlight >= face.maxInFlight)
    return failed(
      request,
      new BackendError(route.slug, `has ${face.maxInFlight} requests in flight already; try again later`),
      client.era,
    )
  if ((client.inFlight ?? 0) > face.maxInFlight)
    throw new RequestError("too_many", `This session has ${face.maxInFlight} requests in flight already`)
  try {
    return await call(request, params, target, route.mirrored, context)
  } catch (error) {
    if (error instanceof BackendError) return failed(request, error, client.era)
    throw error
  }
}

/** How a call ended, read off the answer's bytes: a tool that failed says so in its result. */
function outcomeOf(frame: Uint8Array | string): "ok" | "tool_error" | "error" {
  const has = (needle: string, bytes: Uint8Array) =>
    typeof frame === "string" ? frame.includes(needle) : contains(frame, bytes)
  if (typeof frame === "string" && /^\{"jsonrpc":"2\.0","id":[^,]{0,200},"error"/.test(frame)) return "error"
  return has('"isError":true', NEEDLE_TOOL_ERROR) ? "tool_error" : "ok"
}

async function call(
  request: Request,
  params: Params,
  target: Target,
  mirrored: readonly Mirrored[],
  context: Context,
): Promise<Uint8Array | string> {
  const { client, exchange } = context
  const { connection, peer, spec } = target
  const token = metaOf(params)?.progressToken
  const progressToken = typeof token === "string" || typeof token === "number" ? token : undefined
  const { method } = request
  let sent = adaptParams(params, client, peer.era)
  for (;;) {
    const headers = peer.era === "2026" ? mirrorHeaders(method, sent, mirrored) : undefined
    const flight = connection.request({
      method,
      params: sent,
      caller: createCaller(target, context),
      progressToken,
      timeout: spec.tuning.requestTimeout,
      headers,
    })
    exchange.oncancel = (reason) => connection.cancel(flight.number, new BackendError(spec.name, reason))
    const outcome = await flight.outcome
    exchange.oncancel = undefined
    const answer = finish(request, outcome, target, client)
    if (answer.kind === "done") return answer.frame
    // A 2026-era backend asks a 2025-era client: svc puts the questions and tries again with the answers.
    sent = await fulfil(sent, answer.result, context)
  }
}

type Finish =
  | { readonly kind: "done"; readonly frame: Uint8Array | string }
  | { readonly kind: "input"; readonly result: Params }

const NEEDLE_TOOL_ERROR = encode('"isError":true')
const NEEDLE_URI = encode('"uri"')
const NEEDLE_ESCAPE = encode("\\u00")
const NEEDLE_RESULT_TYPE = encode('"resultType"')
const NEEDLE_INPUT = encode('"input_required"')
const COMPLETE = encode('"resultType":"complete"')
const COMPLETE_UNCACHED = encode('"resultType":"complete","ttlMs":0,"cacheScope":"private"')

function finish(request: Request, outcome: Outcome, target: Target, client: Client): Finish {
  const { peer, spec } = target
  const qualified = client.scope.kind === "aggregate"
  const cacheable = request.method === "resources/read"
  // Some 2026-era servers forget what each of their results must have.
  const silent = outcome.kind === "frame" && peer.era === "2026" && !contains(outcome.frame, NEEDLE_RESULT_TYPE)
  const completes = client.era === "2026" && (peer.era === "2025" || silent)
  if (outcome.kind === "frame") {
    const { frame, answer } = outcome
    const slow =
      (qualified && (contains(frame, NEEDLE_URI) || contains(frame, NEEDLE_ESCAPE))) ||
      (completes && (contains(frame, NEEDLE_RESULT_TYPE) || contains(frame, NEEDLE_ESCAPE))) ||
      (peer.era === "2026" && client.era === "2025" && contains(frame, NEEDLE_INPUT))
    if (!slow) {
      const members = completes ? (cacheable ? COMPLETE_UNCACHED : COMPLETE) : undefined
      return { kind: "done", frame: readdress(frame, answer, encode(JSON.stringify(request.id)), members) }
    }
  }
  const message = outcome.kind === "message" ? outcome.message : (JSON.parse(decode(outcome.frame)) as Response)
  if (message.error !== undefined) {
    const { code, message: text, data } = peerError(message.error)
    const shown = qualified ? rewriteErrorData(data, spec.slug) : data
    return {
      kind: "done",
      frame: errorText(request.id, adaptCode(request.method, code, data, client.era), text, shown),
    }
  }
  const result = isObject(message.result) ? message.result : {}
  if (peer.era === "2026" && client.era === "2025" && result.resultType === "input_required")
    return { kind: "input", result }
  const named = qualified ? rewriteResult(request.method, result, spec.slug) : result
  const whole = completes
    ? { resultType: "complete", ...(cacheable ? { ttlMs: 0, cacheScope: "private" } : {}), ...named }
    : named
  return { kind: "done", frame: JSON.stringify({ ...message, id: request.id, result: whole }) }
}

/** Params as the backend's era has them: a request of a 2026-era backend carries version and client in `_meta`. */
function adaptParams(params: Params, client: Client, era: "2025" | "2026"): Params {
  if (client.era === era) return params
  const meta = metaOf(params)
  if (era === "2026")
    return {
      ...params,
      _meta: {
        ...meta,
        [META_VERSION]: MODERN_VERSION,
        [META_CLIENT_INFO]: client.info,
        [META_CLIENT_CAPABILITIES]: client.capabilities,
        ...(client.logLevel === undefined ? {} : { [META_LOG_LEVEL]: client.logLevel }),
      },
    }
  if (meta === undefined) return params
  const {
    [META_VERSION]: _v,
    [META_CLIENT_INFO]: _i,
    [META_CLIENT_CAPABILITIES]: _c,
    [META_LOG_LEVEL]: _l,
    ...rest
  } = meta
  if (Object.keys(rest).length > 0) return { ...params, _meta: rest }
  const { _meta, ...bare } = params
  return bare
}

/** "Resource not found" has another code in each era. server: Resources, Error Handling. */
function adaptCode(method: string, code: number, data: unknown, era: Client["era"]): number {
  if (method !== "resources/read" || !isObject(data) || typeof data.uri !== "string") return code
  if (code !== INVALID_PARAMS && code !== LEGACY_NOT_FOUND) return code
  return era === "2026" ? INVALID_PARAMS : LEGACY_NOT_FOUND
}

const INVALID_PARAMS = -32602
const LEGACY_NOT_FOUND = -32002

/** basic: Streamable HTTP, Standard Request Headers and Custom Headers from Tool Parameters. */
function mirrorHeaders(
  method: string,
  params: Params,
  mirrored: readonly Mirrored[],
): Record<string, string> | undefined {
  const name = method === "resources/read" ? params.uri : params.name
  if (typeof name !== "string") return undefined
  return { "mcp-name": encodeHeader(name), ...paramHeaders(params.arguments, mirrored) }
}

function createCaller({ spec }: Target, { client, exchange }: Pick<Context, "client" | "exchange">): Caller {
  const qualified = client.scope.kind === "aggregate"
  return {
    session: client.session,
    notify(method, params) {
      if (method === "notifications/message" && !wantsLog(client, params.level)) return
      exchange.notify(notificationText(method, qualified ? rewriteNotification(params, spec.slug) : params))
    },
    ask: (method, params, signal) => exchange.ask(method, params, signal),
  }
}

/** Least severe first. server: Logging. */
const LOG_LEVELS = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]

/** Whether a client wants a log message of this level. 2026-era clients that name none get none. */
export function wantsLog(
  client: { readonly era: Client["era"]; readonly logLevel: string | undefined },
  level: unknown,
): boolean {
  if (client.logLevel === undefined) return client.era === "2025"
  return LOG_LEVELS.indexOf(String(level)) >= LOG_LEVELS.indexOf(client.logLevel)
}

/** A backend's failure: a tool says so to the model, other methods to the client. */
function failed(request: Request, error: BackendError, era: Client["era"] = "2025"): string {
  if (request.method !== "tools/call") return errorText(request.id, -32603, error.message)
  const result = {
    ...(era === "2026" ? { resultType: "complete" } : {}),
    content: [{ type: "text", text: error.message }],
    isError: true,
  }
  return JSON.stringify({ jsonrpc: "2.0", id: request.id, result })
}

/** For callers that must name a request they cannot pass on. */
export const unknownName = (what: string, name: unknown, near: string | undefined): RequestError =>
  new RequestError(
    "invalid_params",
    `Unknown ${what}: ${String(name).slice(0, 200)}${near === undefined ? "" : `. Did you mean ${near}?`}`,
  )
