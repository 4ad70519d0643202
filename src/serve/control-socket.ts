/**
 * The control door of a running instance, for svc's own commands: a Unix socket in the configuration directory that only
 * its user can open (on Windows a loopback port with a token in a file that only its user can read).
 */
import { randomBytes } from "node:crypto"
import { existsSync, lstatSync, readFileSync, unlinkSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { type Clock, delay } from "../lib/clock.ts"
import { codesOf, publicMessage, RequestError, statusOfFault, UnavailableError } from "../lib/errors.ts"
import { isAlive, makePrivateFolder, replaceState } from "../store/files.ts"
import { type Release, tryAcquire } from "../store/lock.ts"
import { ownName, type Paths } from "../store/paths.ts"
import { isObject, type Params, parseJson } from "../wire/message.ts"
import { listenForProxies, type ProxyAddress, type ProxyServerDeps, withPrivateUmask } from "./proxy-server.ts"

/** What a command may ask: a name and its parameters, to a JSON answer. Throws what the caller is to be told. */
export type ControlDispatch = (method: string, params: Params, gone: AbortSignal) => unknown | Promise<unknown>

/** How to reach an instance, as its file in the configuration directory says. */
type ControlEndpoint = {
  readonly pid: number
  readonly socket?: string
  readonly port?: number
  /** Where `svc proxy` brings its client. */
  readonly lines?: { readonly socket?: string; readonly port?: number }
  readonly token: string
}

/**
 * Opens the door, and holds the lock of the configuration until it is closed. Throws an UnavailableError that names the
 * process which holds it already.
 */
export async function openControlSocket(
  paths: Paths,
  answer: ControlDispatch,
  local: ProxyServerDeps,
): Promise<{ close(): void }> {
  makePrivateFolder(paths.directory)
  const release = await becomeOnly(paths, local.trustedClient.clock)
  try {
    const endpoint = open(paths, answer, local)
    return {
      close() {
        endpoint.close()
        release()
      },
    }
  } catch (error) {
    release()
    throw error
  }
}

/**
 * Asks the instance of a configuration. Undefined where none runs. Throws a RequestError with what it answered
 * where it refuses.
 */
export async function callControl(
  paths: Paths,
  method: string,
  params: Params,
  timeout = TIMEOUT_MS,
): Promise<unknown> {
  const endpoint = readEndpoint(endpointFile(paths))
  if (endpoint === undefined || isLost(endpoint)) return undefined
  const init = {
    method: "POST",
    headers: { authorization: `Bearer ${endpoint.token}` },
    body: JSON.stringify({ method, params }),
    signal: AbortSignal.timeout(timeout),
    // Bun's own is shorter than an installation may take.
    timeout: false,
  }
  let response: Response
  try {
    response =
      endpoint.socket === undefined
        ? await fetch(`http://127.0.0.1:${endpoint.port}/`, init)
        : await fetch("http://localhost/", { ...init, unix: endpoint.socket })
  } catch (cause) {
    if (cause instanceof Error && cause.name === "TimeoutError")
      throw new UnavailableError(`process ${endpoint.pid} did not answer within ${timeout / 1000} s`, { cause })
    return undefined
  }
  if (response.status === 401) return undefined
  // It may be somebody else's port by now.
  const body: unknown = await response.json().catch(() => undefined)
  if (!isObject(body)) return undefined
  if (typeof body.error === "string") {
    if (body.exit === 64) throw new RequestError("invalid_params", body.error)
    throw new UnavailableError(body.error)
  }
  return body.result
}

/** Where `svc proxy` finds the running instance; undefined where none has said so. Where it is lost, it was killed. */
export function proxyEndpoint(
  paths: Paths,
): { readonly address: ProxyAddress; readonly token: string; readonly lost: boolean } | undefined {
  const endpoint = readEndpoint(endpointFile(paths))
  const { socket, port } = endpoint?.lines ?? {}
  if (endpoint === undefined) return undefined
  const address = socket !== undefined ? { unix: socket } : port !== undefined ? localPort(port) : undefined
  return address === undefined ? undefined : { address, token: endpoint.token, lost: isLost(endpoint) }
}

// ---

/** Takes the lock that an instance holds as long as it serves. One that is just ending is waited for. */
async function becomeOnly(paths: Paths, clock: Clock): Promise<Release> {
  const lock = endpointFile(paths).replace(/\.json$/, ".lock")
  const until = clock.now() + LOCK_MS
  for (;;) {
    const release = await tryAcquire(lock)
    if (release !== undefined) return release
    const other = await callControl(paths, "hello", {}, HELLO_MS).catch(() => undefined)
    const pid = isObject(other) ? other.pid : undefined
    if (pid !== undefined || clock.now() >= until) {
      const who = pid === undefined ? `another svc, which holds ${lock} and does not answer,` : `process ${pid}`
      throw new UnavailableError(`${who} serves ${paths.file} already; stop it, or choose another --config-dir`)
    }
    await delay(clock, LOCK_PAUSE_MS)
  }
}

function open(paths: Paths, answer: ControlDispatch, local: ProxyServerDeps): { close(): void } {
  const file = endpointFile(paths)
  const windows = process.platform === "win32"
  const token = randomBytes(24).toString("base64url")
  const socket = windows ? undefined : socketPath(file, ".sock")
  const linesSocket = windows ? undefined : socketPath(file, "-lines.sock")
  const sockets = [socket, linesSocket].filter((path) => path !== undefined)
  const left = readEndpoint(file)
  for (const path of [...sockets, left?.socket, left?.lines?.socket])
    if (path !== undefined && lstatSync(path, { throwIfNoEntry: false })?.isSocket()) unlinkSync(path)
  const serve = async (request: Request): Promise<Response> => {
    if (request.headers.get("authorization") !== `Bearer ${token}`)
      return new Response(null, { status: statusOfFault("unauthorized") })
    try {
      const body = parseJson(await request.text())
      if (!isObject(body) || typeof body.method !== "string")
        throw new RequestError("invalid_request", "A control request needs a method")
      const params = isObject(body.params) ? body.params : {}
      const result = body.method === "hello" ? { pid: process.pid } : await answer(body.method, params, request.signal)
      return Response.json({ result: result ?? null })
    } catch (error) {
      return Response.json(
        { error: local.mcp.gateway.hide(publicMessage(error)), exit: codesOf(error).exit },
        { status: codesOf(error).http },
      )
    }
  }
  // The types do not know it of a socket, but without it Bun ends a request after ten seconds: what is asked may take long.
  const options: { unix: string; fetch: typeof serve } = { unix: socket ?? "", fetch: serve, ...{ idleTimeout: 0 } }
  const server =
    socket === undefined
      ? Bun.serve({ hostname: "127.0.0.1", port: 0, idleTimeout: 0, fetch: serve })
      : withPrivateUmask(() => Bun.serve(options))
  const lines = withPrivateUmask(() =>
    listenForProxies(
      linesSocket === undefined ? { hostname: "127.0.0.1", port: 0 } : { unix: linesSocket },
      token,
      local,
    ),
  )
  const endpoint: ControlEndpoint = {
    pid: process.pid,
    token,
    ...(socket === undefined ? { port: (server as { port?: number }).port ?? 0 } : { socket }),
    lines: linesSocket === undefined ? { port: lines.port ?? 0 } : { socket: linesSocket },
  }
  replaceState(file, `${JSON.stringify(endpoint)}\n`)
  return {
    close() {
      void server.stop(true)
      lines.stop()
      for (const path of [file, ...sockets]) if (existsSync(path)) unlinkSync(path)
    },
  }
}

const TIMEOUT_MS = 60_000
/** How long an instance may take to open its door, or to end after it has closed it. */
const LOCK_MS = 3000
const LOCK_PAUSE_MS = 50
const HELLO_MS = 1000
/** What a Unix socket's address holds, with room to spare. */
const MAX_SOCKET_PATH = 100

/** One instance for each configuration file; a file of another place has a door of its own. */
function endpointFile(paths: Paths): string {
  return join(paths.directory, `${ownName("control", paths)}.json`)
}

function socketPath(endpoint: string, ending: string): string {
  const path = endpoint.replace(/\.json$/, ending)
  if (Buffer.byteLength(path) <= MAX_SOCKET_PATH) return path
  // Where all users' files are, nobody must know beforehand what to put in its place.
  return join(tmpdir(), `svc-${randomBytes(8).toString("hex")}${ending}`)
}

const localPort = (port: number): ProxyAddress => ({ hostname: "127.0.0.1", port })

/** The port of an svc that was killed may be anybody's: who listens there is not told the token, nor waited for. */
const isLost = ({ port, pid }: ControlEndpoint): boolean => port !== undefined && !isAlive(pid)

function readEndpoint(file: string): ControlEndpoint | undefined {
  try {
    const value: unknown = JSON.parse(readFileSync(file, "utf8"))
    return isObject(value) && typeof value.token === "string" ? (value as ControlEndpoint) : undefined
  } catch {
    return undefined
  }
}
