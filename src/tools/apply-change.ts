/**
 * A change that a tool makes, and what became of it: what the reload did, how the server came up, and the way back where
 * that is not what it must be.
 */
import { isDeepStrictEqual } from "node:util"
import * as z from "zod"
import type { Agent } from "../agent/agent.ts"
import type { ReloadResult } from "../agent/reload.ts"
import { loginHint } from "../backend/link.ts"
import { STATUS_BY_STATE } from "../backend/supervision.ts"
import { failuresOf } from "../catalog/listing.ts"
import { parseDocument } from "../config/document.ts"
import { type Edit, writtenServers } from "../config/edit.ts"
import { plan, slugOf } from "../config/plan.ts"
import { ConfigError, formatIssue, type Issue, publicMessage } from "../lib/errors.ts"
import { nearest } from "../lib/nearest.ts"
import type { DocumentChange, WrittenDocuments } from "../store/transaction.ts"
import { readTemplates } from "../template/instance.ts"
import type { Params } from "../wire/message.ts"
import { type ToolContext, ToolError } from "./tool.ts"

/** What a reload did, in an answer. */
export const reloadSchema = z
  .object({
    applied: z.boolean().describe("False where the configuration is broken and the last good one still runs"),
    added: z.array(z.string()),
    removed: z.array(z.string()),
    replaced: z.array(z.string()).describe("Restarted, for what starts them has changed"),
    retuned: z.array(z.string()).describe("Changed without a restart"),
    issues: z.array(z.string()).describe("Everything that is wrong with the configuration now"),
  })
  .describe("What the change of the file did to what runs")
export type ReloadReport = z.infer<typeof reloadSchema>

export function reloadReport({ applied, issues }: ReloadResult): ReloadReport {
  return {
    applied: applied !== undefined,
    added: [...(applied?.added ?? [])],
    removed: [...(applied?.removed ?? [])],
    replaced: [...(applied?.replaced ?? [])],
    retuned: [...(applied?.retuned ?? [])],
    issues: issues.map(formatIssue),
  }
}

/** Changes the documents for good. */
export async function applyEdit({ editor }: ToolContext, change: DocumentChange): Promise<ReloadReport> {
  const { done, reloaded } = await editor.change(change)
  done.keep()
  return reloadReport(reloaded)
}

/** What is to be said of the documents as they would be. Throws where that leaves a server out. */
export function validateChange({ editor }: ToolContext, before: WrittenDocuments, after: WrittenDocuments): string[] {
  const issuesOf = ({ config, dotenv }: WrittenDocuments): readonly Issue[] => {
    try {
      const document = parseDocument(config, "mcp.json")
      const world = editor.world(dotenv)
      const { issues, templates } = plan(document, world)
      return [...issues, ...readTemplates(document, templates, world).issues]
    } catch (error) {
      if (error instanceof ConfigError) return error.issues
      throw error
    }
  }
  const known = new Set(issuesOf(before).map(({ message }) => message))
  const fresh = issuesOf(after).filter(({ message }) => !known.has(message))
  const errors = fresh.filter(({ severity }) => severity === "error")
  if (errors.length > 0) throw new ToolError("invalid_argument", errors.map(({ message }) => message).join("; "))
  return fresh.map(({ message }) => message)
}

/** Throws a ToolError where a server is not written as it was when a person was asked: they agreed to what it came to then. */
export function unchanged({ config }: WrittenDocuments, name: string, before: Params): void {
  if (!isDeepStrictEqual(writtenServers(config).get(name)?.server, before))
    throw new ToolError("conflict", `${name} was changed meanwhile: look at it again, and ask again`)
}

/** An edit of mcp.json as a change of both documents. */
export const configChange =
  (edit: Edit): DocumentChange =>
  ({ config, dotenv }) => ({ config: edit(config), dotenv })

/** The name under which a server is written; its slug leads to it too. Throws a ToolError (not_found). */
export function resolveServerName(config: string, given: string): string {
  const names = [...writtenServers(config).keys()]
  const found = names.find((name) => name === given) ?? names.find((name) => slugOf(name) === given)
  if (found !== undefined) return found
  const near = nearest(given, names)
  const hint = near === undefined ? "; mcp_list shows those that there are" : `; did you mean ${near}?`
  throw new ToolError("not_found", `No server is named ${given.slice(0, 200)}${hint}`)
}

/** How a server came out of a change. */
export type ConnectOutcome =
  | { readonly kind: "connected"; readonly tools: number; readonly empty: boolean; readonly failing: readonly string[] }
  /** It waits for a person's authorization: at an address, or by `svc auth login`. */
  | { readonly kind: "awaiting_oauth"; readonly url: string | undefined }
  | { readonly kind: "error"; readonly reason: string }
  /** Nothing of it is to run: disabled, left out, or a template without instances. */
  | { readonly kind: "absent" }

/** Waits until a server is connected or is not going to be. */
export async function connectOutcome(agent: Agent, name: string): Promise<ConnectOutcome> {
  const backend = agent.backend(name)
  if (backend === undefined) return { kind: "absent" }
  await agent.readiness.whenSettled(backend)
  const { state, facts, published } = backend
  if (published !== undefined) {
    const { tools, prompts, resources, resourceTemplates } = published.listing
    const empty = tools.length + prompts.length + resources.length + resourceTemplates.length === 0
    const failing = failuresOf(published.listing)
    // What it is for is not known.
    if (empty && failing.length > 0) return { kind: "error", reason: failing.join("; ") }
    return { kind: "connected", tools: tools.length, empty, failing }
  }
  const { authorizationUrl: url, lastError } = facts
  if (state.kind === "unauthorized" && (url !== undefined || lastError === loginHint(backend.spec.name)))
    return { kind: "awaiting_oauth", url }
  return { kind: "error", reason: lastError ?? `it is ${STATUS_BY_STATE[state.kind].status}` }
}

/** What has to be said of an outcome, for `warnings`. */
export function warningsOf(name: string, outcome: ConnectOutcome): string[] {
  switch (outcome.kind) {
    case "connected":
      return outcome.empty
        ? [`${name} is connected but offers nothing at all`]
        : outcome.failing.map((reason) => `${name}: ${reason}`)
    case "awaiting_oauth":
      return [
        `${name} waits until a person ${outcome.url === undefined ? `runs \`svc auth login ${name}\`` : `opens ${outcome.url}`}`,
      ]
    case "error":
      return [`${name} does not run: ${outcome.reason}`]
    case "absent":
      return []
  }
}

/** What a change must come to, or is taken back. */
export type VerifiedChange = {
  readonly name: string
  readonly change: DocumentChange
  /** Takes the change out of a text that somebody else has edited meanwhile. */
  readonly reverse: DocumentChange
  /** What must hold after it; a text says why it does not. */
  accept(outcome: ConnectOutcome, reloaded: ReloadResult): string | undefined
}

/** Makes a change and waits for what becomes of the server; where that is not what it must be, all is as it was before. */
export async function applyChange(
  { agent, editor, clock, signal, redactAll, lines, progress }: ToolContext,
  { name, change, reverse, accept }: VerifiedChange,
): Promise<{ readonly outcome: ConnectOutcome; readonly reload: ReloadReport; readonly backup: string | undefined }> {
  if (signal.aborted) throw new ToolError("conflict", "The caller gave up")
  const { done, reloaded } = await editor.change(change, name)
  const given = Promise.withResolvers<ConnectOutcome>()
  const abort = () => given.resolve({ kind: "error", reason: "the caller gave up" })
  signal.addEventListener("abort", abort)
  let cancel: () => void
  const tell = () => {
    progress(`waiting for ${name} to connect`)
    cancel = clock.after(PROGRESS_MS, tell)
  }
  cancel = clock.after(PROGRESS_MS, tell)
  const outcome = await Promise.race([given.promise, connectOutcome(agent, name)])
  cancel()
  signal.removeEventListener("abort", abort)
  const why = accept(outcome, reloaded)
  if (why === undefined) {
    done.keep()
    return { outcome, reload: reloadReport(reloaded), backup: done.backup }
  }
  // An error of a backend has its name in front already.
  const said = redactAll(why)
  const reason = said.startsWith(`${name}: `) ? said : `${name}: ${said}`
  try {
    await done.undo(reverse)
  } catch (error) {
    editor.reload()
    throw new ToolError(
      "internal",
      `${reason}. It could not be taken back (${publicMessage(error)}): the file is as the change left it`,
    )
  }
  editor.reload()
  await agent.whenStopped(name)
  const again = await connectOutcome(agent, name)
  const still =
    again.kind === "error" ? ` What ran before does not run any more either: ${redactAll(again.reason)}` : ""
  throw new ToolError("rolled_back", `${reason}. Everything is as it was before.${still}`, {
    log: lines(slugOf(name)),
  })
}

// ---

const PROGRESS_MS = 2000
