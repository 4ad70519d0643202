/** Joins the servers in the file with their running instances, for `mcp_list`, `mcp_status` and `mcp_info`. */
import * as z from "zod"
import { parseDocument } from "../../config/document.ts"
import { writtenServers } from "../../config/edit.ts"
import { type EffectiveValue, effectiveOf, valueText } from "../../config/effective.ts"
import { slugOf } from "../../config/server-spec.ts"
import { ConfigError } from "../../lib/errors.ts"
import { describeServers, runningServers } from "../../report/servers.ts"
import { type ServerStatus, type Status, statusOf } from "../../report/status.ts"
import type { WrittenDocuments } from "../../store/transaction.ts"
import { resolveServerName } from "./plan-change.ts"
import type { Immutable, ToolContext } from "./tool.ts"

export const serverDetailsSchema = z.object({
  name: z.string(),
  type: z.string().describe("stdio, http, sse or streamableHttp"),
  enabled: z.boolean(),
  template: z.boolean().describe("Whether the server is a template, which svc renders for each project and client"),
  status: z.enum(["connected", "error", "disconnected", "awaiting_oauth"]),
  state: z
    .string()
    .describe(
      "The status in more detail: starting, connected, asleep (idle, until the next call), degraded, reconnecting, restarting, crash-loop, failed, sign-in needed, token needed, credentials refused, disabled, invalid, no owner (a server that no replica of the cluster runs), not in use (a template without instances), not loaded or, in commands, not running",
    ),
  tools: z.number().optional().describe("Number of tools that clients see; only while the server is connected"),
  hiddenTools: z.number().optional().describe("Number of tools that are hidden from clients"),
  healthy: z
    .boolean()
    .optional()
    .describe(
      "Whether the server is connected and answers pings, and no request has failed in transport recently; absent if svc is not running the server",
    ),
  tags: z.array(z.string()),
  lastError: z.string().optional().describe("Why the server is not healthy"),
})

export type ServerDetails = Immutable<z.infer<typeof serverDetailsSchema>> & {
  readonly instances: readonly ServerStatus[]
}

/** The part of the context that describes servers. */
export type ServersContext = Pick<ToolContext, "agent" | "clock" | "editor" | "redactAll">

/**
 * Returns all servers of mcp.json in its order, each with its running instances. If the file is broken, returns the servers that
 * still run.
 */
export function serversOf(context: ServersContext): readonly ServerDetails[] {
  const status = runningOf(context)
  return describeServers(writtenOr(status, context.editor.read().config), status)
}

/** Returns the server with a name or slug. Throws a ToolError (not_found). */
export function serverOf(context: ToolContext, given: string): ServerDetails {
  const all = serversOf(context)
  const found = all.find(({ name }) => name === given) ?? all.find(({ name }) => slugOf(name) === given)
  if (found !== undefined) return found
  const name = resolveServerName(context.editor.read().config, given)
  // The server was written after `all` was read.
  return serverOf(context, name)
}

/** Returns the status of the running servers, with credentials, paths and addresses masked. */
export const runningOf = ({ agent, clock, redactAll }: ServersContext): Status =>
  statusOf(agent.snapshot(), clock.now(), redactAll)

export const valueSchema = z.object({
  key: z.string(),
  value: z.unknown().describe("The value with its type; secrets are hidden"),
  from: z
    .array(z.string())
    .describe("Where the value was set: server, template, default, env, .env, or built-in (svc's own default)"),
  ignored: z
    .literal(true)
    .optional()
    .describe("The value has no effect on this kind of server, or together with its other values"),
})

/**
 * Returns the effective values of a server and the origin of each, as `svc mcp status --verbose --json` shows them. Hides secrets
 * and headers unless `showSecrets`.
 */
export function valuesOf(
  { editor }: Pick<ToolContext, "editor">,
  name: string,
  texts: WrittenDocuments = editor.read(),
  showSecrets = false,
): EffectiveValue[] {
  try {
    const document = parseDocument(texts.config, "mcp.json")
    return [...(effectiveOf(document, name, editor.world(texts.dotenv), showSecrets) ?? [])]
  } catch (error) {
    if (error instanceof ConfigError) return []
    throw error
  }
}

export const changeSchema = z.object({
  key: z.string(),
  from: z.string().optional().describe("Absent if the value is new"),
  to: z.string().optional().describe("Absent if the value is removed"),
})

/** An effective value of a server, before and after a change. */
export type Change = { readonly key: string; readonly from: string | undefined; readonly to: string | undefined }

/** Returns the effective values of a server that differ after a change, with secrets hidden. */
export function changesOf(
  context: Pick<ToolContext, "editor">,
  before: readonly [name: string, texts: WrittenDocuments],
  after: readonly [name: string, texts: WrittenDocuments],
): readonly Change[] {
  // Built-in values are not part of a change.
  const rows = ([name, texts]: typeof before, showSecrets: boolean) =>
    new Map(
      valuesOf(context, name, texts, showSecrets)
        .filter(({ key, from }) => key === "type" || !from.includes("built-in"))
        .map(({ key, value }) => [key, valueText(value)]),
    )
  const [old, now, oldShown, nowShown] = [
    rows(before, true),
    rows(after, true),
    rows(before, false),
    rows(after, false),
  ]
  return [...new Set([...old.keys(), ...now.keys()])].flatMap((key) => {
    return old.get(key) === now.get(key) ? [] : [{ key, from: oldShown.get(key), to: nowShown.get(key) }]
  })
}

/** Returns the word for a server's status in a sentence. */
export const statusWord = ({ status, state }: { readonly status?: unknown; readonly state?: unknown }): string =>
  String(state === "disabled" ? state : status)

/** Returns a list for a sentence. */
export const listText = (names: readonly string[]): string => (names.length === 0 ? "none" : names.join(", "))

// ---

/** Returns the servers of the file, or the running ones if the file is no longer JSON: the last valid plan still runs. */
function writtenOr(status: Status, config: string): ReturnType<typeof writtenServers> {
  try {
    return writtenServers(config)
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
  }
  return runningServers(status)
}
