/**
 * The third-party clients, pinned, and how each is driven: `bun clients.ts PACKAGE WAY TARGET` prints what the client
 * listed and what its call returned. TARGET is JSON. A client has a process of its own, because some never end by
 * themselves.
 */
import { join } from "node:path"
import { eventually, freePort } from "../e2e/harness.ts"
import { connectHttp, connectStdio, type RawClient } from "./raw-client.ts"

export const WAYS = ["http", "stdio"] as const
/** How a client reaches svc: over Streamable HTTP, over stdio through `svc proxy`, or over HTTP+SSE. */
export type Way = (typeof WAYS)[number] | "sse"

export type PeerClient = {
  readonly package: string
  readonly version: string
  /** The name under which it is installed, if that is not the package's. */
  readonly as?: string
  readonly ways: readonly Way[]
}

/** Versions of the SDK that differ: those before 1.10 know HTTP only as HTTP+SSE. */
const OLD_SDKS: readonly PeerClient[] = (
  [
    ["0.5.0", ["sse", "stdio"]],
    ["0.7.0", ["sse", "stdio"]],
    ["1.0.4", ["sse", "stdio"]],
    ["1.5.0", ["sse", "stdio"]],
    ["1.9.0", ["sse", "stdio"]],
    ["1.12.3", ["http", "sse", "stdio"]],
    ["1.17.5", WAYS],
    ["1.20.2", WAYS],
    ["1.25.3", WAYS],
    ["1.29.0", WAYS],
  ] as const
).map(([version, ways]) => ({ package: "@modelcontextprotocol/sdk", version, as: `sdk-${version}`, ways }))
const OLD_CLIENTS: readonly PeerClient[] = ["2.0.0", "2.2.0"].map((version) => ({
  package: "@modelcontextprotocol/client",
  version,
  as: `client-${version}`,
  ways: WAYS,
}))

export const PEER_CLIENTS: readonly PeerClient[] = [
  { package: "@modelcontextprotocol/inspector", version: "2.12.0", ways: WAYS },
  { package: "@modelcontextprotocol/sdk", version: "1.32.2", ways: WAYS },
  { package: "@modelcontextprotocol/client", version: "2.4.0", ways: WAYS },
  { package: "@ai-sdk/mcp", version: "2.0.99", ways: WAYS },
  { package: "mcp-use", version: "1.34.6", ways: WAYS },
  { package: "mcporter", version: "0.12.3", ways: WAYS },
  // It is itself a bridge from stdio to HTTP.
  { package: "mcp-remote", version: "0.15.1", ways: ["http"] },
  { package: "@langchain/mcp-adapters", version: "1.1.4", ways: WAYS },
  { package: "@openai/agents", version: "0.20.0", ways: WAYS },
  { package: "@mastra/mcp", version: "0.14.5", ways: WAYS },
  { package: "@llamaindex/tools", version: "0.1.12", ways: WAYS },
  { package: "@genkit-ai/mcp", version: "1.42.0", ways: WAYS },
  { package: "@voltagent/core", version: "2.10.0", ways: WAYS },
  { package: "@strands-agents/sdk", version: "1.16.0", ways: WAYS },
  { package: "@google/adk", version: "2.0.0", ways: WAYS },
  { package: "mcp-client", version: "1.13.1", ways: WAYS },
  { package: "mcp-hub", version: "4.2.1", ways: WAYS },
  // Each of these bridges is a client of svc on one side.
  { package: "supergateway", version: "4.0.0", ways: ["http"] },
  { package: "mcp-proxy", version: "6.7.19", ways: ["stdio"] },
  ...OLD_SDKS,
  ...OLD_CLIENTS,
]

/** What a client is told. `folder` has the installed clients, `proxy` is the command that bridges stdio to svc. */
export type Target = {
  readonly folder: string
  readonly url: string
  readonly proxy: readonly string[]
  readonly tool: string
  readonly message: string
}

/** The names of the tools that a client listed, and the text that its call returned. */
export type Driven = { readonly names: readonly string[]; readonly text: string }

// ---

type Tool = { readonly name: string }
type CallResult = { readonly content: readonly { readonly text?: string }[] }
type Drive = (way: Way, target: Target) => Promise<Driven>
/** A client of either SDK. */
type SdkClient = {
  connect(transport: object): Promise<void>
  listTools(): Promise<{ readonly tools: readonly Tool[] }>
  callTool(call: { name: string; arguments: object }): Promise<CallResult>
  close(): Promise<void>
}
type Constructor<T> = new (...args: readonly unknown[]) => T

const textOf = ({ content }: CallResult): string => content.map(({ text }) => text ?? "").join("")

/** The parameters of a server in the notation of configuration files, which many clients take. */
const serverOf = (way: Way, { url, proxy: [command = "", ...args] }: Target) =>
  way === "http" ? { url } : { command, args }

const DRIVES: Readonly<Record<string, Drive>> = {
  "@modelcontextprotocol/inspector": async (way, { folder, url, proxy, tool, message }) => {
    const target = way === "http" ? [url, "--transport", "http"] : proxy
    const cli = ["node", bin(folder, "mcp-inspector"), "--cli", ...target, "--method"]
    const { tools } = (await output([...cli, "tools/list"])) as { tools: readonly Tool[] }
    const called = await output([...cli, "tools/call", "--tool-name", tool, "--tool-arg", `message=${message}`])
    return { names: tools.map(({ name }) => name), text: textOf(called as CallResult) }
  },
  "@modelcontextprotocol/sdk": sdk1("@modelcontextprotocol/sdk"),
  "@modelcontextprotocol/client": sdk2("@modelcontextprotocol/client"),
  "@ai-sdk/mcp": async (way, { folder, url, proxy: [command = "", ...args], tool, message }) => {
    type AiTools = Readonly<Record<string, { execute(args: object, options: object): Promise<CallResult> }>>
    const { createMCPClient } = await from<{
      createMCPClient(options: object): Promise<{ tools(): Promise<AiTools> }>
    }>(folder, "@ai-sdk/mcp")
    const { Experimental_StdioMCPTransport: Stdio } = await from<{
      Experimental_StdioMCPTransport: Constructor<object>
    }>(folder, "@ai-sdk/mcp/mcp-stdio")
    const client = await createMCPClient({
      transport: way === "http" ? { type: "http", url } : new Stdio({ command, args }),
    })
    const tools = await client.tools()
    const called = await tools[tool]?.execute({ message }, { toolCallId: "1", messages: [] })
    return { names: Object.keys(tools), text: textOf(called ?? { content: [] }) }
  },
  "mcp-use": async (way, { folder, url, proxy: [command = "", ...args], tool, message }) => {
    type Connector = {
      listTools(): Promise<readonly Tool[]>
      callTool(name: string, args: object): Promise<CallResult>
    }
    const { MCPClient } = await from<{
      MCPClient: { fromDict(config: object): { createSession(name: string): Promise<{ connector: Connector }> } }
    }>(folder, "mcp-use/client")
    const client = MCPClient.fromDict({ mcpServers: { svc: way === "http" ? { url } : { command, args } } })
    const { connector } = await client.createSession("svc")
    const tools = await connector.listTools()
    return { names: tools.map(({ name }) => name), text: textOf(await connector.callTool(tool, { message })) }
  },
  mcporter: async (way, { folder, url, proxy, tool, message }) => {
    const target = way === "http" ? ["--http-url", url, "--allow-http"] : ["--stdio", proxy.join(" ")]
    const cli = ["bun", "--bun", bin(folder, "mcporter")]
    const listed = await output([...cli, "list", ...target, "--name", "svc", "--json"])
    const call = [...cli, "call", ...target, "--name", "svc", tool, `message=${message}`, "--output", "json"]
    const { tools } = listed as { tools: readonly Tool[] }
    return { names: tools.map(({ name }) => name), text: textOf((await output(call)) as CallResult) }
  },
  "mcp-remote": async (_way, { folder, url, tool, message }) => {
    const cmd = ["node", bin(folder, "mcp-remote"), url, "--allow-http"]
    await using client = await connectStdio(cmd, { cwd: folder, env: environment() })
    return await drivenBare(client, tool, message)
  },
  "@langchain/mcp-adapters": async (way, { folder, url, proxy: [command = "", ...args], tool, message }) => {
    type Invocable = Tool & { invoke(args: object): Promise<unknown> }
    const { MultiServerMCPClient } = await from<{
      MultiServerMCPClient: Constructor<{ getTools(): Promise<readonly Invocable[]> }>
    }>(folder, "@langchain/mcp-adapters")
    const transport = way === "http" ? { transport: "http", url } : { transport: "stdio", command, args }
    const tools = await new MultiServerMCPClient({ mcpServers: { svc: transport } }).getTools()
    const called = await tools.find(({ name }) => name === tool)?.invoke({ message })
    return { names: tools.map(({ name }) => name), text: String(called) }
  },
  "@openai/agents": async (way, target) => {
    const { MCPServerStdio: Stdio, MCPServerStreamableHttp: Http } = await from<
      Record<"MCPServerStdio" | "MCPServerStreamableHttp", Constructor<OpenAiServer>>
    >(target.folder, "@openai/agents")
    const { url, tool, message, proxy } = target
    const server = way === "http" ? new Http({ url }) : new Stdio({ command: proxy[0], args: proxy.slice(1) })
    await server.connect()
    const tools = await server.listTools()
    const content = await server.callTool(tool, { message })
    return { names: tools.map(({ name }) => name), text: textOf({ content }) }
  },
  "@mastra/mcp": async (way, target) => {
    type Executable = { execute(call: { context: object }): Promise<CallResult> }
    const { MCPClient } = await from<{
      MCPClient: Constructor<{ getToolsets(): Promise<{ svc: Readonly<Record<string, Executable>> }> }>
    }>(target.folder, "@mastra/mcp")
    const url = new URL(target.url)
    const server = way === "http" ? { url } : serverOf(way, target)
    const { svc: tools } = await new MCPClient({ servers: { svc: server } }).getToolsets()
    const called = await tools[target.tool]?.execute({ context: { message: target.message } })
    return { names: Object.keys(tools), text: textOf(called ?? { content: [] }) }
  },
  "@llamaindex/tools": async (way, target) => {
    type LlamaTool = { readonly metadata: Tool; call(args: object): Promise<unknown> }
    const { mcp } = await from<{ mcp(options: object): { tools(): Promise<readonly LlamaTool[]> } }>(
      target.folder,
      "@llamaindex/tools",
    )
    const tools = await mcp(serverOf(way, target)).tools()
    const called = await tools.find(({ metadata }) => metadata.name === target.tool)?.call({ message: target.message })
    return { names: tools.map(({ metadata }) => metadata.name), text: textOf(called as CallResult) }
  },
  "@genkit-ai/mcp": async (way, target) => {
    type Action = { readonly __action: Tool; run(args: object): Promise<{ readonly result: CallResult }> }
    const { createMcpClient } = await from<{
      createMcpClient(options: object): { getActiveTools(ai: object): Promise<readonly Action[]> }
    }>(target.folder, "@genkit-ai/mcp")
    const { genkit } = await from<{ genkit(options: object): object }>(target.folder, "genkit")
    const options = { name: "svc", serverName: "svc", rawToolResponses: true, mcpServer: serverOf(way, target) }
    const tools = await createMcpClient(options).getActiveTools(genkit({}))
    const names = tools.map(({ __action }) => __action.name.replace(/^svc\//, ""))
    const called = await tools[names.indexOf(target.tool)]?.run({ message: target.message })
    return { names, text: textOf(called?.result ?? { content: [] }) }
  },
  "@voltagent/core": async (way, target) => {
    type VoltTool = Tool & { execute(args: object): Promise<CallResult> }
    const { MCPConfiguration } = await from<{
      MCPConfiguration: Constructor<{ getTools(): Promise<readonly VoltTool[]> }>
    }>(target.folder, "@voltagent/core")
    const server = { type: way === "http" ? "streamable-http" : "stdio", ...serverOf(way, target) }
    const tools = await new MCPConfiguration({ servers: { svc: server } }).getTools()
    const names = tools.map(({ name }) => name.replace(/^svc_/, ""))
    const called = await tools[names.indexOf(target.tool)]?.execute({ message: target.message })
    return { names, text: textOf(called ?? { content: [] }) }
  },
  "@strands-agents/sdk": async (way, target) => {
    type StrandsClient = {
      listTools(): Promise<readonly Tool[]>
      callTool(tool: Tool | undefined, args: object): Promise<CallResult>
    }
    const { McpClient } = await from<{ McpClient: Constructor<StrandsClient> }>(target.folder, "@strands-agents/sdk")
    const client = new McpClient({ transport: await sdkTransport(way, target) })
    const tools = await client.listTools()
    const tool = tools.find(({ name }) => name === target.tool)
    const called = await client.callTool(tool, { message: target.message })
    return { names: tools.map(({ name }) => name), text: textOf(called) }
  },
  "@google/adk": async (way, target) => {
    type AdkTool = Tool & { runAsync(call: { args: object; toolContext: object }): Promise<CallResult> }
    const { MCPToolset } = await from<{
      MCPToolset: Constructor<{ getTools(): Promise<readonly AdkTool[]> }>
    }>(target.folder, "@google/adk")
    const connection =
      way === "http"
        ? { type: "StreamableHTTPConnectionParams", url: target.url }
        : { type: "StdioConnectionParams", serverParams: serverOf(way, target) }
    const tools = await new MCPToolset(connection).getTools()
    const tool = tools.find(({ name }) => name === target.tool)
    const called = await tool?.runAsync({ args: { message: target.message }, toolContext: {} })
    return { names: tools.map(({ name }) => name), text: textOf(called ?? { content: [] }) }
  },
  "mcp-client": async (way, target) => {
    type Connection = {
      connect(options: object): Promise<void>
      getAllTools(): Promise<readonly Tool[]>
      callTool(call: object): Promise<CallResult>
    }
    const { MCPClient } = await from<{ MCPClient: Constructor<Connection> }>(target.folder, "mcp-client")
    const client = new MCPClient({ name: "peers", version: "1" })
    await client.connect({ type: way === "http" ? "httpStream" : "stdio", ...serverOf(way, target) })
    const tools = await client.getAllTools()
    const called = await client.callTool({ name: target.tool, arguments: { message: target.message } })
    return { names: tools.map(({ name }) => name), text: textOf(called) }
  },
  supergateway: async (_way, { folder, url, tool, message }) => {
    const cmd = ["node", bin(folder, "supergateway"), "--streamableHttp", url, "--logLevel", "none"]
    await using client = await connectStdio(cmd, { cwd: folder, env: environment() })
    return await drivenBare(client, tool, message)
  },
  "mcp-proxy": async (_way, { folder, proxy, tool, message }) => {
    const port = await freePort()
    const cmd = ["node", bin(folder, "mcp-proxy"), "--host", "127.0.0.1", "--port", String(port), "--", ...proxy]
    const bridge = Bun.spawn({ cmd, cwd: folder, stdin: "ignore", stdout: "ignore", stderr: "ignore" })
    try {
      const url = `http://127.0.0.1:${port}/mcp`
      await eventually(async () => (await fetch(url).catch(() => undefined)) !== undefined, BRIDGE_MS)
      await using client = await connectHttp(url)
      return await drivenBare(client, tool, message)
    } finally {
      bridge.kill()
    }
  },
  "mcp-hub": async (way, target) => {
    const { folder, tool, message } = target
    const file = join(process.cwd(), "mcp-hub.json")
    await Bun.write(file, JSON.stringify({ mcpServers: { svc: serverOf(way, target) } }))
    const port = await freePort()
    const cmd = ["node", bin(folder, "mcp-hub"), "--port", String(port), "--config", file]
    const hub = Bun.spawn({ cmd, stdin: "ignore", stdout: "ignore", stderr: "ignore" })
    const post = async (path: string, body: object) => {
      const headers = { "content-type": "application/json" }
      const init = { method: "POST", headers, body: JSON.stringify({ server_name: "svc", ...body }) }
      return await (await fetch(`http://127.0.0.1:${port}/api/servers/${path}`, init)).json()
    }
    try {
      type Info = { readonly server?: { readonly capabilities?: { readonly tools?: readonly Tool[] } } }
      const { server } = await eventually(async () => {
        const info = (await post("info", {}).catch(() => ({}))) as Info
        return (info.server?.capabilities?.tools?.length ?? 0) > 0 ? info : undefined
      }, BRIDGE_MS)
      const called = (await post("tools", { tool, arguments: { message } })) as { readonly result: CallResult }
      return { names: (server?.capabilities?.tools ?? []).map(({ name }) => name), text: textOf(called.result) }
    } finally {
      hub.kill()
    }
  },
}

type OpenAiServer = {
  connect(): Promise<void>
  listTools(): Promise<readonly Tool[]>
  callTool(name: string, args: object): Promise<CallResult["content"]>
}

/** How long a client may take to connect to svc before it is used. */
const BRIDGE_MS = 30_000

/** Drives a bare client, which reaches svc through another one. */
async function drivenBare(client: RawClient | undefined, tool: string, message: string): Promise<Driven> {
  const listed = await client?.request("tools/list")
  const called = await client?.request("tools/call", { name: tool, arguments: { message } })
  const tools = (listed?.result?.tools ?? []) as readonly Tool[]
  return { names: tools.map(({ name }) => name), text: textOf((called?.result ?? { content: [] }) as CallResult) }
}

/** Returns how a version of the SDK before 2 is driven, and of the client of version 2. `name` is what it is installed as. */
function sdk1(name: string): Drive {
  return (way, target) =>
    sdk(way, target, {
      client: `${name}/client/index.js`,
      http: `${name}/client/${way === "sse" ? "sse" : "streamableHttp"}.js`,
      stdio: `${name}/client/stdio.js`,
    })
}

function sdk2(name: string): Drive {
  return (way, target) => sdk(way, target, { client: name, http: name, stdio: `${name}/stdio` })
}

const driveOf = (name: string): Drive | undefined => {
  if (name.startsWith("sdk-")) return sdk1(name)
  return name.startsWith("client-") ? sdk2(name) : DRIVES[name]
}

/** Returns a transport of the newest SDK before 2, which some clients take. */
async function sdkTransport(way: Way, target: Target): Promise<object> {
  const entry = (file: string) => `@modelcontextprotocol/sdk/client/${file}.js`
  if (way !== "http") {
    const { StdioClientTransport: Stdio } = await from<{ StdioClientTransport: Constructor<object> }>(
      target.folder,
      entry("stdio"),
    )
    return new Stdio({ ...serverOf(way, target), env: environment() })
  }
  const { StreamableHTTPClientTransport: Http } = await from<{ StreamableHTTPClientTransport: Constructor<object> }>(
    target.folder,
    entry("streamableHttp"),
  )
  return new Http(new URL(target.url))
}

/** Drives a client of either generation of the SDK. The entries name the modules that hold its parts. HTTP+SSE is at `/sse`. */
async function sdk(
  way: Way,
  { folder, url, proxy: [command = "", ...args], tool, message }: Target,
  entries: { readonly client: string; readonly http: string; readonly stdio: string },
): Promise<Driven> {
  // Versions before 1.5 take that of the browser.
  if (way === "sse") Object.assign(globalThis, await from<{ EventSource: unknown }>(folder, "eventsource"))
  const { Client } = await from<{ Client: Constructor<SdkClient> }>(folder, entries.client)
  const transport = async () => {
    if (way === "stdio") {
      const { StdioClientTransport: Stdio } = await from<{ StdioClientTransport: Constructor<object> }>(
        folder,
        entries.stdio,
      )
      return new Stdio({ command, args, env: environment() })
    }
    const { StreamableHTTPClientTransport: Http, SSEClientTransport: Sse } = await from<
      Record<"StreamableHTTPClientTransport" | "SSEClientTransport", Constructor<object>>
    >(folder, entries.http)
    return way === "sse" ? new Sse(new URL("/sse", url)) : new Http(new URL(url))
  }
  const client = new Client({ name: "peers", version: "1" }, { capabilities: {}, versionNegotiation: { mode: "auto" } })
  await client.connect(await transport())
  const { tools } = await client.listTools()
  const called = await client.callTool({ name: tool, arguments: { message } })
  await client.close()
  return { names: tools.map(({ name }) => name), text: textOf(called) }
}

async function from<T>(folder: string, module: string): Promise<T> {
  return (await import(Bun.resolveSync(module, folder))) as T
}

const bin = (folder: string, name: string): string => join(folder, "node_modules", ".bin", name)

const environment = (): Record<string, string> =>
  Object.fromEntries(Object.entries(process.env).flatMap(([key, value]) => (value === undefined ? [] : [[key, value]])))

/** Runs a command to its end and returns the JSON that it printed. */
async function output(cmd: readonly string[]): Promise<unknown> {
  const child = Bun.spawn({ cmd: [...cmd], stdin: "ignore", stdout: "pipe", stderr: "inherit" })
  const text = await new Response(child.stdout).text()
  return JSON.parse(text.slice(text.indexOf("{")))
}

if (import.meta.main) {
  const [name = "", way = "http", target = "{}"] = process.argv.slice(2)
  const driven = await driveOf(name)?.(way as Way, JSON.parse(target) as Target)
  process.stdout.write(`\n${JSON.stringify(driven)}\n`, () => process.exit(0))
}
