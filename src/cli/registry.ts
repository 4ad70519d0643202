/** `svc registry` and `svc mcp search`: browse the MCP registries. */
import type { CommandDef } from "citty"
import { CONTEXT_ARGS, openContext } from "../commands/command-context.ts"
import { runTool } from "../commands/run-tool.ts"
import type { CommandGroup } from "../lib/command-line.ts"
import { print, say, table } from "../lib/output.ts"
import { isObject, type Params } from "../wire/message.ts"

const SERVER = { type: "positional", required: true, description: "Name of the server in the registry" } as const
const VERSION = { type: "string", description: "Version (default: the latest)" } as const

export const search: CommandDef = {
  meta: { name: "search", description: "Search the registries for servers" },
  args: {
    query: { type: "positional", required: false, description: "Search words, such as 'weather forecast'" },
    ...CONTEXT_ARGS,
    registry: { type: "string", description: "Name of one registry (default: all)" },
    type: {
      type: "string",
      description: "Kind of server: npm, pypi, oci, nuget, mcpb or remote",
      valueHint: "npm|pypi|oci|nuget|mcpb|remote",
    },
    transport: {
      type: "string",
      description: "Transport: stdio, streamable-http or sse",
      valueHint: "stdio|streamable-http|sse",
    },
    limit: { type: "string", description: "Maximum number of results (default 20)" },
    cursor: { type: "string", description: "Cursor of the next page, as printed below the previous page" },
  },
  async run({ args }) {
    const { query, registry, type, transport, limit, cursor } = args
    const given = { query, registry, type, transport, cursor, limit: limit === undefined ? undefined : Number(limit) }
    const data = await ask(args, "mcp_search", given)
    const servers = listOf(data.servers)
    const more = data.nextCursor === undefined ? "" : `\n${data.total} in total; next page: --cursor ${data.nextCursor}`
    print(args.json === true, data, () =>
      servers.length === 0
        ? "no servers found"
        : `${table(
            ["name", "version", "registry", "", "description"],
            servers.map((one) => [
              text(one.name),
              text(one.version),
              text(one.registry),
              [...(one.installed === true ? ["installed"] : []), ...(isActive(one) ? [] : [text(one.status)])].join(
                ", ",
              ),
              shortened(text(isActive(one) ? one.description : (one.statusMessage ?? one.description))),
            ]),
          )}${more}`,
    )
    return 0
  },
}

const info: CommandDef = {
  meta: { name: "info", description: "Show a server: the command it runs and the values it needs" },
  args: { name: SERVER, ...CONTEXT_ARGS, version: VERSION },
  async run({ args }) {
    const data = await ask(args, "mcp_info", { serverName: args.name, version: args.version })
    const entry = isObject(data.entry) ? data.entry : {}
    const wanted = (title: string, list: unknown) =>
      listOf(list).map((one): [string, string] => [
        title,
        `${one.name}${one.description === undefined ? "" : `  ${one.description}`}`,
      ])
    const servers = Array.isArray(entry.installedAs) ? entry.installedAs.join(", ") : ""
    const rows: [string, unknown][] = [
      ["name", entry.name ?? data.serverName],
      ["description", entry.description],
      ["version", entry.version],
      ["versions", Array.isArray(data.versions) ? data.versions.join(", ") : undefined],
      ["registry", entry.registry],
      ["status", isActive(entry) ? undefined : entry.status],
      ["repository", entry.repository],
      [
        "installed",
        data.installed !== true
          ? "no"
          : `yes${data.installedVersion === undefined ? "" : ` (${data.installedVersion})`}${servers === "" ? "" : `, as ${servers}`}`,
      ],
      ["runs", data.command],
      ...wanted("needs", data.required),
      ...wanted("takes", data.optional),
    ]
    print(args.json === true, data, () =>
      rows
        .filter(([, value]) => value !== undefined && value !== "")
        .map(([key, value]) => `${key.padEnd(12)}${text(value)}`)
        .join("\n"),
    )
    return 0
  },
}

const versions: CommandDef = {
  meta: { name: "versions", description: "List the versions of a server" },
  args: { name: SERVER, ...CONTEXT_ARGS },
  async run({ args }) {
    const { versions: all } = await ask(args, "mcp_info", { serverName: args.name })
    const list = Array.isArray(all) ? all.map(String) : []
    print(args.json === true, list, () => list.join("\n"))
    return 0
  },
}

const list: CommandDef = {
  meta: { name: "list", description: "List the registries" },
  args: CONTEXT_ARGS,
  async run({ args }) {
    const { registries } = await ask(args, "mcp_registry_list", {})
    print(args.json === true, registries, () =>
      table(
        ["name", "url"],
        listOf(registries).map(({ name, url }) => [text(name), text(url)]),
      ),
    )
    return 0
  },
}

const status: CommandDef = {
  meta: { name: "status", description: "Check whether the registries answer; exit with 69 if one does not" },
  args: {
    name: { type: "positional", required: false, description: "Name of one registry (default: all)" },
    ...CONTEXT_ARGS,
  },
  async run({ args }) {
    const { registries } = await ask(args, "mcp_registry_status", { registry: args.name })
    const all = listOf(registries)
    print(args.json === true, registries, () =>
      table(
        ["name", "url", "answers"],
        all.map((one) => [
          text(one.name),
          text(one.url),
          one.available === true ? `in ${one.latencyMs} ms` : text(one.error),
        ]),
      ),
    )
    return all.every(({ available }) => available === true) ? 0 : 69
  },
}

export const registry: CommandGroup = {
  meta: { name: "registry", description: "Inspect the MCP registries and their servers" },
  subCommands: { info, versions, list, status },
  retired: { search: ["mcp", "search"] },
}

// ---

/** Runs a tool and prints its warnings. */
async function ask(args: Readonly<Record<string, unknown>>, tool: string, given: Params): Promise<Params> {
  const data = await runTool(openContext(args), tool, given)
  for (const warning of Array.isArray(data.warnings) ? data.warnings : []) say(`warning: ${warning}`)
  return data
}

const listOf = (value: unknown): readonly Params[] => (Array.isArray(value) ? value.filter(isObject) : [])
const text = (value: unknown): string => (value === undefined ? "" : String(value))
const isActive = ({ status }: Params): boolean => status === undefined || status === "active"
const shortened = (line: string): string => (line.length > 80 ? `${line.slice(0, 79)}…` : line)
