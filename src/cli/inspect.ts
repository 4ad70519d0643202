/** `svc inspect`: shows what all servers or one server offer, or the definition of one tool. */
import type { CommandDef } from "citty"
import type { OfferSummary, ServerOffer } from "../app/catalog-answers.ts"
import type { ListingEntry } from "../catalog/listing.ts"
import { firstSentence, oneLine, signatureOf } from "../catalog/signature.ts"
import { hiddenNote, toolState } from "../catalog/tool-settings.ts"
import { schemaFacts } from "../commands/schema-facts.ts"
import { SHELL_ARGS, withShellClient } from "../commands/shell-client.ts"
import { facts, print, table } from "../lib/output.ts"
import type { Cell } from "../lib/table.ts"
import type { OfferedTool } from "../report/offered-tools.ts"
import { stateCell } from "../report/server-state.ts"
import { isObject } from "../wire/message.ts"

export const inspect: CommandDef = {
  meta: { name: "inspect", description: "Show what servers offer: tools with their schemas, prompts, resources" },
  args: {
    target: {
      type: "positional",
      required: false,
      description: "A server, or a tool as server/tool (default: all servers)",
      valueHint: "target",
    },
    ...SHELL_ARGS,
  },
  run: ({ args }) =>
    withShellClient(args, async (client) => {
      const asJson = args.json === true
      if (typeof args.target !== "string") {
        const servers = (await client.ask("servers")) as readonly OfferSummary[]
        print(asJson, servers, () => summaryTable(servers))
        return 0
      }
      const found = (await client.ask("target", { name: args.target })) as
        | { readonly server: ServerOffer }
        | { readonly tool: OfferedTool }
      if ("tool" in found) print(asJson, found.tool, () => toolText(found.tool))
      else print(asJson, found.server, () => serverText(found.server))
      return 0
    }),
}

// ---

/** The most tokens of a signature in a table. */
const SIGNATURE_TOKENS = 60
const DESCRIPTION_TOKENS = 60

function summaryTable(servers: readonly OfferSummary[]): string {
  if (servers.length === 0) return "this project has no servers; `svc mcp list` shows all servers of the configuration"
  const count = (one: number | undefined) => (one === undefined || one === 0 ? "" : String(one))
  return table(
    ["server", "state", "tools", "prompts", "resources", "templates"],
    servers.map(({ server, state, counts }) => [
      server,
      stateCell(state),
      counts === undefined ? "" : `${counts.tools}${hiddenNote(counts.hiddenTools)}`,
      ...[counts?.prompts, counts?.resources, counts?.resourceTemplates].map(count),
    ]),
  )
}

function serverText(offer: ServerOffer): string {
  const { server, state, serverInfo, protocolVersion, instructions, tools, prompts, resources } = offer
  const described = ({ title, name, version }: ListingEntry) => [title ?? name, version].filter(isText).join(" ")
  const lists = [
    table(
      ["tool", "state", "parameters", "description"],
      tools.map((tool) => [tool.name, toolState(tool), signature(tool), sentence(tool.description)]),
    ),
    table(
      ["prompt", "arguments", "description"],
      prompts.map(({ name, arguments: args, description }) => [name, argumentNames(args), sentence(description)]),
    ),
    table(
      ["resource", "name", "type", "description"],
      resources.map(({ uri, name, mimeType, description }) => [uri, text(name), text(mimeType), sentence(description)]),
    ),
    table(
      ["resource template", "name", "type", "description"],
      offer.resourceTemplates.map(({ uriTemplate, name, mimeType, description }) => [
        uriTemplate,
        text(name),
        text(mimeType),
        sentence(description),
      ]),
    ),
  ]
  const head = facts([
    ["state", stateCell(state)],
    ["server", described(serverInfo)],
    ["MCP", protocolVersion],
    ["instructions", oneLine(instructions ?? "", DESCRIPTION_TOKENS)],
  ])
  return [`${server}\n${head}`, ...lists.filter((list) => list.includes("\n"))].join("\n\n")
}

function toolText(tool: OfferedTool): string {
  const { server, name, qualifiedName, description, upstreamDescription, definition } = tool
  const { title, annotations, inputSchema, outputSchema }: ListingEntry = definition ?? {}
  const overridden = "upstreamDescription" in tool
  const parts = [
    `${server}/${name}\n${facts([
      ["name", qualifiedName],
      ["title", text(title)],
      ["state", toolState(tool)],
      ["hints", hintsOf(annotations)],
      ["description", text(description)],
      ["of the server", overridden ? text(upstreamDescription) || "(none)" : ""],
      ["overridden", Object.keys(tool.overrides ?? {}).join(", ")],
    ])}`,
    ...schemaText("parameters", inputSchema),
    ...schemaText("result", outputSchema),
  ]
  return parts.join("\n\n")
}

function schemaText(title: string, schema: unknown): readonly string[] {
  if (schema === undefined) return []
  const members = schemaFacts(schema)
  return [members.length === 0 ? `${title}: none` : `${title}\n${facts(members)}`]
}

/** Formats the annotations of a tool, such as `read-only, idempotent`. */
function hintsOf(annotations: unknown): string {
  if (!isObject(annotations)) return ""
  const words: readonly (readonly [key: string, yes: string, no: string])[] = [
    ["readOnlyHint", "read-only", "changes things"],
    ["destructiveHint", "destructive", "not destructive"],
    ["idempotentHint", "idempotent", "not idempotent"],
    ["openWorldHint", "reaches other systems", "reaches no other systems"],
  ]
  return words
    .flatMap(([key, yes, no]) => {
      if (typeof annotations[key] !== "boolean") return []
      return [annotations[key] ? yes : no]
    })
    .join(", ")
}

const signature = ({ definition }: OfferedTool): Cell => signatureOf(definition?.inputSchema, SIGNATURE_TOKENS)
const sentence = (value: unknown): string => oneLine(firstSentence(text(value)), DESCRIPTION_TOKENS)
const text = (value: unknown): string => (typeof value === "string" ? value : "")
const isText = (value: unknown): value is string => typeof value === "string" && value !== ""

const argumentNames = (args: unknown): string =>
  (Array.isArray(args) ? args : [])
    .flatMap((one: unknown) => (isObject(one) ? [`${text(one.name)}${one.required === true ? "*" : "?"}`] : []))
    .join(", ")
