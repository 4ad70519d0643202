/**
 * Applies a planned change: writes the documents, reloads, waits for the server, and undoes the change if the server does not
 * reach the required outcome.
 */
import * as z from "zod"
import type { Agent } from "../../agent/agent.ts"
import type { ReloadResult } from "../../agent/reload.ts"
import { offersNothing } from "../../agent/snapshot.ts"
import { loginHint } from "../../backend/client-transport.ts"
import { STATUS_BY_STATE } from "../../backend/supervision.ts"
import { failuresOf } from "../../catalog/listing.ts"
import { unknownOverridesText } from "../../catalog/tool-settings.ts"
import { slugOf } from "../../config/server-spec.ts"
import { formatIssue, publicMessage } from "../../lib/errors.ts"
import type { AppliedChange, DocumentChange } from "../../store/transaction.ts"
import type { Bundle } from "../registry/bundle.ts"
import { withBundle } from "./bundle.ts"
import { serverOf } from "./servers.ts"
import { type ToolContext, ToolError } from "./tool.ts"

/** The effect of a reload, for an answer. */
export const reloadSchema = z
  .object({
    applied: z.boolean().describe("False if the configuration is broken and the last valid one still runs"),
    added: z.array(z.string()),
    removed: z.array(z.string()),
    replaced: z.array(z.string()).describe("Restarted, because their launch changed"),
    retuned: z.array(z.string()).describe("Changed without a restart"),
    issues: z.array(z.string()).describe("All current problems of the configuration"),
  })
  .describe("The effect of the change on the running servers")
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

/** The result of a change. */
export type ChangeResult = { readonly outcome: ConnectOutcome; readonly reload: ReloadReport }

/** Makes a change that stays even if the server fails, and waits for the server. */
export async function applyEdit(
  { agent, editor }: Pick<ToolContext, "agent" | "editor">,
  name: string,
  change: DocumentChange,
): Promise<ChangeResult> {
  const { done, reloaded } = await editor.change(change)
  done.keep()
  return { outcome: await connectOutcome(agent, name), reload: reloadReport(reloaded) }
}

/** The outcome of a change for a server. */
export type ConnectOutcome =
  | {
      readonly kind: "connected"
      readonly tools: number
      /** The tools that its configuration hides. */
      readonly hiddenTools: number
      readonly empty: boolean
      readonly failing: readonly string[]
      readonly unknownOverrides: readonly string[]
    }
  /** The server waits for a person's authorization: at an address, or by `svc auth login`. */
  | { readonly kind: "awaiting_oauth"; readonly url: string | undefined }
  | { readonly kind: "error"; readonly reason: string }
  /** The server should not run: it is disabled, left out, or a template without instances. */
  | { readonly kind: "absent" }

/** Waits until a server is connected or has failed. */
export async function connectOutcome(agent: Agent, name: string): Promise<ConnectOutcome> {
  const backend = agent.backend(name)
  if (backend === undefined) return { kind: "absent" }
  await agent.readiness.whenSettled(backend)
  // A server counts as connected before it has answered slow lists; its offer is known after them.
  await agent.readiness.whenListed(backend, backend.spec.tuning.connectionTimeout)
  const { state, facts, listing } = backend
  if (listing !== undefined) {
    const { tools, prompts, resources, resourceTemplates } = listing
    const failing = failuresOf(listing)
    const isEmpty = tools.length + prompts.length + resources.length + resourceTemplates.length === 0
    // A server that could list nothing may be unusable.
    if (isEmpty && failing.length > 0) return { kind: "error", reason: failing.join("; ") }
    const listed = agent.snapshot().backends.find(({ spec }) => spec.id === name)?.listed
    return {
      kind: "connected",
      tools: listed?.tools ?? 0,
      hiddenTools: listed?.hiddenTools ?? 0,
      empty: listed !== undefined && offersNothing(listed),
      failing,
      unknownOverrides: listed?.unknownOverrides ?? [],
    }
  }
  const { authorizationUrl: url, lastError } = facts
  if (state.kind === "unauthorized" && (url !== undefined || lastError === loginHint(backend.spec.name)))
    return { kind: "awaiting_oauth", url }
  return { kind: "error", reason: lastError ?? `it is ${STATUS_BY_STATE[state.kind].status}` }
}

/** Returns the warnings about an outcome. */
export function warningsOf(name: string, outcome: ConnectOutcome): string[] {
  switch (outcome.kind) {
    case "connected":
      return [
        ...(outcome.empty ? [`${name} is connected but offers no tools, prompts or resources`] : []),
        ...outcome.failing.map((reason) => `${name}: ${reason}`),
        ...(outcome.unknownOverrides.length > 0 ? [`${name}: ${unknownOverridesText(outcome.unknownOverrides)}`] : []),
      ]
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

/** A change that svc undoes unless its outcome is the required one. */
export type VerifiedChange = {
  readonly name: string
  readonly change: DocumentChange
  /** Returns the change that undoes this one in documents that another program has changed since. */
  reverse(made: Pick<AppliedChange, "before" | "after">): DocumentChange
  /** Returns the reason to undo the change, or undefined to keep it. */
  refuse(outcome: ConnectOutcome, reloaded: ReloadResult): string | undefined
}

/** Makes a change and waits for the server. Throws a ToolError (rolled_back) if svc undid the change. */
export async function applyChange(
  context: ToolContext,
  { name, change, reverse, refuse }: VerifiedChange,
): Promise<ChangeResult & { readonly backup: string | undefined }> {
  const { agent, editor, signal, redactAll, lines } = context
  if (signal.aborted) throw new ToolError("conflict", "The caller cancelled the call")
  const { done, reloaded } = await editor.change(change, name)
  const outcome = await awaitOutcome(context, name)
  const refusal = refuse(outcome, reloaded)
  if (refusal === undefined) {
    done.keep()
    return { outcome, reload: reloadReport(reloaded), backup: done.backup }
  }
  const text = redactAll(refusal)
  // A backend's error already begins with the name.
  const reason = text.startsWith(`${name}: `) ? text : `${name}: ${text}`
  try {
    await done.undo(reverse(done))
  } catch (error) {
    await editor.reload()
    throw new ToolError(
      "internal",
      `${reason}. svc could not undo the change (${publicMessage(error)}): the file still contains it`,
    )
  }
  await editor.reload()
  await agent.whenStopped(name)
  const again = await connectOutcome(agent, name)
  const still =
    again.kind === "error" ? ` The previous version no longer connects either: ${redactAll(again.reason)}` : ""
  throw new ToolError("rolled_back", `${reason}. svc undid the change.${still}`, {
    data: { log: lines(slugOf(name)) },
  })
}

/** A server that is installed or updated. */
export type ServerInstallation = Omit<VerifiedChange, "refuse"> & {
  readonly bundle: Bundle | undefined
  /** Whether the server must connect. */
  readonly enabled: boolean
  /** Whether its configuration may hide every tool that it offers; true unless given. */
  readonly mayOfferNothing?: boolean
}

/** The members that the answers to an installation and to an update share. */
export type InstallationResult = {
  /** The status as `mcp_status` shows it; also `state`. */
  readonly status: string
  readonly state: string
  readonly tools: number | undefined
  readonly reload: ReloadReport
  readonly warnings: readonly string[]
}

/** Installs or updates a server with the files of its bundle. Only one such change runs at a time. */
export async function applyInstallation(
  context: ToolContext,
  { name, bundle, enabled, mayOfferNothing = true, change, reverse }: ServerInstallation,
): Promise<InstallationResult> {
  const check = enabled ? refuseUnconnected(name) : refuseUnapplied
  const refuse: VerifiedChange["refuse"] = (outcome, reloaded) =>
    check(outcome, reloaded) ?? (mayOfferNothing ? undefined : refuseHidden(outcome))
  const { outcome, reload } = await context.editor.exclusive(() =>
    withBundle(context, name, bundle, (placed) =>
      applyChange(context, { name, change: placed(change), reverse, refuse }),
    ),
  )
  const { status, state, tools } = serverOf(context, name)
  return { status, state, tools, reload, warnings: warningsOf(name, outcome) }
}

/** Requires that the configuration is applied. */
export const refuseUnapplied = (_outcome: ConnectOutcome, { applied, issues }: ReloadResult): string | undefined =>
  applied === undefined
    ? `the configuration was refused: ${issues.map(({ message }) => message).join("; ")}`
    : undefined

/** Requires that the server is connected and has answered its lists, or waits for a person's authorization. */
export const refuseUnconnected =
  (name: string) =>
  (outcome: ConnectOutcome, reloaded: ReloadResult): string | undefined => {
    const unapplied = refuseUnapplied(outcome, reloaded)
    if (unapplied !== undefined) return unapplied
    if (outcome.kind === "error") return outcome.reason
    if (outcome.kind !== "absent") return undefined
    const issues = reloaded.issues.filter(({ server }) => server === name)
    return issues.length > 0 ? issues.map(({ message }) => message).join("; ") : "it was removed from the file"
  }

// ---

/** Requires that a server whose configuration hides tools offers another one. */
const refuseHidden = (outcome: ConnectOutcome): string | undefined =>
  outcome.kind === "connected" && outcome.tools === 0 && outcome.hiddenTools > 0
    ? `disabledTools hides every tool that it offers (${outcome.hiddenTools}); hide fewer, or install it with confirmZeroTools: true`
    : undefined

/** Waits for a server and reports progress, until the caller cancels. */
async function awaitOutcome({ agent, clock, signal, progress }: ToolContext, name: string): Promise<ConnectOutcome> {
  const abandoned = Promise.withResolvers<ConnectOutcome>()
  const abort = () => abandoned.resolve({ kind: "error", reason: "the caller cancelled the call" })
  signal.addEventListener("abort", abort)
  let cancel: () => void
  const report = () => {
    progress(`waiting for ${name} to connect`)
    cancel = clock.after(PROGRESS_MS, report)
  }
  cancel = clock.after(PROGRESS_MS, report)
  const outcome = await Promise.race([abandoned.promise, connectOutcome(agent, name)])
  cancel()
  signal.removeEventListener("abort", abort)
  return outcome
}

const PROGRESS_MS = 2000
