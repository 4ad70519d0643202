/** Reports tools with definitions that differ from the approved or first seen ones, and the differences. */
import type { Agent } from "../agent/agent.ts"
import type { Backend } from "../backend/backend.ts"
import { diffDefinitions } from "../catalog/definition-diff.ts"
import { definitionOf, fingerprintOf, isSuspicious } from "../catalog/fingerprint.ts"
import type { ListingEntry, Tool } from "../catalog/listing.ts"
import { RequestError } from "../lib/errors.ts"
import type { DiffLine } from "../lib/line-diff.ts"
import { stepsOf } from "../lib/steps.ts"

export type Approval = {
  readonly server: string
  /** The instance, if the server is a template. */
  readonly instance?: string
  /** The server's own name of the tool. */
  readonly tool: string
  /** Whether the tool is hidden from clients until it is approved. */
  readonly held: boolean
  /** Whether a text of the tool contains invisible characters. */
  readonly suspicious: boolean
  /** The hash of the current definition. */
  readonly hash: string
  /** The part of the definition that a model reads, now. */
  readonly definition: ListingEntry
  /** The same part before the change; undefined if svc has stored only its hash. */
  readonly before?: ListingEntry
  /** The lines of both definitions; without `before`, all lines count as added. */
  readonly diff: readonly DiffLine[]
}

/** A changed tool that has not been compared yet. */
export type PendingChange = Pick<Approval, "server" | "instance" | "tool"> & {
  readonly backend: Backend
  readonly listed: Tool
}

/** Returns the changed tools of all servers, or of one. */
export function pendingChanges(agent: Agent, server?: string): readonly PendingChange[] {
  const backends = server === undefined ? agent.all() : agent.find(server)
  return backends.flatMap((backend) => {
    const { id, name } = backend.spec
    return agent
      .changedTools(backend)
      .map((listed) => ({ server: name, ...(id === name ? {} : { instance: id }), tool: listed.name, backend, listed }))
  })
}

/**
 * Compares the first of some changes, at least one: as many as fit into an answer. Servers choose the number and the length of
 * definitions, so all comparisons share a limit of steps.
 */
export function approvalsOf(
  agent: Agent,
  changes: readonly PendingChange[],
  steps = stepsOf(MAX_STEPS),
): readonly Approval[] {
  const approved = agent.approvedDefinitions([...new Set(changes.map(({ backend }) => backend.spec.id))])
  const approvals: Approval[] = []
  let left = MAX_CHARACTERS
  for (const { backend, listed, ...names } of changes) {
    const before = approved.get(backend.spec.id)?.get(listed.name)
    const definition = definitionOf(listed)
    left -= JSON.stringify([definition, before]).length
    if (left < 0 && approvals.length > 0) break
    approvals.push({
      ...names,
      held: agent.isQuarantined(backend, listed.name),
      suspicious: isSuspicious(listed),
      hash: fingerprintOf(listed),
      definition,
      ...(before === undefined ? {} : { before }),
      diff: diffDefinitions(before ?? {}, definition, steps),
    })
  }
  return approvals
}

/** Characters of the definitions in one answer. */
const MAX_CHARACTERS = 128 * 1024
/** Steps of all comparisons in one answer. */
const MAX_STEPS = 200_000

/**
 * Approves one changed tool of a server, or all; with `hash`, only the definition with that hash. Returns the names of the
 * approved tools. Throws a RequestError (conflict) if the current definition has another hash.
 */
export function approveTools(
  agent: Agent,
  server: string,
  tool: string | undefined,
  hash: string | undefined,
): readonly string[] {
  const approved = agent.approve(server, tool, hash)
  if (hash !== undefined && approved.length === 0)
    throw new RequestError(
      "conflict",
      `${tool ?? "the tools"} of ${server} changed again, or ${tool === undefined ? "need" : "needs"} no approval; review the changes again`,
    )
  return approved
}
