/** Bundles (MCPB) from a registry, on the built binary: installed, updated, uninstalled, and what a failure leaves behind. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { existsSync, readdirSync, statSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { bundleOf, MANIFEST, NODE_SERVER, sha256, type ZipFile, zipOf } from "../fixtures/bundle.ts"
import { type Registry, type Server, startRegistry } from "../fixtures/registry.ts"
import { CLIENTS, connect2 } from "./clients.ts"
import {
  documents,
  eventually,
  freshEnv,
  freshFolder,
  type Instance,
  processes,
  ROOT,
  readIfThere,
  remembered,
  runSvc,
  SVC,
  startSvc,
} from "./harness.ts"

const ECHO = join(ROOT, "test/fixtures/echo.ts")
const SILENT = "setInterval(() => {}, 1000)"
const manifest = JSON.stringify(MANIFEST)
const files = (more: readonly ZipFile[], text = manifest) =>
  zipOf([{ path: "manifest.json", content: text }, { path: "server/index.js", content: NODE_SERVER }, ...more])

const BUNDLES: Readonly<Record<string, Uint8Array<ArrayBuffer>>> = {
  "1.mcpb": bundleOf(1),
  "2.mcpb": bundleOf(2),
  "exit.mcpb": bundleOf("exit"),
  "silent.mcpb": zipOf([
    { path: "manifest.json", content: manifest },
    { path: "server/index.js", content: SILENT },
  ]),
  "slip.mcpb": files([{ path: "../../evil", content: "x" }]),
  "link.mcpb": files([{ path: "link", content: "/etc", mode: 0o120777 }]),
  "bomb.mcpb": files([{ path: "bomb", content: new Uint8Array(5_000_000), size: 10 }]),
  "twice.mcpb": files([{ path: "server/index.js", content: "other" }]),
  "bare.mcpb": zipOf([{ path: "server/index.js", content: NODE_SERVER }]),
  "text.mcpb": Buffer.from("<html>not a bundle</html>"),
  "mac.mcpb": files([], JSON.stringify({ ...MANIFEST, compatibility: { platforms: ["darwin"] } })),
  "ruby.mcpb": files([], manifest.replace('"type":"node"', '"type":"ruby"')),
  "nothere.mcpb": files([], manifest.replace('"command":"node"', '"command":"no-such-program"')),
}

type Store = AsyncDisposable & { readonly url: string; readonly asked: string[] }

/** Serves the bundles; `moved/` redirects to them, `away/` to an address that svc must not follow. */
function startStore(): Store {
  const asked: string[] = []
  const server = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    fetch(request) {
      const { pathname } = new URL(request.url)
      asked.push(`${pathname} ${request.headers.get("authorization")}`)
      if (pathname.startsWith("/moved/")) return Response.redirect(pathname.slice("/moved".length))
      if (pathname.startsWith("/away/")) return Response.redirect("http://192.0.2.1/x.mcpb")
      const bytes = BUNDLES[pathname.slice(1)]
      return bytes === undefined ? new Response("no", { status: 404 }) : new Response(bytes)
    },
  })
  return { url: server.url.href, asked, [Symbol.asyncDispose]: () => server.stop(true) }
}

const entry = (url: string, name: string, version: string, file: string, more: object = {}): Server => ({
  name: `com.example/${name}`,
  description: `The bundle ${name}`,
  version,
  packages: [
    {
      registryType: "mcpb",
      identifier: `${url}${file}`,
      version,
      fileSha256: sha256(BUNDLES[file.split("/").at(-1) ?? ""] ?? Buffer.from("")),
      transport: { type: "stdio" },
      ...more,
    },
  ],
})
const entries = (url: string): readonly Server[] => [
  ...Object.keys(BUNDLES).map((file) => entry(url, file.replace(/\W.*/, "").replace(/^\d/, "n$&"), "1.0.0", file)),
  entry(url, "sun", "1.0.0", "1.mcpb"),
  entry(url, "sun", "3.0.0", "exit.mcpb"),
  entry(url, "sun", "2.0.0", "moved/2.mcpb"),
  entry(url, "wrong", "1.0.0", "1.mcpb", { fileSha256: "0123456789abcdef".repeat(4) }),
  entry(url, "unhashed", "1.0.0", "1.mcpb", { fileSha256: undefined }),
  entry("http://192.0.2.1/", "plain", "1.0.0", "1.mcpb"),
  entry(url, "gone", "1.0.0", "nowhere.mcpb"),
  entry(url, "away", "1.0.0", "away/1.mcpb"),
]

const FLAGS = ["--internal-tools", "all", "--startup-wait", "10s"]
const UNASKED = [...FLAGS, "--confirm-installs", "off", "--confirm-edits", "off"]
const configured = ({ url }: Registry) => ({
  mcpServers: { here: { command: "bun", args: [ECHO] } },
  registries: [{ name: "test", url, headers: { Authorization: "Bearer of-the-registry" } }],
})
const written = (folder: string) => JSON.parse(readIfThere(join(folder, "mcp.json")) ?? "").mcpServers
const folderOf = (folder: string, name: string, file: string) =>
  join(folder, "bundles", name, sha256(BUNDLES[file] as Uint8Array).slice(0, 16))
const KEY = { api_key: "sekret-of-the-sun" }

test.each(CLIENTS)(
  "a client of %s installs, updates and uninstalls a bundle [tools:installation]",
  async (_name, connect) => {
    await using store = startStore()
    await using registry = startRegistry(entries(store.url))
    await using svc = await startSvc({ config: configured(registry), flags: FLAGS })
    const asked: string[] = []
    await using client = await connect(svc, (message) => {
      asked.push(message)
      return "accept"
    })
    await remembered(svc.folder)
    const before = documents(svc.folder)
    const install = { serverName: "com.example/sun", version: "1.0.0" }
    expect((await client.call("mcp_info", { serverName: "com.example/sun" })).structuredContent).toMatchObject({
      entry: { types: ["mcpb"] },
      warnings: [
        `it is the bundle ${store.url}moved/2.mcpb; a dry run of its installation shows what it runs and needs`,
      ],
    })
    // svc writes what it learns of a server a moment after the server runs.
    const lasting = () =>
      Object.entries(documents(svc.folder)).filter(([path]) => !/\/\.?(?:eras|tools|tool-definitions)\.json/.test(path))

    expect((await client.call("mcp_install", install)).structuredContent).toMatchObject({
      error: { code: "invalid_argument", message: expect.stringContaining("api_key (API key; Your key)") },
      missing: [{ name: "api_key", secret: true }],
    })
    expect([asked, documents(svc.folder)]).toEqual([[], before])

    const said: string[] = []
    const env = { ...KEY, folders: '["/x","/y z"]' }
    const { structuredContent } = await client.call("mcp_install", { ...install, env }, (text) => said.push(text))
    expect(structuredContent).toMatchObject({ installed: true, status: "connected", tools: 1, version: "1.0.0" })
    // It was downloaded for the first call.
    expect(said.filter((one) => one.includes(store.url))).toEqual([`unpacking ${store.url}1.mcpb`])
    const root = folderOf(svc.folder, "sun", "1.mcpb")
    const [question = ""] = asked
    expect(question).toContain(`the bundle ${store.url}1.mcpb (sha256 ${sha256(BUNDLES["1.mcpb"] as Uint8Array)})`)
    expect(question).toContain(`node ${root}/server/index.js 1 /x "/y z" in ${root} with API_KEY=`)
    expect(question).toContain("API_KEY=sekret-of-the-sun")
    expect(JSON.stringify(structuredContent)).not.toContain("sekret")
    expect(written(svc.folder).sun).toEqual({
      command: "node",
      args: [`${root}/server/index.js`, "1", "/x", "/y z"],
      cwd: root,
      env: { API_KEY: "${SUN_API_KEY}" },
      installedFrom: {
        registry: "test",
        name: "com.example/sun",
        version: "1.0.0",
        type: "mcpb",
        package: `${store.url}1.mcpb`,
        values: { api_key: "${SUN_API_KEY}", folders: '["/x","/y z"]' },
      },
    })
    expect(readIfThere(join(svc.folder, ".env"))).toBe("SUN_API_KEY=sekret-of-the-sun\n")
    for (const path of ["", "/sun", `/sun/${root.split("/").at(-1)}`, "/sun/../sun"])
      expect(statSync(join(svc.folder, "bundles", path)).mode & 0o777).toBe(0o700)
    expect(statSync(join(root, "manifest.json")).mode & 0o777).toBe(0o600)
    expect(readdirSync(join(svc.folder, "bundles"))).toEqual(["sun"])
    const seen = async () => JSON.parse((await client.call("sun_svc_seen")).content[0]?.text ?? "")
    expect(await seen()).toEqual({ rest: ["/x", "/y z"], env: { API_KEY: KEY.api_key }, cwd: root })

    const updated = await client.call("mcp_update", { serverName: "sun", env: { mode: "fast" } })
    const next = folderOf(svc.folder, "sun", "2.mcpb")
    expect(updated.structuredContent).toMatchObject({ updated: true, to: "2.0.0", status: "connected", tools: 2 })
    expect(asked[1]).toContain(`the bundle ${store.url}moved/2.mcpb (sha256 `)
    expect(written(svc.folder).sun.env).toEqual({ API_KEY: "${SUN_API_KEY}", MODE: "fast" })
    expect(await seen()).toEqual({ rest: ["/x", "/y z"], env: { API_KEY: KEY.api_key, MODE: "fast" }, cwd: next })
    expect(readdirSync(join(svc.folder, "bundles", "sun"))).toEqual([next.split("/").at(-1) ?? ""])

    const working = lasting()
    const failed = await client.call("mcp_update", { serverName: "sun", version: "3.0.0" })
    expect(failed.structuredContent).toMatchObject({ error: { code: "rolled_back" } })
    expect(JSON.stringify(failed.structuredContent)).toContain("the moon is in the wrong phase")
    expect(lasting()).toEqual(working)
    expect((await seen()).cwd).toBe(next)

    const gone = await client.call("mcp_uninstall", { serverName: "sun" })
    expect(gone.structuredContent).toMatchObject({ uninstalled: true })
    expect(existsSync(join(svc.folder, "bundles"))).toBe(false)
    // Values of the registry are not shown.
    expect(new Set(store.asked.map((one) => one.split(" ")[1]))).toEqual(new Set(["null"]))
  },
  30_000,
)

describe("a bundle that cannot be installed leaves the folder unchanged, byte for byte [tools:rollback] [tools:bundles]", () => {
  let store: Store
  let registry: Registry
  let svc: Instance
  beforeAll(async () => {
    store = startStore()
    registry = startRegistry(entries(store.url))
    svc = await startSvc({ config: configured(registry), flags: UNASKED })
    await remembered(svc.folder)
  }, 20_000)
  afterAll(async () => {
    await svc[Symbol.asyncDispose]()
    await registry[Symbol.asyncDispose]()
    await store[Symbol.asyncDispose]()
  })

  test.each([
    ["wrong", "registry_unavailable", /sha256 begins with [0-9a-f]{12}, not with 0123456789ab/],
    ["gone", "registry_unavailable", /HTTP 404/],
    ["away", "registry_unavailable", /redirects to http:\/\/192\.0\.2\.1\/x\.mcpb, which is not https/],
    ["unhashed", "invalid_argument", /fileSha256/],
    ["plain", "invalid_argument", /https address/],
    ["slip", "invalid_argument", /unsafe path.*evil/],
    ["link", "invalid_argument", /"link" is a link/],
    ["bomb", "internal", /cannot be unpacked: its file "bomb" is damaged/],
    ["twice", "internal", /cannot be unpacked/],
    ["bare", "invalid_argument", /has no manifest\.json/],
    ["text", "invalid_argument", /not a zip archive/],
    ["mac", "invalid_argument", /runs on darwin, not on linux/],
    ["ruby", "invalid_argument", /manifest\.json is invalid at server\.type/],
    ["nothere", "invalid_argument", /needs no-such-program/],
    ["exit", "rolled_back", /the moon is in the wrong phase[\s\S]*svc undid the change/],
  ])(
    "%s",
    async (name, code, message) => {
      await using client = await connect2(svc)
      const before = documents(svc.folder)
      const { structuredContent } = await client.call("mcp_install", { serverName: `com.example/${name}`, env: KEY })
      expect(structuredContent).toMatchObject({ error: { code, message: expect.stringMatching(message) } })
      expect(documents(svc.folder)).toEqual(before)
      expect(existsSync(join(svc.folder, "bundles"))).toBe(false)
    },
    20_000,
  )
})

test("if svc is killed while it installs a bundle, the next start undoes the installation", async () => {
  await using store = startStore()
  await using registry = startRegistry(entries(store.url))
  const folder = freshFolder()
  await using killed = await startSvc({ folder, config: configured(registry), flags: UNASKED })
  const before = readIfThere(join(folder, "mcp.json"))
  const root = folderOf(folder, "silent", "silent.mcpb")
  void fetch(`${killed.url}/mcp`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ tool: "mcp_install", arguments: { serverName: "com.example/silent", env: KEY } }),
  }).catch(() => undefined)
  await eventually(() => processes(`${root}/`).length > 0)
  killed.signal("SIGKILL")
  await killed.exited
  expect(existsSync(root)).toBe(true)
  await using _again = await startSvc({ folder, flags: UNASKED })
  await eventually(() => !existsSync(join(folder, "bundles")))
  expect([readIfThere(join(folder, "mcp.json")), readIfThere(join(folder, ".env"))]).toEqual([before, undefined])
  await eventually(() => processes(`${root}/`).length === 0)
}, 20_000)

describe.each([
  ["without an instance", false],
  ["with a running instance", true],
])("svc mcp install %s", (_name, running) => {
  test("installs a bundle that is downloaded once, and undoes an interrupted installation", async () => {
    await using store = startStore()
    await using registry = startRegistry(entries(store.url))
    const folder = freshFolder()
    await using stack = new AsyncDisposableStack()
    if (running) stack.use(await startSvc({ folder, config: configured(registry) }))
    else writeFileSync(join(folder, "mcp.json"), JSON.stringify(configured(registry)))
    const svc = (...args: string[]) => runSvc(["mcp", ...args, "--config-dir", folder], freshEnv(folder))
    const env = ["--env", "api_key=sekret-of-the-sun"]

    const unasked = await svc("install", "com.example/n1", ...env)
    expect([unasked.code, unasked.stderr]).toEqual([64, expect.stringContaining("add --yes to let svc run: node ")])
    expect(await svc("install", "com.example/n1", "--yes")).toMatchObject({ code: 64 })
    const shown = await svc("install", "com.example/n1", "--dry-run", ...env)
    expect(shown.stdout).toContain(`the bundle ${store.url}1.mcpb (sha256 `)
    store.asked.length = 0
    const done = await svc("install", "com.example/n1", "--yes", ...env)
    expect([done.code, done.stdout]).toEqual([0, "installed n1: connected, 1 tool\n"])
    expect(store.asked.length).toBe(running ? 0 : 1)
    expect(done.stderr.includes(`downloading ${store.url}1.mcpb`)).toBe(!running)
    expect((await svc("uninstall", "n1", "--yes")).code).toBe(0)
    expect(existsSync(join(folder, "bundles"))).toBe(false)
    expect((await svc("install", "com.example/wrong", "--yes", ...env)).code).toBe(69)

    const text = readIfThere(join(folder, "mcp.json"))
    const root = folderOf(folder, "silent", "silent.mcpb")
    const child = Bun.spawn({
      cmd: [SVC, "mcp", "install", "com.example/silent", "--yes", ...env, "--config-dir", folder],
      env: freshEnv(folder),
      stdin: "ignore",
      stdout: "ignore",
      stderr: "ignore",
    })
    await eventually(() => processes(`${root}/`).length > 0)
    child.kill("SIGINT")
    expect(await child.exited).not.toBe(0)
    await eventually(() => readIfThere(join(folder, "mcp.json")) === text && !existsSync(join(folder, "bundles")))
  }, 30_000)
})
