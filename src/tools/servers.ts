/** The servers as they are written and as they run, together: what `mcp_list`, `mcp_status` and `mcp_info` show. */
import * as z from "zod"
import { parseDocument } from "../config/document.ts"
import { writtenServers } from "../config/edit.ts"
import { effectiveOf } from "../config/effective.ts"
import { isDisabled, slugOf } from "../config/plan.ts"
import { ConfigError } from "../lib/errors.ts"
import { type ServerStatus, type Status, statusOf } from "../report/status.ts"
import type { WrittenDocuments } from "../store/transaction.ts"
import type { Params } from "../wire/message.ts"
import { resolveServerName } from "./apply-change.ts"
import type { ToolContext } from "./tool.ts"

export const serverDetailsSchema = z.object({
  name: z.string(),
  type: z.string().describe("stdio, http, sse or streamableHttp"),
  enabled: z.boolean(),
  template: z.boolean().describe("Rendered for each project and client; its instances run"),
  status: z.enum(["connected", "error", "disconnected", "awaiting_oauth"]),
  state: z
    .string()
    .describe("More exactly: connected, degraded, starting, waiting for a retry, crashed, disabled, left out …"),
  tools: z.number().optional().describe("How many tools it offers, while it is connected"),
  tags: z.array(z.string()),
  lastError: z.string().optional(),
})

export type ServerDetails = z.infer<typeof serverDetailsSchema> & { readonly instances: readonly ServerStatus[] }

/** All servers of the file, in its order, each with what runs of it; of a file that is broken those that run still. */
export function serversOf({ agent, editor, redactAll }: ToolContext): readonly ServerDetails[] {
  const status = statusOf(agent.snapshot(), redactAll)
  return [...writtenOr(status, editor.read().config)].map(([name, { section, server }]) => {
    const instances = status.servers.filter((one) => one.name === name)
    const enabled = !isDisabled(server)
    const template = section === "mcpTemplates"
    // The worst instance speaks for the rest.
    const shown =
      instances.find((one) => one.status !== "connected") ??
      instances.find((one) => one.issues !== undefined) ??
      instances[0]
    const state = !enabled ? "disabled" : (shown?.state ?? (template ? "no instance" : "left out"))
    return {
      name,
      type: shown?.type ?? (typeof server.type === "string" ? server.type : "url" in server ? "http" : "stdio"),
      enabled,
      template,
      status: (shown?.status ?? (state === "left out" ? "error" : "disconnected")) as ServerDetails["status"],
      state,
      tags: Array.isArray(server.tags) ? server.tags.map(String) : [],
      ...(shown?.tools === undefined ? {} : { tools: shown.tools }),
      ...(shown?.lastError === undefined ? {} : { lastError: shown.lastError }),
      instances,
    }
  })
}

/** One of them. Throws a ToolError (not_found). */
export function serverOf(context: ToolContext, given: string): ServerDetails {
  const all = serversOf(context)
  const found = all.find(({ name }) => name === given) ?? all.find(({ name }) => slugOf(name) === given)
  return (
    found ?? (all.find(({ name }) => name === resolveServerName(context.editor.read().config, given)) as ServerDetails)
  )
}

/** What runs now, cleaned. */
export const runningOf = ({ agent, redactAll }: ToolContext): Status => statusOf(agent.snapshot(), redactAll)

export const valueSchema = z.object({ key: z.string(), value: z.string(), from: z.array(z.string()) })

/** What a server is started with and where each value came from, secrets hidden. */
export function valuesOf(
  { editor }: ToolContext,
  name: string,
  texts: WrittenDocuments = editor.read(),
  showSecrets = false,
): z.infer<typeof valueSchema>[] {
  try {
    const document = parseDocument(texts.config, "mcp.json")
    const rows = effectiveOf(document, name, editor.world(texts.dotenv), showSecrets) ?? []
    return rows.map(({ key, value, from }) => ({ key, value, from: [...from] }))
  } catch (error) {
    if (error instanceof ConfigError) return []
    throw error
  }
}

export const changeSchema = z.object({
  key: z.string(),
  from: z.string().optional().describe("Absent where the value is new"),
  to: z.string().optional().describe("Absent where the value goes"),
})

/** How the values of a server differ; of a secret that changes it is only said that it does. */
export function changesOf(
  context: ToolContext,
  before: readonly [name: string, texts: WrittenDocuments],
  after: readonly [name: string, texts: WrittenDocuments],
): z.infer<typeof changeSchema>[] {
  const rows = ([name, texts]: typeof before, showSecrets: boolean) =>
    new Map(valuesOf(context, name, texts, showSecrets).map(({ key, value }) => [key, value]))
  const [old, now, oldShown, nowShown] = [
    rows(before, true),
    rows(after, true),
    rows(before, false),
    rows(after, false),
  ]
  return [...new Set([...old.keys(), ...now.keys()])].flatMap((key) => {
    if (old.get(key) === now.get(key)) return []
    const [from, to] = [oldShown.get(key), nowShown.get(key)]
    return [{ key, ...(from === undefined ? {} : { from }), ...(to === undefined ? {} : { to }) }]
  })
}

/** A list in a sentence. */
export const listed = (names: readonly string[]): string => (names.length === 0 ? "none" : names.join(", "))

// ---

/** The servers as they are written, or as they run where the file is no document any more: the last good plan goes on. */
function writtenOr({ servers, templates, disabled }: Status, config: string): ReturnType<typeof writtenServers> {
  try {
    return writtenServers(config)
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
  }
  const running: readonly (readonly [string, { readonly section: string; readonly server: Params }])[] = [
    ...servers.map(({ name, type, tags }) => [name, { section: "mcpServers", server: { type, tags } }] as const),
    ...templates.map((name) => [name, { section: "mcpTemplates", server: {} }] as const),
    ...disabled.map((name) => [name, { section: "mcpServers", server: { disabled: true } }] as const),
  ]
  return new Map(running)
}
