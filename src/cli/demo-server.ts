/** `svc demo-server`: a small MCP server on stdio, which needs neither network nor configuration. */
import type { CommandDef } from "citty"
import { systemClock } from "../lib/clock.ts"
import { version } from "../lib/version.ts"
import { negotiateLegacy } from "../wire/era.ts"
import { encode } from "../wire/frame.ts"
import { createSplitter } from "../wire/lines.ts"
import { asMessage, errorText, isObject, isRequest, type Params, type Request, resultText } from "../wire/message.ts"

export const demoServer: CommandDef = {
  meta: { name: "demo-server", description: "Run a small MCP server on stdio, for experiments" },
  async run() {
    const feed = createSplitter(
      (line) => {
        const answer = respond(new TextDecoder().decode(line))
        if (answer !== undefined) process.stdout.write(encode(`${answer}\n`))
      },
      1024 * 1024,
      () => undefined,
    )
    for await (const chunk of Bun.stdin.stream()) feed(chunk)
    return 0
  },
}

// ---

/** Returns the response to one line; undefined unless it is a request. */
function respond(line: string): string | undefined {
  let request: Request | undefined
  try {
    const message = asMessage(JSON.parse(line))
    if (!isRequest(message)) return undefined
    request = message
    return resultText(request.id, JSON.stringify(answer(request.method, request.params ?? {})))
  } catch (error) {
    const known = error instanceof DemoError
    return errorText(request?.id, known ? error.code : -32700, known ? error.message : "not a JSON-RPC message")
  }
}

class DemoError extends Error {
  constructor(
    readonly code: number,
    message: string,
  ) {
    super(message)
  }
}

const text = (value: string): Params => ({ content: [{ type: "text", text: value }] })

/** Returns the error of a call, which tells the model what to correct. */
function wrongArguments(needs: string, args: Params): Params {
  const names = Object.keys(args).map((name) => JSON.stringify(name))
  return { ...text(`${needs}; it got ${names.length === 0 ? "no arguments" : names.join(", ")}`), isError: true }
}

const TOOLS = [
  {
    name: "echo",
    description: "Returns its message",
    inputSchema: { type: "object", properties: { message: { type: "string" } }, required: ["message"] },
    annotations: { readOnlyHint: true },
  },
  {
    name: "add",
    description: "Adds two numbers",
    inputSchema: { type: "object", properties: { a: { type: "number" }, b: { type: "number" } }, required: ["a", "b"] },
    annotations: { readOnlyHint: true },
  },
  {
    name: "time",
    description: "Returns the time in UTC",
    inputSchema: { type: "object", properties: {} },
    annotations: { readOnlyHint: true },
  },
]
const WELCOME = "demo://welcome"

function answer(method: string, params: Params): Params {
  switch (method) {
    case "initialize":
      return {
        protocolVersion: negotiateLegacy(params.protocolVersion),
        capabilities: { tools: {}, resources: {}, prompts: {} },
        serverInfo: { name: "svc-demo", version },
        instructions: "A demonstration server: echo, add and time.",
      }
    case "ping":
      return {}
    case "tools/list":
      return { tools: TOOLS }
    case "resources/list":
      return { resources: [{ uri: WELCOME, name: "welcome", mimeType: "text/plain" }] }
    case "resources/templates/list":
      return { resourceTemplates: [] }
    case "prompts/list":
      return { prompts: [{ name: "greet", description: "A greeting", arguments: [{ name: "name", required: true }] }] }
    case "resources/read":
      if (params.uri !== WELCOME) throw new DemoError(-32602, "no such resource")
      return { contents: [{ uri: WELCOME, mimeType: "text/plain", text: "Welcome to svc." }] }
    case "prompts/get": {
      const name = isObject(params.arguments) ? String(params.arguments.name ?? "you") : "you"
      return { messages: [{ role: "user", content: { type: "text", text: `Say hello to ${name}.` } }] }
    }
    case "tools/call":
      return callTool(params.name, isObject(params.arguments) ? params.arguments : {})
    default:
      throw new DemoError(-32601, "method not found")
  }
}

function callTool(name: unknown, args: Params): Params {
  switch (name) {
    case "echo":
      return typeof args.message === "string"
        ? text(args.message)
        : wrongArguments('echo needs "message", a text', args)
    case "add":
      return typeof args.a === "number" && typeof args.b === "number"
        ? text(String(args.a + args.b))
        : wrongArguments('add needs "a" and "b", two numbers', args)
    case "time":
      return text(new Date(systemClock.now()).toISOString())
    default:
      throw new DemoError(-32602, "no such tool")
  }
}
