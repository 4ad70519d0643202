/** The programs that are measured: starts each as processes on loopback, and ends them by their pid. */
import { existsSync, mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs"
import { createServer } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"

export const ROOT = join(import.meta.dir, "..", "..")
export const SVC = join(ROOT, "dist", "svc")

/** Returns the command that starts the server behind every measurement. */
export const backend = (...flags: string[]): string[] => [
  process.execPath,
  join(import.meta.dir, "backend.ts"),
  ...flags,
]

/** The program that calls go to. */
export type Target = AsyncDisposable & {
  readonly port: number
  readonly pid: number
  readonly path: string
  /** Returns the name that a tool of the server has there. */
  readonly tool: (name: string) => string
}

/** Frames that open a session: `initialize` with id 1, and the notification that must follow it. */
export const OPENING: readonly string[] = [
  JSON.stringify({
    jsonrpc: "2.0",
    id: 1,
    method: "initialize",
    params: { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "bench", version: "1" } },
  }),
  JSON.stringify({ jsonrpc: "2.0", method: "notifications/initialized" }),
]

export const callFrame = (id: number, name: string, m = "hello world"): string =>
  JSON.stringify({ jsonrpc: "2.0", id, method: "tools/call", params: { name, arguments: { m } } })

/** Returns requests that post these frames to `path`, ready to be written to a socket. */
export const requestsOf = (
  { port, path }: Pick<Target, "port" | "path">,
  headers: Readonly<Record<string, string>>,
  frames: readonly string[],
): string[] =>
  frames.map(
    (frame) =>
      `POST ${path} HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\n${Object.entries({ ...POST_HEADERS, ...headers })
        .map(([name, value]) => `${name}: ${value}\r\n`)
        .join("")}Content-Length: ${Buffer.byteLength(frame)}\r\n\r\n${frame}`,
  )

/** Opens a legacy session. Returns the headers for its requests. */
export async function openSession({ port, path }: Pick<Target, "port" | "path">): Promise<Record<string, string>> {
  const url = `http://127.0.0.1:${port}${path}`
  let headers: Record<string, string> = {}
  for (const body of OPENING) {
    const response = await fetch(url, { method: "POST", headers: { ...POST_HEADERS, ...headers }, body })
    await response.text()
    if (!response.ok) throw new Error(`${url} answered ${response.status} to ${body}`)
    const session = response.headers.get("mcp-session-id")
    if (session !== null) headers = { "Mcp-Session-Id": session, "MCP-Protocol-Version": "2025-11-25" }
  }
  return headers
}

/** Starts the HTTP echo, a baseline: an MCP server over HTTP, which shows what HTTP itself costs. */
export const startFloor = (...flags: string[]): Promise<Target> => startPrinting(backend("--http", ...flags))

/** Starts an HTTP server that answers every request with a file. */
export const startStatic = (file: string): Promise<Target> =>
  startPrinting([
    process.execPath,
    "-e",
    `const server = Bun.serve({ hostname: "127.0.0.1", port: 0, fetch: () => new Response(Bun.file(${JSON.stringify(file)})) })
process.stdout.write(server.port + "\\n")`,
  ])

/** Starts the minimal relay, a baseline; with `--usable`, one that checks what any relay has to check. */
export const startRaw = (...flags: "--usable"[]): Promise<Target> =>
  startPrinting([process.execPath, join(import.meta.dir, "raw.ts"), ...flags, ...backend()])

/** Starts an HTTP server that reads every request and answers 200. */
export const startSink = (): Promise<Target> =>
  startPrinting([
    process.execPath,
    "-e",
    `const server = Bun.serve({ hostname: "127.0.0.1", port: 0, fetch: async (request) => (await request.arrayBuffer(), new Response()) })
process.stdout.write(server.port + "\\n")`,
  ])

/** Starts a hop to an HTTP or stdio server that passes bytes on without reading them. */
export const startPass = (mode: "fetch" | "pipe", ...to: string[]): Promise<Target> =>
  startPrinting([process.execPath, join(import.meta.dir, "pass.ts"), mode, ...to])

/** Starts nginx as a reverse proxy of a server, with buffers for a whole megabyte. Returns undefined if nginx is not installed. */
export async function startNginx(to: Target): Promise<Target | undefined> {
  const nginx = Bun.which("nginx", { PATH: `${process.env.PATH}:/usr/sbin:/usr/local/sbin` })
  if (nginx === null) return undefined
  const folder = mkdtempSync(join(tmpdir(), "svc-bench-nginx-"))
  const port = await freePort()
  const paths = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map(
    (name) => `${name}_temp_path ${folder}/${name};`,
  )
  writeFileSync(
    join(folder, "nginx.conf"),
    `daemon off; worker_processes 1; pid ${folder}/pid; error_log ${folder}/error.log;
events {}
http {
  access_log off; keepalive_requests 10000000; ${paths.join(" ")}
  proxy_buffer_size 128k; proxy_buffers 64 128k; proxy_busy_buffers_size 1m; proxy_max_temp_file_size 0;
  upstream server { server 127.0.0.1:${to.port}; keepalive 8; keepalive_requests 10000000; }
  server {
    listen 127.0.0.1:${port};
    location / { proxy_pass http://server; proxy_http_version 1.1; proxy_set_header Connection ""; }
  }
}
`,
  )
  const child = Bun.spawn({
    cmd: [nginx, "-e", join(folder, "error.log"), "-p", folder, "-c", join(folder, "nginx.conf")],
    stdout: "ignore",
    stderr: "ignore",
  })
  const end = async () => {
    child.kill("SIGTERM")
    await child.exited
    rmSync(folder, { recursive: true, force: true })
  }
  if (!(await listens(port, () => child.exitCode !== null))) {
    await end()
    return undefined
  }
  return { ...to, port, pid: child.pid, [Symbol.asyncDispose]: end }
}

export type Instance = Target & { readonly folder: string }

/** A placeholder in the flags for the folder of the instance. */
export const FOLDER = "{folder}"

/** Starts svc with these servers, and waits until all of them are connected. */
export async function startSvc(
  servers: Readonly<Record<string, unknown>>,
  flags: readonly string[] = [],
  extra: object = {},
  env: Readonly<Record<string, string>> = {},
): Promise<Instance> {
  const folder = mkdtempSync(join(tmpdir(), "svc-bench-"))
  writeFileSync(join(folder, "mcp.json"), JSON.stringify({ mcpServers: servers, ...extra }))
  const child = Bun.spawn({
    cmd: [SVC, "serve", "--config-dir", folder, "--port", "0", ...flags.map((flag) => flag.replace(FOLDER, folder))],
    env: { PATH: process.env.PATH ?? "", HOME: folder, ...env },
    stdin: "ignore",
    stdout: "ignore",
    stderr: "pipe",
  })
  const end = async () => {
    child.kill("SIGTERM")
    await child.exited
    rmSync(folder, { recursive: true, force: true })
  }
  let said = ""
  const names = Object.keys(servers)
  const ready = () => names.every((name) => said.includes(`${name}: connected`)) && said.includes("listening on ")
  for await (const chunk of child.stderr) {
    said += new TextDecoder().decode(chunk)
    if (ready()) break
  }
  if (!ready()) {
    await end()
    throw new Error(`svc did not start:\n${said}`)
  }
  return {
    port: Number(/listening on http:\/\/127\.0\.0\.1:(\d+)/.exec(said)?.[1]),
    pid: child.pid,
    path: "/mcp",
    folder,
    tool: (name) => `${names[0]}_svc_${name}`,
    [Symbol.asyncDispose]: end,
  }
}

export const stdio = (...flags: string[]) => {
  const [command, ...args] = backend(...flags)
  return { command, args }
}

/** A package from npm that does the same as svc, or a part of it. */
export type Peer = {
  readonly name: string
  readonly version: string
  /** The ways to call it. The fastest is compared with svc. */
  readonly ways: readonly Way[]
}

/** A way to start and call a peer. `sessions` states whether the callers share one session, or have one each. */
export type Way = {
  readonly kind: "http" | "sse"
  readonly sessions: "one" | "each"
  /** Returns its arguments. */
  args(port: number, folder: string): readonly string[]
  readonly path: string
  tool(name: string): string
}

const plain = (name: string): string => name

function hub(port: number, folder: string): readonly string[] {
  const config = join(folder, "hub.json")
  writeFileSync(config, JSON.stringify({ mcpServers: { echo: stdio() } }))
  return ["--port", String(port), "--config", config]
}

const gateway =
  (...transport: string[]) =>
  (port: number) => [
    ...["--stdio", backend().join(" "), "--logLevel", "none", "--port", String(port)],
    ...["--outputTransport", ...transport],
  ]

const proxy = (server: string) => (port: number) => [
  ...["--port", String(port), "--host", "127.0.0.1", "--server", server, "--no-eventStore", "--"],
  ...backend(),
]

export const PEERS: readonly Peer[] = [
  {
    name: "mcp-hub",
    version: "4.2.1",
    // With a session for each caller, it crashes after some runs: "Maximum call stack size exceeded".
    ways: [{ kind: "sse", sessions: "one", args: hub, path: "/mcp", tool: (name) => `echo__${name}` }],
  },
  {
    name: "supergateway",
    version: "4.0.0",
    ways: [
      { kind: "http", sessions: "one", args: gateway("streamableHttp", "--stateful"), path: "/mcp", tool: plain },
      { kind: "sse", sessions: "one", args: gateway("sse"), path: "/sse", tool: plain },
    ],
  },
  {
    name: "mcp-proxy",
    version: "6.7.19",
    ways: [
      { kind: "http", sessions: "one", args: proxy("stream"), path: "/mcp", tool: plain },
      { kind: "sse", sessions: "one", args: proxy("sse"), path: "/sse", tool: plain },
    ],
  },
]

/** The version of Node.js that runs the peers. */
export const NODE = "24.9.0"

/** Installs the peers' Node.js from npm below `folder` and returns its path. Throws if npm fails. */
export function installNode(folder: string): string {
  const name = `node-${process.platform === "win32" ? "win" : process.platform}-${process.arch}`
  return join(installPackage(name, NODE, folder), "node_modules", name, "bin", "node")
}

/** Installs a peer below `folder` and returns its script. Throws if npm fails. */
export function installPeer({ name, version }: Peer, folder: string): string {
  const bin = join(installPackage(name, version, folder), "node_modules", ".bin", name)
  if (!existsSync(bin)) throw new Error(`npm installed no command ${name}`)
  return realpathSync(bin)
}

/** Starts a peer with its own home directory, and waits until it listens. Its server may not have started yet. */
export async function startPeer(
  { args, path, tool }: Way,
  command: readonly string[],
  folder: string,
): Promise<Target> {
  const port = await freePort()
  const child = Bun.spawn({
    cmd: [...command, ...args(port, folder)],
    cwd: folder,
    env: { PATH: process.env.PATH ?? "", HOME: folder },
    stdin: "ignore",
    stdout: "ignore",
    stderr: "ignore",
  })
  const end = async () => {
    child.kill("SIGTERM")
    const late = setTimeout(() => child.kill("SIGKILL"), STOP_MS)
    await child.exited
    clearTimeout(late)
  }
  if (!(await listens(port, () => child.exitCode !== null))) {
    await end()
    throw new Error(`it did not listen within ${START_MS} ms`)
  }
  return { port, pid: child.pid, path, tool, [Symbol.asyncDispose]: end }
}

// ---

const INSTALL_MS = 120_000
const START_MS = 15_000
const STOP_MS = 3000
const POLL_MS = 20

const POST_HEADERS = { "Content-Type": "application/json", Accept: "application/json, text/event-stream" }

/** Installs a package below `folder` and returns its folder. Throws if npm fails. */
function installPackage(name: string, version: string, folder: string): string {
  const home = join(folder, name)
  mkdirSync(home, { recursive: true })
  writeFileSync(join(home, "package.json"), '{"private":true}')
  const npm = Bun.spawnSync(["npm", "install", "--no-audit", "--no-fund", "--silent", `${name}@${version}`], {
    cwd: home,
    timeout: INSTALL_MS,
    stderr: "pipe",
  })
  if (!npm.success) throw new Error(`npm could not install it: ${npm.stderr.toString().trim().slice(0, 200)}`)
  return home
}

/** Starts a server that first prints its port, and ends with its stdin. */
async function startPrinting(cmd: string[]): Promise<Target> {
  const child = Bun.spawn({ cmd, stdin: "pipe", stdout: "pipe", stderr: "ignore" })
  const reader = child.stdout.getReader()
  const port = Number(new TextDecoder().decode((await reader.read()).value).trim())
  return {
    port,
    pid: child.pid,
    path: "/mcp",
    tool: (name) => name,
    async [Symbol.asyncDispose]() {
      child.kill("SIGTERM")
      await child.exited
    },
  }
}

/** Waits until a process listens on a port. Returns false if it has ended, or does not listen in time. */
async function listens(port: number, hasEnded: () => boolean): Promise<boolean> {
  const until = performance.now() + START_MS
  for (;;) {
    try {
      const socket = await Bun.connect({ hostname: "127.0.0.1", port, socket: { data() {} } })
      socket.end()
      return true
    } catch {
      if (hasEnded() || performance.now() > until) return false
      await Bun.sleep(POLL_MS)
    }
  }
}

const freePort = (): Promise<number> =>
  new Promise((resolve, reject) => {
    const server = createServer()
    server.once("error", reject)
    server.listen(0, "127.0.0.1", () => {
      const address = server.address()
      server.close(() => resolve(typeof address === "object" && address !== null ? address.port : 0))
    })
  })
