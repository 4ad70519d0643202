/** `mcp_edit`: changes a server by a JSON merge patch, checked before it is written. */
import * as z from "zod"
import { hidesEveryTool } from "../../catalog/tool-settings.ts"
import { patchServer, renameServer } from "../../config/edit.ts"
import { HIDDEN } from "../../config/effective.ts"
import { openKeyWarnings, withoutNewKeys } from "../../config/externalize-secrets.ts"
import { isDisabled } from "../../config/plan.ts"
import { changedKeys, changedSettings, quoted, settingsOf } from "../../config/server-text.ts"
import { writtenValues } from "../../config/written-values.ts"
import { mapStrings } from "../../lib/json.ts"
import { visible } from "../../lib/log.ts"
import { isSecretName } from "../../lib/secret-names.ts"
import type { DocumentChange, WrittenDocuments } from "../../store/transaction.ts"
import type { Params } from "../../wire/message.ts"
import { applyEdit, reloadSchema, warningsOf } from "./apply-change.ts"
import { type ConsentKind, confirm, STARTING } from "./consent.ts"
import { type Question, questionOn } from "./consent-text.ts"
import { requireUnchanged, resolveServerName, validateChange, writtenServer } from "./plan-change.ts"
import { type Change, changeSchema, changesOf, listText, serverOf } from "./servers.ts"
import { defineTool, SERVER_NAME, type ToolContext, ToolError } from "./tool.ts"

export const mcpEdit = defineTool({
  name: "mcp_edit",
  category: "management",
  title: "Edit an MCP server's configuration",
  description:
    'Changes a server\'s configuration by a JSON merge patch (RFC 7396): members replace, null removes, objects merge, arrays are replaced whole. For example {"requestTimeout": 60000, "disabledTools": ["write_file"], "env": {"OLD": null}}. svc refuses an invalid result and writes nothing. Use dryRun first to see what would change. A person must approve changes to what runs and to what other clients see. Put secrets into .env and refer to them as ${NAME}, or set moveKeys.',
  annotations: { readOnlyHint: false, destructiveHint: true, idempotentHint: true, openWorldHint: false },
  input: z.object({
    serverName: SERVER_NAME,
    patch: z.record(z.string(), z.unknown()).default({}).describe("The merge patch; null removes a member"),
    newName: z.string().min(1).optional().describe("A new name for the server"),
    confirmZeroTools: z
      .boolean()
      .default(false)
      .describe("true lets the edit hide the last tool that the server offers"),
    moveKeys: z
      .boolean()
      .default(false)
      .describe("true moves what looks like a new key to .env, and writes references in its place"),
    dryRun: z.boolean().default(false).describe("Only show what would change"),
  }),
  output: z.object({
    serverName: z.string().describe("The server's name after the edit"),
    changes: z
      .array(changeSchema)
      .describe("What changes: the name, settings, and written values without an effect; secrets hidden"),
    dryRun: z.boolean(),
    status: z.string().optional().describe("The server's status after the edit, as mcp_status shows it"),
    state: z.string().optional().describe("The status in more detail, as mcp_status shows it"),
    reload: reloadSchema.optional(),
    warnings: z.array(z.string()),
  }),
  async run({ serverName, patch, newName, confirmZeroTools, moveKeys, dryRun }, context) {
    if (Object.keys(patch).length === 0 && newName === undefined)
      throw new ToolError("invalid_argument", "There is nothing to change; give a patch or a newName")
    const documents = context.editor.read()
    const name = resolveServerName(documents.config, serverName)
    const plan = planEdit(context, { documents, name, patch, newName, moveKeys })
    const { newName: after, changes, question } = plan
    const warnings = [...plan.warnings]
    if (!confirmZeroTools && wouldOfferNothing(context, name, plan.next)) {
      const message = `${name} would no longer offer any tool`
      if (!dryRun)
        throw new ToolError("confirmation_required", message, {
          hint: {
            tool: "mcp_edit",
            args: { serverName: name, patch, newName, confirmZeroTools: true },
            does: "with confirmZeroTools: true hides its last tool",
          },
        })
      warnings.push(message)
    }
    if (dryRun) {
      const renamed = newName === undefined ? "" : `; new name ${newName}`
      return {
        data: { serverName: after, changes, dryRun, warnings },
        text: `would change ${keysText(changes)}${renamed}`,
      }
    }
    const [consent, ...more] = plan.consents
    if (consent !== undefined) await confirm(context, [consent, ...more], question)
    const { outcome, reload } = await applyEdit(context, after, plan.change)
    const { status, state } = serverOf(context, after)
    return {
      data: {
        serverName: after,
        changes,
        dryRun,
        status,
        state,
        reload,
        warnings: [...warnings, ...warningsOf(after, outcome)],
      },
      text: changes.length === 0 ? `${after} already has these settings` : `changed ${after}: ${keysText(changes)}`,
    }
  },
})

export type EditRequest = {
  readonly documents: WrittenDocuments
  readonly name: string
  readonly patch: Params
  readonly newName: string | undefined
  readonly moveKeys: boolean
}

export type EditPlan = {
  /** The server's name after the edit. */
  readonly newName: string
  /** The server as mcp.json would contain it. */
  readonly next: Params
  readonly changes: readonly Change[]
  readonly warnings: readonly string[]
  /** The consents that a person must give; empty for an edit that an assistant may make alone. */
  readonly consents: readonly ConsentKind[]
  readonly question: Question
  readonly change: DocumentChange
}

/** Plans an edit. Throws a ToolError, or a RequestError, if its result is not valid. */
export function planEdit(
  context: Pick<ToolContext, "editor">,
  { documents, name, patch, newName = name, moveKeys }: EditRequest,
): EditPlan {
  const server = writtenServer(documents.config, name)
  const edited = ({ config, dotenv }: WrittenDocuments): WrittenDocuments => {
    const patched = patchServer(name, patch)(config)
    return { config: newName === name ? patched : renameServer(name, newName)(patched), dotenv }
  }
  const planned = edited(documents)
  // The question and the changes show what was given, so that no code hides in what moves.
  const moved = (before: WrittenDocuments, after: WrittenDocuments): WrittenDocuments =>
    moveKeys ? withoutNewKeys(before, after, [newName], context.editor.world) : after
  const result = moved(documents, planned)
  const warnings = [
    ...validateChange(context, documents, result),
    ...openKeyWarnings(documents.config, result.config, [newName]),
  ]
  const next = writtenServer(planned.config, newName)
  const changed = changedKeys(server, next)
  const starts = changed.includes("disabled") && !isDisabled(next)
  const consents = starts ? STARTING : consentsTo(changed, newName !== name)
  const effect = consents[0] === "installs" ? " and let svc run this" : ", as every client sees it"
  const unchanged = Object.fromEntries(Object.entries(next).filter(([key]) => !changed.includes(key)))
  const question = questionOn(`Change the MCP server ${quoted(name)}${effect}`, {
    server: next,
    kept: writtenValues(server),
    known: server,
    config: planned.config,
    lines: [
      ...(newName === name ? [] : [`name: ${visible(name)} -> ${visible(newName)}`]),
      ...changedSettings(server, next),
      // Shows all settings, because the person has not agreed to run this server before.
      ...(starts ? settingsOf(unchanged) : []),
    ],
  })
  const effective = changesOf(context, [name, documents], [newName, planned])
  return {
    newName,
    next,
    changes: [
      ...(newName === name ? [] : [{ key: "name", from: name, to: newName }]),
      ...effective,
      ...changedWithoutEffect(server, next, effective),
    ],
    warnings,
    consents,
    question,
    change(written) {
      requireUnchanged(written, documents, name)
      const changed = moved(written, edited(written))
      validateChange(context, written, changed)
      return changed
    },
  }
}

// ---

/**
 * The settings that an assistant may change alone. Every other setting affects what runs, where it connects, or which data it
 * receives.
 */
const HARMLESS: ReadonlySet<string> = new Set([
  "timeout",
  "connectionTimeout",
  "requestTimeout",
  "unresponsiveTimeout",
  "restartOnExit",
  "maxRestarts",
  "restartDelay",
  "isolation",
  "replicas",
  "idleTimeout",
  "maxProcesses",
  "rateLimit",
  "resultBudget",
  "protocolVersion",
])

/** The settings that change what every client's model reads: the set of tools, their names, and their descriptions. */
const OFFERED: ReadonlySet<string> = new Set([
  "tags",
  "disabled",
  "disabledTools",
  "toolDescriptionOverrides",
  "toolOverrides",
  "alwaysLoad",
  "searchHint",
  "toolPinning",
])

/** Returns the consents that a person must give to change these settings. */
function consentsTo(keys: readonly string[], renamed: boolean): readonly ConsentKind[] {
  const installs = keys.some((key) => !HARMLESS.has(key) && !OFFERED.has(key))
  const edits = renamed || keys.some((key) => OFFERED.has(key))
  return [...(installs ? ["installs" as const] : []), ...(edits ? ["edits" as const] : [])]
}

/** Whether an edit would hide all tools of a server that offers some now. */
function wouldOfferNothing({ agent }: ToolContext, name: string, { disabledTools }: Params): boolean {
  return hidesEveryTool(agent.find(name), Array.isArray(disabledTools) ? disabledTools.map(String) : [])
}

/** Returns the written settings that differ without an effect: unknown keys, and values that equal the default. */
function changedWithoutEffect(before: Params, after: Params, effective: readonly Change[]): readonly Change[] {
  const isCovered = (key: string) => effective.some((one) => one.key === key || one.key.startsWith(`${key}.`))
  return changedKeys(before, after).flatMap((key) =>
    isCovered(key) ? [] : [{ key, from: shownValue(key, before[key]), to: shownValue(key, after[key]) }],
  )
}

/** Returns a written value as text, with secrets hidden. */
function shownValue(key: string, value: unknown): string | undefined {
  if (value === undefined) return undefined
  if (HOLDS_SECRETS.has(key) || isSecretName(key)) return HIDDEN
  const shown = mapStrings(value, (text, path) => (path.some((part) => isSecretName(String(part))) ? HIDDEN : text))
  return typeof shown === "string" ? shown : JSON.stringify(shown)
}

const HOLDS_SECRETS: ReadonlySet<string> = new Set(["env", "headers", "oauth"])

const keysText = (changes: readonly Change[]): string =>
  changes.length === 0 ? "nothing" : listText(changes.map(({ key }) => key))
