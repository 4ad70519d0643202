/**
 * The third-party clients, pinned, and how each is driven: `bun clients.ts PACKAGE WAY TARGET` prints what the client
 * listed and what its call returned. TARGET is JSON. A client has a process of its own, because some never end by
 * themselves.
 */
import { join } from "node:path"
import { connectStdio } from "./raw-client.ts"

export const WAYS = ["http", "stdio"] as const
/** How a client reaches svc: over Streamable HTTP, or over stdio through `svc proxy`. */
export type Way = (typeof WAYS)[number]

export type PeerClient = { readonly package: string; readonly version: string; readonly ways: readonly Way[] }

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

const DRIVES: Readonly<Record<string, Drive>> = {
  "@modelcontextprotocol/inspector": async (way, { folder, url, proxy, tool, message }) => {
    const target = way === "http" ? [url, "--transport", "http"] : proxy
    const cli = ["node", bin(folder, "mcp-inspector"), "--cli", ...target, "--method"]
    const { tools } = (await output([...cli, "tools/list"])) as { tools: readonly Tool[] }
    const called = await output([...cli, "tools/call", "--tool-name", tool, "--tool-arg", `message=${message}`])
    return { names: tools.map(({ name }) => name), text: textOf(called as CallResult) }
  },
  "@modelcontextprotocol/sdk": (way, target) =>
    sdk(way, target, {
      client: "@modelcontextprotocol/sdk/client/index.js",
      http: "@modelcontextprotocol/sdk/client/streamableHttp.js",
      stdio: "@modelcontextprotocol/sdk/client/stdio.js",
    }),
  "@modelcontextprotocol/client": (way, target) =>
    sdk(way, target, {
      client: "@modelcontextprotocol/client",
      http: "@modelcontextprotocol/client",
      stdio: "@modelcontextprotocol/client/stdio",
    }),
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
    const listed = await client?.request("tools/list")
    const called = await client?.request("tools/call", { name: tool, arguments: { message } })
    const tools = (listed?.result?.tools ?? []) as readonly Tool[]
    return { names: tools.map(({ name }) => name), text: textOf((called?.result ?? { content: [] }) as CallResult) }
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
}

/** Drives a client of either generation of the SDK. The entries name the modules that hold its parts. */
async function sdk(
  way: Way,
  { folder, url, proxy: [command = "", ...args], tool, message }: Target,
  entries: { readonly client: string; readonly http: string; readonly stdio: string },
): Promise<Driven> {
  const { Client } = await from<{ Client: Constructor<SdkClient> }>(folder, entries.client)
  const { StreamableHTTPClientTransport: Http } = await from<{ StreamableHTTPClientTransport: Constructor<object> }>(
    folder,
    entries.http,
  )
  const { StdioClientTransport: Stdio } = await from<{ StdioClientTransport: Constructor<object> }>(
    folder,
    entries.stdio,
  )
  const client = new Client({ name: "peers", version: "1" }, { versionNegotiation: { mode: "auto" } })
  await client.connect(way === "http" ? new Http(new URL(url)) : new Stdio({ command, args, env: environment() }))
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
  const driven = await DRIVES[name]?.(way as Way, JSON.parse(target) as Target)
  process.stdout.write(`\n${JSON.stringify(driven)}\n`, () => process.exit(0))
}
