/**
 * A stdio MCP server with hostile definitions and results: `--tools N` ordinary tools in place of its own. A tool returns the text
 * of its name in TEXTS, the definitions change after the first list if `--change` is given.
 */
import { readLines } from "../fixtures/serve-frames.ts"

const MB = 1024 * 1024
const flag = (name: string): number => {
  const at = process.argv.indexOf(`--${name}`)
  return at < 0 ? 0 : Number(process.argv[at + 1])
}

const TEXTS: Readonly<Record<string, () => string>> = {
  letters: () => "a".repeat(30_000),
  objects: () => `[${"{},".repeat(20 * MB - 1000)}{}]`,
  levels: () => `${'{"a":'.repeat(480)}[${"1,".repeat(MB)}1]${"}".repeat(480)}`,
  lines: () => "a line of many\n".repeat(3.5 * MB),
}

const self = (count: number) => Array.from({ length: count }, () => ({ $ref: "#/$defs/a" }))
const lines = (each: number): string => Array.from({ length: 9000 }, (_, at) => String((at * at) % each)).join("\n")
let isChanged = false

function definitions(): readonly object[] {
  const count = flag("tools")
  const inputSchema = { type: "object" }
  if (count > 0)
    return Array.from({ length: count }, (_, at) => ({
      name: `tool_${at}`,
      description: `Does thing ${at}`,
      inputSchema,
    }))
  return [
    ...Object.keys(TEXTS).map((name) => ({ name, inputSchema })),
    {
      name: "circle",
      inputSchema,
      outputSchema: { type: "object", properties: { a: { $ref: "#/$defs/a" } }, $defs: { a: { anyOf: self(8) } } },
    },
    {
      name: "alternatives",
      description: "zebra",
      inputSchema: { type: "object", properties: { a: { $ref: "#/$defs/a" } }, $defs: { a: { anyOf: self(200) } } },
    },
    {
      name: "wide",
      description: "giraffe",
      inputSchema: {
        type: "object",
        properties: Object.fromEntries(Array.from({ length: 100_000 }, (_, at) => [`p${at}`, { type: "string" }])),
      },
    },
    { name: "fail", inputSchema },
    { name: "change", inputSchema },
    ...Array.from({ length: 100 }, (_, at) => ({
      name: `text_${at}`,
      description: lines(isChanged ? 7 : 3),
      inputSchema,
    })),
  ]
}

const write = (message: object | string) =>
  process.stdout.write(`${typeof message === "string" ? message : JSON.stringify(message)}\n`)

readLines((line) => {
  const { id, method, params } = JSON.parse(line)
  const answer = (result: object) => write({ jsonrpc: "2.0", id, result })
  switch (method) {
    case "initialize":
      answer({
        protocolVersion: params.protocolVersion,
        capabilities: { tools: { listChanged: true } },
        serverInfo: { name: "hostile", version: "1" },
      })
      break
    case "tools/list":
      answer({ tools: definitions() })
      break
    case "tools/call": {
      const text = TEXTS[params.name]?.()
      if (params.name === "change") {
        isChanged = true
        write({ jsonrpc: "2.0", method: "notifications/tools/list_changed" })
      }
      if (params.name === "fail")
        write(
          `{"jsonrpc":"2.0","id":${JSON.stringify(id)},"error":{"code":1,"message":"no","data":[${"{},".repeat(5 * MB)}1]}}`,
        )
      else if (params.name === "circle") answer({ content: [], structuredContent: { a: "x".repeat(20_000) } })
      else answer({ content: [{ type: "text", text: text ?? "done" }] })
      break
    }
    default:
      if (id !== undefined) write({ jsonrpc: "2.0", id, error: { code: -32601, message: "unknown" } })
  }
})
