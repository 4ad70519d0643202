/**
 * The control socket of a running instance, for svc's own commands: a Unix socket in the configuration directory that only
 * its user can open (on Windows a loopback port with a token in a file that only its user can read).
 */
import { existsSync, lstatSync, readdirSync, unlinkSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { type Clock, delay } from "../lib/clock.ts"
import { codesOf, publicMessage, RequestError, statusOfFault, UnavailableError } from "../lib/errors.ts"
import { randomText } from "../lib/random.ts"
import { isAlive, makePrivateFolder, readState, replaceState, withPrivateUmask } from "../store/files.ts"
import { type Release, tryAcquire } from "../store/lock.ts"
import { ownName, type Paths } from "../store/paths.ts"
import { isObject, type Params, parseJson } from "../wire/message.ts"
import type { listenForProxies, ProxyAddress, ProxyServerDeps } from "./proxy-server.ts"

/**
 * Answers a control request with a JSON value. Throws a typed error whose message the command shows. `signal` is aborted if
 * the command disconnects.
 */
export type ControlDispatch = (method: string, params: Params, signal: AbortSignal) => unknown | Promise<unknown>

/** The contents of the endpoint file in the configuration directory: how to reach the instance. */
type ControlEndpoint = {
  readonly pid: number
  readonly socket?: string
  readonly port?: number
  /** The socket or port to which `svc proxy` connects. */
  readonly lines?: { readonly socket?: string; readonly port?: number }
  readonly token: string
  /** The address at which the instance listens for clients. */
  readonly url?: string
}

/**
 * Takes the lock of the configuration, then opens the control socket of an instance that listens for clients at `url`; holds
 * the lock until the socket is closed. Rejects with an UnavailableError that names the process that already holds the lock.
 * `load` runs between the two steps: servers start under the lock, and need not wait for the socket.
 */
export async function openControlSocket(
  paths: Paths,
  answer: ControlDispatch,
  local: ProxyServerDeps,
  url: string,
  load: () => Promise<void> = async () => undefined,
): Promise<{ close(): void }> {
  makePrivateFolder(paths.directory)
  const release = await acquireInstanceLock(paths, local.trustedClient.clock)
  try {
    await load()
    // Imported here, because the commands that call this socket do not serve clients.
    const { listenForProxies } = await import("./proxy-server.ts")
    const endpoint = open(paths, answer, local, url, listenForProxies)
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
 * Sends a control request to the instance of a configuration and returns its result; undefined if none runs. Rejects with
 * a RequestError or UnavailableError that contains the instance's refusal.
 */
export async function callControl(
  paths: Paths,
  method: string,
  params: Params,
  timeout = TIMEOUT_MS,
): Promise<unknown> {
  return callEndpoint(endpointFile(paths), method, params, timeout)
}

/** Sends a control request to every instance that shares the configuration directory, and waits for the answers. */
export async function callNeighbors(paths: Paths, method: string, params: Params, timeout: number): Promise<void> {
  if (!existsSync(paths.directory)) return
  const own = endpointFile(paths)
  const files = readdirSync(paths.directory).filter((name) => /^control(?:-[\da-f]+)?\.json$/.test(name))
  const others = files.map((name) => join(paths.directory, name)).filter((file) => file !== own)
  await Promise.all(others.map((file) => callEndpoint(file, method, params, timeout)))
}

/** Returns the id of the process that serves a configuration, even if it hangs; undefined if there is none. */
export async function instancePid(paths: Paths): Promise<number | undefined> {
  const endpoint = readEndpoint(endpointFile(paths))
  if (endpoint === undefined || !isAlive(endpoint.pid)) return undefined
  const release = await tryAcquire(lockFile(paths))
  if (release === undefined) return endpoint.pid
  // The endpoint file is a leftover, and another program has its process id now.
  release()
  return undefined
}

/** Returns a message that a process already serves a configuration, or that a demo uses its control socket. */
export async function describeInstance(paths: Paths, pid: number): Promise<string> {
  const status = await callControl(paths, "status", {}, HELLO_MS).catch(() => undefined)
  return isObject(status) && status.demo === true
    ? `the demo already runs, at ${status.endpoint}`
    : `process ${pid} already serves ${paths.file}`
}

/**
 * Returns the address at which `svc proxy` reaches the instance; undefined without an endpoint file. `lost`: the instance was
 * killed.
 */
export function proxyEndpoint(
  paths: Paths,
): { readonly address: ProxyAddress; readonly token: string; readonly lost: boolean } | undefined {
  const endpoint = readEndpoint(endpointFile(paths))
  const address = proxyAddress(endpoint?.lines)
  if (endpoint === undefined || address === undefined) return undefined
  return { address, token: endpoint.token, lost: isLost(endpoint) }
}

/** Returns the address at which the instance of a configuration listens for clients; undefined if none runs. */
export function servedUrl(paths: Paths): string | undefined {
  const endpoint = readEndpoint(endpointFile(paths))
  return endpoint === undefined || !isAlive(endpoint.pid) ? undefined : endpoint.url
}

// ---

async function callEndpoint(file: string, method: string, params: Params, timeout: number): Promise<unknown> {
  const endpoint = readEndpoint(file)
  if (endpoint === undefined || isLost(endpoint)) return undefined
  const init = {
    method: "POST",
    headers: { authorization: `Bearer ${endpoint.token}` },
    body: JSON.stringify({ method, params }),
    signal: AbortSignal.timeout(timeout),
    // Bun's default timeout is shorter than an installation may take.
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
  // Another program may listen on the port now.
  const body: unknown = await response.json().catch(() => undefined)
  if (!isObject(body)) return undefined
  if (typeof body.error === "string") {
    if (body.exit === 64) throw new RequestError("invalid_params", body.error)
    throw new UnavailableError(body.error)
  }
  return body.result
}

/** Takes the lock that an instance holds while it serves. Waits for an instance that is ending. */
async function acquireInstanceLock(paths: Paths, clock: Clock): Promise<Release> {
  const lock = lockFile(paths)
  const until = clock.now() + LOCK_MS
  for (;;) {
    const release = await tryAcquire(lock)
    if (release !== undefined) return release
    const other = await callControl(paths, "hello", {}, HELLO_MS).catch(() => undefined)
    const pid = isObject(other) ? other.pid : undefined
    if (pid !== undefined || clock.now() >= until) {
      const taken =
        pid === undefined
          ? `another svc, which holds ${lock} and does not answer, already serves ${paths.file}`
          : await describeInstance(paths, Number(pid))
      throw new UnavailableError(`${taken}; \`svc stop\` stops it, or choose another --config-dir`)
    }
    await delay(clock, LOCK_PAUSE_MS)
  }
}

function open(
  paths: Paths,
  answer: ControlDispatch,
  local: ProxyServerDeps,
  url: string,
  listenLines: typeof listenForProxies,
): { close(): void } {
  const file = endpointFile(paths)
  const windows = process.platform === "win32"
  const token = randomText(24)
  const socket = windows ? undefined : socketPath(file, ".sock")
  const linesSocket = windows ? undefined : socketPath(file, "-lines.sock")
  const sockets = [socket, linesSocket].filter((path) => path !== undefined)
  const leftover = readEndpoint(file)
  for (const path of [...sockets, leftover?.socket, leftover?.lines?.socket])
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
  // Bun's types lack idleTimeout for a Unix socket, but without it Bun ends a request after ten seconds.
  const options: { unix: string; fetch: typeof serve } = { unix: socket ?? "", fetch: serve, ...{ idleTimeout: 0 } }
  const server =
    socket === undefined
      ? Bun.serve({ hostname: "127.0.0.1", port: 0, idleTimeout: 0, fetch: serve })
      : withPrivateUmask(() => Bun.serve(options))
  const lines = withPrivateUmask(() =>
    listenLines(linesSocket === undefined ? { hostname: "127.0.0.1", port: 0 } : { unix: linesSocket }, token, local),
  )
  const endpoint: ControlEndpoint = {
    pid: process.pid,
    token,
    url,
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
/** How long an instance may take to open its control socket, or to end after it has closed the socket. */
const LOCK_MS = 3000
const LOCK_PAUSE_MS = 50
const HELLO_MS = 1000
/** Bytes of a Unix socket's path, below every system's limit. */
const MAX_SOCKET_PATH = 100

/** Returns the path of the endpoint file: each configuration file has its own instance. */
function endpointFile(paths: Paths): string {
  return join(paths.directory, `${ownName("control", paths)}.json`)
}

/** Returns the path of the lock that an instance holds. */
const lockFile = (paths: Paths): string => endpointFile(paths).replace(/\.json$/, ".lock")

function socketPath(endpoint: string, ending: string): string {
  const path = endpoint.replace(/\.json$/, ending)
  if (Buffer.byteLength(path) <= MAX_SOCKET_PATH) return path
  // Every user can write there, so the name must not be predictable.
  return join(tmpdir(), `svc-${randomText(8)}${ending}`)
}

function proxyAddress({ socket, port }: NonNullable<ControlEndpoint["lines"]> = {}): ProxyAddress | undefined {
  if (socket !== undefined) return { unix: socket }
  return port === undefined ? undefined : { hostname: "127.0.0.1", port }
}

/** Whether an instance with a port was killed. Another program may have the port now, and must not receive the token. */
const isLost = ({ port, pid }: ControlEndpoint): boolean => port !== undefined && !isAlive(pid)

function readEndpoint(file: string): ControlEndpoint | undefined {
  const value = readState(file)
  return typeof value?.token === "string" ? (value as ControlEndpoint) : undefined
}
