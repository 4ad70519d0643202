/** Drives the built binary as a user does: with a fresh HOME, its own folder, real processes and a free port. */
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import { runProgram } from "../process.ts"

export const ROOT = join(import.meta.dir, "..", "..")
export const WINDOWS = process.platform === "win32"
/** The binary under test: of this machine, or the one that `bun run platforms` names. */
export const SVC = process.env.SVC_TEST_BINARY ?? join(ROOT, "dist", WINDOWS ? "svc.exe" : "svc")

/** A server from npm, run by Node as its users do. */
export const npmServer = (name: string, ...args: string[]) => ({
  command: "node",
  args: [join(ROOT, "node_modules", "@modelcontextprotocol", name, "dist", "index.js"), ...args],
})

export const fixture = (name: string): string => join(ROOT, "test", "fixtures", name)

/** A server that answers with the arguments of a call; `args` are options of the fixture. */
export const echo = (...args: readonly string[]) => ({ command: "bun", args: [fixture("echo.ts"), ...args] })

export type Remote = { readonly url: string; stop(): Promise<void> }

/** A port that was free a moment ago. */
export async function freePort(): Promise<number> {
  const server = Bun.serve({ port: 0, hostname: "127.0.0.1", fetch: () => new Response() })
  const port = server.port as number
  await server.stop(true)
  return port
}

/** Starts one of the fixtures over HTTP. */
export async function startHttp(file: string, ...args: string[]): Promise<Remote> {
  const port = await freePort()
  const child = Bun.spawn({
    cmd: ["bun", fixture(file), "--port", String(port), ...args],
    stdin: "ignore",
    stdout: "ignore",
    stderr: "inherit",
  })
  await eventually(async () => {
    const socket = await Bun.connect({ hostname: "127.0.0.1", port, socket: { data() {} } }).catch(() => undefined)
    socket?.end()
    return socket !== undefined
  })
  return {
    url: `http://127.0.0.1:${port}/mcp`,
    async stop() {
      child.kill()
      await child.exited
    },
  }
}

export type Instance = AsyncDisposable & {
  readonly url: string
  readonly folder: string
  readonly pid: number
  /** What it wrote to stderr so far. */
  stderr(): string
  /** Resolves when stderr holds the text. */
  said(text: string | RegExp): Promise<void>
  write(config: unknown): void
  signal(name: NodeJS.Signals): void
  /** Resolves with the exit code. */
  readonly exited: Promise<number>
}

export type Options = {
  readonly config?: unknown
  readonly flags?: readonly string[]
  readonly env?: Record<string, string>
  /** The folder and the port of an earlier instance. */
  readonly folder?: string
  readonly port?: number
  /** The text that it prints when it listens, if this is not an address. */
  readonly ready?: RegExp
}

/** Creates a folder that serves as HOME, with these files. */
export function freshFolder(files: Readonly<Record<string, string>> = {}): string {
  const folder = mkdtempSync(join(tmpdir(), "svc-home-"))
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, name)), { recursive: true })
    writeFileSync(join(folder, name), text)
  }
  return folder
}

/** Removes a folder. Under Wine, Bun fails to remove one with its contents: the folder of temporary files goes as a whole. */
export function removeFolder(folder: string): void {
  if (!WINDOWS) rmSync(folder, { recursive: true, force: true })
}

/** Returns every document in the folder with bytes and mode, without logs, locks and caches (sessions, registries, eras). */
export function documents(folder: string): Record<string, string> {
  return Object.fromEntries(
    readdirSync(folder, { recursive: true, withFileTypes: true })
      .filter(
        ({ name, parentPath }) =>
          !`${parentPath}/${name}`
            .slice(folder.length)
            .match(/^\/(logs|sessions|control|configuration-|registries|\.?eras|\.config)|\.lock$/),
      )
      .map((entry) => {
        const path = join(entry.parentPath, entry.name)
        const mode = (statSync(path).mode & 0o777).toString(8)
        return [path, entry.isDirectory() ? mode : `${mode} ${readFileSync(path).toString("hex")}`]
      }),
  )
}

/** Waits until svc has written what it has learned of the running servers, which takes a moment. */
export async function remembered(folder: string): Promise<void> {
  for (const name of ["tools.json", "tool-definitions.json"]) await eventually(() => readIfThere(join(folder, name)))
}

/** Returns the variables that every program on Windows needs, with the user's folders in `home`. */
const windowsEnv = (home: string): Record<string, string> => ({
  ...Object.fromEntries(
    ["SystemRoot", "ComSpec", "PATHEXT", "TEMP", "TMP"].map((name) => [name, process.env[name] ?? ""]),
  ),
  USERPROFILE: home,
  APPDATA: join(home, "AppData", "Roaming"),
  LOCALAPPDATA: join(home, "AppData", "Local"),
})

/** Returns the environment of a new user: only what every shell has. */
export const freshEnv = (home: string): Record<string, string> => ({
  PATH: process.env.PATH ?? "",
  HOME: home,
  LANG: "C.UTF-8",
  ...(WINDOWS ? windowsEnv(home) : {}),
})

/** Starts `svc serve` and waits until it listens. */
export async function startSvc({
  config,
  flags = [],
  env = {},
  folder = freshFolder(),
  port = 0,
  ready = /listening on /,
}: Options = {}): Promise<Instance> {
  const file = join(folder, "mcp.json")
  const write = (value: unknown) =>
    writeFileSync(file, typeof value === "string" ? value : JSON.stringify(value, null, 2))
  if (config !== undefined) write(config)
  const child = Bun.spawn({
    cmd: [SVC, "serve", "--config-dir", folder, "--port", String(port), ...flags],
    cwd: folder,
    env: { ...freshEnv(folder), ...env },
    stdin: "ignore",
    stdout: "ignore",
    stderr: "pipe",
  })
  let text = ""
  const waiting = new Set<() => void>()
  const reading = (async () => {
    const decoder = new TextDecoder()
    for await (const chunk of child.stderr) {
      text += decoder.decode(chunk, { stream: true })
      for (const look of waiting) look()
    }
  })()
  const said = (wanted: string | RegExp) =>
    new Promise<void>((resolve, reject) => {
      const look = () => {
        if (typeof wanted === "string" ? !text.includes(wanted) : !wanted.test(text)) return
        waiting.delete(look)
        resolve()
      }
      waiting.add(look)
      void reading.then(() => {
        look()
        if (waiting.has(look))
          reject(
            new Error(`svc ended without saying ${wanted}:
${text}`),
          )
      })
      look()
    })
  await said(ready)
  const url = /listening on (\S+)\/mcp/.exec(text)?.[1] ?? ""
  return {
    url,
    folder,
    pid: child.pid,
    stderr: () => text,
    said,
    write,
    signal: (name) => child.kill(name),
    exited: child.exited,
    async [Symbol.asyncDispose]() {
      child.kill("SIGTERM")
      await child.exited
      removeFolder(folder)
    },
  }
}

/** Runs `svc` to its end. */
export async function runSvc(
  args: readonly string[],
  env?: Record<string, string>,
  stdin: string | Uint8Array = "",
  cwd?: string,
): Promise<{ code: number; stdout: string; stderr: string }> {
  const folder = freshFolder()
  const run = await runProgram([SVC, ...args], {
    cwd: cwd ?? folder,
    env: { ...freshEnv(folder), ...env },
    input: stdin,
  })
  removeFolder(folder)
  return run
}

/** Returns a function that runs `svc` for the configuration in `folder`, which is also its home and working directory. */
export const svcIn =
  (folder: string, env: Readonly<Record<string, string>> = {}) =>
  (...args: readonly string[]) =>
    runSvc(args, { ...freshEnv(folder), SVC_CONFIG_DIR: folder, ...env }, "", folder)

/** Returns the JSON that a command wrote. */
export const json = async (run: Promise<{ readonly stdout: string }>) => JSON.parse((await run).stdout)

/** Runs `svc` in a terminal, answers each question with the next of `answers`, and returns all output. */
export async function typeSvc(
  args: readonly string[],
  { folder, env = {}, answers }: { folder: string; env?: Record<string, string>; answers: readonly string[] },
): Promise<{ code: number; shown: string }> {
  const left = [...answers]
  const decoder = new TextDecoder()
  let shown = ""
  let seen = 0
  const { promise: ended, resolve: end } = Promise.withResolvers<void>()
  const child = Bun.spawn([SVC, ...args], {
    cwd: folder,
    env: { ...freshEnv(folder), ...env },
    terminal: {
      cols: 200,
      rows: 50,
      data(terminal, bytes) {
        shown += decoder.decode(bytes, { stream: true })
        if (!/(?:\[y\/N\]|:) $/.test(shown.slice(seen))) return
        seen = shown.length
        terminal.write(`${left.shift() ?? ""}\r`)
      },
      // The exit of svc is too early: the terminal may still hold what svc wrote.
      exit(terminal) {
        terminal.close()
        end()
      },
    },
  })
  await ended
  const code = await child.exited
  return { code, shown: shown.replaceAll("\r\n", "\n") }
}

/** Returns the ids of the processes whose command line contains `text`. */
export function processes(text: string): number[] {
  const { stdout } = Bun.spawnSync(WINDOWS ? ["windows.exe", "processes"] : ["ps", "-eo", "pid=,args="])
  return stdout
    .toString()
    .split("\n")
    .filter((line) => line.includes(text) && !line.includes("ps -eo"))
    .map((line) => Number.parseInt(line, 10))
}

/** Calls `look` until it returns a value, for at most `ms` milliseconds: for external events that cannot be awaited. */
export async function eventually<T>(
  look: () => T | undefined | false | Promise<T | undefined | false>,
  ms = 10_000,
): Promise<T> {
  const until = Date.now() + ms
  for (;;) {
    const found = await look()
    if (found !== undefined && found !== false) return found
    if (Date.now() > until) throw new Error(`not so after ${ms} ms: ${look}`)
    await Bun.sleep(20)
  }
}

/** Waits until this number of calls runs on the servers of an svc with `--metrics`. */
export const callsRun = ({ url }: Pick<Instance, "url">, count = 1): Promise<true> =>
  eventually(async () => (await (await fetch(`${url}/metrics`)).text()).includes(`\nsvc_calls_in_flight ${count}\n`))

/** Returns the HTTP request of a modern client. `_meta` of the parameters and `headers` come in place of its own. */
export function modernRequest(
  method: string,
  params: Readonly<Record<string, unknown>> = {},
  headers: Readonly<Record<string, string>> = {},
  id: number | string = 1,
): RequestInit {
  const name = params.name ?? params.uri
  const _meta = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": { name: "test", version: "1" },
    "io.modelcontextprotocol/clientCapabilities": {},
    ...(params._meta as Record<string, unknown> | undefined),
  }
  return {
    method: "POST",
    headers: {
      "content-type": "application/json",
      accept: "application/json, text/event-stream",
      "mcp-protocol-version": "2026-07-28",
      "mcp-method": method,
      ...(typeof name === "string" ? { "mcp-name": name } : {}),
      ...headers,
    },
    body: JSON.stringify({ jsonrpc: "2.0", id, method, params: { ...params, _meta } }),
  }
}

/** Sends one JSON-RPC request as a modern client. */
export async function modern(
  url: string,
  method: string,
  params: Record<string, unknown> = {},
  headers: Record<string, string> = {},
) {
  const response = await fetch(url, modernRequest(method, params, headers))
  const text = await response.text()
  return {
    status: response.status,
    // The answer to a call that was silent for long is the only message of a stream.
    body: JSON.parse(/^data: ?(\{.*)$/m.exec(text)?.[1] ?? text) as {
      result?: Record<string, unknown>
      error?: { code: number; message: string; data?: unknown }
    },
  }
}

export const readIfThere = (path: string): string | undefined =>
  existsSync(path) ? readFileSync(path, "utf8") : undefined
