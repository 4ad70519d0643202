/** The environment for tests of tools: real documents in a temporary folder, and an agent whose servers answer in memory. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { createReload } from "../../../src/agent/reload.ts"
import type { StdioLaunch } from "../../../src/config/server-spec.ts"
import { type RegistryEntry, readEntry } from "../../../src/features/registry/entry.ts"
import { createConfigEditor } from "../../../src/features/tools/config-editor.ts"
import type { InternalTool, ToolContext } from "../../../src/features/tools/tool.ts"
import { RequestError } from "../../../src/lib/errors.ts"
import { readTexts } from "../../../src/store/documents.ts"
import type { Paths } from "../../../src/store/paths.ts"
import type { Params } from "../../../src/wire/message.ts"
import { createMemoryAgent, type ToolsOf, tool, WORLD } from "../../agent/memory-agent.ts"
import { settle } from "../../clock.ts"

export type StageOptions = {
  readonly config?: object | string
  readonly dotenv?: string
  /** The entries of the registry `test`. */
  readonly entries?: readonly object[]
  readonly toolsOf?: ToolsOf
  /** The person's answer; undefined if the client cannot ask. */
  readonly answer?: boolean
  /** Called while the question is open. */
  readonly onask?: () => void
  readonly preapproved?: ToolContext["preapproved"]
  /** Whether the caller is a terminal, and the digest that its person agreed to. */
  readonly terminal?: ToolContext["terminal"]
  readonly signal?: AbortSignal
  readonly fetch?: ToolContext["fetch"]
}

/** Reads an entry of the registry `test`. */
export const entryOf = (server: object): RegistryEntry => readEntry(server, "test") as RegistryEntry

/** A server starts unless its command or an argument is "broken", answers unless it is "silent", and lists one tool. */
function listOne({ command, args }: StdioLaunch): ReturnType<ToolsOf> {
  const words = [command, ...args]
  if (words.includes("broken")) return undefined
  return words.includes("silent") ? "silent" : [tool("one")]
}

export function stage({
  config = {},
  dotenv,
  entries = [],
  toolsOf = listOne,
  answer,
  onask = () => undefined,
  preapproved = { installs: true, edits: true },
  terminal,
  signal = new AbortController().signal,
  fetch = () => Promise.reject(new Error("there is no network")),
}: StageOptions = {}) {
  const directory = mkdtempSync(join(tmpdir(), "svc-tools-"))
  const at = (name: string) => join(directory, name)
  const paths: Paths = { directory, file: at("mcp.json"), dotenv: at(".env"), presets: at("presets.json") }
  writeFileSync(paths.file, typeof config === "string" ? config : JSON.stringify(config))
  if (dotenv !== undefined) writeFileSync(paths.dotenv, dotenv)
  const { agent, clock, log } = createMemoryAgent(toolsOf)
  const world = { parent: {}, platform: "linux", home: WORLD.home, folder: directory }
  const instances = { update: agent.apply.bind(agent) }
  const reload = createReload({ agent, instances, log, paths, read: () => readTexts(paths), world })
  const editor = createConfigEditor({ paths, clock, world, reload: async () => reload() })
  const asked: string[] = []
  const reports: string[] = []
  const find = (name: string, version: string) => {
    const known = entries.map(entryOf).filter((entry) => entry.name === name)
    const found = version === "latest" ? known.at(-1) : known.find((entry) => entry.version === version)
    if (found === undefined) throw new RequestError("not_found", `No server is named ${name} ${version}`)
    return { value: found, warnings: [] }
  }
  const context: ToolContext = {
    agent,
    editor,
    clock,
    registries: {
      sources: () => [{ name: "test", url: "http://registry", headers: {}, secrets: [] }],
      find: async (name, version) => find(name, version),
      findOrKnown: async (name, version) => find(name, version),
      versions: async (name) => ({ value: [find(name, "latest").value], warnings: [] }),
      search: () => Promise.reject(new Error("not searched here")),
      status: () => Promise.reject(new Error("not asked here")),
    },
    bundles: { open: () => Promise.reject(new Error("no bundles here")) },
    fetch,
    machine: { platform: "linux", home: "/h", has: () => true },
    maskCredentials: (text) => text,
    redactAll: (text) => text,
    lines: () => ["the last line of its log"],
    preapproved,
    person:
      answer === undefined
        ? undefined
        : {
            async agrees(message) {
              asked.push(message)
              onask()
              return answer
            },
          },
    terminal,
    signal,
    progress: (message) => void reports.push(message),
  }
  return {
    context,
    agent,
    clock,
    paths,
    asked,
    reports,
    /** Reads both documents; an absent `.env` is undefined. */
    documents() {
      const texts = readTexts(paths)
      return { config: texts.config(), dotenv: texts.dotenv() }
    },
    servers: (): Record<string, Params> => JSON.parse(readFileSync(paths.file, "utf8")).mcpServers ?? {},
    /** Starts the servers in the documents. */
    async start() {
      reload()
      await settle()
    },
    /** Runs a tool and returns its data. */
    run: async (one: InternalTool, args: Params): Promise<Params> => (await one.run(args, context)).data,
    async [Symbol.asyncDispose]() {
      await agent.close()
      rmSync(directory, { recursive: true })
    },
  }
}
